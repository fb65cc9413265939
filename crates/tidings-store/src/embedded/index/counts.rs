//! Counts of versions by hour and reason.
//!
//! A bucket's tree has the counts of its versions, and a memtable has the changes of those counts.
//!
//! Counts change with the commit that changes the versions, like everything in a memtable. Each
//! flush adds a memtable's changes to the counts of a tree, and records the revision up to which
//! they count. Changes up to that revision are not counted again: neither after an interrupted
//! flush, nor by a reader that finds them in a memtable as well.
//!
//! A version counts from its write until it is replaced or deleted, or its bucket is dropped.
//! Expiry does not touch the index.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::keys::Placed;
use super::memtable::{Outcome, Reasons};
use crate::record::hour_of;
use crate::{Revision, UnixMillis};

/// The key of a count: hour, latest first, and reason.
pub(in crate::embedded) type Slice = (Reverse<UnixMillis>, Arc<str>);

/// Differences of counts, by hour and reason.
pub(in crate::embedded) type Changes = BTreeMap<Slice, i64>;

/// The differences that a memtable makes to the counts of each bucket. `counted` returns the
/// revision up to which the counts of a bucket include them already; `None` skips the bucket.
pub(in crate::embedded) fn changes<E>(
    outcome: &Outcome,
    reasons: &Reasons,
    mut counted: impl FnMut(u64) -> Result<Option<Revision>, E>,
) -> Result<BTreeMap<u64, Changes>, E> {
    let mut until = BTreeMap::new();
    let mut sums = HashMap::<(u64, UnixMillis, Option<u64>), i64, RandomState>::default();
    let mut add = |placed: Placed, is_put: bool, ended: Option<Revision>| {
        let bucket = placed.pointer.bucket;
        let until = match until.get(&bucket) {
            Some(until) => *until,
            None => *until.entry(bucket).or_insert(counted(bucket)?),
        };
        let Some(until) = until else {
            return Ok(());
        };
        let put = is_put && placed.pointer.revision > until;
        let change = i64::from(put) - i64::from(ended.is_some_and(|by| by > until));
        if change != 0 {
            let hour = hour_of(placed.fields.last_seen);
            *sums
                .entry((bucket, hour, placed.fields.reason))
                .or_default() += change;
        }
        Ok(())
    };
    for (placed, ended) in outcome.versions() {
        add(placed, true, ended)?;
    }
    for (placed, by) in &outcome.ended_before {
        add(*placed, false, Some(*by))?;
    }
    let mut changes = BTreeMap::<u64, Changes>::new();
    for ((bucket, hour, reason), change) in sums {
        let reason = reason.and_then(|reason| reasons.get(&reason).cloned());
        let slice = (Reverse(hour), reason.unwrap_or_default());
        *changes.entry(bucket).or_default().entry(slice).or_default() += change;
    }
    Ok(changes)
}
