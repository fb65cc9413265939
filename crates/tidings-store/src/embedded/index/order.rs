//! The order in which the records of each bucket expire.
//!
//! It says which records expire so early that the index needs their expiries, and when a sweep must
//! examine a bucket again.
//!
//! A sweep reads a bucket in the order of revisions and stops at the first live record. Records
//! with the same TTL expire in that order. A record that expires more than [`TOLERANCE`] before an
//! earlier record of its bucket is *early*: it has an index entry by its expiry, which the sweep
//! reads first. So another record delays an expiry by at most the tolerance.
//!
//! All of this follows from the log and belongs to the index. The checkpoint has it, and a replay
//! adds later changes. Unknown state leads to more entries and more sweeps, never fewer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Revision, UnixMillis};

/// Milliseconds by which a record may expire before an earlier one without being early.
pub(in crate::embedded) const TOLERANCE: i64 = 2_000;

/// The order of one bucket. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Track {
    /// The latest expiry in the bucket.
    pub(in crate::embedded) latest: i64,
    /// Position in the early expiries: all before this moment are written, and those at it before a
    /// revision.
    pub(in crate::embedded) reached: (i64, Revision),
    /// A lower bound of the unwritten early expiries.
    pub(in crate::embedded) early: i64,
    /// A lower bound of the other unwritten expiries.
    pub(in crate::embedded) next: i64,
    /// When a due expiry first could not be read, in confirmed and in monotonic time. `None` once
    /// it can be read.
    pub(in crate::embedded) unreadable: Option<(i64, Duration)>,
}

impl Track {
    /// The order of a bucket whose index entries are known.
    pub(in crate::embedded) fn noted(latest: i64, reached: i64) -> Self {
        Self {
            latest,
            reached: (reached, 0),
            early: reached,
            next: i64::MIN,
            unreadable: None,
        }
    }

    /// The order of a bucket that may have anything in it.
    fn unknown(bucket: u64) -> Self {
        Self::noted(i64::try_from(bucket).unwrap_or(i64::MAX), i64::MIN)
    }
}

/// The order of every bucket with records that expire; see the module documentation. Clones share
/// it.
#[derive(Clone, Default)]
pub(in crate::embedded) struct Order(Arc<Mutex<BTreeMap<u64, Track>>>);

impl Order {
    /// Records that a record is put into a bucket. Returns whether it is early.
    pub(in crate::embedded) fn put(&self, bucket: u64, expires_at: Option<UnixMillis>) -> bool {
        let Some(UnixMillis(end)) = expires_at else {
            return false;
        };
        let mut tracks = self.0.lock();
        let track = tracks.entry(bucket).or_insert(Track {
            latest: end,
            reached: (i64::MIN, 0),
            early: i64::MAX,
            next: i64::MAX,
            unreadable: None,
        });
        let is_early = end.saturating_add(TOLERANCE) < track.latest;
        track.latest = track.latest.max(end);
        if is_early {
            track.reached = track.reached.min((end, 0));
            track.early = track.early.min(end);
        } else {
            track.next = track.next.min(end);
        }
        is_early
    }

    /// The order of a bucket. An unknown bucket may have anything in it.
    pub(in crate::embedded) fn of(&self, bucket: u64) -> Track {
        let known = self.0.lock().get(&bucket).copied();
        known.unwrap_or_else(|| Track::unknown(bucket))
    }

    pub(in crate::embedded) fn set(&self, bucket: u64, track: Track) {
        self.0.lock().insert(bucket, track);
    }

    pub(in crate::embedded) fn all(&self) -> BTreeMap<u64, Track> {
        self.0.lock().clone()
    }

    /// Undoes a sweep whose commit failed; `before` is the order before it.
    pub(in crate::embedded) fn restore(&self, before: &BTreeMap<u64, Track>) {
        let mut tracks = self.0.lock();
        for (bucket, track) in &mut *tracks {
            // A bucket that was unknown is unknown again, and must not be taken for an empty one.
            let before = before.get(bucket).copied();
            let before = before.unwrap_or_else(|| Track::unknown(*bucket));
            track.latest = track.latest.max(before.latest);
            track.reached = track.reached.min(before.reached);
            track.early = track.early.min(before.early);
            track.next = track.next.min(before.next);
        }
    }

    pub(in crate::embedded) fn forget(&self, bucket: u64) {
        self.0.lock().remove(&bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_long_before_an_earlier_one_is_early() {
        let order = Order::default();
        let put = |bucket, end| order.put(bucket, Some(UnixMillis(end)));
        assert!(!put(1, 100_000));
        assert!(!put(1, 98_000), "within the tolerance");
        assert!(put(1, 97_999));
        assert!(!put(2, 50_000), "another bucket");
        assert_eq!((order.of(1).early, order.of(1).next), (97_999, 98_000));
        order.set(
            1,
            Track {
                reached: (99_000, 0),
                early: i64::MAX,
                ..order.of(1)
            },
        );
        let before = order.all();
        assert!(put(1, 98_500 - 1000), "the clock was set back");
        assert_eq!((order.of(1).reached.0, order.of(1).early), (97_500, 97_500));
        order.set(
            1,
            Track {
                reached: (99_000, 0),
                early: i64::MAX,
                ..order.of(1)
            },
        );
        order.restore(&before);
        assert_eq!(order.of(1).early, i64::MAX);
        order.forget(1);
        assert_eq!(order.of(1).latest, 1, "anything may be in it");
        assert!(!order.put(1, None));
    }

    #[test]
    fn after_a_failed_commit_a_bucket_is_not_taken_for_an_empty_one() {
        const BUCKET: u64 = 120_000;
        let order = Order::default();
        let put = |end| order.put(BUCKET, Some(UnixMillis(end)));
        assert!(!put(100_000));
        order.restore(&BTreeMap::new());
        assert!(put(50_000), "it may have a record that ends later");
        let Track { early, next, .. } = order.of(BUCKET);
        assert_eq!((early, next), (i64::MIN, i64::MIN), "or sooner");
    }
}
