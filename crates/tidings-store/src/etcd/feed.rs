//! Background tasks of the store on etcd.
//!
//! They follow etcd's one watch stream for watchers and index, load the index, and delete records
//! that outlive their lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Shared;
use super::client::unsigned;
use super::end::{End, SET_MILLIS};
use super::index::{Applied, Entry};
use super::pause::Pause;
use super::stream::{Ended, PROGRESS_EVERY, Stream};
use super::wire::{KeyValue, WatchEvent};
use crate::changes::Logged;
use crate::clock::Reading;
use crate::{Change, ReadError, Record, Revision, UnixMillis, WriteError};

/// Delay before the index is loaded again after an overflow or a failure.
const RELOAD_AFTER: Duration = Duration::from_secs(60);

/// Interval at which the clock is compared with monotonic time.
const LOOK_AT_CLOCK_EVERY: Duration = Duration::from_secs(5);

/// Deletion of records that outlived their lease: interval in clock comparisons, and maximum
/// records each time.
const SWEEP_EVERY: u32 = 6;
const SWEEP_LEN: usize = 1024;

/// Milliseconds that a lease may outlive its record by design. 60 s is the longest extension, and
/// etcd gets as long again to delete the record.
const LEASE_SLACK_MILLIS: i64 = 120_000;

/// The reason why one stream stopped.
enum Stopped {
    Ended(Ended),
    /// etcd has another history than the one that was followed.
    Replaced,
}

impl From<Ended> for Stopped {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

/// Follows the cluster from stream to stream and member to member; never returns.
pub(super) async fn follow(shared: Arc<Shared>) {
    let mut position = shared.changes.latest();
    let mut pause = Pause::default();
    loop {
        let started_at = position;
        let stopped = follow_once(&shared, &mut position).await;
        if position > started_at {
            pause = Pause::default();
        }
        match stopped {
            Stopped::Ended(Ended::Failed(failure)) => {
                tracing::warn!(%failure, position, "the watch on etcd ended; continuing at the next member");
            }
            Stopped::Ended(Ended::Compacted(oldest)) => {
                tracing::warn!(
                    position,
                    oldest,
                    "etcd has compacted changes that were not read yet; watchers must list again"
                );
                shared.oldest.fetch_max(oldest, Ordering::AcqRel);
                match shared.latest(shared.client.deadline()).await {
                    Ok(latest) => {
                        shared.index.reset();
                        shared.changes.reset(latest);
                        position = latest;
                    }
                    Err(failure) => tracing::warn!(%failure, "cannot learn etcd's revision"),
                }
            }
            Stopped::Replaced => match shared.begin_anew().await {
                Ok(latest) => position = latest,
                Err(failure) => tracing::warn!(%failure, "cannot learn etcd's revision"),
            },
        }
        pause.wait().await;
    }
}

async fn follow_once(shared: &Shared, position: &mut Revision) -> Stopped {
    let mut stream = match Stream::open(&shared.client, &shared.keys, *position).await {
        Ok(stream) => stream,
        Err(ended) => return ended.into(),
    };
    // This check follows the opening, because a stream ends with its history: if the history is
    // right now, it is the stream's.
    match shared.is_same_history().await {
        Ok(true) => {}
        Ok(false) => return Stopped::Replaced,
        Err(failure) => return Ended::from(failure).into(),
    }
    let mut tick = interval(PROGRESS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let delivery = tokio::select! {
            delivery = stream.next() => delivery,
            () = shared.want_progress.notified() => {
                stream.ask_progress();
                continue;
            }
            _ = tick.tick() => {
                stream.ask_progress();
                continue;
            }
        };
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(ended) => return ended.into(),
        };
        let changes = match shared.changes_of(&delivery.events).await {
            Ok(changes) => changes,
            Err(ended) => return ended.into(),
        };
        shared.publish(changes, delivery.revision);
        *position = delivery.revision;
    }
}

impl Shared {
    /// Converts etcd's events to changes, each with the end of its record.
    ///
    /// # Errors
    ///
    /// [`Ended::Compacted`] if etcd has compacted a previous value, [`Ended::Failed`] if it could
    /// not be read.
    pub(super) async fn changes_of(
        &self,
        events: &[WatchEvent],
    ) -> Result<Vec<(Change, Option<End>)>, Ended> {
        let mut changes = Vec::with_capacity(events.len());
        for WatchEvent { kind, kv, prev_kv } in events {
            // etcd sends no event without a key. If it does, watchers list again.
            let kv = kv.as_ref().ok_or(Ended::Compacted(0))?;
            let is_delete = *kind == 1;
            let is_create = !is_delete && kv.version == 1;
            let previous = match prev_kv {
                Some(previous) => Some(self.record(previous.clone()).await),
                None if is_create => None,
                None => Some(self.previous(kv).await?),
            };
            changes.push(match previous {
                Some(previous) if is_delete => {
                    let deleted = Change::Delete {
                        revision: unsigned(kv.mod_revision),
                        expired: !self.is_live(&previous),
                        previous,
                    };
                    (deleted, None)
                }
                previous => {
                    let (record, end) = self.record_and_end(kv.clone()).await;
                    (Change::Put { record, previous }, end)
                }
            });
        }
        Ok(changes)
    }

    /// Reads the previous record of an event that came without it. etcd starts a watch before it
    /// notes that previous values are wanted (`recvLoop` of `etcdserver/api/v3rpc/watch.go`). So
    /// the first events may lack them although nothing was compacted.
    async fn previous(&self, kv: &KeyValue) -> Result<Record, Ended> {
        let changed = unsigned(kv.mod_revision);
        let key = self.keys.short(&kv.key);
        let before = changed.saturating_sub(1);
        match self.version_at(&key, before, self.client.deadline()).await {
            Ok(Some(previous)) => Ok(self.record(previous).await),
            Ok(None) => Err(Ended::Compacted(changed)),
            Err(failure) if failure.is_compacted() => Err(Ended::Compacted(changed)),
            Err(failure) => Err(failure.into()),
        }
    }

    fn publish(&self, changes: Vec<(Change, Option<End>)>, revision: Revision) {
        let expired = changes
            .iter()
            .filter(|(change, _)| matches!(change, Change::Delete { expired: true, .. }))
            .count();
        let applied: Vec<_> = changes
            .iter()
            .map(|(change, end)| self.applied(change, *end))
            .collect();
        let ends: Vec<_> = applied
            .iter()
            .filter_map(|(key, revision, entry)| Some((key.clone(), *revision, (*entry)?.end?.at)))
            .collect();
        let logged = changes.into_iter().map(|(change, _)| Logged {
            change: Arc::new(change),
            previous_index: None,
            previous_bucket: 0,
        });
        // The ring of changes comes before the index: a reader that sees the index at a revision
        // then finds all changes up to it.
        self.changes.publish(logged, revision);
        self.index.apply(applied, revision);
        // A write may have been answered since the ends were computed, before the index had its
        // entry to correct.
        for (key, revision, taken) in ends {
            let end = self.expiries.of_revision(revision);
            if let Some(end) = end.filter(|end| *end != taken) {
                self.index.correct(&key, revision, end);
            }
        }
        self.expired.fetch_add(expired as u64, Ordering::AcqRel);
        self.fed.send_replace(revision);
    }

    /// Records the end of a version that this process wrote, also in the index.
    pub(super) fn wrote(&self, key: &Bytes, revision: Revision, expires_at: UnixMillis) {
        if self.expiries.wrote(revision, expires_at) {
            self.index.correct(key, revision, expires_at);
        }
    }

    fn applied(&self, change: &Change, end: Option<End>) -> Applied {
        let entry = change.record().map(|record| self.entry(record, end));
        (change.key().clone(), change.revision(), entry)
    }

    fn entry(&self, record: &Record, end: Option<End>) -> Entry {
        let description = (self.describe)(&record.value);
        self.index
            .entry(record.revision, end, &description.index, record.value.len())
    }
}

/// Loads the index, and loads it again whenever it was lost; never returns.
pub(super) async fn keep_index(shared: Arc<Shared>) {
    loop {
        if shared.index.revision().is_none()
            && may_fit(&shared).await
            && let Err(error) = load(&shared).await
        {
            tracing::warn!(%error, "cannot load the index of etcd's records; lists by object and by time read them all");
            shared.index.reset();
        }
        sleep(RELOAD_AFTER).await;
    }
}

/// Whether the index has room for all records. Loading it otherwise would only overflow it.
async fn may_fit(shared: &Shared) -> bool {
    match shared.count_all().await {
        Ok(count) => count <= shared.index.loaded_up_to(),
        Err(failure) => {
            tracing::warn!(%failure, "cannot count etcd's records");
            false
        }
    }
}

async fn load(shared: &Shared) -> Result<(), ReadError> {
    let generation = shared.index.begin_load();
    let mut walk = shared.walk_all();
    while let Some(part) = walk.next(shared).await? {
        if !shared.index.load(generation, shared.indexed(part).await) {
            return Ok(());
        }
    }
    shared.index.end_load(generation, walk.revision());
    Ok(())
}

impl Shared {
    async fn indexed(&self, part: Vec<KeyValue>) -> Vec<(Bytes, Entry)> {
        let mut indexed = Vec::with_capacity(part.len());
        for version in part {
            let (record, end) = self.record_and_end(version).await;
            indexed.push((record.key.clone(), self.entry(&record, end)));
        }
        indexed
    }
}

/// Deletes records that still exist long after their lease should have deleted them. etcd keeps
/// such records because it restarts leases with another leader. The task also compares the clock
/// with monotonic time. It never returns.
pub(super) async fn sweep(shared: Arc<Shared>) {
    let mut lead = Reading::of(&*shared.clock).lead();
    loop {
        for _ in 0..SWEEP_EVERY {
            sleep(LOOK_AT_CLOCK_EVERY).await;
            shared.look_at_clock(&mut lead);
        }
        loop {
            match sweep_once(&shared).await {
                // Nothing was due, or everything due is already deleted.
                Ok(0) => break,
                Ok(removed) => tracing::info!(removed, "deleted records that outlived their lease"),
                Err(error) => {
                    tracing::warn!(%error, "cannot delete records that outlived their lease");
                    break;
                }
            }
        }
    }
}

impl Shared {
    /// Moves the ends in the index that were computed with another lead of the clock. Logs a
    /// warning if the clock was set since it had the lead `lead`, and updates `lead`.
    pub(super) fn look_at_clock(&self, lead: &mut i64) {
        let now = self.reading().lead();
        if now.abs_diff(*lead) > SET_MILLIS {
            tracing::warn!(
                by_millis = now.saturating_sub(*lead),
                "the clock was set; the expiry of other programs' leases moves with it"
            );
            *lead = now;
        }
        self.index.reckon(now);
    }
}

pub(super) async fn sweep_once(shared: &Shared) -> Result<u64, WriteError> {
    let lease_ttl_min = i64::try_from(shared.options.lease_ttl_min.as_millis());
    let slack = LEASE_SLACK_MILLIS.saturating_add(lease_ttl_min.unwrap_or(i64::MAX));
    let (now, confirmed) = shared.read_clock();
    let by = UnixMillis(confirmed.0.saturating_sub(slack));
    let ended = shared.index.ended(by, now.lead(), SWEEP_LEN);
    let (ended, _) = ended.unwrap_or_default();
    let versions: Vec<_> = ended
        .into_iter()
        .map(|(key, entry)| (key, entry.revision))
        .collect();
    shared.remove_ended(&versions).await
}
