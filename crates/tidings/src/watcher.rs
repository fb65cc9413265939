//! Watchers: handlers that are called with every event, watchers whose queue the caller reads, and
//! handles to stop them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use futures::executor::block_on;
use metrics::counter;
use tidings_core::Event;
use tokio::sync::watch;

use crate::metrics::{HANDLED, HANDLER_PANICS};
use crate::mux::{Mux, Receiver};
use crate::registry::{Ending, Phase, Progress, reached};
use crate::report::Counts;
use crate::runtime::LogScope;

/// How long a task waits before it reads its queue again after emptying it. A flood then costs one
/// wake-up a millisecond instead of one for each event. An event after a pause is handled at once.
pub(crate) const REST: Duration = Duration::from_millis(1);

/// The handle of a watcher that was started on a [`Broadcaster`](crate::Broadcaster). Dropping it
/// has no effect; [`Watch::stop`] stops the watcher.
#[derive(Clone, Debug)]
pub struct Watch(Option<Running>);

#[derive(Clone, Debug)]
struct Running {
    mux: Arc<Mux>,
    id: u64,
    progress: Arc<Progress>,
}

impl Watch {
    /// The handle of a watcher that could not be started.
    pub(crate) fn never() -> Self {
        Self(None)
    }

    /// Detaches the watcher: it handles events recorded before, gets no later ones, and ends.
    /// Idempotent; other watchers are not affected.
    ///
    /// A sink that ended with its runtime is offered events until this call, and they are dropped
    /// as [`RuntimeGone`](crate::DropCause::RuntimeGone).
    pub fn stop(&self) {
        if let Some(running) = &self.0 {
            running.mux.stop(running.id);
            running.mux.stop_gone(running.progress.queue());
        }
    }

    /// Whether the watcher has ended: it was stopped, shut down or abandoned, its handler panicked,
    /// or it never started.
    pub fn is_ended(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(|running| running.progress.is_ended())
    }

    /// Waits until the watcher has ended.
    pub async fn ended(&self) {
        if let Some(running) = &self.0 {
            running.progress.ended().await;
        }
    }

    /// Outcomes of the events offered to this watcher so far.
    pub fn counts(&self) -> Counts {
        self.0
            .as_ref()
            .map_or_else(Counts::default, |running| running.progress.counts())
    }
}

/// Reads events from a [`Broadcaster`](crate::Broadcaster) one by one or in batches: client-go's
/// `watch.Interface`.
///
/// Like every watcher it has a bounded queue; events that do not fit are missed and counted. After
/// its end, by [`EventWatcher::stop`] or shutdown, queued events can still be read. Dropping it
/// detaches it.
///
/// It works with any executor, or in a plain thread with [`EventWatcher::try_recv`].
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

    /// Waits for the next event; `None` at the end. Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Returns the next event, if one is queued.
    pub fn try_recv(&mut self) -> Option<Event> {
        match self.poll_recv(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    /// Waits for an event, and moves all queued events to the end of `batch`. Returns `false` at
    /// the end.
    pub async fn recv_all(&mut self, batch: &mut VecDeque<Event>) -> bool {
        if self.batch.is_empty() {
            poll_fn(|context| self.receiver.poll_take(context, batch)).await
        } else {
            batch.append(&mut self.batch);
            true
        }
    }

    /// Detaches the watcher: events recorded before can still be read. Idempotent.
    pub fn stop(&self) {
        self.mux.stop(self.receiver.id());
    }

    /// The events offered to the watcher: read, missed because its queue was full, and queued.
    pub fn counts(&self) -> Counts {
        let queue = self.receiver.counts();
        let dropped = queue.drops();
        let pending = self.receiver.queued() + self.batch.len() as u64;
        let offered = queue.offered();
        Counts {
            offered,
            delivered: offered.saturating_sub(dropped.total() + pending),
            aggregated: 0,
            filtered: 0,
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

/// A registered watcher, with the state for its task. Dropping it ends the watcher.
pub(crate) struct Started {
    pub(crate) receiver: Receiver,
    pub(crate) progress: Arc<Progress>,
    pub(crate) ending: Ending,
}

impl Started {
    /// The caller's handle.
    pub(crate) fn watch(&self, mux: &Arc<Mux>) -> Watch {
        Watch(Some(Running {
            mux: Arc::clone(mux),
            id: self.receiver.id(),
            progress: Arc::clone(&self.progress),
        }))
    }
}

/// Calls `handler` with every event until the end, or until the broadcaster abandons the rest. Runs
/// on the handler's own thread: a blocking handler delays only itself.
///
/// A handler that panics ends its watcher, because its own data may be inconsistent. Other watchers
/// are not affected.
pub(crate) fn run_handler(
    started: Started,
    phase: &watch::Receiver<Phase>,
    scope: &LogScope,
    handler: impl FnMut(&Event) + Send,
) {
    // Declared first, so that it is dropped last, after the receiver and the handler.
    let _ending = started.ending;
    let mut handler = handler;
    let (mut receiver, progress) = (started.receiver, started.progress);
    let handled = counter!(HANDLED);
    let mut batch = VecDeque::new();
    // Whether the phase has changed is one atomic read for each event; the phase itself is behind
    // a lock.
    let mut current = phase.clone();
    current.mark_changed();
    let mut handle = |event: Event| {
        let has_changed = current.has_changed().unwrap_or(true);
        if has_changed && *current.borrow_and_update() == Phase::Abandoned {
            return ControlFlow::Break(());
        }
        if catch_unwind(AssertUnwindSafe(|| handler(&event))).is_err() {
            counter!(HANDLER_PANICS).increment(1);
            tracing::error!("Event handler panicked: its watcher ends");
            return ControlFlow::Break(());
        }
        progress.delivered(1);
        handled.increment(1);
        ControlFlow::Continue(())
    };
    while block_on(next_batch(&mut receiver, phase.clone(), &mut batch)) {
        let handled = scope.enter(|| batch.drain(..).try_for_each(&mut handle));
        if handled.is_break() {
            break;
        }
        if *phase.borrow() == Phase::Open {
            std::thread::park_timeout(REST);
        }
    }
    receiver.stop();
}

async fn next_batch(
    receiver: &mut Receiver,
    mut phase: watch::Receiver<Phase>,
    batch: &mut VecDeque<Event>,
) -> bool {
    let mut abandoned = pin!(reached(&mut phase, Phase::Abandoned));
    poll_fn(|context| {
        if abandoned.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        receiver.poll_take(context, batch)
    })
    .await
}
