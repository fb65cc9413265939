//! The mux passes every recorded event to every watcher: one order for all, a bounded queue for
//! each, and no task of its own.
//!
//! client-go's `watch.Broadcaster` uses a channel and a loop for this. Here the publishing caller
//! appends the shared event to each watcher's queue, under one lock that is held for a few
//! instructions.
//!
//! Invariants:
//! - Every accepted event has a sequence number. A watcher gets exactly the events accepted between
//!   its registration and its stop, in order, except events that it missed because its queue was
//!   full. Missed events are counted.
//! - A watcher whose task ended with its runtime, without being stopped, has no queue any more.
//!   Until it is stopped, every event counts as offered to it and lost. Publishing takes the same
//!   time however many such watchers there are.
//! - Publishing, registering, stopping and shutting down never block, whatever a watcher does.
//! - `incoming` is nonempty only in [`WhenFull::Wait`] mode, before shutdown, while a watcher has
//!   no room for the first event in it.
//! - Wakers are made, called and dropped outside the lock, and events are dropped outside it,
//!   because that may run any code.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use tidings_core::{DropCause, DropCounts, Event};

use crate::config::{QueueOptions, WhenFull};
use crate::error::BroadcasterStopped;
use crate::metrics;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Distributes events to watchers; shared by recorders, watchers and their broadcaster.
#[derive(Debug)]
pub(crate) struct Mux {
    options: QueueOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Watchers in order of registration. A stopped one stays until its receiver is dropped.
    slots: Vec<Slot>,
    next_id: u64,
    /// The sequence number of the next event to be accepted.
    next_sequence: u64,
    /// Events that are accepted but not in the watchers' queues yet: the last `incoming.len()`
    /// sequence numbers.
    incoming: Queue,
    stopped: bool,
    /// Watchers that ended with their runtime, and were not stopped: sinks, and others.
    gone: [u64; 2],
    lost: Arc<Lost>,
}

/// Events lost to watchers that had ended with their runtime. Written only under the mux's lock.
#[derive(Debug, Default)]
struct Lost {
    published: AtomicU64,
    /// The sum of lost events over these watchers: sinks, and others.
    events: [AtomicU64; 2],
}

#[derive(Debug)]
struct Slot {
    id: u64,
    queue: Queue,
    events_max: usize,
    bytes_max: usize,
    /// The sequence number of the first event that the watcher gets.
    from: u64,
    /// Whether the watcher gets no more events; queued ones can still be read.
    stopped: bool,
    role: Role,
    /// Whether a task reads the queue, which ends with its runtime.
    has_task: bool,
    waker: Option<Waker>,
    counts: Arc<QueueCounts>,
}

/// What a watcher does with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A sink, for whose outcome callers may wait.
    Sink,
    /// The structured log of a program, which should have a sink, too.
    Log,
    /// Code of the program's own.
    Handler,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
}

/// Events offered to one watcher while its task ran, and events it missed because its queue was
/// full. Written only under the mux's lock.
#[derive(Debug, Default)]
pub(crate) struct QueueCounts {
    offered: AtomicU64,
    missed: AtomicU64,
    /// Set when the watcher's task ends without being stopped.
    orphan: OnceLock<Orphan>,
    /// The number of published events when the orphaned watcher was stopped.
    until: OnceLock<u64>,
    lost: Arc<Lost>,
}

/// The state of a watcher when its task ended without having been stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    /// Events that were queued, or waited to be.
    pub(crate) queued: u64,
    /// The number of published events at that time.
    from: u64,
    writes: bool,
}

/// The outcome of publishing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// Accepted, except by watchers whose queues were full.
    Accepted {
        /// The number of watchers that missed the event.
        missed_by: usize,
        /// The number of sinks that took the event, if there are any sinks.
        sinks: Option<usize>,
        /// Whether a sink ended with its runtime, and was not stopped.
        has_gone: bool,
        /// Whether there was no watcher.
        is_unseen: bool,
        /// Whether a watcher got the event that does more than log it.
        is_handled: bool,
    },
    /// The incoming queue was full, and no watcher gets the event.
    Full {
        /// The number of watchers that missed the event.
        missed_by: usize,
    },
    /// The broadcaster is shut down.
    Stopped,
}

impl Mux {
    pub(crate) fn new(options: QueueOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            state: Mutex::new(State::default()),
        })
    }

    /// Appends `event` to every watcher's queue, or to the incoming queue if a watcher that must
    /// not miss events has no room.
    pub(crate) fn publish(&self, event: Event) -> Published {
        let mut after = After::default();
        let published = self.state().publish(event, &self.options, &mut after);
        after.unlocked();
        published
    }

    /// Registers a watcher. It gets `prefix` first, however long it is, and then all events
    /// accepted from now on.
    ///
    /// client-go's `WatchWithPrefix`: the queue's bounds are raised so that the prefix fits.
    pub(crate) fn watch(
        self: &Arc<Self>,
        prefix: Vec<Event>,
    ) -> Result<Receiver, BroadcasterStopped> {
        self.register(prefix, Role::Handler, false)
    }

    /// Registers a sink.
    pub(crate) fn watch_to_write(self: &Arc<Self>) -> Result<Receiver, BroadcasterStopped> {
        self.register(Vec::new(), Role::Sink, false)
    }

    /// Registers a watcher that is read by a task.
    pub(crate) fn watch_by_task(
        self: &Arc<Self>,
        role: Role,
    ) -> Result<Receiver, BroadcasterStopped> {
        self.register(Vec::new(), role, true)
    }

    fn register(
        self: &Arc<Self>,
        prefix: Vec<Event>,
        role: Role,
        has_task: bool,
    ) -> Result<Receiver, BroadcasterStopped> {
        let mut state = self.state();
        if state.stopped {
            return Err(BroadcasterStopped);
        }
        let id = state.next_id;
        state.next_id += 1;
        let counts = Arc::new(QueueCounts {
            lost: Arc::clone(&state.lost),
            ..QueueCounts::default()
        });
        add(&counts.offered, prefix.len() as u64);
        let from = state.next_sequence;
        let bytes: usize = prefix.iter().map(Event::size).sum();
        state.slots.push(Slot {
            id,
            events_max: self.options.events_max.max(prefix.len() + 1),
            bytes_max: self.options.bytes_max.saturating_add(bytes),
            queue: Queue {
                bytes,
                events: prefix.into(),
            },
            from,
            stopped: false,
            role,
            has_task,
            waker: None,
            counts: Arc::clone(&counts),
        });
        Ok(Receiver {
            mux: Arc::clone(self),
            id,
            counts,
        })
    }

    /// Detaches a watcher: it gets the events accepted before, and no later ones. Idempotent.
    pub(crate) fn stop(&self, id: u64) {
        let mut after = After::default();
        self.state().stop(id, &mut after);
        after.unlocked();
    }

    /// Detaches a watcher that ended with its runtime: later events do not count as lost to it.
    /// Idempotent; has no effect on other watchers.
    pub(crate) fn stop_gone(&self, counts: &QueueCounts) {
        let state = &mut *self.state();
        if let Some(orphan) = counts.orphan.get()
            && counts.until.set(state.lost.published()).is_ok()
            && let Some(gone) = state.gone.get_mut(usize::from(!orphan.writes))
        {
            *gone -= 1;
        }
    }

    /// Events lost to watchers that had ended with their runtime: sinks, and others.
    pub(crate) fn lost_to_gone(&self) -> [DropCounts; 2] {
        let lost = Arc::clone(&self.state().lost);
        lost.events
            .each_ref()
            .map(|events| only(DropCause::RuntimeGone, events.load(Ordering::Acquire)))
    }

    /// Accepts no more events, and lets every watcher read those accepted before. Idempotent.
    pub(crate) fn shutdown(&self) {
        let mut after = After::default();
        self.state().shutdown(&mut after);
        after.unlocked();
    }

    /// The number of watchers, including stopped ones whose receiver exists.
    #[cfg(test)]
    pub(crate) fn watchers(&self) -> usize {
        self.state().slots.len()
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Work to do after the lock is released.
#[derive(Default)]
struct After {
    wakers: Vec<Waker>,
    /// Events to drop. The context of an event may be the last clone, and wake a caller or end a
    /// span when dropped.
    dropped: Vec<Event>,
    /// The number of events lost to watchers whose task has ended.
    lost: u64,
}

impl After {
    fn unlocked(self) {
        metrics::runtime_gone(self.lost);
        for waker in self.wakers {
            waker.wake();
        }
    }
}

impl State {
    fn publish(&mut self, event: Event, options: &QueueOptions, after: &mut After) -> Published {
        if self.stopped {
            after.dropped.push(event);
            return Published::Stopped;
        }
        if options.when_full == WhenFull::Wait
            && !(self.incoming.events.is_empty() && self.all_have_room(&event, self.next_sequence))
        {
            let size = event.size();
            if !self
                .incoming
                .has_room(size, options.events_max, options.bytes_max)
            {
                let mut missed_by = 0;
                self.offer_to_gone(after);
                for slot in self.slots.iter().filter(|slot| !slot.stopped) {
                    add(&slot.counts.offered, 1);
                    add(&slot.counts.missed, 1);
                    missed_by += 1;
                }
                after.dropped.push(event);
                return Published::Full { missed_by };
            }
            self.incoming.push(event, size);
            self.next_sequence += 1;
            self.offer_to_gone(after);
            let sinks = self
                .slots
                .iter()
                .filter(|slot| !slot.stopped && slot.role == Role::Sink);
            let sinks = Some(sinks.count()).filter(|sinks| *sinks > 0);
            return Published::Accepted {
                missed_by: 0,
                sinks,
                has_gone: self.has_gone(),
                is_unseen: false,
                is_handled: self.is_handled(),
            };
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.offer_to_gone(after);
        let (missed_by, sinks) = self.hand_over(event, sequence, true, after);
        Published::Accepted {
            missed_by,
            sinks,
            has_gone: self.has_gone(),
            is_unseen: self.slots.is_empty(),
            is_handled: self.is_handled(),
        }
    }

    /// Whether a watcher gets events that does more than log them.
    fn is_handled(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| !slot.stopped && slot.role != Role::Log)
    }

    /// Whether a sink ended with its runtime, and was not stopped.
    fn has_gone(&self) -> bool {
        self.gone.first().is_some_and(|sinks| *sinks > 0)
    }

    /// Counts an event as lost to every watcher that ended with its runtime.
    fn offer_to_gone(&self, after: &mut After) {
        add(&self.lost.published, 1);
        for (lost, gone) in self.lost.events.iter().zip(self.gone) {
            add(lost, gone);
            after.lost += gone;
        }
    }

    /// Appends `event` to the queues of all watchers that may get it, within their bounds if
    /// `bounded`. Returns how many watchers missed it, and how many sinks took it, if there are
    /// any.
    fn hand_over(
        &mut self,
        event: Event,
        sequence: u64,
        bounded: bool,
        after: &mut After,
    ) -> (usize, Option<usize>) {
        let size = event.size();
        let (mut missed_by, mut sinks) = (0, None);
        let mut slots = self
            .slots
            .iter_mut()
            .filter(|slot| !slot.stopped && sequence >= slot.from)
            .peekable();
        // The last watcher gets the event itself, as a clone costs two locked instructions.
        let mut event = Some(event);
        while let Some(slot) = slots.next() {
            let shared = if slots.peek().is_some() {
                event.clone()
            } else {
                event.take()
            };
            let Some(event) = shared else { break };
            add(&slot.counts.offered, 1);
            let writes = slot.role == Role::Sink;
            if writes {
                sinks = sinks.or(Some(0));
            }
            if bounded && !slot.has_room(size) {
                add(&slot.counts.missed, 1);
                missed_by += 1;
                after.dropped.push(event);
                continue;
            }
            sinks = sinks.map(|sinks| sinks + usize::from(writes));
            slot.push(event, after);
            after.wakers.extend(slot.waker.take());
        }
        // No watcher took the event.
        drop(slots);
        after.dropped.extend(event);
        (missed_by, sinks)
    }

    /// Records a watcher whose task ended without being stopped. Events in `incoming` that it would
    /// have received count as offered to it.
    fn orphan(&mut self, slot: &Slot) {
        let first = self.next_sequence - self.incoming.events.len() as u64;
        let incoming = self.next_sequence - first.max(slot.from);
        add(&slot.counts.offered, incoming);
        let orphan = Orphan {
            queued: slot.queue.events.len() as u64 + incoming,
            from: self.lost.published(),
            writes: slot.role == Role::Sink,
        };
        if slot.counts.orphan.set(orphan).is_ok()
            && let Some(gone) = self.gone.get_mut(usize::from(!orphan.writes))
        {
            *gone += 1;
        }
    }

    /// Moves events from `incoming` to the queues, as far as every watcher has room.
    fn advance(&mut self, after: &mut After) {
        loop {
            let sequence = self.next_sequence - self.incoming.events.len() as u64;
            match self.incoming.events.front() {
                Some(event) if self.all_have_room(event, sequence) => {}
                _ => return,
            }
            let Some(event) = self.incoming.pop() else {
                return;
            };
            self.hand_over(event, sequence, true, after);
        }
    }

    fn all_have_room(&self, event: &Event, sequence: u64) -> bool {
        let size = event.size();
        let mut slots = self.slots.iter();
        slots.all(|slot| slot.stopped || sequence < slot.from || slot.has_room(size))
    }

    fn stop(&mut self, id: u64, after: &mut After) {
        let first = self.next_sequence - self.incoming.events.len() as u64;
        let Some(index) = self
            .slots
            .iter()
            .position(|slot| slot.id == id && !slot.stopped)
        else {
            return;
        };
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        // Events accepted before the stop still belong to this watcher. They exceed its bounds, so
        // that other watchers need not wait.
        for (event, sequence) in self.incoming.events.iter().zip(first..) {
            if sequence >= slot.from {
                add(&slot.counts.offered, 1);
                slot.push(event.clone(), after);
            }
        }
        slot.stopped = true;
        after.wakers.extend(slot.waker.take());
        self.advance(after);
    }

    fn shutdown(&mut self, after: &mut After) {
        self.stopped = true;
        // At shutdown the bounds are exceeded, so that a watcher that does not read withholds no
        // event from the others.
        while let Some(event) = self.incoming.pop() {
            let sequence = self.next_sequence - self.incoming.events.len() as u64 - 1;
            self.hand_over(event, sequence, false, after);
        }
        for slot in &mut self.slots {
            slot.stopped = true;
            after.wakers.extend(slot.waker.take());
        }
    }
}

impl Slot {
    fn has_room(&self, size: usize) -> bool {
        self.queue.has_room(size, self.events_max, self.bytes_max)
    }

    /// Appends an event for a watcher that is no sink without its waiting caller: callers do not
    /// wait for handlers and readers, however long these keep an event.
    fn push(&mut self, event: Event, after: &mut After) {
        let is_awaited = event.context().is_some_and(|context| context.is_awaited());
        let event = if self.role != Role::Sink && is_awaited {
            let unawaited = event.clone().unawaited();
            after.dropped.push(event);
            unawaited
        } else {
            event
        };
        let size = event.size();
        self.queue.push(event, size);
    }
}

impl Queue {
    /// Whether an event of `size` bytes fits. An empty queue takes any event, because a large one
    /// would otherwise never pass.
    fn has_room(&self, size: usize, events_max: usize, bytes_max: usize) -> bool {
        self.events.is_empty()
            || (self.events.len() < events_max && self.bytes.saturating_add(size) <= bytes_max)
    }

    fn push(&mut self, event: Event, size: usize) {
        self.bytes += size;
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.size();
        Some(event)
    }
}

/// Adds to a counter that is only written under the mux's lock. Avoids a locked instruction.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Release);
}

fn only(cause: DropCause, events: u64) -> DropCounts {
    let mut drops = DropCounts::default();
    drops.add(cause, events);
    drops
}

impl Lost {
    fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }
}

impl QueueCounts {
    /// Events offered to the watcher while its task ran, including those it missed.
    pub(crate) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// Events offered to the watcher after its task had ended.
    pub(crate) fn lost(&self) -> DropCounts {
        let until = || self.until.get().copied();
        let lost = self.orphan.get().map_or(0, |orphan| {
            let published = self.lost.published();
            until().unwrap_or(published).saturating_sub(orphan.from)
        });
        only(DropCause::RuntimeGone, lost)
    }

    /// The state of the watcher when its task ended without being stopped, if it did.
    pub(crate) fn orphan(&self) -> Option<Orphan> {
        self.orphan.get().copied()
    }

    /// Events that the watcher missed because its queue was full.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Acquire)
    }

    /// Events that the watcher missed, as a drop cause.
    pub(crate) fn drops(&self) -> DropCounts {
        only(DropCause::QueueFull, self.missed())
    }
}

/// The reading end of one watcher's queue. Dropping it drops the queued events and detaches the
/// watcher. A watcher with a task must be stopped before; otherwise later events count as lost to
/// it.
#[derive(Debug)]
pub(crate) struct Receiver {
    mux: Arc<Mux>,
    id: u64,
    counts: Arc<QueueCounts>,
}

impl Receiver {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn counts(&self) -> &Arc<QueueCounts> {
        &self.counts
    }

    /// Detaches the watcher: it gets no event accepted from now on.
    pub(crate) fn stop(&self) {
        self.mux.stop(self.id);
    }

    /// The number of queued events.
    pub(crate) fn queued(&self) -> u64 {
        let state = self.mux.state();
        let slot = state.slots.iter().find(|slot| slot.id == self.id);
        slot.map_or(0, |slot| slot.queue.events.len() as u64)
    }

    /// Moves all queued events to the end of `batch`. Returns `Ready(false)` after the last one.
    ///
    /// If `batch` is empty, the two queues are swapped, which copies nothing.
    pub(crate) fn poll_take(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut VecDeque<Event>,
    ) -> Poll<bool> {
        let mut after = After::default();
        let mut waker = Some(context.waker().clone());
        let taken = {
            let state = &mut *self.mux.state();
            match state.slots.iter_mut().find(|slot| slot.id == self.id) {
                Some(slot) if !slot.queue.events.is_empty() => {
                    slot.queue.bytes = 0;
                    if batch.is_empty() {
                        std::mem::swap(&mut slot.queue.events, batch);
                    } else {
                        batch.append(&mut slot.queue.events);
                    }
                    state.advance(&mut after);
                    Poll::Ready(true)
                }
                Some(slot) if !slot.stopped => {
                    std::mem::swap(&mut slot.waker, &mut waker);
                    Poll::Pending
                }
                Some(_) | None => Poll::Ready(false),
            }
        };
        after.unlocked();
        // Drops the previous waker, if there was one.
        drop(waker);
        taken
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut after = After::default();
        let slot = {
            let state = &mut *self.mux.state();
            let place = state.slots.iter().position(|slot| slot.id == self.id);
            let slot = place.map(|place| state.slots.remove(place));
            if let Some(slot) = slot.as_ref().filter(|slot| slot.has_task && !slot.stopped) {
                state.orphan(slot);
            }
            state.advance(&mut after);
            slot
        };
        // The events are freed outside the lock.
        drop(slot);
        after.unlocked();
    }
}
