//! What watches: handlers that are called for every event, raw watchers that are read, and the
//! handle by which each is stopped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use metrics::counter;
use tidings_core::{DropCause, DropCounts, Event};
use tokio::sync::watch;

use crate::metrics::{HANDLED, HANDLER_PANICS};
use crate::mux::{Mux, Receiver};
use crate::registry::{Ending, Phase, Progress, reached};
use crate::report::Counts;

/// After how many events a handler lets other tasks of its runtime have a turn.
const EVENTS_PER_TURN: usize = 64;

/// How long a task leaves its queue alone once it has worked it off: a flood then costs a wake-up
/// each millisecond, not one for each event, and what comes after a pause is handled at once all
/// the same.
pub(crate) const REST: Duration = Duration::from_millis(1);

/// The handle of something that was started on a [`Broadcaster`](crate::Broadcaster). Dropping it
/// changes nothing; [`Watch::stop`] does.
#[derive(Clone, Debug)]
pub struct Watch(Option<Running>);

#[derive(Clone, Debug)]
struct Running {
    mux: Arc<Mux>,
    id: u64,
    progress: Arc<Progress>,
}

impl Watch {
    /// Of something that could not be started.
    pub(crate) fn never() -> Self {
        Self(None)
    }

    /// Detaches it: it works off the events recorded before, sees none recorded after, and ends.
    /// Idempotent; others are not affected.
    ///
    /// To one that is gone with its runtime events are offered until then, and dropped as
    /// [`DropCause::RuntimeGone`].
    pub fn stop(&self) {
        if let Some(running) = &self.0 {
            running.mux.stop(running.id);
            running.mux.stop_gone(running.progress.queue());
        }
    }

    /// Whether it has ended: stopped, shut down, abandoned, its handler panicked, or it never
    /// started.
    pub fn is_ended(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|running| running.progress.is_ended())
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        if let Some(running) = &self.0 {
            running.progress.ended().await;
        }
    }

    /// What has become of the events offered to it so far.
    pub fn counts(&self) -> Counts {
        self.0
            .as_ref()
            .map_or_else(Counts::default, |running| running.progress.counts())
    }
}

/// Reads events from a [`Broadcaster`](crate::Broadcaster) one by one or in batches: client-go's
/// `watch.Interface`.
///
/// It has a bounded queue like every watcher; what does not fit is missed and counted. After its
/// end, by [`EventWatcher::stop`] or shutdown, what is queued can still be read. Dropping it
/// detaches it.
///
/// Any executor will do, and so will a plain thread that calls [`EventWatcher::try_recv`].
#[derive(Debug)]
pub struct EventWatcher {
    mux: Arc<Mux>,
    receiver: Receiver,
    batch: VecDeque<Event>,
}

impl EventWatcher {
    pub(crate) fn new(mux: Arc<Mux>, receiver: Receiver) -> Self {
        Self {
            mux,
            receiver,
            batch: VecDeque::new(),
        }
    }

    /// The next event; `None` when there is none and never will be. Nothing is lost when the future
    /// is dropped.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The next event, if there is one now.
    pub fn try_recv(&mut self) -> Option<Event> {
        match self.poll_recv(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Moves every event there is to the end of `batch`, waiting for the first. `false`: there is
    /// none and never will be.
    pub async fn recv_all(&mut self, batch: &mut VecDeque<Event>) -> bool {
        if self.batch.is_empty() {
            poll_fn(|context| self.receiver.poll_take(context, batch)).await
        } else {
            batch.append(&mut self.batch);
            true
        }
    }

    /// Detaches it: events recorded before can still be read. Idempotent.
    pub fn stop(&self) {
        self.mux.stop(self.receiver.id());
    }

    /// What was offered to it: read so far, missed because its queue was full, and still waiting.
    pub fn counts(&self) -> Counts {
        let queue = self.receiver.counts();
        let mut dropped = DropCounts::default();
        dropped.add(DropCause::QueueFull, queue.missed());
        let pending = self.receiver.queued() + self.batch.len() as u64;
        let offered = queue.offered();
        Counts {
            offered,
            delivered: offered.saturating_sub(dropped.total() + pending),
            aggregated: 0,
            dropped,
            pending,
        }
    }

    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.batch.is_empty() && !ready!(self.receiver.poll_take(context, &mut self.batch)) {
            return Poll::Ready(None);
        }
        Poll::Ready(self.batch.pop_front())
    }
}

impl Stream for EventWatcher {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_recv(context)
    }
}

/// A watcher that is registered, and what its task needs. Dropping it ends the watcher, the books
/// last.
pub(crate) struct Started {
    pub(crate) receiver: Receiver,
    pub(crate) progress: Arc<Progress>,
    pub(crate) ending: Ending,
}

impl Started {
    /// The caller's handle of it.
    pub(crate) fn watch(&self, mux: &Arc<Mux>) -> Watch {
        Watch(Some(Running {
            mux: Arc::clone(mux),
            id: self.receiver.id(),
            progress: Arc::clone(&self.progress),
        }))
    }
}

/// Calls `handler` for every event until there are no more, or the broadcaster abandons what is
/// left.
///
/// A handler that panics ends its watcher: it may have left its own data half changed. No other
/// watcher notices.
pub(crate) async fn run_handler(
    started: Started,
    phase: watch::Receiver<Phase>,
    mut handler: impl FnMut(&Event) + Send,
) {
    // What is declared first is dropped last: the books are closed when the receiver is gone.
    let _ending = started.ending;
    let (mut receiver, progress) = (started.receiver, started.progress);
    let handled = counter!(HANDLED);
    let mut batch = VecDeque::new();
    while next_batch(&mut receiver, phase.clone(), &mut batch).await {
        while !batch.is_empty() {
            if *phase.borrow() == Phase::Abandoned {
                return receiver.stop();
            }
            let mut done = 0;
            let turn = catch_unwind(AssertUnwindSafe(|| {
                for event in batch.drain(..batch.len().min(EVENTS_PER_TURN)) {
                    handler(&event);
                    done += 1;
                }
            }));
            progress.delivered(done);
            handled.increment(done);
            if turn.is_err() {
                counter!(HANDLER_PANICS).increment(1);
                tracing::error!("Event handler panicked: its watcher ends");
                return receiver.stop();
            }
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(REST).await;
    }
    receiver.stop();
}

async fn next_batch(
    receiver: &mut Receiver,
    mut phase: watch::Receiver<Phase>,
    batch: &mut VecDeque<Event>,
) -> bool {
    tokio::select! {
        biased;
        () = reached(&mut phase, Phase::Abandoned) => false,
        more = poll_fn(|context| receiver.poll_take(context, batch)) => more,
    }
}
