//! What the followed clusters say what time it is, by the `Date` header of their answers.
//!
//! A cluster may be wrong, or lie. So it is asked only whether the archive's own clock is ahead,
//! where more clusters say so than not; and what they say delays expiry for a day at most
//! ([`Doubt`]). Nothing ends because of what a cluster says, nor because of times in events. A
//! clock that is behind what was believed before is put right by them ([`bounded`]), for what is
//! noted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use tidings_store::UnixMillis;
use tidings_store::clock::Clock;

/// How long a cluster's word counts after it was heard last. A machine may be suspended meanwhile.
const HEARD_MAX: Duration = Duration::from_secs(3600);

/// What is said of a time counts, not the day of the week.
static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// By how much the clock may be ahead of what clusters say: headers have whole seconds, and come
/// with answers that take a while.
const TOLERANCE_MILLIS: i64 = 5 * 60_000;

/// The longest time for which expiry is delayed. Each moment in which the clusters agree with the
/// clock gives back as much.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// The clocks of the clusters that an archive follows. All [`Cluster`](crate::Cluster)s of a
/// process should share them.
#[derive(Debug, Default)]
pub struct Clocks {
    said: Mutex<HashMap<u64, Said>>,
    next: AtomicU64,
}

/// What a cluster said last.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// Its time, less steady time.
    lead: i64,
    heard: Duration,
}

impl Clocks {
    fn said(&self) -> MutexGuard<'_, HashMap<u64, Said>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cluster whose word counts until what is returned is dropped.
    pub(crate) fn witness(self: &Arc<Self>, clock: Arc<dyn Clock>) -> Witness {
        Witness {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            clocks: Arc::clone(self),
            clock,
        }
    }

    /// The time that it is at least, as half of the clusters or more say; `None` if none was heard
    /// lately.
    pub(crate) fn time(&self, steady: Duration) -> Option<UnixMillis> {
        let said = self.said();
        let heard = said.values();
        let heard = heard.filter(|said| steady.saturating_sub(said.heard) <= HEARD_MAX);
        let mut leads: Vec<i64> = heard.map(|said| said.lead).collect();
        leads.sort_unstable();
        let middle = leads.len().checked_sub(1)? / 2;
        let lead = leads.get(middle)?;
        Some(UnixMillis(lead.saturating_add(millis(steady))))
    }
}

/// See [`Clocks::witness`].
pub(crate) struct Witness {
    number: u64,
    clocks: Arc<Clocks>,
    clock: Arc<dyn Clock>,
}

impl Witness {
    /// Notes the time in the headers of an answer, if there is one.
    pub(crate) fn hear(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| PARSER.parse_timestamp(date).ok());
        let Some(date) = date else {
            return;
        };
        let heard = self.clock.steady();
        let lead = date.as_millisecond().saturating_sub(millis(heard));
        self.clocks.said().insert(self.number, Said { lead, heard });
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.clocks.said().remove(&self.number);
    }
}

/// By how much a clock may have moved on between two processes without a doubt, while no cluster
/// was heard.
const APART_MILLIS: i64 = 3_600_000;

/// The clock's time, as far as what clusters say lets it be: not ahead of it by more than they may
/// differ, unless it is `confirmed`, nor behind by more if it is behind what was `believed` before.
pub(crate) fn bounded(
    now: UnixMillis,
    said: Option<UnixMillis>,
    [confirmed, believed]: [UnixMillis; 2],
) -> UnixMillis {
    let Some(said) = said else {
        return now;
    };
    let latest = said.0.saturating_add(TOLERANCE_MILLIS).max(confirmed.0);
    let earliest = said.0.saturating_sub(TOLERANCE_MILLIS).min(believed.0);
    UnixMillis(now.0.min(latest).max(earliest))
}

/// For how long expiry was delayed, as clusters say that the clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Delayed time that was not given back.
    pub(crate) delayed: Duration,
    /// When it was looked at last, in steady time.
    looked: Duration,
    /// By how much the clock is ahead, if it is.
    pub(crate) ahead: Duration,
    /// Up to what lead the clock is believed, by what clusters said last, or a former process
    /// believed: its time, less steady time.
    lead: Option<i64>,
    /// Whether a cluster was heard lately.
    pub(crate) is_heard: bool,
}

impl Doubt {
    /// Continues that of a former process, which believed its clock up to a time, if that is known.
    pub(crate) fn resume(
        delayed: Duration,
        believed: Option<UnixMillis>,
        steady: Duration,
    ) -> Self {
        let lead = believed.map(|at| at.0.saturating_add(APART_MILLIS));
        Self {
            delayed,
            looked: steady,
            ahead: Duration::ZERO,
            lead: lead.map(|lead| lead.saturating_sub(millis(steady))),
            is_heard: false,
        }
    }

    /// Looks at the clock. What clusters said last holds until one is heard again: a clock that is
    /// ahead may be why none is. Returns the time up to which it is believed; `None` if it need not
    /// be bounded.
    pub(crate) fn look(
        &mut self,
        said: Option<UnixMillis>,
        (now, steady): (UnixMillis, Duration),
    ) -> Option<UnixMillis> {
        let passed = steady.saturating_sub(self.looked);
        self.looked = steady;
        self.is_heard = said.is_some();
        if let Some(said) = said {
            let bound = said.0.saturating_add(TOLERANCE_MILLIS);
            self.lead = Some(bound.saturating_sub(millis(steady)));
        }
        let bound = self
            .lead
            .map(|lead| UnixMillis(lead.saturating_add(millis(steady))));
        let Some(bound) = bound.filter(|bound| *bound < now) else {
            // That it is not known gives nothing back.
            if said.is_some() {
                self.delayed = self.delayed.saturating_sub(passed);
            }
            self.ahead = Duration::ZERO;
            return None;
        };
        let ahead = now.0.abs_diff(bound.0);
        self.ahead = Duration::from_millis(ahead.saturating_add(TOLERANCE_MILLIS.cast_unsigned()));
        self.delayed = self.delayed.saturating_add(passed).min(DELAY_MAX);
        self.is_delayed().then_some(bound)
    }

    /// Whether expiry is delayed now.
    pub(crate) fn is_delayed(&self) -> bool {
        !self.ahead.is_zero() && self.delayed < DELAY_MAX
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidings_store::clock::ManualClock;

    use super::*;

    const START: i64 = 1_700_000_000_000;
    const MINUTE: i64 = 60_000;
    const DAY: i64 = 24 * 60 * MINUTE;

    fn at(steady: i64, ahead: i64) -> (UnixMillis, Duration) {
        let steady_time = Duration::from_millis(steady.cast_unsigned());
        (UnixMillis(START + steady + ahead), steady_time)
    }

    #[test]
    fn what_at_least_half_of_the_clusters_say_counts() {
        let clock = ManualClock::at(UnixMillis(START));
        let clocks = Arc::new(Clocks::default());
        let heard = |date: &str| {
            let witness = clocks.witness(Arc::new(clock.clone()));
            let mut headers = HeaderMap::new();
            headers.insert(DATE, date.parse().unwrap());
            witness.hear(&headers);
            witness
        };
        let time = |steady: u64| {
            clocks
                .time(Duration::from_secs(steady))
                .map(|time| time.0 - START)
        };
        assert_eq!(time(0), None);
        let right = heard("Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(time(10), Some(10_000));
        // Of two, the one that says the earlier time; of three, the one in the middle.
        let ahead = heard("Tue, 14 Nov 2999 22:13:20 GMT");
        assert_eq!(time(0), Some(0));
        let behind = heard("Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(time(0), Some(0));
        drop(ahead);
        assert_eq!(time(0), Some(1000 - START));
        drop(right);
        behind.hear(&HeaderMap::new());
        let mut headers = HeaderMap::new();
        for wrong in ["", "now", "Tue, 14 Nov 99999 22:13:20 GMT"] {
            headers.insert(DATE, wrong.parse().unwrap());
            behind.hear(&headers);
        }
        assert_eq!(time(0), Some(1000 - START));
        // What was heard long ago does not count.
        assert_eq!(time(3601), None);
    }

    #[test]
    fn a_clock_that_is_ahead_of_the_clusters_is_not_believed_for_a_day() {
        let mut doubt = Doubt::resume(Duration::ZERO, None, Duration::ZERO);
        let said = |steady: i64| Some(UnixMillis(START + steady));
        assert_eq!(doubt.look(said(0), at(0, 4 * MINUTE)), None);
        for minutes in 1..=24 * 60 {
            let steady = minutes * MINUTE;
            let bound = doubt.look(said(steady), at(steady, 500 * DAY));
            let expected = (minutes < 24 * 60).then_some(START + steady + 5 * MINUTE);
            assert_eq!(bound, expected.map(UnixMillis), "{minutes}");
            assert_eq!(
                doubt.ahead,
                Duration::from_millis(500 * DAY.cast_unsigned())
            );
        }
        // While nothing is heard, nothing is given back; half a day of agreement gives back half.
        assert_eq!(doubt.look(None, at(2 * DAY, 0)), None);
        assert_eq!(doubt.delayed, DELAY_MAX);
        assert_eq!(
            doubt.look(said(2 * DAY + DAY / 2), at(2 * DAY + DAY / 2, 0)),
            None
        );
        assert_eq!(doubt.delayed, DELAY_MAX / 2);
        assert!(!doubt.is_delayed());
    }

    /// It may be why none is: their certificates are over by it.
    #[test]
    fn a_clock_that_is_ahead_is_not_believed_because_no_cluster_is_heard_any_more() {
        let mut doubt = Doubt::resume(Duration::ZERO, None, Duration::ZERO);
        assert_eq!(doubt.look(Some(UnixMillis(START)), at(0, 0)), None);
        for minutes in 1..=24 * 60 {
            let steady = minutes * MINUTE;
            let bound = doubt.look(None, at(steady, 500 * DAY));
            let expected = (minutes < 24 * 60).then_some(START + steady + 5 * MINUTE);
            assert_eq!(bound, expected.map(UnixMillis), "{minutes}");
            assert!(!doubt.ahead.is_zero());
        }
        // It is set right, and nothing is heard.
        let steady = DAY + MINUTE;
        assert_eq!(doubt.look(None, at(steady, 0)), None);
        assert!(doubt.ahead.is_zero() && !doubt.is_heard);
    }

    /// Nobody was heard yet, as the network comes later.
    #[test]
    fn a_clock_that_is_wrong_at_the_start_is_not_believed_until_a_cluster_is_heard() {
        let believed = Some(UnixMillis(START));
        for (away, is_doubted) in [(50 * MINUTE, false), (30 * DAY, true)] {
            let mut doubt = Doubt::resume(Duration::ZERO, believed, Duration::ZERO);
            for minutes in 0..60 {
                let bound = doubt.look(None, at(minutes * MINUTE, away));
                assert_eq!(bound.is_some(), is_doubted, "{minutes}");
            }
            let steady = 60 * MINUTE;
            let said = Some(UnixMillis(START + steady + away));
            assert_eq!(doubt.look(said, at(steady, away)), None);
            assert!(doubt.ahead.is_zero() && doubt.is_heard);
        }
    }

    #[test]
    fn what_is_noted_is_not_of_a_clock_that_is_wrong() {
        let said = 100 * DAY;
        for (now, said, confirmed, believed, expected) in [
            (said + MINUTE, Some(said), 0, 0, said + MINUTE),
            // Set ahead, and back before anybody knew the time.
            (said + DAY, Some(said), said, said, said + 5 * MINUTE),
            (0, Some(said), 0, said, said - 5 * MINUTE),
            // The cluster is wrong: what was believed counts, or is believed again after a day.
            (said, Some(said + DAY), said, said, said),
            (said + DAY, Some(said), said + DAY, said, said + DAY),
            (0, None, 0, said, 0),
        ] {
            let bounds = [UnixMillis(confirmed), UnixMillis(believed)];
            let found = bounded(UnixMillis(now), said.map(UnixMillis), bounds);
            assert_eq!(found, UnixMillis(expected), "{now} {said:?}");
        }
    }

    proptest! {
        /// Whatever clusters say and however the clock is set, expiry is delayed for a day at most,
        /// and then at most as long as they agreed.
        #[test]
        fn no_cluster_delays_for_ever(
            steps in proptest::collection::vec((1..DAY, proptest::option::of(-DAY..DAY), -DAY..DAY), 1..200),
        ) {
            let mut doubt = Doubt::resume(Duration::ZERO, None, Duration::ZERO);
            let (mut steady, mut delayed, mut agreed) = (0, 0, 0);
            for (passed, said, ahead) in steps {
                steady += passed;
                let said = said.map(|said| UnixMillis(START + steady + said));
                let now = at(steady, ahead);
                match doubt.look(said, now) {
                    Some(bound) => {
                        delayed += passed;
                        prop_assert!(bound < now.0);
                    }
                    None => agreed += passed,
                }
                prop_assert!(delayed <= DAY + agreed, "{delayed} {agreed}");
            }
        }
    }
}
