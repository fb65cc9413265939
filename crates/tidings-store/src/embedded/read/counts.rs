//! Reads counts: those of the trees and of the memtables, merged in the order of their keys.
//!
//! No version is read.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use super::view::View;
use crate::embedded::index::counts::{Changes, Slice, changes};
use crate::embedded::index::{key_value_of, keys};
use crate::{Count, Counts, CountsRequest, Fault, Revision};

/// Reads counts; see [`Store::counts`](crate::Store::counts).
pub(in crate::embedded) fn counts(
    view: &View<'_>,
    request: &CountsRequest,
) -> Result<Counts, Fault> {
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

/// Takes the first key of all streams, with the sum of its counts.
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
