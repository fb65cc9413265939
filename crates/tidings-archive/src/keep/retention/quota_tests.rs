//! Which events are deleted for the quota.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::EmbeddedOptions;
use tidings_store::{ListRequest, NewestRequest, Store, UnixMillis};

use super::quota;
use super::quota::{Quota, Trimmed, Unreleased};
use super::rules_tests::{DAY, HOUR, Kept, START, days, options};
use super::shared_quota::SharedQuota;
use crate::keep::consumers::Unsealed;
use crate::keep::feed::Journal;
use crate::keep::keys;
use crate::keep::report;
use crate::keep::versions::{Keeper, Observation, With};

/// The year 2999.
const FAR: i64 = 32_472_144_000;
/// Times in events, as their authors may choose them.
const ODD: [i64; 6] = [
    0,
    1,
    START / 1000 - 86_400 * 365,
    START / 1000,
    START / 1000 + 3600,
    FAR,
];

fn month() -> crate::keep::coverage::KeepFor {
    days(Arc::new(Mutex::new(30)))
}

/// Returns the number of events by namespace.
async fn by_namespace(kept: &Kept) -> BTreeMap<String, u64> {
    let mut numbers = BTreeMap::new();
    for event in kept.events().await {
        let namespace = event.metadata.unwrap().namespace.unwrap();
        *numbers.entry(namespace).or_default() += 1;
    }
    numbers
}

/// Makes steps until the cluster is within its quota, counting what is deleted even if its space is
/// not released yet.
async fn keep(kept: &Kept, quota: &mut Quota) {
    for _ in 0..8 {
        if !quota.keep(&kept.keeper).await.unwrap() {
            return;
        }
        kept.clock.advance(30_000);
        kept.keeper.store.expire().await.unwrap();
    }
}

/// Sorted by their own times, events of 2999 would always be the newest, and all others would be
/// deleted first.
#[tokio::test]
async fn a_namespace_whose_events_are_of_the_future_takes_no_room_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    kept.message_len = 200;
    let now = |kept: &Kept| kept.clock.now().0 / 1000;
    for namespace in ["shop", "bank"] {
        let seconds = now(&kept);
        kept.observe_in(namespace, 200, seconds).await;
    }
    let quota_bytes = kept.disk_bytes().await * 3;
    let mut quota = Quota::new(quota_bytes);
    let mut honest = 200;
    for _ in 0..6 {
        while kept.disk_bytes().await <= quota_bytes / 10 * 11 {
            kept.observe_in("storm", 500, FAR).await;
            kept.clock.advance(60_000);
        }
        let seconds = now(&kept);
        kept.observe_in("shop", 5, seconds).await;
        honest += 5;
        keep(&kept, &mut quota).await;
        let numbers = by_namespace(&kept).await;
        assert_eq!((numbers["shop"], numbers["bank"]), (honest, 200));
        assert!(numbers["storm"] > 0);
        // The space of the deleted events is released.
        kept.clock.advance(HOUR);
        kept.keeper.store.expire().await.unwrap();
    }
    assert!(
        report::read(&kept.keeper, "prod")
            .await
            .unwrap()
            .over_quota
            .events
            > 0
    );
    kept.keeper.store.close().await;
}

/// If whole hours were deleted, nothing would be left.
#[tokio::test]
async fn of_a_storm_within_the_hour_stays_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    for _ in 0..40 {
        kept.observe(500).await;
        kept.clock.advance(1_000);
    }
    let mut quota = Quota::new(kept.disk_bytes().await / 10 * 7);
    keep(&kept, &mut quota).await;
    let left = kept.events().await;
    assert!((10_000..15_000).contains(&left.len()), "{}", left.len());
    let seen = left
        .iter()
        .map(|event| event.last_timestamp.unwrap().seconds.unwrap());
    let first = START / 1000 + 40 * i64::try_from(20_000 - left.len()).unwrap() / 20_000 - 1;
    assert!(seen.min() >= Some(first), "those observed last");
    kept.keeper.store.close().await;
}

/// Within a namespace, the order of observation decides, whatever the events state.
#[tokio::test]
async fn events_go_in_the_order_in_which_they_were_observed() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    for hour in 0..100 {
        kept.observe_in("shop", 20, ODD[hour % ODD.len()]).await;
        kept.clock.advance(HOUR / 7);
    }
    let mut quota = Quota::new(kept.disk_bytes().await / 2);
    assert!(quota.keep(&kept.keeper).await.unwrap());
    let numbers = kept.events().await.into_iter().map(|event| {
        let name = event.metadata.unwrap().name.unwrap();
        name.strip_prefix("web.").unwrap().parse::<u64>().unwrap()
    });
    let mut left: Vec<_> = numbers.collect();
    left.sort_unstable();
    assert!((500..1500).contains(&left.len()), "{}", left.len());
    // A commit has twenty events that were observed at the same time, some of which may be deleted.
    let newest = kept.version - left.len() as u64 + 1 - 20;
    assert!(left[0] >= newest, "{} {newest}", left[0]);
    kept.keeper.store.close().await;
}

/// Whatever others write, and whatever times events state, a namespace below its fair share loses
/// nothing, also of what waits to be sealed. And the quota is kept.
#[tokio::test]
async fn an_honest_namespace_below_its_fair_share_loses_nothing() {
    for seed in 0..12 {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        storm(folder.unwrap().path(), seed).await;
    }
}

async fn storm(folder: &Path, seed: u64) {
    /// Far more bytes than the store uses beside the values.
    const VALUES: u64 = 3 << 20;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept = Kept::open(folder, month());
    kept.keeper.journal = Journal::open(&kept.keeper, true).await.unwrap();
    kept.message_len = random.usize(500..2_000);
    let storms = random.u64(1..5);
    let odd = |random: &mut fastrand::Rng| ODD[random.usize(..ODD.len())];
    // With at most five namespaces, one that uses a tenth is below its fair share.
    let mut number = VALUES / 10 / (kept.message_len as u64 + 300);
    kept.observe_in("shop", number, odd(&mut random)).await;
    let mut quota = None;
    for _ in 0..random.u64(2..6) {
        while kept.keeper.store.stats().await.unwrap().value_bytes < VALUES {
            for storm in 0..storms {
                let seconds = odd(&mut random);
                let events = random.u64(10..200);
                let namespace = format!("storm-{storm}");
                kept.observe_in(&namespace, events, seconds).await;
            }
            kept.clock.advance(random.i64(0..60_000));
        }
        let seconds = odd(&mut random);
        kept.observe_in("shop", 1, seconds).await;
        number += 1;
        let bytes = kept.disk_bytes().await / 100 * random.u64(80..98);
        if random.bool() {
            // Another process begins here.
            quota = None;
        }
        let quota = quota.get_or_insert_with(|| Quota::new(bytes));
        keep(&kept, quota).await;
        let numbers = by_namespace(&kept).await;
        let of_shop = numbers.get("shop");
        assert_eq!(of_shop, Some(&number), "seed {seed}: {numbers:?}");
    }
    let trimmed = report::read(&kept.keeper, "prod").await.unwrap().over_quota;
    assert!(trimmed.events > 0, "seed {seed}");
    let of_shop = quota::trimmed_of(&kept.keeper, "shop").await.unwrap();
    assert_eq!(of_shop, Trimmed::default());
    let told = told_of(kept.keeper, "shop").await;
    assert_eq!(told, number as usize, "seed {seed}");
}

/// Returns how many versions of a namespace are given to be sealed, each once.
async fn told_of(keeper: Keeper, namespace: &str) -> usize {
    let keeper = Arc::new(keeper);
    let unsealed = Unsealed {
        keeper: Arc::clone(&keeper),
    };
    let mut told = Vec::new();
    while let Some(part) = unsealed.next(1 << 20).await.unwrap() {
        for version in part.versions {
            let event = tidings_api::codec::decode_stored(&version.event, 0).unwrap();
            if event.metadata.unwrap().namespace() == namespace {
                told.push(version.number);
            }
        }
        unsealed.sealed(part.through).await.unwrap();
    }
    keeper.store.close().await;
    let number = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), number);
    number
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
    let trimmed = quota::trimmed(&kept.keeper).await.unwrap();
    assert_eq!(trimmed.events, 1000 - events.len() as u64);
    assert!((400..=700).contains(&trimmed.events), "{trimmed:?}");
    // Of the hour in which the cut is, some events are left.
    let seen = |event: &Event| event.last_timestamp.unwrap().seconds.unwrap() * 1000;
    assert!(
        events
            .iter()
            .all(|event| seen(event) >= trimmed.before - 1000)
    );
    let of = |namespace| quota::trimmed_of(&kept.keeper, namespace);
    assert_eq!(of("shop").await.unwrap(), trimmed);
    assert_eq!(of("bank").await.unwrap(), Trimmed::default());
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
    // One of the events gets further versions, some of which are in chunks.
    let mut event = kept.events().await.remove(0);
    let name = event.metadata.as_ref().unwrap().name().to_owned();
    for count in 0..300 {
        kept.version += 1;
        event.count = Some(count);
        let observation = Observation {
            event: event.clone(),
            number: kept.version,
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
    let deleted = quota::delete(&kept.keeper, "shop", &old, none).await;
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
    let trimmed = report::read(&kept.keeper, "prod").await.unwrap().over_quota;
    assert_eq!(trimmed.events, 0);
    // After they are read again, they are deleted with all versions.
    let now = kept.keeper.store.newest(newest()).await.unwrap().records;
    assert!(
        now.iter()
            .any(|record| record.key.ends_with(name.as_bytes()))
    );
    let deleted = quota::delete(&kept.keeper, "shop", &now, none).await;
    assert!(deleted.unwrap().is_some());
    assert_eq!(kept.events().await.len(), 0);
    assert_eq!(kept.keeper.store.list(chunks()).await.unwrap().records, []);
    kept.keeper.store.close().await;
}

/// Space is released some time after events were deleted, or never. Until then, no more events are
/// deleted for it, not even by the next process.
#[tokio::test]
async fn a_small_quota_takes_about_what_is_too_much() {
    const QUOTA: u64 = 20 << 20;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    for segment_bytes in [
        quota::segment_bytes_max(QUOTA),
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
        assert_eq!(quota::segment_bytes_max(quota), expected, "{quota}");
    }
}

/// Observes versions of some events. Each differs so much from the one before that it gets a record
/// of its own.
async fn observe_chunks(kept: &mut Kept, events: u64, versions: u64) {
    for _ in 0..versions {
        let observations: Vec<_> = (0..events).map(|event| observation(kept, event)).collect();
        let with = With::default();
        let keeper = &kept.keeper;
        let observed = keeper.keep(&observations, "", &mut kept.position, with);
        observed.await.unwrap();
    }
}

fn observation(kept: &mut Kept, event: u64) -> Observation {
    kept.version += 1;
    let mut random = fastrand::Rng::with_seed(kept.version);
    let message: String = (0..1400).map(|_| random.alphanumeric()).collect();
    let metadata = ObjectMeta {
        name: Some(format!("web.{event}")),
        namespace: Some("shop".into()),
        uid: Some(format!("uid-{event}")),
        ..ObjectMeta::default()
    };
    Observation {
        event: Event {
            metadata: Some(metadata),
            message: Some(message),
            ..Event::default()
        },
        number: kept.version,
        is_gone: false,
    }
}

async fn records(kept: &Kept, prefix: &'static [u8]) -> Vec<tidings_store::Record> {
    let list = ListRequest::prefix(prefix);
    kept.keeper.store.list(list).await.unwrap().records
}

/// The writes were more than one commit can have, so nothing was ever deleted.
#[tokio::test]
async fn events_with_very_many_versions_are_deleted_as_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    observe_chunks(&mut kept, 500, 9).await;
    let chunks = records(&kept, keys::CHUNKS).await.len();
    assert!(chunks >= 500 * 8, "{chunks}");
    let events = records(&kept, b"shop/").await;
    let none = Unreleased::default();
    let deleted = quota::delete(&kept.keeper, "shop", &events, none).await;
    assert!(deleted.unwrap().is_some());
    for prefix in [&b"shop/"[..], keys::CHUNKS, keys::LEFT] {
        assert_eq!(records(&kept, prefix).await.len(), 0, "{prefix:?}");
    }
    kept.keeper.store.close().await;
}

/// The same with mirrored deletions, where following would stop.
#[tokio::test]
async fn ends_of_events_with_very_many_versions_are_mirrored_as_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    kept.keeper.mirror_deletions = true;
    observe_chunks(&mut kept, 2100, 2).await;
    let ends = (0..2100).map(|event| {
        let mut end = observation(&mut kept, event);
        end.is_gone = true;
        end
    });
    let ends: Vec<_> = ends.collect();
    let keeper = &kept.keeper;
    let observed = keeper.keep(&ends, "", &mut kept.position, With::default());
    observed.await.unwrap();
    for prefix in [&b"shop/"[..], keys::CHUNKS, keys::LEFT] {
        assert_eq!(records(&kept, prefix).await.len(), 0, "{prefix:?}");
    }
    kept.keeper.store.close().await;
}

/// If it noted less than it deleted, as much would be deleted again.
#[tokio::test]
async fn a_process_that_follows_deletes_nothing_for_what_is_about_to_be_released() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    observe_chunks(&mut kept, 300, 20).await;
    let bytes = kept.disk_bytes().await / 10 * 7;
    assert!(Quota::new(bytes).keep(&kept.keeper).await.unwrap());
    let left = kept.events().await.len();
    assert!((1..300).contains(&left), "{left}");
    for _ in 0..3 {
        assert!(!Quota::new(bytes).keep(&kept.keeper).await.unwrap());
    }
    assert_eq!(kept.events().await.len(), left);
    kept.keeper.store.close().await;
}

/// The part of a cluster is larger for a while after each start. If that forgot what is not
/// released yet, each start would delete as much again.
#[tokio::test]
async fn what_was_deleted_for_a_shared_quota_counts_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), month());
    kept.message_len = 200;
    kept.observe(1_000).await;
    let taken = kept.disk_bytes().await;
    let mut left = None;
    for _ in 0..3 {
        let shared = Arc::new(SharedQuota::new(taken / 2 * 3, 2));
        let share = shared.join(quota::taken(&kept.keeper).await.unwrap(), true);
        let mut quota = Quota::new(u64::MAX).with(Some(share));
        assert!(!quota.keep(&kept.keeper).await.unwrap());
        shared.enforce();
        // For a moment it is the only cluster.
        assert!(!quota.keep(&kept.keeper).await.unwrap());
        let _other = shared.join(taken, true);
        keep(&kept, &mut quota).await;
        let now = kept.events().await.len();
        assert!(now < 1_000);
        assert_eq!(*left.get_or_insert(now), now);
    }
    kept.keeper.store.close().await;
}
