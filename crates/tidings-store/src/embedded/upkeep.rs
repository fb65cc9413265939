//! When the log is gone through for space; how that is done is told in
//! [`rewrite`](super::rewrite).
//!
//! A pass looks at every segment of buckets that are not dropped soon, so there is one after these
//! have grown by half, or versions as long as a quarter of them have ended, and a segment at least
//! either way: the work is in proportion to what was written. It begins when the history up to
//! where that was noticed is forgotten, for before that there is little to be found. How much they
//! had grown is not known after opening, so the first pass is when what was there then is
//! forgotten; of segments without much to give back it reads a few entries of the index.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys::{State, Swept};
use crate::Revision;

/// What the next pass waits for.
enum Next {
    /// That history up to a revision is forgotten, and what was swept then.
    Forgotten(Revision, Swept),
    /// That the log has `len` bytes, or versions with `ended` bytes have ended.
    Grown { len: u64, ended: u64 },
    /// The end of the pass that is under way.
    Running,
    /// That the store is opened again.
    Opening,
}

/// Whether a pass is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    No,
    /// As soon as the index is flushed.
    OnceIndexed,
    /// It is, and counts as begun; with what was swept at a revision that is forgotten.
    Now(Swept),
}

/// See the module documentation.
pub(crate) struct Upkeep {
    next: Mutex<Next>,
    /// Bytes of values, before compression, of versions that ended since it was last noticed that
    /// there is something to do.
    ended: AtomicU64,
}

impl Upkeep {
    /// For a store that was opened with this state.
    pub(crate) fn new(state: &State) -> Self {
        let swept = state.swept.clone();
        Self {
            next: Mutex::new(Next::Forgotten(state.revision, swept)),
            ended: AtomicU64::new(0),
        }
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Versions ended with a commit in buckets that are not dropped soon; their values had `bytes`
    /// bytes.
    pub(crate) fn ended(&self, bytes: u64) {
        self.ended.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Asked by the committer. `indexed` is the revision that the index on disk has, `len` the
    /// bytes of those buckets.
    pub(crate) fn due(&self, state: &State, indexed: Revision, len: impl FnOnce() -> u64) -> Due {
        let mut next = self.next();
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

    /// A pass ended and left `len` bytes.
    pub(crate) fn finished(&self, len: u64, segment_len: u64) {
        *self.next() = Next::Grown {
            len: len + (len / 2).max(segment_len),
            ended: (len / 4).max(segment_len),
        };
    }

    /// A pass failed; the store had this revision then. It is tried again when the history has
    /// moved on.
    pub(crate) fn failed(&self, revision: Revision) {
        *self.next() = Next::Forgotten(revision + 1, Swept::default());
    }

    /// There must be no pass before the store is opened again.
    pub(crate) fn give_up(&self) {
        *self.next() = Next::Opening;
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
        upkeep.failed(50);
        assert_eq!(due(60, 50, 60, 14), Due::No);
        assert_eq!(due(60, 51, 60, 14), now(0));
        upkeep.give_up();
        assert_eq!(due(70, 70, 70, 1000), Due::No);
    }
}
