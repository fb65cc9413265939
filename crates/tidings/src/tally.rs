//! Counts what became of one task's events, while other threads read the counts.
//!
//! Invariant: whoever sees an event as settled also sees it as offered. `tests/loom_mux.rs` tests
//! this with every order in which threads may see each other's writes.

use tidings_core::DropCounts;

use crate::mux::QueueCounts;
use crate::sync::{AtomicU64, Ordering};

/// The outcomes of one task's events, without those that were dropped.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Events of an earlier process, recovered from disk.
    recovered: AtomicU64,
    delivered: AtomicU64,
    aggregated: AtomicU64,
    filtered: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tallied {
    pub(crate) offered: u64,
    pub(crate) delivered: u64,
    pub(crate) aggregated: u64,
    pub(crate) filtered: u64,
    pub(crate) dropped: DropCounts,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            recovered: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            aggregated: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
        }
    }

    /// Counts events that an earlier process left on disk as offered to this task.
    pub(crate) fn recovered(&self, number: u64) {
        self.recovered.fetch_add(number, Ordering::Release);
    }

    pub(crate) fn delivered(&self, number: u64) {
        self.delivered.fetch_add(number, Ordering::Release);
    }

    pub(crate) fn aggregated(&self, number: u64) {
        self.aggregated.fetch_add(number, Ordering::Release);
    }

    pub(crate) fn filtered(&self, number: u64) {
        self.filtered.fetch_add(number, Ordering::Release);
    }

    /// The counts together with those of the task's queue; `dropped` are the task's own drops.
    pub(crate) fn read(&self, queue: &QueueCounts, mut dropped: DropCounts) -> Tallied {
        let delivered = self.delivered.load(Ordering::Acquire);
        let aggregated = self.aggregated.load(Ordering::Acquire);
        let filtered = self.filtered.load(Ordering::Acquire);
        dropped.merge(&queue.drops());
        // Read last: what was read before was stored after the event was counted as offered.
        let offered = queue.offered() + self.recovered.load(Ordering::Acquire);
        Tallied {
            offered,
            delivered,
            aggregated,
            filtered,
            dropped,
        }
    }
}
