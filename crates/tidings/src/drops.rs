//! Counts dropped events by cause, for reports and metrics alike. Only queues have their own
//! counts, under their lock: of events without room, and of events whose reader has ended
//! (`mux.rs`).

use std::sync::Arc;

use tidings_core::{DropCause, DropCounts};

use crate::metrics::dropped;
use crate::sync::{Mutex, MutexGuard, lock};

/// Counts of dropped events that several threads may add to.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    counts: Mutex<DropCounts>,
    /// The name of the sink that drops the events, if it is a sink.
    sink: Option<Arc<str>>,
}

impl Drops {
    pub(crate) fn of(sink: Option<Arc<str>>) -> Self {
        Self {
            counts: Mutex::default(),
            sink,
        }
    }

    /// Counts events as dropped; returns how many were dropped for that cause before.
    pub(crate) fn add(&self, cause: DropCause, events: u64) -> u64 {
        if events > 0 {
            dropped(cause, self.sink.as_ref()).increment(events);
        }
        let mut counts = self.lock();
        let before = counts.get(cause);
        counts.add(cause, events);
        before
    }

    pub(crate) fn counts(&self) -> DropCounts {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, DropCounts> {
        lock(&self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_counted_apart() {
        let drops = Drops::default();
        for cause in DropCause::ALL {
            assert_eq!(drops.add(*cause, 0), 0, "{cause}");
            assert_eq!(drops.add(*cause, 2), 0, "{cause}");
            assert_eq!(drops.add(*cause, 1), 2, "{cause}");
        }
        let counts = drops.counts();
        assert!(DropCause::ALL.iter().all(|cause| counts.get(*cause) == 3));
    }
}
