//! The order in which lanes are written.

use std::hash::{BuildHasher, Hasher};

use super::lane::{State, Wait};
use super::{Deliverable, Delivery};
use crate::Monotonic;

impl<T: Deliverable> Delivery<T> {
    /// Returns the lane whose turn it is.
    ///
    /// Events that failed take every other turn. Among these, events refused for their rate take
    /// every other turn. While everything is paced, turns are drawn at random, because refusals may
    /// come as regularly as turns. A probe is an event that was not tried yet, if there is one:
    /// perhaps only the events that failed are refused.
    pub(super) fn next_lane(&mut self, now: Monotonic) -> Option<usize> {
        let is_paced = self.limits.all().is_some();
        let turn = if is_paced {
            self.random.u64(..)
        } else {
            self.stats.writes
        };
        let fresh_first = self.pause.is_open() || turn.is_multiple_of(2);
        if !(self.pause.is_open() || is_paced && fresh_first)
            && let Some(id) = self.next_paced(now)
        {
            return Some(id);
        }
        if fresh_first && let Some(id) = self.next_ready() {
            return Some(id);
        }
        let failed = if !self.may_retry() {
            None
        } else if (turn / 2).is_multiple_of(2) {
            self.refused.pop_front().or_else(|| self.next_again())
        } else {
            self.next_again().or_else(|| self.refused.pop_front())
        };
        failed
            .or_else(|| self.next_ready())
            .or_else(|| self.next_paced(now))
    }

    /// The next lane whose head has not failed and whose namespace is not paced.
    fn next_ready(&mut self) -> Option<usize> {
        while let Some(id) = self.ready.pop_front() {
            if !self.hold(id) {
                return Some(id);
            }
        }
        None
    }

    /// The next lane whose head is retried and whose namespace is not paced.
    fn next_again(&mut self) -> Option<usize> {
        while let Some(id) = self.again.pop_front() {
            if !self.hold(id) {
                return Some(id);
            }
        }
        None
    }

    /// The next lane of a paced namespace that may be written now.
    fn next_paced(&mut self, now: Monotonic) -> Option<usize> {
        if !self.limits.has_namespaces() {
            return None;
        }
        let prefer_fresh = self.random.bool();
        let may_retry = self.may_retry();
        self.limits.pop_waiting(now, prefer_fresh, may_retry)
    }

    /// Moves a lane to the queue of its namespace, if that is paced; returns whether it is.
    fn hold(&mut self, id: usize) -> bool {
        if !self.limits.has_namespaces() {
            return false;
        }
        let Some(hash) = self.namespace_of(id) else {
            return false;
        };
        let Some(namespace) = self.limits.namespace_mut(hash) else {
            return false;
        };
        let Some(lane) = self.lanes.get_mut(id) else {
            return false;
        };
        lane.state = State::Held(hash);
        if lane.failures == 0 {
            namespace.fresh.push_back(id);
        } else {
            namespace.refused.push_back(id);
        }
        true
    }

    /// The hashes of the object that a lane's head is about, and of its namespace.
    pub(super) fn about(&self, id: usize) -> (u64, u64) {
        let mut hasher = self.by_key.hasher().build_hasher();
        if let Some(lane) = self.lanes.get(id) {
            lane.head.occurrence.hash_regarding(&mut hasher);
        }
        let namespace = self.namespace_of(id).unwrap_or_default();
        (hasher.finish(), namespace)
    }

    /// The hash of the namespace of a lane's head.
    pub(super) fn namespace_of(&self, id: usize) -> Option<u64> {
        let lane = self.lanes.get(id)?;
        let mut hasher = self.by_key.hasher().build_hasher();
        lane.head.occurrence.hash_namespace(&mut hasher);
        Some(hasher.finish())
    }

    /// Whether one more failed event may be written. Failed events have at most half of the
    /// workers, even if no other event is ready, because the next new event must not wait for their
    /// timeouts. While draining no new events come, and retries may use all workers.
    pub(super) fn may_retry(&self) -> bool {
        if self.draining && self.ready.is_empty() {
            return true;
        }
        let most = (self.options.workers / 2).max(1);
        let has_failed = |id: &&usize| self.lanes.get(**id).is_some_and(|lane| lane.failures > 0);
        self.in_flight.len() < most || self.in_flight.iter().filter(has_failed).count() < most
    }

    /// Moves the lanes whose wait is over to the lanes that are retried.
    pub(super) fn wake(&mut self, now: Monotonic) {
        if !self.limits.is_idle() {
            for namespace in self.limits.take_ended(now) {
                for id in namespace.fresh {
                    if let Some(lane) = self.lanes.get_mut(id) {
                        lane.state = State::Ready;
                        self.ready.push_back(id);
                    }
                }
                for id in namespace.refused {
                    self.try_again(id);
                }
            }
        }
        if self.limits.all().is_none() {
            for id in std::mem::take(&mut self.refused) {
                self.try_again(id);
            }
        }
        while let Some((until, id)) = self.waiting.first().copied() {
            if until > now {
                break;
            }
            self.waiting.pop_first();
            self.try_again(id);
        }
    }

    /// Queues a lane that failed behind the others that did.
    pub(super) fn try_again(&mut self, id: usize) {
        if let Some(lane) = self.lanes.get_mut(id) {
            lane.state = State::Again;
            self.again.push_back(id);
        }
    }

    /// Ends the wait of every lane whose reason satisfies `ends`.
    pub(super) fn end_waits(&mut self, ends: impl Fn(Wait) -> bool) {
        for (until, id) in std::mem::take(&mut self.waiting) {
            match self.lanes.get(id).map(|lane| lane.state) {
                Some(State::Waiting { why, .. }) if !ends(why) => {
                    self.waiting.insert((until, id));
                }
                _ => self.try_again(id),
            }
        }
    }
}
