//! Retention: changed rules are applied to existing events, and a quota of bytes removes the oldest
//! events first.
//!
//! The time at which an event expires is written with its newest version. When the rules change,
//! every record gets the time of the new rules, once, in the background. The store releases space
//! some time after events are deleted, so a quota is approached in steps, each of which waits for
//! the space that the previous one released.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use tidings_api::codec;
use tidings_store::{
    CountsRequest, Expected, HOUR_MILLIS, ListRequest, NewRecord, NewestRequest, ReadError, Record,
    Store, UnixMillis, Write, WriteError,
};

use super::keeper::{KeepError, Keeper, index};
use super::keys::{self, EARLIEST};
use super::own::{json, parse};
use crate::version::record;

/// Records examined per page.
const PAGE: usize = 500;
/// The part of its quota that a cluster takes after a step, in percent.
const TARGET: u64 = 90;

/// Events deleted to keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trimmed {
    /// Number of events.
    pub events: u64,
    /// All events last seen before this time are deleted, in milliseconds since 1970.
    pub before: i64,
}

/// Gives every record the expiry of the rules, unless these rules were applied before.
pub(crate) async fn apply(keeper: &Keeper, rules: &str) -> Result<(), KeepError> {
    let key = bytes::Bytes::from_static(keys::RETENTION);
    let found = keeper.store.get(key.clone()).await?;
    if found.is_some_and(|found| found.value == rules.as_bytes()) {
        return Ok(());
    }
    for (prefix, after) in [(keys::CHUNKS, &b""[..]), (b"", keys::BEFORE_EVENTS)] {
        let mut after = bytes::Bytes::from_static(after);
        loop {
            let request = ListRequest::prefix(prefix).limit(PAGE).after(after);
            let page = keeper.store.list(request).await?;
            let Some(last) = page.records.last() else {
                break;
            };
            after = last.key.clone();
            for record in &page.records {
                apply_to(keeper, record).await?;
            }
        }
    }
    let write = Write::put(key, NewRecord::new(rules.to_owned()));
    keeper.store.write_all(vec![write]).await?;
    Ok(())
}

async fn apply_to(keeper: &Keeper, found: &Record) -> Result<(), KeepError> {
    let Ok(record) = record::Record::decode(&found.value) else {
        return Ok(());
    };
    let Ok(event) = codec::decode_stored(&record.event, 0) else {
        return Ok(());
    };
    let end = keeper.end_of(&event, UnixMillis(record.version.observed_at));
    if found.expires_at == Some(end) {
        return Ok(());
    }
    let new = (end > keeper.clock.now()).then(|| {
        let is_event = !keys::is_own(&found.key);
        let new = NewRecord::new(found.value.clone()).expires_at(end);
        if is_event {
            new.index(index(&event))
        } else {
            new
        }
    });
    let write = Write {
        key: found.key.clone(),
        record: new,
        expected: Expected::At(found.revision),
    };
    is_done(keeper.store.write_all(vec![write]).await)?;
    Ok(())
}

/// Whether it was written. If not, a record was written meanwhile, by the current rules.
fn is_done<T>(written: Result<T, WriteError>) -> Result<bool, KeepError> {
    match written {
        Ok(_) => Ok(true),
        Err(
            WriteError::Conflict { .. } | WriteError::NotFound | WriteError::AlreadyExpired { .. },
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Events deleted so far to keep the quota.
pub(crate) async fn trimmed(keeper: &Keeper) -> Result<Trimmed, ReadError> {
    let found = keeper
        .store
        .get(bytes::Bytes::from_static(keys::TRIMMED))
        .await?;
    let found = found.map(|found| parse(&found.value)).transpose()?;
    Ok(found.unwrap_or_default())
}

/// If the cluster takes more than its quota, deletes the events last seen longest ago. Returns
/// whether it did.
pub(crate) async fn trim(keeper: &Keeper, quota: u64) -> Result<bool, KeepError> {
    let stats = keeper.store.stats().await?;
    if stats.disk_bytes <= quota {
        return Ok(false);
    }
    // The uncompressed length of values measures the released space.
    let surplus = stats.disk_bytes - quota / 100 * TARGET;
    let share = u128::from(stats.value_bytes) * u128::from(surplus) / u128::from(stats.disk_bytes);
    let mut left = u64::try_from(share).unwrap_or(u64::MAX);
    for hour in hours(keeper).await?.into_iter().rev() {
        if left == 0 {
            break;
        }
        let mut after = None;
        // Whole hours, so that all events before a certain time are gone.
        loop {
            let request = NewestRequest {
                since: Some(hour),
                until: Some(UnixMillis(hour.0.saturating_add(HOUR_MILLIS))),
                limit: PAGE,
                after,
                ..NewestRequest::default()
            };
            let page = keeper.store.newest(request).await?;
            let before = hour.0.saturating_add(HOUR_MILLIS);
            if let Some(removed) = delete(keeper, &page.records, before).await? {
                left = left.saturating_sub(removed);
            }
            after = page.place;
            if !page.more {
                break;
            }
        }
    }
    Ok(true)
}

/// Deletes records that were read, all or none. Returns their bytes. If one was observed again
/// meanwhile, none is deleted until the next step.
pub(super) async fn delete(
    keeper: &Keeper,
    records: &[Record],
    before: i64,
) -> Result<Option<u64>, KeepError> {
    let total = trimmed(keeper).await?;
    let number = records.len() as u64;
    let after_this = Trimmed {
        events: total.events + number,
        before,
    };
    let deletes = records.iter().map(|record| Write {
        key: record.key.clone(),
        record: None,
        expected: Expected::At(record.revision),
    });
    let mut writes: Vec<_> = deletes.collect();
    writes.push(Write::put(keys::TRIMMED, NewRecord::new(json(&after_this))));
    if !is_done(keeper.store.write_all(writes).await)? {
        return Ok(None);
    }
    let counter = &keeper.counters.over_quota;
    counter.fetch_add(number, Ordering::Relaxed);
    let mut bytes: u64 = records.iter().map(|record| record.value.len() as u64).sum();
    for record in records {
        bytes += delete_chunks(keeper, record).await?;
    }
    Ok(Some(bytes))
}

async fn delete_chunks(keeper: &Keeper, found: &Record) -> Result<u64, KeepError> {
    let uid = record::Record::decode(&found.value).map(|record| record.uid);
    let uid = uid.unwrap_or_default();
    let id = keys::id(&String::from_utf8_lossy(&uid), &found.key);
    keeper.delete_chunks(&id).await
}

/// The hours in which events were last seen, the latest first.
async fn hours(keeper: &Keeper) -> Result<Vec<UnixMillis>, ReadError> {
    let mut hours = Vec::new();
    let mut after = None;
    loop {
        let request = CountsRequest {
            since: Some(EARLIEST),
            after,
            limit: PAGE,
            ..CountsRequest::default()
        };
        let page = keeper.store.counts(request).await?;
        hours.extend(page.counts.iter().map(|count| count.hour));
        hours.dedup();
        match page.counts.last() {
            Some(last) if page.more => after = Some((last.hour, last.reason.clone())),
            _ => return Ok(hours),
        }
    }
}
