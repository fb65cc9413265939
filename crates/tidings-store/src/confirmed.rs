//! Up to when the clock can be believed, for what cannot be taken back: a record's end is written
//! down by this time.
//!
//! The clock is compared with the time that passes. What it is ahead of that is its *lead*, which
//! changes when the clock is set, and then only. The confirmed time is the time that has passed
//! plus the least lead of the last one to two [`PERIOD`]s. So
//!
//! - while the clock is not set it is the clock's time, without a delay;
//! - a clock that is set ahead is believed when it has stayed so for one period at least and two at
//!   most; until then the confirmed time advances as if the clock had not been set;
//! - a clock that is set back is believed at once, for then fewer records are over.
//!
//! Time in which the machine was suspended counts as set ahead. So does the time between two
//! processes; see [`resume`].
//!
//! [`resume`]: Confirmed::resume

use std::time::Duration;

use crate::UnixMillis;
use crate::clock::Reading;

/// How long a clock that was set ahead must stay so at least before it is believed; at most it
/// takes twice as long.
pub(crate) const PERIOD: Duration = Duration::from_secs(30);

/// By how much the clock must be ahead of the confirmed time for that to be logged.
const TOLD_MILLIS: u64 = 2_000;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Confirmed {
    /// The least lead of the last whole period, in milliseconds.
    before: i64,
    /// The least lead of this one so far.
    current: i64,
    /// When this one began.
    since: Duration,
    /// Whether it was logged that the clock is ahead.
    told: bool,
}

impl Confirmed {
    /// The clock is believed as it is: there is nothing yet that could end by it.
    pub(crate) fn begin(now: Reading) -> Self {
        Self::resume(Some(now.wall), now)
    }

    /// Continues from what was confirmed before this process, if that is known. The clock is
    /// believed a period later.
    pub(crate) fn resume(reached: Option<UnixMillis>, now: Reading) -> Self {
        Self {
            before: reached.map_or(i64::MIN, |wall| Reading { wall, ..now }.lead()),
            current: now.lead(),
            since: now.steady,
            // That a process begins is nothing to warn of.
            told: true,
        }
    }

    /// Takes note of the clock; returns the confirmed time, which is never ahead of it.
    pub(crate) fn at(&mut self, now: Reading) -> UnixMillis {
        let lead = now.lead();
        if now.steady.saturating_sub(self.since) >= PERIOD {
            (self.before, self.current, self.since) = (self.current, lead, now.steady);
        }
        self.current = self.current.min(lead);
        let confirmed = self.before.min(self.current);
        let confirmed = UnixMillis(confirmed.saturating_add(now.steady_millis()));
        self.tell(now.wall, confirmed);
        confirmed
    }

    /// Logs when ends begin to wait, and when they no longer do.
    fn tell(&mut self, wall: UnixMillis, confirmed: UnixMillis) {
        let ahead_millis = wall.0.abs_diff(confirmed.0);
        let is_ahead = ahead_millis > TOLD_MILLIS;
        if is_ahead && !self.told {
            tracing::warn!(
                ahead_millis,
                "the clock is ahead of the time that passed since it was last believed; records that are over by it alone \
                 are hidden, and their ends are written down when it has stayed so for half a minute to a minute"
            );
        }
        if self.told && !is_ahead {
            tracing::info!(
                "the clock is believed; the ends of records are written down as they come"
            );
        }
        self.told = is_ahead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_700_000_000_000;
    const HOUR: i64 = 3_600_000;
    const PERIOD_MILLIS: i64 = 30_000;

    /// A clock whose steady time and lead are set by hand.
    fn reading(steady: i64, set_by: i64) -> Reading {
        Reading {
            wall: UnixMillis(START + steady + set_by),
            steady: Duration::from_millis(steady.cast_unsigned()),
        }
    }

    fn believed(confirmed: &mut Confirmed, steady: i64, set_by: i64) -> bool {
        let now = reading(steady, set_by);
        let at = confirmed.at(now);
        assert!(at <= now.wall, "it is never ahead of the clock");
        at == now.wall
    }

    #[test]
    fn a_clock_that_is_not_set_is_believed_at_once() {
        let mut confirmed = Confirmed::begin(reading(7, 0));
        // Also after a long time without a reading.
        for steady in [7, 8, 1000, 29_999, 31_000, 100_000, 100 * HOUR] {
            assert!(believed(&mut confirmed, steady, 0));
        }
    }

    #[test]
    fn a_second_ahead_confirms_nothing() {
        let mut confirmed = Confirmed::begin(reading(0, 0));
        for steady in (0..200_000).step_by(1000) {
            let ahead = if steady % 10_000 == 0 { 1000 * HOUR } else { 0 };
            let at = confirmed.at(reading(steady, ahead));
            assert_eq!(at, UnixMillis(START + steady));
        }
    }

    #[test]
    fn a_clock_that_stays_ahead_is_believed_in_one_to_two_periods() {
        for set_at in (1000..61_000).step_by(1000) {
            let mut confirmed = Confirmed::begin(reading(0, 0));
            let mut believed_at = None;
            for steady in (0..200_000).step_by(1000) {
                let ahead = if steady >= set_at { HOUR } else { 0 };
                let is_believed = believed(&mut confirmed, steady, ahead);
                if steady >= set_at && is_believed {
                    believed_at.get_or_insert(steady - set_at);
                }
                assert_eq!(is_believed, steady < set_at || believed_at.is_some());
            }
            let took = believed_at.unwrap();
            assert!(
                (PERIOD_MILLIS..=2 * PERIOD_MILLIS).contains(&took),
                "{took}"
            );
        }
    }

    #[test]
    fn a_clock_that_is_set_back_is_believed_at_once_and_ahead_again_later() {
        let mut confirmed = Confirmed::begin(reading(0, 0));
        assert!(believed(&mut confirmed, 1000, -HOUR));
        assert!(!believed(&mut confirmed, 2000, 0));
        for steady in (3000..62_000).step_by(1000) {
            confirmed.at(reading(steady, 0));
        }
        assert!(believed(&mut confirmed, 62_000, 0));
    }

    #[test]
    fn a_new_process_goes_on_where_the_last_one_was() {
        let reached = UnixMillis(START);
        let mut confirmed = Confirmed::resume(Some(reached), reading(100, HOUR));
        // The time in between is not known to have passed, the time from here on is.
        assert_eq!(confirmed.at(reading(600, HOUR)), UnixMillis(START + 500));
        assert!(!believed(&mut confirmed, 30_000, HOUR));
        assert!(believed(&mut confirmed, 30_100, HOUR));
        // Without it nothing is over before.
        let mut confirmed = Confirmed::resume(None, reading(0, 0));
        assert!(confirmed.at(reading(29_999, 0)).0 < 0);
        assert!(believed(&mut confirmed, 30_000, 0));
    }

    proptest! {
        /// Whatever the clock does: what it did not say for a period at least is not confirmed.
        #[test]
        fn only_what_the_clock_said_for_a_period_is_confirmed(
            steps in proptest::collection::vec((1..20_000i64, -HOUR..HOUR), 1..60),
        ) {
            let mut confirmed = Confirmed::begin(reading(0, 0));
            let (mut steady, mut said) = (0, vec![(0, 0)]);
            for (passed, set_by) in steps {
                steady += passed;
                said.push((steady, set_by));
                let at = confirmed.at(reading(steady, set_by)).0 - START - steady;
                let of_late = said.iter().filter(|(when, _)| *when > steady - PERIOD_MILLIS);
                let least = of_late.map(|(_, set_by)| *set_by).min().unwrap();
                prop_assert!(at <= least, "{at} > {least}");
            }
        }
    }
}
