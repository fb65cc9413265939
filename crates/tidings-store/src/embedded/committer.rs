//! The core of the store: one thread that owns the revision and does every write.
//!
//! It takes all requests that are waiting, decides each against the state left by all before it,
//! writes the outcome of all of them as one atomic batch with one `fdatasync`, publishes the
//! changes to the watchers and answers. While one batch is being synced the next one gathers, so
//! batches grow with the load and a lone writer does not wait for others; after a batch of several
//! it gives them a moment to return, so that half of them do not miss the next one each time.
//! Between requests it writes down the ends of expired records, a bounded number per batch so that
//! writers are not held up.
//!
//! ```text
//!  queue ──take──▶ Batch: sweep, then each request ──▶ log, fdatasync ──▶ index ──▶ ring ──▶ answers
//!                    │ on failure: nothing published, everyone told, log cut back before the next batch
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::batch::{Batch, Committed, Times};
use super::believed;
use super::engine::Engine;
#[cfg(test)]
use super::faults::{self, Point};
use super::flusher::Flusher;
use super::index::io_fault;
use super::keys::{NEVER, State};
use super::log::{Failure, Unfinished};
use super::queue::{Returning, Taken};
use super::reply::{Reply, decided};
use super::request::Request;
use super::rewrite::Pass;
use super::shared::Shared;
use super::trainer::Trainer;
use super::upkeep::Due;
use crate::clock::{Reading, timed};
use crate::confirmed::Confirmed;
use crate::{Fault, Revision};

/// Maximum ends written down per batch while writers wait, and while none wait: a few milliseconds
/// of work, as a writer may come meanwhile.
const SWEEP_BUSY: usize = 384;
const SWEEP_IDLE: usize = 1024;

/// Minimum names of swept versions in the index before the index is searched for them.
const SWEPT_NAMES_MIN: u64 = 20_000;

/// Maximum time to wait for writers that were answered to write again; the wait is mostly half as
/// long as the commit took.
const PATIENCE_MAX: Duration = Duration::from_millis(5);

/// How often the committer looks at the clock when nothing is asked of it.
const TICK: Duration = Duration::from_secs(1);

/// Buckets that end before what ends now is forgotten are not gone through for space, if that is
/// not longer than this.
const SPARED_MAX: Duration = Duration::from_secs(3600);

/// How often an error is logged that comes back with every batch.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct Committer {
    shared: Arc<Shared>,
    state: State,
    /// Buckets whose ends are all written down, with the revision that was reached then: they are
    /// dropped once the history no longer needs them.
    finished: Vec<(u64, Revision)>,
    /// What revision the store was at when, one entry per tick, for forgetting history by age.
    ages: VecDeque<(Duration, Revision)>,
    /// Up to when the clock is believed.
    confirmed: Confirmed,
    /// When that was last noted for the next process, and as of which commit.
    noted: (Duration, u64),
    /// The number of the last commit.
    number: u64,
    /// The bucket it wrote to.
    home: Option<u64>,
    /// Who may be about to write again.
    returning: Returning,
    /// What a failed commit may have left in the log.
    unfinished: Unfinished,
    flusher: Flusher,
    /// Only held: it ends before the folder is given back.
    _trainer: Trainer,
    /// Names of swept versions that may still be in the index.
    swept_names: u64,
    /// Who waits for all that has expired to be written down, with the count of ends at that time.
    demands: Vec<(u64, Reply<u64>)>,
    /// When all that had expired was written down.
    swept_at: Option<Duration>,
    complained_at: Option<Duration>,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (state, number): (State, u64),
        confirmed: Confirmed,
        (flusher, trainer): (Flusher, Trainer),
    ) -> Self {
        let (finished, ages, demands) = (Vec::new(), VecDeque::new(), Vec::new());
        Self {
            shared,
            state,
            finished,
            ages,
            confirmed,
            noted: (Duration::ZERO, number),
            number,
            home: None,
            returning: Returning::default(),
            unfinished: Unfinished::default(),
            flusher,
            _trainer: trainer,
            swept_names: 0,
            demands,
            swept_at: None,
            complained_at: None,
        }
    }

    /// When opening: has all frames of the newest commit in the log, which an earlier version did
    /// not see to when it dropped buckets. Whether some are missing is not known of a commit that
    /// the index on disk has; but then no process noted the time as it is noted now.
    pub(crate) fn have_newest(&mut self, was_seen_to: bool) {
        let shared = Arc::clone(&self.shared);
        let Some(engine) = &*shared.engine() else {
            return;
        };
        let buckets = engine.buckets();
        let mut numbers = buckets.values().map(|bucket| bucket.log.number());
        let is_there = numbers.any(|number| number == self.number);
        if self.number == 0 || is_there && was_seen_to {
            return;
        }
        let now = self.times();
        if let Err(fault) = self.commit_to_stay(engine, now) {
            self.complain(
                now,
                &fault,
                "the newest commit is not made to stay in the log",
            );
        }
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(self) {
        let ending = Ending(Arc::clone(&self.shared));
        // Dropped before the ending, with its threads: the folder is released when no thread writes
        // to it any more.
        let mut committer = self;
        committer.work();
        committer.flush();
        drop(committer);
        if let Some(engine) = &*ending.0.engine() {
            // By now nothing is merged any more.
            engine.index.write_sums();
        }
        drop(ending);
    }

    fn work(&mut self) {
        self.recall_finished();
        let shared = Arc::clone(&self.shared);
        if let Some(engine) = &*shared.engine() {
            if engine.is_behind() {
                // The replayed part is not replayed again if this process is killed, too.
                self.flusher.set_aside(engine);
            }
            let now = self.times();
            self.give_back(engine, now);
        }
        let mut requests = Vec::new();
        let mut more = false;
        loop {
            let (wait, returning) = if more {
                (Duration::ZERO, Returning::default())
            } else {
                (TICK, self.returning)
            };
            if self.shared.queue.take(&mut requests, wait, returning) == Taken::Closed {
                break;
            }
            more = self.cycle(&mut requests);
        }
    }

    /// Leaves the index on disk whole, so that nothing need be replayed, and the log without room
    /// for more.
    fn flush(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Some(engine) = &*shared.engine() {
            let written = self
                .flusher
                .wait()
                .is_ok_and(|idle| idle)
                .then(|| engine.write_checkpoint());
            if let Some(Err(error)) = written {
                tracing::warn!(%error, "failed to flush the index; opening will take longer");
            }
            engine.log.close();
            // That the time was noted tells that something was written.
            if self.number > 0 {
                let now = self.times().reading();
                believed::write(&self.shared.path, self.confirmed.belief(now));
            }
        }
    }

    fn times(&mut self) -> Times {
        let Reading { wall, steady } = Reading::of(&*self.shared.clock);
        let confirmed = self.confirmed.at(Reading { wall, steady });
        let retention = self.shared.options.history_retention.min(SPARED_MAX);
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let spared = confirmed.0.max(0).saturating_add(retention);
        Times {
            wall,
            steady,
            confirmed,
            spared: spared.cast_unsigned(),
        }
    }

    /// Notes up to when the clock is believed, now and then, if something was written since or ends
    /// wait for it: processes that are killed without a commit are to come nearer to believing it,
    /// too.
    fn note_time(&mut self, now: Times) {
        let (at, number) = self.noted;
        if is_within(TICK, Some(at), now) {
            return;
        }
        let belief = self.confirmed.belief(now.reading());
        if number < self.number || self.number > 0 && belief.candidate.is_some() {
            self.noted = (now.steady, self.number);
            believed::write(&self.shared.path, belief);
        }
    }

    /// After opening: buckets that were finished before. It is not known when, so the whole history
    /// is taken to need them.
    fn recall_finished(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Some(engine) = &*shared.engine() {
            let finished = engine
                .buckets()
                .keys()
                .copied()
                .filter(|bucket| self.is_finished(*bucket))
                .collect::<Vec<_>>();
            self.finished = finished
                .into_iter()
                .map(|bucket| (bucket, self.state.revision))
                .collect();
        }
        self.ages.clear();
    }

    fn is_finished(&self, bucket: u64) -> bool {
        bucket <= self.state.swept.floor
    }

    /// Does one batch; whether there is more to do at once.
    fn cycle(&mut self, requests: &mut Vec<Request>) -> bool {
        let now = self.times();
        let shared = Arc::clone(&self.shared);
        let result = match &*shared.engine() {
            Some(engine) => self
                .make_ready(engine)
                .and_then(|()| self.commit(engine, requests, now)),
            None => Err(Fault::Closed),
        };
        match result {
            Ok(more) => more,
            Err(fault) => {
                for request in requests.drain(..) {
                    request.fail(fault.clone());
                }
                for (_, reply) in self.demands.drain(..) {
                    reply.send(Err(fault.clone().into()));
                }
                self.complain(now, &fault, "writes are refused");
                false
            }
        }
    }

    /// Waits for room in memory, and takes back what a failed commit left. An error means that
    /// nothing can be written now.
    fn make_ready(&mut self, engine: &Arc<Engine>) -> Result<(), Fault> {
        if engine.is_far_behind() {
            while !self.flusher.wait()? {}
            self.flusher.set_aside(engine);
        }
        engine.log.roll_back(&mut self.unfinished).map_err(io_fault)
    }

    /// One batch, and what follows from it.
    fn commit(
        &mut self,
        engine: &Arc<Engine>,
        requests: &mut Vec<Request>,
        now: Times,
    ) -> Result<bool, Fault> {
        let shared = Arc::clone(&self.shared);
        let has_space = shared.has_space();
        let quota = if requests.len() > 1 {
            SWEEP_BUSY
        } else {
            SWEEP_IDLE
        };
        let mut batch = Batch::new(engine, &shared.codec, now, self.home);
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests.extract_if(.., |request| matches!(request, Request::Expire { .. }))
        {
            if let Request::Expire { reply } = request {
                self.demands
                    .push((shared.expired.load(Ordering::Relaxed), reply));
            }
        }

        let order = &engine.index.order;
        let mut before = BTreeMap::new();
        let mut more = false;
        let due = !is_within(TICK, self.swept_at, now);
        if shared.options.expire_by_itself && due || !self.demands.is_empty() {
            before = order.all();
            match batch.sweep(quota) {
                Ok(left) => {
                    more = left;
                    self.swept_at = (!more).then_some(now.steady);
                }
                // Writes continue: what cannot be read cannot be written down, but it is not served
                // either.
                Err(error) => {
                    for (_, reply) in self.demands.drain(..) {
                        reply.send(Err(error.clone().into()));
                    }
                    self.complain(
                        now,
                        &error,
                        "failed to write down the ends of expired records",
                    );
                }
            }
        }
        for request in requests.drain(..) {
            answers.push(match request {
                Request::Put(_, reply) if !has_space => decided(reply, Err(Fault::NoSpace.into())),
                Request::Many(_, reply) if !has_space => decided(reply, Err(Fault::NoSpace.into())),
                Request::Put(put, reply) => decided(reply, batch.put(*put)),
                Request::Many(writes, reply) => decided(reply, batch.many(writes)),
                Request::Delete {
                    key,
                    expected,
                    reply,
                } => decided(reply, batch.delete(&key, expected)),
                Request::Compact { revision, reply } => decided(reply, batch.compact(revision)),
                Request::Expire { reply } => decided(reply, Ok(0)),
            });
        }
        self.forget_old(&mut batch, now);

        let expired = batch.expired;
        let finished = std::mem::take(&mut batch.finished);
        #[cfg(test)]
        faults::panic_at(&shared.path, Point::Decided);
        for answer in &mut answers {
            answer.begin();
        }
        for (_, reply) in &mut self.demands {
            reply.begin();
        }
        let (committed, took) =
            timed(|| batch.commit(engine, self.number + 1, &mut self.unfinished));
        self.returning = Returning {
            count: answers.len() + shared.queue.len(),
            patience: PATIENCE_MAX.min(took / 2),
        };
        let committed = match committed {
            Ok(committed) => committed,
            Err(failure) => {
                order.restore(&before);
                self.swept_at = None;
                let fault = self.fault_of(engine, failure);
                for answer in answers {
                    answer.answer(Err(fault.clone()));
                }
                return Err(fault);
            }
        };
        #[cfg(test)]
        faults::panic_at(&shared.path, Point::Synced);
        if let Some(Committed {
            state,
            ended_bytes,
            logged,
            home,
        }) = committed
        {
            engine.upkeep.ended(ended_bytes);
            let is_forgetting = state.compacted > self.state.compacted;
            if is_forgetting {
                shared.changes.forget(state.compacted);
            }
            self.number += 1;
            shared.changes.publish(logged, state.revision);
            self.state = state;
            self.home = home;
            if is_forgetting {
                self.give_back(engine, now);
            }
        }
        self.finished.extend(finished);
        self.swept_names += expired;
        let expired = shared.expired.fetch_add(expired, Ordering::Relaxed) + expired;
        for answer in answers {
            answer.answer(Ok(()));
        }
        self.note_time(now);
        engine.log.give_room_back(self.number);
        engine.held.forget(self.state.compacted, now.steady);
        self.drop_finished(engine, now);
        self.clean_names(engine);
        if !more {
            for (before, reply) in self.demands.drain(..) {
                reply.send(Ok(expired - before));
            }
        }
        Ok(more)
    }

    /// What to answer after a failed commit. Only if the log is certainly as before is it said that
    /// nothing was written.
    fn fault_of(&mut self, engine: &Engine, failure: Failure) -> Fault {
        let (error, certain) = match failure {
            Failure::NotWritten(error) => (error, true),
            Failure::NotSynced(error) => (error, false),
            Failure::Unknown(error) => {
                // What the system keeps of it in memory must not be taken for what is on the disk.
                drop(engine.log.roll_back(&mut self.unfinished));
                return Fault::Unknown(Arc::new(error));
            }
        };
        if certain || engine.log.roll_back(&mut self.unfinished).is_ok() {
            io_fault(error)
        } else {
            Fault::Unknown(Arc::new(error))
        }
    }

    /// Logs an error that comes back with every batch, once a minute.
    fn complain(&mut self, now: Times, error: &Fault, what: &'static str) {
        if !is_within(COMPLAIN_EVERY, self.complained_at, now) {
            self.complained_at = Some(now.steady);
            tracing::error!(%error, what);
        }
    }

    /// Moves the end of the history by age and count.
    fn forget_old(&mut self, batch: &mut Batch<'_>, now: Times) {
        let options = &self.shared.options;
        let revision = self.state.revision;
        if is_within(TICK, self.ages.back().map(|(at, _)| *at), now) {
            return;
        }
        self.ages.push_back((now.steady, revision));
        let mut until = revision.saturating_sub(options.history_len_max);
        while let Some((at, revision)) = self.ages.front()
            && now.steady.saturating_sub(*at) > options.history_retention
        {
            until = until.max(*revision);
            self.ages.pop_front();
        }
        batch.forget(until);
    }

    /// Drops buckets whose ends are all written down, once their content is no longer needed: not
    /// for the history, not to replay the log after a crash, and not to learn the store's state
    /// from the log alone.
    fn drop_finished(&mut self, engine: &Arc<Engine>, now: Times) {
        let buckets = engine.buckets();
        let compacted = self.state.compacted;
        let is_forgotten = |(bucket, reached): &(u64, Revision)| {
            *reached <= compacted
                && buckets
                    .get(bucket)
                    .is_none_or(|bucket| bucket.log.last() <= compacted)
        };
        if !self.finished.iter().any(is_forgotten) {
            return;
        }
        let checkpoint = engine.checkpoint.load(Ordering::Acquire);
        let is_replayed = |bucket: u64| {
            buckets
                .get(&bucket)
                .is_some_and(|bucket| bucket.log.number() > checkpoint)
        };
        let mut waiting = false;
        let (droppable, kept) =
            std::mem::take(&mut self.finished)
                .into_iter()
                .partition(|finished| {
                    let replayed = is_replayed(finished.0);
                    waiting |= replayed && is_forgotten(finished);
                    !replayed && is_forgotten(finished)
                });
        self.finished = kept;
        let has_newest = |(bucket, _): &(u64, Revision)| {
            buckets
                .get(bucket)
                .is_some_and(|bucket| bucket.log.number() == self.number)
        };
        if droppable.iter().any(has_newest)
            && let Err(fault) = self.commit_to_stay(engine, now)
        {
            self.complain(now, &fault, "expired buckets are not dropped");
            self.finished.extend(droppable);
            return;
        }
        for (bucket, _) in droppable {
            if let Err(error) = engine.drop_bucket(bucket) {
                tracing::error!(bucket, %error, "failed to drop an expired bucket; its space is not given back");
            }
        }
        if waiting {
            self.flusher.set_aside(engine);
        }
    }

    /// Makes a commit without changes in a bucket that is not dropped. Without a checkpoint the
    /// newest commit says what the store is at, so no frame of it may go.
    fn commit_to_stay(&mut self, engine: &Arc<Engine>, now: Times) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        let buckets = engine.buckets();
        let mut staying = buckets.keys().filter(|bucket| !self.is_finished(**bucket));
        let bucket = staying.next_back().copied().unwrap_or(NEVER);
        let mut batch = Batch::new(engine, &shared.codec, now, Some(bucket));
        batch.write_to(bucket)?;
        match batch.commit(engine, self.number + 1, &mut self.unfinished) {
            Ok(Some(Committed { home, .. })) => {
                self.number += 1;
                self.home = home;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(failure) => Err(self.fault_of(engine, failure)),
        }
    }

    /// Has the space given back of what is no longer needed, when there may be enough of it.
    fn give_back(&self, engine: &Arc<Engine>, now: Times) {
        let spared = now.spared.max(self.state.swept.floor);
        let indexed = engine.indexed.load(Ordering::Acquire);
        let quiet = engine.checkpoint.load(Ordering::Acquire);
        match engine
            .upkeep
            .due(&self.state, indexed, || engine.len_behind(spared))
        {
            Due::No => {}
            Due::OnceIndexed => {
                engine.log.seal(spared, quiet);
                self.flusher.set_aside(engine);
            }
            Due::Now(dead) => {
                engine.log.seal(spared, quiet);
                self.flusher.rewrite(engine, Pass { dead, spared });
            }
        }
    }

    /// Has the index rid of names that were swept, when they are more than those that live.
    fn clean_names(&mut self, engine: &Arc<Engine>) {
        if self.swept_names > self.state.records.max(SWEPT_NAMES_MIN) {
            self.swept_names = 0;
            self.flusher.clean_names(engine);
        }
    }
}

/// Whether something was so short a time ago.
fn is_within(period: Duration, at: Option<Duration>, now: Times) -> bool {
    at.is_some_and(|at| now.steady.saturating_sub(at) < period)
}

/// Leaves no caller waiting, however the committer ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        let shared = &self.0;
        shared.queue.close();
        let mut left = Vec::new();
        while shared
            .queue
            .take(&mut left, Duration::ZERO, Returning::default())
            == Taken::Open
        {
            for request in left.drain(..) {
                request.fail(Fault::Closed);
            }
        }
        shared.changes.close(Fault::Closed);
        *shared
            .engine
            .write()
            .unwrap_or_else(PoisonError::into_inner) = None;
        shared
            .folder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        shared.ended.send_replace(true);
    }
}
