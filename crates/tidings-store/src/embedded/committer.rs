//! The heart: one thread that owns the revision and does every write.
//!
//! It takes whatever requests are waiting, decides each against the state all before it leave behind, writes the outcome
//! of all of them as one atomic batch with one `fdatasync`, publishes the changes to the watchers and answers. While one
//! batch is being synced the next one gathers, so batches grow with the load and a lone writer waits for nobody. Between
//! requests it writes down the ends of expired records, a bounded number per batch so that writers are not held up.
//!
//! ```text
//!  queue ──take──▶ Batch: sweep, then each request ──▶ journal, fdatasync ──▶ ring ──▶ answers
//!                    │ on failure: nothing published, everyone told, engine reopened before the next batch
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::batch::Batch;
use super::codec::PackedBody;
use super::keys::State;
use super::queue::Taken;
use super::read::Stored;
use super::tables::Tables;
use super::{Engine, Shared, open_engine};
use crate::{Deleted, Fault, Index, Revision, UnixMillis, WriteError};

/// Ends written down per batch while writers wait, and while none do.
const SWEEP_BUSY: usize = 256;
const SWEEP_IDLE: usize = 4096;

/// How often the committer looks at the clock when nothing is asked of it.
const TICK: Duration = Duration::from_secs(1);
const TICK_MS: i64 = 1000;

/// Something to be done by the committer, with where to send the answer.
pub(crate) enum Request {
    Put(Box<Put>, oneshot::Sender<Result<Revision, WriteError>>),
    Delete {
        key: Bytes,
        expected: Option<Revision>,
        reply: oneshot::Sender<Result<Deleted, WriteError>>,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<(), WriteError>>,
    },
    Expire {
        reply: oneshot::Sender<Result<u64, WriteError>>,
    },
}

/// A create (`expected` is `None`) or an update, prepared by the caller as far as possible.
pub(crate) struct Put {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) index: Index,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) body: PackedBody,
    pub(crate) expected: Option<Revision>,
    /// The record to be replaced, as the caller found it.
    pub(crate) found: Option<Stored>,
}

/// An answer that is held back until the batch is on disk.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), Fault>) + Send>;

pub(crate) fn answer<T: Send + 'static>(
    reply: oneshot::Sender<Result<T, WriteError>>,
    result: Result<T, WriteError>,
) -> Answer {
    // A caller that went away does not want to know.
    Box::new(move |committed| drop(reply.send(committed.map_err(WriteError::Fault).and(result))))
}

pub(crate) struct Committer {
    shared: Arc<Shared>,
    state: State,
    /// Buckets whose ends are all written down, with the revision that was reached then: they are dropped once the
    /// history no longer needs them.
    finished: Vec<(u64, Revision)>,
    /// What revision the store was at when, one entry per tick, for forgetting history by age.
    ages: VecDeque<(UnixMillis, Revision)>,
    /// How far the log is known to be empty.
    trimmed: Revision,
    /// Who waits for all that has expired to be written down, with the count of ends at that time.
    demands: Vec<(u64, oneshot::Sender<Result<u64, WriteError>>)>,
    /// See [`Batch::passed`].
    passed: (u64, Revision),
    /// When all that had expired was written down.
    swept_at: Option<UnixMillis>,
    /// When the engine was last found broken.
    retry_at: Option<UnixMillis>,
    complained_at: Option<UnixMillis>,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, state: State) -> Self {
        let (finished, ages, demands) = (Vec::new(), VecDeque::new(), Vec::new());
        Self {
            shared,
            state,
            finished,
            ages,
            trimmed: 0,
            demands,
            passed: (0, 0),
            swept_at: None,
            retry_at: None,
            complained_at: None,
        }
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let ending = Ending(Arc::clone(&self.shared));
        self.recall_finished();
        let mut requests = Vec::new();
        let mut more = false;
        loop {
            let wait = if more { Duration::ZERO } else { TICK };
            if self.shared.queue.take(&mut requests, wait) == Taken::Closed {
                break;
            }
            more = self.cycle(&mut requests);
        }
        drop(ending);
    }

    /// After opening: buckets that were finished before. It is not known when, so the whole history is taken to need them.
    fn recall_finished(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Engine::Open(tables) = &*shared.engine() {
            let finished = tables
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
        (bucket, Revision::MAX) <= self.state.swept
    }

    /// Does one batch; whether there is more to do at once.
    fn cycle(&mut self, requests: &mut Vec<Request>) -> bool {
        let now = self.shared.clock.now();
        let shared = Arc::clone(&self.shared);
        let result = match &*shared.engine() {
            Engine::Open(tables) => self.commit(tables, requests, now),
            Engine::Failed(fault) => Err(fault.clone()),
            Engine::Closed => Err(Fault::Closed),
        };
        match result {
            Ok(more) => more,
            Err(fault) => {
                for request in requests.drain(..) {
                    request.fail(fault.clone());
                }
                self.recover(fault, now);
                false
            }
        }
    }

    /// One batch, and what follows from it. An error means that the engine must be opened anew.
    fn commit(
        &mut self,
        tables: &Tables,
        requests: &mut Vec<Request>,
        now: UnixMillis,
    ) -> Result<bool, Fault> {
        let shared = Arc::clone(&self.shared);
        let has_space = shared.has_space();
        let quota = if requests.len() > 1 {
            SWEEP_BUSY
        } else {
            SWEEP_IDLE
        };
        let mut batch = Batch::new(tables, &shared.codec, self.state, now);
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests.extract_if(.., |request| matches!(request, Request::Expire { .. }))
        {
            if let Request::Expire { reply } = request {
                self.demands
                    .push((shared.expired.load(Ordering::Relaxed), reply));
            }
        }

        batch.passed = self.passed;
        let mut more = false;
        let due = !is_within(TICK_MS, self.swept_at, now);
        if shared.options.expire_by_itself && due || !self.demands.is_empty() {
            match batch.sweep(quota) {
                Ok(left) => {
                    more = left;
                    self.swept_at = (!more).then_some(now);
                }
                // Writes go on: what cannot be read cannot be written down, but it is not served either.
                Err(error) => self.complain(
                    now,
                    &error,
                    "failed to write down the ends of expired records",
                ),
            }
        }
        for request in requests.drain(..) {
            answers.push(match request {
                Request::Put(_, reply) if !has_space => answer(reply, Err(Fault::NoSpace.into())),
                Request::Put(put, reply) => answer(reply, batch.put(*put)),
                Request::Delete {
                    key,
                    expected,
                    reply,
                } => answer(reply, batch.delete(&key, expected)),
                Request::Compact { revision, reply } => answer(reply, batch.compact(revision)),
                Request::Expire { reply } => answer(reply, Ok(0)),
            });
        }
        if let Err(error) = self.forget_old(&mut batch, now) {
            self.complain(now, &error, "failed to forget old history");
        }

        let (expired, passed) = (batch.expired, batch.passed);
        let finished = std::mem::take(&mut batch.finished);
        let (state, committed) = batch.commit();
        let logged = match committed {
            Ok(logged) => logged,
            Err(error) => {
                let unknown = Fault::Unknown(Arc::new(error));
                for answer in answers {
                    answer(Err(unknown.clone()));
                }
                return Err(unknown);
            }
        };
        if state.compacted > self.state.compacted {
            shared.changes.forget(state.compacted);
        }
        self.state = state;
        self.passed = passed;
        self.finished.extend(finished);
        shared.changes.publish(logged, state.revision);
        let expired = shared.expired.fetch_add(expired, Ordering::Relaxed) + expired;
        for answer in answers {
            answer(Ok(()));
        }
        self.drop_finished(tables);
        if !more {
            for (before, reply) in self.demands.drain(..) {
                drop(reply.send(Ok(expired - before)));
            }
        }
        Ok(more)
    }

    /// Logs an error that comes back with every batch, once a minute.
    fn complain(&mut self, now: UnixMillis, error: &Fault, what: &'static str) {
        if !is_within(60 * TICK_MS, self.complained_at, now) {
            self.complained_at = Some(now);
            tracing::error!(%error, what);
        }
    }

    /// Moves the end of the history by age and count.
    fn forget_old(&mut self, batch: &mut Batch<'_>, now: UnixMillis) -> Result<(), Fault> {
        let options = &self.shared.options;
        let revision = self.state.revision;
        if is_within(TICK_MS, self.ages.back().map(|(at, _)| *at), now) {
            return Ok(());
        }
        self.ages.push_back((now, revision));
        let retention = i64::try_from(options.history_retention.as_millis()).unwrap_or(i64::MAX);
        let mut until = revision.saturating_sub(options.history_len_max);
        while let Some((at, revision)) = self.ages.front()
            && now.0.saturating_sub(at.0) > retention
        {
            until = until.max(*revision);
            self.ages.pop_front();
        }
        batch.forget(until);
        self.trimmed = batch.trim(self.trimmed)?;
        Ok(())
    }

    fn drop_finished(&mut self, tables: &Tables) {
        let compacted = self.state.compacted;
        for (bucket, _) in self
            .finished
            .extract_if(.., |(_, reached)| *reached <= compacted)
        {
            if let Err(error) = tables.drop_bucket(bucket) {
                tracing::error!(bucket, %error, "failed to drop an expired bucket; its space is not given back");
            }
        }
    }

    /// Takes the broken engine apart and opens it anew, at most once a tick.
    fn recover(&mut self, fault: Fault, now: UnixMillis) {
        if matches!(fault, Fault::Closed) || is_within(TICK_MS, self.retry_at, now) {
            return;
        }
        self.retry_at = Some(now);
        self.complain(now, &fault, "the store's engine failed; it is opened anew");
        let shared = Arc::clone(&self.shared);
        let mut engine = shared
            .engine
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // The old one lets go of its files only when it is dropped.
        *engine = Engine::Failed(fault);
        match open_engine(&shared.path, &shared.options) {
            Ok((tables, state)) => {
                *engine = Engine::Open(tables);
                drop(engine);
                self.state = state;
                self.retry_at = None;
                self.passed = (0, 0);
                self.complained_at = None;
                shared.changes.reset(state.revision);
                self.recall_finished();
                tracing::info!(
                    revision = state.revision,
                    "the store's engine is open again"
                );
            }
            Err(error) => {
                let fault = Fault::Storage(Arc::new(error));
                self.complain(now, &fault, "the store's engine could not be opened anew");
                *engine = Engine::Failed(fault);
            }
        }
    }
}

/// Whether something was so few milliseconds ago; a clock that was set back makes it long ago.
fn is_within(millis: i64, at: Option<UnixMillis>, now: UnixMillis) -> bool {
    at.is_some_and(|at| (0..millis).contains(&(now.0.saturating_sub(at.0))))
}

impl Request {
    fn fail(self, fault: Fault) {
        let error = WriteError::Fault(fault);
        match self {
            Self::Delete { reply, .. } => drop(reply.send(Err(error))),
            Self::Compact { reply, .. } => drop(reply.send(Err(error))),
            Self::Put(_, reply) | Self::Expire { reply } => drop(reply.send(Err(error))),
        }
    }
}

/// Leaves nobody waiting, however the committer ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        let shared = &self.0;
        shared.queue.close();
        let mut left = Vec::new();
        while shared.queue.take(&mut left, Duration::ZERO) == Taken::Open {
            for request in left.drain(..) {
                request.fail(Fault::Closed);
            }
        }
        shared.changes.close(Fault::Closed);
        *shared
            .engine
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Engine::Closed;
        shared
            .folder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        shared.ended.send_replace(true);
    }
}
