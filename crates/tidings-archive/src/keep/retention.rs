//! Retention: changed rules are applied to existing events, and a quota of bytes removes the oldest
//! events first.
//!
//! The time at which an event expires is written with its newest version. When the rules change,
//! every record gets the time of the new rules, once, in the background. The store releases space
//! some time after events are deleted, so a quota is approached in steps, and what a step deleted
//! counts as released until it is, or until it has taken too long.
//!
//! Invariant: the name of the rules is in the store only if they were applied to everything.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_api::codec;
use tidings_store::{
    CountsRequest, Expected, Fault, HOUR_MILLIS, ListRequest, NewRecord, NewestRequest, ReadError,
    Record, Store, UnixMillis, Write, WriteError,
};

use super::index::index;
use super::keeper::{KeepError, Keeper, counts_from};
use super::keys::{self, EARLIEST};
use super::lives::{Applied, Retention};
use super::own::{json, parse};
use crate::version::record;

/// Records examined per page.
const PAGE: usize = 500;
/// Attempts at a page while others write to it.
const TRIES: u32 = 16;
/// The part of its quota that a cluster takes after a step, in percent.
const TARGET: u64 = 90;
/// After this time, deleted events whose space is not released count as kept again.
const PATIENCE_MILLIS: i64 = 6 * HOUR_MILLIS;
/// The store releases whole segments of its log: a quota has at least this number of them,
/// unless they were shorter than the minimum.
const SEGMENTS_MIN: u64 = 32;
const SEGMENT_BYTES_MIN: u64 = 4 << 20;

/// Events deleted to keep a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trimmed {
    /// Number of events.
    pub events: u64,
    /// All events last seen before this time are deleted, in milliseconds since 1970.
    pub before: i64,
}

/// Gives every record the expiry of the rules, unless these rules were applied before. On a full
/// disk only what is over is deleted, and the error says so.
pub(crate) async fn apply(keeper: &Keeper, rules: &str) -> Result<(), KeepError> {
    let key = Bytes::from_static(keys::RETENTION);
    if let Some(found) = keeper.store.get(key.clone()).await? {
        if found.value == rules.as_bytes() {
            return Ok(());
        }
        // If the process ends in between, neither these nor the former ones hold for everything.
        let forget = vec![Write::delete(key.clone())];
        keeper.store.write_all(forget).await?;
    }
    let mut refused = None;
    // Events first: older versions that become a chunk meanwhile have the end of their event.
    apply_behind(keeper, b"", keys::BEFORE_EVENTS, &mut refused).await?;
    apply_behind(keeper, keys::CHUNKS, b"", &mut refused).await?;
    if let Some(error) = refused {
        return Err(error.into());
    }
    let applied = Applied {
        since: keeper.clock.now().0,
    };
    let writes = vec![
        Write::put(key, NewRecord::new(rules.to_owned())),
        Write::put(keys::RETAINED, NewRecord::new(json(&applied))),
    ];
    keeper.store.write_all(writes).await?;
    Ok(())
}

/// What the rules in force end; `None` if it is not known, as where nothing is followed.
pub(crate) async fn retention(keeper: &Keeper) -> Result<Option<Retention>, ReadError> {
    let Some(in_force) = keeper.in_force.get() else {
        return Ok(None);
    };
    let get = |key| keeper.store.get(Bytes::from_static(key));
    let rules = get(keys::RETENTION).await?;
    let is_applied = rules.is_some_and(|found| found.value == in_force.rules.as_bytes());
    let mut since = None;
    if is_applied && let Some(found) = get(keys::RETAINED).await? {
        let applied: Applied = parse(&found.value)?;
        since = Some(applied.since);
    }
    Ok(Some(Retention {
        lives: in_force.lives,
        is_applied,
        since,
        mirrors_deletions: keeper.mirror_deletions,
    }))
}

/// Gives the records under a prefix, behind a key, the expiry of the rules. What is refused for
/// want of space is left out.
async fn apply_behind(
    keeper: &Keeper,
    prefix: &'static [u8],
    after: &'static [u8],
    refused: &mut Option<WriteError>,
) -> Result<(), KeepError> {
    let mut after = Bytes::from_static(after);
    let (mut limit, mut tries) = (PAGE, TRIES);
    loop {
        let request = ListRequest::prefix(prefix)
            .limit(limit)
            .after(after.clone());
        let records = keeper.store.list(request).await?.records;
        let Some(last) = records.last() else {
            return Ok(());
        };
        match apply_to(keeper, &records, refused).await {
            Ok(()) => {
                after = last.key.clone();
                (limit, tries) = (PAGE, TRIES);
            }
            // Not everything is written by the rules: an end at the source and a new name leave the
            // expiry as it was. So they are read again, fewer at a time.
            Err(error) if tries > 0 && is_of_others(&error) => {
                tries -= 1;
                limit = (limit / 2).max(1);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives records that were read the expiry of the rules. Those that are over are deleted in a
/// commit of their own, which a full disk does not refuse.
async fn apply_to(
    keeper: &Keeper,
    records: &[Record],
    refused: &mut Option<WriteError>,
) -> Result<(), WriteError> {
    let changes = records.iter().filter_map(|found| changed(keeper, found));
    let (puts, deletes): (Vec<_>, Vec<_>) = changes.partition(|write| write.record.is_some());
    if !deletes.is_empty() {
        keeper.store.write_all(deletes).await?;
    }
    if puts.is_empty() || refused.is_some() {
        return Ok(());
    }
    match keeper.store.write_all(puts).await {
        Ok(_) => Ok(()),
        Err(error @ WriteError::Fault(Fault::NoSpace)) => {
            *refused = Some(error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// What gives a record the expiry of the rules, if it has another one.
fn changed(keeper: &Keeper, found: &Record) -> Option<Write> {
    let record = record::Record::decode(&found.value).ok()?;
    let event = codec::decode_stored(&record.event, 0).ok()?;
    let end = keeper.end_of(&event, counts_from(&record, &event));
    if found.expires_at == Some(end) {
        return None;
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
    Some(Write {
        key: found.key.clone(),
        record: new,
        expected: Expected::At(found.revision),
    })
}

/// Whether nothing was written because others wrote a record meanwhile, or it ended.
fn is_of_others(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Conflict { .. } | WriteError::NotFound | WriteError::AlreadyExpired { .. }
    )
}

/// The longest segments of the store of a cluster with a quota. It can release what a step deletes
/// only if that fills some of them.
pub(crate) fn segment_bytes_max(quota: u64) -> u64 {
    (quota / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN)
}

/// What was deleted to keep a quota and still takes space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Unreleased {
    /// About how many bytes on disk that is.
    bytes: u64,
    /// The fewest bytes of the store since the last of it was deleted.
    disk_bytes: u64,
    /// When the first of it was deleted, in milliseconds since 1970.
    since: i64,
}

impl Unreleased {
    /// Notes the bytes on disk: if they are fewer than ever since, as many were released. Growth
    /// hides that, so that too little is deleted rather than too much.
    fn look(&mut self, disk_bytes: u64, quota: u64, now: UnixMillis) {
        let ago = now.0.saturating_sub(self.since);
        if disk_bytes <= quota || !(0..PATIENCE_MILLIS).contains(&ago) {
            self.bytes = 0;
        }
        let released = self.disk_bytes.saturating_sub(disk_bytes);
        self.bytes = self.bytes.saturating_sub(released);
        self.disk_bytes = self.disk_bytes.min(disk_bytes);
    }

    /// The same after more was deleted, from a store that takes `disk_bytes`.
    fn and(self, bytes: u64, disk_bytes: u64, now: UnixMillis) -> Self {
        Self {
            bytes: self.bytes.saturating_add(bytes),
            disk_bytes,
            since: if self.bytes == 0 { now.0 } else { self.since },
        }
    }
}

/// What the store has of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Mark {
    #[serde(flatten)]
    trimmed: Trimmed,
    /// Another process must not delete in its place once more.
    #[serde(default)]
    unreleased: Unreleased,
}

async fn mark(keeper: &Keeper) -> Result<Mark, ReadError> {
    let found = keeper.store.get(Bytes::from_static(keys::TRIMMED)).await?;
    let found = found.map(|found| parse(&found.value)).transpose()?;
    Ok(found.unwrap_or_default())
}

/// Events deleted so far to keep the quota.
pub(crate) async fn trimmed(keeper: &Keeper) -> Result<Trimmed, ReadError> {
    Ok(mark(keeper).await?.trimmed)
}

/// The quota of a cluster.
pub(crate) struct Quota {
    bytes: u64,
    /// `None` until the store was looked at.
    unreleased: Option<Unreleased>,
}

impl Quota {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            unreleased: None,
        }
    }

    /// If the cluster takes more than its quota, without what is about to be released, deletes the
    /// events last seen longest ago. Returns whether it did.
    pub(crate) async fn keep(&mut self, keeper: &Keeper) -> Result<bool, KeepError> {
        let stats = keeper.store.stats().await?;
        if self.unreleased.is_none() {
            self.unreleased = Some(mark(keeper).await?.unreleased);
        }
        let unreleased = self.unreleased.get_or_insert_default();
        unreleased.look(stats.disk_bytes, self.bytes, keeper.clock.now());
        let taken = stats.disk_bytes.saturating_sub(unreleased.bytes);
        if taken <= self.bytes {
            return Ok(false);
        }
        let step = Step {
            disk_bytes: stats.disk_bytes,
            value_bytes: stats.value_bytes,
            taken,
        };
        step.trim(keeper, self.bytes, unreleased).await
    }
}

/// What a cluster takes when it takes too much.
struct Step {
    disk_bytes: u64,
    /// The uncompressed length of the values that are kept, which measures the space of some.
    value_bytes: u64,
    /// Bytes on disk without what is about to be released.
    taken: u64,
}

impl Step {
    /// See [`Quota::keep`].
    async fn trim(
        &self,
        keeper: &Keeper,
        quota: u64,
        unreleased: &mut Unreleased,
    ) -> Result<bool, KeepError> {
        let surplus = self.taken.saturating_sub(quota / 100 * TARGET);
        let mut left = share(self.value_bytes, surplus, self.taken);
        let mut is_done = false;
        for hour in hours(keeper).await?.into_iter().rev() {
            if left == 0 {
                break;
            }
            // Whole hours, so that all events before a certain time are gone.
            let removed = self.trim_hour(keeper, hour, unreleased).await?;
            is_done |= removed > 0;
            left = left.saturating_sub(removed);
        }
        Ok(is_done)
    }

    /// Deletes the events that were last seen in an hour. Returns their bytes.
    async fn trim_hour(
        &self,
        keeper: &Keeper,
        hour: UnixMillis,
        unreleased: &mut Unreleased,
    ) -> Result<u64, KeepError> {
        let before = hour.0.saturating_add(HOUR_MILLIS);
        let on_disk = |values: u64| share(self.taken, values, self.value_bytes);
        let (mut after, mut tries, mut all) = (None, TRIES, 0);
        loop {
            let request = NewestRequest {
                since: Some(hour),
                until: Some(UnixMillis(before)),
                limit: PAGE,
                after,
                values_only: true,
                ..NewestRequest::default()
            };
            let page = keeper.store.newest(request).await?;
            let now = keeper.clock.now();
            let after_these = |values| unreleased.and(on_disk(values), self.disk_bytes, now);
            let values = page.records.iter().map(|record| record.value.len() as u64);
            let noted = after_these(values.sum());
            // What is yet to come in this hour is not deleted.
            let gone_before = before.min(now.0.saturating_add(1));
            let removed = match page.records.as_slice() {
                // Nothing is noted: a full disk would refuse it.
                [] => Some(0),
                records => delete(keeper, records, gone_before, noted).await?,
            };
            match removed {
                Some(removed) => {
                    *unreleased = after_these(removed);
                    all += removed;
                }
                // Which of them was observed again shows when they are read again.
                None if tries > 0 => {
                    tries -= 1;
                    continue;
                }
                None => {}
            }
            if !page.more {
                return Ok(all);
            }
            (after, tries) = (page.place, TRIES);
        }
    }
}

/// A part of something, as a number has it in a whole.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Deletes records that were read, all or none. Returns their bytes. If one was observed again
/// meanwhile, none is deleted.
pub(super) async fn delete(
    keeper: &Keeper,
    records: &[Record],
    before: i64,
    unreleased: Unreleased,
) -> Result<Option<u64>, KeepError> {
    let total = mark(keeper).await?.trimmed;
    let number = records.len() as u64;
    let after_this = Mark {
        trimmed: Trimmed {
            events: total.events + number,
            before,
        },
        unreleased,
    };
    let deletes = records.iter().map(|record| Write {
        key: record.key.clone(),
        record: None,
        expected: Expected::At(record.revision),
    });
    let mut writes: Vec<_> = deletes.collect();
    writes.push(Write::put(keys::TRIMMED, NewRecord::new(json(&after_this))));
    match keeper.store.write_all(writes).await {
        Ok(_) => {}
        Err(error) if is_of_others(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_counts_as_released_until_it_is_or_takes_too_long() {
        let begun = UnixMillis(1_700_000_000_000);
        let at = |minutes: i64| UnixMillis(begun.0 + minutes * 60_000);
        // Of 220 bytes 40 are deleted, and 10 more later.
        let mut unreleased = Unreleased::default().and(40, 220, begun);
        for (disk_bytes, minutes, expected) in [(220, 1, 40), (230, 2, 40), (200, 3, 20)] {
            unreleased.look(disk_bytes, 170, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
        // Bytes that come and go are released once.
        for (disk_bytes, minutes) in [(215, 4), (200, 5), (215, 6)] {
            unreleased.look(disk_bytes, 170, at(minutes));
            assert_eq!(unreleased.bytes, 20, "{minutes}");
        }
        unreleased = unreleased.and(10, 215, at(7));
        for (disk_bytes, minutes, expected) in [
            (215, 8, 30),
            (214, 359, 29),
            // Six hours after the first.
            (214, 360, 0),
        ] {
            unreleased.look(disk_bytes, 170, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
        // Within the quota there is nothing to wait for, nor after the clock was set back.
        for (disk_bytes, minutes, expected) in [(210, 401, 10), (170, 402, 0), (210, 399, 0)] {
            let mut unreleased = Unreleased::default().and(10, 210, at(400));
            unreleased.look(disk_bytes, 170, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
    }
}
