//! Reads the events that were last seen, the latest first. An event whose stated time is long after
//! it was observed is sorted as if it had been seen soon after that.
//!
//! Row groups are read from the one that may have the latest on, until no other can have a later
//! one. A version counts only if it is its event's newest, which is looked for in the rows about
//! the same object of files that were written at the same time or later.
//!
//! Memory: [`VERSIONS_MAX`] versions, and those of some row groups; what is beyond is left to the
//! next page. So are row groups beyond a number, except those that may have events of the moment
//! from which the page begins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use futures::future::{BoxFuture, try_join, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings_store::{NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Place, Record, UnixMillis};

use super::list::Keyed;
use crate::manifest::File;
use crate::reader::fault::Fault;
use crate::reader::keys::names::{self, Order};
use crate::reader::keys::{self, Position, borrowed};
use crate::reader::plan::Selection;
use crate::reader::plan::{At, GROUPS_TOGETHER, Pick, View};
use crate::reader::plan::{Objects, Part};
use crate::reader::scan::columns::{self, Filter, Rows};
use crate::reader::scan::leaf::{self, Leaf};
use crate::reader::scan::{Footer, Group};

/// Maximum versions that are held, sorted by time.
const VERSIONS_MAX: usize = 16_384;
/// An archive's clock is assumed to go back by less than this, in microseconds.
const CLOCKS_DIFFER_MICROS: i64 = 10 * 60_000_000;
/// Number of files opened at once, and of row groups read at once to find later versions.
const AT_ONCE: usize = 4;
/// Number of row groups that one step reads or inspects at once.
const GROUPS_AT_ONCE: usize = 8;
/// Maximum versions of an object per wanted event for which bytes are fetched ahead. The bytes are
/// then asked for before it is known which versions are the newest.
const AHEAD: usize = 8;
/// Number of versions that are checked for newer ones at once. Each check goes through the bloom
/// filters of all newer files.
const LOOKED_AT_ONCE: usize = 4096;
/// Maximum events whose bytes are read at once, if a page has room for about so many. Events of one
/// time are spread over a file, so that each read decodes most of its pages.
const EVENTS_AT_ONCE: usize = 1024;

/// A page of the newest events.
#[derive(Debug, Default)]
pub(in crate::reader) struct Latest {
    pub(in crate::reader) records: Vec<Record>,
    /// Where the page stopped, if there may be more.
    pub(in crate::reader) place: Option<Place>,
}

/// A file or row group to be read; units are sorted by the latest time they may have.
enum Unit {
    File(usize),
    Group(usize, usize),
}

/// A version by its time, and where it is.
type Found = (Place, At);

/// The newest versions of one object's events.
#[derive(Default)]
struct NewestOfObject {
    /// By name at the source and uid; with whether the request asks for it.
    events: HashMap<(String, String), (Order, Found, bool)>,
    /// The uid of the youngest event of each name.
    youngest: HashMap<String, (Order, String)>,
}

impl NewestOfObject {
    fn add(&mut self, keyed: Keyed, place: Place, is_asked: bool) {
        let young = self.youngest.get(&keyed.base);
        if young.is_none_or(|(order, _)| *order < keyed.order) {
            let young = (keyed.order, keyed.uid.clone());
            self.youngest.insert(keyed.base.clone(), young);
        }
        let id = (keyed.base, keyed.uid);
        let known = self.events.get(&id);
        if known.is_none_or(|(order, ..)| *order < keyed.order) {
            let found = (place, keyed.at);
            self.events.insert(id, (keyed.order, found, is_asked));
        }
    }

    /// The events the request asks for, the latest first.
    fn picks(self, object: &keys::Place) -> Vec<(Place, Pick)> {
        let asked = self.events.into_iter();
        let asked = asked.filter(|(_, (.., is_asked))| *is_asked);
        let picks = asked.map(|((base, uid), (order, (found, at), _))| {
            let young = self.youngest.get(&base);
            let shown = match young.filter(|(_, young)| *young != uid) {
                Some(_) => names::elder(&base, &uid),
                None => base.clone(),
            };
            let place = object.clone();
            let position = Position { place, base, uid };
            let pick = Pick {
                position,
                shown,
                order,
                at,
            };
            (found, pick)
        });
        let mut picks: Vec<_> = picks.collect();
        picks.sort_by_key(|(place, _)| Reverse(*place));
        picks
    }
}

/// The columns in which texts are searched.
const SEARCHED: [Leaf; 6] = [
    leaf::MESSAGE,
    leaf::REASON,
    leaf::SOURCE,
    leaf::REPORTING_CONTROLLER,
    leaf::KIND,
    leaf::NAME,
];

/// Whether each text, in lower case, is in one of a version's [`SEARCHED`] fields; the kind and the
/// name count as one.
fn has(texts: &[String], fields: &[&[u8]]) -> bool {
    let lower = |field: &&[u8]| String::from_utf8_lossy(field).to_lowercase();
    let mut fields: Vec<String> = fields.iter().map(lower).collect();
    if let (Some(name), Some(kind)) = (fields.pop(), fields.pop()) {
        fields.push(format!("{kind}/{name}"));
    }
    let mut texts = texts.iter();
    texts.all(|text| fields.iter().any(|field| field.contains(text)))
}

/// What a request asks for.
struct Asked<'a> {
    request: &'a NewestRequest,
    selection: Selection,
}

impl Asked<'_> {
    fn times(&self) -> (i64, i64) {
        let since = self.request.since.map_or(i64::MIN, |since| since.0);
        let until = self
            .request
            .behind()
            .map_or(i64::MAX, |behind| behind.last_seen.0);
        (since, until)
    }

    /// Returns the latest wanted time within a range of times, if there is one.
    fn latest(&self, (from, to): (i64, i64)) -> Option<i64> {
        let (since, until) = self.times();
        (to >= since && from <= until).then(|| to.min(until))
    }
}

impl View {
    /// Reads the newest events of a request, of one namespace if it is given.
    pub(in crate::reader) async fn newest(
        &self,
        namespace: Option<String>,
        request: &NewestRequest,
    ) -> Result<Latest, Fault> {
        let asked = Asked {
            request,
            selection: Selection::new(namespace, request.object.clone()),
        };
        if asked.selection.is_of_object()
            && let Some(latest) = self.newest_of_object(&asked).await?
        {
            return Ok(latest);
        }
        let mut units = self.files_of(&asked);
        let mut found: BinaryHeap<Found> = BinaryHeap::new();
        // Versions up to this place were read but not kept.
        let mut left_out: Option<Place> = None;
        let mut latest = Latest::default();
        let mut bytes = 0;
        let mut reached = None;
        let begun = units.keys().next_back().map(|(time, _)| *time);
        let mut groups = 0;
        loop {
            let bound = units.keys().next_back().map(|(time, _)| *time);
            let is_certain = |found: &Found| bound.is_none_or(|bound| found.0.last_seen.0 > bound);
            while let Some(top) = found.peek().filter(|top| is_certain(top)) {
                if left_out.is_some_and(|left_out| top.0 <= left_out) {
                    latest.place = reached.or(left_out);
                    return Ok(latest);
                }
                let wanted = request.limit.saturating_sub(latest.records.len());
                if wanted == 0 || bytes >= PAGE_BYTES_MAX {
                    latest.place = reached;
                    return Ok(latest);
                }
                let mut some = Vec::new();
                while some.len() < wanted.min(LOOKED_AT_ONCE)
                    && let Some(top) = found.peek().filter(|top| is_certain(top))
                    && left_out.is_none_or(|left_out| top.0 > left_out)
                {
                    some.push(*top);
                    found.pop();
                }
                let newest = self.looked_into(&some).await?;
                let mut rest = &newest[..];
                while !rest.is_empty() {
                    if bytes >= PAGE_BYTES_MAX {
                        latest.place = reached;
                        return Ok(latest);
                    }
                    let room = PAGE_BYTES_MAX - bytes;
                    let (newest, others) = rest.split_at(self.at_once(rest, room).await?);
                    rest = others;
                    let picks: Vec<Pick> = newest.iter().map(|(_, pick)| pick.clone()).collect();
                    for record in self.records(&picks, &asked.selection).await? {
                        bytes += record.value.len();
                        latest.records.push(record);
                    }
                    reached = newest.last().map(|(place, _)| *place);
                }
                reached = some.last().map(|(place, _)| *place);
            }
            if bound.is_none() {
                latest.place = left_out.and(reached.or(left_out));
                return Ok(latest);
            }
            let is_enough = latest.records.len() >= request.limit || bytes >= PAGE_BYTES_MAX;
            if is_enough {
                latest.place = reached;
                return Ok(latest);
            }
            if groups >= self.fetch.shared.page_row_groups
                && let Some(bound) = bound
            {
                // Everything last seen after this was inspected.
                let after = Place {
                    last_seen: UnixMillis(bound),
                    revision: u64::MAX,
                };
                latest.place = if left_out > Some(after) {
                    reached.or(left_out)
                } else {
                    Some(after)
                };
                return Ok(latest);
            }
            let read = self.read_on(&asked, &mut units, (&mut found, &mut left_out));
            let read = read.await?;
            // Row groups of the first moment do not count: every page that begins there has to read
            // them.
            if bound < begun {
                groups += read;
            }
        }
    }

    /// Reads the newest events about one object, all of whose versions are compared at once.
    /// Returns `None` if there are too many of them.
    async fn newest_of_object(&self, asked: &Asked<'_>) -> Result<Option<Latest>, Fault> {
        let selection = &asked.selection;
        let mut objects = Objects::from(self, selection, selection.lower()).await?;
        let Some(object) = objects.next().await? else {
            return Ok(Some(Latest::default()));
        };
        let rows = object.parts.iter().map(|part| part.rows.len());
        let versions: usize = rows.sum();
        if versions > VERSIONS_MAX {
            return Ok(None);
        }
        let [uid, event, observed, epoch, version] = leaf::KEYS;
        let leaves = [
            uid,
            event,
            observed,
            epoch,
            version,
            leaf::LAST_SEEN,
            leaf::REASON,
            leaf::TYPE,
        ];
        let mut found = NewestOfObject::default();
        for some in object.parts.chunks(GROUPS_TOGETHER) {
            let mut wants = Vec::with_capacity(some.len());
            for part in some {
                let footer = self.footer(part.file).await?;
                let rows = std::iter::once(part.rows.clone()).collect();
                wants.push(self.want(part.file, &footer, part.group, rows)?);
            }
            // Where there are few events, they are on one or two pages, and most of them are
            // returned.
            let ahead = async {
                if versions <= asked.request.limit.saturating_mul(AHEAD) {
                    columns::ask_ahead(&self.fetch, &wants, leaf::OBJECT).await?;
                }
                Ok(())
            };
            let keys = columns::read(&self.fetch, wants.clone(), leaves);
            let (read, ()) = try_join(keys, ahead).await?;
            for (part, values) in some.iter().zip(read) {
                self.compare(asked.request, part, &values, &mut found)?;
            }
        }
        let picks = found.picks(&object.place);
        self.page_of(picks, asked).await.map(Some)
    }

    /// Adds the versions of one part of an object to the newest ones.
    fn compare(
        &self,
        request: &NewestRequest,
        part: &Part,
        values: &[columns::Values; 8],
        found: &mut NewestOfObject,
    ) -> Result<(), Fault> {
        let is = |wanted: &Option<String>, found: &[u8]| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.as_bytes() == found)
        };
        let [uid, event, observed, epoch, version, seen, reason, kind] = values;
        for (number, row) in part.rows.clone().enumerate() {
            let (file, group) = (part.file, part.group);
            let at = At { file, group, row };
            let keys = [uid, event, observed, epoch, version];
            let keyed = self.keyed(0, keys, number, at)?;
            let place = Place {
                last_seen: last_seen(seen.maybe(number), keyed.order.observed),
                revision: keyed.order.revision(),
            };
            let is_asked = request.in_range(place)
                && is(&request.reason, reason.text(number))
                && is(&request.event_type, kind.text(number));
            found.add(keyed, place, is_asked);
        }
        Ok(())
    }

    /// Reads the newest of these events, as many as fit on a page.
    async fn page_of(&self, picks: Vec<(Place, Pick)>, asked: &Asked<'_>) -> Result<Latest, Fault> {
        let mut latest = Latest::default();
        let mut bytes = 0;
        let (mut rest, more) = picks.split_at(picks.len().min(asked.request.limit));
        while !rest.is_empty() {
            let room = PAGE_BYTES_MAX.saturating_sub(bytes);
            let (some, others) = rest.split_at(self.at_once(rest, room).await?);
            rest = others;
            let of_places: Vec<Pick> = some.iter().map(|(_, pick)| pick.clone()).collect();
            for record in self.records(&of_places, &asked.selection).await? {
                bytes += record.value.len();
                latest.records.push(record);
            }
            let is_more = !rest.is_empty() || !more.is_empty();
            if is_more && (bytes >= PAGE_BYTES_MAX || rest.is_empty()) {
                latest.place = some.last().map(|(place, _)| *place);
                return Ok(latest);
            }
        }
        Ok(latest)
    }

    /// Returns how many of the events fit into `room` bytes when read at once: at least one.
    async fn at_once(&self, events: &[(Place, Pick)], room: usize) -> Result<usize, Fault> {
        let mut bytes = 0;
        for (number, (_, pick)) in events.iter().take(EVENTS_AT_ONCE).enumerate() {
            let footer = self.footer(pick.at.file).await?;
            bytes += footer.bytes_of_row(pick.at.group, leaf::OBJECT);
            if number > 0 && bytes > room {
                return Ok(number);
            }
        }
        Ok(events.len().min(EVENTS_AT_ONCE))
    }

    /// Returns the files that may have what is asked for, by the latest time they may have.
    fn files_of(&self, asked: &Asked<'_>) -> BTreeMap<(i64, Reverse<At>), Unit> {
        let mut units = BTreeMap::new();
        for (number, file) in self.files().enumerate() {
            if let Some(time) = asked.latest(ranked(file))
                && asked.selection.may_be_in(file)
            {
                let at = At {
                    file: number,
                    group: 0,
                    row: 0,
                };
                units.insert((time, Reverse(at)), Unit::File(number));
            }
        }
        units
    }

    /// Opens the next files, or reads the next row groups; returns how many row groups it read.
    async fn read_on(
        &self,
        asked: &Asked<'_>,
        units: &mut BTreeMap<(i64, Reverse<At>), Unit>,
        (found, left_out): (&mut BinaryHeap<Found>, &mut Option<Place>),
    ) -> Result<usize, Fault> {
        let (mut files, mut groups) = (Vec::new(), Vec::new());
        let latest = units.keys().next_back().map(|(time, _)| *time);
        while let Some(next) = units.last_entry() {
            // A version is certain only after all units that may have its time were read.
            let is_needed = latest == Some(next.key().0);
            if files.len() >= AT_ONCE || (groups.len() >= AT_ONCE && !is_needed) {
                break;
            }
            match next.remove() {
                Unit::File(file) => files.push(file),
                Unit::Group(file, group) => groups.push((file, group)),
            }
        }
        let opened = files.into_iter().map(|file| async move {
            let footer = self.footer(file).await?;
            let groups = footer.groups.iter().enumerate();
            let groups = groups.filter(|(_, group)| asked.selection.may_be_within(group));
            let mut groups: Vec<usize> = groups.map(|(group, _)| group).collect();
            if let Some(name) = asked.selection.name() {
                let wanted: [(_, &[&str]); 1] = [(leaf::NAME, &[name])];
                groups = self.filtered(file, &footer, groups, &wanted).await?;
            }
            Ok::<_, Fault>((file, footer, groups))
        });
        for (file, footer, groups) in try_join_all(opened).await? {
            for group in groups {
                let times = footer.groups.get(group).map(Group::ranked);
                if let Some(time) = times.and_then(|times| asked.latest(times)) {
                    let row = 1;
                    let at = At { file, group, row };
                    units.insert((time, Reverse(at)), Unit::Group(file, group));
                }
            }
        }
        let number = groups.len();
        let mut reads: Vec<BoxFuture<'_, Result<Vec<Found>, Fault>>> = Vec::new();
        for (file, group) in groups {
            reads.push(self.versions_of(asked, file, group).boxed());
        }
        let mut reads = stream::iter(reads).buffered(GROUPS_AT_ONCE);
        while let Some(versions) = reads.try_next().await? {
            found.extend(versions);
            leave_out(found, left_out);
        }
        Ok(number)
    }

    /// Returns the versions of a row group that the request asks for.
    async fn versions_of(
        &self,
        asked: &Asked<'_>,
        file: usize,
        group: usize,
    ) -> Result<Vec<Found>, Fault> {
        let footer = self.footer(file).await?;
        let all = footer.groups.get(group).map_or(0, |group| group.rows);
        let mut rows: Rows = std::iter::once(0..all).collect();
        if asked.selection.is_by_place() {
            let runs = self.runs(file, &footer, group).await?;
            rows.clear();
            for run in runs.seek(asked.selection.lower())..runs.len() {
                let place = runs.place(run);
                if asked.selection.is_over(place) {
                    break;
                }
                let found = runs.rows(run);
                match rows.last_mut().filter(|last| last.end == found.start) {
                    _ if !asked.selection.has(place) => {}
                    Some(last) => last.end = found.end,
                    None => rows.push(found),
                }
            }
        }
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let want = self.want(file, &footer, group, rows.clone())?;
        let request = asked.request;
        let uid = match &request.object {
            Some(ObjectSelector::Uid(uid)) => Some(uid),
            _ => None,
        };
        // Only the columns that the request needs are read.
        let mut leaves = vec![leaf::LAST_SEEN, leaf::OBSERVED, leaf::EPOCH, leaf::VERSION];
        let mut place = |leaf: Leaf| {
            let known = leaves.iter().position(|known| *known == leaf);
            known.unwrap_or_else(|| {
                leaves.push(leaf);
                leaves.len() - 1
            })
        };
        let exact = [
            (leaf::REASON, request.reason.as_ref()),
            (leaf::TYPE, request.event_type.as_ref()),
            (leaf::OBJECT_UID, uid),
        ];
        let exact = exact
            .into_iter()
            .filter_map(|(leaf, wanted)| Some((place(leaf), wanted?.as_bytes())));
        let exact: Vec<(usize, &[u8])> = exact.collect();
        let searched: Vec<usize> = if request.texts.is_empty() {
            Vec::new()
        } else {
            SEARCHED.into_iter().map(place).collect()
        };
        // The columns are read together, because those close to each other take one request.
        let read = columns::read_each(&self.fetch, vec![want], &leaves).await?;
        let mut found = Vec::new();
        for values in &read {
            let [seen, observed, epochs, versions, ..] = &values[..] else {
                continue;
            };
            for (number, row) in rows.iter().cloned().flatten().enumerate() {
                let order = Order {
                    epoch: epochs.number(number).cast_unsigned(),
                    version: versions.number(number).cast_unsigned(),
                    // A revision does not depend on it.
                    observed: 0,
                };
                let place = Place {
                    last_seen: last_seen(seen.maybe(number), observed.number(number)),
                    revision: order.revision(),
                };
                let text = |at: &usize| values.get(*at).map_or(&[][..], |it| it.text(number));
                let is_wanted = || {
                    let mut exact = exact.iter();
                    let fields: Vec<&[u8]> = searched.iter().map(text).collect();
                    exact.all(|(at, wanted)| text(at) == *wanted) && has(&request.texts, &fields)
                };
                if request.in_range(place) && is_wanted() {
                    found.push((place, At { file, group, row }));
                }
            }
        }
        Ok(found)
    }

    /// Returns, in order, those versions that are the newest of their events.
    async fn looked_into(&self, some: &[Found]) -> Result<Vec<(Place, Pick)>, Fault> {
        let ats: Vec<At> = some.iter().map(|(_, at)| *at).collect();
        let mut versions: Vec<Option<Pick>> = vec![None; ats.len()];
        let keys = self.rows(&ats, leaf::KEYS);
        let (keys, mut objects) = try_join(keys, self.objects_of(&ats)).await?;
        for (values, places) in keys {
            for (number, row) in places {
                let keyed = self.keyed(0, values.each_ref(), row, ats[number])?;
                versions[number] = Some(Pick {
                    position: Position {
                        place: std::mem::take(&mut objects[number]),
                        base: keyed.base.clone(),
                        uid: keyed.uid,
                    },
                    shown: keyed.base,
                    order: keyed.order,
                    at: ats[number],
                });
            }
        }
        let places = some.iter().map(|(place, _)| *place);
        let versions = places.zip(versions);
        let versions = versions.filter_map(|(place, pick)| Some((place, pick?)));
        let (places, versions): (Vec<Place>, Vec<Pick>) = versions.unzip();
        let mut picks = Vec::with_capacity(versions.len());
        let found = self.newer(&versions).await?;
        for ((place, mut pick), newer) in places.into_iter().zip(versions).zip(found) {
            if newer.of_event {
                continue;
            }
            if newer.of_name {
                pick.shown = names::elder(&pick.position.base, &pick.position.uid);
            }
            picks.push((place, pick));
        }
        Ok(picks)
    }

    /// Returns the objects that some versions are about.
    async fn objects_of(&self, ats: &[At]) -> Result<Vec<keys::Place>, Fault> {
        let mut of_groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (number, at) in ats.iter().enumerate() {
            let numbers = of_groups.entry((at.file, at.group)).or_default();
            numbers.push(number);
        }
        let mut looks: Vec<BoxFuture<'_, Result<ObjectsOf, Fault>>> = Vec::new();
        for ((file, group), numbers) in of_groups {
            let look = async move {
                let footer = self.footer(file).await?;
                let runs = self.runs(file, &footer, group).await?;
                let objects = numbers.into_iter().map(|number| {
                    let place = runs.place(runs.of_row(ats[number].row));
                    (number, place.map(str::to_owned))
                });
                Ok::<ObjectsOf, Fault>(objects.collect())
            };
            looks.push(look.boxed());
        }
        let mut looks = stream::iter(looks).buffered(GROUPS_AT_ONCE);
        let mut objects = vec![keys::Place::default(); ats.len()];
        while let Some(found) = looks.try_next().await? {
            for (number, place) in found {
                objects[number] = place;
            }
        }
        Ok(objects)
    }

    /// Finds for each version whether something newer exists about the same object.
    async fn newer(&self, versions: &[Pick]) -> Result<Vec<Newer>, Fault> {
        let known = Known::of(versions);
        let earliest = versions.iter().map(|version| version.order.observed).min();
        let mut looks: Vec<BoxFuture<'_, Result<NewerOf, Fault>>> = Vec::new();
        for (number, file) in self.files().enumerate() {
            if earliest.is_some_and(|earliest| until(file) >= earliest) {
                looks.push(self.newer_in(number, file, versions, &known).boxed());
            }
        }
        let found = stream::iter(looks).buffered(AT_ONCE * 2);
        let found: Vec<_> = found.try_collect().await?;
        let mut newer = vec![Newer::default(); versions.len()];
        for (number, found) in found.into_iter().flatten() {
            newer[number].of_event |= found.of_event;
            newer[number].of_name |= found.of_name;
        }
        Ok(newer)
    }

    async fn newer_in(
        &self,
        number: usize,
        file: &File,
        versions: &[Pick],
        known: &Known<'_>,
    ) -> Result<NewerOf, Fault> {
        let to = until(file);
        // Returns whether this file may have something newer than one of an object's versions.
        let is_later = |numbers: &[usize]| {
            let mut orders = numbers
                .iter()
                .map(|number| versions[*number].order.observed);
            orders.any(|observed| observed <= to)
        };
        let places = known.places.iter();
        let places = places.filter(|(place, numbers)| {
            let (first, last) = (borrowed(&file.first), borrowed(&file.last));
            first <= **place && **place <= last && is_later(numbers)
        });
        let places: Vec<_> = places.collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let footer = self.footer(number).await?;
        let within = |group: &Group| {
            let places = places.iter();
            let places =
                places.filter(|(place, _)| !group.is_before(**place) && !group.is_behind(**place));
            places.collect::<Vec<_>>()
        };
        // All bloom filters at once: newer files have them side by side.
        let groups = footer.groups.iter().enumerate();
        let groups = groups.map(|(group, it)| (group, within(it)));
        let groups: Vec<_> = groups.filter(|(_, places)| !places.is_empty()).collect();
        let filters = groups.iter().map(|(group, _)| {
            let of_both = [leaf::NAME, leaf::EVENT];
            of_both.map(|leaf| footer.filter(*group, leaf))
        });
        let filters: Vec<[Option<Range<u64>>; 2]> = filters.collect();
        let ranges: Vec<_> = filters.iter().flatten().flatten().cloned().collect();
        let bytes = self.fetch.ranges(self.file(number)?, &ranges).await?;
        let mut bytes = bytes.into_iter();
        let path = &self.file(number)?.path;
        let mut looks: Vec<BoxFuture<'_, Result<NewerOf, Fault>>> = Vec::new();
        for ((group, places), filters) in groups.into_iter().zip(filters) {
            let filters = filters.map(|range| range.and_then(|_| bytes.next()));
            let [objects, events] = filters
                .each_ref()
                .map(|bytes| Filter::new(path, bytes.as_ref()));
            let (objects, events) = (objects?, events?);
            // A newer version of an event is about the same object, so both names have to be there.
            let may_have = |place: keys::Place<&str>, numbers: &[usize]| {
                let mut names = numbers.iter().flat_map(|number| &known.names[*number]);
                objects.may_have(place[2]) && names.any(|name| events.may_have(name))
            };
            let places = places.into_iter();
            let places = places.filter(|(place, numbers)| may_have(**place, numbers));
            let places: Vec<_> = places.map(|(place, _)| **place).collect();
            if !places.is_empty() {
                let look = self.newer_within((number, group), &footer, places, (versions, known));
                looks.push(look.boxed());
            }
        }
        let found = stream::iter(looks).buffered(AT_ONCE);
        let found: Vec<_> = found.try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Finds newer versions in a row group's rows about some objects.
    async fn newer_within(
        &self,
        (file, group): (usize, usize),
        footer: &Arc<Footer>,
        places: Vec<keys::Place<&str>>,
        (versions, known): (&[Pick], &Known<'_>),
    ) -> Result<NewerOf, Fault> {
        let runs = self.runs(file, footer, group).await?;
        let mut rows: Rows = Vec::new();
        for place in places {
            let run = runs.seek(place);
            if run < runs.len() && runs.place(run) == place {
                rows.push(runs.rows(run));
            }
        }
        let mut found = Vec::new();
        if rows.is_empty() {
            return Ok(found);
        }
        let want = self.want(file, footer, group, rows.clone())?;
        for values in columns::read(&self.fetch, vec![want], leaf::KEYS).await? {
            for (at, row) in rows.iter().cloned().flatten().enumerate() {
                let keyed = self.keyed(0, values.each_ref(), at, At { file, group, row })?;
                let place = runs.place(runs.of_row(row));
                let event = (keyed.base.as_str(), keyed.uid.as_str(), keyed.order);
                known.compare(place, event, versions, &mut found);
            }
        }
        Ok(found)
    }
}

/// Drops the earliest versions beyond [`VERSIONS_MAX`] and leaves them to the next page.
fn leave_out(found: &mut BinaryHeap<Found>, left_out: &mut Option<Place>) {
    let Some(rest) = found.len().checked_sub(VERSIONS_MAX).filter(|it| *it > 0) else {
        return;
    };
    let mut all = std::mem::take(found).into_sorted_vec();
    let latest = all.get(rest - 1).map(|(place, _)| *place);
    *left_out = latest.max(*left_out);
    all.drain(..rest);
    *found = all.into();
}

/// What is newer than some versions, by the versions' numbers.
type NewerOf = Vec<(usize, Newer)>;
type ObjectsOf = Vec<(usize, keys::Place)>;

/// Whether something newer than a version exists.
#[derive(Clone, Copy, Debug, Default)]
struct Newer {
    /// A newer version of the same event.
    of_event: bool,
    /// A newer version of another event with the same name.
    of_name: bool,
}

/// Versions that are compared, by the keys they are looked for by.
struct Known<'a> {
    /// For each version, the names under which another version of its event may have been sealed.
    /// Names are unique in a namespace, so the event that took the name may be about any object.
    names: Vec<[String; 3]>,
    places: BTreeMap<keys::Place<&'a str>, Vec<usize>>,
    events: HashMap<(keys::Place<&'a str>, &'a str), Vec<usize>>,
}

impl<'a> Known<'a> {
    fn of(versions: &'a [Pick]) -> Self {
        let names = versions.iter().map(|version| {
            let Position { base, uid, .. } = &version.position;
            [
                base.clone(),
                names::elder(base, uid),
                names::elder_in_full(base, uid),
            ]
        });
        let mut known = Self {
            names: names.collect(),
            places: BTreeMap::new(),
            events: HashMap::new(),
        };
        for (number, version) in versions.iter().enumerate() {
            let place = borrowed(&version.position.place);
            known.places.entry(place).or_default().push(number);
            let id = (place, version.position.base.as_str());
            known.events.entry(id).or_default().push(number);
        }
        known
    }

    /// Compares a row with the versions that have its name.
    fn compare(
        &self,
        place: keys::Place<&str>,
        (base, uid, order): (&str, &str, Order),
        versions: &[Pick],
        found: &mut NewerOf,
    ) {
        for number in self.events.get(&(place, base)).into_iter().flatten() {
            let version = &versions[*number];
            if order > version.order {
                let of_event = version.position.uid == uid;
                let of_name = !of_event;
                found.push((*number, Newer { of_event, of_name }));
            }
        }
    }
}

/// Returns until when a file's versions were observed, in microseconds since 1970. It adds a
/// margin, as the archive's clock may have gone back.
fn until(file: &File) -> i64 {
    file.to
        .as_microsecond()
        .saturating_add(CLOCKS_DIFFER_MICROS)
}

/// Returns the range of times of a file's versions, in milliseconds since 1970, as far as the
/// manifest states it. By these times the latest events are sorted.
fn ranked(file: &File) -> (i64, i64) {
    let seen = file.seen.map(|(from, to)| [from, to]);
    let seen = seen.map_or([i64::MIN, i64::MAX], |it| it.map(Timestamp::as_millisecond));
    let [from, to] = seen.map(|seen| leaf::ranked(seen, file.to.as_microsecond()));
    (from, to)
}

/// Returns the time by which a version is sorted among the latest.
fn last_seen(seen: Option<i64>, observed: i64) -> UnixMillis {
    UnixMillis(leaf::ranked(leaf::seen(seen), observed))
}
