//! The changes of a commit while it is prepared: records, chunks, entries of the journal, and the
//! versions that cannot be kept.
//!
//! Invariant: the writes are those of a whole batch, in the order of the source; a full batch
//! leaves room for what one more observation changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tidings_history::{Cause, Gap, Version};
use tidings_store::{COMMIT_LEN_MAX, NewRecord, UnixMillis, WRITES_MAX, Write};

use super::slot::Slot;
use crate::keep::coverage::{Unswept, cluster_gap};
use crate::keep::feed::{Item, SealedBefore};
use crate::keep::keys;
use crate::version::record::Record;

/// Numbers of records and chunks, and of their bytes, with which a batch is full. A deleted event
/// counts as two. This leaves room for what one more observation changes, which is a few records,
/// and for what is committed with the batch.
const BATCH_RECORDS: usize = WRITES_MAX / 2;
const BATCH_BYTES: usize = COMMIT_LEN_MAX / 4;
/// Maximum number of pairs of namespace and cause for which a batch has separate gaps.
const NOT_KEPT_MAX: usize = 64;

/// The changes of a commit that is being prepared.
#[derive(Default)]
pub(in crate::keep) struct Batch {
    pub(super) slots: HashMap<Bytes, Slot>,
    /// Chunks, with their expiry.
    pub(super) chunks: Vec<(Bytes, Record, UnixMillis)>,
    /// Bytes of everything that was read and observed. The batch writes at most as much.
    pub(in crate::keep) bytes: usize,
    /// Prefixes of the chunks to delete: those of deleted events.
    pub(in crate::keep) without_chunks: HashSet<Bytes>,
    pub(super) listed_at: Option<i64>,
    /// The time up to which nothing was missing before the batch.
    pub(super) complete_until: Option<i64>,
    /// The namespace that is followed; empty for the whole cluster.
    pub(super) followed: String,
    pub(super) sealed_before: Option<Arc<SealedBefore>>,
    /// The new versions, as items for the journal.
    pub(in crate::keep) unsealed: Vec<Item>,
    /// The new gaps, for the journal.
    pub(super) new_gaps: Vec<Gap>,
    pub(super) versions: u64,
    pub(super) seen_before: u64,
    pub(super) ends: u64,
    pub(super) forgotten: u64,
    /// Versions that cannot be kept.
    pub(super) not_kept: NotKept,
}

impl Batch {
    /// Adds a record's new version to the journal, unless it was sealed before.
    pub(super) fn note_unsealed(&mut self, key: &Bytes, record: &Record) {
        let Version {
            uid, epoch, number, ..
        } = &record.newest;
        let before = self.sealed_before.as_ref();
        if !before.is_some_and(|before| before.has(&self.followed, uid, *epoch, *number)) {
            self.unsealed.push(Item::newest(key, record));
        }
    }

    /// Notes the end of the event under a key if it is no longer in a list. Returns whether it did.
    pub(in crate::keep) fn sweep(&mut self, key: &Bytes, unswept: &Unswept, mirrors: bool) -> bool {
        let slot = self.slots.get_mut(key);
        let ended = slot.and_then(|slot| slot.sweep(key, unswept, mirrors));
        let is_ended = ended.is_some();
        if mirrors {
            self.without_chunks.extend(ended);
        }
        self.ends += u64::from(is_ended);
        is_ended
    }

    /// Removes a slot in which nothing was found and nothing will be written, to leave room for
    /// others.
    pub(in crate::keep) fn leave_out_absent(&mut self, key: &Bytes) {
        let slot = self.slots.get(key);
        if slot.is_some_and(|slot| slot.record.is_none() && slot.found.is_none()) {
            self.slots.remove(key);
        }
    }

    /// Returns whether further changes belong to the next commit.
    pub(in crate::keep) fn is_full(&self) -> bool {
        let writes = self.slots.len() + self.chunks.len() + self.without_chunks.len();
        writes >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }

    /// Adds a chunk of an event.
    pub(in crate::keep) fn chunk(&mut self, id: &[u8], chunk: Record, expires_at: UnixMillis) {
        let at = keys::chunk(id, chunk.chunks);
        self.chunks.push((at, chunk, expires_at));
    }

    /// Returns when the last of the batch's events expires.
    pub(in crate::keep) fn latest_end(&self) -> Option<UnixMillis> {
        let ends = self.slots.values().filter(|slot| slot.record.is_some());
        ends.filter_map(|slot| slot.expires_at).max()
    }

    /// Returns the writes for the store, and the number of versions that are left out because they
    /// have expired.
    pub(in crate::keep) fn writes(&self, now: UnixMillis) -> (Vec<Write>, u64) {
        let mut writes = Vec::with_capacity(self.slots.len() + self.chunks.len() + 2);
        let mut over = 0;
        let changed = self.slots.iter().filter(|(_, slot)| slot.is_changed);
        let mut changed: Vec<_> = changed.collect();
        // Watchers then see the changes in the order of the source.
        changed.sort_by_key(|(_, slot)| slot.number());
        for (key, slot) in changed {
            if let Some(record) = &slot.record
                && slot.expires_at.is_some_and(|end| end <= now)
            {
                over += record.versions().count() as u64;
                continue;
            }
            writes.extend(slot.write(key));
        }
        for (key, chunk, expires_at) in &self.chunks {
            let of_event = key.len().saturating_sub(keys::CHUNK_NUMBER_LEN);
            if self.without_chunks.contains(&key[..of_event]) {
                continue;
            }
            if *expires_at <= now {
                over += chunk.versions().count() as u64;
                continue;
            }
            let record = NewRecord::new(chunk.encode()).expires_at(*expires_at);
            writes.push(Write::put(key.clone(), record));
        }
        (writes, over)
    }

    /// Notes a version that cannot be kept, of an event in this namespace, which is empty if it is
    /// not known.
    pub(super) fn not_kept(&mut self, cause: Cause, namespace: &str, observed_at: i64) {
        // The gap's key must have room for the namespace, which must be usable in paths.
        let is_namespace = keys::is_step(namespace) && namespace.len() <= keys::NAMESPACE_LEN_MAX;
        let namespace = if is_namespace {
            namespace
        } else {
            &*self.followed
        };
        self.not_kept.note(cause, namespace, observed_at);
    }

    /// Returns the gaps that are written with the batch: the given gap, and for versions of the
    /// batch that cannot be kept, one for each cause and namespace.
    pub(super) fn gaps(&self, gap: Option<&Gap>) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = gap.cloned().into_iter().collect();
        for ((cause, namespace), (first, last, _)) in &self.not_kept.0 {
            // Another gap may begin at the same time. Each of these begins a little later, since
            // keys have the beginning.
            let apart = if *cause == Cause::TooLarge { 1 } else { 2 };
            // The versions may have been written long before they were observed.
            let begins = |until: i64| (*first).min(until.saturating_add(apart));
            let from = self.complete_until.map_or(*first, begins);
            let from = gap.map_or(from, |gap| from.max(gap.from.0.saturating_add(apart)));
            gaps.push(cluster_gap(from, (*last).max(from), *cause).of(namespace));
        }
        gaps
    }
}

/// Versions that cannot be kept, by cause and by the namespace of their events: when the first and
/// the last were observed, and their number. Namespaces beyond [`NOT_KEPT_MAX`] of a batch count as
/// the whole cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct NotKept(BTreeMap<(Cause, String), (i64, i64, u64)>);

impl NotKept {
    fn note(&mut self, cause: Cause, namespace: &str, observed_at: i64) {
        let mut at = (cause, namespace.to_owned());
        if self.0.len() >= NOT_KEPT_MAX && !self.0.contains_key(&at) {
            at.1.clear();
        }
        let noted = self.0.entry(at).or_insert((observed_at, observed_at, 0));
        *noted = (
            noted.0.min(observed_at),
            noted.1.max(observed_at),
            noted.2 + 1,
        );
    }

    pub(super) fn number(&self, of: Cause) -> u64 {
        let noted = self.0.iter().filter(|((cause, _), _)| *cause == of);
        noted.map(|(_, (_, _, number))| number).sum()
    }
}
