//! The confirmed time: the time up to which the machine's clock is believed.
//!
//! An expiry cannot be undone once it is written, so it is written by the confirmed time and not by
//! the clock.
//!
//! The clock's *lead* is wall time minus monotonic time. It changes only when the clock is set. The
//! confirmed time is the monotonic time plus the least lead of the last one to two [`PERIOD`]s.
//! Therefore:
//!
//! - While nobody sets the clock, the confirmed time equals the clock's time, without delay.
//! - A clock that is set ahead is believed after it has stayed ahead for one to two periods. Until
//!   then the confirmed time advances as if the clock had not been set.
//! - A clock that is set back is believed at once, because fewer records are expired by it.
//!
//! A caller that knows other clocks may set an upper bound. The confirmed time is then not later
//! than the bound, which advances with monotonic time.
//!
//! The time for which the machine was suspended counts as the clock being set ahead. So does the
//! time between two processes. A process stores the confirmed time and its candidate ([`Belief`])
//! for the next process, so several processes that each run for less than a period complete it
//! together. Only time in which a process ran and read the clock counts.

use std::time::Duration;

use crate::UnixMillis;
use crate::clock::Reading;

/// Minimum time that a clock must stay ahead before it is believed. The maximum is twice as long.
pub(crate) const PERIOD: Duration = Duration::from_secs(30);

/// Milliseconds between clock and confirmed time from which expiries count as delayed.
const WAITING_MILLIS: u64 = 2_000;

/// The state that a process stores for the next process. Its times are wall times at the moment it
/// was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    /// The confirmed time; `None` if no time was confirmed yet.
    pub(crate) confirmed: Option<UnixMillis>,
    /// The time that may be confirmed next; `None` unless expiries wait for it.
    pub(crate) candidate: Option<Candidate>,
}

/// The earliest wall time of the current period, which may be confirmed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) wall: UnixMillis,
    /// Running time during which the clock has not shown an earlier time.
    pub(crate) held: Duration,
}

/// The time up to which the store believes its clock; see the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Confirmed {
    /// The least lead of the last whole period, in milliseconds; `None` before the first.
    before: Option<i64>,
    /// The least lead of the current period so far, in milliseconds.
    current: i64,
    /// Start of the current period, in milliseconds of monotonic time. It is negative if an earlier
    /// process began the period.
    since: i64,
    /// The greatest lead that is believed, in milliseconds; `None` means no bound.
    bound: Option<i64>,
    told: Told,
}

/// The last state of the clock that was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The clock was believed at the last reading.
    Believed,
    /// The clock has been ahead since the process began, which is not logged.
    Nothing,
    /// The clock is ahead, and a warning was logged.
    Ahead,
}

impl Confirmed {
    /// Believes the clock at once, for a new store: it has no record that could expire.
    pub(crate) fn begin(now: Reading) -> Self {
        let belief = Belief {
            confirmed: Some(now.wall),
            candidate: None,
        };
        Self {
            told: Told::Believed,
            ..Self::resume(Some(belief), now)
        }
    }

    /// Continues from the state that the last process stored, if there is one.
    pub(crate) fn resume(belief: Option<Belief>, now: Reading) -> Self {
        let lead_of = |wall| Reading { wall, ..now }.lead();
        let candidate = belief.and_then(|belief| belief.candidate);
        let current = candidate.map_or(now.lead(), |candidate| lead_of(candidate.wall));
        let held = candidate.map_or(0, |candidate| millis(candidate.held));
        Self {
            before: belief.and_then(|belief| belief.confirmed).map(lead_of),
            current: current.min(now.lead()),
            since: now.steady_millis().saturating_sub(held),
            bound: None,
            told: Told::Nothing,
        }
    }

    /// Takes a reading of the clock and returns the confirmed time. The confirmed time is never
    /// later than the reading.
    pub(crate) fn at(&mut self, now: Reading) -> UnixMillis {
        let (lead, steady) = (now.lead(), now.steady_millis());
        if steady.saturating_sub(self.since) >= millis(PERIOD) {
            (self.before, self.current, self.since) = (Some(self.current), lead, steady);
        }
        self.current = self.current.min(lead);
        let confirmed = self.time(now).unwrap_or(UnixMillis(i64::MIN));
        self.tell(now.wall, confirmed);
        confirmed
    }

    /// Sets the latest time that is believed, which advances with monotonic time. `None` removes
    /// the bound.
    pub(crate) fn bound(&mut self, time: Option<UnixMillis>, now: Reading) {
        self.bound = time.map(|wall| Reading { wall, ..now }.lead());
    }

    /// The state for the next process, as of the last reading.
    pub(crate) fn belief(&self, now: Reading) -> Belief {
        let confirmed = self.time(now);
        let is_waiting = confirmed.is_none_or(|confirmed| is_ahead(now.wall, confirmed));
        let steady = now.steady_millis();
        // The next process starts without a bound. With one set now, the time the clock was ahead
        // must not count for it.
        let is_bounded = self.bound.is_some_and(|bound| bound < self.current);
        let since = if is_bounded { steady } else { self.since };
        let held = steady.saturating_sub(since).max(0).cast_unsigned();
        Belief {
            confirmed,
            candidate: is_waiting.then(|| Candidate {
                wall: UnixMillis(self.current.saturating_add(steady)),
                held: Duration::from_millis(held),
            }),
        }
    }

    fn time(&self, now: Reading) -> Option<UnixMillis> {
        let lead = self.before?.min(self.current);
        let lead = self.bound.map_or(lead, |bound| lead.min(bound));
        Some(UnixMillis(lead.saturating_add(now.steady_millis())))
    }

    /// Logs when expiries begin to be delayed by the clock, and when they no longer are.
    fn tell(&mut self, wall: UnixMillis, confirmed: UnixMillis) {
        match (is_ahead(wall, confirmed), self.told) {
            (true, Told::Believed) => {
                tracing::warn!(
                    ahead_millis = wall.0.abs_diff(confirmed.0),
                    "the clock is ahead of the time that passed since it was last believed; records that are over by it alone \
                     are hidden, and their ends are written down when it has stayed so for half a minute to a minute"
                );
                self.told = Told::Ahead;
            }
            (true, Told::Nothing | Told::Ahead) => {}
            (false, told) => {
                if told == Told::Ahead {
                    tracing::info!(
                        "the clock is believed; ends of records are stored when they come"
                    );
                }
                self.told = Told::Believed;
            }
        }
    }
}

fn is_ahead(wall: UnixMillis, confirmed: UnixMillis) -> bool {
    wall.0.abs_diff(confirmed.0) > WAITING_MILLIS
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_700_000_000_000;
    const HOUR: i64 = 3_600_000;
    const PERIOD_MILLIS: i64 = 30_000;

    /// A reading at `steady` milliseconds of a clock that was set ahead by `set_by`.
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
        // The same holds after a long time without a reading.
        for steady in [7, 8, 1000, 29_999, 31_000, 100_000, 100 * HOUR] {
            assert!(believed(&mut confirmed, steady, 0));
        }
    }

    /// A restart is not logged: each store of an archive would log it.
    #[test]
    fn what_the_start_of_a_process_delays_is_not_logged_and_a_clock_that_is_set_is() {
        let mut confirmed = Confirmed::resume(None, reading(0, 0));
        let mut told = |steady: i64, set_by: i64| {
            confirmed.at(reading(steady, set_by));
            confirmed.told
        };
        assert_eq!(told(1000, 0), Told::Nothing);
        assert_eq!(told(2 * PERIOD_MILLIS, 0), Told::Believed);
        assert_eq!(told(2 * PERIOD_MILLIS + 1, HOUR), Told::Ahead);
        assert_eq!(told(2 * PERIOD_MILLIS + 2, 0), Told::Believed);
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
    fn a_bound_is_not_passed_however_long_the_clock_is_ahead() {
        let mut confirmed = Confirmed::begin(reading(0, 0));
        let bound = UnixMillis(START + 7_000);
        confirmed.bound(Some(bound), reading(2_000, HOUR));
        for steady in (2_000..HOUR).step_by(1000) {
            let at = confirmed.at(reading(steady, HOUR));
            assert!(at.0 <= bound.0 + steady - 2_000, "{steady}");
        }
        // The next process does not pass the bound either, until it has seen the clock for as long
        // as any process must.
        let noted = reading(HOUR, HOUR);
        let belief = confirmed.belief(noted);
        assert_eq!(belief.confirmed, Some(UnixMillis(bound.0 + HOUR - 2_000)));
        let mut next = Confirmed::resume(Some(belief), reading(0, 2 * HOUR));
        assert!(!believed(&mut next, 29_999, 2 * HOUR));
        assert!(believed(&mut next, 30_000, 2 * HOUR));
        // Without the bound the clock is believed at once, because it was ahead for long enough.
        confirmed.bound(None, noted);
        assert!(believed(&mut confirmed, HOUR, HOUR));
        // A bound later than a correct clock delays nothing.
        confirmed.bound(Some(UnixMillis(START + 100 * HOUR)), noted);
        assert!(believed(&mut confirmed, HOUR, HOUR));
    }

    #[test]
    fn a_new_process_goes_on_where_the_last_one_was() {
        let belief = |confirmed| Belief {
            confirmed,
            candidate: None,
        };
        let reached = belief(Some(UnixMillis(START)));
        let mut confirmed = Confirmed::resume(Some(reached), reading(100, HOUR));
        // The time between the two processes is not believed, but time from here on is.
        assert_eq!(confirmed.at(reading(600, HOUR)), UnixMillis(START + 500));
        assert!(!believed(&mut confirmed, 30_000, HOUR));
        assert!(believed(&mut confirmed, 30_100, HOUR));
        // If no time was confirmed before, the first period must still pass until one is.
        for none in [None, Some(belief(None))] {
            let mut confirmed = Confirmed::resume(none, reading(0, 0));
            assert!(confirmed.at(reading(29_999, 0)).0 < 0);
            assert!(believed(&mut confirmed, 30_000, 0));
        }
    }

    fn restarted(confirmed: &Confirmed, noted: Reading, now: Reading) -> Confirmed {
        Confirmed::resume(Some(confirmed.belief(noted)), now)
    }

    /// The clock is confirmed after two periods of running time, however short each process runs.
    #[test]
    fn processes_that_live_for_less_than_a_period_complete_it_together() {
        for (up, down) in [
            (20_000, 1000),
            (20_000, 300_000),
            (3000, HOUR),
            (45_000, 60_000),
        ] {
            for known in [false, true] {
                let first = reading(0, HOUR);
                let mut confirmed = if known {
                    Confirmed::begin(reading(0, 0))
                } else {
                    Confirmed::resume(None, first)
                };
                let (mut ran, mut ahead) = (0, HOUR);
                // The times that the clock showed, by the processes' running time.
                let mut said = Vec::new();
                for _ in 0..100 {
                    for steady in (0..=up).step_by(1000) {
                        let now = reading(steady, ahead);
                        let at = confirmed.at(now);
                        said.push((ran + steady, now.wall));
                        let long_ago = said
                            .iter()
                            .rfind(|(when, _)| when + 2 * PERIOD_MILLIS <= ran + steady);
                        assert!(long_ago.is_none_or(|(_, wall)| at >= *wall), "{up} {down}");
                    }
                    ran += up;
                    let noted = reading(up, ahead);
                    ahead += down + up;
                    confirmed = restarted(&confirmed, noted, reading(0, ahead));
                }
            }
        }
    }

    #[test]
    fn a_short_process_with_a_clock_ahead_confirms_nothing() {
        for rotates_at in (0..30_000).step_by(1000) {
            let mut confirmed = Confirmed::resume(None, reading(0, 0));
            confirmed.at(reading(rotates_at, 0));
            let (mut noted, mut passed) = (reading(rotates_at, 0), rotates_at);
            for ahead in [1000 * HOUR, 0, 1000 * HOUR, 0, 0] {
                confirmed = restarted(&confirmed, noted, reading(0, passed + ahead));
                for steady in (0..=29_000).step_by(1000) {
                    let at = confirmed.at(reading(steady, passed + ahead));
                    assert!(at <= UnixMillis(START + passed + steady), "{rotates_at}");
                }
                noted = reading(29_000, passed + ahead);
                passed += 29_000;
            }
        }
    }

    proptest! {
        /// A time is confirmed only if the clock has shown it for at least a period. The clock may
        /// be set in any way, and processes may restart at any time.
        #[test]
        fn only_what_the_clock_said_for_a_period_is_confirmed(
            begins_known: bool,
            steps in proptest::collection::vec(
                (1..20_000i64, -HOUR..HOUR, proptest::option::weighted(0.3, 0..HOUR)),
                1..60,
            ),
        ) {
            let mut confirmed = if begins_known {
                Confirmed::begin(reading(0, 0))
            } else {
                Confirmed::resume(None, reading(0, 0))
            };
            // In order: monotonic time of this process, running time of earlier processes, time
            // between processes, and the times shown.
            let (mut steady, mut ran, mut down, mut said) = (0, 0, 0, vec![(0, 0)]);
            for (passed, set_by, restarts) in steps {
                steady += passed;
                said.push((ran + steady, down + set_by));
                let now = reading(steady, ran + down + set_by);
                let at = confirmed.at(now).0;
                prop_assert!(at <= now.wall.0);
                let at = at.saturating_sub(START + ran + steady);
                let of_late = said.iter().filter(|(when, _)| *when > ran + steady - PERIOD_MILLIS);
                let least = of_late.map(|(_, set_by)| *set_by).min().unwrap();
                prop_assert!(at <= least, "{at} > {least}");
                if let Some(closed) = restarts {
                    down += closed;
                    ran += steady;
                    steady = 0;
                    // Each process reads the clock when it starts.
                    said.push((ran, down + set_by));
                    confirmed = restarted(&confirmed, now, reading(0, ran + down + set_by));
                }
            }
        }
    }
}
