//! A lane: the undelivered events of one key, one at the head and the others behind it in order.

use std::collections::VecDeque;

use super::Deliverable;
use crate::{Monotonic, OccurrenceKind, WriteError};

/// What is known of an event's object at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// Nothing, except the correlator's assumption.
    Unknown,
    /// It exists: a write of it was answered.
    Exists,
    /// It does not exist: the answer to a patch said so.
    Gone,
    /// It does not exist: an earlier event should have created it and did not. This one must.
    Missing,
}

/// Whether a create of the object may have succeeded without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    No,
    /// A create of this very event may have succeeded.
    This,
    /// A create of an earlier event that this one replaced, or of this one, may have succeeded. The
    /// object may exist in an earlier state.
    Earlier,
}

/// One undelivered event.
pub(super) struct Entry<T> {
    pub(super) occurrence: T,
    /// When the first of the events that this entry stands for was offered.
    pub(super) since: Monotonic,
    /// The occurrence's size, computed once.
    pub(super) size: usize,
    /// Transient failures that count as tries.
    pub(super) tries: u32,
    /// Tries that failed with 401.
    pub(super) unauthorized_tries: u32,
    /// Tries that failed because of a limit on the rate of events.
    pub(super) rate_limited_tries: u32,
    /// Events delivered by all lanes when this one was offered or last failed.
    pub(super) delivered_before: u64,
    /// Refusals for a rate in all lanes when this one was offered or last failed.
    pub(super) refusals_before: u64,
    /// When the event was first refused for the rate of events.
    pub(super) refused_since: Option<Monotonic>,
    /// Consecutive changes from patch to create or back.
    pub(super) turns: u8,
    pub(super) object: Object,
    pub(super) unanswered: Unanswered,
}

impl<T: Deliverable> Entry<T> {
    /// Makes an entry. `delivered` and `refusals` are the totals of all lanes so far.
    pub(super) fn new(now: Monotonic, occurrence: T, delivered: u64, refusals: u64) -> Self {
        let unanswered = if occurrence.is_repeat() {
            // The outcome of the earlier events may be forgotten by now.
            Unanswered::Earlier
        } else if occurrence.may_be_written() {
            Unanswered::This
        } else {
            Unanswered::No
        };
        Self {
            size: occurrence.size(),
            occurrence,
            since: now,
            tries: 0,
            unauthorized_tries: 0,
            rate_limited_tries: 0,
            delivered_before: delivered,
            refusals_before: refusals,
            refused_since: None,
            turns: 0,
            object: Object::Unknown,
            unanswered,
        }
    }

    pub(super) fn kind(&self) -> OccurrenceKind {
        match self.object {
            Object::Unknown => self.occurrence.kind(),
            Object::Exists => OccurrenceKind::Patch,
            Object::Gone | Object::Missing => OccurrenceKind::Create,
        }
    }

    /// Records a transient failure. `counts`: it is one of this event's tries. `is_own`: writes of
    /// other events succeed.
    pub(super) fn note_failure(
        &mut self,
        kind: OccurrenceKind,
        error: &WriteError,
        counts: bool,
        is_own: bool,
    ) {
        self.tries = self.tries.saturating_add(u32::from(counts));
        self.unauthorized_tries = self
            .unauthorized_tries
            .saturating_add(u32::from(counts && error.is_unauthorized()));
        self.rate_limited_tries = self
            .rate_limited_tries
            .saturating_add(u32::from(is_own && error.is_rate_limited()));
        self.turns = 0;
        let unanswered = kind == OccurrenceKind::Create && error.may_have_been_written();
        if unanswered && self.unanswered == Unanswered::No {
            self.unanswered = Unanswered::This;
        }
        if self.object == Object::Gone {
            // The object may exist by the next try; client-go, too, starts over with the patch.
            self.object = Object::Unknown;
        }
    }

    /// Replaces this event with a later one of the same object, and returns the earlier. Tries
    /// start over, except refusals for the rate of events; otherwise repeats faster than the limit
    /// would be tried for ever.
    pub(super) fn replace(&mut self, mut later: Self) -> Self {
        later.follow(self);
        later.since = self.since;
        later.rate_limited_tries = self.rate_limited_tries;
        later.refusals_before = self.refusals_before;
        later.refused_since = self.refused_since;
        later.occurrence.absorb(&mut self.occurrence);
        std::mem::replace(self, later)
    }

    /// Takes over the knowledge of the object from `before`, the preceding event of the lane. That
    /// event was not written unless this knowledge says that the object exists.
    pub(super) fn follow(&mut self, before: &Self) {
        if self.occurrence.same_object(&before.occurrence) {
            self.object = match before.object {
                Object::Unknown if before.kind() == OccurrenceKind::Create => Object::Missing,
                object => object,
            };
        }
    }
}

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its head can be written, and has not failed.
    Ready,
    /// Its head failed, and can be written again.
    Again,
    /// Its head was refused under a limit of everything, and is retried in turn.
    Refused,
    /// It waits for its turn under the limit of the namespace with this hash.
    Held(u64),
    /// Its head is being written, under this number.
    InFlight(u64),
    /// Its head waits for a retry.
    Waiting { until: Monotonic, why: Wait },
}

/// Why a lane waits for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The server was out of reach; the wait ends once it answers.
    OutOfReach,
    /// The server answered that it could not write this event.
    Failed,
    /// The server asked for the wait.
    Asked,
}

/// The undelivered events of one key, and their state.
pub(super) struct Lane<T: Deliverable> {
    pub(super) key: T::Key,
    pub(super) head: Entry<T>,
    pub(super) rest: VecDeque<Entry<T>>,
    pub(super) state: State,
    /// Consecutive failures, which decide the length of the next wait. Above 0 in the states
    /// `Again`, `Refused` and `Waiting`; in `Held`, above 0 if the head failed.
    pub(super) failures: u32,
    /// The period without answers in which this lane last failed (`Pause`'s number of it).
    pub(super) failed_in: u64,
}

impl<T: Deliverable> Lane<T> {
    pub(super) fn new(key: T::Key, head: Entry<T>) -> Self {
        Self {
            key,
            head,
            rest: VecDeque::new(),
            state: State::Ready,
            failures: 0,
            failed_in: 0,
        }
    }

    /// The last event that is not being written.
    pub(super) fn last_waiting(&mut self) -> Option<&mut Entry<T>> {
        match self.state {
            State::InFlight(_) => self.rest.back_mut(),
            State::Ready
            | State::Again
            | State::Refused
            | State::Held(_)
            | State::Waiting { .. } => Some(self.rest.back_mut().unwrap_or(&mut self.head)),
        }
    }
}
