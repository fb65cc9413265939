//! Decides when to release space in the log; a [`Pass`](crate::embedded::maintenance::Pass) does
//! the work.
//!
//! A pass examines every segment of the buckets that are not dropped soon. It is scheduled after
//! these have grown by half, or after versions with a quarter of their bytes have ended, and after
//! at least one segment's bytes either way. So the work is in proportion to the writes.
//!
//! The pass begins when the history up to that moment is forgotten, because before that there is
//! little garbage. The growth before opening is unknown, so the first pass begins when the history
//! at opening is forgotten. For segments without much garbage it reads a few entries of the index.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::Revision;
use crate::embedded::codec::{State, Swept};

/// The condition for the next pass.
enum Next {
    /// History up to this revision must be forgotten; with the swept position at scheduling.
    Forgotten(Revision, Swept),
    /// The log must have `len` bytes, or versions with `ended` bytes must have ended.
    Grown { len: u64, ended: u64 },
    /// The running pass must end.
    Running,
    /// The store must be opened again.
    Opening,
}

/// Whether a pass is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Due {
    No,
    /// A pass is due as soon as the index is flushed.
    OnceIndexed,
    /// A pass is due, and counts as begun; with the swept position at a forgotten revision.
    Now(Swept),
}

/// Schedules passes; see the module documentation.
pub(in crate::embedded) struct Upkeep {
    next: Mutex<Next>,
    /// Bytes of values, before compression, of versions that ended since the last scheduling.
    ended: AtomicU64,
}

impl Upkeep {
    /// The state after opening a store.
    pub(super) fn new(state: &State) -> Self {
        let swept = state.swept.clone();
        Self {
            next: Mutex::new(Next::Forgotten(state.revision, swept)),
            ended: AtomicU64::new(0),
        }
    }

    /// Counts bytes of values that a commit ended in buckets that are not dropped soon.
    pub(in crate::embedded) fn ended(&self, bytes: u64) {
        self.ended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Decides whether a pass is due. The committer calls this. `indexed` is the revision of the
    /// index on disk, `len` the bytes of the buckets that are not dropped soon.
    pub(in crate::embedded) fn due(
        &self,
        state: &State,
        indexed: Revision,
        len: impl FnOnce() -> u64,
    ) -> Due {
        let mut next = self.next.lock();
        match &mut *next {
            Next::Forgotten(until, _) if state.compacted < *until => Due::No,
            Next::Forgotten(until, _) if indexed < *until => Due::OnceIndexed,
            Next::Forgotten(_, swept) => {
                let swept = std::mem::take(swept);
                *next = Next::Running;
                Due::Now(swept)
            }
            Next::Grown { len: until, ended } => {
                if self.ended.load(Ordering::Relaxed) >= *ended || len() >= *until {
                    self.ended.store(0, Ordering::Relaxed);
                    *next = Next::Forgotten(state.revision, state.swept.clone());
                }
                Due::No
            }
            Next::Running | Next::Opening => Due::No,
        }
    }

    /// Records that a pass ended and left `len` bytes.
    pub(in crate::embedded) fn finished(&self, len: u64, segment_len: u64) {
        *self.next.lock() = Next::Grown {
            len: len + (len / 2).max(segment_len),
            ended: (len / 4).max(segment_len),
        };
    }

    /// Records that a pass failed or left something out, in this state of the store. It is repeated
    /// when the history has advanced.
    pub(in crate::embedded) fn failed(&self, state: &State) {
        *self.next.lock() = Next::Forgotten(state.revision + 1, state.swept.clone());
    }

    /// The revision that must be forgotten before the next pass, if one is scheduled.
    #[cfg(test)]
    pub(in crate::embedded) fn awaits(&self) -> Option<Revision> {
        match &*self.next.lock() {
            Next::Forgotten(revision, _) => Some(*revision),
            _ => None,
        }
    }

    /// Forbids passes until the store is opened again.
    pub(in crate::embedded) fn give_up(&self) {
        *self.next.lock() = Next::Opening;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_follow_growth_and_forgetting() {
        let upkeep = Upkeep::new(&State::default());
        let state = |revision, compacted| State {
            swept: Swept::up_to(revision, 0),
            revision,
            compacted,
            ..State::default()
        };
        let now = |revision| Due::Now(Swept::up_to(revision, 0));
        let due = |revision, compacted, indexed, len| {
            upkeep.due(&state(revision, compacted), indexed, || len)
        };
        assert_eq!(due(9, 1, 0, 50), now(0), "after opening");
        assert_eq!(due(9, 9, 9, 5000), Due::No, "it is under way");
        upkeep.finished(100, 10);
        assert_eq!(due(20, 20, 20, 149), Due::No);
        assert_eq!(due(30, 20, 30, 150), Due::No);
        assert_eq!(due(40, 29, 40, 160), Due::No, "history is still told");
        assert_eq!(due(40, 30, 29, 160), Due::OnceIndexed);
        assert_eq!(due(40, 30, 30, 160), now(30));
        upkeep.finished(4, 10);
        assert_eq!(due(50, 50, 50, 13), Due::No);
        assert_eq!(due(50, 50, 50, 14), Due::No);
        assert_eq!(due(50, 50, 50, 14), now(50));
        upkeep.finished(100, 10);
        upkeep.ended(24);
        assert_eq!(due(51, 51, 51, 100), Due::No);
        upkeep.ended(1);
        assert_eq!(due(52, 52, 52, 100), Due::No, "noticed");
        upkeep.ended(24);
        assert_eq!(due(53, 53, 53, 100), now(52), "deletions alone");
        upkeep.finished(100, 10);
        upkeep.ended(1);
        assert_eq!(due(54, 54, 54, 100), Due::No);
        assert_eq!(
            due(55, 55, 55, 100),
            now(54),
            "what ended since it was noticed"
        );
        upkeep.failed(&state(50, 0));
        assert_eq!(due(60, 50, 60, 14), Due::No);
        assert_eq!(due(60, 51, 60, 14), now(50), "with all that was swept");
        upkeep.give_up();
        assert_eq!(due(70, 70, 70, 1000), Due::No);
    }
}
