//! Keeps a quota of bytes. If a cluster uses more, the namespaces that use most lose the events
//! that were observed first ([`fair_share`](super::fair_share)).
//!
//! The store releases space some time after events are deleted, so the quota is reached in steps.
//! What a step deleted counts as released until it is, or until that has taken too long.
//!
//! A step reads everything that is kept once, and up to four times what is kept of a namespace that
//! loses events. The next step follows when the space has grown by a tenth of the quota.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_api::codec;
use tidings_history::OverQuota;
use tidings_store::{
    Expected, HOUR_MILLIS, NewRecord, NewestRequest, Page, Place, ReadError, Record, Store,
    UnixMillis, WRITES_MAX, Write,
};

use super::fair_share::{Cut, Excess, Moments, NAMESPACES_MAX, Usages};
use super::shared_quota::Share;
use crate::keep::json::{json, parse};
use crate::keep::keys;
use crate::keep::versions::{KeepError, Keeper, is_of_others};
use crate::version::record;

/// Number of records that are read per page.
const PAGE: usize = 500;
/// Maximum attempts to change a page while others write to it.
const TRIES: u32 = 16;
/// The part of the quota, in percent, that a cluster uses after a step.
const TARGET: u64 = 90;
/// Time after which deleted events count as kept again if their space was not released.
const PATIENCE_MILLIS: i64 = 6 * HOUR_MILLIS;
/// Minimum number of segments in a quota, unless segments would be too short. The store releases
/// whole segments of its log.
const SEGMENTS_MIN: u64 = 32;
const SEGMENT_BYTES_MIN: u64 = 4 << 20;
/// Number of writes in a commit beside the deletions: the notes of what was deleted.
const MARKS: usize = 2;

/// Events that were deleted to keep the quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trimmed {
    /// Number of events.
    pub events: u64,
    /// Time before which all of them were observed, in milliseconds since 1970. (Earlier versions
    /// of the program noted the time before which all of them were last seen, as stated in the
    /// events.)
    pub before: i64,
}

impl Trimmed {
    fn and(self, events: u64, before: i64) -> Self {
        Self {
            events: self.events.saturating_add(events),
            before: self.before.max(before),
        }
    }
}

impl From<Trimmed> for OverQuota {
    fn from(trimmed: Trimmed) -> Self {
        Self {
            events: trimmed.events,
            observed_before: Some(UnixMillis(trimmed.before)).filter(|before| before.0 != 0),
        }
    }
}

/// Returns the maximum length of segments in the store of a cluster with a quota. The store can
/// release what a step deletes only if that fills whole segments.
pub(crate) fn segment_bytes_max(quota: u64) -> u64 {
    (quota / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN)
}

/// What was deleted to keep a quota, and still uses space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::keep) struct Unreleased {
    /// About how many bytes on disk it uses.
    bytes: u64,
    /// The fewest bytes of the store since the last deletion.
    disk_bytes: u64,
    /// When the first of it was deleted, in milliseconds since 1970.
    since: i64,
    /// The part of it that was deleted later than half of [`PATIENCE_MILLIS`] after the first, and
    /// when the first of that was.
    later_bytes: u64,
    later_since: i64,
}

impl Unreleased {
    /// Notes the bytes on disk. If they are fewer than at any time since, the difference was
    /// released. Growth hides a release, so that rather too little is deleted than too much. That
    /// the quota is larger says nothing, since the part in a shared quota changes.
    fn look(&mut self, disk_bytes: u64, now: UnixMillis) {
        let is_old = |since: i64| !(0..PATIENCE_MILLIS).contains(&now.0.saturating_sub(since));
        if is_old(self.since) {
            (self.bytes, self.since) = (self.later_bytes, self.later_since);
            self.later_bytes = 0;
        }
        if is_old(self.since) {
            self.bytes = 0;
        }
        let released = self.disk_bytes.saturating_sub(disk_bytes);
        self.bytes = self.bytes.saturating_sub(released);
        self.later_bytes = self.later_bytes.min(self.bytes);
        self.disk_bytes = self.disk_bytes.min(disk_bytes);
    }

    /// Adds a further deletion, in a store of `disk_bytes`.
    fn and(self, bytes: u64, disk_bytes: u64, now: UnixMillis) -> Self {
        let mut new = Self {
            bytes: self.bytes.saturating_add(bytes),
            disk_bytes,
            ..self
        };
        if self.bytes == 0 {
            (new.since, new.later_bytes) = (now.0, 0);
        } else if now.0.saturating_sub(self.since) >= PATIENCE_MILLIS / 2 {
            if self.later_bytes == 0 {
                new.later_since = now.0;
            }
            new.later_bytes = self.later_bytes.saturating_add(bytes);
        }
        new
    }
}

/// The stored note about the quota.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Mark {
    #[serde(flatten)]
    trimmed: Trimmed,
    /// What is not released yet. Otherwise the next process would delete as much again.
    #[serde(default)]
    unreleased: Unreleased,
}

async fn mark<T: Default + for<'a> Deserialize<'a>>(
    keeper: &Keeper,
    key: Bytes,
) -> Result<T, ReadError> {
    let found = keeper.store.get(key).await?;
    let found = found.map(|found| parse(&found.value)).transpose()?;
    Ok(found.unwrap_or_default())
}

/// Reads how many events were deleted so far to keep the quota.
pub(crate) async fn trimmed(keeper: &Keeper) -> Result<Trimmed, ReadError> {
    let mark: Mark = mark(keeper, Bytes::from_static(keys::TRIMMED)).await?;
    Ok(mark.trimmed)
}

/// Reads the events of a namespace that were deleted to keep the quota, unless all of them would
/// have expired by now.
pub(crate) async fn trimmed_of(keeper: &Keeper, namespace: &str) -> Result<Trimmed, ReadError> {
    mark(keeper, keys::trimmed_of(namespace)).await
}

/// Returns the bytes on disk, without those that will soon be released.
pub(crate) async fn taken(keeper: &Keeper) -> Result<u64, ReadError> {
    let mark: Mark = mark(keeper, Bytes::from_static(keys::TRIMMED)).await?;
    let (mut unreleased, disk_bytes) = (mark.unreleased, keeper.store.stats().await?.disk_bytes);
    unreleased.look(disk_bytes, keeper.clock.now());
    Ok(disk_bytes.saturating_sub(unreleased.bytes))
}

/// Keeps the quota of a cluster.
pub(crate) struct Quota {
    /// The cluster's own quota in bytes; `u64::MAX` if it has none.
    bytes: u64,
    share: Option<Share>,
    /// `None` before the first check of the store.
    unreleased: Option<Unreleased>,
}

impl Quota {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            share: None,
            unreleased: None,
        }
    }

    /// Adds the cluster's part in a quota of several clusters. The smaller quota counts.
    pub(crate) fn with(self, share: Option<Share>) -> Self {
        Self { share, ..self }
    }

    /// If the cluster uses more than its quota, not counting what will soon be released, deletes
    /// the events observed first of the namespaces that use most. Returns whether it deleted any.
    pub(crate) async fn keep(&mut self, keeper: &Keeper) -> Result<bool, KeepError> {
        let stats = keeper.store.stats().await?;
        if self.unreleased.is_none() {
            let mark: Mark = mark(keeper, Bytes::from_static(keys::TRIMMED)).await?;
            self.unreleased = Some(mark.unreleased);
        }
        let unreleased = self.unreleased.get_or_insert_default();
        unreleased.look(stats.disk_bytes, keeper.clock.now());
        let taken = stats.disk_bytes.saturating_sub(unreleased.bytes);
        let share = self.share.as_ref().and_then(|share| share.of(taken));
        let bytes = self.bytes.min(share.unwrap_or(u64::MAX));
        if bytes == u64::MAX {
            keeper.counters.quota.store(0, Ordering::Relaxed);
            return Ok(false);
        }
        keeper.counters.quota.store(bytes, Ordering::Relaxed);
        if taken <= bytes {
            return Ok(false);
        }
        let step = Step {
            disk_bytes: stats.disk_bytes,
            value_bytes: stats.value_bytes,
            taken,
        };
        step.trim(keeper, bytes, unreleased).await
    }
}

/// The space of a cluster that exceeds its quota.
struct Step {
    disk_bytes: u64,
    /// Bytes of all kept values before compression, which is the unit for parts of them.
    value_bytes: u64,
    /// Bytes on disk, without what will soon be released.
    taken: u64,
}

impl Step {
    /// Deletes one step of events; see [`Quota::keep`].
    async fn trim(
        &self,
        keeper: &Keeper,
        quota: u64,
        unreleased: &mut Unreleased,
    ) -> Result<bool, KeepError> {
        let surplus = self.taken.saturating_sub(quota / 100 * TARGET);
        let surplus = share(self.value_bytes, surplus, self.taken);
        let (mut is_done, mut failure) = (false, None);
        for excess in usages(keeper).await?.excesses(surplus) {
            match self.trim_namespace(keeper, &excess, unreleased).await {
                Ok(is) => is_done |= is,
                // The other namespaces still lose their part.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(is_done), Err)
    }

    /// Deletes the excess of a namespace. Returns whether it deleted any event.
    async fn trim_namespace(
        &self,
        keeper: &Keeper,
        excess: &Excess,
        unreleased: &mut Unreleased,
    ) -> Result<bool, KeepError> {
        let mut cut = Cut::of(excess, keeper.clock.now());
        while cut.is_coarse {
            let mut moments = Moments::new(cut);
            let mut pages = Pages::of(&excess.namespace);
            while let Some(page) = pages.next(keeper).await? {
                for found in page.records.iter().map(|found| Found::of(keeper, found)) {
                    moments.add(found.observed_at, found.bytes(excess));
                }
            }
            cut = moments.cut();
        }
        let on_disk = |values: u64| share(self.taken, values, self.value_bytes);
        let (mut tries, mut is_done) = (TRIES, false);
        let mut pages = Pages::of(&excess.namespace);
        let mut before = pages.after;
        while let Some(page) = pages.next(keeper).await? {
            let mut left = cut.bytes;
            let goes = page.records.into_iter().filter(|found| {
                let found = Found::of(keeper, found);
                let is_between = (cut.from..cut.to).contains(&found.observed_at) && left > 0;
                if is_between {
                    left = left.saturating_sub(found.bytes(excess));
                }
                found.observed_at < cut.from || is_between
            });
            let goes: Vec<_> = goes.collect();
            let now = keeper.clock.now();
            let after_these = |values| unreleased.and(on_disk(values), self.disk_bytes, now);
            let bytes = |record| Found::of(keeper, record).bytes(excess);
            let noted = after_these(goes.iter().map(bytes).sum());
            let removed = match goes.as_slice() {
                // Nothing is written, since a full disk would refuse it.
                [] => Some(0),
                goes => delete(keeper, &excess.namespace, goes, noted).await?,
            };
            match removed {
                Some(removed) => {
                    is_done |= removed > 0;
                    cut.bytes = left;
                    *unreleased = after_these(removed);
                }
                // One of the events was observed again. Reading them again shows which.
                None if tries > 0 => {
                    tries -= 1;
                    pages.again(before);
                    continue;
                }
                None => {}
            }
            (before, tries) = (pages.after, TRIES);
        }
        Ok(is_done)
    }
}

/// Reads the records of a namespace, or all records, page by page.
struct Pages {
    prefix: Bytes,
    after: Option<Place>,
    is_over: bool,
}

impl Pages {
    fn all() -> Self {
        Self {
            prefix: Bytes::new(),
            after: None,
            is_over: false,
        }
    }

    fn of(namespace: &str) -> Self {
        Self {
            prefix: keys::event(namespace, ""),
            ..Self::all()
        }
    }

    /// Reads the page after a place again.
    fn again(&mut self, after: Option<Place>) {
        (self.after, self.is_over) = (after, false);
    }

    async fn next(&mut self, keeper: &Keeper) -> Result<Option<Page>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        let request = NewestRequest {
            prefix: self.prefix.clone(),
            limit: PAGE,
            after: self.after,
            values_only: true,
            ..NewestRequest::default()
        };
        let page = keeper.store.newest(request).await?;
        self.is_over = !page.more;
        self.after = page.place.or(self.after);
        Ok(Some(page))
    }
}

/// The relevant data of an event.
struct Found {
    /// When its newest version was observed. An event that cannot be read counts as the oldest.
    observed_at: i64,
    len: u64,
    chunks: u64,
}

impl Found {
    fn of(keeper: &Keeper, found: &Record) -> Self {
        let read = record::Record::decode(&found.value);
        let (observed_at, chunks) =
            read.map_or((0, 0), |read| (read.newest.observed_at.0, read.chunks));
        Self {
            // The time may be wrong, from an import or from a clock that was ahead.
            observed_at: observed_at.clamp(0, keeper.clock.now().0.max(0)),
            len: found.value.len() as u64,
            chunks,
        }
    }

    fn bytes(&self, excess: &Excess) -> u64 {
        excess.usage.of_event(self.len, self.chunks)
    }
}

/// Computes the space of each namespace.
async fn usages(keeper: &Keeper) -> Result<Usages, ReadError> {
    let mut usages = Usages::new(NAMESPACES_MAX);
    let mut pages = Pages::all();
    while let Some(page) = pages.next(keeper).await? {
        for found in &page.records {
            let len = found.value.len() as u64;
            if found.key.starts_with(keys::CHUNKS) {
                if let Some(namespace) = namespace_of_chunk(&found.value) {
                    usages.add_chunk(&namespace, len);
                }
            } else if !keys::is_own(&found.key) {
                let event = Found::of(keeper, found);
                let namespace = keys::namespace(&found.key);
                usages.add_event(&namespace, len, event.chunks, event.observed_at);
            }
        }
    }
    Ok(usages)
}

/// Returns the namespace of a chunk, whose key has only the uid of its event.
fn namespace_of_chunk(value: &Bytes) -> Option<String> {
    let event = record::event(value).ok()?;
    let event = codec::decode_stored(&event, 0).ok()?;
    Some(event.metadata?.namespace().to_owned())
}

/// Returns the share of `of` that `part` has in `whole`.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Deletes events of a namespace that were read, with their older versions. Returns their bytes. If
/// one of them was observed again meanwhile, none is deleted.
pub(in crate::keep) async fn delete(
    keeper: &Keeper,
    namespace: &str,
    records: &[Record],
    unreleased: Unreleased,
) -> Result<Option<u64>, KeepError> {
    let number = records.len() as u64;
    let before = records
        .iter()
        .map(|found| Found::of(keeper, found).observed_at);
    let before = before.max().unwrap_or(0).saturating_add(1);
    let total: Mark = mark(keeper, Bytes::from_static(keys::TRIMMED)).await?;
    let total = Mark {
        trimmed: total.trimmed.and(number, before),
        unreleased,
    };
    let of_namespace = trimmed_of(keeper, namespace).await?.and(number, before);
    let mut of_namespace = NewRecord::new(json(&of_namespace));
    // The note expires when the last of the deleted events would have expired.
    of_namespace.expires_at = match keeper.store.get(keys::trimmed_of(namespace)).await? {
        Some(former) => former.expires_at,
        None => Some(UnixMillis(0)),
    };
    for found in records {
        of_namespace.expires_at = of_namespace
            .expires_at
            .zip(found.expires_at)
            .map(|(a, b)| a.max(b));
    }
    let deletes = records
        .iter()
        .map(|record| Write::delete(record.key.clone()).expecting(Expected::At(record.revision)));
    let mut writes: Vec<_> = deletes.collect();
    writes.push(Write::put(keys::TRIMMED, NewRecord::new(json(&total))));
    writes.push(Write::put(keys::trimmed_of(namespace), of_namespace));
    let chunks: Vec<_> = records.iter().filter_map(chunks).collect();
    let room = WRITES_MAX - PAGE - MARKS;
    let chunks = keeper.deletes_of_chunks(chunks, room).await?;
    writes.extend(chunks.writes);
    let revisions = match keeper.store.write_all(writes).await {
        Ok(revisions) => revisions,
        Err(error) if is_of_others(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes: u64 = records.iter().map(|record| record.value.len() as u64).sum();
    let left = keeper.delete_left(&chunks.left, &revisions).await;
    Ok(Some(
        bytes.saturating_add(chunks.bytes).saturating_add(left),
    ))
}

/// Returns the prefix of an event's chunks, if it may have some.
fn chunks(found: &Record) -> Option<Bytes> {
    let record = record::Record::decode(&found.value).ok()?;
    let id = keys::id(&record.newest.uid, &found.key);
    (record.chunks > 0).then(|| keys::chunks(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_counts_as_released_until_it_is_or_takes_too_long() {
        let begun = UnixMillis(1_700_000_000_000);
        let at = |minutes: i64| UnixMillis(begun.0 + minutes * 60_000);
        // Of 220 bytes, 40 are deleted, and later 10 more.
        let mut unreleased = Unreleased::default().and(40, 220, begun);
        for (disk_bytes, minutes, expected) in [(220, 1, 40), (230, 2, 40), (200, 3, 20)] {
            unreleased.look(disk_bytes, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
        // Bytes that are freed and used again count as released once.
        for (disk_bytes, minutes) in [(215, 4), (200, 5), (215, 6)] {
            unreleased.look(disk_bytes, at(minutes));
            assert_eq!(unreleased.bytes, 20, "{minutes}");
        }
        unreleased = unreleased.and(10, 215, at(7));
        for (disk_bytes, minutes, expected) in [
            (215, 8, 30),
            (214, 359, 29),
            // Six hours after the first deletion.
            (214, 360, 0),
        ] {
            unreleased.look(disk_bytes, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
        // A later deletion has hours of its own.
        let later = Unreleased::default().and(40, 220, begun);
        let later = later.and(10, 220, at(60)).and(5, 220, at(200));
        for (minutes, expected) in [(359, 55), (360, 5), (559, 5), (560, 0), (-1, 0)] {
            let mut later = later;
            later.look(220, at(minutes));
            assert_eq!(later.bytes, expected, "{minutes}");
        }
        // After the clock was set back, nothing is waited for.
        for (disk_bytes, minutes, expected) in [(210, 401, 10), (205, 402, 5), (210, 399, 0)] {
            let mut unreleased = Unreleased::default().and(10, 210, at(400));
            unreleased.look(disk_bytes, at(minutes));
            assert_eq!(unreleased.bytes, expected, "{minutes}");
        }
    }
}
