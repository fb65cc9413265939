//! Limits on the rate of events that several objects share: of a whole server or user, or of one
//! namespace (EventRateLimit of type Server, User, Namespace). Writes under such a limit are paced:
//! the sink learns the interval at which the server admits them.
//!
//! A refusal (429) does not name its limit, so the limit is inferred from refusals in a row.
//! [`DeliveryOptions::pause_after_keys`] different objects of one namespace, with no event of that
//! namespace admitted in between, show a limit of the namespace. As many objects of several
//! namespaces, with no event admitted at all, show a limit of everything. A limit of one namespace
//! delays no other namespace.
//!
//! Objects with limits of their own may be refused in a row by chance. Other objects tell them
//! apart. An object has a limit of its own if it was refused three times, and more often than
//! admitted, and if meanwhile four times as many events about new objects were admitted as refused.
//! A limit of one object is not paced: its events are tried a few times, each at its own pace
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
//! refusal for two admitted events, whoever else uses the limit. If the limit admits less than one
//! event of this sink in the longest wait of the back-off, each admitted event costs more refusals,
//! one for each such wait.
//!
//! Invariant: no interval and no wait is longer than the longest wait of the back-off, or
//! `INTERVAL_FIRST` where that is longer.
//!
//! [`DeliveryOptions::pause_after_keys`]: super::DeliveryOptions::pause_after_keys

use std::collections::VecDeque;
use std::time::Duration;

use crate::Monotonic;

/// Minimum first interval. Without it, requests under a back-off with no wait would follow each
/// other as fast as they are refused.
const INTERVAL_FIRST: Duration = Duration::from_millis(250);

/// At a shorter interval than this a limit counts as gone: no sink writes 4,000 events a second.
const INTERVAL_LEAST: Duration = Duration::from_micros(250);

/// Refusals in a row that make the interval longer; further ones only double the wait. A server
/// that refuses everything for an hour says nothing about its later rate.
const LEARNING_REFUSALS: u32 = 3;

/// Admissions between two refusals from which the server's rate is measured.
const MEASURED_BY: u32 = 3;

/// Admissions in a row at the least interval after which the limit counts as gone: more than the
/// server's bucket holds.
const GONE_AFTER: u32 = 256;

/// After an idle time, the writes of this period may follow each other at once, because the
/// server's bucket has filled meanwhile.
const CATCH_UP: Duration = Duration::from_secs(1);

/// An idle limit is forgotten after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A write without an answer for this long no longer keeps other writes waiting.
const UNANSWERED_AFTER: Duration = Duration::from_secs(5);

/// The longest interval that a monotonic time can express.
const INTERVAL_MOST: Duration = Duration::from_nanos(i64::MAX as u64);

/// Maximum objects whose refusals are remembered.
const OBJECTS_MAX: usize = 64;

/// Refusals from which an object may have a limit of its own.
const OWN_REFUSALS: u32 = 3;

/// Admitted events for each refused object, both about new objects, that show a limit of one
/// object. Under a steady shared limit there are about two.
const OWN_RATIO: u32 = 4;

/// Maximum namespaces that are paced separately. Refusals in further namespaces show a limit of
/// everything.
const NAMESPACES_MAX: usize = 64;

/// The learned limits of one sink.
pub(super) struct Limits {
    /// The number of refused objects that show a shared limit; 0 disables pacing.
    after: usize,
    /// Total refusals.
    refusals: u64,
    /// The objects that were refused within the last minute, by their last refusal, at most
    /// `OBJECTS_MAX`.
    recent: VecDeque<Refusal>,
    all: Option<Pacer>,
    namespaces: Vec<Namespace>,
    /// Namespaces whose limit ended; their lanes are to be released.
    ended: Vec<Namespace>,
}

/// The refusals of an object.
struct Refusal {
    object: u64,
    namespace: u64,
    /// The number of the last refusal among all, from 1.
    number: u64,
    /// When the object was last refused.
    at: Monotonic,
    /// No event was admitted since the last refusal.
    none_admitted: bool,
    /// No event of this namespace was admitted since the last refusal.
    none_of_namespace_admitted: bool,
    history: History,
}

/// What happened since the first refusal of an object.
#[derive(Clone, Copy, Default)]
struct History {
    /// Events about this object.
    own: Tally,
    /// Admitted events about objects that were not refused before, and objects newly refused.
    others: Tally,
    /// The same for objects of the same namespace.
    others_of_namespace: Tally,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    admitted: u32,
    refused: u32,
}

impl Tally {
    fn add_admitted(&mut self, counts: bool) {
        self.admitted = self.admitted.saturating_add(u32::from(counts));
    }

    fn add_refused(&mut self, counts: bool) {
        self.refused = self.refused.saturating_add(u32::from(counts));
    }

    /// Whether so many events of others were admitted that no limit is shared with them.
    fn shows_no_limit(self) -> bool {
        self.admitted / OWN_RATIO > self.refused
    }
}

impl Refusal {
    fn is_mostly_refused(&self) -> bool {
        let Tally { admitted, refused } = self.history.own;
        refused >= OWN_REFUSALS && refused > admitted
    }

    /// Whether the object is refused for another limit than one of everything.
    fn excludes_all(&self) -> bool {
        self.is_mostly_refused() && self.history.others.shows_no_limit()
    }

    /// Whether the object is refused for another limit than one of its namespace.
    fn excludes_namespace(&self) -> bool {
        self.is_mostly_refused() && self.history.others_of_namespace.shows_no_limit()
    }
}

/// A paced namespace, and the lanes that wait for their turn in it.
pub(super) struct Namespace {
    pub(super) hash: u64,
    pub(super) pacer: Pacer,
    /// Lanes whose first event has not failed.
    pub(super) fresh: VecDeque<usize>,
    /// Lanes whose first event failed.
    pub(super) refused: VecDeque<usize>,
}

/// Paces the writes under one limit.
pub(super) struct Pacer {
    /// The learned interval between writes.
    interval: Duration,
    longest: Duration,
    /// The earliest time of the next write.
    until: Monotonic,
    /// The writes in flight, and when each was started.
    in_flight: Vec<(u64, Monotonic)>,
    /// The number of the last started write.
    last: u64,
    /// The last write that was started before the last refusal. A refusal of this or an earlier
    /// write says nothing new.
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

    /// The pacer of all events, if there is such a limit.
    pub(super) fn all(&self) -> Option<&Pacer> {
        self.all.as_ref()
    }

    /// The paced namespace with this hash, if there is one.
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

    /// Whether there is no limit and no recent refusal, so that admissions need not be reported.
    pub(super) fn is_idle(&self) -> bool {
        self.recent.is_empty() && self.all.is_none() && self.namespaces.is_empty()
    }

    /// Whether the limit of everything allows a write to start.
    pub(super) fn allows(&self, now: Monotonic) -> bool {
        self.all.as_ref().is_none_or(|all| all.allows(now))
    }

    /// When a write may start that would otherwise start at `other`.
    pub(super) fn earliest(&self, other: Monotonic) -> Monotonic {
        self.all.as_ref().map_or(other, |all| all.earliest(other))
    }

    /// When the first waiting lane of a paced namespace may be written; without `may_retry`, the
    /// first that has not failed.
    pub(super) fn earliest_of_namespaces(&self, may_retry: bool) -> Option<Monotonic> {
        self.namespaces
            .iter()
            .filter(|namespace| namespace.has_turn(may_retry))
            .map(|namespace| namespace.pacer.earliest(Monotonic::from_nanos(i64::MIN)))
            .min()
    }

    /// Removes and returns a waiting lane of a paced namespace that may be written now; without
    /// `may_retry`, one that has not failed.
    pub(super) fn pop_waiting(
        &mut self,
        now: Monotonic,
        prefer_fresh: bool,
        may_retry: bool,
    ) -> Option<usize> {
        let place = self
            .namespaces
            .iter()
            .position(|namespace| namespace.has_turn(may_retry) && namespace.pacer.allows(now))?;
        let namespace = self.namespaces.get_mut(place)?;
        let (fresh, refused) = (&mut namespace.fresh, &mut namespace.refused);
        let id = if !may_retry {
            fresh.pop_front()
        } else if prefer_fresh {
            fresh.pop_front().or_else(|| refused.pop_front())
        } else {
            refused.pop_front().or_else(|| fresh.pop_front())
        };
        // Namespaces take turns.
        if let Some(rest) = self.namespaces.get_mut(place..) {
            rest.rotate_left(1);
        }
        id
    }

    /// Returns a lane that failed and waits in a paced namespace.
    pub(super) fn any_refused(&self) -> Option<usize> {
        self.namespaces
            .iter()
            .find_map(|namespace| namespace.refused.front().copied())
    }

    /// In each paced namespace, the first waiting lane that has not failed.
    pub(super) fn first_fresh(&self) -> impl Iterator<Item = usize> + '_ {
        self.namespaces
            .iter()
            .filter_map(|namespace| namespace.fresh.front().copied())
    }

    /// Records that a write starts. `namespace` is needed only if there are paced namespaces.
    pub(super) fn note_write(&mut self, now: Monotonic, number: u64, namespace: Option<u64>) {
        if let Some(all) = &mut self.all {
            all.note_write(now, number);
        }
        if let Some(namespace) = namespace.and_then(|hash| self.namespace_mut(hash)) {
            namespace.pacer.note_write(now, number);
        }
    }

    /// Records an answer or failure that says nothing about limits.
    pub(super) fn note_answer(&mut self, number: u64) {
        if let Some(all) = &mut self.all {
            all.forget(number);
        }
        for namespace in &mut self.namespaces {
            namespace.pacer.forget(number);
        }
    }

    /// Records that an event about `object` in `namespace` was written, or refused for another
    /// cause than a rate.
    pub(super) fn admitted(
        &mut self,
        now: Monotonic,
        number: u64,
        (object, namespace): (u64, u64),
    ) {
        let is_new = !self.recent.iter().any(|refusal| refusal.object == object);
        for refusal in &mut self.recent {
            let is_of_namespace = refusal.namespace == namespace;
            refusal.none_admitted = false;
            refusal.none_of_namespace_admitted &= !is_of_namespace;
            let history = &mut refusal.history;
            history.own.add_admitted(refusal.object == object);
            history.others.add_admitted(is_new);
            history
                .others_of_namespace
                .add_admitted(is_new && is_of_namespace);
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

    /// Total refusals.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Whether enough different objects were refused since the total was `refusals`.
    pub(super) fn is_shared_since(&self, refusals: u64) -> bool {
        self.has(self.after, |refusal| {
            refusal.number > refusals && !refusal.excludes_all()
        })
    }

    /// Whether the refused `object` has a limit of its own.
    pub(super) fn is_own(&self, object: u64) -> bool {
        let mut recent = self.recent.iter();
        let Some(own) = recent.find(|refusal| refusal.object == object) else {
            return false;
        };
        own.excludes_all()
            && (own.excludes_namespace()
                || !self.has(self.after, |refusal| refusal.namespace == own.namespace))
    }

    /// Whether a limit that applies to `namespace` is being paced.
    pub(super) fn is_paced(&self, namespace: u64) -> bool {
        self.all.is_some() || self.namespace(namespace).is_some()
    }

    /// When an event under the limits of `namespace` was last admitted, or its pacing began.
    pub(super) fn last_admitted(&self, namespace: u64) -> Option<Monotonic> {
        let namespace = self.namespace(namespace).map(|paced| paced.pacer.admitted);
        namespace.or(self.all.as_ref().map(|all| all.admitted))
    }

    /// Records that an event about `object` in `namespace` was refused for its rate. Intervals are
    /// between `first` and `longest`, and begin at `INTERVAL_FIRST` or more.
    pub(super) fn refused(
        &mut self,
        now: Monotonic,
        number: u64,
        (object, namespace): (u64, u64),
        (first, longest): (Duration, Duration),
    ) {
        let first = first.clamp(INTERVAL_FIRST, INTERVAL_MOST);
        let longest = longest.clamp(first, INTERVAL_MOST);
        let excludes_all = self.note_refusal(now, object, namespace);
        if self.is_own(object) {
            return self.note_answer(number);
        }
        if let Some(paced) = self.namespace_mut(namespace) {
            // The namespace's limit explains the refusal.
            paced.pacer.refused(now, number);
            if let Some(all) = &mut self.all {
                all.forget(number);
            }
            return;
        }
        if let Some(all) = &mut self.all {
            if excludes_all {
                all.forget(number);
            } else {
                all.refused(now, number);
            }
        }
        let is_paced = self.all.is_some();
        // While everything is paced, the limit of a namespace shows by admissions in other
        // namespaces.
        let of_namespace = |refusal: &Refusal| {
            refusal.namespace == namespace
                && refusal.none_of_namespace_admitted
                && !(is_paced && refusal.none_admitted)
                && !refusal.excludes_namespace()
        };
        // While everything is paced, a few refusals in a row are normal.
        let enough = if is_paced { self.after * 3 } else { self.after };
        if self.has(enough, of_namespace) && self.make_place() {
            self.namespaces.push(Namespace {
                hash: namespace,
                pacer: Pacer::new(now, first, longest),
                fresh: VecDeque::new(),
                refused: VecDeque::new(),
            });
            return;
        }
        let of_all = |refusal: &Refusal| refusal.none_admitted && !refusal.excludes_all();
        let mut first_namespace = None;
        let several = self.recent.iter().any(|refusal| {
            of_all(refusal)
                && *first_namespace.get_or_insert(refusal.namespace) != refusal.namespace
        });
        if self.all.is_none()
            && (several || self.namespaces.len() >= NAMESPACES_MAX)
            && self.has(self.after, of_all)
        {
            self.all = Some(Pacer::new(now, first, longest));
        }
    }

    /// Records the refusal of an object; returns whether it shows another limit than one of
    /// everything.
    fn note_refusal(&mut self, now: Monotonic, object: u64, namespace: u64) -> bool {
        self.refusals += 1;
        let mut recent = self.recent.iter();
        let place = recent.position(|refusal| refusal.object == object);
        let earlier = place.and_then(|place| self.recent.remove(place));
        if earlier.is_none() {
            for refusal in &mut self.recent {
                let history = &mut refusal.history;
                history.others.add_refused(true);
                history
                    .others_of_namespace
                    .add_refused(refusal.namespace == namespace);
            }
        }
        let mut refusal = Refusal {
            object,
            namespace,
            number: self.refusals,
            at: now,
            none_admitted: true,
            none_of_namespace_admitted: true,
            history: earlier.map_or_else(History::default, |earlier| earlier.history),
        };
        refusal.history.own.add_refused(true);
        let excludes_all = refusal.excludes_all();
        self.recent.push_back(refusal);
        if self.recent.len() > OBJECTS_MAX {
            self.recent.pop_front();
        }
        excludes_all
    }

    /// Forgets refusals, and ends limits, that are a minute old. Returns the namespaces whose lanes
    /// are to be released.
    pub(super) fn take_ended(&mut self, now: Monotonic) -> Vec<Namespace> {
        while let Some(refusal) = self.recent.front()
            && refusal.at.saturating_add(FORGOTTEN_AFTER) <= now
        {
            self.recent.pop_front();
        }
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

    /// Lets the next writes start at once.
    pub(super) fn shorten(&mut self) {
        let namespaces = self
            .namespaces
            .iter_mut()
            .map(|namespace| &mut namespace.pacer);
        for pacer in self.all.iter_mut().chain(namespaces) {
            pacer.until = Monotonic::from_nanos(i64::MIN);
        }
    }

    /// Removes all waiting lanes.
    pub(super) fn clear(&mut self) {
        self.all = None;
        self.namespaces.clear();
        self.ended.clear();
    }

    /// Whether the last refusals that satisfy `counts` concern at least `objects` objects.
    fn has(&self, objects: usize, counts: impl Fn(&Refusal) -> bool) -> bool {
        let objects = objects.min(OBJECTS_MAX);
        objects > 0 && self.recent.iter().filter(|refusal| counts(refusal)).count() >= objects
    }

    /// Makes room for one more namespace by removing an idle one; returns whether there is room.
    fn make_place(&mut self) -> bool {
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
        self.has_turn(true)
    }

    /// Whether a lane waits; without `may_retry`, one that has not failed.
    fn has_turn(&self, may_retry: bool) -> bool {
        !self.fresh.is_empty() || may_retry && !self.refused.is_empty()
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

    pub(super) fn allows(&self, now: Monotonic) -> bool {
        self.earliest(now) <= now
    }

    /// When a write may start that would otherwise start at `other`. After a refusal, until the
    /// next admission, only one write may be in flight, unless its answer is overdue.
    fn earliest(&self, other: Monotonic) -> Monotonic {
        let earliest = other.max(self.until);
        if self.admitted_in_row > 0 {
            return earliest;
        }
        let last = self.in_flight.iter().map(|(_, started)| *started).max();
        last.map_or(earliest, |started| {
            earliest.max(started.saturating_add(UNANSWERED_AFTER))
        })
    }

    fn is_gone(&self) -> bool {
        self.interval <= INTERVAL_LEAST && self.admitted_in_row >= GONE_AFTER
    }

    fn note_write(&mut self, now: Monotonic, number: u64) {
        self.in_flight.push((number, now));
        self.last = number;
        let behind = Monotonic::from_nanos(
            now.as_nanos()
                .saturating_sub(i64::try_from(CATCH_UP.as_nanos()).unwrap_or(i64::MAX)),
        );
        self.until = self.until.max(behind).saturating_add(self.interval);
    }

    /// Removes a write that was answered; returns whether it was started under this limit.
    fn forget(&mut self, number: u64) -> bool {
        let before = self.in_flight.len();
        self.in_flight.retain(|(other, _)| *other != number);
        self.in_flight.len() < before
    }

    fn admitted(&mut self, now: Monotonic, number: u64) {
        self.admitted = now;
        if !self.forget(number) {
            return;
        }
        if self.refused_in_row == 0 {
            let shorter = self.interval.saturating_sub(self.interval / 10);
            self.interval = shorter.max(INTERVAL_LEAST);
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
            // The server's bucket was empty at the last refusal and is empty now, so the admissions
            // in between show its rate. Writes that used saved tokens would not.
            let nanos = u64::try_from(now.nanos_since(self.refused)).unwrap_or(0);
            let measured = Duration::from_nanos(nanos) / self.admitted_in_row;
            self.interval = self.interval.max(measured.min(self.longest));
        }
        self.refused = now;
        self.admitted_in_row = 0;
        self.refused_in_row = self.refused_in_row.saturating_add(1);
        if self.refused_in_row <= LEARNING_REFUSALS {
            let longer = self.interval.saturating_add(self.interval / 5);
            self.interval = longer.min(self.longest);
        }
        let doublings = (self.refused_in_row - 1).min(20);
        // The first refusal in a row means only that the write was a little early.
        let wait = (self.interval / 2)
            .saturating_mul(1 << doublings)
            .min(self.longest);
        self.until = now.saturating_add(wait);
    }

    fn is_forgotten(&self, now: Monotonic) -> bool {
        self.in_flight.is_empty() && self.until.saturating_add(FORGOTTEN_AFTER) <= now
    }
}
