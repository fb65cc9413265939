//! The time at the followed clusters, from the `Date` header of their answers.
//!
//! A cluster's clock may be wrong, or the cluster may lie. So the clusters only decide, by
//! majority, whether the archive's own clock is ahead, and they delay expiry for a day at most
//! ([`Doubt`]). No record expires earlier because of a cluster's time, or of times in events. If
//! the archive's clock is behind a time that it had before, the clusters' time replaces it in what
//! the archive notes ([`bounded`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::{Mutex, MutexGuard};
use tidings_store::UnixMillis;
use tidings_store::clock::Clock;

/// For how long the last `Date` of a cluster counts. The machine may be suspended in between.
const HEARD_MAX: Duration = Duration::from_secs(3600);

/// Accepts a wrong day of the week, since only the time counts.
static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// Maximum by which the clock may be ahead of the clusters without a doubt: headers have whole
/// seconds, and answers take a while to arrive.
const TOLERANCE_MILLIS: i64 = 5 * 60_000;

/// Maximum total delay of expiry. Time in which the clusters agree with the clock is subtracted
/// from the total.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// The times at the clusters that an archive follows. All [`Cluster`](crate::Cluster)s of a process
/// should share them.
#[derive(Debug, Default)]
pub struct Clocks {
    said: Mutex<HashMap<u64, Said>>,
    next: AtomicU64,
}

/// The last `Date` of a cluster.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// The time in the header minus the steady time at which it was read.
    lead: i64,
    heard: Duration,
}

impl Clocks {
    fn said(&self) -> MutexGuard<'_, HashMap<u64, Said>> {
        self.said.lock()
    }

    /// Adds a cluster. Its time counts until the returned value is dropped.
    pub(crate) fn witness(self: &Arc<Self>, clock: Arc<dyn Clock>) -> Witness {
        Witness {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            clocks: Arc::clone(self),
            clock,
        }
    }

    /// A time that at least half of the clusters have reached by their own clocks; `None` if no
    /// cluster answered lately.
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

/// Reads the times of one cluster; see [`Clocks::witness`].
pub(crate) struct Witness {
    number: u64,
    clocks: Arc<Clocks>,
    clock: Arc<dyn Clock>,
}

impl Witness {
    /// Notes the time in the headers of an answer of the cluster, if there is one.
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

/// Maximum time between two processes without a doubt, if no cluster has answered yet.
const APART_MILLIS: i64 = 3_600_000;

/// The clock's time, limited by the clusters' time. It is at most the tolerance later than theirs,
/// or the `confirmed` time if that is later. It is at most the tolerance earlier than theirs, or
/// the `believed` time, which the clock had before, if that is earlier.
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

/// How long expiry has been delayed because the clock was ahead of the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// The total delay, without the time that was subtracted for agreement.
    pub(crate) delayed: Duration,
    /// The steady time of the last check.
    looked: Duration,
    /// By how much the clock is ahead of the clusters; zero if it is not.
    pub(crate) ahead: Duration,
    /// The latest time that is believed, minus steady time: from what the clusters last said, or
    /// from the last time of an earlier process.
    lead: Option<i64>,
    /// Whether a cluster has answered lately.
    pub(crate) is_heard: bool,
}

impl Doubt {
    /// Continues after an earlier process, which had this total delay and this last time, if they
    /// are known.
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

    /// Compares the clock with the clusters. Without new answers, the last ones count on: a clock
    /// that is ahead may itself be why no cluster answers. Returns the latest time that is
    /// believed, or `None` if the clock need not be limited.
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
            // Without answers it is not known whether the clocks agree, so nothing is subtracted.
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

    /// Whether expiry is being delayed now.
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
        // Of two clusters the earlier time counts, of three the middle one.
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
        // An answer from more than an hour ago does not count.
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
        // Time without answers is not subtracted. Half a day of agreement halves the delay.
        assert_eq!(doubt.look(None, at(2 * DAY, 0)), None);
        assert_eq!(doubt.delayed, DELAY_MAX);
        assert_eq!(
            doubt.look(said(2 * DAY + DAY / 2), at(2 * DAY + DAY / 2, 0)),
            None
        );
        assert_eq!(doubt.delayed, DELAY_MAX / 2);
        assert!(!doubt.is_delayed());
    }

    /// The clock itself may be why no cluster answers: by it, their certificates have expired.
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
        // The clock is set right, and still no cluster answers.
        let steady = DAY + MINUTE;
        assert_eq!(doubt.look(None, at(steady, 0)), None);
        assert!(doubt.ahead.is_zero() && !doubt.is_heard);
    }

    /// No cluster has answered yet, since the network starts later.
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
            // The clock was set ahead or back before any cluster answered.
            (said + DAY, Some(said), said, said, said + 5 * MINUTE),
            (0, Some(said), 0, said, said - 5 * MINUTE),
            // The cluster's time is wrong: the believed time counts, and after a day the clock
            // again.
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
        /// Whatever the clusters say and however the clock is set, expiry is delayed for a day at
        /// most, plus the time for which they agreed.
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
