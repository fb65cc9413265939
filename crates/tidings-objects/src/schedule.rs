//! When a cluster is sealed.

use std::time::Duration;

/// When to seal, however few versions are pending.
#[derive(Default)]
pub(crate) struct Schedule {
    /// When the last successful attempt began; `None` after a failure or without any attempt. After
    /// a failure the next attempt is due at once: otherwise its versions would wait a whole
    /// interval more, and be reported as not sealed for as long.
    sealed_at: Option<Duration>,
}

impl Schedule {
    pub(crate) fn is_due(&self, now: Duration, interval: Duration) -> bool {
        let sealed_at = self.sealed_at;
        sealed_at.is_none_or(|at| now >= interval.saturating_add(at))
    }

    /// Notes the end of an attempt that began at `began`.
    pub(crate) fn ended(&mut self, began: Duration, is_sealed: bool) {
        self.sealed_at = is_sealed.then_some(began);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An early attempt, made because many versions are pending, may fail when few of them are
    /// left.
    #[test]
    fn an_attempt_to_seal_that_failed_is_made_again_whenever_the_one_before_was() {
        let (seconds, interval) = (Duration::from_secs, Duration::from_secs(60));
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(seconds(0), interval));
        schedule.ended(seconds(1), true);
        assert!(!schedule.is_due(seconds(60), interval));
        assert!(schedule.is_due(seconds(61), interval));
        schedule.ended(seconds(30), false);
        assert!(schedule.is_due(seconds(31), interval));
        schedule.ended(seconds(45), true);
        assert!(!schedule.is_due(seconds(46), interval));
    }
}
