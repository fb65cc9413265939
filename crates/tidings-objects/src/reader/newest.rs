//! The events last seen, latest first.
//!
//! Row groups are read from the one that may have the latest on, until no other can have a later
//! one. A version counts only if it is its event's newest, which is looked for in the rows about
//! the same object of files that were written at the same time or later.
//!
//! Memory: [`VERSIONS_MAX`] versions; what is beyond is left to the next page. So are row groups
//! beyond a number, except those that may have events of the moment from which the page begins.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use futures::future::{BoxFuture, try_join, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tidings_store::{NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Place, Record, UnixMillis};

use super::columns::{self, Filter, Rows};
use super::fault::Fault;
use super::footer::{Footer, Group};
use super::leaf;
use super::names::{self, Order};
use super::objects::Objects;
use super::position::Position;
use super::runs::borrowed;
use super::selection::Selection;
use super::view::{At, Pick, View};
use crate::manifest::File;

/// Versions that are held, by their time.
const VERSIONS_MAX: usize = 16_384;
/// An archive's clock goes back by less than this, in microseconds.
const CLOCKS_DIFFER_MICROS: i64 = 10 * 60_000_000;
/// Files that are opened, and row groups that are read, at once.
const AT_ONCE: usize = 4;
/// Maximum versions of an object, for each event that is wanted, whose events are asked for before
/// it is known which versions are the newest.
const AHEAD: usize = 8;
/// Versions for which it is looked at once whether there are newer ones: each look passes over the
/// filters of all newer files.
const LOOKED_AT_ONCE: usize = 4096;
/// Maximum events whose bytes are read at once, if these are about what a page has room for.
const EVENTS_AT_ONCE: usize = 256;

/// A page.
#[derive(Debug, Default)]
pub(super) struct Latest {
    pub(super) records: Vec<Record>,
    /// Where it stopped, if there may be more.
    pub(super) place: Option<Place>,
}

/// What is read from next, by the latest time that it may have.
enum Unit {
    File(usize),
    Group(usize, Arc<Footer>, usize),
}

/// A version by its time.
type Found = (Place, At);

/// What a column has of the versions that are asked for.
enum Wanted<'a> {
    /// This value.
    Is(&'a [u8]),
    /// In lower case, all of these.
    Has(&'a [String]),
}

impl Wanted<'_> {
    fn accepts(&self, text: &[u8]) -> bool {
        match self {
            Self::Is(wanted) => text == *wanted,
            Self::Has(wanted) => {
                let text = String::from_utf8_lossy(text).to_lowercase();
                wanted.iter().all(|wanted| text.contains(wanted))
            }
        }
    }
}

/// What is asked for.
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

    /// The latest time that something of this range may have, if it is asked for.
    fn latest(&self, (from, to): (i64, i64)) -> Option<i64> {
        let (since, until) = self.times();
        (to >= since && from <= until).then(|| to.min(until))
    }
}

impl View {
    /// The events of a request, whose keys are of a namespace if one is given.
    pub(super) async fn newest(
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
        // What was read and is not held is before this.
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
                // All that was last seen after it was looked at.
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
            let read = self.read_on(&asked, &mut units, &mut found).await?;
            // Those of the first moment have to be read for every page that begins there.
            if bound < begun {
                groups += read;
            }
            if found.len() > VERSIONS_MAX {
                let mut all = found.into_sorted_vec();
                let rest = all.len() - VERSIONS_MAX;
                left_out = left_out.max(all.get(rest - 1).map(|(place, _)| *place));
                all.drain(..rest);
                found = all.into();
            }
        }
    }

    /// The same about one object: all of its versions are seen together. `None` if there are too
    /// many of them.
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
        let wants = object.parts.iter().map(|part| {
            let rows = std::iter::once(part.rows.clone()).collect();
            self.want(part.file, &part.footer, part.group, rows)
        });
        let wants: Vec<_> = wants.collect::<Result<_, Fault>>()?;
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
        let request = asked.request;
        let is = |wanted: &Option<String>, found: &[u8]| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.as_bytes() == found)
        };
        // The newest version of each event, and whether it is asked for.
        let mut newest: HashMap<(String, String), (Order, Found, bool)> = HashMap::new();
        let mut youngest: HashMap<String, (Order, String)> = HashMap::new();
        // Where there are few, they are in a page or two, most of which are to be shown.
        let ahead = async {
            if versions <= request.limit.saturating_mul(AHEAD) {
                columns::ask_ahead(&self.fetch, &wants, leaf::OBJECT).await?;
            }
            Ok(())
        };
        let keys = columns::read(&self.fetch, wants.clone(), leaves);
        let (read, ()) = try_join(keys, ahead).await?;
        for (part, values) in object.parts.iter().zip(&read) {
            let [uid, event, observed, epoch, version, seen, reason, kind] = values;
            for (number, row) in part.rows.clone().enumerate() {
                let (file, group) = (part.file, part.group);
                let at = At { file, group, row };
                let keys = [uid, event, observed, epoch, version];
                let keyed = self.keyed(0, keys, number, at)?;
                let place = Place {
                    last_seen: UnixMillis(leaf::seen(seen.maybe(number))),
                    revision: keyed.order.revision(),
                };
                let is_asked = request.in_range(place)
                    && is(&request.reason, reason.text(number))
                    && is(&request.event_type, kind.text(number));
                let young = youngest.get(&keyed.base);
                if young.is_none_or(|(order, _)| *order < keyed.order) {
                    let young = (keyed.order, keyed.uid.clone());
                    youngest.insert(keyed.base.clone(), young);
                }
                let id = (keyed.base, keyed.uid);
                if newest
                    .get(&id)
                    .is_none_or(|(order, ..)| *order < keyed.order)
                {
                    newest.insert(id, (keyed.order, (place, at), is_asked));
                }
            }
        }
        let picks = newest.into_iter().filter(|(_, (.., is_asked))| *is_asked);
        let picks = picks.map(|((base, uid), (order, (found, at), _))| {
            let young = youngest.get(&base);
            let shown = match young.filter(|(_, young)| *young != uid) {
                Some(_) => names::elder(&base, &uid),
                None => base.clone(),
            };
            let place = object.place.clone();
            let position = Position { place, base, uid };
            let pick = Pick {
                position,
                shown,
                order,
                at,
            };
            (found, pick)
        });
        let mut picks: Vec<(Place, Pick)> = picks.collect();
        picks.sort_by_key(|(place, _)| Reverse(*place));
        let mut latest = Latest::default();
        let mut bytes = 0;
        let (mut rest, more) = picks.split_at(picks.len().min(request.limit));
        while !rest.is_empty() {
            let room = PAGE_BYTES_MAX.saturating_sub(bytes);
            let (some, others) = rest.split_at(self.at_once(rest, room).await?);
            rest = others;
            let of_places: Vec<Pick> = some.iter().map(|(_, pick)| pick.clone()).collect();
            for record in self.records(&of_places, selection).await? {
                bytes += record.value.len();
                latest.records.push(record);
            }
            let is_more = !rest.is_empty() || !more.is_empty();
            if is_more && (bytes >= PAGE_BYTES_MAX || rest.is_empty()) {
                latest.place = some.last().map(|(place, _)| *place);
                return Ok(Some(latest));
            }
        }
        Ok(Some(latest))
    }

    /// How many of some events are read at once, into so much room: one at least.
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

    /// The files that may have what is asked for, by the latest time they may have it.
    fn files_of(&self, asked: &Asked<'_>) -> BTreeMap<(i64, Reverse<At>), Unit> {
        let mut units = BTreeMap::new();
        for (number, file) in self.files().enumerate() {
            if let Some(time) = asked.latest(seen(file))
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

    /// Opens the next files or reads the next row groups, of which it returns the number.
    async fn read_on(
        &self,
        asked: &Asked<'_>,
        units: &mut BTreeMap<(i64, Reverse<At>), Unit>,
        found: &mut BinaryHeap<Found>,
    ) -> Result<usize, Fault> {
        let (mut files, mut groups) = (Vec::new(), Vec::new());
        while files.len() < AT_ONCE
            && groups.len() < AT_ONCE
            && let Some((_, unit)) = units.pop_last()
        {
            match unit {
                Unit::File(file) => files.push(file),
                Unit::Group(file, footer, group) => groups.push((file, footer, group)),
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
                let times = footer.groups.get(group).map(|group| group.seen);
                if let Some(time) = times.and_then(|times| asked.latest(times)) {
                    let row = 1;
                    let at = At { file, group, row };
                    let unit = Unit::Group(file, Arc::clone(&footer), group);
                    units.insert((time, Reverse(at)), unit);
                }
            }
        }
        let number = groups.len();
        let read = groups
            .into_iter()
            .map(|(file, footer, group)| self.versions_of(asked, file, footer, group));
        for versions in try_join_all(read).await? {
            found.extend(versions);
        }
        Ok(number)
    }

    /// The versions in a row group that are asked for.
    async fn versions_of(
        &self,
        asked: &Asked<'_>,
        file: usize,
        footer: Arc<Footer>,
        group: usize,
    ) -> Result<Vec<Found>, Fault> {
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
        // Only what is asked for is read.
        let is = |wanted| Option::map(wanted, String::as_bytes).map(Wanted::Is);
        let has = (!request.texts.is_empty()).then_some(Wanted::Has(&request.texts));
        let wanted = [
            (leaf::REASON, is(request.reason.as_ref())),
            (leaf::TYPE, is(request.event_type.as_ref())),
            (leaf::OBJECT_UID, is(uid)),
            (leaf::MESSAGE, has),
        ];
        let wanted = wanted.into_iter();
        let wanted = wanted.filter_map(|(leaf, wanted)| Some((leaf, wanted?)));
        let fetch = &self.fetch;
        let texts = wanted.map(|(leaf, wanted)| {
            let want = vec![want.clone()];
            async move {
                let read = columns::read(fetch, want, [leaf]).await?;
                Ok::<_, Fault>((read.into_iter().next().map(|[values]| values), wanted))
            }
        });
        let leaves = [leaf::LAST_SEEN, leaf::EPOCH, leaf::VERSION, leaf::OBSERVED];
        let numbers = columns::read(fetch, vec![want.clone()], leaves);
        let (read, texts) = try_join(numbers, try_join_all(texts)).await?;
        let mut found = Vec::new();
        for [seen, epochs, versions, observed] in &read {
            for (number, row) in rows.iter().cloned().flatten().enumerate() {
                let order = Order {
                    observed: observed.number(number),
                    epoch: epochs.number(number).cast_unsigned(),
                    version: versions.number(number).cast_unsigned(),
                };
                let place = Place {
                    last_seen: UnixMillis(leaf::seen(seen.maybe(number))),
                    revision: order.revision(),
                };
                let is_wanted = |(values, wanted): &(Option<columns::Values>, Wanted<'_>)| {
                    let text = values.as_ref().map_or(&b""[..], |it| it.text(number));
                    wanted.accepts(text)
                };
                if request.in_range(place) && texts.iter().all(is_wanted) {
                    found.push((place, At { file, group, row }));
                }
            }
        }
        Ok(found)
    }

    /// Those of some versions that are the newest of their events, in order.
    async fn looked_into(&self, some: &[Found]) -> Result<Vec<(Place, Pick)>, Fault> {
        let ats: Vec<At> = some.iter().map(|(_, at)| *at).collect();
        let mut versions: Vec<Option<Pick>> = vec![None; ats.len()];
        for (values, places) in self.rows(&ats, leaf::KEYS).await? {
            for (number, row) in places {
                let at = ats[number];
                let footer = self.footer(at.file).await?;
                let runs = self.runs(at.file, &footer, at.group).await?;
                let keyed = self.keyed(0, values.each_ref(), row, at)?;
                versions[number] = Some(Pick {
                    position: Position {
                        place: runs.place(runs.of_row(at.row)).map(str::to_owned),
                        base: keyed.base.clone(),
                        uid: keyed.uid,
                    },
                    shown: keyed.base,
                    order: keyed.order,
                    at,
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

    /// What there is that is newer than each of these versions, about the same object.
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
        // Of each object, whether one of its versions may have a newer one here.
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
        let mut found = Vec::new();
        let within = |group: &Group| {
            let places = places.iter();
            let places =
                places.filter(|(place, _)| !group.is_before(**place) && !group.is_behind(**place));
            places.collect::<Vec<_>>()
        };
        // All filters at once: they lie side by side, in files of this version.
        let groups = footer.groups.iter().enumerate();
        let groups = groups.map(|(group, it)| (group, within(it)));
        let groups: Vec<_> = groups.filter(|(_, places)| !places.is_empty()).collect();
        let filters = groups
            .iter()
            .map(|(group, _)| footer.filter(*group, leaf::EVENT));
        let filters: Vec<_> = filters.collect();
        let ranges: Vec<_> = filters.iter().flatten().cloned().collect();
        let bytes = self.fetch.ranges(self.file(number)?, &ranges).await?;
        let mut bytes = bytes.into_iter();
        for ((group, mut places), filter) in groups.into_iter().zip(filters) {
            let filter = filter.and_then(|_| bytes.next());
            let filter = Filter::new(&self.file(number)?.path, filter.as_ref())?;
            places.retain(|(_, numbers)| {
                let mut names = numbers.iter().flat_map(|number| &known.names[*number]);
                names.any(|name| filter.may_have(name))
            });
            if places.is_empty() {
                continue;
            }
            let runs = self.runs(number, &footer, group).await?;
            let mut rows: Rows = Vec::new();
            for (place, _) in &places {
                let run = runs.seek(**place);
                if run < runs.len() && runs.place(run) == **place {
                    rows.push(runs.rows(run));
                }
            }
            if rows.is_empty() {
                continue;
            }
            let want = self.want(number, &footer, group, rows.clone())?;
            for values in columns::read(&self.fetch, vec![want], leaf::KEYS).await? {
                for (at, row) in rows.iter().cloned().flatten().enumerate() {
                    let file = number;
                    let keyed = self.keyed(0, values.each_ref(), at, At { file, group, row })?;
                    let place = runs.place(runs.of_row(row));
                    known.compare(
                        place,
                        (&keyed.base, &keyed.uid, keyed.order),
                        versions,
                        &mut found,
                    );
                }
            }
        }
        Ok(found)
    }
}

/// Of some versions, by their numbers.
type NewerOf = Vec<(usize, Newer)>;

/// What there is that is newer than a version.
#[derive(Clone, Copy, Debug, Default)]
struct Newer {
    /// A version of its event.
    of_event: bool,
    /// One of another event of its name.
    of_name: bool,
}

/// Versions by what they are looked for by.
struct Known<'a> {
    /// Of each, the names that another version of its event may have been sealed under: names are
    /// of a namespace, so that the event which took its name may be about any object.
    names: Vec<[String; 3]>,
    places: BTreeMap<super::runs::Place<&'a str>, Vec<usize>>,
    events: HashMap<(super::runs::Place<&'a str>, &'a str), Vec<usize>>,
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

    /// Compares a row with the versions of its name.
    fn compare(
        &self,
        place: super::runs::Place<&str>,
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

/// Until when the file's versions were observed, in microseconds since 1970, by any clock: the one
/// of the archive may have gone back.
fn until(file: &File) -> i64 {
    file.to
        .as_microsecond()
        .saturating_add(CLOCKS_DIFFER_MICROS)
}

/// When what a file has was last seen, in milliseconds since 1970, as far as its manifest says.
fn seen(file: &File) -> (i64, i64) {
    file.seen.map_or((i64::MIN, i64::MAX), |(from, to)| {
        (from.as_millisecond(), to.as_millisecond())
    })
}
