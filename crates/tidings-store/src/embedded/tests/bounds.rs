//! Tests of the limits on one commit, one page and one merge, from inside the crate.

use std::time::Duration;

use lsm_tree::AbstractTree;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::embedded::commit::LOADED_MAX;
use crate::embedded::files::faults;
use crate::embedded::read::{ENDED_MAX, PASSED_OVER_MAX, View};
use crate::{Index, ObjectSelector, UnixMillis};

/// A merge that fails leaves files behind until the store is opened again.
#[test]
fn without_room_on_the_disk_no_tables_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
    let engine = Engine::open(folder.path(), SIZES, &codec).unwrap();
    let names = &engine.index.names;
    for number in 0..8_u8 {
        let mut table = names.ingestion().unwrap();
        table.write(&b"a"[..], [number]).unwrap();
        table.finish().unwrap();
    }
    let before = names.l0_run_count();
    assert!(names.is_crowded());
    let full = folder.path().join("index");
    faults::fill(&full);
    names.merge(engine.index.watermark()).unwrap();
    names.merge_all(engine.index.watermark()).unwrap();
    assert_eq!(names.l0_run_count(), before);
    faults::empty(&full);
    names.merge(engine.index.watermark()).unwrap();
    assert!(!names.is_crowded());
}

/// Creates a record that was last seen before many others, which end in a minute.
async fn create_before_short_lived(store: &EmbeddedStore, others: usize) {
    let create = |number: usize| {
        let index = Index {
            last_seen: UnixMillis(NOW + number.cast_signed() as i64),
            ..Index::default()
        };
        let minutes = if number == 0 { 600 } else { 1 };
        let record = living("1", minutes).index(index);
        store.create(format!("shop/{number}").into(), record)
    };
    for created in futures::future::join_all((0..=others).map(create)).await {
        created.unwrap();
    }
}

/// Checks that the first page of the newest has no record, and the second one the live record.
async fn found_on_the_second_page(store: &EmbeddedStore) {
    let mut request = NewestRequest {
        limit: 1,
        ..NewestRequest::default()
    };
    let page = store.newest(request.clone()).await.unwrap();
    assert_eq!((page.found(), page.more), (0, true));
    assert!(page.place.is_some());
    request.after = page.place;
    let page = store.newest(request).await.unwrap();
    assert_eq!((page.found(), page.more), (1, false));
    assert_eq!(&page.records[0].key[..], b"shop/0");
}

/// Pages skip a bounded number of expired records. A clock that is ahead hides records whose ends
/// are not written yet. Reading them all for one page would take too long.
#[tokio::test]
async fn pages_of_the_newest_pass_over_a_bounded_number_of_expired_records() {
    const EXPIRED: usize = PASSED_OVER_MAX + 100;
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    create_before_short_lived(&store, EXPIRED).await;
    clock.advance(10 * MINUTE);
    found_on_the_second_page(&store).await;
    store.close().await;
}

/// Pages skip a bounded number of ended records. The index has records whose ends are written for
/// as long as their bucket exists.
#[tokio::test]
async fn pages_of_the_newest_skip_a_bounded_number_of_ended_records() {
    const ENDED: usize = ENDED_MAX + 100;
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    create_before_short_lived(&store, ENDED).await;
    clock.advance(5 * MINUTE);
    assert_eq!(store.expire().await.unwrap(), ENDED as u64);
    found_on_the_second_page(&store).await;
    store.close().await;
}

/// The values that a commit ends are in memory until it is done.
#[tokio::test]
async fn large_values_end_in_several_commits() {
    const RECORDS: usize = 32;
    const LEN: usize = 1 << 20;
    const LIFE: i64 = 14 * 24 * 60 * MINUTE;
    let number = |store: &EmbeddedStore| {
        let number = |view: &View<'_>| Ok::<_, Fault>(view.engine.published().number);
        store.shared.read(number).unwrap()
    };
    for case in ["in order", "early", "deleted"] {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(UnixMillis(NOW));
        let store = open(folder.path(), &clock).unwrap();
        let create = async |key: String, life: i64| {
            let record = NewRecord::new(vec![0_u8; LEN]).expires_at(UnixMillis(NOW + life));
            store.create(key.into(), record).await.unwrap();
        };
        if case == "early" {
            create("lasts".into(), LIFE).await;
        }
        for key in 0..RECORDS {
            create(format!("{key}"), LIFE - 10_000).await;
        }
        let before = number(&store);
        if case == "deleted" {
            let deletes = (0..RECORDS).map(|key| store.delete(format!("{key}").into(), None));
            for deleted in futures::future::join_all(deletes).await {
                deleted.unwrap();
            }
        } else {
            clock.advance(LIFE - 5_000);
            assert_eq!(store.expire().await.unwrap(), RECORDS as u64, "{case}");
        }
        let commits = number(&store) - before;
        assert!(
            commits >= (RECORDS * LEN / LOADED_MAX) as u64,
            "{case}: {commits}"
        );
        let left = store.stats().await.unwrap().records;
        assert_eq!(left, u64::from(case == "early"), "{case}");
        store.close().await;
    }
}

/// Expiries are written to the bucket of the commit's other writes, which may itself be expired.
#[tokio::test]
async fn a_bucket_is_kept_as_long_as_the_history_needs_expiries_of_others_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    // Every commit flushes the memtable of the previous one, so a bucket is dropped as soon as
    // possible.
    let options = EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        free_space_min: 0,
        index_memory_bytes: 0,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(folder.path(), options.clone()).unwrap();
    let longer = (0..100).map(|key| Write::put(format!("longer/{key}"), living("1", 60)));
    store.write_all(longer.collect()).await.unwrap();
    let short = store.create("short".into(), living("1", 2)).await.unwrap();
    clock.advance(90 * MINUTE);
    assert_eq!(store.expire().await.unwrap(), 101);
    let last = store.revision();
    for key in ["b", "c", "d"] {
        store.create(key.into(), living("1", 600)).await.unwrap();
    }
    // A revision in the middle of the expiries.
    let after = short + 12;
    store.compact(after).await.unwrap();
    store.close().await;

    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let mut watch = store.watch(Bytes::new(), after).await.unwrap();
    let mut deleted = Vec::new();
    while watch.revision() < store.revision() {
        let changes = watch.next().await.unwrap();
        let ends = changes.iter().filter(|change| change.record().is_none());
        deleted.extend(ends.map(|change| change.revision()));
    }
    assert_eq!(deleted, (after + 1..=last).collect::<Vec<_>>());
    store.close().await;
}

/// A clock that advances by a millisecond at each reading, as if each tree took that long.
#[derive(Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now(&self) -> UnixMillis {
        UnixMillis(NOW)
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

/// Helper threads read the same from the disk as one thread would. Nothing is read from the disk in
/// the calling task.
#[tokio::test]
async fn trees_that_are_read_slowly_are_read_by_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    for number in 0..40_i64 {
        let index = Index {
            object_uid: "one".to_owned(),
            object_name: "web".to_owned(),
            last_seen: UnixMillis(NOW - number * 7919 % 40),
            ..Index::default()
        };
        let record = living("1", 2 << (number % 20)).index(index);
        store
            .create(format!("shop/{number}").into(), record)
            .await
            .unwrap();
    }
    // Closing flushes everything to the trees.
    store.close().await;
    let store = open(folder.path(), &clock).unwrap();
    {
        let engine = store.shared.engine();
        let engine = engine.as_ref().unwrap();
        let slow = Slow::default();
        let at = |clock| {
            View::new(engine, &store.shared.codec).with_recent(&store.shared.changes, clock)
        };
        let (fast, slow) = (at(&clock), at(&slow));
        assert!(fast.buckets.len() > 10, "{} buckets", fast.buckets.len());
        let request = ListRequest::default().object(ObjectSelector::Uid("one".to_owned()));
        let listed = fast.list(&request, UnixMillis(NOW)).unwrap();
        assert_eq!(listed.records.len(), 40);
        let at_once = fast.list_at_once(&request, UnixMillis(NOW)).unwrap();
        assert_eq!(at_once, Some(listed.clone()));
        assert_eq!(slow.list(&request, UnixMillis(NOW)).unwrap(), listed);
        assert_eq!(slow.list_at_once(&request, UnixMillis(NOW)).unwrap(), None);
        for object in [None, Some(ObjectSelector::Uid("one".to_owned()))] {
            let request = NewestRequest {
                limit: 50,
                object,
                ..NewestRequest::default()
            };
            let newest = fast.newest(&request, UnixMillis(NOW)).unwrap();
            assert_eq!(newest.records.len(), 40);
            assert_eq!(slow.newest(&request, UnixMillis(NOW)).unwrap(), newest);
        }
    }
    store.close().await;
}
