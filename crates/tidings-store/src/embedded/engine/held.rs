//! Snapshots held for lists that are read page by page.
//!
//! With a held snapshot the cost of a page does not depend on the writes since the first page. If
//! there are more pages, the snapshot of a page is held under its revision for the next one. A page
//! without a held snapshot is read from a new one, with the changes since its revision
//! [undone](crate::embedded::read::View::list). Such a page is equally exact, at a cost in
//! proportion to those changes.
//!
//! Invariants:
//!
//! - There are at most `snapshots`.
//! - As of the last commit or second, each was read within `idle` and has a revision in the
//!   history.
//! - The memtables that exist only for held snapshots take at most `memory` bytes.
//! - A list whose second page was read never loses its snapshot to a list without one. So a client
//!   that reads only the beginning of many lists takes no snapshot from another client's list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::bucket::Buckets;
use crate::Revision;
use crate::embedded::codec::State;
use crate::embedded::index::memtable::Memtable;
use crate::embedded::index::{Memtables, Snapshot};
use crate::embedded::options::EmbeddedOptions;

/// The state of one commit.
#[derive(Clone)]
pub(in crate::embedded) struct Moment {
    pub(in crate::embedded) snapshot: Arc<Snapshot>,
    pub(in crate::embedded) buckets: Arc<Buckets>,
    pub(in crate::embedded) state: State,
}

/// The limits on held snapshots; see [`EmbeddedOptions`].
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::embedded) struct Limits {
    pub(in crate::embedded) snapshots: usize,
    pub(in crate::embedded) idle: Duration,
    memory: usize,
}

impl Limits {
    pub(in crate::embedded) fn of(options: &EmbeddedOptions) -> Self {
        Self {
            snapshots: options.list_snapshots_max,
            idle: options.list_snapshot_idle,
            memory: options.list_snapshot_memory_bytes,
        }
    }
}

struct Entry {
    moment: Moment,
    /// Monotonic time of the last read of the snapshot.
    read_at: Duration,
    /// Whether a page after the first was read from the snapshot.
    is_continued: bool,
}

type Entries = BTreeMap<Revision, Entry>;

/// The held snapshots; see the module documentation.
#[derive(Default)]
pub(in crate::embedded) struct Held {
    limits: Limits,
    entries: Mutex<Entries>,
    /// Number of changes undone for pages without a held snapshot.
    pub(in crate::embedded) undone: AtomicU64,
}

impl Held {
    pub(in crate::embedded) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Number of held snapshots.
    pub(in crate::embedded) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Number of changes undone for pages without a held snapshot.
    pub(in crate::embedded) fn undone(&self) -> u64 {
        self.undone.load(Ordering::Relaxed)
    }

    /// The held state of a revision, for a page after the first.
    pub(in crate::embedded) fn get(&self, revision: Revision, steady: Duration) -> Option<Moment> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&revision)?;
        (entry.read_at, entry.is_continued) = (steady, true);
        Some(entry.moment.clone())
    }

    /// Holds the snapshot of a page that is not the last.
    pub(in crate::embedded) fn keep(&self, moment: &Moment, steady: Duration) {
        if self.limits.snapshots == 0 {
            return;
        }
        let mut entries = self.entries.lock();
        entries
            .entry(moment.state.revision)
            .or_insert_with(|| Entry {
                moment: moment.clone(),
                read_at: steady,
                is_continued: false,
            })
            .read_at = steady;
        let over = (entries.len() > self.limits.snapshots)
            .then(|| remove_least(&mut entries, |entry| !entry.is_continued));
        drop(entries);
        // Dropped after the lock is released, because it may remove files.
        drop(over);
    }

    /// Releases snapshots that were not read for a while or whose revision is no longer in the
    /// history.
    pub(in crate::embedded) fn forget(&self, oldest: Revision, steady: Duration) {
        let idle = self.limits.idle;
        let mut entries = self.entries.lock();
        let is_over = |revision: Revision, entry: &Entry| {
            revision < oldest || steady.saturating_sub(entry.read_at) >= idle
        };
        let over = entries
            .iter()
            .filter(|(revision, entry)| is_over(**revision, entry));
        let over: Vec<_> = over.map(|(revision, _)| *revision).collect();
        let gone: Vec<_> = over
            .iter()
            .filter_map(|revision| entries.remove(revision))
            .collect();
        drop(entries);
        drop(gone);
    }

    /// Releases snapshots while memtables that exist only for them take too much memory.
    pub(super) fn fit(&self, current: &Memtables) {
        let is_current =
            |memtable: &Arc<Memtable>| current.iter().any(|it| Arc::ptr_eq(it, memtable));
        let mut gone = Vec::new();
        let mut entries = self.entries.lock();
        loop {
            let kept: BTreeMap<*const Memtable, usize> = entries
                .values()
                .flat_map(|entry| entry.moment.snapshot.memtables.iter())
                .filter(|memtable| !is_current(memtable))
                .map(|memtable| (Arc::as_ptr(memtable), memtable.bytes()))
                .collect();
            if kept.values().sum::<usize>() <= self.limits.memory {
                break;
            }
            let keeps = |entry: &Entry| {
                let memtables = &entry.moment.snapshot.memtables;
                memtables.iter().any(|memtable| !is_current(memtable))
            };
            let removed = remove_least(&mut entries, |entry| keeps(entry) && !entry.is_continued)
                .or_else(|| remove_least(&mut entries, keeps));
            match removed {
                Some(removed) => gone.push(removed),
                None => break,
            }
        }
        drop(entries);
        drop(gone);
    }
}

/// Removes and returns the least recently read of the entries for which `of` holds.
fn remove_least(entries: &mut Entries, of: impl Fn(&Entry) -> bool) -> Option<Entry> {
    let some = entries.iter().filter(|(_, entry)| of(entry));
    let (least, _) = some.min_by_key(|(revision, entry)| (entry.read_at, **revision))?;
    let least = *least;
    entries.remove(&least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::codec::Codec;
    use crate::embedded::codec::dictionaries;
    use crate::embedded::engine::Engine;
    use crate::embedded::index::Sizes;

    const SIZES: Sizes = Sizes {
        files: 2,
        cache: 1 << 20,
        memtable: 1 << 20,
        segment: 64 << 10,
    };

    /// A state of an empty store that claims a given revision.
    fn moment(engine: &Engine, revision: Revision) -> Moment {
        let mut moment = engine.moment();
        moment.state.revision = revision;
        moment
    }

    fn engine(folder: &tempfile::TempDir) -> Engine {
        let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
        Engine::open(folder.path(), SIZES, &codec).unwrap()
    }

    fn held(snapshots: usize, memory: usize) -> Held {
        Held::new(Limits {
            snapshots,
            memory,
            idle: Duration::from_secs(10),
        })
    }

    fn revisions(held: &Held) -> Vec<Revision> {
        held.entries.lock().keys().copied().collect()
    }

    #[test]
    fn lists_that_were_only_begun_make_room_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(&folder);
        let held = held(3, 0);
        let at = Duration::from_secs;
        for revision in 1..=3 {
            held.keep(&moment(&engine, revision), at(revision));
        }
        assert!(held.get(1, at(3)).is_some());
        assert!(held.get(9, at(3)).is_none());
        for revision in 4..100 {
            held.keep(&moment(&engine, revision), at(4));
        }
        assert_eq!(revisions(&held), [1, 98, 99]);
        assert!(held.get(98, at(5)).is_some() && held.get(99, at(5)).is_some());
        held.keep(&moment(&engine, 100), at(6));
        assert_eq!(revisions(&held), [1, 98, 99], "all that is held is in use");
        held.forget(0, at(13));
        assert_eq!(
            revisions(&held),
            [98, 99],
            "the first was not read for long"
        );
        held.forget(99, at(13));
        assert_eq!(revisions(&held), [99]);
        Held::default().keep(&moment(&engine, 1), at(1));
        assert_eq!(Held::default().len(), 0);
    }

    #[test]
    fn memory_that_was_flushed_is_kept_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(&folder);
        let one = crate::embedded::index::memtable::SLOT_BYTES + 4;
        let held = held(100, 2 * one);
        let at = Duration::ZERO;
        for revision in 1..=4 {
            let memtable = engine.index.active();
            let placed = crate::embedded::index::memtable::tests::placed(revision, "name", 0, 0);
            memtable.put(revision, b"name", &placed, None);
            held.keep(&moment(&engine, revision), at);
            held.keep(&moment(&engine, 10 + revision), at);
            assert!(held.get(revision, at).is_some());
            engine.index.set_aside();
            engine.index.forget_oldest();
        }
        held.keep(&moment(&engine, 20), at);
        assert_eq!(revisions(&held), [1, 2, 3, 4, 11, 12, 13, 14, 20]);
        held.fit(&engine.index.memtables());
        assert_eq!(revisions(&held), [3, 4, 20]);
    }
}
