//! The registry of one broadcaster's tasks, with the counts of running and ended ones.
//!
//! Invariant: an event offered to a task is pending until it is counted as delivered, aggregated,
//! filtered or dropped, exactly once. When a task ends with its runtime, its events in memory are
//! dropped. The mux counts events offered after that, until the watcher is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::Counter;
use tidings_core::DropCause;
use tokio::sync::watch;

use crate::drops::Drops;
use crate::metrics::abandoned;
use crate::mux::{Orphan, QueueCounts};
use crate::report::Counts;
use crate::sync::{Mutex, lock};
use crate::tally::{Tallied, Tally};

/// The phases of a broadcaster, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Events are accepted.
    Open,
    /// No events are accepted; earlier ones are delivered.
    Draining,
    /// Tasks give up their remaining events.
    Abandoned,
}

/// The kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A task that writes events to a sink.
    Sink,
    /// A task that calls a function with events.
    Handler,
}

/// Waits until `phase` is reached, or the broadcaster is dropped.
pub(crate) async fn reached(current: &mut watch::Receiver<Phase>, phase: Phase) {
    let _ = current.wait_for(|current| *current >= phase).await;
}

#[derive(Debug)]
pub(crate) struct Registry {
    phase: watch::Sender<Phase>,
    /// The number of running tasks.
    running: watch::Sender<usize>,
    /// The number of running sinks.
    sinks: watch::Sender<usize>,
    /// The number of running handlers.
    handlers: watch::Sender<usize>,
    books: Mutex<Books>,
    /// The last failed write of any sink.
    last_error: Arc<Mutex<Option<String>>>,
}

#[derive(Debug, Default)]
struct Books {
    /// The counts of tasks that are running.
    open: Vec<Arc<Progress>>,
    ended_sinks: Counts,
    ended_handlers: Counts,
}

/// The counts of one task.
#[derive(Debug)]
pub(crate) struct Progress {
    kind: TaskKind,
    queue: Arc<QueueCounts>,
    tally: Tally,
    dropped: Drops,
    /// Events left on disk for the next process, set at the end.
    left_on_disk: Arc<AtomicU64>,
    ended: watch::Sender<bool>,
    last_error: Arc<Mutex<Option<String>>>,
}

impl Registry {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            phase: watch::Sender::new(Phase::Open),
            running: watch::Sender::new(0),
            sinks: watch::Sender::new(0),
            handlers: watch::Sender::new(0),
            books: Mutex::default(),
            last_error: Arc::default(),
        })
    }

    /// Reserves a place for a new task. Called before its watcher is registered, so that a shutdown
    /// waits for the task.
    pub(crate) fn reserve(self: &Arc<Self>, kind: TaskKind) -> Place {
        self.running.send_modify(|running| *running += 1);
        self.of(kind).send_modify(|running| *running += 1);
        Place {
            registry: Arc::clone(self),
            kind,
        }
    }

    /// Registers a new task that reads a queue with these counts; `sink` is the sink's name, if it
    /// is one. The task has ended when the returned guard is dropped.
    pub(crate) fn open(
        &self,
        place: Place,
        sink: Option<&Arc<str>>,
        queue: Arc<QueueCounts>,
    ) -> (Arc<Progress>, Ending) {
        let progress = Arc::new(Progress {
            kind: place.kind,
            queue,
            tally: Tally::new(),
            dropped: Drops::of(sink.cloned()),
            left_on_disk: Arc::default(),
            ended: watch::Sender::new(false),
            last_error: Arc::clone(&self.last_error),
        });
        let mut books = self.books();
        books.close_ended();
        books.open.push(Arc::clone(&progress));
        drop(books);
        let ending = Ending {
            progress: Arc::clone(&progress),
            abandoned: sink.map(abandoned),
            place,
        };
        (progress, ending)
    }

    /// Enters `phase`, unless a later one has begun.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let later = *current < phase;
            *current = phase.max(*current);
            later
        });
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until every task has ended.
    pub(crate) async fn all_ended(&self) {
        // The sender exists as long as `self`, so this cannot fail.
        let _ = self
            .running
            .subscribe()
            .wait_for(|running| *running == 0)
            .await;
    }

    /// Waits until every handler has ended.
    pub(crate) async fn handlers_ended(&self) {
        let mut handlers = self.handlers.subscribe();
        // The sender exists as long as `self`, so this cannot fail.
        let _ = handlers.wait_for(|handlers| *handlers == 0).await;
    }

    /// The number of running tasks.
    pub(crate) fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// The counts of all sinks and of all handlers, without events offered to tasks that had ended
    /// with their runtime.
    pub(crate) fn counts(&self) -> (Counts, Counts) {
        let books = self.books();
        let (mut sinks, mut handlers) = (books.ended_sinks, books.ended_handlers);
        for progress in &books.open {
            match progress.kind {
                TaskKind::Sink => sinks.add(&progress.own_counts()),
                TaskKind::Handler => handlers.add(&progress.own_counts()),
            }
        }
        (sinks, handlers)
    }

    /// The last failed write, if there was one.
    pub(crate) fn last_error(&self) -> Option<String> {
        let error = lock(&self.last_error);
        error.clone()
    }

    /// The number of running sinks.
    pub(crate) fn sinks(&self) -> watch::Receiver<usize> {
        self.sinks.subscribe()
    }

    /// The number of running tasks of this kind.
    fn of(&self, kind: TaskKind) -> &watch::Sender<usize> {
        match kind {
            TaskKind::Sink => &self.sinks,
            TaskKind::Handler => &self.handlers,
        }
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        lock(&self.books)
    }
}

impl Books {
    /// Adds the counts of ended tasks to the totals.
    fn close_ended(&mut self) {
        let Self {
            open,
            ended_sinks,
            ended_handlers,
        } = self;
        open.retain(|progress| {
            let stays = !progress.is_ended();
            if !stays {
                match progress.kind {
                    TaskKind::Sink => ended_sinks.add(&progress.own_counts()),
                    TaskKind::Handler => ended_handlers.add(&progress.own_counts()),
                }
            }
            stays
        });
    }
}

impl Progress {
    /// Counts events that an earlier process left on disk as offered to this task.
    pub(crate) fn recovered(&self, number: u64) {
        self.tally.recovered(number);
    }

    pub(crate) fn delivered(&self, number: u64) {
        self.tally.delivered(number);
    }

    pub(crate) fn aggregated(&self, number: u64) {
        self.tally.aggregated(number);
    }

    pub(crate) fn filtered(&self, number: u64) {
        self.tally.filtered(number);
    }

    /// Records that writes had no answer at the end, unless another failure is known.
    pub(crate) fn unanswered(&self, writes: usize) {
        let mut error = lock(&self.last_error);
        error.get_or_insert_with(|| {
            format!("{writes} writes were not answered before the deadline")
        });
    }

    /// Records the last failed write.
    pub(crate) fn failed(&self, error: String) {
        *lock(&self.last_error) = Some(error);
    }

    /// Counts events as dropped; returns how many were dropped for that cause before.
    pub(crate) fn dropped(&self, cause: DropCause, number: u64) -> u64 {
        self.dropped.add(cause, number)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.own_counts();
        counts.refused(&self.queue.lost());
        counts
    }

    /// The counts without events offered after the task had ended with its runtime.
    fn own_counts(&self) -> Counts {
        let Tallied {
            offered,
            delivered,
            aggregated,
            filtered,
            dropped,
        } = self.tally.read(&self.queue, self.dropped.counts());
        let settled = delivered + aggregated + filtered + dropped.total();
        Counts {
            offered,
            delivered,
            aggregated,
            filtered,
            dropped,
            pending: offered.saturating_sub(settled),
        }
    }

    /// The counts of the task's queue.
    pub(crate) fn queue(&self) -> &QueueCounts {
        &self.queue
    }

    /// The counter in which a spill reports, at its end, the number of events on disk.
    pub(crate) fn left_on_disk(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.left_on_disk)
    }

    /// Counts a task's events that were only in memory when it ended with its runtime as dropped.
    /// These are at least the queued ones. Returns their number.
    fn lose_memory(&self, orphan: Orphan) -> u64 {
        let on_disk = self.left_on_disk.load(Ordering::Acquire);
        let pending = self.own_counts().pending;
        let lost = pending
            .saturating_sub(on_disk)
            .max(orphan.queued.min(pending));
        self.dropped(DropCause::RuntimeGone, lost);
        lost
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    pub(crate) async fn ended(&self) {
        // The sender exists as long as `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// A reserved place of a task, for which a shutdown waits.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
    kind: TaskKind,
}

impl Drop for Place {
    fn drop(&mut self) {
        let of_kind = self.registry.of(self.kind);
        of_kind.send_modify(|running| *running -= 1);
        self.registry.running.send_modify(|running| *running -= 1);
    }
}

/// A guard that completes a task's counts, however the task ends, and then releases its place.
pub(crate) struct Ending {
    progress: Arc<Progress>,
    /// The metric of events that a sink has not settled at its end.
    abandoned: Option<Counter>,
    place: Place,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(orphan) = self.progress.queue.orphan() {
            let lost = self.progress.lose_memory(orphan);
            tracing::error!(
                dropped = lost,
                "The runtime of a sink or handler has ended, or none could be started: its events are dropped until it is stopped"
            );
        }
        if let Some(abandoned) = &self.abandoned {
            abandoned.increment(self.progress.counts().pending);
        }
        self.progress.ended.send_replace(true);
        self.place.registry.books().close_ended();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use tidings_core::Event;

    use super::*;
    use crate::config::QueueOptions;
    use crate::mux::{Mux, Role};

    /// Between the end of its queue and the end of its counts, a task may be offered events, be
    /// stopped, and not know what it leaves on disk. Each event is counted once anyway.
    #[test]
    fn the_books_of_a_task_that_goes_with_its_runtime_add_up() {
        for (stops, left_on_disk, lost) in [
            (false, 0, 4),
            (true, 0, 4),
            (false, 1, 3),
            (false, u64::MAX, 2),
        ] {
            let registry = Registry::new();
            let mux = Mux::new(QueueOptions::default());
            let place = registry.reserve(TaskKind::Sink);
            let mut receiver = mux.watch_by_task(Role::Sink).unwrap();
            let (progress, ending) = registry.open(place, None, Arc::clone(receiver.counts()));
            let publish = || mux.publish(Event::from_wire(v1::Event::default()));
            publish();
            publish();
            let mut taken = std::collections::VecDeque::new();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(receiver.poll_take(&mut context, &mut taken).is_ready());
            publish();
            publish();
            drop(receiver);
            publish();
            if stops {
                mux.stop_gone(progress.queue());
                publish();
            }
            progress
                .left_on_disk()
                .store(left_on_disk, Ordering::Release);
            drop(ending);
            let counts = progress.counts();
            assert_eq!(counts.offered, 5);
            assert_eq!(counts.dropped.get(DropCause::RuntimeGone), lost + 1);
            assert_eq!(counts.pending, 4 - lost);
            assert_eq!(registry.counts().0.offered, 4, "the mux counts the others");
            assert!(registry.books().open.is_empty());
        }
    }
}
