//! Refreshes: writes of counts that would otherwise stay behind, because the spam filter holds
//! repeats back or because a series is written rarely.
//!
//! A count that is behind is written when it is unchanged for five seconds. It is also written when
//! it has doubled since its last write, half a minute after that write. Refreshes of one event are
//! at least half a minute apart. All events of a sink share a budget: 100 refreshes at once, and
//! one more each second. Without budget, counts wait in the order in which they were due, and a
//! refresh writes all that was counted meanwhile.
//!
//! Invariant: the queue has at most one entry for each count that is behind, in order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Monotonic;
use crate::key::Key;

/// A count that is unchanged for this long is written.
const QUIET: Duration = Duration::from_secs(5);

/// Minimum time between two refreshes of one event.
const APART: Duration = Duration::from_secs(30);

/// Time in which the budget of a sink grows by one refresh.
const BUDGET_GAP: Duration = Duration::from_secs(1);

/// The maximum budget: refreshes that may follow each other at once.
const BUDGET_MAX: u32 = 100;

/// A key of the queue: the due time, and a number that makes it unique.
pub(super) type Due = (Monotonic, u64);

/// How far the stored count of one event is behind the counted one.
pub(super) struct Staleness {
    /// The count's key in the queue; `None` if it is not queued.
    pub(super) due: Option<Due>,
    /// The last count that was handed out, and when.
    written: (i32, Monotonic),
    /// When a refresh was last handed out.
    refreshed: Option<Monotonic>,
}

impl Staleness {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            due: None,
            written: (0, now),
            refreshed: None,
        }
    }

    /// Records that a write with `count` is handed out.
    pub(super) fn note_write(&mut self, now: Monotonic, count: i32) {
        self.written = (count, now);
    }

    /// Records that a refresh with `count` is handed out.
    pub(super) fn note_refresh(&mut self, now: Monotonic, count: i32) {
        self.note_write(now, count);
        self.refreshed = Some(now);
    }

    /// When `count`, last seen at `last_seen`, is due to be written if it does not change.
    pub(super) fn due_at(&self, last_seen: Monotonic, count: i32) -> Monotonic {
        let quiet = last_seen.saturating_add(QUIET);
        let quiet = self.refreshed.map_or(quiet, |refreshed| {
            quiet.max(refreshed.saturating_add(APART))
        });
        let (written, at) = self.written;
        if count >= written.saturating_mul(2) {
            quiet.min(at.saturating_add(APART))
        } else {
            quiet
        }
    }
}

/// When a count is written again whose write failed at `now`.
pub(super) fn retry_at(now: Monotonic) -> Monotonic {
    now.saturating_add(APART)
}

/// The queue of a sink's counts that are behind, and the budget for their refreshes.
pub(super) struct Refreshes {
    queue: BTreeMap<Due, Key>,
    entries_max: usize,
    last: u64,
    /// When the budget reaches its maximum again.
    full_at: Monotonic,
}

impl Refreshes {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            queue: BTreeMap::new(),
            entries_max,
            last: 0,
            full_at: Monotonic::from_nanos(i64::MIN),
        }
    }

    /// Queues a count that is behind, unless it is queued already or the queue is full.
    pub(super) fn arm(&mut self, stale: &mut Staleness, at: Monotonic, key: Key) {
        if stale.due.is_none() && self.queue.len() < self.entries_max {
            self.last += 1;
            let due = (at, self.last);
            stale.due = Some(due);
            self.queue.insert(due, key);
        }
    }

    /// Removes a count from the queue.
    pub(super) fn disarm(&mut self, stale: &mut Staleness) {
        if let Some(due) = stale.due.take() {
            self.queue.remove(&due);
        }
    }

    /// When to call [`Refreshes::pop`] next.
    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        let (due, _) = self.queue.first_key_value()?;
        Some(due.0.max(self.earliest()))
    }

    /// Removes and returns the first queued count, if it is due and the budget allows a refresh.
    pub(super) fn pop(&mut self, now: Monotonic) -> Option<(Due, Key)> {
        let earliest = self.earliest();
        let entry = self.queue.first_entry()?;
        (entry.key().0 <= now && earliest <= now).then(|| entry.remove_entry())
    }

    /// Removes and returns the first queued count, due or not.
    pub(super) fn pop_any(&mut self) -> Option<(Due, Key)> {
        self.queue.pop_first()
    }

    /// Takes one refresh from the budget.
    pub(super) fn spend(&mut self, now: Monotonic) {
        self.full_at = self.full_at.max(now).saturating_add(BUDGET_GAP);
    }

    /// When the budget allows the next refresh.
    fn earliest(&self) -> Monotonic {
        let budget = nanos(BUDGET_GAP * BUDGET_MAX);
        let next = self.full_at.saturating_add(BUDGET_GAP);
        Monotonic::from_nanos(next.as_nanos().saturating_sub(budget))
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
