//! Stores observed events, each version once, in one commit with the position in the source.
//!
//! Invariants: a version is identified by the event's uid, the source's epoch and its
//! resourceVersion, and observing it again changes nothing. A commit has all of a batch or nothing.
//! Observations that are too many for one commit take several, of which the last has the position.
//! An event that a user deleted is not kept again.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use parking_lot::RwLock;
use tidings_api::codec;
use tidings_history::{Cause, Gap, Version};
use tidings_store::clock::Clock;
use tidings_store::embedded::EmbeddedStore;
use tidings_store::{
    Expected, Index, NewRecord, ReadError, Revision, Store, UnixMillis, VALUE_LEN_MAX, WRITES_MAX,
    Write, WriteError,
};
use tokio::sync::Notify;

use super::batch::{Batch, NotKept};
use super::lifetime::Lasted;
use super::slot::Slot;
use crate::clocks::{Clocks, bounded};
use crate::keep::coverage::write_gaps;
use crate::keep::coverage::{Held, KeepFor, RetentionPolicy};
use crate::keep::coverage::{Position, Unswept};
pub(crate) use crate::keep::error::KeepError;
use crate::keep::feed::Cursor;
use crate::keep::feed::Journal;
use crate::keep::feed::SealedBefore;
use crate::keep::index::index;
use crate::keep::json::{json, parse};
use crate::keep::keys;
use crate::version::record::{Gone, Record};

/// Maximum attempts to commit a batch while others write.
const TRIES: u32 = 16;
/// Number of writes in a commit that are reserved for the journal and for notes of deletions.
const JOURNAL_WRITES_MAX: usize = 64;
/// Minimum time for which a deleted event is not kept again.
const FORGOTTEN_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Minimum time for which events are kept that are written before it is decided that the policy is
/// applied: longer than most archives are stopped, and than most policies keep events.
const HELD_FOR: Duration = Duration::from_secs(400 * 24 * 3600);

/// A version of an event, as a source sent it.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// The event.
    pub(crate) event: Event,
    /// Its resourceVersion at the source.
    pub(crate) number: u64,
    /// Whether this is its end at the source: it expired or was deleted.
    pub(crate) is_gone: bool,
}

/// An observation as it would be kept.
struct Observed {
    key: Bytes,
    /// The event's identity in the keys of its chunks.
    id: Bytes,
    version: Version,
    index: Index,
    expires_at: UnixMillis,
    is_gone: bool,
}

impl Observed {
    /// The end of the event, if it has ended.
    fn gone(&self) -> Option<Gone> {
        self.is_gone.then_some(Gone {
            number: self.version.number,
            observed_at: self.version.observed_at.0,
            not_before: None,
        })
    }
}

/// An event of a source that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The event's namespace, name and uid; all are empty if they are not known.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Why it cannot be read.
    pub(crate) why: String,
}

/// Counts of observations since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) versions: AtomicU64,
    pub(crate) seen_before: AtomicU64,
    pub(crate) ends: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    pub(crate) too_large: AtomicU64,
    pub(crate) unreadable: AtomicU64,
    /// The bytes that the cluster may take now; 0 if it has no quota.
    pub(crate) quota: AtomicU64,
    /// By how many milliseconds the clock is ahead of the clusters; 0 if it is not.
    pub(crate) clock_ahead: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

/// Stores the observations of one cluster.
pub(crate) struct Keeper {
    pub(crate) store: Arc<EmbeddedStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    pub(crate) lasted: Lasted,
    /// Notified when there are ends to be found.
    pub(crate) unswept: Notify,
    /// The journal of new versions, which are yet to be sealed or delivered.
    pub(crate) journal: Journal,
    /// What was sealed before the store began.
    sealed_before: RwLock<Option<Arc<SealedBefore>>>,
    /// The policy in force. It has an effect on existing events once the cluster is followed.
    policy: RwLock<Arc<RetentionPolicy>>,
    /// Whether it is not decided yet that the policy is applied.
    is_held: AtomicBool,
    /// A changed policy that is not in force yet, because it would end much at once.
    pub(crate) held_rules: Held,
    pub(in crate::keep) mirror_deletions: bool,
    /// The times of the followed clusters, once the cluster is followed.
    pub(crate) clocks: OnceLock<Arc<Clocks>>,
    /// The last time at which the clock was believed, in milliseconds since 1970; the least number
    /// if that is not known.
    believed: AtomicI64,
}

/// Data that is committed with observations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct With<'a> {
    pub(crate) gap: Option<&'a Gap>,
    /// If the observations are from the list that ends a gap: when it was requested. Events that
    /// are not in it have ended.
    pub(crate) listed_at: Option<i64>,
    pub(crate) unswept: Option<&'a Unswept>,
    /// Events of the same answer that cannot be read.
    pub(crate) unreadable: &'a [Unreadable],
    /// The time up to which nothing was missing before these observations. Those that are not kept
    /// were written after it.
    pub(crate) complete_until: Option<i64>,
}

/// How often a batch may still be rebuilt.
pub(in crate::keep) struct Tries(u32);

impl Default for Tries {
    fn default() -> Self {
        Self(TRIES)
    }
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<EmbeddedStore>,
        clock: Arc<dyn Clock>,
        keep_for: KeepFor,
        mirror_deletions: bool,
    ) -> Self {
        Self {
            store,
            clock,
            counters: Counters::default(),
            lasted: Lasted::default(),
            unswept: Notify::new(),
            journal: Journal::new(0, Cursor::NONE, 0),
            sealed_before: RwLock::default(),
            policy: RwLock::new(Arc::new(RetentionPolicy::new(keep_for))),
            is_held: AtomicBool::new(false),
            held_rules: Held::default(),
            mirror_deletions,
            clocks: OnceLock::new(),
            believed: AtomicI64::new(i64::MIN),
        }
    }

    /// Sets the policy by which events expire that are observed from now on.
    pub(crate) fn set_policy(&self, policy: Arc<RetentionPolicy>) {
        *self.policy.write() = policy;
    }

    /// Sets whether the policy is on hold. While it is, each written event lives for at least
    /// [`HELD_FOR`], because the former policy may come back.
    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// How long an event is kept that is written now.
    fn keep_for(&self, event: &Event) -> Duration {
        let keep_for = (self.policy().keep_for)(event);
        if self.is_held.load(Ordering::Relaxed) {
            keep_for.max(HELD_FOR)
        } else {
            keep_for
        }
    }

    /// Returns the policy in force.
    pub(crate) fn policy(&self) -> Arc<RetentionPolicy> {
        Arc::clone(&self.policy.read())
    }

    /// Returns whether the cluster is followed, so that the policy acts on existing events.
    pub(crate) fn is_followed(&self) -> bool {
        self.clocks.get().is_some()
    }

    /// Notes that the clock is or was believed at this time.
    pub(crate) fn believe(&self, time: UnixMillis) {
        self.believed.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Returns the last time at which the clock was believed, in milliseconds since 1970.
    pub(crate) fn believed(&self) -> Option<i64> {
        Some(self.believed.load(Ordering::Relaxed)).filter(|time| *time > i64::MIN)
    }

    /// Returns the time of an observation: that of the clock, unless that is known to be wrong.
    pub(crate) fn now(&self) -> UnixMillis {
        let clocks = self.clocks.get();
        let said = clocks.and_then(|clocks| clocks.time(self.clock.steady()));
        let believed = UnixMillis(self.believed.load(Ordering::Relaxed));
        bounded(self.clock.now(), said, [self.store.confirmed(), believed])
    }

    /// Returns the position of a namespace, or of the whole cluster if the namespace is empty.
    pub(crate) async fn position(&self, namespace: &str) -> Result<Option<Position>, ReadError> {
        let record = self.store.get(keys::position(namespace)).await?;
        record
            .map(|record| parse(&record.value))
            .transpose()
            .map_err(ReadError::Fault)
    }

    /// Sets what was sealed before the store began. These versions are not sealed again.
    pub(crate) fn set_sealed_before(&self, sealed: SealedBefore) {
        *self.sealed_before.write() = Some(Arc::new(sealed));
    }

    pub(in crate::keep) fn sealed_before(&self) -> Option<Arc<SealedBefore>> {
        self.sealed_before.read().clone()
    }

    /// Commits observations, the position after them, and other data. `position.versions` counts
    /// new versions.
    ///
    /// # Errors
    /// The position was not committed. If there were very many observations, the first of them may
    /// be kept. They are kept once, even if they are observed again.
    pub(crate) async fn keep(
        &self,
        observations: &[Observation],
        namespace: &str,
        position: &mut Position,
        with: With<'_>,
    ) -> Result<(), KeepError> {
        let unswept = self.unswept_with(namespace, with.unswept).await?;
        let mut tries = Tries::default();
        let mut rest = (observations, with.unreadable);
        // Totals of the commits so far: new versions, and those that cannot be kept, which the last
        // commit reports.
        let mut kept = 0;
        let mut not_kept = NotKept::default();
        loop {
            let mut batch = Batch {
                listed_at: with.listed_at,
                complete_until: with.complete_until,
                followed: namespace.to_owned(),
                sealed_before: self.sealed_before(),
                not_kept: not_kept.clone(),
                ..Batch::default()
            };
            let after = self.fill(rest, position.epoch, &mut batch).await?;
            let is_last = after.0.is_empty() && after.1.is_empty();
            let stored = self.position(namespace).await?;
            let counted = stored.as_ref().map_or(0, |stored| stored.versions);
            let versions = counted.max(position.versions + kept) + batch.versions;
            let (mut writes, _) = batch.writes(self.clock.now());
            let mut untold = NotKept::default();
            let reached = if is_last {
                let gaps = batch.gaps(with.gap);
                writes.extend(write_gaps(&*self.store, &gaps).await?);
                batch.new_gaps = gaps;
                if let Some(unswept) = &unswept {
                    let record = NewRecord::new(json(unswept));
                    writes.push(Write::put(keys::unswept(namespace), record));
                }
                Some(position.clone())
            } else {
                untold = std::mem::take(&mut batch.not_kept);
                stored
            };
            if let Some(reached) = reached {
                let reached = Position {
                    versions,
                    ..reached
                };
                let record = NewRecord::new(json(&reached));
                writes.push(Write::put(keys::position(namespace), record));
            }
            if !self.commit(&batch, writes, &mut tries).await? {
                continue;
            }
            if is_last {
                if unswept.is_some() {
                    self.unswept.notify_one();
                }
                position.versions = versions;
                return Ok(());
            }
            rest = after;
            kept += batch.versions;
            not_kept = untold;
            tries = Tries::default();
        }
    }

    /// Adds observations to a batch, and events that cannot be read, until the batch is full.
    /// Returns the rest.
    async fn fill<'a>(
        &self,
        (mut observations, mut unreadable): (&'a [Observation], &'a [Unreadable]),
        epoch: u64,
        batch: &mut Batch,
    ) -> Result<(&'a [Observation], &'a [Unreadable]), ReadError> {
        while !batch.is_full()
            && let Some((observation, others)) = observations.split_first()
        {
            self.observe(observation, epoch, batch).await?;
            observations = others;
        }
        while !batch.is_full()
            && let Some((left_out, others)) = unreadable.split_first()
        {
            self.leave_out(left_out, batch).await?;
            unreadable = others;
        }
        Ok((observations, unreadable))
    }

    /// Commits the changes of a batch with further writes, and counts them. Returns `false` if one
    /// of the records was changed meanwhile: the batch must then be rebuilt.
    ///
    /// # Errors
    /// Nothing was written. This also happens after too many attempts.
    pub(in crate::keep) async fn commit(
        &self,
        batch: &Batch,
        mut writes: Vec<Write>,
        tries: &mut Tries,
    ) -> Result<bool, KeepError> {
        let room = WRITES_MAX.saturating_sub(writes.len() + JOURNAL_WRITES_MAX);
        let without = batch.without_chunks.iter().cloned();
        let chunks = self.deletes_of_chunks(without, room).await?;
        writes.extend(chunks.writes);
        let (now, end) = (self.clock.now(), batch.latest_end());
        let told = (&*batch.unsealed, &*batch.new_gaps);
        let numbered = self.journal.tell(told, end, now, &mut writes).await;
        let written = self.store.write_all(writes).await;
        match &written {
            Ok(_) if numbered.is_some() => self.journal.wake(),
            Ok(_) => {}
            Err(error) => self.journal.take_back(&self.store, numbered, error).await,
        }
        match written {
            Ok(revisions) => {
                self.count(batch);
                self.delete_left(&chunks.left, &revisions).await;
                Ok(true)
            }
            Err(error) if tries.0 > 0 && is_of_others(&error) => {
                tries.0 -= 1;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn count(&self, batch: &Batch) {
        let counters = &self.counters;
        Counters::add(&counters.versions, batch.versions);
        Counters::add(&counters.seen_before, batch.seen_before);
        Counters::add(&counters.ends, batch.ends);
        Counters::add(&counters.forgotten, batch.forgotten);
        let not_kept = &batch.not_kept;
        Counters::add(&counters.too_large, not_kept.number(Cause::TooLarge));
        Counters::add(&counters.unreadable, not_kept.number(Cause::Unreadable));
    }

    /// Returns the ends that are still to be found, including those of earlier gaps.
    async fn unswept_with(
        &self,
        namespace: &str,
        unswept: Option<&Unswept>,
    ) -> Result<Option<Unswept>, ReadError> {
        let Some(mut unswept) = unswept.cloned() else {
            return Ok(None);
        };
        if let Some(found) = self.store.get(keys::unswept(namespace)).await? {
            let former: Unswept = parse(&found.value)?;
            unswept.not_before = unswept.not_before.min(former.not_before);
            unswept.since = unswept.since.min(former.since);
        }
        Ok(Some(unswept))
    }

    async fn observe(
        &self,
        observation: &Observation,
        epoch: u64,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let mut event = observation.event.clone();
        let metadata = event.metadata.get_or_insert_default();
        let (name, uid) = (metadata.name().to_owned(), metadata.uid().to_owned());
        let namespace = metadata.namespace().to_owned();
        if namespace.len() + name.len() + uid.len() > keys::NAMES_LEN_MAX {
            batch.not_kept(Cause::TooLarge, &namespace, self.now().0);
            return Ok(());
        }
        let key = keys::event(&namespace, &name);
        let names = [&*namespace, &*name, &*uid];
        let holder = self.slot(&key, batch).await?.record.as_ref();
        let is_taken = holder.is_some_and(|record| *record.newest.uid != *uid);
        let elder = if is_taken {
            self.elder_name(names, observation.is_gone, batch).await?
        } else {
            None
        };
        if is_taken && elder.is_none() && observation.is_gone {
            batch.not_kept(Cause::Unreadable, &namespace, self.now().0);
            return Ok(());
        }
        let replaces = is_taken && elder.is_none();
        let key = match elder {
            Some(elder) => {
                let key = keys::event(&namespace, &elder);
                metadata.name = Some(elder);
                key
            }
            None => key,
        };
        let expires_at = self.end(&event);
        let index = index(&event);
        let now = self.now().0;
        if observation.is_gone {
            self.lasted.note(&event, now);
        }
        let id = keys::id(&uid, &key);
        let version = Version {
            uid: uid.as_str().into(),
            epoch,
            number: observation.number,
            observed_at: UnixMillis(now),
            event: codec::encode_stored(&mut event),
        };
        if version.event.len() > VALUE_LEN_MAX / 2 {
            batch.not_kept(Cause::TooLarge, &namespace, now);
            if observation.is_gone {
                return Ok(());
            }
            return self.note_listed(names, batch).await;
        }
        batch.bytes += version.event.len();
        if replaces {
            if self.is_forgotten(&id, batch).await? {
                return Ok(());
            }
            if !self.move_elder(&namespace, &name, batch).await? {
                // A kept event is not replaced by one that would take all of its names.
                batch.not_kept(Cause::Unreadable, &namespace, now);
                return self.note_listed(names, batch).await;
            }
        }
        let observed = Observed {
            key,
            id,
            version,
            index,
            expires_at,
            is_gone: observation.is_gone,
        };
        match self.slot(&observed.key, batch).await?.record.take() {
            Some(record) => self.observe_again(record, observed, batch).await,
            None => self.observe_first(observed, &event, batch).await,
        }
    }

    /// The name under which an event is kept whose own name another event has: that of an older
    /// event which the source has again, or a free one for an event that has ended, because such an
    /// event does not take the name of a younger one.
    async fn elder_name(
        &self,
        names: [&str; 3],
        is_gone: bool,
        batch: &mut Batch,
    ) -> Result<Option<String>, ReadError> {
        match self.elder_of(names, batch).await? {
            None if is_gone => self.free_name(names, batch).await,
            elder => Ok(elder),
        }
    }

    /// Keeps the first version of an event.
    async fn observe_first(
        &self,
        observed: Observed,
        event: &Event,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        if self.is_forgotten(&observed.id, batch).await? {
            return Ok(());
        }
        let gone = observed.gone();
        let Observed {
            key,
            version,
            index,
            mut expires_at,
            ..
        } = observed;
        let observed_at = version.observed_at;
        let mut record = Record::new(version);
        if gone.is_some() {
            if self.mirror_deletions {
                return Ok(());
            }
            record.gone = gone;
            expires_at = self.end_of(event, counts_from(&record, event));
            if expires_at <= observed_at {
                // The event has ended, and its retention is over.
                batch.seen_before += 1;
                return Ok(());
            }
            batch.ends += 1;
        }
        batch.versions += 1;
        batch.note_unsealed(&key, &record);
        let slot = self.slot(&key, batch).await?;
        slot.change(record, index, expires_at);
        Ok(())
    }

    /// Adds a version to a kept event, or notes that the version is known or the event has ended.
    async fn observe_again(
        &self,
        mut record: Record,
        observed: Observed,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let gone = observed.gone();
        let Observed {
            key,
            id,
            version,
            index,
            expires_at,
            is_gone,
        } = observed;
        let listed_at = batch.listed_at;
        let slot = self.slot(&key, batch).await?;
        let seen = record.gone.map_or(0, |gone| gone.number);
        let seen = seen.max(record.newest.number);
        let is_old = record.newest.epoch == version.epoch && version.number <= seen;
        // After the source went back, the same event again is not a new version.
        let is_same = record.newest.event == version.event && !is_gone;
        if is_old || is_same {
            // An event in a list exists.
            let listed_at = listed_at.filter(|_| !is_gone);
            let is_back = record.gone.is_some() && (!is_old || listed_at.is_some());
            if is_back || listed_at.is_some() {
                record.gone = None;
                record.listed_at = listed_at.unwrap_or(record.listed_at);
                let expires_at = slot.expires_at.unwrap_or(expires_at);
                slot.change(record, index, expires_at);
            } else {
                slot.record = Some(record);
            }
            batch.seen_before += 1;
            return Ok(());
        }
        if is_gone {
            if self.mirror_deletions {
                slot.is_changed = true;
                slot.ended_by = version.number;
                batch.without_chunks.insert(keys::chunks(&id));
            } else {
                record.gone = gone;
                let expires_at = slot.expires_at.unwrap_or(expires_at);
                slot.change(record, index, expires_at);
            }
            batch.ends += 1;
            return Ok(());
        }
        let (record, chunk) = record.followed_by(version);
        batch.note_unsealed(&key, &record);
        batch.versions += 1;
        self.slot(&key, batch)
            .await?
            .change(record, index, expires_at);
        if let Some(chunk) = chunk {
            batch.chunk(&id, chunk, expires_at);
        }
        Ok(())
    }

    /// Counts an event that cannot be read.
    async fn leave_out(&self, unreadable: &Unreadable, batch: &mut Batch) -> Result<(), ReadError> {
        let now = self.now().0;
        batch.not_kept(Cause::Unreadable, &unreadable.namespace, now);
        let names: [&str; 3] = [&unreadable.namespace, &unreadable.name, &unreadable.uid];
        let len: usize = names.iter().map(|name| name.len()).sum();
        // Events with longer names are never kept.
        if unreadable.name.is_empty() || len > keys::NAMES_LEN_MAX {
            return Ok(());
        }
        self.note_listed(names, batch).await
    }

    /// Notes that an event in a list has not ended, even if its version is not kept.
    async fn note_listed(
        &self,
        [namespace, name, uid]: [&str; 3],
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let Some(listed_at) = batch.listed_at else {
            return Ok(());
        };
        let names = std::iter::once(name.to_owned());
        for name in names.chain(keys::elder_names(name, uid)) {
            let slot = self.slot(&keys::event(namespace, &name), batch).await?;
            if slot.note_listed(uid, listed_at) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the expiry of an event that is observed now.
    pub(in crate::keep) fn end(&self, event: &Event) -> UnixMillis {
        self.after(self.keep_for(event))
    }

    /// Returns the expiry of an event that was observed at this time.
    pub(crate) fn end_of(&self, event: &Event, observed_at: UnixMillis) -> UnixMillis {
        later(observed_at, self.keep_for(event))
    }

    /// Uses the later of the clock's time and the corrected one, so that nothing expires sooner
    /// because of what clusters say.
    fn after(&self, time: Duration) -> UnixMillis {
        later(self.clock.now().max(self.now()), time)
    }

    pub(in crate::keep) async fn is_forgotten(
        &self,
        id: &[u8],
        batch: &mut Batch,
    ) -> Result<bool, ReadError> {
        let is = self.store.get(keys::forgotten(id)).await?.is_some();
        batch.forgotten += u64::from(is);
        Ok(is)
    }

    /// Returns the note that is written when an event is deleted here, if versions of the cluster
    /// were sealed: sealed files may have some of this event's.
    pub(in crate::keep) fn erase(&self, id: &[u8], key: &Bytes, uid: &str) -> Option<Write> {
        let is_sealed = self.journal.is_sealed();
        is_sealed.then(|| Journal::erase(id, key, uid))
    }

    pub(in crate::keep) async fn slot<'a>(
        &self,
        key: &Bytes,
        batch: &'a mut Batch,
    ) -> Result<&'a mut Slot, ReadError> {
        if !batch.slots.contains_key(key) {
            let found = self.store.get(key.clone()).await?;
            let record = found
                .as_ref()
                .and_then(|found| Record::decode(&found.value).ok());
            if found.is_some() && record.is_none() {
                let key = String::from_utf8_lossy(key);
                tracing::error!(%key, "a record is damaged, and is replaced");
            }
            batch.bytes += found.as_ref().map_or(0, |found| found.value.len());
            let slot = Slot {
                found: found.as_ref().map(|found| found.revision),
                record,
                expires_at: found.and_then(|found| found.expires_at),
                ..Slot::default()
            };
            batch.slots.insert(key.clone(), slot);
        }
        // The entry was inserted above.
        Ok(batch.slots.entry(key.clone()).or_default())
    }

    /// Deletes all versions of an event, and prevents that it is kept again. If versions of the
    /// cluster were sealed, this notes that files may have some of the event's. Returns the stored
    /// record, and the revision of its deletion.
    ///
    /// # Errors
    /// Errors of [`Store::delete`].
    pub(crate) async fn forget(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> Result<(tidings_store::Record, Revision), KeepError> {
        let mut tries = TRIES;
        loop {
            let found = self.store.get(key.clone()).await?;
            let found = found.ok_or(WriteError::NotFound)?;
            if let Some(expected) = expected.filter(|expected| *expected != found.revision) {
                let current = found.revision;
                return Err(WriteError::Conflict { expected, current }.into());
            }
            match self.forget_found(&found).await {
                Ok(revision) => return Ok((found, revision)),
                // The event was observed meanwhile, or one of its chunks expired, so nothing was
                // deleted.
                Err(KeepError::Write(error)) if tries > 0 && is_of_others(&error) => tries -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Like [`forget`](Self::forget), for a record that was read. Everything is in one commit, so
    /// that an event that is observed meanwhile loses none of its versions. Returns the revision of
    /// the deletion.
    async fn forget_found(&self, found: &tidings_store::Record) -> Result<Revision, KeepError> {
        let key = &found.key;
        let record = Record::decode(&found.value).ok();
        let uid = record.as_ref().map_or("", |record| &*record.newest.uid);
        let id = keys::id(uid, key);
        let kept_for = found.expires_at.map_or(0, |at| at.0 - self.clock.now().0);
        let kept_for = Duration::from_millis(kept_for.max(0).cast_unsigned());
        let until = self.after(kept_for.max(FORGOTTEN_FOR));
        // The mark has the key, because exports name the event.
        let mark = NewRecord::new(key.clone()).expires_at(until);
        let mark = Write::put(keys::forgotten(&id), mark);
        // Versions that are sealed by now were read before this, and are in a file when the files
        // are searched.
        let erase = self.erase(&id, key, uid);
        let delete = Write::delete(key.clone()).expecting(Expected::At(found.revision));
        let room = WRITES_MAX - JOURNAL_WRITES_MAX;
        let chunks = self.deletes_of_chunks([keys::chunks(&id)], room).await?;
        let writes = [delete, mark].into_iter().chain(erase).chain(chunks.writes);
        let revisions = self.store.write_all(writes.collect()).await?;
        self.delete_left(&chunks.left, &revisions).await;
        Ok(revisions.first().copied().unwrap_or_default())
    }
}

/// Returns whether nothing was written because another writer changed a record meanwhile, or it
/// expired.
pub(in crate::keep) fn is_of_others(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Conflict { .. }
            | WriteError::NotFound
            | WriteError::AlreadyExists { .. }
            | WriteError::AlreadyExpired { .. }
    )
}

/// Returns the time from which a record's retention counts: when its newest version was observed.
/// If that is an event's end, and nothing else of the event was kept, it is when the event last
/// happened.
pub(in crate::keep) fn counts_from(record: &Record, event: &Event) -> UnixMillis {
    let newest = &record.newest;
    let is_end =
        record.versions == 1 && record.gone.is_some_and(|gone| gone.number == newest.number);
    let seen = codec::last_seen(event).filter(|_| is_end);
    let seen = seen.map(|seen| UnixMillis(seen.as_millisecond()));
    seen.map_or(newest.observed_at, |seen| seen.min(newest.observed_at))
}

/// Returns the time after a duration of at least one millisecond.
pub(in crate::keep) fn later(moment: UnixMillis, time: Duration) -> UnixMillis {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    UnixMillis(moment.0.saturating_add(millis.max(1)))
}
