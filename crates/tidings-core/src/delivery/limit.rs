//! Limits on the rate of events that several objects share: of a whole server or user, or of one
//! namespace (EventRateLimit of type Server, User, Namespace). Writes under such a limit are paced:
//! the sink learns the interval at which the server admits them.
//!
//! A refusal (429) does not name its limit, so it is inferred.
//! [`DeliveryOptions::pause_after_keys`] different objects refused in a row, with nothing of their
//! namespace admitted in between, show a limit of the namespace; as many of several namespaces,
//! with nothing at all admitted, show a limit of everything. A limit of one namespace delays no
//! other namespace. A limit of one object is not paced: its events are tried a few times, each at
//! its own pace
//! ([`RetryPolicy::rate_limited_tries_max`](crate::RetryPolicy::rate_limited_tries_max)).
//!
//! ```text
//!   not limited ──(several objects refused in a row)──▶ paced: the learned interval between writes
//!        ▲                                                │  refused: a fifth longer, one write in flight,
//!        │                                                │           half of it as wait, doubled for each in a row
//!        │                                                │  admitted again: a tenth shorter, more in flight
//!        └──(the interval is 250 µs, or a minute idle)────┘
//! ```
//!
//! This is congestion control as in TCP, with rates in place of windows. It settles at about one
//! refusal for two admitted events, whoever else uses the limit.
//!
//! Invariant: no interval and no wait is longer than the longest wait of the back-off, or
//! `INTERVAL_FIRST` where that is longer.
//!
//! [`DeliveryOptions::pause_after_keys`]: super::DeliveryOptions::pause_after_keys

use std::collections::VecDeque;
use std::time::Duration;

use crate::Monotonic;

/// The shortest first interval: with a back-off that need not wait at all, requests would follow
/// each other as fast as they are refused.
const INTERVAL_FIRST: Duration = Duration::from_millis(250);

/// A limit with a shorter interval is not felt: no sink writes 4,000 events a second.
const INTERVAL_LEAST: Duration = Duration::from_micros(250);

/// Refusals in a row that make the interval longer; further ones only double the wait. A server
/// that refuses everything for an hour teaches nothing about its rate afterwards.
const LEARNING_REFUSALS: u32 = 3;

/// Admissions between two refusals that measure the server's rate.
const MEASURED_BY: u32 = 3;

/// Admissions in a row, at the least interval, after which the limit is gone: more than a budget
/// holds.
const GONE_AFTER: u32 = 256;

/// After an idle time, writes of this much time may follow each other at once: the server's budget
/// has grown meanwhile.
const CATCH_UP: Duration = Duration::from_secs(1);

/// An idle limit is forgotten after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Maximum objects that are distinguished.
const OBJECTS_MAX: usize = 64;

/// Maximum namespaces that are paced separately. Refusals in further ones show a limit of
/// everything.
const NAMESPACES_MAX: usize = 64;

/// The learned limits of one sink.
pub(super) struct Limits {
    /// The number of refused objects that show a shared limit; 0 for never.
    after: usize,
    /// Number of refusals so far.
    refusals: u64,
    /// The last refusal of each object, oldest first, at most `OBJECTS_MAX`.
    recent: VecDeque<Refusal>,
    all: Option<Pacer>,
    namespaces: Vec<Namespace>,
    /// Limits of namespaces that ended: their lanes are to be released.
    ended: Vec<Namespace>,
}

/// The last refusal of an object.
struct Refusal {
    object: u64,
    namespace: u64,
    /// Its place among all refusals, from 1.
    number: u64,
    /// No event was admitted since.
    none_admitted: bool,
    /// No event of this namespace was admitted since.
    none_of_namespace_admitted: bool,
}

/// A paced namespace, with the lanes that wait for their turn.
pub(super) struct Namespace {
    pub(super) hash: u64,
    pub(super) pacer: Pacer,
    /// Lanes whose heads have not failed.
    pub(super) fresh: VecDeque<usize>,
    /// Lanes whose heads have.
    pub(super) refused: VecDeque<usize>,
}

/// Paces the writes under one limit.
pub(super) struct Pacer {
    /// The learned interval between writes.
    interval: Duration,
    longest: Duration,
    /// When the next write may start.
    until: Monotonic,
    in_flight: Vec<u64>,
    /// The last write that was started.
    last: u64,
    /// Writes up to this number were started before the last refusal: a further refusal of one of
    /// them says nothing new.
    known: u64,
    /// When a write was last refused, or pacing began.
    refused: Monotonic,
    refused_in_row: u32,
    admitted_in_row: u32,
    /// When an event was last admitted, or pacing began.
    admitted: Monotonic,
}

impl Limits {
    pub(super) fn new(after_keys: u32) -> Self {
        Self {
            after: usize::try_from(after_keys).map_or(OBJECTS_MAX, |keys| keys.min(OBJECTS_MAX)),
            refusals: 0,
            recent: VecDeque::new(),
            all: None,
            namespaces: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The limit of everything, if there is one.
    pub(super) fn all(&self) -> Option<&Pacer> {
        self.all.as_ref()
    }

    /// The limit of the namespace with this hash, if there is one.
    pub(super) fn namespace(&self, hash: u64) -> Option<&Namespace> {
        self.namespaces
            .iter()
            .find(|namespace| namespace.hash == hash)
    }

    pub(super) fn namespace_mut(&mut self, hash: u64) -> Option<&mut Namespace> {
        self.namespaces
            .iter_mut()
            .find(|namespace| namespace.hash == hash)
    }

    pub(super) fn has_namespaces(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// Whether admissions need not be reported.
    pub(super) fn is_idle(&self) -> bool {
        self.recent.is_empty() && self.all.is_none() && self.namespaces.is_empty()
    }

    /// Whether a write may start, as far as the limit of everything decides.
    pub(super) fn allows(&self, now: Monotonic) -> bool {
        self.all.as_ref().is_none_or(|all| all.allows(now))
    }

    /// When a write may start that could otherwise start at `other`; `None` while an answer
    /// decides.
    pub(super) fn earliest(&self, other: Monotonic) -> Option<Monotonic> {
        self.all
            .as_ref()
            .map_or(Some(other), |all| all.earliest(other))
    }

    /// When the first waiting lane of a paced namespace may be written; `None` if an answer
    /// decides.
    pub(super) fn earliest_of_namespaces(&self) -> Option<Monotonic> {
        let waiting = self.namespaces.iter().filter(|namespace| namespace.waits());
        waiting
            .filter_map(|namespace| namespace.pacer.earliest(Monotonic::from_nanos(i64::MIN)))
            .min()
    }

    /// A waiting lane of a paced namespace that may be written now.
    pub(super) fn pop_waiting(&mut self, now: Monotonic, prefer_fresh: bool) -> Option<usize> {
        let place = self
            .namespaces
            .iter()
            .position(|namespace| namespace.waits() && namespace.pacer.allows(now))?;
        let namespace = self.namespaces.get_mut(place)?;
        let (fresh, refused) = (&mut namespace.fresh, &mut namespace.refused);
        let (first, second) = if prefer_fresh {
            (fresh, refused)
        } else {
            (refused, fresh)
        };
        let id = first.pop_front().or_else(|| second.pop_front());
        // Namespaces take turns.
        if let Some(rest) = self.namespaces.get_mut(place..) {
            rest.rotate_left(1);
        }
        id
    }

    /// Any lane that waits in a paced namespace, one that failed before others.
    pub(super) fn any_waiting(&self) -> Option<usize> {
        let refused = self
            .namespaces
            .iter()
            .find_map(|namespace| namespace.refused.front());
        let fresh = || {
            self.namespaces
                .iter()
                .find_map(|namespace| namespace.fresh.front())
        };
        refused.or_else(fresh).copied()
    }

    /// A write starts. `namespace` is needed only if there are paced namespaces.
    pub(super) fn note_write(&mut self, now: Monotonic, number: u64, namespace: Option<u64>) {
        if let Some(all) = &mut self.all {
            all.note_write(now, number);
        }
        if let Some(namespace) = namespace.and_then(|hash| self.namespace_mut(hash)) {
            namespace.pacer.note_write(now, number);
        }
    }

    /// A write was answered, or failed, in a way that says nothing about limits.
    pub(super) fn note_answer(&mut self, number: u64) {
        if let Some(all) = &mut self.all {
            all.forget(number);
        }
        for namespace in &mut self.namespaces {
            namespace.pacer.forget(number);
        }
    }

    /// No limit kept an event of `namespace` from being written.
    pub(super) fn admitted(&mut self, now: Monotonic, number: u64, namespace: u64) {
        for refusal in &mut self.recent {
            refusal.none_admitted = false;
            refusal.none_of_namespace_admitted &= refusal.namespace != namespace;
        }
        if let Some(all) = &mut self.all {
            all.admitted(now, number);
            if all.is_gone() {
                self.all = None;
            }
        }
        let place = self
            .namespaces
            .iter()
            .position(|paced| paced.hash == namespace);
        if let Some(place) = place
            && let Some(paced) = self.namespaces.get_mut(place)
        {
            paced.pacer.admitted(now, number);
            if paced.pacer.is_gone() {
                self.end(place);
            }
        }
    }

    /// The number of refusals so far.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Whether enough different objects were refused after this number of refusals.
    pub(super) fn is_shared_since(&self, refusals: u64) -> bool {
        self.has(self.after, |refusal| refusal.number > refusals)
    }

    /// Whether a refusal in `namespace` is one of a limit that is being paced.
    pub(super) fn is_paced(&self, namespace: u64) -> bool {
        self.all.is_some() || self.namespace(namespace).is_some()
    }

    /// When an event under the limits of `namespace` was last admitted, or pacing began.
    pub(super) fn last_admitted(&self, namespace: u64) -> Option<Monotonic> {
        let namespace = self.namespace(namespace).map(|paced| paced.pacer.admitted);
        namespace.or(self.all.as_ref().map(|all| all.admitted))
    }

    /// A write of an event about `object` in `namespace` was refused for its rate. Intervals are
    /// between `first` and `longest`, but begin with `INTERVAL_FIRST` at least.
    pub(super) fn refused(
        &mut self,
        now: Monotonic,
        number: u64,
        (object, namespace): (u64, u64),
        (first, longest): (Duration, Duration),
    ) {
        let first = first.max(INTERVAL_FIRST);
        let longest = longest.max(first);
        self.refusals += 1;
        self.recent.retain(|refusal| refusal.object != object);
        self.recent.push_back(Refusal {
            object,
            namespace,
            number: self.refusals,
            none_admitted: true,
            none_of_namespace_admitted: true,
        });
        if self.recent.len() > OBJECTS_MAX {
            self.recent.pop_front();
        }
        if let Some(paced) = self.namespace_mut(namespace) {
            // It explains the refusal.
            paced.pacer.refused(now, number);
            if let Some(all) = &mut self.all {
                all.forget(number);
            }
            return;
        }
        if let Some(all) = &mut self.all {
            all.refused(now, number);
        }
        let is_paced = self.all.is_some();
        // While everything is paced, the limit of a namespace shows by what others are admitted.
        let of_namespace = |refusal: &Refusal| {
            refusal.namespace == namespace
                && refusal.none_of_namespace_admitted
                && !(is_paced && refusal.none_admitted)
        };
        // A few refusals in a row are nothing special then.
        let enough = if is_paced { self.after * 3 } else { self.after };
        if self.has(enough, of_namespace) && self.has_place() {
            self.namespaces.push(Namespace {
                hash: namespace,
                pacer: Pacer::new(now, first, longest),
                fresh: VecDeque::new(),
                refused: VecDeque::new(),
            });
            return;
        }
        let mut first_namespace = None;
        let several = self.recent.iter().any(|refusal| {
            refusal.none_admitted
                && *first_namespace.get_or_insert(refusal.namespace) != refusal.namespace
        });
        if self.all.is_none()
            && (several || self.namespaces.len() >= NAMESPACES_MAX)
            && self.has(self.after, |refusal| refusal.none_admitted)
        {
            self.all = Some(Pacer::new(now, first, longest));
        }
    }

    /// Ends limits that were not felt for long, and returns the namespaces whose lanes are to be
    /// released.
    pub(super) fn take_ended(&mut self, now: Monotonic) -> Vec<Namespace> {
        if self.all.as_ref().is_some_and(|all| all.is_forgotten(now)) {
            self.all = None;
        }
        while let Some(place) = self
            .namespaces
            .iter()
            .position(|namespace| !namespace.waits() && namespace.pacer.is_forgotten(now))
        {
            self.end(place);
        }
        std::mem::take(&mut self.ended)
    }

    /// Lets the next writes go at once.
    pub(super) fn shorten(&mut self) {
        let namespaces = self
            .namespaces
            .iter_mut()
            .map(|namespace| &mut namespace.pacer);
        for pacer in self.all.iter_mut().chain(namespaces) {
            pacer.until = Monotonic::from_nanos(i64::MIN);
        }
    }

    /// Forgets all waiting lanes.
    pub(super) fn clear(&mut self) {
        self.all = None;
        self.namespaces.clear();
        self.ended.clear();
    }

    /// Whether this many objects were last refused in such a way.
    fn has(&self, objects: usize, counts: impl Fn(&Refusal) -> bool) -> bool {
        let objects = objects.min(OBJECTS_MAX);
        objects > 0 && self.recent.iter().filter(|refusal| counts(refusal)).count() >= objects
    }

    /// Makes a place for one more namespace, if there is an idle one.
    fn has_place(&mut self) -> bool {
        if self.namespaces.len() < NAMESPACES_MAX {
            return true;
        }
        let idle = self
            .namespaces
            .iter()
            .position(|namespace| !namespace.waits() && namespace.pacer.in_flight.is_empty());
        if let Some(place) = idle {
            self.end(place);
        }
        idle.is_some()
    }

    fn end(&mut self, place: usize) {
        if place < self.namespaces.len() {
            self.ended.push(self.namespaces.swap_remove(place));
        }
    }
}

impl Namespace {
    fn waits(&self) -> bool {
        !(self.fresh.is_empty() && self.refused.is_empty())
    }
}

impl Pacer {
    fn new(now: Monotonic, first: Duration, longest: Duration) -> Self {
        Self {
            interval: first,
            longest,
            until: now.saturating_add(first),
            in_flight: Vec::new(),
            last: 0,
            known: 0,
            refused: now,
            refused_in_row: 0,
            admitted_in_row: 0,
            admitted: now,
        }
    }

    /// After a refusal, one write at a time until the next admission.
    fn has_window(&self) -> bool {
        self.admitted_in_row > 0 || self.in_flight.is_empty()
    }

    pub(super) fn allows(&self, now: Monotonic) -> bool {
        self.until <= now && self.has_window()
    }

    fn earliest(&self, other: Monotonic) -> Option<Monotonic> {
        self.has_window().then(|| other.max(self.until))
    }

    fn is_gone(&self) -> bool {
        self.interval <= INTERVAL_LEAST && self.admitted_in_row >= GONE_AFTER
    }

    fn note_write(&mut self, now: Monotonic, number: u64) {
        self.in_flight.push(number);
        self.last = number;
        let behind = Monotonic::from_nanos(
            now.as_nanos()
                .saturating_sub(i64::try_from(CATCH_UP.as_nanos()).unwrap_or(i64::MAX)),
        );
        self.until = self.until.max(behind).saturating_add(self.interval);
    }

    /// Returns whether the write was started under this limit.
    fn forget(&mut self, number: u64) -> bool {
        let before = self.in_flight.len();
        self.in_flight.retain(|other| *other != number);
        self.in_flight.len() < before
    }

    fn admitted(&mut self, now: Monotonic, number: u64) {
        self.admitted = now;
        if !self.forget(number) {
            return;
        }
        if self.refused_in_row == 0 {
            self.interval = (self.interval * 9 / 10).max(INTERVAL_LEAST);
        }
        self.refused_in_row = 0;
        self.admitted_in_row = self.admitted_in_row.saturating_add(1);
        self.until = self.until.min(now.saturating_add(self.interval));
    }

    fn refused(&mut self, now: Monotonic, number: u64) {
        if !self.forget(number) || number <= self.known {
            return;
        }
        self.known = self.last;
        if self.admitted_in_row >= MEASURED_BY {
            // The budget was empty then and is now: so fast it grows. What was saved in it, and
            // written faster, teaches nothing.
            let nanos = u64::try_from(now.nanos_since(self.refused)).unwrap_or(0);
            let measured = Duration::from_nanos(nanos) / self.admitted_in_row;
            self.interval = self.interval.max(measured.min(self.longest));
        }
        self.refused = now;
        self.admitted_in_row = 0;
        self.refused_in_row = self.refused_in_row.saturating_add(1);
        if self.refused_in_row <= LEARNING_REFUSALS {
            self.interval = (self.interval * 6 / 5).min(self.longest);
        }
        let doublings = (self.refused_in_row - 1).min(20);
        // The first refusal means that the write was a little early.
        let wait = (self.interval / 2)
            .saturating_mul(1 << doublings)
            .min(self.longest);
        self.until = now.saturating_add(wait);
    }

    fn is_forgotten(&self, now: Monotonic) -> bool {
        self.in_flight.is_empty() && self.until.saturating_add(FORGOTTEN_AFTER) <= now
    }
}
