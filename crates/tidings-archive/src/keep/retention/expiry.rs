//! Watches expiry by the clock. If the clock is ahead of the followed clusters, expiry is delayed
//! for a day ([`Doubt`]). If a large part of all records expires, that is logged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_store::{NewRecord, ReadError, Stats, Store, UnixMillis, Write};

use crate::clocks::{Clocks, Doubt};
use crate::keep::json::{json, parse};
use crate::keep::keys;
use crate::keep::versions::Keeper;

/// The interval in which the clock is checked. It is shorter than the time after which the store
/// believes a clock that was set.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval in which the delay, and the time up to which the clock is believed, are stored for
/// the next process.
const NOTE: Duration = Duration::from_secs(60);

/// If a large part of all records expires within this time, that is logged.
const WINDOW: Duration = Duration::from_secs(600);
const MASS: u64 = 10;
const MASS_MIN: u64 = 100;

/// The stored state of the delay.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delayed {
    /// The total delay in milliseconds.
    delayed: u64,
    /// The last time that the clock was believed, in milliseconds since 1970. Earlier versions of
    /// the program did not note it.
    #[serde(default)]
    believed: Option<i64>,
}

impl Delayed {
    async fn read(keeper: &Keeper) -> Result<Self, ReadError> {
        let found = keeper.store.get(Bytes::from_static(keys::DELAYED)).await?;
        let found = found.map(|found| parse::<Self>(&found.value));
        Ok(found.transpose()?.unwrap_or_default())
    }
}

/// Reads the last time at which earlier processes believed the clock, if they noted it.
pub(crate) async fn believed_time(keeper: &Keeper) -> Result<Option<UnixMillis>, ReadError> {
    Ok(Delayed::read(keeper).await?.believed.map(UnixMillis))
}

/// Watches the expiry of one cluster's store.
pub(crate) struct Expiry {
    cluster: String,
    clocks: Arc<Clocks>,
    doubt: Doubt,
    /// When the delay was last stored, in steady time.
    noted: Duration,
    ends: Ends,
}

impl Expiry {
    pub(crate) async fn new(
        keeper: &Keeper,
        cluster: String,
        clocks: Arc<Clocks>,
    ) -> Result<Self, ReadError> {
        let found = Delayed::read(keeper).await?;
        let (delayed, believed) = (found.delayed, found.believed.map(UnixMillis));
        let steady = keeper.clock.steady();
        Ok(Self {
            cluster,
            clocks,
            doubt: Doubt::resume(Duration::from_millis(delayed), believed, steady),
            noted: steady,
            ends: Ends::default(),
        })
    }

    /// Checks the clock, and how much has expired.
    pub(crate) async fn look(&mut self, keeper: &Keeper) {
        self.look_at_clock(keeper).await;
        if let Ok(stats) = keeper.store.stats().await
            && let Some((ended, all)) = self.ends.look(&stats, keeper.clock.steady())
        {
            let clock = Timestamp::from_millisecond(keeper.clock.now().0).unwrap_or_default();
            tracing::warn!(
                cluster = self.cluster, ended, all, %clock,
                "a tenth or more of all records expired within ten minutes by the clock"
            );
        }
    }

    async fn look_at_clock(&mut self, keeper: &Keeper) {
        let steady = keeper.clock.steady();
        let said = self.clocks.time(steady);
        let before = self.doubt;
        let bound = self.doubt.look(said, (keeper.clock.now(), steady));
        keeper.store.believe_until(bound);
        let ahead = u64::try_from(self.doubt.ahead.as_millis()).unwrap_or(u64::MAX);
        keeper.counters.clock_ahead.store(ahead, Ordering::Relaxed);
        self.tell(before);
        if self.doubt.ahead.is_zero() {
            keeper.believe(keeper.store.confirmed());
        }
        let is_over = bound.is_none() && before.is_delayed();
        if is_over || steady.saturating_sub(self.noted) >= NOTE {
            self.note(keeper).await;
        }
    }

    /// Stores the state for the next process.
    pub(crate) async fn note(&mut self, keeper: &Keeper) {
        let delayed = u64::try_from(self.doubt.delayed.as_millis()).unwrap_or(u64::MAX);
        let believed = keeper.believed();
        let record = NewRecord::new(json(&Delayed { delayed, believed }));
        let write = vec![Write::put(keys::DELAYED, record)];
        match keeper.store.write_all(write).await {
            Ok(_) => self.noted = keeper.clock.steady(),
            Err(error) => tracing::debug!(%error, "the delay of expiry is not stored yet"),
        }
    }

    fn tell(&self, before: Doubt) {
        let (cluster, ahead) = (&self.cluster, self.doubt.ahead);
        match (before.ahead.is_zero(), ahead.is_zero()) {
            (true, false) if self.doubt.is_delayed() => tracing::error!(
                cluster,
                ?ahead,
                is_heard = self.doubt.is_heard,
                "the clock is ahead of what the followed clusters say in their answers, or, if none was heard yet, of what was \
                 believed before: for a day at most, nothing is ended that is over by the clock alone"
            ),
            (false, true) if self.doubt.is_heard => {
                tracing::info!(cluster, "the clock agrees with the followed clusters");
            }
            (false, true) => tracing::info!(
                cluster,
                "the clock is not ahead any more; no followed cluster has answered lately"
            ),
            _ if before.is_delayed() && !self.doubt.is_delayed() => tracing::error!(
                cluster,
                ?ahead,
                "the clock was ahead of what the followed clusters say for a day, and is believed from now on"
            ),
            _ => {}
        }
    }
}

/// Whether so many of all events or records are a large part: a tenth, unless they are few.
fn is_mass(ended: u64, all: u64) -> bool {
    ended >= MASS_MIN && ended >= all / MASS
}

/// Counts the records that expire within a window of time.
#[derive(Debug, Default)]
struct Ends {
    /// When the window began, and how many records had expired by then.
    began: Option<(Duration, u64)>,
    is_told: bool,
}

impl Ends {
    /// Returns the number of records that expired in the window, and the number of all records
    /// before. It does so once in a window, if they are a large part.
    fn look(&mut self, stats: &Stats, steady: Duration) -> Option<(u64, u64)> {
        let (began, before) = *self.began.get_or_insert((steady, stats.expired));
        let ended = stats.expired.saturating_sub(before);
        let all = stats.records.saturating_add(ended);
        let is_mass = is_mass(ended, all);
        let is_first = is_mass && !self.is_told;
        self.is_told |= is_mass;
        if steady.saturating_sub(began) >= WINDOW {
            *self = Self {
                began: Some((steady, stats.expired)),
                is_told: false,
            };
        }
        is_first.then_some((ended, all))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::HeaderMap;
    use http::header::DATE;
    use tidings_store::clock::Clock;

    use super::super::rules::apply_rules;
    use super::super::rules_tests::{HOUR, Kept, days};
    use super::*;

    /// The header that a right cluster sends when the manual clock begins, 2023-11-14T22:13:20Z.
    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Tue, 14 Nov 2023 22:13:20 GMT".parse().unwrap());
        headers
    }

    /// Without the delay, the store would believe the clock after a minute, and everything would
    /// expire.
    #[tokio::test]
    async fn a_clock_that_is_ahead_of_the_clusters_ends_nothing_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let ttl = Arc::new(Mutex::new(30));
        let mut kept = Kept::open(folder.path(), days(Arc::clone(&ttl)));
        kept.observe(10).await;
        apply_rules(&kept.keeper, "30d").await.unwrap();
        let clocks = Arc::new(Clocks::default());
        let clock: Arc<dyn Clock> = Arc::new(kept.clock.clone());
        let witness = clocks.witness(clock);
        witness.hear(&headers());
        let new = Expiry::new(&kept.keeper, "prod".into(), Arc::clone(&clocks));
        let mut expiry = new.await.unwrap();
        expiry.look(&kept.keeper).await;
        let ahead = 500 * 24 * HOUR;
        kept.clock.set_by(ahead);
        let mut restarted = false;
        for minutes in 0..24 * 60 {
            expiry.look(&kept.keeper).await;
            assert!(expiry.doubt.is_delayed(), "{minutes}");
            let ended = kept.keeper.store.expire().await.unwrap();
            assert_eq!(ended, 0, "{minutes}");
            kept.clock.advance(60_000);
            if minutes % 30 == 0 {
                // The cluster answers again.
                let passed = i64::from(minutes + 1) * 60;
                let date = Timestamp::from_second(1_700_000_000 + passed).unwrap();
                let date = jiff::fmt::rfc2822::DateTimePrinter::new()
                    .timestamp_to_rfc9110_string(&date)
                    .unwrap();
                let mut headers = HeaderMap::new();
                headers.insert(DATE, date.parse().unwrap());
                witness.hear(&headers);
            }
            if minutes == 12 * 60 {
                // Rules by which everything would expire wait until the clock is believed.
                *ttl.lock().unwrap() = 1;
                let outcome = apply_rules(&kept.keeper, "1d").await.unwrap();
                assert!(outcome.waits && outcome.ended == 0, "{outcome:?}");
                // The next process continues the delay.
                let new = Expiry::new(&kept.keeper, "prod".into(), Arc::clone(&clocks));
                expiry = new.await.unwrap();
                restarted = expiry.doubt.delayed >= Duration::from_secs(11 * 3600);
            }
        }
        assert!(restarted);
        // The delay ends after a day, whatever the clusters say.
        kept.clock.advance(11 * 60_000);
        expiry.look(&kept.keeper).await;
        assert!(!expiry.doubt.is_delayed() && !expiry.doubt.ahead.is_zero());
        assert!(kept.keeper.store.expire().await.unwrap() >= 10);
        kept.keeper.store.close().await;
    }

    /// Otherwise each process would forget the last minutes of the one before, and a cluster with a
    /// wrong clock could delay expiry for ever.
    #[tokio::test]
    async fn processes_that_end_soon_delay_for_a_day_together() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
        let clocks = Arc::new(Clocks::default());
        let witness = clocks.witness(Arc::new(kept.clock.clone()));
        kept.clock.set_by(500 * 24 * HOUR);
        let mut delayed = 0;
        for _ in 0..300 {
            witness.hear(&headers());
            let new = Expiry::new(&kept.keeper, "prod".into(), Arc::clone(&clocks));
            let mut expiry = new.await.unwrap();
            for _ in 0..9 {
                expiry.look(&kept.keeper).await;
                delayed += u64::from(expiry.doubt.is_delayed());
                kept.clock.advance(60_000);
            }
            if expiry.doubt.delayed == Duration::from_secs(24 * 3600) {
                break;
            }
            expiry.note(&kept.keeper).await;
        }
        // The first check of each process adds nothing.
        assert!((24 * 60..24 * 70).contains(&delayed), "{delayed}");
        kept.keeper.store.close().await;
    }

    /// The time of a version is in sealed files, and decides when these are deleted.
    #[tokio::test]
    async fn what_is_observed_with_a_wrong_clock_has_the_time_of_the_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
        let clocks = Arc::new(Clocks::default());
        assert!(kept.keeper.clocks.set(Arc::clone(&clocks)).is_ok());
        let witness = clocks.witness(Arc::new(kept.clock.clone()));
        let expiry = Expiry::new(&kept.keeper, "prod".into(), Arc::clone(&clocks));
        expiry.await.unwrap().look(&kept.keeper).await;
        let begun = kept.clock.now().0;
        for set in [0, 500 * 24 * HOUR, -500 * 24 * HOUR] {
            witness.hear(&headers());
            kept.clock.set_by(set);
            kept.observe(1).await;
            kept.clock.set_by(-set);
            let list = tidings_store::ListRequest::prefix("shop/");
            let found = kept.keeper.store.list(list).await.unwrap().records;
            let newest = found.last().unwrap();
            let record = crate::version::record::Record::decode(&newest.value).unwrap();
            let observed = record.newest.observed_at.0;
            assert!(begun.abs_diff(observed) <= 300_000, "{set}: {observed}");
            // No event expires before its time.
            let end = newest.expires_at.unwrap().0 - 7 * 24 * HOUR;
            assert!(end >= begun - 300_000, "{set}: {end}");
        }
        kept.keeper.store.close().await;
    }

    #[test]
    fn ends_of_a_tenth_of_everything_are_told_once() {
        let mut ends = Ends::default();
        let mut look = |minutes: u64, expired: u64, records: u64| {
            let mut stats = Stats::default();
            (stats.expired, stats.records) = (expired, records);
            ends.look(&stats, Duration::from_secs(60 * minutes))
        };
        // It is not known what expired before.
        assert_eq!(look(0, 5_000, 10_000), None);
        assert_eq!(look(1, 5_999, 9_001), None);
        assert_eq!(look(2, 6_000, 9_000), Some((1_000, 10_000)));
        assert_eq!(look(3, 8_000, 7_000), None);
        // As many records expire, but slowly, or they are few.
        for minutes in 10..100 {
            assert_eq!(
                look(minutes, 8_000 + 9 * (minutes - 10), 200),
                None,
                "{minutes}"
            );
        }
    }
}
