//! How many versions there are of each hour and reason, without reading any: the tree of a bucket has the counts of those
//! in it, and a memtable says what it changes in them.
//!
//! Counts change in the commit that changes what is counted, as everything that follows from a memtable. Each flush adds a
//! memtable's changes to those of a tree, with the revision up to which they count: changes up to there are not counted
//! again, be it that a flush was interrupted, or that a reader finds them in a memtable, too.
//!
//! A version counts from its write until it is replaced or deleted, or its bucket is dropped: expiry touches no index.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::index::key_value_of;
use super::keys;
use super::memtable::{Outcome, Placed, Reasons};
use super::read::View;
use crate::record::hour_of;
use crate::{Count, Counts, CountsRequest, Fault, Revision, UnixMillis};

/// What is counted together: of the latest hour first.
pub(crate) type Slice = (Reverse<UnixMillis>, Arc<str>);

/// By how much counts change.
pub(crate) type Changes = BTreeMap<Slice, i64>;

/// What a memtable changes in the counts of each bucket; `counted` says up to which revision a bucket's counts have it
/// already, `None` to pass the bucket over.
pub(crate) fn changes<E>(
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

/// See [`Store::counts`](crate::Store::counts).
pub(crate) fn read(view: &View<'_>, request: &CountsRequest) -> Result<Counts, Fault> {
    let mut until = BTreeMap::new();
    let mut streams = Vec::new();
    for (name, bucket) in view.buckets.iter() {
        if view.is_swept(*name, Revision::MAX) {
            continue;
        }
        let counted = view.snapshot.get(&bucket.index, &keys::counted_key()[..])?;
        let counted = counted.map_or(Ok(0), |bytes| keys::trailing_revision(&bytes))?;
        until.insert(*name, counted);
        let entries = view
            .snapshot
            .range(&bucket.index, keys::count_range(request));
        let counts = entries.map(|entry| {
            let (key, value) = key_value_of(entry)?;
            let (hour, reason) = keys::read_count_key(&key)?;
            let count = keys::decode_count(&value)?;
            Ok(((Reverse(hour), Arc::from(reason)), count.cast_signed()))
        });
        streams.push((Box::new(counts) as Stream<'_>).peekable());
    }
    let mut in_memory = Changes::new();
    let after = request.after.as_ref();
    let after = after.map(|(hour, reason)| (Reverse(*hour), Arc::from(&reason[..])));
    for memtable in view.snapshot.memtables.iter() {
        let outcome = memtable.outcome(view.state.revision);
        let counted = |bucket| Ok::<_, Fault>(until.get(&bucket).copied());
        let of_buckets = changes(&outcome, &memtable.reasons(), counted)?;
        for (slice, change) in of_buckets.into_values().flatten() {
            let is_behind = after.as_ref().is_none_or(|after| slice > *after);
            if is_behind && request.in_range(slice.0.0) {
                *in_memory.entry(slice).or_default() += change;
            }
        }
    }
    let in_memory = in_memory.into_iter().map(Ok);
    streams.push((Box::new(in_memory) as Stream<'_>).peekable());
    let mut counts = Counts {
        revision: view.state.revision,
        ..Counts::default()
    };
    while let Some(((Reverse(hour), reason), records)) = next(&mut streams)? {
        let Ok(records @ 1..) = u64::try_from(records) else {
            continue;
        };
        if counts.counts.len() >= request.limit {
            counts.more = true;
            break;
        }
        if request.in_range(hour) {
            counts.counts.push(Count {
                hour,
                reason: (*reason).to_owned(),
                records,
            });
        }
    }
    Ok(counts)
}

type Stream<'a> = Box<dyn Iterator<Item = Result<(Slice, i64), Fault>> + 'a>;

/// The sum of the first of all that is counted together.
fn next(streams: &mut [Peekable<Stream<'_>>]) -> Result<Option<(Slice, i64)>, Fault> {
    let mut first: Option<Slice> = None;
    for stream in &mut *streams {
        match stream.peek() {
            Some(Ok((slice, _))) if first.as_ref().is_none_or(|first| slice < first) => {
                first = Some(slice.clone());
            }
            Some(Err(fault)) => return Err(fault.clone()),
            _ => {}
        }
    }
    let Some(first) = first else {
        return Ok(None);
    };
    let mut sum = 0i64;
    for stream in streams {
        let same = |next: &Result<(Slice, i64), Fault>| next.as_ref().is_ok_and(|it| it.0 == first);
        if let Some(Ok((_, count))) = stream.next_if(same) {
            sum = sum.saturating_add(count);
        }
    }
    Ok(Some((first, sum)))
}
