//! The core of the store: one thread that owns the revision and does every write.
//!
//! It takes all waiting requests, decides each against the state after those before it, writes all
//! results as one atomic batch with one `fdatasync`, publishes the changes to watchers, and
//! answers. While one batch is synced the next one gathers, so batches grow with the load, and a
//! single writer does not wait for others. After a batch of several writers it waits a moment for
//! them to return, so that not half of them miss each batch. Between requests it writes expiries, a
//! bounded number per batch, so that writers are not delayed.
//!
//! ```text
//!  queue ──take──▶ Batch: sweep, then each request ──▶ log, fdatasync ──▶ index ──▶ ring ──▶ answers
//!                    │ on failure: nothing published, all refused, log truncated before the next batch
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::batch::{Batch, Committed, LOADED_MAX, Times};
use super::queue::{Returning, Taken};
use super::reply::{Decided, Reply, decided};
use super::request::{Request, need_space};
use super::shared::Shared;
use crate::clock::{Reading, timed};
use crate::embedded::codec::State;
use crate::embedded::codec::version::NEVER;
use crate::embedded::engine::{Due, Engine};
use crate::embedded::files::confirmed_time;
#[cfg(test)]
use crate::embedded::files::faults::{self, Point};
use crate::embedded::index::io_fault;
use crate::embedded::log::{Failure, Unfinished};
use crate::embedded::maintenance::{Flusher, Pass, Trainer};
use crate::{Fault, Revision};

/// Maximum expiries per batch: the first while writers wait, the second while none wait. Both are a
/// few milliseconds of work, because a writer may arrive meanwhile.
const SWEEP_BUSY: usize = 384;
const SWEEP_IDLE: usize = 1024;

/// Minimum number of swept names in the index before it is searched for them.
const SWEPT_NAMES_MIN: u64 = 20_000;

/// Maximum time to wait for answered writers to write again; usually half the commit's time.
const PATIENCE_MAX: Duration = Duration::from_millis(5);

/// Interval at which the clock is read while there are no requests.
const TICK: Duration = Duration::from_secs(1);

/// Number of parts that the retention of the history is divided into. The history is forgotten late
/// by at most one part and one tick.
const AGES: u32 = 1024;

/// Buckets that are dropped within this time are not rewritten to release space.
const SPARED_MAX: Duration = Duration::from_secs(3600);

/// Interval at which an error that recurs with every batch is logged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

pub(in crate::embedded) struct Committer {
    shared: Arc<Shared>,
    state: State,
    /// Buckets all of whose expiries are written, with the revision at that time. They are dropped
    /// once the history no longer needs them.
    finished: Vec<(u64, Revision)>,
    ages: Ages,
    /// Monotonic time at which history was last forgotten by age and count.
    ticked_at: Option<Duration>,
    /// Monotonic time and commit number at which the confirmed time was last stored.
    noted: (Duration, u64),
    /// Number of the last commit.
    number: u64,
    /// The bucket that the last commit wrote to.
    home: Option<u64>,
    /// Writers that are expected to write again soon.
    returning: Returning,
    /// Segments that a failed commit may have left bytes in.
    unfinished: Unfinished,
    flusher: Flusher,
    /// Kept only so that the thread ends before the folder is released.
    _trainer: Trainer,
    /// Number of names of swept versions that may still be in the index.
    swept_names: u64,
    /// Callers that wait until all expiries are written, with the count of expiries at their call.
    demands: Vec<(u64, Reply<u64>)>,
    /// Monotonic time at which the last sweep had written all due expiries.
    swept_at: Option<Duration>,
    complained_at: Option<Duration>,
}

impl Committer {
    pub(in crate::embedded) fn new(
        shared: Arc<Shared>,
        (state, number): (State, u64),
        (flusher, trainer): (Flusher, Trainer),
    ) -> Self {
        Self {
            shared,
            state,
            finished: Vec::new(),
            ages: Ages::default(),
            ticked_at: None,
            noted: (Duration::ZERO, number),
            number,
            home: None,
            returning: Returning::default(),
            unfinished: Unfinished::default(),
            flusher,
            _trainer: trainer,
            swept_names: 0,
            demands: Vec::new(),
            swept_at: None,
            complained_at: None,
        }
    }

    /// Makes sure at opening that all frames of the newest commit are in the log. An earlier
    /// version dropped buckets without regard to that. If the index on disk has the commit, missing
    /// frames cannot be detected. But then no process has stored the time in its current form.
    pub(in crate::embedded) fn have_newest(&mut self, was_seen_to: bool) {
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
    pub(in crate::embedded) fn run(self) {
        let ending = Ending(Arc::clone(&self.shared));
        // The committer is dropped, with its threads, before the ending. So the folder is released
        // only when no thread writes to it any more.
        let mut committer = self;
        committer.work();
        committer.flush();
        drop(committer);
        if let Some(engine) = &*ending.0.engine() {
            // No merge runs any more.
            engine.index.write_sums();
        }
        drop(ending);
    }

    fn work(&mut self) {
        self.recall_finished();
        let shared = Arc::clone(&self.shared);
        if let Some(engine) = &*shared.engine() {
            if engine.is_behind() {
                // Flush the replayed part now, so that it is not replayed again if this process is
                // killed, too.
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
            // Requests that the last commit left come first, and alone, because they may be large.
            if requests.is_empty()
                && self.shared.queue.take(&mut requests, wait, returning) == Taken::Closed
            {
                break;
            }
            more = self.cycle(&mut requests);
        }
    }

    /// Flushes the index, so that opening replays nothing, and removes the log's preallocated room.
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
            // A stored time shows that something was written, so an empty store stores none.
            if self.number > 0 {
                let now = self.times().reading();
                let belief = self.shared.confirmed().belief(now);
                confirmed_time::write(&self.shared.path, belief);
            }
        }
    }

    fn times(&self) -> Times {
        let Reading { wall, steady } = Reading::of(&*self.shared.clock);
        let confirmed = self.shared.confirmed().at(Reading { wall, steady });
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

    /// Stores the confirmed time for the next process, at most once per tick. It is stored if
    /// something was written since, or if expiries wait for it. So processes that are killed
    /// without a commit make progress, too.
    fn note_time(&mut self, now: Times) {
        let (at, number) = self.noted;
        if is_within(TICK, Some(at), now) {
            return;
        }
        let belief = self.shared.confirmed().belief(now.reading());
        if number < self.number || self.number > 0 && belief.candidate.is_some() {
            self.noted = (now.steady, self.number);
            confirmed_time::write(&self.shared.path, belief);
        }
    }

    /// Finds the buckets that were finished before the store was opened. When they were finished is
    /// unknown, so the whole history is assumed to need them.
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
    }

    fn is_finished(&self, bucket: u64) -> bool {
        bucket <= self.state.swept.floor
    }

    /// Commits one batch, and leaves the requests that are too much for it. Returns whether there
    /// is more to do at once.
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

    /// Waits for room in memory and rolls a failed commit back. An error means that nothing can be
    /// written now.
    fn make_ready(&mut self, engine: &Arc<Engine>) -> Result<(), Fault> {
        if engine.is_far_behind() {
            while !self.flusher.wait()? {}
            self.flusher.set_aside(engine);
        }
        engine.log.roll_back(&mut self.unfinished).map_err(io_fault)
    }

    /// Commits one batch, answers its callers and starts the upkeep that it makes due. Returns
    /// whether there is more to do at once.
    fn commit(
        &mut self,
        engine: &Arc<Engine>,
        requests: &mut Vec<Request>,
        now: Times,
    ) -> Result<bool, Fault> {
        let shared = Arc::clone(&self.shared);
        let quota = if requests.len() > 1 {
            SWEEP_BUSY
        } else {
            SWEEP_IDLE
        };
        self.take_demands(requests);
        // This copy is needed without a sweep, too: a failed commit may have put records.
        let order = engine.index.order.all();
        let mut batch = Batch::new(engine, &shared.codec, now, self.home);
        let more = self.sweep(&mut batch, quota, now);
        let mut answers = decide(&mut batch, requests, shared.has_space());
        let has_ticked = self.forget_old(&mut batch, now);
        let expired = batch.expired;
        let finished = std::mem::take(&mut batch.finished);
        #[cfg(test)]
        faults::panic_at(&shared.path, Point::Decided);
        // From here on the writes may be on the disk, which a reply must say if this thread ends.
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
                engine.index.order.restore(&order);
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
        let is_forgetting = committed.is_some_and(|committed| self.publish(engine, committed));
        if is_forgetting || has_ticked {
            // This is needed without further writes, too: a pass begins in several steps.
            self.give_back(engine, now);
        }
        // The history needs all expiries of this commit, in whatever bucket they are.
        let reached = self.state.revision;
        let finished = finished.into_iter().map(|bucket| (bucket, reached));
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
        Ok(more || !requests.is_empty())
    }

    /// Takes the requests to write all expiries out of the others. They are answered when a sweep
    /// has written everything that is due, which may take several commits.
    fn take_demands(&mut self, requests: &mut Vec<Request>) {
        for request in requests.extract_if(.., |request| matches!(request, Request::Expire { .. }))
        {
            if let Request::Expire { reply } = request {
                let expired = self.shared.expired.load(Ordering::Relaxed);
                self.demands.push((expired, reply));
            }
        }
    }

    /// Adds due expiries to the batch, once per tick or if somebody waits for them. Returns whether
    /// more are due.
    fn sweep(&mut self, batch: &mut Batch<'_>, quota: usize, now: Times) -> bool {
        let due = self.shared.options.expire_by_itself && !is_within(TICK, self.swept_at, now);
        if !due && self.demands.is_empty() {
            return false;
        }
        match batch.sweep(quota) {
            Ok(more) => {
                self.swept_at = (!more).then_some(now.steady);
                more
            }
            // Writes continue. The expiry of an unreadable record cannot be written, but the record
            // is not served either.
            Err(error) => {
                for (_, reply) in self.demands.drain(..) {
                    reply.send(Err(error.clone().into()));
                }
                let what = "failed to write down the ends of expired records";
                self.complain(now, &error, what);
                false
            }
        }
    }

    /// Publishes a commit to watchers and to later commits. Returns whether it forgets history.
    fn publish(&mut self, engine: &Engine, committed: Committed) -> bool {
        let Committed {
            state,
            ended_bytes,
            logged,
            home,
        } = committed;
        engine.upkeep.ended(ended_bytes);
        let is_forgetting = state.compacted > self.state.compacted;
        if is_forgetting {
            self.shared.changes.forget(state.compacted);
        }
        self.number += 1;
        self.shared.changes.publish(logged, state.revision);
        self.state = state;
        self.home = home;
        is_forgetting
    }

    /// The fault to answer with after a failed commit. It says that nothing was written only if the
    /// log is certainly as before.
    fn fault_of(&mut self, engine: &Engine, failure: Failure) -> Fault {
        let (error, certain) = match failure {
            Failure::NotWritten(error) => (error, true),
            Failure::NotSynced(error) => (error, false),
            Failure::Unknown(error) => {
                // The page cache must not be taken for the content of the disk.
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

    /// Logs an error that recurs with every batch, at most once a minute.
    fn complain(&mut self, now: Times, error: &Fault, what: &'static str) {
        if !is_within(COMPLAIN_EVERY, self.complained_at, now) {
            self.complained_at = Some(now.steady);
            tracing::error!(%error, what);
        }
    }

    /// Forgets old history by age and count, at most once per tick. Returns whether it did so now.
    fn forget_old(&mut self, batch: &mut Batch<'_>, now: Times) -> bool {
        if is_within(TICK, self.ticked_at, now) {
            return false;
        }
        self.ticked_at = Some(now.steady);
        let options = &self.shared.options;
        let revision = self.state.revision;
        let by_age = self
            .ages
            .note(now.steady, revision, options.history_retention);
        let by_count = revision.saturating_sub(options.history_len_max);
        batch.forget(by_age.max(by_count));
        true
    }

    /// Drops finished buckets that nothing needs any more. A bucket is needed for the history, for
    /// replaying the log after a crash, or for learning the store's state from the log.
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
                tracing::error!(bucket, %error, "failed to drop an expired bucket; its space is not released");
            }
        }
        if waiting {
            self.flusher.set_aside(engine);
        }
    }

    /// Commits without changes to a bucket that is not dropped. Without a checkpoint the newest
    /// commit has the store's state, so none of its frames may be dropped.
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

    /// Starts a pass that releases garbage in the log, if enough may have accumulated.
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

    /// Starts removing swept names from the index, once they outnumber the live ones.
    fn clean_names(&mut self, engine: &Arc<Engine>) {
        if self.swept_names > self.state.records.max(SWEPT_NAMES_MIN) {
            self.swept_names = 0;
            self.flusher.clean_names(engine);
        }
    }
}

/// Decides requests, in their order, until they have loaded as much as one commit may. Requests
/// that are left are decided in the next commit.
fn decide(
    batch: &mut Batch<'_>,
    requests: &mut Vec<Request>,
    has_space: bool,
) -> Vec<Box<dyn Decided>> {
    let swept = batch.loaded;
    let mut answers = Vec::with_capacity(requests.len());
    let mut left = std::mem::take(requests).into_iter();
    for request in left.by_ref() {
        answers.push(match request {
            Request::Put(_, reply) if !has_space => decided(reply, Err(Fault::NoSpace.into())),
            Request::Many(writes, reply) if !has_space && need_space(&writes) => {
                decided(reply, Err(Fault::NoSpace.into()))
            }
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
        if batch.loaded - swept >= LOADED_MAX {
            break;
        }
    }
    requests.extend(left);
    answers
}

/// Revisions of the store at past moments, for forgetting history by age. It is bounded: at most
/// about one moment for each of [`AGES`] parts of the retention. No moment is added while nothing
/// is written.
#[derive(Default)]
struct Ages(VecDeque<(Duration, Revision)>);

impl Ages {
    /// Records the revision of this moment. Returns the greatest recorded revision that is older
    /// than `remembered`, or 0.
    fn note(&mut self, now: Duration, revision: Revision, remembered: Duration) -> Revision {
        let since = |at: Duration| now.saturating_sub(at);
        let is_due = self
            .0
            .back()
            .is_none_or(|(at, last)| *last < revision && since(*at) >= remembered / AGES);
        if is_due {
            self.0.push_back((now, revision));
        }
        // The last moment that is too old stays, so that it is returned again if this commit fails.
        while self.0.get(1).is_some_and(|(at, _)| since(*at) > remembered) {
            self.0.pop_front();
        }
        let oldest = self.0.front().filter(|(at, _)| since(*at) > remembered);
        oldest.map_or(0, |(_, revision)| *revision)
    }
}

/// Whether a moment was less than `period` ago.
fn is_within(period: Duration, at: Option<Duration>, now: Times) -> bool {
    at.is_some_and(|at| now.steady.saturating_sub(at) < period)
}

/// Guard that answers all callers, however the committer ends.
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
        *shared.engine.write() = None;
        shared.folder.lock().take();
        shared.ended.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_moment_is_within_a_period_until_the_period_ends() {
        let now = Times {
            wall: UnixMillis(0),
            steady: seconds(10),
            confirmed: UnixMillis(0),
            spared: 0,
        };
        for (at, want) in [
            (None, false),
            (Some(4), false),
            (Some(5), false),
            (Some(6), true),
            (Some(10), true),
        ] {
            let found = is_within(seconds(5), at.map(seconds), now);
            assert_eq!(found, want, "{at:?}");
        }
    }

    #[test]
    fn history_is_forgotten_once_it_is_older_than_it_is_remembered() {
        let mut ages = Ages::default();
        // Each row: the second, the revision then, and the revision up to which history is
        // forgotten.
        let cases = [
            (0, 5, 0),
            (1, 7, 0),
            (2, 7, 0),
            (9, 7, 0),
            (10, 7, 0),
            (11, 7, 5),
            (12, 7, 7),
            // The revision stays: the commit failed, or nothing is written.
            (13, 7, 7),
            (40, 8, 7),
            (50, 9, 7),
            (51, 9, 8),
        ];
        for (at, revision, want) in cases {
            let forgotten = ages.note(seconds(at), revision, seconds(10));
            assert_eq!(forgotten, want, "second {at}");
        }
    }

    #[test]
    fn however_long_history_is_remembered_few_moments_are_noted() {
        for remembered in [seconds(600), seconds(90 * 86_400), Duration::MAX] {
            let mut ages = Ages::default();
            let step = seconds(1).max(remembered.min(seconds(1 << 40)) / 10_000);
            for number in 0..20_000 {
                let now = step * number;
                let forgotten = ages.note(now, u64::from(number), remembered);
                assert!(ages.0.len() <= AGES as usize + 2, "{}", ages.0.len());
                // The revision of the step that is as old as the retention, or older by one part.
                let age = now.saturating_sub(step * forgotten as u32);
                let late = remembered / AGES + step * 2;
                assert!(age <= remembered.saturating_add(late), "{age:?}");
                assert!(forgotten == 0 || age > remembered, "{age:?}");
            }
        }
    }
}
