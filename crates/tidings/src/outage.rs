//! Outages of a sink, for its log: when writes stop succeeding, and when they succeed again.
//!
//! A write that fails or hangs while others succeed is no outage. If outages follow each other
//! quickly, at most one a minute is logged; one that outlasts the minute is logged then.

use std::time::Duration;

use tidings_core::Monotonic;

/// Minimum time between two logged outages.
const LOGS_APART: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Outage {
    succeeded: Option<Monotonic>,
    /// When the first write was started that failed or hangs, if none has succeeded since.
    began: Option<Monotonic>,
    /// Whether this outage was logged.
    is_logged: bool,
    /// When an outage was last logged.
    logged: Option<Monotonic>,
}

impl Outage {
    /// Records that a write started at `started` has failed or hangs; returns whether to log the
    /// begin of an outage.
    pub(crate) fn failed(&mut self, now: Monotonic, started: Monotonic) -> bool {
        if self.succeeded.is_some_and(|succeeded| succeeded > started) {
            return false;
        }
        self.began.get_or_insert(started);
        let is_due = self
            .logged
            .is_none_or(|logged| logged.saturating_add(LOGS_APART) <= now);
        let logs = is_due && !self.is_logged;
        if logs {
            self.is_logged = true;
            self.logged = Some(now);
        }
        logs
    }

    /// Records that a write has succeeded; returns the duration of the outage that this ends, if
    /// its begin was logged.
    pub(crate) fn succeeded(&mut self, now: Monotonic) -> Option<Duration> {
        self.succeeded = Some(now);
        let began = self.began.take();
        let is_logged = std::mem::take(&mut self.is_logged);
        let nanos = now.nanos_since(began.filter(|_| is_logged)?);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    /// A failure at a time, of a write that was started then, and whether it is logged; or a
    /// success, and the seconds of the outage that it ends.
    #[test]
    fn every_outage_that_lasts_is_logged_once() {
        enum Step {
            Failed(i64, bool),
            Succeeded(i64, Option<u64>),
        }
        use Step::{Failed, Succeeded};
        let mut outage = Outage::default();
        for step in [
            Failed(0, true),
            Failed(1, false),
            Succeeded(2, Some(2)),
            // An outage within the minute is logged when the minute is over.
            Failed(30, false),
            Failed(100, true),
            Failed(200, false),
            Succeeded(600, Some(570)),
            // A short one is not.
            Failed(610, true),
            Succeeded(611, Some(1)),
            Failed(620, false),
            Succeeded(621, None),
            Succeeded(622, None),
        ] {
            match step {
                Failed(second, logs) => {
                    assert_eq!(outage.failed(at(second), at(second)), logs, "{second}");
                }
                Succeeded(second, ended) => {
                    let ended = ended.map(Duration::from_secs);
                    assert_eq!(outage.succeeded(at(second)), ended, "{second}");
                }
            }
        }
    }

    #[test]
    fn a_write_that_fails_while_others_succeed_is_no_outage() {
        let mut outage = Outage::default();
        outage.succeeded(at(10));
        assert!(!outage.failed(at(12), at(9)));
        assert_eq!(outage.succeeded(at(13)), None);
        assert!(outage.failed(at(15), at(13)));
    }
}
