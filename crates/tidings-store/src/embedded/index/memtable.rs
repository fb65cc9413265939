//! The newest part of the index, in memory: changes of names by the last commits.
//!
//! The [flusher](crate::embedded::maintenance::Flusher) flushes them to the trees.
//!
//! Every change of a name is a slot, in the order of revisions. The only part of a slot that
//! changes is the revision of the next change of the same name. So a reader sees the memtable as of
//! any revision: a slot is valid if its own revision is reached and the next one is not. Slots are
//! found by name and by object along chains from a hash table. For the order of names or times,
//! complete chunks are sorted once, when a reader first needs it.
//!
//! Invariants: one thread adds. Other threads do not see slots younger than the published revision,
//! which may be [removed](Memtable::truncate) again. Ends of versions that are not in the memtable
//! are in `ended`, which hides those versions wherever they are found.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::keys::{By, Fields, ObjectKey, Placed, Pointer};
use crate::{Place, Revision, UnixMillis};

/// Number of slots in a complete chunk.
const CHUNK: usize = 1024;

/// Bytes counted for a slot besides its name: the slot, and its share of hash tables and orders.
pub(in crate::embedded) const SLOT_BYTES: usize = 256;

/// Bytes counted for an entry of `ended`.
const ENDED_BYTES: usize = 192;

/// Bytes counted for a reason besides its text.
const REASON_BYTES: usize = 64;

/// Bytes counted for an early record besides its slot.
const EARLY_BYTES: usize = 64;

/// Maximum slots of a chain that are read under one lock.
const ABOUT_MAX: usize = 512;

/// The number that stands for no slot.
const NONE: u32 = u32::MAX;

/// The value of [`Slot::next`] while the name has no later change.
const NEVER_CHANGED: Revision = Revision::MAX;

/// One change of a name.
struct Slot {
    revision: Revision,
    /// The revision of the next change of the same name.
    next: AtomicU64,
    /// The location and index values of the new version; `None` if the name was deleted.
    put: Option<Put>,
    name_hash: u64,
    name_at: u32,
    name_len: u32,
    /// The previous slots of three chains: same name hash, same hash of the object's uid, and of
    /// its name.
    previous: [u32; 3],
}

#[derive(Clone, Copy)]
struct Put {
    bucket: u64,
    expires_at: Option<UnixMillis>,
    fields: Fields,
    is_early: bool,
}

/// The answer of a memtable about a name.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) enum Found {
    Placed(Placed),
    /// The name has no version.
    Gone,
    /// The memtable does not know the name; an older memtable or the trees may.
    Unknown,
}

/// A version that was not put in this memtable, but ended in it.
#[derive(Clone, Copy, Debug)]
struct Ended {
    version: Placed,
    by: Revision,
}

impl Slot {
    fn is_seen(&self, at: Revision) -> bool {
        self.revision <= at && at < self.next.load(Ordering::Acquire)
    }

    /// The slot's place in the order of last seen, if it puts a version.
    fn place(&self) -> Option<Place> {
        self.put.map(|put| Place {
            last_seen: put.fields.last_seen,
            revision: self.revision,
        })
    }

    /// Bucket, expiry and revision, if the slot put an early record.
    fn early(&self) -> Option<(u64, i64, Revision)> {
        let put = self.put.filter(|put| put.is_early)?;
        Some((put.bucket, put.expires_at?.0, self.revision))
    }

    fn placed(&self) -> Option<Placed> {
        self.put.map(|put| Placed {
            pointer: Pointer {
                revision: self.revision,
                bucket: put.bucket,
                expires_at: put.expires_at,
            },
            fields: put.fields,
            is_early: put.is_early,
        })
    }
}

/// Reasons by their [hashes](Fields::reason).
pub(super) type Reasons = HashMap<u64, Arc<str>, RandomState>;

/// Consecutive slots, with their names.
#[derive(Default)]
pub(in crate::embedded) struct Chunk {
    slots: Vec<Slot>,
    names: Vec<u8>,
    by_name: OnceLock<Vec<u16>>,
    by_seen: OnceLock<Vec<u16>>,
}

impl Chunk {
    fn name(&self, slot: &Slot) -> &[u8] {
        let start = slot.name_at as usize;
        self.names
            .get(start..start + slot.name_len as usize)
            .unwrap_or_default()
    }

    fn slot(&self, at: u16) -> Option<&Slot> {
        self.slots.get(usize::from(at))
    }

    /// Whether the chunk has a slot at or before a revision.
    fn begins_by(&self, at: Revision) -> bool {
        self.slots.first().is_some_and(|slot| slot.revision <= at)
    }

    /// The numbers of its slots in the order of their names, then of their revisions.
    fn by_name(&self) -> &[u16] {
        self.by_name.get_or_init(|| {
            self.sorted(|a, b| {
                let names = self.name(a).cmp(self.name(b));
                names.then(a.revision.cmp(&b.revision))
            })
        })
    }

    /// The numbers of its slots that put a version, the last seen first.
    fn by_seen(&self) -> &[u16] {
        self.by_seen.get_or_init(|| {
            let mut sorted = self.sorted(|a, b| b.place().cmp(&a.place()));
            sorted.retain(|at| self.slot(*at).is_some_and(|slot| slot.put.is_some()));
            sorted
        })
    }

    fn sorted(&self, compare: impl Fn(&Slot, &Slot) -> std::cmp::Ordering) -> Vec<u16> {
        let mut sorted: Vec<u16> = (0..self.slots.len().min(CHUNK) as u16).collect();
        sorted.sort_unstable_by(|a, b| match (self.slot(*a), self.slot(*b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => a.cmp(b),
        });
        sorted
    }
}

#[derive(Default)]
struct Inner {
    /// The complete chunks.
    chunks: Vec<Arc<Chunk>>,
    /// The chunk that slots are added to.
    open: Chunk,
    /// A copy of the open chunk, once a reader needed one. Its orders are thus sorted only once for
    /// all readers.
    copied: OnceLock<Arc<Chunk>>,
    /// The last slot for each hash of a name; below, for each hash of an object.
    names: HashMap<u64, u32, RandomState>,
    objects: HashMap<u64, u32, RandomState>,
    ended: HashMap<Revision, Ended, RandomState>,
    /// The reasons of versions that were put or ended, by their hashes.
    reasons: Reasons,
    /// Bucket, expiry and revision of the early records.
    early: BTreeSet<(u64, i64, Revision)>,
    bytes: usize,
}

impl Inner {
    fn chunk(&self, slot: u32) -> &Chunk {
        self.chunks
            .get(slot as usize / CHUNK)
            .map_or(&self.open, |chunk| chunk)
    }

    fn slot(&self, slot: u32) -> Option<(&Chunk, &Slot)> {
        let chunk = self.chunk(slot);
        Some((chunk, chunk.slots.get(slot as usize % CHUNK)?))
    }

    /// A copy of the open chunk, if it has a slot at or before a revision.
    fn open_chunk(&self, at: Revision) -> Option<Arc<Chunk>> {
        let copy = || Arc::new(self.open.copy());
        let copied = self
            .open
            .begins_by(at)
            .then(|| self.copied.get_or_init(copy));
        copied.cloned()
    }

    fn len(&self) -> u32 {
        (self.chunks.len() * CHUNK + self.open.slots.len()) as u32
    }

    /// The slots of a name, the newest first.
    fn of_name(&self, hash: u64, name: &[u8]) -> impl Iterator<Item = &Slot> {
        let mut next = self.names.get(&hash).copied().unwrap_or(NONE);
        let slots = std::iter::from_fn(move || {
            let (chunk, slot) = self.slot(next)?;
            next = slot.previous[0];
            Some((chunk, slot))
        });
        slots
            .filter(move |(chunk, slot)| chunk.name(slot) == name)
            .map(|(_, slot)| slot)
    }

    /// The slot of a revision.
    fn at(&self, revision: Revision) -> Option<&Slot> {
        let chunk = if self.open.begins_by(revision) {
            &self.open
        } else {
            let next = self
                .chunks
                .partition_point(|chunk| chunk.begins_by(revision));
            self.chunks.get(next.checked_sub(1)?)?
        };
        let found = chunk
            .slots
            .binary_search_by_key(&revision, |slot| slot.revision);
        chunk.slots.get(found.ok()?)
    }

    fn push(&mut self, change: &Change<'_>) {
        self.copied = OnceLock::new();
        let number = self.len();
        let slot = self.of_name(change.hash, change.name).next();
        if let Some(slot) = slot {
            slot.next.store(change.revision, Ordering::Release);
        }
        let mut previous = [NONE; 3];
        previous[0] = self.names.insert(change.hash, number).unwrap_or(NONE);
        if let Some(Put { fields, .. }) = change.put {
            for (to, hash) in previous.iter_mut().skip(1).zip(fields.objects()) {
                if let Some(hash) = hash {
                    *to = self.objects.insert(hash, number).unwrap_or(NONE);
                }
            }
        }
        let slot = Slot {
            revision: change.revision,
            next: AtomicU64::new(NEVER_CHANGED),
            put: change.put,
            name_hash: change.hash,
            name_at: self.open.names.len() as u32,
            name_len: change.name.len() as u32,
            previous,
        };
        if let Some(early) = slot.early() {
            self.early.insert(early);
            self.bytes += EARLY_BYTES;
        }
        self.open.names.extend_from_slice(change.name);
        self.open.slots.push(slot);
        self.bytes += SLOT_BYTES + change.name.len();
        if self.open.slots.len() == CHUNK {
            self.chunks.push(Arc::new(std::mem::take(&mut self.open)));
        }
    }

    /// Records that a version ended, unless its own slot has that.
    fn end(&mut self, version: &Placed, by: Revision) {
        if self.at(version.pointer.revision).is_none() {
            let ended = Ended {
                version: *version,
                by,
            };
            if self.ended.insert(version.pointer.revision, ended).is_none() {
                self.bytes += ENDED_BYTES;
            }
        }
    }

    fn pop(&mut self) {
        self.copied = OnceLock::new();
        let Some(slot) = self.open.slots.pop() else {
            return;
        };
        let chains = [Some(slot.name_hash)].into_iter();
        let objects = slot.put.map_or([None; 2], |put| put.fields.objects());
        for (at, (hash, previous)) in chains.chain(objects).zip(slot.previous).enumerate() {
            let heads = if at == 0 {
                &mut self.names
            } else {
                &mut self.objects
            };
            match hash {
                Some(hash) if previous == NONE => drop(heads.remove(&hash)),
                Some(hash) => drop(heads.insert(hash, previous)),
                None => {}
            }
        }
        if let Some(early) = slot.early() {
            self.early.remove(&early);
            self.bytes -= EARLY_BYTES;
        }
        let start = slot.name_at as usize;
        let name = self.open.names.split_off(start);
        self.bytes -= SLOT_BYTES + name.len();
        if let Some(before) = self.of_name(slot.name_hash, &name).next() {
            before.next.store(NEVER_CHANGED, Ordering::Release);
        }
    }
}

struct Change<'a> {
    hash: u64,
    name: &'a [u8],
    revision: Revision,
    put: Option<Put>,
}

/// A memtable; see the module documentation.
#[derive(Default)]
pub(in crate::embedded) struct Memtable {
    inner: RwLock<Inner>,
    /// The buckets whose trees have the memtable's entries already, while it is being flushed.
    pub(in crate::embedded) written: Mutex<BTreeSet<u64>>,
}

impl Memtable {
    /// An empty memtable with hash tables as large as another's. Growing them repeatedly costs more
    /// than filling them.
    pub(super) fn as_large_as(other: &Self) -> Self {
        let other = other.inner.read();
        let memtable = Self::default();
        let mut inner = memtable.inner.write();
        inner.names.reserve(other.names.len());
        inner.objects.reserve(other.objects.len());
        drop(inner);
        memtable
    }

    /// About how many bytes of memory the memtable takes.
    pub(in crate::embedded) fn bytes(&self) -> usize {
        self.inner.read().bytes
    }

    /// Records the reason of a version that will be put or ended.
    pub(in crate::embedded) fn know_reason(&self, fields: &Fields, reason: &str) {
        let Some(hash) = fields.reason else {
            return;
        };
        if !self.inner.read().reasons.contains_key(&hash) {
            let mut inner = self.inner.write();
            inner.bytes += REASON_BYTES + reason.len();
            inner.reasons.insert(hash, reason.into());
        }
    }

    /// The reasons of the memtable's versions, by their hashes.
    pub(in crate::embedded) fn reasons(&self) -> Reasons {
        self.inner.read().reasons.clone()
    }

    /// Points a name to a new version, which replaces the live one if there is one.
    pub(in crate::embedded) fn put(
        &self,
        hash: u64,
        name: &[u8],
        new: &Placed,
        replaced: Option<&Placed>,
    ) {
        let mut inner = self.inner.write();
        let revision = new.pointer.revision;
        if let Some(replaced) = replaced {
            inner.end(replaced, revision);
        }
        let put = Some(Put {
            bucket: new.pointer.bucket,
            expires_at: new.pointer.expires_at,
            fields: new.fields,
            is_early: new.is_early,
        });
        inner.push(&Change {
            hash,
            name,
            revision,
            put,
        });
    }

    /// Records that a name has no version any more, because the version ended.
    pub(in crate::embedded) fn remove(&self, hash: u64, name: &[u8], ended: &Placed, by: Revision) {
        let mut inner = self.inner.write();
        inner.end(ended, by);
        inner.push(&Change {
            hash,
            name,
            revision: by,
            put: None,
        });
    }

    /// Removes all changes after a revision.
    pub(in crate::embedded) fn truncate(&self, revision: Revision) {
        let mut inner = self.inner.write();
        loop {
            if inner.open.slots.is_empty()
                && let Some(last) = inner.chunks.pop()
            {
                // A copy, because readers may hold the chunk. They see no more of it than before.
                inner.open = last.copy();
            }
            if inner
                .open
                .slots
                .last()
                .is_none_or(|last| last.revision <= revision)
            {
                break;
            }
            inner.pop();
        }
        if inner.open.slots.len() == CHUNK {
            let whole = std::mem::take(&mut inner.open);
            inner.chunks.push(Arc::new(whole));
        }
        let before = inner.ended.len();
        inner.ended.retain(|_, ended| ended.by <= revision);
        inner.bytes -= (before - inner.ended.len()) * ENDED_BYTES;
    }

    /// The version of a name as of a revision.
    pub(in crate::embedded) fn find(&self, hash: u64, name: &[u8], at: Revision) -> Found {
        let inner = self.inner.read();
        inner
            .of_name(hash, name)
            .find(|slot| slot.revision <= at)
            .map_or(Found::Unknown, |slot| {
                slot.placed().map_or(Found::Gone, Found::Placed)
            })
    }

    /// The versions about an object as of a revision. With `at_once`, `None` if the chain is too
    /// long to search quickly.
    pub(in crate::embedded) fn about(
        &self,
        wanted: ObjectKey,
        at: Revision,
        at_once: bool,
    ) -> Option<Vec<Pointer>> {
        let object = wanted.hash();
        let mut found = Vec::new();
        let mut reached = None;
        loop {
            // The lock is released between parts: a chain may be as long as the memtable, and the
            // adding thread waits for the lock.
            let inner = self.inner.read();
            let head = || inner.objects.get(&object).copied().unwrap_or(NONE);
            let mut next = reached.unwrap_or_else(head);
            let mut left = ABOUT_MAX;
            while let Some((_, slot)) = inner.slot(next).filter(|_| left > 0) {
                let objects = slot.put.map_or([None; 2], |put| put.fields.objects());
                let along = usize::from(objects[0] != Some(object));
                next = slot.previous[1 + along];
                if slot.is_seen(at) {
                    let placed = slot.placed();
                    let placed = placed.filter(|placed| wanted.is_in(placed.fields.group));
                    found.extend(placed.map(|placed| placed.pointer));
                }
                // Slots that may still be removed do not count, so that `next` stays a slot of this
                // chain.
                left -= usize::from(slot.revision <= at);
            }
            if left > 0 {
                return Some(found);
            }
            if at_once {
                return None;
            }
            reached = Some(next);
        }
    }

    /// The revision that ended a version before its expiry, as of a revision. `None` if this
    /// memtable does not have that end.
    pub(super) fn ended_by(&self, version: Revision, at: Revision) -> Option<Revision> {
        let inner = self.inner.read();
        let by = match inner.ended.get(&version) {
            Some(ended) => ended.by,
            None => inner.at(version)?.next.load(Ordering::Acquire),
        };
        (by <= at && by != NEVER_CHANGED).then_some(by)
    }

    /// Expiries and revisions of early records in a bucket, in order. It returns at most `limit`,
    /// from a moment and revision on.
    pub(in crate::embedded) fn early(
        &self,
        bucket: u64,
        from: (i64, Revision),
        limit: usize,
    ) -> Vec<(i64, Revision)> {
        let (first, last) = ((bucket, from.0, from.1), (bucket, i64::MAX, Revision::MAX));
        let inner = self.inner.read();
        let early = inner.early.range(first..=last).take(limit);
        early.map(|(_, end, revision)| (*end, *revision)).collect()
    }

    /// All slots up to a revision, and maybe some later ones, in chunks. The open chunk is copied,
    /// so that reading it does not delay the adding thread. While nothing is added, the next reader
    /// gets the same copy.
    pub(in crate::embedded) fn chunks(&self, at: Revision) -> Vec<Arc<Chunk>> {
        let inner = self.inner.read();
        let next = inner.chunks.partition_point(|chunk| chunk.begins_by(at));
        let mut chunks = inner.chunks.get(..next).unwrap_or_default().to_vec();
        chunks.extend(inner.open_chunk(at));
        chunks
    }

    /// The final state of names and versions up to a revision, for flushing to the trees. The
    /// memtable must not grow any more, unless only a reader uses the result.
    pub(in crate::embedded) fn outcome(&self, at: Revision) -> Outcome {
        let chunks = self.chunks(at);
        let ended = self
            .inner
            .read()
            .ended
            .values()
            .copied()
            .collect::<Vec<_>>();
        let ended = ended.into_iter().filter(|ended| ended.by <= at);
        Outcome {
            chunks,
            at,
            ended_before: ended.map(|ended| (ended.version, ended.by)).collect(),
        }
    }
}

impl Chunk {
    fn copy(&self) -> Self {
        let slots = self.slots.iter().map(|slot| Slot {
            next: AtomicU64::new(slot.next.load(Ordering::Acquire)),
            ..*slot
        });
        Self {
            slots: slots.collect(),
            names: self.names.clone(),
            ..Self::default()
        }
    }
}

/// The final state of a memtable; see [`Memtable::outcome`].
pub(in crate::embedded) struct Outcome {
    chunks: Vec<Arc<Chunk>>,
    at: Revision,
    /// Versions from before this memtable that ended, with the revisions of their ends.
    pub(in crate::embedded) ended_before: Vec<(Placed, Revision)>,
}

impl Outcome {
    fn slots(&self) -> impl Iterator<Item = (&Chunk, &Slot, Option<Revision>)> {
        self.chunks.iter().flat_map(|chunk| {
            let slots = chunk
                .slots
                .iter()
                .take_while(|slot| slot.revision <= self.at);
            slots.map(|slot| {
                let next = slot.next.load(Ordering::Acquire);
                let is_seen = next != NEVER_CHANGED && next <= self.at;
                (&**chunk, slot, Some(next).filter(|_| is_seen))
            })
        })
    }

    /// The names in order, each with its final version.
    pub(in crate::embedded) fn names(&self) -> Vec<(&[u8], Option<Pointer>)> {
        let last = self.slots().filter(|(_, _, next)| next.is_none());
        let mut names: Vec<_> = last
            .map(|(chunk, slot, _)| (chunk.name(slot), slot.placed().map(|it| it.pointer)))
            .collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        names
    }

    /// The revision of the memtable's last change.
    pub(in crate::embedded) fn last(&self) -> Revision {
        let last = self.chunks.iter().rev().find_map(|chunk| {
            let next = chunk.slots.partition_point(|slot| slot.revision <= self.at);
            chunk.slots.get(next.checked_sub(1)?)
        });
        last.map_or(0, |slot| slot.revision)
    }

    /// The versions put in this memtable, with the revisions of their ends if they ended.
    pub(in crate::embedded) fn versions(&self) -> impl Iterator<Item = (Placed, Option<Revision>)> {
        self.slots()
            .filter_map(|(_, slot, next)| Some((slot.placed()?, next)))
    }
}

/// The names of a chunk in order, from some name on, as of a revision.
pub(in crate::embedded) struct Names {
    chunk: Arc<Chunk>,
    next: usize,
    at: Revision,
}

impl Names {
    /// Starts at the first name that does not satisfy `is_before`. `is_before` must be true for a
    /// prefix of the order only.
    pub(in crate::embedded) fn new(
        chunk: Arc<Chunk>,
        at: Revision,
        is_before: impl Fn(&[u8]) -> bool,
    ) -> Self {
        let next = chunk.by_name().partition_point(|at| {
            chunk
                .slot(*at)
                .is_some_and(|slot| is_before(chunk.name(slot)))
        });
        Self { chunk, next, at }
    }

    fn head(&self) -> Option<&Slot> {
        self.chunk
            .by_name()
            .get(self.next)
            .and_then(|at| self.chunk.slot(*at))
    }

    /// The next name and its version, without advancing.
    pub(in crate::embedded) fn peek(&mut self) -> Option<(&[u8], Option<Pointer>)> {
        while self.head().is_some_and(|slot| !slot.is_seen(self.at)) {
            self.next += 1;
        }
        let slot = self.head()?;
        Some((
            self.chunk.name(slot),
            slot.placed().map(|placed| placed.pointer),
        ))
    }

    pub(in crate::embedded) fn advance(&mut self) {
        self.next += 1;
    }
}

/// The versions of a chunk, the last seen first, as of a revision.
pub(in crate::embedded) struct Seen {
    chunk: Arc<Chunk>,
    next: usize,
    at: Revision,
    by: By,
}

impl Seen {
    /// The versions that a search finds, after a place if one is given.
    pub(in crate::embedded) fn new(
        chunk: Arc<Chunk>,
        at: Revision,
        by: By,
        behind: Option<Place>,
    ) -> Self {
        let is_before = |slot: &Slot| behind.is_some_and(|behind| slot.place() >= Some(behind));
        let by_seen = chunk.by_seen();
        let next = by_seen.partition_point(|at| chunk.slot(*at).is_some_and(is_before));
        Self {
            chunk,
            next,
            at,
            by,
        }
    }
}

impl Iterator for Seen {
    /// The place and the bucket of a version.
    type Item = (Place, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let slot = *self.chunk.by_seen().get(self.next)?;
            self.next += 1;
            let Some(slot) = self.chunk.slot(slot).filter(|slot| slot.is_seen(self.at)) else {
                continue;
            };
            if let (Some(put), Some(place)) = (slot.put, slot.place())
                && self.by.finds(&put.fields)
            {
                return Some((place, put.bucket));
            }
        }
    }
}

#[cfg(test)]
#[path = "memtable_tests.rs"]
pub(in crate::embedded) mod tests;
