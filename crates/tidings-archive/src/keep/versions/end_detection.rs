//! Finds events that ended during a gap: those that existed before the gap, and are not in the list
//! after it.
//!
//! An event in that list is marked with the list's time. All others are examined by the time they
//! were last seen, page by page, after the list and while the watch is open. The search stops at
//! events that were last seen longer ago than any event exists at the source. The work that is left
//! is noted in the store until it is done.

use bytes::Bytes;
use tidings_store::{Expected, ListRequest, NewestRequest, Store, UnixMillis, Write, WriteError};

use super::batch::Batch;
use super::keeper::{KeepError, Keeper, Tries};
use crate::keep::coverage::Unswept;
use crate::keep::json::parse;
use crate::keep::keys::{self, EARLIEST};
use crate::version::record::Record;

/// Number of events that are examined per page.
const PAGE: usize = 500;

/// Finds and notes all ends that are still to be found. Returns their number.
pub(crate) async fn detect_ends(keeper: &Keeper) -> Result<u64, KeepError> {
    let mut ends = 0;
    let found = ListRequest::prefix(keys::UNSWEPT);
    for found in keeper.store.list(found).await?.records {
        let unswept: Unswept = parse(&found.value).map_err(tidings_store::ReadError::Fault)?;
        let namespace = &found.key[keys::UNSWEPT.len()..];
        ends += sweep_one(keeper, namespace, &unswept).await?;
        let done = Write::delete(found.key).expecting(Expected::At(found.revision));
        match keeper.store.write_all(vec![done]).await {
            // Another gap ended meanwhile, so that there is more to do.
            Ok(_) | Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ends)
}

async fn sweep_one(keeper: &Keeper, namespace: &[u8], unswept: &Unswept) -> Result<u64, KeepError> {
    let prefix = match namespace {
        [] => Bytes::new(),
        namespace => [namespace, b"/"].concat().into(),
    };
    let mut ends = 0;
    let mut after = None;
    loop {
        let request = NewestRequest {
            prefix: prefix.clone(),
            since: Some(UnixMillis(unswept.since).max(EARLIEST)),
            after,
            limit: PAGE,
            ..NewestRequest::default()
        };
        let page = keeper.store.newest(request).await?;
        let records = page.records.into_iter().filter(|found| {
            let record = Record::decode(&found.value);
            record.is_ok_and(|record| record.may_have_ended(unswept))
        });
        let keys = records.map(|found| found.key);
        let keys: Vec<_> = keys
            .chain(page.behind.into_iter().map(|(key, _)| key))
            .collect();
        ends += end(keeper, &keys, unswept).await?;
        after = page.place;
        if !page.more {
            return Ok(ends);
        }
    }
}

/// Notes the ends of the events that have ended, in as many commits as they need.
async fn end(keeper: &Keeper, mut keys: &[Bytes], unswept: &Unswept) -> Result<u64, KeepError> {
    let (mut tries, mut all) = (Tries::default(), 0);
    while !keys.is_empty() {
        let mut batch = Batch::default();
        let (mut left, mut ends) = (keys, 0);
        while !batch.is_full()
            && let Some((key, others)) = left.split_first()
        {
            left = others;
            // The event's current record, because the event may have been observed meanwhile.
            keeper.slot(key, &mut batch).await?;
            ends += u64::from(batch.sweep(key, unswept, keeper.mirror_deletions));
        }
        if ends > 0 {
            let (writes, _) = batch.writes(keeper.clock.now());
            if !keeper.commit(&batch, writes, &mut tries).await? {
                continue;
            }
        }
        keys = left;
        all += ends;
        tries = Tries::default();
    }
    Ok(all)
}
