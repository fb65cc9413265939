//! Reads: a [`View`] is the store as of one commit, and answers every read.
//!
//! The pages of one list are read from one snapshot, which is [held](crate::embedded::engine::Held)
//! for them. Without a snapshot, a list at an older revision is the current list with the changes
//! since then undone. So pages are exact however late they are read, as long as the history reaches
//! back to them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::changes::{Bounds, Changes, Logged};
use crate::clock::Clock;
use crate::embedded::codec::version::Version;
use crate::embedded::codec::{Codec, State};
use crate::embedded::engine::{
    Bucket, Buckets, Engine, Event, Events, LookedUp, Moment, Stored, unpack, unpack_record,
};
use crate::embedded::index::keys::{self, By, ObjectKey, Pointer};
use crate::embedded::index::memtable::{Found, Seen};
use crate::embedded::index::{Names, Snapshot, Tree, key_of};
use crate::embedded::log::segment::Scratch;
use crate::record::Room;
use crate::{
    At, Change, Fault, ListRequest, NewestRequest, ObjectSelector, PAGE_BYTES_MAX, Page, Place,
    ReadError, Record, Revision, UnixMillis,
};

/// Maximum events of one object that are read in the calling task.
pub(in crate::embedded) const AT_ONCE_MAX: usize = 64;

/// Time after which a read of the trees gets helper threads. If what it needs is in memory, some
/// microseconds are enough. Otherwise it reads the disk, which does many reads at once in about the
/// time of one.
const ALONE_MAX: Duration = Duration::from_micros(500);

/// Maximum live or expired records skipped for one page of the newest.
pub(in crate::embedded) const PASSED_OVER_MAX: usize = 4096;

/// Maximum ended versions skipped for one page of the newest. Only their index entries are read.
/// The index has expired versions for as long as their bucket.
pub(in crate::embedded) const ENDED_MAX: usize = 4 * PASSED_OVER_MAX;

/// The store as of one commit; see the module documentation.
pub(in crate::embedded) struct View<'a> {
    pub(in crate::embedded) engine: &'a Engine,
    pub(in crate::embedded) codec: &'a Codec,
    /// The ring of recent changes, for reads that need only records.
    recent: Option<&'a Changes>,
    /// The clock, for reads that may take long.
    clock: Option<&'a dyn Clock>,
    pub(in crate::embedded) snapshot: Arc<Snapshot>,
    pub(in crate::embedded) buckets: Arc<Buckets>,
    pub(in crate::embedded) state: State,
}

impl<'a> View<'a> {
    /// A view of the current state.
    pub(in crate::embedded) fn new(engine: &'a Engine, codec: &'a Codec) -> Self {
        Self::at(engine, codec, engine.moment())
    }

    /// A view of the state at some moment.
    pub(in crate::embedded) fn at(engine: &'a Engine, codec: &'a Codec, moment: Moment) -> Self {
        let Moment {
            snapshot,
            buckets,
            state,
        } = moment;
        Self {
            engine,
            codec,
            recent: None,
            clock: None,
            snapshot,
            buckets,
            state,
        }
    }

    /// Adds the ring of recent changes and the clock to the view. The ring gets a commit after the
    /// engine does, and never one that is not on disk. By the clock a read finds out that it waits
    /// for the disk.
    pub(in crate::embedded) fn with_recent(
        self,
        recent: &'a Changes,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            recent: Some(recent),
            clock: Some(clock),
            ..self
        }
    }

    /// The location of a key's current version, expired or not.
    pub(in crate::embedded) fn pointer(&self, key: &[u8]) -> Result<Option<Pointer>, Fault> {
        let hash = self.engine.index.hash(key);
        let pointer = match self.in_memory(hash, key, self.state.revision) {
            Found::Placed(placed) => Some(placed.pointer),
            Found::Gone => None,
            Found::Unknown => self.in_trees(key)?,
        };
        Ok(pointer.filter(|pointer| !self.is_swept(pointer.bucket, pointer.revision)))
    }

    /// The location of a key's current version, for a later [`Batch`](crate::embedded::commit).
    pub(in crate::embedded) fn look_up(&self, key: &[u8]) -> Result<LookedUp, Fault> {
        Ok(LookedUp {
            pointer: self.pointer(key)?,
            forgotten: self.snapshot.memtables.forgotten,
        })
    }

    /// What the memtables know about a key.
    pub(in crate::embedded) fn in_memory(&self, hash: u64, key: &[u8], at: Revision) -> Found {
        let mut memtables = self.snapshot.memtables.iter();
        let found = memtables.find_map(|memtable| match memtable.find(hash, key, at) {
            Found::Unknown => None,
            found => Some(found),
        });
        found.unwrap_or(Found::Unknown)
    }

    /// The version of a key in the trees, if no memtable has it. An earlier look-up is used if it
    /// is still valid.
    pub(in crate::embedded) fn still_in_trees(
        &self,
        key: &[u8],
        before: Option<LookedUp>,
    ) -> Result<Option<Pointer>, Fault> {
        match before {
            Some(before) if before.forgotten == self.snapshot.memtables.forgotten => {
                Ok(before.pointer)
            }
            _ => self.in_trees(key),
        }
    }

    /// Looks up the version of a key in the trees.
    fn in_trees(&self, key: &[u8]) -> Result<Option<Pointer>, Fault> {
        let entry = self.snapshot.get(&self.engine.index.names, key)?;
        entry.map(|bytes| Pointer::decode(&bytes)).transpose()
    }

    /// Whether a version ended before its expiry.
    pub(in crate::embedded) fn is_ended(
        &self,
        bucket: &Tree,
        version: Revision,
    ) -> Result<bool, Fault> {
        let in_memory = self
            .snapshot
            .memtables
            .have_ended(version, self.state.revision);
        Ok(in_memory
            || self
                .snapshot
                .contains_key(bucket, &keys::ended_key(version)[..])?)
    }

    /// Reads the version with a revision. `None` if its bucket was dropped, because it expired long
    /// ago.
    pub(in crate::embedded) fn version(
        &self,
        revision: Revision,
        bucket: u64,
    ) -> Result<Option<Stored>, Fault> {
        self.version_into(revision, bucket, &mut Scratch::default())
    }

    /// Like [`version`](Self::version), but the version may have been removed from the log after it
    /// ended.
    pub(in crate::embedded) fn found(
        &self,
        revision: Revision,
        bucket: u64,
    ) -> Result<Option<Stored>, Fault> {
        let Some(segments) = self.buckets.get(&bucket) else {
            return Ok(None);
        };
        let mut scratch = Scratch::default();
        let bytes = segments.log.version(revision, &mut scratch)?;
        bytes
            .map(|bytes| unpack(self.codec, bytes, revision, bucket))
            .transpose()
    }

    fn version_into(
        &self,
        revision: Revision,
        bucket: u64,
        scratch: &mut Scratch,
    ) -> Result<Option<Stored>, Fault> {
        let bytes = self.packed(revision, bucket, scratch)?;
        bytes
            .map(|bytes| unpack(self.codec, bytes, revision, bucket))
            .transpose()
    }

    /// Reads only the record of a version, without its index values, for lists. It takes the record
    /// from memory if possible, in a tenth of the time. Otherwise it reads into `scratch`, which
    /// the caller reuses.
    fn record(
        &self,
        revision: Revision,
        bucket: u64,
        scratch: &mut Scratch,
    ) -> Result<Option<Record>, Fault> {
        if let Some(record) = self.recent.and_then(|recent| recent.written(revision)) {
            return Ok(Some(record));
        }
        let Some(bytes) = self.packed(revision, bucket, scratch)? else {
            return Ok(None);
        };
        let version = Version::decode(bytes, revision, bucket)?;
        unpack_record(self.codec, version, revision).map(Some)
    }

    fn packed<'s>(
        &self,
        revision: Revision,
        bucket: u64,
        scratch: &'s mut Scratch,
    ) -> Result<Option<&'s [u8]>, Fault> {
        let Some(bucket) = self.buckets.get(&bucket) else {
            return Ok(None);
        };
        match bucket.log.version(revision, scratch)? {
            None => Err(Fault::Corrupt(format!(
                "revision {revision} is missing from its bucket"
            ))),
            bytes => Ok(bytes),
        }
    }

    /// Reads the live record under a key.
    pub(in crate::embedded) fn live(
        &self,
        key: &[u8],
        now: UnixMillis,
    ) -> Result<Option<Record>, Fault> {
        match self.pointer(key)? {
            Some(pointer) if pointer.is_live(now) => {
                let mut scratch = Scratch::default();
                self.record(pointer.revision, pointer.bucket, &mut scratch)
            }
            _ => Ok(None),
        }
    }

    /// Whether the expiry of a version is written.
    pub(in crate::embedded) fn is_swept(&self, bucket: u64, revision: Revision) -> bool {
        self.state.swept.has(bucket, revision)
    }

    /// Lists records; see [`Store::list`](crate::Store::list).
    pub(in crate::embedded) fn list(
        &self,
        request: &ListRequest,
        now: UnixMillis,
    ) -> Result<Page, ReadError> {
        let current = self.state.revision;
        let (revision, undone) = match request.at {
            At::Latest => (current, BTreeMap::new()),
            At::Exact(requested) if requested > current => {
                return Err(ReadError::Future { requested, current });
            }
            At::Exact(requested) => {
                let oldest = self.state.compacted;
                if requested < oldest {
                    return Err(ReadError::Compacted { requested, oldest });
                }
                (requested, self.undone(requested, request)?)
            }
        };
        let everything = request.prefix.is_empty()
            && request.after.is_none()
            && request.object.is_none()
            && revision == current;
        let mut page = PageBuilder::new(request, revision);
        page.all = everything.then_some(self.state.records);
        match &request.object {
            None => self.list_names(&undone, now, &mut page)?,
            Some(object) => {
                let versions = self.about(object, &request.prefix, false)?;
                let versions = versions.unwrap_or_default();
                self.list_object(object, versions, &undone, now, &mut page)?;
            }
        }
        Ok(page.finish())
    }

    /// Lists the events of one object at the latest revision, in the calling task. `None` if they
    /// are many or not in the page cache. For few cached events another thread would take longer.
    /// If the index is not in memory, this soon gives up.
    pub(in crate::embedded) fn list_at_once(
        &self,
        request: &ListRequest,
        now: UnixMillis,
    ) -> Result<Option<Page>, Fault> {
        let current = self.state.revision;
        let Some(object) = &request.object else {
            return Ok(None);
        };
        if !matches!(request.at, At::Latest) && request.at != At::Exact(current) {
            return Ok(None);
        }
        let Some(versions) = self.about(object, &request.prefix, true)? else {
            return Ok(None);
        };
        let mut page = PageBuilder::new(request, current);
        page.scratch = Scratch::of_cached();
        self.list_object(object, versions, &BTreeMap::new(), now, &mut page)?;
        Ok(Some(page.finish()))
    }

    /// Locations of all versions about an object, and perhaps of others. With `at_once`, `None` if
    /// they are many or the disk is slow.
    fn about(
        &self,
        object: &ObjectSelector,
        prefix: &[u8],
        at_once: bool,
    ) -> Result<Option<BTreeMap<Revision, u64>>, Fault> {
        // A map, because a version that is being flushed may be found twice.
        let mut versions = BTreeMap::new();
        let Some(object) = ObjectKey::of(object, prefix) else {
            return Ok(Some(versions));
        };
        let are_many = |versions: &BTreeMap<_, _>| at_once && versions.len() > AT_ONCE_MAX;
        for memtable in self.snapshot.memtables.iter() {
            let Some(about) = memtable.about(object, self.state.revision, at_once) else {
                return Ok(None);
            };
            versions.extend(about.iter().map(|found| (found.revision, found.bucket)));
        }
        let count = AtomicUsize::new(0);
        let prefix = By::Object(object).prefix();
        let of_trees = self.in_buckets(at_once, |name, bucket| {
            let mut found = Vec::new();
            for entry in self.snapshot.prefix(&bucket.index, &prefix[..]) {
                let place = keys::read_place(&key_of(entry)?)?;
                found.push((place.revision, name));
                if at_once && count.fetch_add(1, Ordering::Relaxed) >= AT_ONCE_MAX {
                    break;
                }
            }
            Ok(found)
        })?;
        let Some(of_trees) = of_trees else {
            return Ok(None);
        };
        versions.extend(of_trees.into_iter().flatten());
        Ok(Some(versions).filter(|versions| !are_many(versions)))
    }

    /// Runs a read in each bucket; the results are in the order of the buckets. It starts in this
    /// thread, and gets helpers once it waits for the disk. With `at_once` it returns `None`
    /// instead.
    fn in_buckets<T: Send>(
        &self,
        at_once: bool,
        read: impl Fn(u64, &Bucket) -> Result<T, Fault> + Sync,
    ) -> Result<Option<Vec<T>>, Fault> {
        let steady = || self.clock.map_or(Duration::ZERO, Clock::steady);
        let start = steady();
        let buckets: Vec<_> = self.buckets.iter().collect();
        let (mut found, mut left) = (Vec::with_capacity(buckets.len()), &buckets[..]);
        while let Some(((name, bucket), rest)) = left.split_first() {
            found.push(read(**name, bucket)?);
            left = rest;
            if left.is_empty() || steady().saturating_sub(start) < ALONE_MAX {
                continue;
            }
            if at_once {
                return Ok(None);
            }
            let rest = self
                .engine
                .helpers
                .each(left, |(name, bucket)| read(**name, bucket));
            found.extend(rest.into_iter().collect::<Result<Vec<_>, _>>()?);
            break;
        }
        Ok(Some(found))
    }

    /// The versions that keys had at a revision, for keys that changed after it.
    fn undone(
        &self,
        revision: Revision,
        request: &ListRequest,
    ) -> Result<BTreeMap<Bytes, Option<Pointer>>, Fault> {
        let mut undone = BTreeMap::new();
        // Only a key's first change after the revision has the version at the revision.
        let mut undo = |key: &Bytes, previous: Option<Pointer>| {
            if request.contains(key) {
                undone.entry(key.clone()).or_insert(previous);
            }
        };
        if revision == self.state.revision {
            return Ok(undone);
        }
        let taken_back = &self.engine.held.undone;
        let until = self.state.revision;
        let recent = self
            .recent
            .and_then(|recent| recent.between(revision, until));
        if let Some(recent) = recent {
            for Logged {
                change,
                previous_bucket,
                ..
            } in recent
            {
                if change.revision() > self.state.revision {
                    break;
                }
                taken_back.fetch_add(1, Ordering::Relaxed);
                let previous = change.previous().map(|record| Pointer {
                    revision: record.revision,
                    bucket: previous_bucket,
                    expires_at: record.expires_at,
                });
                undo(change.key(), previous);
            }
            return Ok(undone);
        }
        let mut events = Events::new(&self.buckets, revision, self.state.revision)?;
        while let Some((revision, event)) = events.next()? {
            taken_back.fetch_add(1, Ordering::Relaxed);
            let (key, previous) = self.previous(revision, event)?;
            undo(&key, previous);
        }
        Ok(undone)
    }

    /// The key that an event changed, and its version before the event.
    fn previous(
        &self,
        revision: Revision,
        event: Event,
    ) -> Result<(Bytes, Option<Pointer>), Fault> {
        let (key, previous) = match event {
            Event::Put { bucket, bytes } => {
                let stored = unpack(self.codec, &bytes, revision, bucket)?;
                let previous = stored
                    .previous
                    .map(|(revision, bucket)| self.version(revision, bucket));
                // A copy: the unpacked record shares one buffer, and a list may hold many keys.
                (
                    Bytes::copy_from_slice(&stored.record.key),
                    previous.transpose()?.flatten(),
                )
            }
            Event::End {
                version, bucket, ..
            }
            | Event::Replaced { version, bucket } => {
                let stored = self
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                (Bytes::copy_from_slice(&stored.record.key), Some(stored))
            }
        };
        let pointer = previous.map(|Stored { record, bucket, .. }| Pointer {
            revision: record.revision,
            bucket,
            expires_at: record.expires_at,
        });
        Ok((key, pointer))
    }

    /// The change of an event, with its records; `None` if the event is not a change by itself.
    fn change(&self, revision: Revision, event: Event) -> Result<Option<Change>, Fault> {
        Ok(Some(match event {
            Event::Put { bucket, bytes } => {
                let stored = unpack(self.codec, &bytes, revision, bucket)?;
                let previous = match stored.previous {
                    Some((revision, bucket)) => {
                        self.version(revision, bucket)?.map(|stored| stored.record)
                    }
                    None => None,
                };
                Change::Put {
                    record: stored.record,
                    previous,
                }
            }
            Event::End {
                version,
                bucket,
                expired,
            } => {
                let stored = self
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                Change::Delete {
                    revision,
                    previous: stored.record,
                    expired,
                }
            }
            Event::Replaced { .. } => return Ok(None),
        }))
    }

    fn list_names(
        &self,
        undone: &BTreeMap<Bytes, Option<Pointer>>,
        now: UnixMillis,
        page: &mut PageBuilder<'_>,
    ) -> Result<(), Fault> {
        let mut undone = undone.iter().peekable();
        let mut names = Names::new(
            &self.snapshot,
            &self.engine.index.names,
            self.state.revision,
            &page.request.prefix,
            page.request.after.as_deref(),
        );
        while let Some((key, pointer)) = names.next()? {
            while let Some((undone_key, pointer)) =
                undone.next_if(|(undone_key, _)| undone_key[..] < key[..])
            {
                page.offer(self, undone_key, *pointer, now)?;
            }
            if let Some((undone_key, pointer)) =
                undone.next_if(|(undone_key, _)| undone_key[..] == key[..])
            {
                page.offer(self, undone_key, *pointer, now)?;
            } else {
                let pointer =
                    pointer.filter(|pointer| !self.is_swept(pointer.bucket, pointer.revision));
                page.offer(self, &key, pointer, now)?;
            }
            if page.is_done() {
                return Ok(());
            }
        }
        for (key, pointer) in undone {
            page.offer(self, key, *pointer, now)?;
        }
        Ok(())
    }

    fn list_object(
        &self,
        object: &ObjectSelector,
        versions: BTreeMap<Revision, u64>,
        undone: &BTreeMap<Bytes, Option<Pointer>>,
        now: UnixMillis,
        page: &mut PageBuilder<'_>,
    ) -> Result<(), Fault> {
        let request = page.request;
        // Few versions come here only if some are not in the page cache. They are far apart, and a
        // disk reads many at once in about the time of one.
        if versions.len() <= AT_ONCE_MAX && !page.scratch.is_of_cached() {
            for (revision, bucket) in &versions {
                if let Some(bucket) = self.buckets.get(bucket) {
                    bucket.log.will_need(*revision);
                }
            }
        }
        let (limited, limit) = match request.limit {
            Some(limit) => (true, limit),
            None => (false, usize::MAX),
        };
        // The versions are not in the order of keys, so only as many records are kept as the page
        // has room for.
        let mut found: BTreeMap<Bytes, Record> = BTreeMap::new();
        let (mut bytes, mut behind) = (0, 0);
        let mut add = |stored: Stored| {
            let Record {
                key, expires_at, ..
            } = &stored.record;
            let live = expires_at.is_none_or(|at| at > now);
            if live && request.contains(key) && object.matches(&stored.index) {
                bytes += stored.record.value.len();
                found.insert(key.clone(), stored.record);
                while found.len() > limit || limited && found.len() > 1 && bytes > PAGE_BYTES_MAX {
                    let Some((_, last)) = found.pop_last() else {
                        break;
                    };
                    bytes -= last.value.len();
                    behind += 1;
                }
            }
        };
        for (revision, bucket) in versions {
            if !self.is_swept(bucket, revision)
                && !self
                    .snapshot
                    .memtables
                    .have_ended(revision, self.state.revision)
                && let Some(stored) = self.version_into(revision, bucket, &mut page.scratch)?
                && !undone.contains_key(&stored.record.key)
            {
                add(stored);
            }
        }
        for pointer in undone
            .values()
            .flatten()
            .filter(|pointer| pointer.is_live(now))
        {
            let Pointer {
                revision, bucket, ..
            } = *pointer;
            if let Some(stored) = self.version_into(revision, bucket, &mut page.scratch)? {
                add(stored);
            }
        }
        page.page.records.extend(found.into_values());
        page.behind = behind;
        Ok(())
    }

    /// Reads the newest records; see [`Store::newest`](crate::Store::newest).
    pub(in crate::embedded) fn newest(
        &self,
        request: &NewestRequest,
        now: UnixMillis,
    ) -> Result<Page, Fault> {
        let mut page = Page {
            revision: self.state.revision,
            place: request.after,
            ..Page::default()
        };
        let mut room = Room::limited(request.limit);
        let (mut passed_over, mut ended) = (0, 0);
        let mut streams = self.seen_streams(request)?;
        let mut last = None;
        let mut scratch = Scratch::default();
        while let Some(stream) = streams.iter_mut().max_by_key(|stream| stream.next) {
            let Some((place, bucket)) = stream.next else {
                break;
            };
            stream.advance()?;
            if !request.in_range(place) {
                break;
            }
            let revision = place.revision;
            // Checked before the record is read, which may be large.
            if request.values_only && room.is_full_of_values() {
                page.more = true;
                break;
            }
            // A version that is being flushed may be found twice.
            if last.replace(revision) == Some(revision)
                || self.is_swept(bucket, revision)
                || self
                    .snapshot
                    .memtables
                    .have_ended(revision, self.state.revision)
            {
                ended += 1;
                if ended >= ENDED_MAX {
                    (page.place, page.more) = (Some(place), true);
                    break;
                }
                continue;
            }
            let (record, is_selected) = if request.selects_by_index() {
                let stored = self.version_into(revision, bucket, &mut scratch)?;
                let Some(stored) = stored else { continue };
                let is_selected = request.selected(&stored.index);
                (stored.record, is_selected)
            } else {
                let record = self.record(revision, bucket, &mut scratch)?;
                let Some(record) = record else { continue };
                (record, true)
            };
            let is_live = record.expires_at.is_none_or(|at| at > now);
            let is_found = is_live && is_selected && record.key.starts_with(&request.prefix);
            if page.found() >= request.limit && is_found || passed_over >= PASSED_OVER_MAX {
                page.more = true;
                break;
            }
            page.place = Some(place);
            if is_found {
                page.add_found(&mut room, record, place);
            } else {
                passed_over += 1;
            }
        }
        page.place.take_if(|_| !page.more);
        Ok(page)
    }

    /// Locations of all versions that may match, and perhaps of others, in several streams. Each
    /// stream has the last seen first.
    fn seen_streams(&self, request: &NewestRequest) -> Result<Vec<SeenStream>, Fault> {
        let mut streams = Vec::new();
        let Some(by) = By::of(request) else {
            return Ok(streams);
        };
        for chunk in self
            .snapshot
            .memtables
            .iter()
            .flat_map(|memtable| memtable.chunks(self.state.revision))
        {
            let seen = Seen::new(chunk, self.state.revision, by, request.behind());
            streams.push(SeenStream::new(seen.map(Ok))?);
        }
        let of_trees = self.in_buckets(false, |name, bucket| {
            if self.is_swept(name, Revision::MAX) {
                return Ok(None);
            }
            if let By::Object(ObjectKey::Name(_, None)) = by {
                // These entries are sorted by the groups of their names, so only each group is in
                // order.
                let entries = self.snapshot.prefix(&bucket.index, &by.prefix()[..]);
                let places = entries.map(|entry| keys::read_place(&key_of(entry)?));
                let mut places: Vec<_> = places.collect::<Result<_, _>>()?;
                places.retain(|place| request.in_range(*place));
                places.sort_unstable_by(|a, b| b.cmp(a));
                let seen = places.into_iter().map(move |place| Ok((place, name)));
                return SeenStream::new(seen).map(Some);
            }
            let (first, last) = by.range(request);
            let range = (
                first.as_ref().map(|key| &key[..]),
                Bound::Included(&last[..]),
            );
            let entries = self.snapshot.range::<&[u8], _>(&bucket.index, range);
            let seen = entries.map(move |entry| Ok((keys::read_place(&key_of(entry)?)?, name)));
            SeenStream::new(seen).map(Some)
        })?;
        streams.extend(of_trees.into_iter().flatten().flatten());
        Ok(streams)
    }

    /// Reads about `limit` changes after a revision, in order. Also returns the revision up to
    /// which they are complete.
    pub(in crate::embedded) fn changes(
        &self,
        after: Revision,
        limit: Bounds,
    ) -> Result<(Vec<Arc<Change>>, Revision), Fault> {
        let mut changes: Vec<Arc<Change>> = Vec::new();
        let mut bytes = 0;
        let mut events = Events::new(&self.buckets, after, self.state.revision)?;
        while let Some((revision, event)) = events.next()? {
            if let Some(change) = self.change(revision, event)? {
                let len = |record: Option<&Record>| record.map_or(0, |record| record.value.len());
                bytes += len(change.record()) + len(change.previous());
                changes.push(Arc::new(change));
            }
            // Every change of this store has its own revision, so any of them may be the last.
            if changes.len() >= limit.changes || bytes >= limit.bytes {
                let reached = changes.last().map_or(after, |change| change.revision());
                return Ok((changes, reached));
            }
        }
        Ok((changes, self.state.revision))
    }
}

fn missing(revision: Revision) -> Fault {
    Fault::Corrupt(format!(
        "revision {revision} is in the history but not in the store"
    ))
}

impl ListRequest {
    fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(&self.prefix) && self.after.as_ref().is_none_or(|after| key > &after[..])
    }
}

/// Collects a page up to its limit, and then looks for more records, or counts them.
struct PageBuilder<'a> {
    request: &'a ListRequest,
    /// Number of records of the whole list, if it is known without counting.
    all: Option<u64>,
    room: Room,
    page: Page,
    behind: u64,
    /// The buffer for reading versions.
    scratch: Scratch,
}

impl<'a> PageBuilder<'a> {
    fn new(request: &'a ListRequest, revision: Revision) -> Self {
        Self {
            request,
            all: None,
            room: Room::of(request),
            page: Page {
                revision,
                ..Page::default()
            },
            behind: 0,
            scratch: Scratch::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.behind > 0 && (!self.request.count_remaining || self.all.is_some())
    }

    /// Takes the next key of the list, with its version.
    fn offer(
        &mut self,
        view: &View<'_>,
        key: &[u8],
        pointer: Option<Pointer>,
        now: UnixMillis,
    ) -> Result<(), Fault> {
        let Some(pointer) = pointer.filter(|pointer| pointer.is_live(now)) else {
            return Ok(());
        };
        if !self.room.is_left() {
            self.behind = match self.all {
                Some(all) => all.saturating_sub(self.page.records.len() as u64).max(1),
                None => self.behind + 1,
            };
        } else if let Some(record) =
            view.record(pointer.revision, pointer.bucket, &mut self.scratch)?
        {
            if record.key != key {
                return Err(Fault::Corrupt(format!(
                    "revision {} is stored under another key",
                    pointer.revision
                )));
            }
            self.room.fill(&record);
            self.page.records.push(record);
        }
        Ok(())
    }

    fn finish(mut self) -> Page {
        self.page.more = self.behind > 0;
        self.page.remaining = self.request.count_remaining.then_some(self.behind);
        self.page
    }
}

/// Places and buckets of versions, the last seen first.
struct SeenStream {
    next: Option<(Place, u64)>,
    rest: Box<dyn Iterator<Item = Result<(Place, u64), Fault>> + Send>,
}

impl SeenStream {
    fn new(
        rest: impl Iterator<Item = Result<(Place, u64), Fault>> + Send + 'static,
    ) -> Result<Self, Fault> {
        let mut stream = Self {
            next: None,
            rest: Box::new(rest),
        };
        stream.advance()?;
        Ok(stream)
    }

    fn advance(&mut self) -> Result<(), Fault> {
        self.next = self.rest.next().transpose()?;
        Ok(())
    }
}
