//! Buckets of records that expire at about the same time, and the choice of a record's bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::UnixMillis;
use crate::embedded::codec::version::NEVER;
use crate::embedded::index::Tree;
use crate::embedded::log::Segments;

/// Number of buckets that a store normally does not exceed. With more, records go to the next
/// existing bucket that outlives them.
const BUCKETS_MAX: usize = 24;

/// Minimum width of a bucket in milliseconds, about a minute.
const WIDTH_MIN: u64 = 1 << 16;

/// The log and the tree of the records whose expiry lies in one range.
#[derive(Clone)]
pub(in crate::embedded) struct Bucket {
    pub(in crate::embedded) log: Segments,
    pub(in crate::embedded) index: Arc<Tree>,
}

pub(in crate::embedded) type Buckets = BTreeMap<u64, Bucket>;

/// Chooses the bucket of a record, named by the end of a range of expiries. The range is about an
/// eighth as wide as the record's TTL. So records with equal TTLs have about eight buckets, and
/// mixed TTLs not many more.
///
/// `swept` is the last bucket whose expiries may already be written. A clock that was set back must
/// not put records where no sweep follows.
pub(in crate::embedded) fn bucket_for<'a>(
    now: UnixMillis,
    expires_at: Option<UnixMillis>,
    swept: u64,
    mut existing: impl DoubleEndedIterator<Item = &'a u64> + Clone,
) -> u64 {
    let Some(UnixMillis(expires_at)) = expires_at else {
        return NEVER;
    };
    let expires_at = expires_at
        .max(0)
        .cast_unsigned()
        .max(swept.saturating_add(1));
    let life = expires_at.saturating_sub(now.0.max(0).cast_unsigned());
    let crowded = existing.clone().count() >= BUCKETS_MAX;
    if crowded && let Some(fitting) = existing.find(|end| **end >= expires_at && **end != NEVER) {
        return *fitting;
    }
    // With too many buckets, a new last bucket is twice as wide, so that few are needed.
    let width = if crowded {
        life.saturating_mul(2)
    } else {
        life / 8
    };
    let width = width.clamp(WIDTH_MIN, 1 << 60).next_power_of_two();
    expires_at
        .checked_next_multiple_of(width)
        .map_or(NEVER - 1, |end| end.min(NEVER - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn one_life_keeps_few_buckets() {
        let mut buckets = std::collections::BTreeSet::new();
        for minute in 0..600i64 {
            let now = 1_700_000_000_000 + minute * 60_000;
            buckets.retain(|end| *end > now.cast_unsigned());
            let expires_at = Some(UnixMillis(now + HOUR));
            buckets.insert(bucket_for(UnixMillis(now), expires_at, 0, buckets.iter()));
            assert!(buckets.len() <= 9, "{buckets:?}");
        }
    }

    proptest! {
        #[test]
        fn buckets_outlive_their_records_and_stay_few(
            lives in proptest::collection::vec(1..1i64 << 45, 1..200),
            swept in prop_oneof![Just(0u64), 1..1u64 << 46],
        ) {
            let now = UnixMillis(1_700_000_000_000);
            let mut buckets = std::collections::BTreeSet::new();
            for life in lives {
                let expires_at = now.0 + life;
                let bucket = bucket_for(now, Some(UnixMillis(expires_at)), swept, buckets.iter());
                prop_assert!(bucket >= expires_at.cast_unsigned());
                prop_assert!(bucket > swept && bucket < NEVER);
                buckets.insert(bucket);
            }
            prop_assert!(buckets.len() <= BUCKETS_MAX + 46, "{}", buckets.len());
        }
    }
}
