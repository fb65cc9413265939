//! Reads the events of a time range from the stores: a bounded number, evenly distributed over the
//! range.
//!
//! The range is divided into parts. Each part is read from its end, up to its share of the bound;
//! unused shares go to parts with more events. In a sealed archive, a text is first searched in the
//! whole range, because as a rule few events contain it. If there are still more events than the
//! bound, the remaining warnings are read before the rest is omitted. Of events last seen after the
//! range, warnings that may have begun within it are read, too. Warnings beyond the bound are read
//! for the first ones, the oldest part first, and not kept.
//!
//! An object with very many events takes no room of the others: events that a picture cannot tell
//! apart are kept as one, and do not count for the bound.
//!
//! No query makes a store search among other events. Events of an object or a reason have their own
//! index, in which warnings are not separate: for the first warnings, all of these are looked at.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use foldhash::{HashMap, HashSet};
use futures::{StreamExt, TryStreamExt, stream};
use tidings_api::codec::stored::{Brief, OwnedBrief, StoredEvent};
use tidings_api::codec::{decode_stored, encode_stored};
use tidings_core::filter::{Filter, Key};
use tidings_core::reading::is_warning;
use tidings_core::told_of;
use tidings_history::{Numbers, Reads};
use tidings_store::{
    BoxFuture, NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Record, Store, UnixMillis,
};

use super::query::selects;
use super::rules::changes::CHANGES;
use super::rules::firsts::Firsts;
use super::rules::marks::PARTS;
use super::rules::seen::Seen;
use super::rules::unread::Unread;
use super::visible::Visible;
use crate::http::status::Status;

/// Maximum parts that are read separately.
const PARTS_MAX: usize = 32;
/// Maximum parts in a store without an index by time, where each part skips all events as old as
/// the range.
const PARTS_MAX_REMOTE: usize = 8;
/// Minimum length of a part, in milliseconds.
const PART_MIN: i64 = 60_000;
/// Maximum queries for one cluster: namespaces times objects or reasons.
const QUERIES_MAX: usize = 64;
/// Maximum objects, or reasons, that are looked up separately.
const LOOKUPS_MAX: usize = 8;
/// Up to this many namespaces are read separately. Beyond that, all namespaces are read once and
/// filtered, because the store would skip the others once for each namespace.
const NAMESPACES_APART: usize = 4;
/// Maximum warnings of one cluster that are read for the first ones, beyond those that are kept.
const LOOKED_AT_MAX: usize = 1000;
/// Events of one object, reason and type that are kept by themselves. Of further ones, those that a
/// picture cannot tell apart become one.
const OWN_MAX: usize = 16;
/// Maximum events of each reason of [`CHANGES`] that are read before the rest is omitted.
const CHANGES_MAX: usize = 8;
/// Maximum events that are read for each one of the bound.
const READ_FOR_EACH: usize = 4;
/// Events in a page of the store. In a sealed archive, each page reads the same parts of files.
const PAGE: usize = 1000;
const PAGE_REMOTE: usize = 8000;
/// Minimum events of a page, as long as so many may still be read.
const PAGE_MIN: usize = 64;
/// The number of events as which a page with fewer counts if it was not full, because the store has
/// skipped others.
const SHORT_PAGE: usize = 500;
/// Divisor of the bound: one part in this many is for events last seen after the range.
const LATER: usize = 10;
/// Half of those are read from this time just after the range, in milliseconds.
const SOON: i64 = 6 * 3_600_000;
/// Pages that are read, and held, concurrently. In a sealed archive they are read one after the
/// other, because all of them read the same parts of files, which are cached after the first.
const AT_ONCE: usize = 2;
const AT_ONCE_REMOTE: usize = 1;
/// Maximum bytes of events read for one answer, as stored.
const BYTES_MAX: usize = 64 << 20;
/// Maximum memory of the selected events.
pub(super) const EVENT_MEMORY_MAX: usize = 8 << 20;
/// Maximum bytes kept of a message. Controllers name other objects at its beginning.
const MESSAGE_MAX: usize = 1024;

/// The events that were read.
#[derive(Debug, Default)]
pub(super) struct Read {
    events: Vec<ReadEvent>,
    /// Whether these are all events that were last seen in the range.
    pub(super) complete: bool,
    /// The spans of which not all were read.
    pub(super) unread: Vec<Unread>,
    /// The first of the warnings that were looked at and not kept.
    pub(super) firsts: Firsts,
    /// Whether all warnings that happened in the range were read, or looked at.
    pub(super) has_all_warnings: bool,
    /// The time at which events of clocks that are ahead count: the end of a range that reaches
    /// until now.
    latest: Option<i64>,
}

/// The parts of an event that are kept; the stored event may be far longer.
#[derive(Debug)]
pub(super) struct ReadEvent {
    /// The cluster's number.
    cluster: usize,
    /// The revision of this version.
    revision: u64,
    /// The events that it stands for.
    events: u64,
    brief: OwnedBrief,
}

impl Read {
    /// The events that happened in the range.
    pub(super) fn seen(&self, (from, to): (i64, i64)) -> impl Iterator<Item = Seen<'_>> {
        let latest = self.latest.unwrap_or(i64::MAX);
        let events = self.events.iter().map(move |event| {
            let mut brief = event.brief.brief();
            brief.first = brief.first.min(latest);
            brief.last = brief.last.min(latest);
            Seen {
                cluster: event.cluster,
                events: event.events,
                brief,
            }
        });
        events.filter(move |event| event.brief.first < to && event.brief.last >= from)
    }

    /// Adds events that were last seen after the range, which reaches until now.
    pub(super) fn add_ahead(&mut self, ahead: Vec<ReadEvent>, now: i64) {
        let known = self.events.iter();
        let known: HashSet<_> = known.map(|event| (event.cluster, event.revision)).collect();
        let ahead = ahead.into_iter();
        let new = ahead.filter(|event| !known.contains(&(event.cluster, event.revision)));
        self.events.extend(new);
        self.latest = Some(now);
    }

    /// The memory of the events, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().map(ReadEvent::bytes).sum()
    }
}

impl ReadEvent {
    /// The parts of a cluster's record that are kept; `None` if it cannot be read without a copy.
    pub(super) fn of(cluster: usize, record: &Record) -> Option<Self> {
        let brief = brief(record)?;
        Some(Self {
            cluster,
            revision: record.revision,
            events: 1,
            brief: OwnedBrief::new(&brief, MESSAGE_MAX),
        })
    }

    /// Makes one event of this and another one, if a picture cannot tell them apart: those of an
    /// object, reason and type within `near` milliseconds. What an event tells of another object is
    /// kept.
    fn join(&mut self, two: &Brief<'_>, near: i64) -> bool {
        let one = self.brief.brief();
        let first = one.first.min(two.first);
        let last = one.last.max(two.last);
        let tells = |brief: &Brief<'_>| {
            brief.reason == "Killing" || told_of(brief.kind, brief.reason, brief.message).is_some()
        };
        if last.saturating_sub(first) > near
            || subject(&one) != subject(two)
            || tells(&one)
            || tells(two)
        {
            return false;
        }
        let earlier = if two.first <= one.first { *two } else { one };
        let mut joined = earlier;
        joined.first = first;
        joined.last = last;
        joined.count = one.count.saturating_add(two.count);
        self.brief = OwnedBrief::new(&joined, MESSAGE_MAX);
        self.events += 1;
        true
    }

    fn is_warning(&self) -> bool {
        is_warning(self.brief.brief().event_type)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() - size_of::<OwnedBrief>() + self.brief.memory()
    }
}

/// The content of a record.
pub(super) fn brief(record: &Record) -> Option<Brief<'_>> {
    StoredEvent::open(&record.value, record.revision)?.brief()
}

/// Converts a record to the form that can be read without a copy, and applies `make` to its
/// content. `None` if `make` returns nothing.
///
/// # Errors
/// 500 for a record that is not an event.
pub(super) fn made_of<T>(
    record: Record,
    mut make: impl FnMut(&Brief<'_>) -> Option<T>,
) -> Result<Option<(Record, T)>, Status> {
    // Parsing takes most of the time, so it is done only once if possible.
    if let Some(brief) = brief(&record) {
        let made = make(&brief);
        return Ok(made.map(|made| (record, made)));
    }
    let record = plain(record)?;
    let made = brief(&record).as_ref().and_then(make);
    Ok(made.map(|made| (record, made)))
}

/// Converts a record to the form that can be read without a copy.
///
/// # Errors
/// 500 for a record that is not an event.
pub(super) fn plain(mut record: Record) -> Result<Record, Status> {
    if brief(&record).is_some() {
        return Ok(record);
    }
    let event = decode_stored(&record.value, record.revision);
    let mut event = event.map_err(|why| Status::damaged(&record.key, &why))?;
    let metadata = event.metadata.get_or_insert_default();
    metadata.managed_fields.clear();
    record.value = encode_stored(&mut event);
    Ok(record)
}

/// Reads the events of a range from clusters, in the order of their numbers: about `limit` at most.
/// Events that do not match are read, but not kept.
pub(super) async fn range(
    clusters: &[Visible],
    filter: &Filter,
    range: (i64, i64),
    limit: usize,
) -> Result<Read, Status> {
    let share = (limit / clusters.len().max(1)).max(1);
    let mut all = Read {
        complete: true,
        has_all_warnings: true,
        ..Read::default()
    };
    let (mut bytes, mut room) = (BYTES_MAX, EVENT_MEMORY_MAX);
    for (cluster, visible) in clusters.iter().enumerate() {
        let server = &visible.source.server;
        let can = server.capabilities();
        let begun = match can.numbers {
            Numbers::Source => 0,
            Numbers::Store => server.store.revision(),
        };
        let at_once = match can.reads {
            Reads::Remote => AT_ONCE_REMOTE,
            Reads::Local => AT_ONCE,
        };
        let mut reading = Reading {
            store: &*server.store,
            at_once,
            filter,
            cluster,
            bytes: bytes / (clusters.len() - cluster),
            room: room / (clusters.len() - cluster),
            read: 0,
            found: 0,
            events: Vec::new(),
            revisions: HashSet::default(),
            numbers: HashMap::default(),
            latest: HashMap::default(),
            near: range.1.saturating_sub(range.0) / PARTS,
            allowed: share.saturating_mul(READ_FOR_EACH),
            unread: Vec::new(),
            firsts: &mut all.firsts,
            has_all_warnings: true,
        };
        reading.cluster(visible, range, share).await?;
        all.complete &= reading.unread.is_empty();
        all.has_all_warnings &= reading.has_all_warnings;
        all.unread.append(&mut reading.unread);
        bytes = bytes.saturating_sub(reading.read);
        let mut events = reading.events;
        room = room.saturating_sub(events.iter().map(ReadEvent::bytes).sum());
        // Events that were seen again meanwhile, of which there are few.
        let mut again: HashMap<(String, String), u64> = HashMap::default();
        for event in events.iter().filter(|event| event.revision > begun) {
            let brief = event.brief.brief();
            let key = (brief.namespace.to_owned(), brief.name.to_owned());
            let latest = again.entry(key).or_default();
            *latest = event.revision.max(*latest);
        }
        if !again.is_empty() {
            events.retain(|event| {
                let brief = event.brief.brief();
                let key = (brief.namespace.to_owned(), brief.name.to_owned());
                let latest = again.get(&key);
                latest.is_none_or(|latest| *latest == event.revision)
            });
        }
        all.events.append(&mut events);
    }
    Ok(all)
}

/// The bytes of events, as stored.
pub(super) fn bytes_of(records: &[Record]) -> usize {
    records.iter().map(|record| record.value.len()).sum()
}

/// A part of a range, as far as it is not read yet.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) request: NewestRequest,
    /// The wanted namespaces, if the query also finds others.
    pub(super) of: Option<Arc<[String]>>,
    /// Maximum events in a page.
    page: usize,
    /// How many events were found.
    found: u64,
    pub(super) done: bool,
}

/// A page of a part.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The wanted records of the page.
    pub(super) records: Vec<Record>,
    /// The number of events read for the page, at least one.
    pub(super) read: usize,
}

impl Part {
    pub(super) fn new(request: NewestRequest, of: Option<Arc<[String]>>) -> Self {
        let request = NewestRequest {
            values_only: true,
            ..request
        };
        Self {
            request,
            of,
            page: PAGE,
            found: 0,
            done: false,
        }
    }

    /// The end of what was not read of it, if anything is left.
    fn reached(&self) -> Option<i64> {
        let reached = match (self.request.after, self.request.until) {
            // There may be other events in this millisecond.
            (Some(after), _) => after.last_seen.0.saturating_add(1),
            (None, Some(until)) => until.0,
            (None, None) => i64::MAX,
        };
        (!self.done).then_some(reached)
    }

    /// What was not read of it, if anything is left.
    fn unread(&self) -> Option<Unread> {
        let to = self.reached()?;
        let from = self.request.since.map_or(i64::MIN, |since| since.0);
        let end = self.request.until.map_or(to, |until| until.0);
        let found = self.found as f64 + 1.0;
        Some(Unread {
            from,
            to,
            density: found / (end.abs_diff(to) as f64 + 1.0),
        })
    }

    /// Reads the next page, of at most `limit` events, and about [`PAGE_BYTES_MAX`] bytes.
    pub(super) async fn read(&mut self, store: &dyn Store, limit: usize) -> Result<Found, Status> {
        self.request.limit = limit.clamp(1, self.page);
        let page = store.newest(self.request.clone()).await?;
        self.request.after = page.place;
        self.done = !page.more || page.place.is_none();
        let mut records = page.records;
        let is_long = bytes_of(&records) >= PAGE_BYTES_MAX / 2;
        let is_full = records.len() >= self.request.limit || is_long;
        let read = match records.len() {
            read if self.done => read.max(1),
            read if is_full => read,
            read => read.max(SHORT_PAGE),
        };
        if let Some(namespaces) = &self.of {
            records.retain(|record| is_of(namespaces, &record.key));
        }
        self.found += records.len() as u64;
        Ok(Found { records, read })
    }
}

/// Whether an event is in one of these namespaces, which are sorted.
fn is_of(namespaces: &[String], key: &[u8]) -> bool {
    let namespace = key.split(|byte| *byte == b'/').next().unwrap_or_default();
    let found = namespaces.binary_search_by(|name| name.as_bytes().cmp(namespace));
    found.is_ok()
}

/// The reading of one cluster.
struct Reading<'a> {
    store: &'a dyn Store,
    /// Pages that are read concurrently.
    at_once: usize,
    filter: &'a Filter,
    /// The cluster's number.
    cluster: usize,
    /// Bytes that may still be read and kept.
    bytes: usize,
    room: usize,
    /// Bytes that were read.
    read: usize,
    /// The number of events that the store found.
    found: usize,
    events: Vec<ReadEvent>,
    /// Of the events that were read. Several queries may find the same event; a revision identifies
    /// one version of one event.
    revisions: HashSet<u64>,
    /// The number of events kept of each object, reason and type, and the place of the latest one
    /// in each span of `near`. The keys are hashes: what becomes one is compared before.
    numbers: HashMap<u64, usize>,
    latest: HashMap<(u64, i64), usize>,
    /// The time within which a picture cannot tell two events apart, in milliseconds.
    near: i64,
    /// How many events may still be read.
    allowed: usize,
    /// The spans of which not all were read.
    unread: Vec<Unread>,
    /// The first of the warnings that were not kept.
    firsts: &'a mut Firsts,
    has_all_warnings: bool,
}

impl Reading<'_> {
    async fn cluster(
        &mut self,
        visible: &Visible,
        (from, to): (i64, i64),
        limit: usize,
    ) -> Result<(), Status> {
        let filter = self.filter;
        let queries = Queries::of(visible, filter);
        let reads = visible.source.server.capabilities().reads;
        let (parts_max, page) = match reads {
            Reads::Remote => (PARTS_MAX_REMOTE, PAGE_REMOTE),
            Reads::Local => (PARTS_MAX, PAGE),
        };
        let asks_for_warnings = filter.accepts(Key::Type, "Warning");
        let has_index = |query: &NewestRequest| query.object.is_none() && query.reason.is_none();
        let is_indexed = queries.requests.iter().all(has_index);
        let kept = if is_indexed && asks_for_warnings {
            limit / 4
        } else {
            0
        };
        let mut free = limit - kept;
        let mut end = to;
        if reads == Reads::Remote && filter.texts().next().is_some() {
            // As a rule, few events contain a text, so the whole range is read once. That reads no
            // more events than are read for each part of the range.
            let mut whole = queries.parts(&[(from, to)], page);
            let enough = free / (parts_max + 1);
            free = self.some(&mut whole, free / 2, enough).await? + free.div_ceil(2);
            end = reached(&whole).map_or(from, |reached| reached.min(to));
        }
        let number = parts_of((from, end), queries.requests.len(), parts_max);
        let mut parts = queries.parts(&spans((from, end), number), page);
        // An empty part has no events.
        parts.retain(|_| from < end);
        let mut left = self.parts(&mut parts, free).await? + kept;
        parts.retain(|part| !part.done);
        let has_indexes = reads == Reads::Local && is_indexed;
        if asks_for_warnings {
            let mut warnings = parts.clone();
            if is_indexed {
                for part in &mut warnings {
                    part.request.event_type = Some("Warning".to_owned());
                }
                left = self.parts(&mut warnings, left / 2).await? + left.div_ceil(2);
                warnings.retain(|part| !part.done);
            }
            let mut later = queries.later(to, is_indexed);
            let of_later = left.min(limit / LATER);
            left -= of_later - self.later(&mut later, to, of_later).await?;
            // Pages that were dropped are not looked at either.
            let was_full = self.is_full();
            // The oldest part is the last one.
            let unread = warnings.iter_mut().rev().chain(&mut later);
            let mut unread = unread.filter(|part| !part.done);
            // As a rule, the events of a reason have one type. A sealed archive has no index of
            // warnings, and would look through everything once more.
            let are_found = reads == Reads::Local
                && (is_indexed || self.events.iter().any(ReadEvent::is_warning));
            self.has_all_warnings = if are_found {
                self.look_at(unread, to).await? && !was_full
            } else {
                unread.next().is_none()
            };
        }
        if !parts.is_empty() && has_indexes && !filter.has(Key::Type) {
            left = self.changes(&queries, (from, to), left).await?;
        }
        // What was kept free for warnings, and is not needed for them.
        self.parts(&mut parts, left).await?;
        self.unread = parts.iter().filter_map(Part::unread).collect();
        Ok(())
    }

    /// Reads at most `limit` events that were last seen after a range, and keeps those that began
    /// in it. Returns how many may still be read.
    async fn later(&mut self, parts: &mut [Part], end: i64, limit: usize) -> Result<usize, Status> {
        let before = self.events.len();
        let left = self.parts(parts, limit).await?;
        let later = self.events.split_off(before).into_iter();
        let begun = later.filter(|event| event.brief.brief().first < end);
        self.events.extend(begun);
        Ok(left)
    }

    /// Reads changes, which are rare, and explain the rest. Returns how many events may still be
    /// read.
    async fn changes(
        &mut self,
        queries: &Queries,
        range: (i64, i64),
        mut left: usize,
    ) -> Result<usize, Status> {
        for reason in CHANGES {
            for query in &queries.requests {
                let mut change = queries.part(query, range.0, Some(range.1));
                change.request.reason = Some(reason.to_owned());
                let share = left.min(CHANGES_MAX);
                left -= share - self.some(&mut [change], share, share).await?;
            }
        }
        Ok(left)
    }

    /// Looks at the warnings of parts that began before a moment, one part after the other, for the
    /// first ones. Whether all were looked at.
    async fn look_at(
        &mut self,
        parts: impl Iterator<Item = &mut Part>,
        before: i64,
    ) -> Result<bool, Status> {
        let mut left = LOOKED_AT_MAX;
        for part in parts {
            while !part.done {
                if left == 0 || self.bytes == 0 {
                    return Ok(false);
                }
                let page = part.read(self.store, left).await?;
                left = left.saturating_sub(page.read);
                let bytes = bytes_of(&page.records);
                self.read += bytes;
                self.bytes = self.bytes.saturating_sub(bytes);
                let (filter, cluster) = (self.filter, self.cluster);
                for record in page.records {
                    made_of(record, |brief| {
                        if brief.first < before && selects(filter, brief) {
                            self.firsts.add(&Seen::one(cluster, *brief), None);
                        }
                        None::<()>
                    })?;
                }
            }
        }
        Ok(true)
    }

    /// Reads parts, each up to its share; unused shares go to others. Returns how many events less
    /// than the limit were read.
    async fn parts(&mut self, parts: &mut [Part], limit: usize) -> Result<usize, Status> {
        self.some(parts, limit, usize::MAX).await
    }

    /// Reads parts in the same way, until about `enough` events were found.
    async fn some(
        &mut self,
        parts: &mut [Part],
        limit: usize,
        enough: usize,
    ) -> Result<usize, Status> {
        let mut left = limit;
        let before = self.found;
        let mut is_first = true;
        loop {
            let open = parts.iter().filter(|part| !part.done).count();
            let missing = enough.saturating_sub(self.found - before);
            if open == 0 || left < open || missing == 0 || self.allowed == 0 || self.is_full() {
                return Ok(left);
            }
            let least = if is_first { 1 } else { PAGE_MIN };
            is_first = false;
            let (share, every) = shares(open, left, least, missing);
            let store = self.store;
            let mut pages: Vec<BoxFuture<'_, Result<Found, Status>>> = Vec::new();
            let open = parts.iter_mut().filter(|part| !part.done);
            for part in open.step_by(every) {
                pages.push(Box::pin(part.read(store, share)));
            }
            let mut pages = stream::iter(pages).buffered(self.at_once);
            while let Some(Found { records, read }) = pages.try_next().await? {
                self.allowed = self.allowed.saturating_sub(read.min(share));
                let joined = self.add(records)?;
                left = left.saturating_sub(read.min(share).saturating_sub(joined));
                if self.is_full() {
                    break;
                }
            }
            drop(pages);
            if self.is_full() {
                // Pages that were read ahead are dropped.
                for part in &mut *parts {
                    part.done = false;
                }
            }
        }
    }

    /// Keeps the matching events of a page. Returns how many of them became one with others.
    fn add(&mut self, records: Vec<Record>) -> Result<usize, Status> {
        self.found += records.len();
        let mut joined = 0;
        for record in records {
            self.read += record.value.len();
            self.bytes = self.bytes.saturating_sub(record.value.len());
            let (filter, revision) = (self.filter, record.revision);
            made_of(record, |brief| {
                if selects(filter, brief) && self.revisions.insert(revision) {
                    joined += usize::from(self.keep(revision, brief));
                }
                None::<()>
            })?;
        }
        Ok(joined)
    }

    /// Keeps an event. Whether it became one with another.
    fn keep(&mut self, revision: u64, brief: &Brief<'_>) -> bool {
        let key = FixedState::default().hash_one(subject(brief));
        let number = self.numbers.entry(key).or_default();
        let place = (key, brief.last / self.near.max(1));
        let latest = self.latest.get(&place).filter(|_| *number >= OWN_MAX);
        let latest = latest.and_then(|at| self.events.get_mut(*at));
        if latest.is_some_and(|latest| latest.join(brief, self.near)) {
            return true;
        }
        *number += 1;
        let event = ReadEvent {
            cluster: self.cluster,
            revision,
            events: 1,
            brief: OwnedBrief::new(brief, MESSAGE_MAX),
        };
        self.latest.insert(place, self.events.len());
        self.room = self.room.saturating_sub(event.bytes());
        self.events.push(event);
        false
    }

    /// Whether no more events may be read, or kept.
    fn is_full(&self) -> bool {
        self.bytes == 0 || self.room == 0
    }
}

/// The object, reason and type of an event.
fn subject<'a>(brief: &Brief<'a>) -> [&'a str; 6] {
    [
        brief.kind,
        brief.object_namespace,
        brief.object,
        brief.object_uid,
        brief.reason,
        brief.event_type,
    ]
}

/// The end of the unread remainder of some parts, if there is one.
fn reached(parts: &[Part]) -> Option<i64> {
    parts.iter().filter_map(Part::reached).max()
}

/// The number of parts in which a range is read, given the number of queries, each of which has as
/// many.
fn parts_of((from, to): (i64, i64), queries: usize, parts_max: usize) -> usize {
    let longest = usize::try_from(to.saturating_sub(from) / PART_MIN).unwrap_or(usize::MAX);
    longest.min(parts_max / queries.clamp(1, parts_max)).max(1)
}

/// How many events each open part gets, and of how many parts one gets any: a small page takes as
/// long as a large one. So if little is left for many parts, it is for some, spread over the range.
fn shares(open: usize, left: usize, least: usize, missing: usize) -> (usize, usize) {
    let share = (left / open).max(least.min(left)).min(missing);
    (share, open.div_ceil(left / share))
}

/// Divides a range into parts, the last first.
fn spans((from, to): (i64, i64), parts: usize) -> Vec<(i64, i64)> {
    let parts = i64::try_from(parts).unwrap_or(1);
    let step = to.saturating_sub(from) / parts;
    let bound = |at: i64| if at == parts { to } else { from + step * at };
    let from_last = (0..parts).rev();
    from_last.map(|at| (bound(at), bound(at + 1))).collect()
}

/// The queries to a cluster's store. Together they find all wanted and visible events, and as few
/// others as the store's indexes allow.
pub(super) struct Queries {
    pub(super) requests: Vec<NewestRequest>,
    /// The wanted namespaces, if the queries also find others.
    pub(super) of: Option<Arc<[String]>>,
}

impl Queries {
    pub(super) fn of(visible: &Visible, filter: &Filter) -> Self {
        let every = || vec![Bytes::new()];
        let (prefixes, of): (Vec<Bytes>, _) = match &visible.namespaces {
            None => (every(), None),
            Some(some) if some.len() > NAMESPACES_APART => {
                let mut some = some.clone();
                some.sort_unstable();
                (every(), Some(some.into()))
            }
            Some(some) => {
                let prefixes = some.iter().map(|namespace| format!("{namespace}/").into());
                (prefixes.collect(), None)
            }
        };
        let requests = requests(&prefixes, filter);
        Self { requests, of }
    }

    /// One query within a range of times.
    fn part(&self, query: &NewestRequest, since: i64, until: Option<i64>) -> Part {
        let request = NewestRequest {
            since: Some(UnixMillis(since)),
            until: until.map(UnixMillis),
            ..query.clone()
        };
        Part::new(request, self.of.clone())
    }

    /// Each query within each of these ranges.
    fn parts(&self, spans: &[(i64, i64)], page: usize) -> Vec<Part> {
        let parts = spans.iter().flat_map(|(since, until)| {
            self.requests.iter().map(|query| Part {
                page,
                ..self.part(query, *since, Some(*until))
            })
        });
        parts.collect()
    }

    /// Each query after a moment; of warnings alone if the store has an index of them.
    fn later(&self, after: i64, is_indexed: bool) -> Vec<Part> {
        let soon = after.saturating_add(SOON);
        let mut later = Vec::with_capacity(2 * self.requests.len());
        for (since, until) in [(after, Some(soon)), (soon, None)] {
            later.extend(self.requests.iter().map(|query| {
                let mut part = self.part(query, since, until);
                if is_indexed {
                    part.request.event_type = Some("Warning".to_owned());
                }
                part
            }));
        }
        later
    }
}

fn requests(prefixes: &[Bytes], filter: &Filter) -> Vec<NewestRequest> {
    // `a/b` is a kind and a name, or a name. The kind may be written in any case, so that no index
    // has it.
    let objects = filter.only(Key::Object);
    let names = objects.iter().flat_map(|object| {
        let after = object.match_indices('/').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after);
        starts.filter_map(|start| object.get(start..))
    });
    let by_object = names.map(|name| NewestRequest {
        object: Some(ObjectSelector::Name {
            name: name.to_owned(),
            kind: None,
            namespace: None,
        }),
        ..NewestRequest::default()
    });
    let reasons = filter.only(Key::Reason).into_iter();
    let by_reason = reasons.map(|reason| NewestRequest {
        reason: Some(reason.to_owned()),
        ..NewestRequest::default()
    });
    // Only these two are written in one way; a filter selects others in upper or lower case.
    let types = filter.only(Key::Type);
    let are_known = types
        .iter()
        .all(|name| matches!(*name, "Normal" | "Warning"));
    let types = types.into_iter().filter(|_| are_known);
    let by_type = types.map(|event_type| NewestRequest {
        event_type: Some(event_type.to_owned()),
        ..NewestRequest::default()
    });
    let choices: [Vec<NewestRequest>; 3] =
        [by_object.collect(), by_reason.collect(), by_type.collect()];
    let fits = |choice: &Vec<NewestRequest>| {
        (1..=LOOKUPS_MAX).contains(&choice.len()) && choice.len() * prefixes.len() <= QUERIES_MAX
    };
    let mut chosen = choices.into_iter().find(fits).unwrap_or_default();
    if chosen.is_empty() {
        chosen.push(NewestRequest::default());
    }
    let queries = chosen.iter().flat_map(|query| {
        prefixes.iter().map(|prefix| NewestRequest {
            prefix: prefix.clone(),
            texts: filter.texts().map(str::to_owned).collect(),
            ..query.clone()
        })
    });
    queries.collect()
}

#[cfg(test)]
mod tests {
    use tidings_store::Place;

    use super::*;

    #[test]
    fn what_is_left_of_some_parts_ends_where_the_last_of_them_is() {
        let part = |after: Option<i64>, done| {
            let after = after.map(|millis| Place {
                last_seen: UnixMillis(millis),
                revision: 7,
            });
            let request = NewestRequest {
                until: Some(UnixMillis(1000)),
                after,
                ..NewestRequest::default()
            };
            Part {
                done,
                ..Part::new(request, None)
            }
        };
        for (parts, expected) in [
            (vec![], None),
            (vec![part(Some(700), true), part(None, true)], None),
            (vec![part(Some(700), false), part(None, true)], Some(701)),
            (
                vec![part(Some(700), false), part(Some(800), false)],
                Some(801),
            ),
            // Nothing of the part was read yet.
            (vec![part(Some(700), false), part(None, false)], Some(1000)),
        ] {
            assert_eq!(reached(&parts), expected);
        }
    }

    #[test]
    fn what_is_left_for_many_parts_is_spread_over_them() {
        for (open, left, least, missing, expected) in [
            (4, 1000, 64, usize::MAX, (250, 1)),
            (32, 40, 1, usize::MAX, (1, 1)),
            (32, 128, 64, usize::MAX, (64, 16)),
            (32, 40, 64, usize::MAX, (40, 32)),
            (1, 40, 64, 8, (8, 1)),
        ] {
            let found = shares(open, left, least, missing);
            assert_eq!(found, expected, "{left} for {open}");
            let (share, every) = found;
            assert!(share * open.div_ceil(every) <= left);
        }
    }

    #[test]
    fn parts_are_the_whole_range() {
        for (range, queries) in [((0, 3_600_000), 1), ((5, 7), 1), ((-9, 10_000_001), 3)] {
            let spans = spans(range, parts_of(range, queries, PARTS_MAX));
            assert!(spans.len() <= PARTS_MAX);
            assert_eq!(spans.first().map(|span| span.1), Some(range.1));
            assert_eq!(spans.last().map(|span| span.0), Some(range.0));
            for (later, earlier) in spans.iter().zip(spans.iter().skip(1)) {
                assert_eq!(later.0, earlier.1);
            }
        }
        assert_eq!(parts_of((0, i64::MAX), 1000, PARTS_MAX), 1);
        let of_remote = |queries| parts_of((0, i64::MAX), queries, PARTS_MAX_REMOTE);
        assert_eq!([of_remote(1), of_remote(3), of_remote(9)], [8, 2, 1]);
    }
}
