//! Retention over months of a manual clock.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{
    Fault, ListRequest, NewRecord, NewestRequest, Store, UnixMillis, Write, WriteError,
};

use super::coverage::Coverage;
use super::journal::Journal;
use super::keeper::{KeepError, KeepFor, Keeper, Observation, With};
use super::lives::{InForce, Lives, Retention};
use super::position::Position;
use super::retention::{Quota, Unreleased};
use super::unsealed::{JournalError, Unsealed};
use super::{keys, retention};

const START: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Kept {
    keeper: Keeper,
    clock: ManualClock,
    position: Position,
    version: u64,
    /// The length of messages, which can hardly be compressed.
    message_len: usize,
    random: fastrand::Rng,
}

fn options(clock: &ManualClock) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.free_space_min = 0;
    options
}

impl Kept {
    fn open(folder: &Path, keep_for: KeepFor) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let options = options(&clock);
        Self::open_with(folder, keep_for, clock, options)
    }

    fn open_with(
        folder: &Path,
        keep_for: KeepFor,
        clock: ManualClock,
        options: EmbeddedOptions,
    ) -> Self {
        let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
        Self {
            keeper: Keeper::new(store, Arc::new(clock.clone()), keep_for, false),
            clock,
            position: Position::default(),
            version: 1,
            message_len: 0,
            random: fastrand::Rng::with_seed(1),
        }
    }

    async fn disk_bytes(&self) -> u64 {
        self.keeper.store.stats().await.unwrap().disk_bytes
    }

    /// Events of one moment, half of them warnings.
    async fn observe(&mut self, number: u64) {
        let seconds = self.clock.now().0 / 1000;
        let observations = (0..number).map(|at| {
            self.version += 1;
            let version = self.version;
            let message = (0..self.message_len).map(|_| self.random.alphanumeric());
            let message: String = message.collect();
            let event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(format!("web.{version}")),
                    namespace: Some("shop".into()),
                    uid: Some(format!("uid-{version}")),
                    ..ObjectMeta::default()
                }),
                message: Some(message).filter(|message| !message.is_empty()),
                r#type: Some(if at % 2 == 0 { "Warning" } else { "Normal" }.into()),
                last_timestamp: Some(Time {
                    seconds: Some(seconds),
                    nanos: None,
                }),
                ..Event::default()
            };
            Observation {
                event,
                version,
                is_gone: false,
            }
        });
        let observations: Vec<_> = observations.collect();
        let kept = self
            .keeper
            .keep(&observations, "", &mut self.position, With::default());
        kept.await.unwrap();
    }

    async fn events(&self) -> Vec<Event> {
        let request = ListRequest::default().after(keys::BEFORE_EVENTS);
        let page = self.keeper.store.list(request).await.unwrap();
        let records = page.records.iter();
        let events = records.map(|record| {
            let event = crate::version::record::event(&record.value).unwrap();
            tidings_api::codec::decode_stored(&event, 0).unwrap()
        });
        events.collect()
    }
}

/// A number of days for warnings, and a week for other events.
fn days(warnings: Arc<Mutex<u32>>) -> KeepFor {
    Arc::new(move |event: &Event| match event.r#type() {
        "Warning" => DAY * *warnings.lock().unwrap(),
        _ => DAY * 7,
    })
}

#[tokio::test]
async fn each_event_is_kept_as_long_as_the_rules_say_and_changed_rules_act_on_what_is_there() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let warnings = Arc::new(Mutex::new(30));
    let mut kept = Kept::open(folder.path(), days(Arc::clone(&warnings)));
    retention::apply(&kept.keeper, "30d").await.unwrap();
    for hour in 0..90 * 24_u64 {
        kept.observe(4).await;
        kept.clock.advance(HOUR);
        kept.keeper.store.expire().await.unwrap();
        if hour % 240 == 239 {
            let events = kept.events().await;
            let of = |kind: &str| events.iter().filter(|event| event.r#type() == kind).count();
            let passed = usize::try_from(hour).unwrap() + 1;
            // An event that was observed exactly its TTL ago has expired.
            let expected = |hours: usize| 2 * passed.min(hours - 1);
            let found = (of("Warning"), of("Normal"));
            assert_eq!(found, (expected(30 * 24), expected(7 * 24)), "{hour}");
        }
    }
    *warnings.lock().unwrap() = 3;
    // The rules have the same name, so nothing is examined.
    retention::apply(&kept.keeper, "30d").await.unwrap();
    let before = kept.events().await.len();
    retention::apply(&kept.keeper, "3d").await.unwrap();
    kept.keeper.store.expire().await.unwrap();
    let after = kept.events().await.len();
    assert_eq!(before - after, 2 * (30 - 3) * 24);
    let coverage = Coverage::read(&kept.keeper).await.unwrap();
    // Seven days remain, though the space of some older events is not released.
    let hours = (kept.clock.now().0 - coverage.kept_since.unwrap()) / HOUR;
    assert!((7 * 24 - 1..=7 * 24 + 1).contains(&hours), "{hours}");
    let counted = Coverage::counted(&kept.keeper).await.unwrap();
    assert!(counted.kept_since < coverage.kept_since);
    assert_eq!(coverage.followed[0].1.versions, 4 * 90 * 24);
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn the_hour_since_which_events_are_kept_does_not_depend_on_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(2).await;
    let hour = START - START % HOUR;
    for minutes in [0, 1, 45, 16, 1, 60, 7 * 60, 24 * 60] {
        kept.clock.advance(minutes * 60_000);
        let coverage = Coverage::read(&kept.keeper).await.unwrap();
        assert_eq!(coverage.kept_since, Some(hour), "{minutes}");
    }
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn coverage_says_how_long_the_rules_let_events_live_and_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(2).await;
    retention::apply(&kept.keeper, "former").await.unwrap();
    // Nothing is followed: no rules are in force.
    let coverage = Coverage::read(&kept.keeper).await.unwrap();
    assert_eq!(coverage.retention, None);
    assert!(coverage.to_json("prod")["retention"].is_null());
    let in_force = InForce {
        rules: "30d".into(),
        lives: Lives::new(&[DAY * 7], false, DAY * 30),
    };
    let lives = in_force.lives;
    kept.keeper.in_force.set(in_force).unwrap();
    let expected = |since: Option<i64>| Retention {
        lives,
        is_applied: since.is_some(),
        since,
        mirrors_deletions: false,
    };
    kept.clock.advance(HOUR);
    let coverage = Coverage::read(&kept.keeper).await.unwrap();
    assert_eq!(coverage.retention, Some(expected(None)));
    retention::apply(&kept.keeper, "30d").await.unwrap();
    let applied_at = kept.clock.now().0;
    // Applied at each start, they hold since the first.
    kept.clock.advance(HOUR);
    retention::apply(&kept.keeper, "30d").await.unwrap();
    for coverage in [
        Coverage::read(&kept.keeper).await.unwrap(),
        Coverage::counted(&kept.keeper).await.unwrap(),
    ] {
        assert_eq!(coverage.retention, Some(expected(Some(applied_at))));
        let json = &coverage.to_json("prod")["retention"];
        assert_eq!(json["shortestSeconds"], 7 * 86_400);
        assert_eq!(json["longestSeconds"], 30 * 86_400);
        assert_eq!(json["eventTTLSeconds"], 30 * 86_400);
        assert_eq!(json["rules"], 1);
        assert_eq!(json["applied"], true);
        assert_eq!(json["since"], "2023-11-14T23:13:20Z");
    }
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn beyond_its_quota_a_cluster_loses_its_oldest_events_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    for _ in 0..20 {
        kept.observe(50).await;
        kept.clock.advance(HOUR);
    }
    let disk_bytes = kept.disk_bytes().await;
    let mut quota = Quota::new(disk_bytes);
    assert!(!quota.keep(&kept.keeper).await.unwrap());
    assert_eq!(kept.events().await.len(), 1000);
    let mut quota = Quota::new(disk_bytes / 2);
    assert!(quota.keep(&kept.keeper).await.unwrap());
    let events = kept.events().await;
    let trimmed = Coverage::read(&kept.keeper).await.unwrap().trimmed;
    assert_eq!(trimmed.events, 1000 - events.len() as u64);
    assert!((400..=700).contains(&trimmed.events), "{trimmed:?}");
    let seen = |event: &Event| event.last_timestamp.unwrap().seconds.unwrap() * 1000;
    assert!(events.iter().all(|event| seen(event) >= trimmed.before));
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn what_the_quota_takes_of_this_hour_is_of_no_time_to_come() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(50).await;
    let mut quota = Quota::new(kept.disk_bytes().await / 2);
    assert!(quota.keep(&kept.keeper).await.unwrap());
    let trimmed = Coverage::read(&kept.keeper).await.unwrap().trimmed;
    assert_eq!((trimmed.events, trimmed.before), (50, START + 1));
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn the_quota_takes_no_event_that_is_observed_again_just_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(3).await;
    let newest = || NewestRequest {
        since: Some(keys::EARLIEST),
        limit: 10,
        ..NewestRequest::default()
    };
    let old = kept.keeper.store.newest(newest()).await.unwrap().records;
    assert_eq!(old.len(), 3);
    // One of them gets further versions, some of which are in chunks.
    let mut event = kept.events().await.remove(0);
    let name = event.metadata.as_ref().unwrap().name().to_owned();
    for count in 0..300 {
        kept.version += 1;
        event.count = Some(count);
        let observation = Observation {
            event: event.clone(),
            version: kept.version,
            is_gone: false,
        };
        let with = With::default();
        let kept_it = kept
            .keeper
            .keep(&[observation], "", &mut kept.position, with)
            .await;
        kept_it.unwrap();
    }
    let chunks = || ListRequest::prefix(keys::CHUNKS);
    let before = kept
        .keeper
        .store
        .list(chunks())
        .await
        .unwrap()
        .records
        .len();
    assert!(before > 0);
    let none = Unreleased::default();
    let deleted = retention::delete(&kept.keeper, &old, START, none).await;
    let deleted = deleted.unwrap();
    assert_eq!(deleted, None);
    assert_eq!(kept.events().await.len(), 3);
    let after = kept
        .keeper
        .store
        .list(chunks())
        .await
        .unwrap()
        .records
        .len();
    assert_eq!(after, before);
    let trimmed = Coverage::read(&kept.keeper).await.unwrap().trimmed;
    assert_eq!(trimmed.events, 0);
    // Read again, they are deleted with all versions.
    let now = kept.keeper.store.newest(newest()).await.unwrap().records;
    assert!(
        now.iter()
            .any(|record| record.key.ends_with(name.as_bytes()))
    );
    let deleted = retention::delete(&kept.keeper, &now, START, none).await;
    assert!(deleted.unwrap().is_some());
    assert_eq!(kept.events().await.len(), 0);
    assert_eq!(kept.keeper.store.list(chunks()).await.unwrap().records, []);
    kept.keeper.store.close().await;
}

/// Space is released some time after events were deleted, if ever: until then, and in the next
/// process, too, no more events are deleted for it.
#[tokio::test]
async fn a_small_quota_takes_about_what_is_too_much() {
    const QUOTA: u64 = 20 << 20;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    for segment_bytes in [
        retention::segment_bytes_max(QUOTA),
        EmbeddedOptions::default().segment_bytes,
    ] {
        let folder = folder.path().join(segment_bytes.to_string());
        let clock = ManualClock::at(UnixMillis(START));
        let mut options = options(&clock);
        options.segment_bytes = segment_bytes;
        let mut kept = Kept::open_with(&folder, Arc::new(|_: &Event| DAY * 30), clock, options);
        kept.message_len = 8_000;
        while kept.disk_bytes().await < QUOTA / 10 * 11 {
            kept.observe(50).await;
            kept.clock.advance(HOUR);
        }
        let before = kept.events().await.len();
        let mut quota = Quota::new(QUOTA);
        for round in 0..12 {
            if round % 3 == 2 {
                quota = Quota::new(QUOTA);
            }
            let is_over = quota.keep(&kept.keeper).await.unwrap();
            assert!(is_over || round > 0);
            kept.clock.advance(HOUR / 3);
            kept.keeper.store.expire().await.unwrap();
        }
        let after = kept.events().await.len();
        let expected = before / 10 * 7..before;
        assert!(expected.contains(&after), "{after} of {before}");
        kept.keeper.store.close().await;
    }
}

#[test]
fn segments_are_a_part_of_the_quota_but_not_too_short() {
    for (quota, expected) in [(0, 4 << 20), (20 << 20, 4 << 20), (32 << 30, 1 << 30)] {
        assert_eq!(retention::segment_bytes_max(quota), expected, "{quota}");
    }
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_kept_and_whatever_makes_room_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = Arc::new(Mutex::new(30));
    let mut kept = Kept::open(folder.path(), days(Arc::clone(&warnings)));
    kept.keeper.journal = Journal::open(&kept.keeper, true).await.unwrap();
    retention::apply(&kept.keeper, "30d").await.unwrap();
    for _ in 0..20 {
        kept.observe(50).await;
        kept.clock.advance(HOUR);
    }
    kept.keeper.store.close().await;
    let mut options = options(&kept.clock);
    options.free_space_min = u64::MAX;
    let rules = days(Arc::clone(&warnings));
    let mut full = Kept::open_with(folder.path(), rules, kept.clock.clone(), options);
    full.keeper.journal = Journal::open(&full.keeper, false).await.unwrap();
    let mut position = kept.position.clone();
    let refused = |error: KeepError| {
        let is_full = matches!(error, KeepError::Write(WriteError::Fault(Fault::NoSpace)));
        assert!(is_full, "{error}");
    };
    let none = full.keeper.keep(&[], "", &mut position, With::default());
    refused(none.await.unwrap_err());
    // An event is deleted, and then those that were last seen longest ago.
    let events = ListRequest::default().after(keys::BEFORE_EVENTS);
    let newest = full.keeper.store.list(events).await.unwrap().records;
    let key = newest.last().unwrap().key.clone();
    full.keeper.forget(key, None).await.unwrap();
    assert_eq!(full.events().await.len(), 999);
    let mut quota = Quota::new(full.disk_bytes().await / 2);
    assert!(quota.keep(&full.keeper).await.unwrap());
    let left = full.events().await.len();
    // The journal takes space, too.
    assert!((100..=600).contains(&left), "{left}");
    // Rules end what is over by them, and say that they are not applied.
    *warnings.lock().unwrap() = 0;
    refused(retention::apply(&full.keeper, "0d").await.unwrap_err());
    let events = full.events().await;
    assert!(events.iter().all(|event| event.r#type() == "Normal"));
    assert!(events.len() < left && !events.is_empty());
    let rules = Bytes::from_static(keys::RETENTION);
    assert_eq!(full.keeper.store.get(rules).await.unwrap(), None);
    // What is sealed is taken out of the journal.
    let unsealed = Unsealed {
        keeper: Arc::new(full.keeper),
    };
    assert_eq!(unsealed.waiting(), Some(1000));
    // There never were as many.
    let error = unsealed.sealed(u64::MAX).await.unwrap_err();
    assert!(matches!(error, JournalError::NotGiven { .. }), "{error}");
    assert_eq!(unsealed.waiting(), Some(1000));
    let next = unsealed
        .keeper
        .journal
        .as_ref()
        .unwrap()
        .next
        .load(Ordering::Relaxed);
    unsealed.sealed(next).await.unwrap();
    assert_eq!(unsealed.waiting(), Some(0));
    unsealed.keeper.store.close().await;
}

/// An end at the source, say, does not change when an event expires.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_applied_to_what_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let days = Arc::new(Mutex::new(30));
    let meanwhile = Arc::new(Mutex::new(None::<(Arc<EmbeddedStore>, Write)>));
    let (by_days, written) = (Arc::clone(&days), Arc::clone(&meanwhile));
    let keep_for = move |_: &Event| {
        if let Some((store, write)) = written.lock().unwrap().take() {
            let write = store.write_all(vec![write]);
            let handle = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| handle.block_on(write)).unwrap();
        }
        DAY * *by_days.lock().unwrap()
    };
    let mut kept = Kept::open(folder.path(), Arc::new(keep_for));
    kept.observe(3).await;
    let store = Arc::clone(&kept.keeper.store);
    let events = || store.list(ListRequest::default().after(keys::BEFORE_EVENTS));
    let found = events().await.unwrap().records;
    let record = NewRecord {
        expires_at: found[1].expires_at,
        ..NewRecord::new(found[1].value.clone())
    };
    let write = Write::put(found[1].key.clone(), record);
    *meanwhile.lock().unwrap() = Some((Arc::clone(&store), write));
    *days.lock().unwrap() = 3;
    retention::apply(&kept.keeper, "3d").await.unwrap();
    assert!(meanwhile.lock().unwrap().is_none());
    let ends = events().await.unwrap().records;
    let ends: Vec<_> = ends.iter().map(|record| record.expires_at).collect();
    assert_eq!(ends, [Some(UnixMillis(START + 3 * 24 * HOUR)); 3]);
    store.close().await;
}
