//! The task of one sink: runs core's correlator and delivery between the sink's queue and its
//! requests.
//!
//! It is a loop: send all outputs, wait for one input (events, an answer, a timer, the end), handle
//! it. Core makes all decisions; this code moves events and counts them.
//!
//! Invariant: every event taken from the queue is counted once: as dropped by the correlator, or
//! with the outcome of the write that settles it ([`Delivery::poll_settled`]).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tidings_core::{
    Delivery, DropCause, Event, Fate, Handled, Monotonic, Occurrence, OccurrenceKind, RetryPolicy,
    Settled, Write, WriteError, WriteId,
};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tracing::{Instrument, Span};

use crate::acknowledgement::Context;
use crate::clock::{Clock, entropy};
use crate::config::{InvalidSinkOptions, SinkOptions, WhenFull};
use crate::logging::KRef;
use crate::metrics::SinkMetrics;
use crate::mux::Receiver;
use crate::outage::Outage;
use crate::questions::Questions;
use crate::registry::{Ending, Phase, Progress, reached};
use crate::rules::{Room, Rules, Taken};
use crate::sampling::is_sampled;
use crate::sink::Sink;
use crate::spill::{Kept, Spill};
use crate::sync::{Mutex, lock};
use crate::watcher::{REST, Started};

/// Maximum events correlated before answers are handled.
const EVENTS_PER_TURN: usize = 64;
/// Maximum ready answers handled before other inputs.
const ANSWERS_PER_TURN: usize = 64;

/// Interval at which the age of the oldest pending event is measured.
const MEASURES_APART: Duration = Duration::from_secs(5);
/// After a failed write of a count, none is written early for so long: as long as a refresh waits.
const EARLY_AGAIN: Duration = Duration::from_secs(30);
/// Time after which a write without an answer is logged.
const SLOW: Duration = Duration::from_secs(5);

/// Core's state machines for one sink.
pub(crate) struct Machines {
    rules: Rules,
    /// Replaces `rules` if the sink does not accept their API group.
    fallback: Option<Rules>,
    delivery: Delivery<Occurrence>,
    retry: RetryPolicy,
    spill: Option<Spill>,
    room: Room,
    name: Arc<str>,
}

/// The state of one sink's task.
pub(crate) struct SinkTask {
    rules: Rules,
    /// The rules for core/v1, until the sink has answered which API group to use. Nothing is
    /// correlated before.
    fallback: Option<Rules>,
    retry: RetryPolicy,
    delivery: Delivery<Occurrence>,
    receiver: Receiver,
    spill: Option<Spill>,
    room: Room,
    /// Whether events without room stay in the queue, except on disk, so that recorders notice
    /// ([`WhenFull::Wait`]).
    waits: bool,
    /// Events taken from the queue and not correlated yet.
    batch: VecDeque<Event>,
    /// The queue is not read before this timer.
    rest: Option<Pin<Box<Sleep>>>,
    /// Whether the queue has ended.
    ended: bool,
    /// The progress of offering the remaining counts at the end.
    end: End,
    clock: Clock,
    phase: watch::Receiver<Phase>,
    progress: Arc<Progress>,
    outage: Arc<Mutex<Outage>>,
    metrics: SinkMetrics,
    /// When the age of the oldest pending event is measured next; `None` without pending events.
    measures_at: Option<Monotonic>,
    /// When the first event came that waits for the choice of the API group.
    asking_since: Option<Monotonic>,
    /// When a count whose write failed was last put back. For a while, none is written early.
    put_back_at: Option<Monotonic>,
    /// The last field, so that counting ends after everything else was dropped.
    _ending: Ending,
}

/// The state of a task's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Begun,
    Done,
}

/// The next input of the task.
enum Input {
    /// Events to correlate: new (`fresh`) or left of an earlier batch; without `more`, the queue
    /// has ended.
    Queue { more: bool, fresh: bool },
    /// The sink's answer whether it accepts events.k8s.io/v1.
    Served(bool),
    /// The access check is complete and logged.
    Checked,
    /// A request was answered.
    Answer(Box<Answer>),
    /// The delivery's timer is due.
    Time,
    /// A shutdown has begun.
    Drain,
    /// The deadline of the shutdown has passed.
    Abandon,
}

struct Answer {
    id: WriteId,
    kind: OccurrenceKind,
    started: Monotonic,
    occurrence: Occurrence,
    result: Result<(), WriteError>,
}

impl Machines {
    /// The name of the sink.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Opens the spill's folder, if there is a spill. If this is not called, the task opens it, and
    /// retries.
    pub(crate) fn open_spill(&mut self) -> Result<(), InvalidSinkOptions> {
        Ok(self.spill.as_mut().map_or(Ok(()), Spill::open)?)
    }
}

impl SinkTask {
    /// Makes core's state machines, which checks the options.
    pub(crate) fn machines(options: SinkOptions) -> Result<Machines, InvalidSinkOptions> {
        let core = SinkOptions {
            series: None,
            ..options.clone()
        };
        let rules = Rules::new(&options)?;
        let SinkOptions {
            name,
            discover,
            spill,
            mut delivery,
            ..
        } = options;
        let room = Room {
            events: delivery.pending_events_max.div_ceil(2),
            bytes: delivery.pending_bytes_max.div_ceil(2),
            bytes_max: delivery.pending_bytes_max,
        };
        if spill.is_some() {
            delivery.retry.give_up_out_of_reach = false;
        }
        Ok(Machines {
            rules,
            fallback: discover.then(|| Rules::new(&core)).transpose()?,
            retry: delivery.retry.clone(),
            delivery: Delivery::new(delivery, entropy())?,
            room,
            spill: spill.map(|spill| Spill::new(spill, &name)),
            name,
        })
    }

    pub(crate) fn new(
        machines: Machines,
        started: Started,
        when_full: WhenFull,
        clock: Clock,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        let spill = machines.spill.map(|mut spill| {
            // Counted now, because the task may be dropped before it runs.
            started.progress.recovered(spill.take_recovered());
            spill.leaving(started.progress.left_on_disk())
        });
        Self {
            rules: machines.rules,
            fallback: machines.fallback,
            retry: machines.retry,
            delivery: machines.delivery,
            spill,
            room: machines.room,
            waits: when_full == WhenFull::Wait,
            receiver: started.receiver,
            batch: VecDeque::new(),
            rest: None,
            ended: false,
            end: End::NotYet,
            clock,
            phase,
            progress: started.progress,
            outage: Arc::default(),
            metrics: SinkMetrics::new(&machines.name),
            measures_at: None,
            asking_since: None,
            put_back_at: None,
            _ending: started.ending,
        }
    }

    /// Writes to `sink` until the queue ends.
    pub(crate) async fn run(mut self, sink: impl Sink) {
        let sink = Arc::new(sink);
        let mut requests = FuturesUnordered::new();
        let mut phase = self.phase.clone();
        let mut abandoned = std::pin::pin!(reached(&mut phase, Phase::Abandoned));
        let mut phase = self.phase.clone();
        let mut draining = Some(Box::pin(reached(&mut phase, Phase::Draining)));
        // Not polled if the answer has no effect.
        let mut served = Box::pin(self.questions(&sink).serves_events_v1());
        // Runs concurrently, as soon as the API group is known.
        let mut check = (!self.is_asking()).then(|| self.check(&sink));
        let mut now = self.clock.monotonic();
        loop {
            // Near the end, events of an earlier process are left to the next one.
            if let Some(spill) = self.spill.as_mut().filter(|_| self.end == End::NotYet) {
                spill.handle_timeout(now).await;
                self.progress.recovered(spill.take_recovered());
                self.book_lost();
            }
            self.settle();
            // A sink that answers at once, such as one in memory, does not need the select below.
            for _ in 0..ANSWERS_PER_TURN {
                while let Some(write) = self.delivery.poll_write(now) {
                    requests.push(request(Arc::clone(&sink), write, now, self.slow()));
                }
                let Some(Some(answer)) = requests.next().now_or_never() else {
                    break;
                };
                self.answered(now, answer);
                self.settle();
            }
            self.measure(now);
            if !self.is_asking() && self.read_spilled(now).await {
                now = self.clock.monotonic();
                self.correlate_some();
                continue;
            }
            if self.offer_remaining(now) || self.relieve_spill(now) {
                continue;
            }
            if self.end == End::Done && self.delivery.pending() == 0 {
                return;
            }
            let input = self
                .next_input(
                    &mut requests,
                    served.as_mut(),
                    &mut check,
                    &mut draining,
                    abandoned.as_mut(),
                )
                .await;
            now = self.clock.monotonic();
            self.rules
                .handle_timeout(now, self.room, &mut self.delivery);
            match input {
                Input::Queue { more: true, fresh } => {
                    if fresh {
                        self.spill_batch().await;
                    }
                    if self.is_asking() {
                        self.asking_since.get_or_insert(now);
                        self.rest_if_empty();
                    } else {
                        self.correlate_some();
                    }
                    // A batch may be long, and there may be only one thread.
                    tokio::task::yield_now().await;
                }
                Input::Queue { more: false, .. } => {
                    self.ended = true;
                    self.delivery.hurry();
                }
                // The rest of the queue can be taken only after waiting events are written.
                Input::Drain => {
                    draining = None;
                    self.delivery.hurry();
                }
                Input::Served(served) => {
                    if let Some(fallback) = self.fallback.take()
                        && !served
                    {
                        self.rules = fallback;
                    }
                    self.asking_since = None;
                    check = Some(self.check(&sink));
                }
                Input::Checked => check = None,
                Input::Answer(answer) => self.answered(now, *answer),
                Input::Time => {}
                Input::Abandon => {
                    // Ends all requests before the report is made.
                    drop(requests);
                    drop((served, check));
                    drop(sink);
                    return self.abandon();
                }
            }
        }
    }

    fn slow(&self) -> Slow {
        Slow {
            clock: self.clock.clone(),
            progress: Arc::clone(&self.progress),
            outage: Arc::clone(&self.outage),
        }
    }

    /// Sets the gauges.
    fn measure(&mut self, now: Monotonic) {
        self.metrics.pending(
            self.progress.counts().pending,
            self.delivery.pending_bytes(),
            self.delivery.is_paused(),
        );
        if self.delivery.pending() == 0 && self.asking_since.is_none() {
            if self.measures_at.take().is_some() {
                self.metrics.oldest_pending(Duration::ZERO);
            }
        } else if self.measures_at.is_none_or(|at| at <= now) {
            // The first time nothing is measured: a healthy sink has no pending events by then.
            if self.measures_at.is_some() {
                let oldest = self.delivery.oldest().into_iter().chain(self.asking_since);
                let since = oldest.min().unwrap_or(now);
                let age = u64::try_from(now.nanos_since(since)).unwrap_or(0);
                self.metrics.oldest_pending(Duration::from_nanos(age));
            }
            self.measures_at = Some(now.saturating_add(MEASURES_APART));
        }
    }

    fn questions<S: Sink>(&self, sink: &Arc<S>) -> Questions<S> {
        Questions {
            sink: Arc::clone(sink),
            retry: self.retry.clone(),
            clock: self.clock.clone(),
            phase: self.phase.clone(),
        }
    }

    /// Checks whether events may be written in the API group of these rules.
    fn check<S: Sink>(&self, sink: &Arc<S>) -> Pin<Box<impl Future<Output = ()> + Send + use<S>>> {
        Box::pin(self.questions(sink).check(self.rules.api()))
    }

    /// Whether the choice of the API group is still open.
    fn is_asking(&self) -> bool {
        self.fallback.is_some()
    }

    /// Whether events are on disk that are not in memory.
    fn is_behind(&self) -> bool {
        self.spill.as_ref().is_some_and(Spill::is_behind)
    }

    /// Waits for the next input. Of several, a random one is chosen, so that none waits for ever.
    async fn next_input(
        &mut self,
        requests: &mut FuturesUnordered<impl Future<Output = Answer>>,
        served: Pin<&mut impl Future<Output = bool>>,
        check: &mut Option<Pin<Box<impl Future<Output = ()>>>>,
        draining: &mut Option<Pin<Box<impl Future<Output = ()>>>>,
        abandoned: Pin<&mut impl Future<Output = ()>>,
    ) -> Input {
        let times = [
            self.measures_at,
            self.delivery.poll_timeout(),
            self.rules.poll_timeout(self.room, &self.delivery),
            self.spill
                .as_ref()
                .filter(|_| self.end == End::NotYet)
                .and_then(Spill::poll_timeout),
        ];
        let timeout = times.into_iter().flatten().min();
        let asking = self.is_asking();
        // Queued events come after those in the spill.
        let takes_more = !self.ended && !self.spill.as_ref().is_some_and(Spill::holds);
        // The batch cannot be correlated until the sink has answered, and there is room.
        let takes = if !asking && self.may_correlate() {
            takes_more || !self.batch.is_empty()
        } else {
            takes_more && self.batch.is_empty() && (asking || self.spill.is_some())
        };
        let Self {
            receiver,
            batch,
            rest,
            clock,
            ..
        } = self;
        tokio::select! {
            () = abandoned => Input::Abandon,
            served = served, if asking => Input::Served(served),
            Some(()) = OptionFuture::from(check.as_mut()) => Input::Checked,
            Some(()) = OptionFuture::from(draining.as_mut()) => Input::Drain,
            Some(answer) = requests.next() => Input::Answer(Box::new(answer)),
            (more, fresh) = more_events(receiver, batch, rest), if takes => Input::Queue { more, fresh },
            () = clock.sleep_until(timeout.unwrap_or_default()), if timeout.is_some() => Input::Time,
        }
    }

    /// After the last event, and when none are left on disk, offers the remaining counts, as far as
    /// there is room. Returns whether it has just completed.
    fn offer_remaining(&mut self, now: Monotonic) -> bool {
        if self.end == End::NotYet && self.ended && self.batch.is_empty() && !self.is_behind() {
            self.end = End::Begun;
        }
        if self.end == End::Begun && self.rules.finish(now, self.room, &mut self.delivery) {
            self.end = End::Done;
            self.delivery.drain();
            return true;
        }
        false
    }

    /// If counts that wait for their refresh or heartbeat fill the disk, writes some early. Returns
    /// whether there is something to write.
    fn relieve_spill(&mut self, now: Monotonic) -> bool {
        let before = self.delivery.pending();
        let may_fail_again = |at: Monotonic| now < at.saturating_add(EARLY_AGAIN);
        if self.put_back_at.is_some_and(may_fail_again) {
            return false;
        }
        if self.spill.as_ref().is_some_and(Spill::is_filling) {
            self.rules.write_early(now, self.room, &mut self.delivery);
        }
        self.delivery.pending() > before
    }

    /// Writes the batch to disk, and keeps in memory the part that is correlated now.
    async fn spill_batch(&mut self) {
        let asking = self.is_asking();
        if let Some(spill) = &mut self.spill {
            let events: Vec<Event> = std::mem::take(&mut self.batch).into();
            let has_room = !asking && self.room.is_left_for(&events, &self.delivery);
            let kept = spill.append(events, has_room).await;
            self.batch = kept.into_iter().map(placed).collect();
        }
    }

    /// Reads events back from disk as far as there is room, and writes due marks. Returns whether
    /// there is something to correlate.
    async fn read_spilled(&mut self, now: Monotonic) -> bool {
        let Some(spill) = &mut self.spill else {
            return false;
        };
        spill.append_held().await;
        let pending = self.delivery.pending();
        let (room, bytes) = self.room.to_read(&self.delivery);
        if spill.may_read() && self.batch.is_empty() && room > 0 {
            let read = spill.read(now, room, bytes).await;
            self.batch = read.into_iter().map(placed).collect();
            let more = spill.is_behind();
            self.book_lost();
            return more;
        }
        if spill.wants_marking(pending == 0) {
            spill.mark().await;
        }
        false
    }

    /// Counts events whose records on disk cannot be read.
    fn book_lost(&mut self) {
        let lost = self.spill.as_mut().map_or(0, Spill::take_lost);
        if lost > 0 {
            self.progress.dropped(DropCause::InvalidEvent, lost);
        }
    }

    fn may_correlate(&self) -> bool {
        !self.waits || self.room.is_left_by(&self.delivery)
    }

    fn correlate_some(&mut self) {
        let now = self.clock.now();
        for _ in 0..EVENTS_PER_TURN {
            if !self.may_correlate() {
                break;
            }
            let Some(event) = self.batch.pop_front() else {
                break;
            };
            let context = Context::of(event.context());
            match self.rules.take(now, &event, &mut self.delivery) {
                Taken::Offered => continue,
                Taken::HeldBack { first, count } => {
                    if let Some(context) = context {
                        context.filtered(&first, count);
                    }
                    continue;
                }
                Taken::Dropped(cause) => {
                    self.progress.dropped(cause, 1);
                    if let Some(context) = context {
                        context.dropped(cause);
                    }
                }
            }
            if let (Some(spill), Some(context)) = (&mut self.spill, context) {
                spill.settled(context.take_spilled());
            }
        }
        self.rest_if_empty();
        self.metrics.correlated(&self.rules.stats());
    }

    fn rest_if_empty(&mut self) {
        if self.batch.is_empty() {
            self.rest = Some(Box::pin(sleep(REST)));
        }
    }

    fn answered(&mut self, now: Monotonic, answer: Answer) {
        self.metrics.answered(
            answer.kind,
            answer.result.as_ref().err(),
            now.nanos_since(answer.started),
        );
        let error = answer.result.as_ref().err().cloned();
        let handled = self.delivery.handle_written(now, answer.id, answer.result);
        let Some(error) = error else {
            if let Some(outage) = lock(&self.outage).succeeded(now) {
                tracing::info!(seconds = outage.as_secs_f64(), "Writing events works again");
            }
            return;
        };
        if handled == Handled::Turned {
            return;
        }
        let write = Named(answer.kind, &answer.occurrence);
        self.progress.failed(format!("{write}: {error}"));
        if handled == Handled::Retried {
            self.metrics.retried();
            let context = Context::of(answer.occurrence.context());
            let _entered = context.map(|context| context.span.enter());
            let retries = self.delivery.stats().retries;
            let (verb, event, object) = (write.verb(), write.event(), write.object());
            // Other errors concern single events, or limits on their rate.
            let begins = (error.is_out_of_reach() || error.is_unauthorized())
                && lock(&self.outage).failed(now, answer.started);
            if begins || is_sampled(retries.saturating_sub(1), 1) {
                tracing::warn!(%error, verb, event, object, retries, "Unable to write event (may retry after sleeping)");
            } else {
                tracing::debug!(%error, verb, event, object, retries, "Unable to write event (may retry after sleeping)");
            }
        }
    }

    /// Counts all events whose outcome is known.
    fn settle(&mut self) {
        while let Some(settled) = self.delivery.poll_settled() {
            let events = settled.occurrence.events();
            let held_back = settled.occurrence.held_back();
            let context = Context::of(settled.occurrence.context());
            if let Some(context) = context {
                context.settled(&settled.occurrence, settled.fate, settled.error.as_ref());
            }
            let _entered = context.map(|context| context.span.enter());
            match settled.fate {
                Fate::Delivered => {
                    self.rules.acknowledged(&settled.occurrence);
                    self.progress.filtered(held_back);
                    self.metrics.filtered(held_back);
                    // One of the other events counts as written, the rest as merged into its write.
                    let others = events.saturating_sub(held_back);
                    let (last, merged) = (others.min(1), others.saturating_sub(1));
                    self.progress.delivered(last);
                    self.metrics.delivered(last);
                    self.progress.aggregated(merged);
                    self.metrics.aggregated(merged);
                }
                // The write that replaced this one settles its events.
                Fate::Aggregated => {
                    self.rules.lost(&settled.occurrence);
                    continue;
                }
                Fate::Dropped(cause) => {
                    self.rules.lost(&settled.occurrence);
                    // At the end there is no later refresh.
                    let now = self.clock.monotonic();
                    let is_put_back = self.end == End::NotYet
                        && may_succeed_later(cause)
                        && self.rules.put_back(now, &settled.occurrence);
                    if is_put_back {
                        self.put_back_at = Some(now);
                    }
                    let lost = events - if is_put_back { held_back } else { 0 };
                    if lost > 0 {
                        log_drop(cause, self.progress.dropped(cause, lost), lost, &settled);
                    }
                }
                // Offered events that are not settled count as pending.
                Fate::Pending => continue,
            }
            if let (Some(spill), Some(context)) = (&mut self.spill, context) {
                spill.settled(context.take_spilled());
            }
        }
    }

    fn abandon(mut self) {
        self.receiver.stop();
        let pending = self.progress.counts().pending;
        let unanswered = self.delivery.in_flight();
        if unanswered > 0 {
            self.progress.unanswered(unanswered);
        }
        self.delivery.abandon();
        self.settle();
        if pending > 0 {
            tracing::error!(pending, "Unable to write events (broadcaster is shut down)");
        }
    }
}

/// The event with its sequence number on disk in its context, which also collects those of merged
/// events. The context is for this sink only.
fn placed(kept: Kept) -> Event {
    let Kept {
        event,
        sequence,
        recovered,
    } = kept;
    let context = Context::of(event.context());
    if sequence.is_none() && context.is_none() {
        return event;
    }
    let context = Context::spilled_at(context, sequence, recovered);
    event.with_context(context)
}

/// Waits for the rest timer, then fills an empty `batch` from the queue. Returns whether more
/// events may come, and whether the batch was filled.
async fn more_events(
    receiver: &mut Receiver,
    batch: &mut VecDeque<Event>,
    rest: &mut Option<Pin<Box<Sleep>>>,
) -> (bool, bool) {
    if !batch.is_empty() {
        return (true, false);
    }
    if let Some(sleep) = rest {
        sleep.await;
        *rest = None;
    }
    let more = poll_fn(|context| receiver.poll_take(context, batch)).await;
    (more, more)
}

/// Whether a later write of the same count may succeed where one was dropped for this cause.
fn may_succeed_later(cause: DropCause) -> bool {
    matches!(
        cause,
        DropCause::QueueFull
            | DropCause::RateLimited
            | DropCause::RejectedUnauthorized
            | DropCause::RetriesExhausted
    )
}

/// Logs the loss of `events` events of one write; of frequent causes ever fewer. `before` is the
/// number of earlier losses for this cause.
#[cold]
fn log_drop(cause: DropCause, before: u64, events: u64, settled: &Settled<Occurrence>) {
    // The name of the stored event; for a repeat it is that of the first event.
    let occurrence = &settled.occurrence;
    let error = settled.error.as_ref().map(tracing::field::display);
    if cause.is_benign() || (error.is_some() && !is_sampled(before, events)) {
        tracing::debug!(
            event = occurrence.name().as_ref(),
            namespace = occurrence.namespace(),
            cause = cause.as_str(),
            error,
            "Server rejected event (will not retry!)"
        );
    } else if error.is_some() {
        tracing::error!(
            event = occurrence.name().as_ref(),
            namespace = occurrence.namespace(),
            object = %KRef(occurrence.event().regarding()),
            reason = occurrence.event().reason(),
            cause = cause.as_str(),
            dropped = before + events,
            error,
            "Unable to write event (will not retry!)"
        );
    } else if is_sampled(before, events) {
        tracing::error!(
            cause = cause.as_str(),
            dropped = before + events,
            "Unable to deliver event: dropped"
        );
    }
}

/// What a slow request needs for the report and the log.
struct Slow {
    clock: Clock,
    progress: Arc<Progress>,
    outage: Arc<Mutex<Outage>>,
}

/// Performs one request. If the sink panics, only this event fails, and for good. A request without
/// an answer is reported after `SLOW`, and logged if it begins an outage.
async fn request<S: Sink>(
    sink: Arc<S>,
    write: Write<Occurrence>,
    started: Monotonic,
    slow: Slow,
) -> Answer {
    let Write {
        id,
        kind,
        occurrence,
    } = write;
    let span = Context::of(occurrence.context()).map(|context| context.span.clone());
    let result = {
        let request = async {
            match kind {
                OccurrenceKind::Create => sink.create(&occurrence).await,
                OccurrenceKind::Patch => sink.patch(&occurrence).await,
            }
        };
        // Pinned here and borrowed below: a block that owned the request would hold it twice.
        let mut request = std::pin::pin!(AssertUnwindSafe(request).catch_unwind());
        let watched = async {
            // A sink that answers at once needs no timer, and its write no room for one.
            let first = poll_fn(|context| Poll::Ready(request.as_mut().poll(context)));
            if let Poll::Ready(result) = first.await {
                return result;
            }
            let timer = Box::pin(slow.clock.sleep_until(started.saturating_add(SLOW)));
            tokio::select! {
                biased;
                result = &mut request => return result,
                () = timer => {}
            }
            let write = Named(kind, &occurrence);
            slow.progress
                .failed(format!("{write}: no answer for {} s", SLOW.as_secs()));
            if lock(&slow.outage).failed(slow.clock.monotonic(), started) {
                tracing::warn!(
                    verb = write.verb(),
                    event = write.event(),
                    object = write.object(),
                    "The sink has not answered a write for {} s (still waiting)",
                    SLOW.as_secs()
                );
            }
            request.as_mut().await
        }
        .instrument(span.unwrap_or_else(Span::none));
        watched.await
    };
    let result = result.unwrap_or_else(|_| Err(WriteError::invalid("the sink panicked")));
    Answer {
        id,
        kind,
        started,
        occurrence,
        result,
    }
}

/// A write as logs and reports show it: `create event baz/web-0.17a6101701650000 about Pod
/// baz/web-0`.
#[derive(Clone, Copy)]
struct Named<'a>(OccurrenceKind, &'a Occurrence);

impl Named<'_> {
    fn verb(self) -> &'static str {
        match self.0 {
            OccurrenceKind::Create => "create",
            OccurrenceKind::Patch => "patch",
        }
    }

    /// The namespace and name of the stored event.
    fn event(self) -> String {
        format!("{}/{}", self.1.namespace(), self.1.name())
    }

    fn object(self) -> String {
        KRef(self.1.event().regarding()).to_string()
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.1.event().regarding().kind();
        let (verb, event, object) = (self.verb(), self.event(), self.object());
        write!(f, "{verb} event {event} about {kind} {object}")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use tidings_core::EventContext;

    use super::*;

    fn kept(event: Event, sequence: Option<u64>) -> Kept {
        Kept {
            event,
            sequence,
            recovered: false,
        }
    }

    /// An event that found no room on disk may stand for others that did. Their sequence numbers
    /// mean nothing to another sink with the same event.
    #[test]
    fn places_on_disk_stay_with_their_sink() {
        let (context, _wait) = Context::awaited(Span::none());
        let event = Event::from_wire(v1::Event::default()).with_context(context);
        let own = |event: &Event| Context::of(event.context()).unwrap().take_spilled();
        let earlier = placed(kept(event.clone(), Some(7)));
        let refused = placed(kept(event.clone(), None));
        let absorbing: &Arc<dyn EventContext> = refused.context().unwrap();
        absorbing.absorb(&**earlier.context().unwrap());
        assert!(own(&event).is_empty());
        assert_eq!(own(&refused), [7]);
        assert!(refused.context().unwrap().is_awaited());
        assert!(
            placed(kept(Event::from_wire(v1::Event::default()), None))
                .context()
                .is_none()
        );
    }
}
