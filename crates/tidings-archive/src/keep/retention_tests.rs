//! Retention over months of a manual clock.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, NewestRequest, Store, UnixMillis};

use super::coverage::Coverage;
use super::keeper::{KeepFor, Keeper, Observation, With};
use super::position::Position;
use super::{keys, retention};

const START: i64 = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Kept {
    keeper: Keeper,
    clock: ManualClock,
    position: Position,
    version: u64,
}

impl Kept {
    fn open(folder: &Path, keep_for: KeepFor) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(clock.clone());
        options.expire_by_itself = false;
        options.free_space_min = 0;
        let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
        Self {
            keeper: Keeper::new(store, Arc::new(clock.clone()), keep_for, false),
            clock,
            position: Position::default(),
            version: 1,
        }
    }

    /// Events of one moment, half of them warnings.
    async fn observe(&mut self, number: u64) {
        let seconds = self.clock.now().0 / 1000;
        let observations = (0..number).map(|at| {
            self.version += 1;
            let version = self.version;
            let event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(format!("web.{version}")),
                    namespace: Some("shop".into()),
                    uid: Some(format!("uid-{version}")),
                    ..ObjectMeta::default()
                }),
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
async fn beyond_its_quota_a_cluster_loses_its_oldest_events_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    for _ in 0..20 {
        kept.observe(50).await;
        kept.clock.advance(HOUR);
    }
    let disk_bytes = kept.keeper.store.stats().await.unwrap().disk_bytes;
    assert!(!retention::trim(&kept.keeper, disk_bytes).await.unwrap());
    assert_eq!(kept.events().await.len(), 1000);
    assert!(retention::trim(&kept.keeper, disk_bytes / 2).await.unwrap());
    let events = kept.events().await;
    let trimmed = Coverage::read(&kept.keeper).await.unwrap().trimmed;
    assert_eq!(trimmed.events, 1000 - events.len() as u64);
    assert!((400..=700).contains(&trimmed.events), "{trimmed:?}");
    let seen = |event: &Event| event.last_timestamp.unwrap().seconds.unwrap() * 1000;
    assert!(events.iter().all(|event| seen(event) >= trimmed.before));
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
    let deleted = retention::delete(&kept.keeper, &old, START).await.unwrap();
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
    let deleted = retention::delete(&kept.keeper, &now, START).await.unwrap();
    assert!(deleted.is_some());
    assert_eq!(kept.events().await.len(), 0);
    assert_eq!(kept.keeper.store.list(chunks()).await.unwrap().records, []);
    kept.keeper.store.close().await;
}
