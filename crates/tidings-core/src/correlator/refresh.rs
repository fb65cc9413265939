//! Refreshes: writes of counts that would otherwise stay behind, because the spam filter holds the
//! repeats back or because a series is written seldom.
//!
//! A count that is behind is written when it has not changed for five seconds, or has doubled since
//! it was last written, half a minute after that; refreshes of one event are half a minute apart.
//! All events of a sink share a budget: 100 refreshes at once, and one each second. Beyond it, the
//! count that was due first is written first, with all that came meanwhile.
//!
//! Invariant: the queue has at most one entry for each count that is behind, and one look finds the
//! first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Monotonic;
use crate::key::Key;

/// A count that has not changed for this long is written.
const QUIET: Duration = Duration::from_secs(5);

/// Refreshes of one event are at least this far apart.
const APART: Duration = Duration::from_secs(30);

/// The budget of a sink grows by one refresh in this time.
const BUDGET_GAP: Duration = Duration::from_secs(1);

/// The maximum budget.
const BUDGET_MAX: u32 = 100;

/// A place in the queue.
pub(super) type Due = (Monotonic, u64);

/// How far the stored count of one event is behind.
pub(super) struct Staleness {
    /// Its place in the queue.
    pub(super) due: Option<Due>,
    /// The count that was last handed out, and when.
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

    /// The count is handed out.
    pub(super) fn note_write(&mut self, now: Monotonic, count: i32) {
        self.written = (count, now);
    }

    /// The same by a refresh.
    pub(super) fn note_refresh(&mut self, now: Monotonic, count: i32) {
        self.note_write(now, count);
        self.refreshed = Some(now);
    }

    /// When `count`, last seen at `last_seen`, is to be written, if it stays as it is.
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

/// The counts of one sink that are behind, and the budget for their refreshes.
pub(super) struct Refreshes {
    queue: BTreeMap<Due, Key>,
    entries_max: usize,
    last: u64,
    /// When the budget is full again.
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

    /// Queues a count that is behind, unless it is queued already, or the queue is full.
    pub(super) fn arm(&mut self, stale: &mut Staleness, at: Monotonic, key: Key) {
        if stale.due.is_none() && self.queue.len() < self.entries_max {
            self.last += 1;
            let due = (at, self.last);
            stale.due = Some(due);
            self.queue.insert(due, key);
        }
    }

    /// Takes a count out of the queue.
    pub(super) fn disarm(&mut self, stale: &mut Staleness) {
        if let Some(due) = stale.due.take() {
            self.queue.remove(&due);
        }
    }

    /// When to call [`Refreshes::pop`].
    pub(super) fn poll_timeout(&self) -> Option<Monotonic> {
        let (due, _) = self.queue.first_key_value()?;
        Some(due.0.max(self.earliest()))
    }

    /// The next count to look at, if one is due and the budget allows it.
    pub(super) fn pop(&mut self, now: Monotonic) -> Option<(Due, Key)> {
        let earliest = self.earliest();
        let entry = self.queue.first_entry()?;
        (entry.key().0 <= now && earliest <= now).then(|| entry.remove_entry())
    }

    /// Any count that is queued.
    pub(super) fn pop_any(&mut self) -> Option<(Due, Key)> {
        self.queue.pop_first()
    }

    /// A refresh is handed out.
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
