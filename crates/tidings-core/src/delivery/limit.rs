//! A limit on the rate of events that is shared by all of them: of a whole server, a namespace or a
//! user. Waiting events are then written one at a time, as fast as the server admits them.
//!
//! A limit on the events about one object refuses only those: each is tried at its own pace
//! ([`RetryPolicy::rate_limited_tries_max`](crate::RetryPolicy)) and delays no others. A refusal is
//! attributed to a shared limit when events about several different objects were refused since the
//! same event was last tried. If none was admitted in between, writes are spaced out.
//!
//! ```text
//!   not limited ──(several objects refused in a row)──▶ paced: one write, then a gap
//!        ▲                                                │  as many refused in a row: twice the gap
//!        └────────(the gap is a 64th of the first)────────┘  one admitted: half the gap
//! ```
//!
//! Invariant: the gap is never longer than the longest wait of the back-off, or `GAP_MIN` where
//! that is longer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Monotonic;

/// The limit is over when the gap is this part of the shortest wait: where that is the first gap,
/// it was halved six times more often than doubled.
const ENDS_AT: u32 = 64;

/// The shortest first gap: with a back-off that need not wait at all, requests would follow each
/// other as fast as they are refused.
const GAP_MIN: Duration = Duration::from_millis(250);

/// Maximum number of objects that are distinguished.
const OBJECTS_MAX: usize = 64;

pub(super) struct Limit {
    /// The number of refused objects that show a shared limit; 0 for never.
    after: usize,
    /// Refusals so far.
    refusals: u64,
    /// The objects refused last, as hashes, each with the number of its last refusal: oldest
    /// first, at most `after`.
    objects: VecDeque<(u64, u64)>,
    /// The number of refusals when an event was last admitted.
    admitted_at: u64,
    paced: Option<Paced>,
}

struct Paced {
    /// When the next write may start.
    until: Monotonic,
    /// The write in flight.
    write: Option<u64>,
    gap: Duration,
    /// The limit is over when the gap is at or below this.
    least: Duration,
    /// Refusals since the gap last changed.
    refusals: usize,
}

impl Limit {
    pub(super) fn new(after_keys: u32) -> Self {
        Self {
            after: usize::try_from(after_keys).map_or(OBJECTS_MAX, |keys| keys.min(OBJECTS_MAX)),
            refusals: 0,
            objects: VecDeque::new(),
            admitted_at: 0,
            paced: None,
        }
    }

    pub(super) fn is_paced(&self) -> bool {
        self.paced.is_some()
    }

    /// Whether a write may start.
    pub(super) fn allows(&self, now: Monotonic) -> bool {
        let paced = self.paced.as_ref();
        paced.is_none_or(|paced| paced.write.is_none() && paced.until <= now)
    }

    /// When a write may start that could otherwise start at `other`; `None` while the write in
    /// flight decides.
    pub(super) fn earliest(&self, other: Monotonic) -> Option<Monotonic> {
        match &self.paced {
            None => Some(other),
            Some(paced) if paced.write.is_some() => None,
            Some(paced) => Some(other.max(paced.until)),
        }
    }

    pub(super) fn note_write(&mut self, number: u64) {
        if let Some(paced) = &mut self.paced {
            paced.write = Some(number);
        }
    }

    /// A write is answered or failed.
    pub(super) fn note_answer(&mut self, now: Monotonic, number: u64) {
        if let Some(paced) = &mut self.paced
            && paced.write == Some(number)
        {
            paced.write = None;
            paced.until = now.saturating_add(paced.gap);
        }
    }

    /// No limit kept an event from being written.
    pub(super) fn admitted(&mut self, now: Monotonic) {
        self.admitted_at = self.refusals;
        if let Some(paced) = &mut self.paced {
            paced.refusals = 0;
            paced.gap /= 2;
            paced.until = now.saturating_add(paced.gap);
            if paced.gap <= paced.least {
                self.paced = None;
            }
        }
    }

    /// The number of refusals so far.
    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Whether enough different objects were refused after this number of refusals.
    pub(super) fn is_shared_since(&self, refusals: u64) -> bool {
        let since = |(_, last): &(u64, u64)| *last > refusals;
        self.after > 0
            && self.objects.len() == self.after
            && self.objects.front().is_some_and(since)
    }

    /// An event about `object` was refused for its rate. The gap is between `first` and `longest`,
    /// but begins with `GAP_MIN` at least.
    pub(super) fn refused(
        &mut self,
        now: Monotonic,
        object: u64,
        first: Duration,
        longest: Duration,
    ) {
        let least = first / ENDS_AT;
        let first = first.max(GAP_MIN);
        let longest = longest.max(first);
        self.refusals += 1;
        if let Some(paced) = &mut self.paced {
            paced.refusals += 1;
            if paced.refusals >= self.after {
                paced.refusals = 0;
                paced.gap = paced.gap.saturating_mul(2).min(longest);
                paced.until = now.saturating_add(paced.gap);
            }
        }
        self.objects.retain(|(other, _)| *other != object);
        self.objects.push_back((object, self.refusals));
        if self.objects.len() > self.after {
            self.objects.pop_front();
        }
        if self.paced.is_none() && self.is_shared_since(self.admitted_at) {
            self.paced = Some(Paced {
                until: now.saturating_add(first),
                write: None,
                gap: first,
                least,
                refusals: 0,
            });
        }
    }

    /// Lets the next write go at once.
    pub(super) fn shorten(&mut self) {
        if let Some(paced) = &mut self.paced {
            paced.until = Monotonic::from_nanos(i64::MIN);
        }
    }
}
