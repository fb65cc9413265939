//! Tests that every expiry is written in time, with any mix of TTLs.
//!
//! They cover days of hourly traffic, silence, and any writes in any order, with reopening and
//! losses between them. The clock is manual. The store reads it once a second, so an expiry written
//! within [`TOLERANCE`] is written within five seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::clock::ManualClock;
use crate::embedded::index::TOLERANCE;
use crate::{Change, UnixMillis};

const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A store under test, and the expiries that it must write.
struct Kept {
    folder: tempfile::TempDir,
    clock: ManualClock,
    store: Option<EmbeddedStore>,
    /// The expiry of the last version of each key.
    ends: BTreeMap<String, i64>,
    /// Whether the index is flushed at every commit.
    small: bool,
}

impl Kept {
    fn new(small: bool) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let mut kept = Self {
            folder: folder.unwrap(),
            clock: ManualClock::at(UnixMillis(START)),
            store: None,
            ends: BTreeMap::new(),
            small,
        };
        kept.open();
        kept
    }

    fn open(&mut self) {
        let options = EmbeddedOptions {
            clock: Arc::new(self.clock.clone()),
            expire_by_itself: false,
            history_retention: std::time::Duration::MAX,
            free_space_min: 0,
            index_memory_bytes: if self.small { 2 << 10 } else { 1 << 20 },
            ..EmbeddedOptions::default()
        };
        self.store = Some(EmbeddedStore::open(self.path(), options).unwrap());
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    fn now(&self) -> i64 {
        use crate::clock::Clock;
        self.clock.now().0
    }

    async fn write(&mut self, key: &str, life: i64) {
        let end = self.now() + life;
        let record = NewRecord::new(key.to_owned()).expires_at(UnixMillis(end));
        let name = Bytes::from(key.to_owned());
        let written = match self.store().get(name.clone()).await.unwrap() {
            None => self.store().create(name, record).await,
            Some(found) => self.store().update(name, record, found.revision).await,
        };
        written.unwrap();
        self.ends.insert(key.to_owned(), end);
    }

    async fn delete(&mut self, key: &str) {
        if self
            .store()
            .delete(key.to_owned().into(), None)
            .await
            .is_ok()
        {
            self.ends.remove(key);
        }
    }

    /// Lets time pass, and writes the due expiries.
    async fn pass(&mut self, millis: i64) {
        self.clock.advance(millis);
        self.store().expire().await.unwrap();
        self.check().await;
    }

    async fn check(&mut self) {
        let now = self.now();
        let stats = self.store().stats().await.unwrap();
        let count = |after: i64| self.ends.values().filter(|end| **end > after).count() as u64;
        let (live, waiting) = (count(now), count(now - TOLERANCE));
        let found = stats.records;
        assert!(
            (live..=waiting).contains(&found),
            "{found} records of which {live} live; {waiting} may wait"
        );
        let lag = stats.expiry_lag_ms;
        assert!(lag <= TOLERANCE.cast_unsigned(), "{lag} ms late");
        // A record that expires in this very millisecond may stay, and is not late.
        if found > count(now - 1) {
            assert!(lag > 0, "the lag tells that one waits");
        }
        if found == live {
            assert_eq!(lag, 0, "the lag tells that none waits");
        }
        self.ends.retain(|_, end| *end > now - TOLERANCE);
    }

    async fn reopen(&mut self, lost: &[&str]) {
        self.store().close().await;
        self.store = None;
        for lost in lost {
            let path = self.path().join(lost);
            let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            removed.unwrap();
        }
        self.open();
    }

    /// Checks that the history has one end for each record.
    async fn check_history(&self) {
        let last = self.store().revision();
        let mut watch = self.store().watch(Bytes::new(), 1).await.unwrap();
        let mut lives: BTreeMap<Bytes, bool> = BTreeMap::new();
        while watch.revision() < last {
            for change in watch.next().await.unwrap() {
                let before = lives.insert(change.key().clone(), change.record().is_some());
                let ends = matches!(&*change, Change::Delete { .. });
                assert!(!ends || before == Some(true), "{change:?} ended twice");
            }
        }
        let living = lives.values().filter(|lives| **lives).count() as u64;
        assert_eq!(living, self.store().stats().await.unwrap().records);
    }
}

#[tokio::test]
async fn two_weeks_beside_hours() {
    let mut kept = Kept::new(true);
    for hour in 0..20 * 24 {
        kept.write(&format!("weeks/{hour}"), 14 * DAY).await;
        kept.write(&format!("hour/{hour}"), HOUR).await;
        kept.write(&format!("half/{hour}"), HOUR / 2).await;
        kept.pass(29 * MINUTE).await;
        kept.pass(MINUTE + 3 * SECOND).await;
        kept.pass(30 * MINUTE).await;
        if hour % 97 == 0 {
            kept.reopen(&[]).await;
        }
    }
    kept.check_history().await;
}

#[tokio::test]
async fn after_silence() {
    let mut kept = Kept::new(false);
    for number in 0..50 {
        kept.write(&format!("weeks/{number}"), 14 * DAY).await;
        kept.pass(HOUR).await;
    }
    // Some records have ended, and the others of their bucket live for two days.
    kept.pass(14 * DAY - 48 * HOUR).await;
    for number in 0..12 {
        kept.write(&format!("hour/{number}"), HOUR).await;
        kept.write(&format!("half/{number}"), HOUR / 2).await;
        kept.pass(2 * HOUR).await;
    }
    kept.pass(20 * DAY).await;
    assert_eq!(kept.store().stats().await.unwrap().records, 0);
    kept.check_history().await;
}

/// Early expiries at one moment need more than one commit. They follow a record that stays live.
#[tokio::test]
async fn many_early_ends_at_once() {
    let mut kept = Kept::new(false);
    // The buckets reach their maximum number, so that later records must share one of them.
    for number in 0..40 {
        let life = ((3 * HOUR) << (number / 4)) / 4 * (4 + number % 4);
        kept.write(&format!("lasts/{number}"), life).await;
    }
    let writes = (0..3000).map(|number| {
        let record = NewRecord::new("").expires_at(UnixMillis(START + 2 * HOUR));
        kept.store()
            .create(format!("early/{number}").into(), record)
    });
    futures::future::try_join_all(writes).await.unwrap();
    kept.ends
        .extend((0..3000).map(|number| (format!("early/{number}"), START + 2 * HOUR)));
    kept.pass(HOUR).await;
    kept.pass(HOUR + 3 * SECOND).await;
    kept.reopen(&["CHECKPOINT"]).await;
    kept.check().await;
    kept.check_history().await;
}

/// Opens a store whose buckets may have several files each, of which only the last is open.
fn open_of_small_files(folder: &Path, clock: &ManualClock) -> EmbeddedStore {
    let options = EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        free_space_min: 0,
        segment_bytes: 1 << 10,
        log_files_max: 0,
        ..EmbeddedOptions::default()
    };
    EmbeddedStore::open(folder, options).unwrap()
}

/// Creates 40 records that live for two minutes: a bucket of several files.
async fn fill_bucket(store: &EmbeddedStore) {
    for number in 0..40 {
        let record = NewRecord::new("1").expires_at(UnixMillis(START + 2 * MINUTE));
        let created = store.create(format!("a{number}").into(), record).await;
        created.unwrap();
    }
}

/// A file of the log is gone, and with it the bucket's records from there on.
#[tokio::test]
async fn a_bucket_that_cannot_be_read_holds_up_no_other_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(START));
    let store = open_of_small_files(folder.path(), &clock);
    fill_bucket(&store).await;
    let other = NewRecord::new("1").expires_at(UnixMillis(START + HOUR));
    store.create("b".into(), other).await.unwrap();
    let files = segments(folder.path());
    assert!(files.len() > 2, "{files:?}");
    fs::remove_file(&files[0]).unwrap();

    // The fault may be temporary.
    clock.advance(30 * MINUTE);
    let refused = store.expire().await;
    assert!(
        matches!(refused, Err(WriteError::Fault(Fault::Storage(_)))),
        "{refused:?}"
    );
    clock.advance(2 * HOUR);
    assert_eq!(store.expire().await.unwrap(), 1, "that of the other bucket");
    store.compact(store.revision()).await.unwrap();
    store.close().await;
    drop(store);

    let store = open_of_small_files(folder.path(), &clock);
    assert_eq!(store.expire().await.unwrap(), 0);
    store.close().await;
    let left = segments(folder.path());
    let is_gone = |file| !left.contains(file);
    assert!(files.iter().all(is_gone), "the space is free: {left:?}");
}

/// A process that begins long after a bucket expired has not yet waited for a file of it.
#[tokio::test]
async fn a_bucket_that_was_over_before_is_not_given_up_at_the_first_failure() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(START));
    let store = open_of_small_files(folder.path(), &clock);
    fill_bucket(&store).await;
    store.close().await;
    drop(store);
    let store = open_of_small_files(folder.path(), &clock);
    clock.advance(9 * DAY);
    let file = segments(folder.path()).remove(0);
    let away = file.with_extension("away");
    fs::rename(&file, &away).unwrap();
    // The process may also wait while the clock is set, which is believed after a minute.
    for set_by in [0, 9 * DAY, 0, 0, 0] {
        clock.set_by(set_by);
        clock.advance(31 * SECOND);
        let refused = store.expire().await;
        assert!(
            matches!(refused, Err(WriteError::Fault(Fault::Storage(_)))),
            "{refused:?}"
        );
    }
    fs::rename(&away, &file).unwrap();
    assert_eq!(store.expire().await.unwrap(), 40, "all ends are told");
    assert_eq!(store.stats().await.unwrap().records, 0);
}

/// Damage makes the lag grow, but all other statistics are still reported.
#[tokio::test]
async fn the_lag_includes_ends_that_are_damaged() {
    let mut kept = Kept::new(false);
    kept.write("lost", MINUTE).await;
    kept.write("lives", HOUR).await;
    // The record has expired, and its bucket may still get records, so the bucket is not given up.
    kept.clock.advance(70 * SECOND);
    let file = segments(kept.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    for byte in bytes.iter_mut().skip(16) {
        *byte ^= 0x55;
    }
    fs::write(&file, bytes).unwrap();
    assert_eq!(kept.store().stats().await.unwrap().expiry_lag_ms, 0);
    let refused = kept.store().expire().await;
    assert!(
        matches!(refused, Err(WriteError::Fault(Fault::Corrupt(_)))),
        "{refused:?}"
    );
    kept.clock.advance(10 * SECOND);
    let stats = kept.store().stats().await.unwrap();
    assert_eq!((stats.records, stats.expiry_lag_ms), (2, 10_000));
}

/// An expiry behind a live record is late, even if the sweep cannot reach it before the other
/// expires.
#[tokio::test]
async fn the_lag_tells_of_one_that_waits_behind_a_live_one() {
    let mut kept = Kept::new(false);
    kept.write("a", 120_407_031_999).await;
    kept.write("b", 2_645).await;
    kept.write("c", 1_596).await;
    kept.pass(2_497).await;
    let stats = kept.store().stats().await.unwrap();
    assert_eq!((stats.records, stats.expiry_lag_ms), (3, 901));
    kept.pass(148).await;
    assert_eq!(kept.store().stats().await.unwrap().records, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: u8, life: i64 },
    Delete(u8),
    Pass(i64),
    Reopen(&'static [&'static str]),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Equal numbers of each TTL, from a second to ten years.
    let time = || {
        (0..29u32, 0.5..1.0f64).prop_map(|(power, share)| {
            let millis = ((SECOND << power) as f64 * share) as i64;
            millis.clamp(SECOND, 10 * YEAR)
        })
    };
    let step = prop_oneof![
        12 => (0..40u8, time()).prop_map(|(key, life)| Step::Write { key, life }),
        2 => (0..40u8).prop_map(Step::Delete),
        5 => time().prop_map(Step::Pass),
        2 => (SECOND..HOUR).prop_map(Step::Pass),
        1 => prop::sample::select(vec![
            Step::Reopen(&[]), Step::Reopen(&["CHECKPOINT"]), Step::Reopen(&["index"]),
        ]),
    ];
    proptest::collection::vec(step, 1..150)
}

#[test]
fn any_mixture() {
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = TestRunner::new(config).run(&(any::<bool>(), steps()), |(small, steps)| {
        runtime.block_on(async {
            let mut kept = Kept::new(small);
            for step in steps {
                match step {
                    Step::Write { key, life } => kept.write(&format!("k{key}"), life).await,
                    Step::Delete(key) => kept.delete(&format!("k{key}")).await,
                    Step::Pass(millis) => kept.pass(millis).await,
                    Step::Reopen(lost) => {
                        kept.reopen(lost).await;
                        kept.check().await;
                    }
                }
            }
            kept.check_history().await;
        });
        Ok(())
    });
    run.unwrap();
}
