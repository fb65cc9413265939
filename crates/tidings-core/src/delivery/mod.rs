//! The delivery state machine: decides which write is sent next, and what follows from its answer.
//! The caller performs the writes.
//!
//! ```text
//!            offer                     poll_write                 handle_written
//! event ───────────────▶ lane of its key ──────────▶ the sink ──────────────────▶ settled: delivered, dropped
//!            │             ▲       │ a later event                 │
//!            │ queue full  │       ▼ says it all                   │ may pass
//!            ▼             │    settled: aggregated                ▼
//!         settled: dropped └────────────────────────────── wait for another try
//! ```
//!
//! Events of one key share a lane. At most one write of a lane is in flight, in the order in which
//! events were offered. So no later count is sent before the earlier one has an outcome or is given
//! up. Lanes take turns; a lane that waits for a retry does not delay others. Events that failed
//! take turns among themselves, and use at most half of the workers, or the only one. Writes that
//! hang until their timeout therefore leave the other half to new events. After
//! [`Delivery::drain`], when every event was tried, retries may use all workers.
//!
//! A limit on the rate of several events paces the writes (`limit.rs`): all writes, or those of one
//! namespace. The lanes of a paced namespace wait for their turn in a queue of that namespace.
//!
//! A write without an answer may still be executed, even after a later one. The delivery cannot
//! prevent this; the sink makes the server refuse such a write (ADR 8).
//!
//! The kind of a write follows from the known state of the object at the server. After a create,
//! later events of the lane are patches. A patch of a missing object becomes a create. A create
//! that finds the object from its own earlier attempt has succeeded. A repeat whose create finds
//! the object becomes a patch.
//!
//! Invariants: offered = delivered + aggregated + dropped + pending; no more than
//! [`DeliveryOptions::workers`] writes in flight; no more events and bytes held than
//! [`DeliveryOptions`] says.

#[cfg(test)]
mod hanging_tests;
mod lane;
mod limit;
#[cfg(test)]
mod limit_tests;
mod options;
mod pause;
#[cfg(test)]
mod pause_tests;
#[cfg(test)]
mod tests;
mod turns;
mod types;
#[cfg(test)]
mod world_tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use foldhash::fast::FixedState;
use slab::Slab;

use self::lane::{Entry, Lane, Object, State, Unanswered, Wait};
use self::limit::Limits;
use self::pause::Pause;
use crate::{DropCause, Fate, Monotonic, OccurrenceKind, RetryClass, WriteError};

pub use self::options::{DeliveryOptions, InvalidDeliveryOptions, Overflow};
pub use self::types::{Deliverable, DeliveryStats, Handled, Settled, Write, WriteId};

/// How often in a row an event may change between patch and create before that counts as a failed
/// try.
const TURNS_MAX: u8 = 4;

/// How long a shared limit on the rate of events may admit nothing before its events are given up:
/// as long as other failures are tried.
const LIMITED_MAX: Duration = Duration::from_secs(4 * 60);

/// How long a single event may be refused for its rate although the limit admits others: as long as
/// the API server keeps events.
const REFUSED_MAX: Duration = Duration::from_secs(60 * 60);

/// Refusals of an event in a row, under a shared limit, after which another event takes its turn.
const REFUSALS_IN_TURN: u32 = 3;

/// Failures after which an event is given up if only this event fails, while failed events fill
/// half of the room and failures of all events are retried for ever. One failure may be a
/// coincidence.
const TRIES_IF_CROWDED: u32 = 2;

/// Delivers events to one sink: decides the next write, and reports the outcome of each event.
///
/// Events of one key are written one after the other, in the order they were offered. Different
/// keys are written concurrently, up to [`DeliveryOptions::workers`]. With two workers or more, an
/// event that failed delays no other: a new event waits only for other new events, and for one
/// probe while writing pauses. At any time, offered = delivered + aggregated + dropped + pending.
///
/// After each call that takes an input, call [`Delivery::poll_settled`] until it is empty, then
/// [`Delivery::poll_write`] likewise. Then wait for an answer, for an event to offer, or until
/// [`Delivery::poll_timeout`].
///
/// ```
/// use tidings_core::{Deliverable, Delivery, DeliveryOptions, Fate, Monotonic, OccurrenceKind};
///
/// #[derive(Clone)]
/// struct Greeting(&'static str);
///
/// impl Deliverable for Greeting {
///     type Key = &'static str;
///     fn key(&self) -> &'static str { self.0 }
///     fn same_object(&self, other: &Self) -> bool { self.0 == other.0 }
///     fn kind(&self) -> OccurrenceKind { OccurrenceKind::Create }
///     fn is_repeat(&self) -> bool { false }
///     fn size(&self) -> usize { self.0.len() }
/// }
///
/// let mut delivery = Delivery::new(DeliveryOptions::default(), 1)?;
/// delivery.offer(Monotonic::ZERO, Greeting("hello"));
/// let write = delivery.poll_write(Monotonic::ZERO).expect("something to write");
/// delivery.handle_written(Monotonic::ZERO, write.id, Ok(()));
/// assert_eq!(delivery.poll_settled().map(|settled| settled.fate), Some(Fate::Delivered));
/// # Ok::<(), tidings_core::InvalidDeliveryOptions>(())
/// ```
pub struct Delivery<T: Deliverable> {
    options: DeliveryOptions,
    random: fastrand::Rng,
    lanes: Slab<Lane<T>>,
    by_key: HashMap<T::Key, usize, FixedState>,
    /// Lanes in `State::Ready`, in order of their turn: their first events have not failed.
    ready: VecDeque<usize>,
    /// Lanes in `State::Again`, in order of their turn.
    again: VecDeque<usize>,
    /// Lanes in `State::Refused`, in order of their turn. Empty unless everything is paced.
    refused: VecDeque<usize>,
    /// Lanes in `State::Waiting`, by the end of their wait.
    waiting: BTreeSet<(Monotonic, usize)>,
    /// Lanes in `State::InFlight`.
    in_flight: Vec<usize>,
    pause: Pause,
    limits: Limits,
    last_number: u64,
    held_events: usize,
    held_bytes: usize,
    /// Of the held events, those at the head of a lane that failed.
    failed_events: usize,
    failed_bytes: usize,
    settled: VecDeque<Settled<T>>,
    stats: DeliveryStats,
    draining: bool,
}

impl<T: Deliverable> Delivery<T> {
    /// Makes an empty delivery. `seed` decides the random part of waits.
    ///
    /// # Errors
    /// When an option is not acceptable.
    pub fn new(options: DeliveryOptions, seed: u64) -> Result<Self, InvalidDeliveryOptions> {
        options.validate()?;
        Ok(Self {
            pause: Pause::new(options.pause_after_keys),
            limits: Limits::new(options.pause_after_keys),
            options,
            random: fastrand::Rng::with_seed(seed),
            lanes: Slab::new(),
            by_key: HashMap::with_hasher(FixedState::with_seed(seed)),
            ready: VecDeque::new(),
            again: VecDeque::new(),
            refused: VecDeque::new(),
            waiting: BTreeSet::new(),
            in_flight: Vec::new(),
            last_number: 0,
            held_events: 0,
            held_bytes: 0,
            failed_events: 0,
            failed_bytes: 0,
            settled: VecDeque::new(),
            stats: DeliveryStats::default(),
            draining: false,
        })
    }

    /// Takes an event to deliver. It is dropped at once if there is no room for it, or after
    /// [`Delivery::drain`].
    pub fn offer(&mut self, now: Monotonic, occurrence: T) {
        self.stats.offered += 1;
        let key = occurrence.key();
        let mut entry = Entry::new(
            now,
            occurrence,
            self.stats.delivered,
            self.limits.refusals(),
        );
        if self.draining {
            return self.settle(entry.occurrence, Fate::Dropped(DropCause::Stopped), None);
        }
        if entry.size > self.options.pending_bytes_max {
            return self.settle(entry.occurrence, Fate::Dropped(DropCause::TooLarge), None);
        }
        let mut lane = self.by_key.get(&key).copied();
        if let Some(id) = lane {
            match self.replace_waiting(id, entry) {
                Ok(()) => return,
                Err(kept) => entry = kept,
            }
        }
        if !self.has_room(entry.size) {
            if !self.make_room(entry.size) {
                return self.settle(entry.occurrence, Fate::Dropped(DropCause::QueueFull), None);
            }
            // Making room may have removed the lane.
            lane = self.by_key.get(&key).copied();
        }
        self.held_events += 1;
        self.held_bytes += entry.size;
        if let Some(lane) = lane.and_then(|id| self.lanes.get_mut(id)) {
            lane.rest.push_back(entry);
        } else {
            let id = self.lanes.insert(Lane::new(key.clone(), entry));
            self.by_key.insert(key, id);
            self.ready.push_back(id);
        }
    }

    /// Returns the next write, if one may start now.
    pub fn poll_write(&mut self, now: Monotonic) -> Option<Write<T>> {
        self.wake(now);
        let may_start = self.pause.allows(now) && self.limits.allows(now);
        if self.in_flight.len() >= self.options.workers || !may_start {
            return None;
        }
        let id = self.next_lane(now)?;
        let namespace = self
            .limits
            .has_namespaces()
            .then(|| self.namespace_of(id))
            .flatten();
        let lane = self.lanes.get_mut(id)?;
        self.last_number += 1;
        let number = self.last_number;
        lane.state = State::InFlight(number);
        self.in_flight.push(id);
        self.pause.note_write(number);
        self.limits.note_write(now, number, namespace);
        self.stats.writes += 1;
        Some(Write {
            id: WriteId { lane: id, number },
            kind: lane.head.kind(),
            occurrence: lane.head.occurrence.clone(),
        })
    }

    /// Takes the answer to a write. An answer to a write that is not in flight changes nothing.
    pub fn handle_written(
        &mut self,
        now: Monotonic,
        write: WriteId,
        result: Result<(), WriteError>,
    ) -> Handled {
        let id = write.lane;
        let Some(lane) = self.lanes.get_mut(id) else {
            return Handled::Unknown;
        };
        if lane.state != State::InFlight(write.number) {
            return Handled::Unknown;
        }
        let kind = lane.head.kind();
        let unanswered = lane.head.unanswered;
        self.in_flight.retain(|other| *other != id);
        let was_probe = self.pause.note_answer(write.number);

        let error = match result {
            Ok(()) => {
                self.server_answered();
                self.admitted(now, write);
                return self.settle_head(id, Fate::Delivered, None);
            }
            Err(error) => error,
        };
        let class = self.options.retry.classify(&error, kind);
        if let (RetryClass::Transient { retry_after }, true) = (class, error.is_out_of_reach()) {
            let wait = self.pause_wait(was_probe, retry_after);
            if let Some(lane) = self.lanes.get_mut(id) {
                let opened = self
                    .pause
                    .note_failure(now, &mut lane.failed_in, was_probe, wait);
                self.stats.pauses += u64::from(opened);
            }
        } else if error.is_status() {
            self.server_answered();
        }
        if error.is_rate_limited() {
            self.rate_limited(now, write);
        } else if matches!(class, RetryClass::Permanent(_)) {
            self.admitted(now, write);
        } else {
            self.limits.note_answer(write.number);
        }
        match class {
            RetryClass::Transient { retry_after } => self.retry(now, id, kind, error, retry_after),
            RetryClass::NotFound => self.turn(now, id, kind, error, Object::Gone),
            RetryClass::AlreadyExists => match unanswered {
                Unanswered::No => {
                    let fate = Fate::Dropped(DropCause::AlreadyExists);
                    self.settle_head(id, fate, Some(error))
                }
                Unanswered::This => self.settle_head(id, Fate::Delivered, None),
                Unanswered::Earlier => self.turn(now, id, kind, error, Object::Exists),
            },
            RetryClass::Permanent(cause) => self.settle_head(id, Fate::Dropped(cause), Some(error)),
        }
    }

    /// When to call [`Delivery::poll_write`] again if nothing else happens. A past time means now;
    /// `None` means that only an offer or an answer changes anything.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        if self.in_flight.len() >= self.options.workers {
            return None;
        }
        let now = Some(Monotonic::from_nanos(i64::MIN));
        let lane = if !self.ready.is_empty() {
            now
        } else if !self.may_retry() {
            // Before a retry, an answer must come.
            self.limits.earliest_of_namespaces(false)
        } else if self.again.is_empty() && self.refused.is_empty() {
            let waiting = self.waiting.first().map(|(until, _)| *until);
            let paced = self.limits.earliest_of_namespaces(true);
            waiting.into_iter().chain(paced).min()
        } else {
            now
        };
        Some(self.limits.earliest(self.pause.earliest(lane?)?))
    }

    /// Returns the next event whose outcome is known.
    pub fn poll_settled(&mut self) -> Option<Settled<T>> {
        self.settled.pop_front()
    }

    /// Stops taking events (further ones are dropped as [`DropCause::Stopped`]), and
    /// [hurries](Delivery::hurry). Continue as before until [`Delivery::pending`] is 0, or
    /// [`Delivery::abandon`].
    pub fn drain(&mut self) {
        self.draining = true;
        self.hurry();
    }

    /// Retries every waiting event once at once, except where the server asked for a wait. For use
    /// shortly before the end, when more events may still be offered.
    pub fn hurry(&mut self) {
        self.pause.shorten();
        self.limits.shorten();
        self.end_waits(|why| why != Wait::Asked);
    }

    /// Stops taking events, and settles everything that waits or is in flight as [`Fate::Pending`].
    pub fn abandon(&mut self) {
        self.draining = true;
        self.by_key.clear();
        self.ready.clear();
        self.again.clear();
        self.refused.clear();
        self.limits.clear();
        self.waiting.clear();
        self.in_flight.clear();
        self.held_events = 0;
        self.held_bytes = 0;
        self.failed_events = 0;
        self.failed_bytes = 0;
        let lanes = std::mem::take(&mut self.lanes);
        for (_, lane) in lanes {
            self.settle(lane.head.occurrence, Fate::Pending, None);
            for entry in lane.rest {
                self.settle(entry.occurrence, Fate::Pending, None);
            }
        }
    }

    /// The number of events that wait or are in flight.
    pub fn pending(&self) -> usize {
        self.held_events
    }

    /// The bytes of the pending events.
    pub fn pending_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The number of pending events that failed before and wait for a retry or are being retried.
    pub fn failed(&self) -> usize {
        self.failed_events
    }

    /// The bytes of the pending events that failed before.
    pub fn failed_bytes(&self) -> usize {
        self.failed_bytes
    }

    /// When the oldest pending event, or an event that it replaced, was offered. Takes time linear
    /// in the pending keys.
    pub fn oldest(&self) -> Option<Monotonic> {
        self.lanes.iter().map(|(_, lane)| lane.head.since).min()
    }

    /// The number of writes in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether writing is paused because the server no longer answers.
    pub fn is_paused(&self) -> bool {
        self.pause.is_open()
    }

    /// Statistics.
    pub fn stats(&self) -> DeliveryStats {
        DeliveryStats {
            pending: self.stats.pending + self.held_events as u64,
            ..self.stats
        }
    }

    /// Replaces the last waiting event of the lane with `later`, if `later` writes everything that
    /// event would. Otherwise returns `later`.
    fn replace_waiting(&mut self, id: usize, later: Entry<T>) -> Result<(), Entry<T>> {
        let coalesce = self.options.coalesce;
        let waiting = self.lanes.get_mut(id).and_then(Lane::last_waiting);
        let Some(waiting) =
            waiting.filter(|waiting| coalesce && later.occurrence.covers(&waiting.occurrence))
        else {
            return Err(later);
        };
        let kept = self.held_bytes.saturating_sub(waiting.size);
        let bytes = kept.saturating_add(later.size);
        if bytes > self.options.pending_bytes_max {
            return Err(later);
        }
        self.held_bytes = bytes;
        let earlier = waiting.replace(later);
        if let Some(lane) = self.lanes.get(id)
            && lane.rest.is_empty()
        {
            if lane.failures > 0 {
                self.failed_bytes = self.failed_bytes.saturating_sub(earlier.size) + lane.head.size;
            }
            self.name_by_head(id);
        }
        self.settle(earlier.occurrence, Fate::Aggregated, None);
        Ok(())
    }

    /// Whether one more event of `size` bytes can be held.
    fn has_room(&self, size: usize) -> bool {
        self.held_events < self.options.pending_events_max
            && self.held_bytes.saturating_add(size) <= self.options.pending_bytes_max
    }

    /// Drops events as the options say until there is room for `size` bytes; returns false if that
    /// is impossible.
    fn make_room(&mut self, size: usize) -> bool {
        while !self.has_room(size) {
            if self.options.overflow == Overflow::DropNewest || !self.drop_oldest() {
                return false;
            }
        }
        true
    }

    /// Drops a waiting event that failed, or else the one that has waited longest; returns false if
    /// none waits.
    fn drop_oldest(&mut self) -> bool {
        let fate = Fate::Dropped(DropCause::QueueFull);
        let failed = self.again.front().or(self.refused.front()).copied();
        let failed = failed.or_else(|| self.waiting.first().map(|(_, id)| *id));
        let failed = failed.or_else(|| self.limits.any_refused());
        let next = failed.or_else(|| {
            let fresh = self.limits.first_fresh().chain(self.ready.front().copied());
            fresh.min_by_key(|id| self.lanes.get(*id).map(|lane| lane.head.since))
        });
        if let Some(entry) = next.and_then(|id| self.advance(id)) {
            self.let_go(entry, fate, None);
            return true;
        }
        for id in &self.in_flight {
            if let Some(entry) = self
                .lanes
                .get_mut(*id)
                .and_then(|lane| lane.rest.pop_front())
            {
                self.let_go(entry, fate, None);
                return true;
            }
        }
        false
    }

    /// Records that the server answers: ends a pause and the waits it caused.
    fn server_answered(&mut self) {
        if self.pause.note_success() {
            self.end_waits(|why| why == Wait::OutOfReach);
        }
    }

    /// Records that the head of this lane was refused for the rate of events.
    fn rate_limited(&mut self, now: Monotonic, write: WriteId) {
        let backoff = self.options.retry.backoff;
        let intervals = (backoff.shortest(), backoff.longest());
        let about = self.about(write.lane);
        self.limits.refused(now, write.number, about, intervals);
    }

    /// Records that no limit on the rate of events refused the head of this lane.
    fn admitted(&mut self, now: Monotonic, write: WriteId) {
        if !self.limits.is_idle() {
            let about = self.about(write.lane);
            self.limits.admitted(now, write.number, about);
        }
    }

    /// The length of a pause that begins or continues now.
    fn pause_wait(&mut self, was_probe: bool, retry_after: Option<Duration>) -> Duration {
        let failures = self.pause.failures(was_probe);
        let random = self.random.u64(..);
        self.options.retry.wait(failures, retry_after, random)
    }

    /// Schedules another try of a lane's head, or gives it up.
    fn retry(
        &mut self,
        now: Monotonic,
        id: usize,
        kind: OccurrenceKind,
        error: WriteError,
        retry_after: Option<Duration>,
    ) -> Handled {
        let about = error.is_rate_limited().then(|| self.about(id));
        let namespace = about.map(|(_, namespace)| namespace);
        let has_own_limit = about.is_some_and(|(object, _)| self.limits.is_own(object));
        let Some(lane) = self.lanes.get_mut(id) else {
            return Handled::Unknown;
        };
        let policy = &self.options.retry;
        let delivered = self.stats.delivered;
        let before = std::mem::replace(&mut lane.head.delivered_before, delivered);
        // A failure that all events meet does not count against this one; its own rate does.
        let refusals = std::mem::replace(&mut lane.head.refusals_before, self.limits.refusals());
        let is_paced =
            !has_own_limit && namespace.is_some_and(|namespace| self.limits.is_paced(namespace));
        let is_own = if error.is_rate_limited() {
            has_own_limit || !is_paced && !self.limits.is_shared_since(refusals)
        } else {
            delivered > before
        };
        // Under a shared limit, time decides when an event is given up, not tries.
        let counts = is_own || (policy.give_up_out_of_reach && !error.is_rate_limited());
        lane.head.note_failure(kind, &error, counts, is_own);
        if lane.head.unauthorized_tries >= policy.unauthorized_tries_max {
            let fate = Fate::Dropped(DropCause::RejectedUnauthorized);
            return self.settle_head(id, fate, Some(error));
        }
        let mut is_given_up = lane.head.rate_limited_tries >= policy.rate_limited_tries_max;
        if let Some(namespace) = namespace.filter(|_| !is_own) {
            let since = *lane.head.refused_since.get_or_insert(now);
            let admitted = self.limits.last_admitted(namespace).unwrap_or(since);
            is_given_up |= policy.give_up_out_of_reach
                && (since.max(admitted).saturating_add(LIMITED_MAX) <= now
                    || since.saturating_add(REFUSED_MAX) <= now);
        }
        if is_given_up {
            let fate = Fate::Dropped(DropCause::RateLimited);
            return self.settle_head(id, fate, Some(error));
        }
        let is_crowded = !(policy.give_up_out_of_reach || error.is_rate_limited())
            && (self.failed_events > self.options.pending_events_max / 2
                || self.failed_bytes > self.options.pending_bytes_max / 2);
        let tries_max = if is_crowded {
            policy.tries_max.min(TRIES_IF_CROWDED)
        } else {
            policy.tries_max
        };
        if lane.head.tries >= tries_max {
            let fate = Fate::Dropped(DropCause::RetriesExhausted);
            return self.settle_head(id, fate, Some(error));
        }
        if lane.failures == 0 {
            self.failed_events += 1;
            self.failed_bytes += lane.head.size;
        }
        lane.failures = lane.failures.saturating_add(1);
        let failures = lane.failures;
        if is_paced {
            // The limit's interval is the wait. Under a shared limit the oldest event goes first,
            // but an event with a limit of its own must not take all turns.
            let keeps_turn = !failures.is_multiple_of(REFUSALS_IN_TURN);
            let paced = namespace
                .and_then(|hash| self.limits.namespace_mut(hash))
                .map(|paced| (State::Held(paced.hash), &mut paced.refused));
            let (state, turns) = paced.unwrap_or((State::Refused, &mut self.refused));
            lane.state = state;
            if keeps_turn {
                turns.push_front(id);
            } else {
                turns.push_back(id);
            }
        } else if self.pause.is_open() && retry_after.is_none() {
            // The pause is the wait; the next event in turn is the probe.
            self.try_again(id);
        } else {
            let random = self.random.u64(..);
            let until = now.saturating_add(policy.wait(failures, retry_after, random));
            let why = match retry_after {
                Some(_) => Wait::Asked,
                None if error.is_out_of_reach() => Wait::OutOfReach,
                None => Wait::Failed,
            };
            lane.state = State::Waiting { until, why };
            self.waiting.insert((until, id));
        }
        self.stats.retries += 1;
        self.merge_head(id);
        Handled::Retried
    }

    /// Replaces the failed head of a lane with the event behind it, if that event writes everything
    /// the head would.
    fn merge_head(&mut self, id: usize) {
        if !self.options.coalesce {
            return;
        }
        let Some(lane) = self.lanes.get_mut(id) else {
            return;
        };
        let merges = lane
            .rest
            .front()
            .is_some_and(|next| next.occurrence.covers(&lane.head.occurrence));
        if !merges {
            return;
        }
        if let Some(next) = lane.rest.pop_front() {
            let earlier = lane.head.replace(next);
            self.failed_bytes = self.failed_bytes.saturating_sub(earlier.size) + lane.head.size;
            self.name_by_head(id);
            self.let_go(earlier, Fate::Aggregated, None);
        }
    }

    /// Sends the head of a lane again at once, with the new knowledge of its `object`.
    fn turn(
        &mut self,
        now: Monotonic,
        id: usize,
        kind: OccurrenceKind,
        error: WriteError,
        object: Object,
    ) -> Handled {
        let Some(lane) = self.lanes.get_mut(id) else {
            return Handled::Unknown;
        };
        lane.head.object = object;
        lane.head.turns += 1;
        if lane.head.turns > TURNS_MAX {
            return self.retry(now, id, kind, error, None);
        }
        if lane.failures > 0 {
            lane.state = State::Again;
            self.again.push_front(id);
        } else {
            lane.state = State::Ready;
            self.ready.push_front(id);
        }
        Handled::Turned
    }

    /// Settles the head of a lane that was in flight. The event behind it takes its turn.
    fn settle_head(&mut self, id: usize, fate: Fate, error: Option<WriteError>) -> Handled {
        if fate == Fate::Delivered
            && let Some(lane) = self.lanes.get_mut(id)
        {
            lane.head.object = Object::Exists;
        }
        if let Some(entry) = self.advance(id) {
            self.let_go(entry, fate, error);
        }
        Handled::Settled
    }

    /// Removes the head of a lane, and the lane if it is then empty.
    fn advance(&mut self, id: usize) -> Option<Entry<T>> {
        let lane = self.lanes.get_mut(id)?;
        if lane.failures > 0 {
            self.failed_events = self.failed_events.saturating_sub(1);
            self.failed_bytes = self.failed_bytes.saturating_sub(lane.head.size);
        }
        if let Some(mut next) = lane.rest.pop_front() {
            if self.options.coalesce {
                next.follow(&lane.head);
            }
            if let State::InFlight(_) = lane.state {
                lane.failures = 0;
                lane.state = State::Ready;
                self.ready.push_back(id);
            }
            if lane.failures > 0 {
                self.failed_events += 1;
                self.failed_bytes += next.size;
            }
            let head = std::mem::replace(&mut lane.head, next);
            self.name_by_head(id);
            return Some(head);
        }
        match lane.state {
            State::Ready => take_out(&mut self.ready, id),
            State::Again => take_out(&mut self.again, id),
            State::Refused => take_out(&mut self.refused, id),
            State::Held(namespace) => {
                if let Some(namespace) = self.limits.namespace_mut(namespace) {
                    take_out(&mut namespace.fresh, id);
                    take_out(&mut namespace.refused, id);
                }
            }
            State::Waiting { until, .. } => {
                self.waiting.remove(&(until, id));
            }
            State::InFlight(_) => {}
        }
        let lane = self.lanes.try_remove(id)?;
        self.by_key.remove(&lane.key);
        Some(lane.head)
    }

    /// Sets a lane's key from its head, whose memory is counted. An equal key may point to an event
    /// that is already settled, and keep it in memory.
    fn name_by_head(&mut self, id: usize) {
        if let Some(lane) = self.lanes.get_mut(id) {
            self.by_key.remove(&lane.key);
            lane.key = lane.head.occurrence.key();
            self.by_key.insert(lane.key.clone(), id);
        }
    }

    /// Settles an event, and no longer counts its memory.
    fn let_go(&mut self, entry: Entry<T>, fate: Fate, error: Option<WriteError>) {
        self.held_events = self.held_events.saturating_sub(1);
        self.held_bytes = self.held_bytes.saturating_sub(entry.size);
        self.settle(entry.occurrence, fate, error);
    }

    fn settle(&mut self, occurrence: T, fate: Fate, error: Option<WriteError>) {
        match fate {
            Fate::Delivered => self.stats.delivered += 1,
            Fate::Aggregated => self.stats.aggregated += 1,
            Fate::Dropped(cause) => self.stats.dropped.add(cause, 1),
            Fate::Pending => self.stats.pending += 1,
        }
        self.settled.push_back(Settled {
            occurrence,
            fate,
            error,
        });
    }
}

/// Removes a lane from a queue. Takes constant time if the lane is at the front.
fn take_out(lanes: &mut VecDeque<usize>, id: usize) {
    if lanes.front() == Some(&id) {
        lanes.pop_front();
    } else {
        lanes.retain(|other| *other != id);
    }
}
