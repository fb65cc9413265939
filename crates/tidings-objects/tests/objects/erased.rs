//! When an event is deleted in the archive, all its versions are removed from the files, whatever
//! happens meanwhile. Other events do not change.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parquet::file::metadata::ParquetMetaDataReader;
use tidings_objects::{Manifest, SealOptions, Sealer, check, newest};
use tidings_store::clock::Clock;
use tidings_store::{ListRequest, ReadError};

use super::reading::read;
use super::sampled::sampled;
use super::storage::{Storage, put};
use super::unsure::{FAULTS, Plan, Unsure};
use super::world::{World, believe, sum_of};

/// The key of the event of every 91st version.
const KEY: &[u8] = b"shop/web-5.3";
/// The number of that event's first version.
const FIRST: u64 = 68;

/// Checks the archive, which must be complete and have this number of versions, with this number
/// removed for deleted events and none otherwise. Returns the newest manifest.
async fn checked(storage: &Storage, versions: u64, forgotten: u64) -> Manifest {
    let checked = check(&storage.place(), "prod").await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    assert_eq!((checked.rows, checked.leavings), (versions, 0));
    let manifest = checked.manifest;
    assert_eq!((manifest.gone, manifest.forgotten), (0, forgotten));
    manifest
}

#[tokio::test]
async fn an_event_that_is_deleted_is_in_no_file_any_more() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.grace = Duration::from_secs(600);
        for _ in 0..9 {
            world.observe(30).await;
            world.seal(&place, options).await.unwrap();
        }
        let sealed = read(&place).await;
        let key = Bytes::from_static(KEY);
        let versions = async || {
            let found = sealed.versions(&key, None, 100).await.unwrap();
            found.map_or(0, |found| found.versions.len())
        };
        assert_eq!(versions().await, 3);
        world.delete(KEY).await;
        // The event is in the file that was merged from eight, and in the last one.
        let done = world.seal(&place, options).await.unwrap();
        assert_eq!((done.versions, done.erased), (0, 2));
        let manifest = checked(&storage, 267, 3).await;
        let levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
        assert_eq!(levels, [1, 0]);
        sealed.look().await.unwrap();
        assert_eq!(versions().await, 0);
        assert_eq!(sealed.store().get(key.clone()).await.unwrap(), None);
        assert_eq!(sealed.coverage().totals.unwrap().events, 267);
        // The files with its bytes stay as long as readers may need them.
        world.clock.advance(700_000);
        world.seal(&place, options).await.unwrap();
        assert_eq!(storage.files(), 4);
        // Without another deletion, nothing is written.
        let before = checked(&storage, 267, 3).await;
        let done = world.seal(&place, options).await.unwrap();
        assert_eq!(done.erased, 0);
        assert_eq!(checked(&storage, 267, 3).await, before);
    }
}

/// The earlier manifests have the name of the event's object. They are kept for a while, for
/// writers that are delayed.
#[tokio::test]
async fn manifests_name_a_deleted_event_until_the_grace_is_over() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        world.observe(1).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        // The only event about this object, and the last by its object's name.
        world.delete("shop/web-1.1").await;
        world.observe(4).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        let naming = || {
            let manifests = std::fs::read_dir(storage.file("prod/manifests")).unwrap();
            let texts = manifests.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
            let texts: Vec<_> = texts.collect();
            let naming = texts.iter().filter(|text| text.contains("\"web-1\""));
            (naming.count(), texts.len())
        };
        let (before, manifests) = naming();
        assert!(before > 0, "none of {manifests} has it");
        let newest = newest(&place, "prod").await.unwrap();
        assert!(newest.purged > 0 && newest.purged <= newest.number);
        world.seal_late(&place, 1 << 20).await.unwrap();
        assert_eq!(naming().0, 0);
        assert!(naming().1 >= manifests);
        checked(&storage, 4, 1).await;
    }
}

/// The versions of an event that expired stay in the files as long as these are kept.
#[tokio::test]
async fn the_end_of_an_event_takes_nothing_out_of_files() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.keep_for = Duration::from_secs(90 * 24 * 3600);
    world.observe(FIRST).await;
    let options = SealOptions::default();
    world.seal(&place, options).await.unwrap();
    world.clock.advance(400 * 24 * 3_600_000);
    let cluster = world.open().await;
    let found = cluster.store().get(Bytes::from_static(KEY)).await;
    assert_eq!(found.unwrap(), None);
    cluster.close().await;
    assert_eq!(world.seal(&place, options).await.unwrap().erased, 0);
    checked(&storage, FIRST, 0).await;
}

#[tokio::test]
async fn a_file_that_has_nothing_else_goes() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        world.observe(1).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        world.delete(b"shop/web-1.1").await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        let manifest = checked(&storage, 0, 1).await;
        assert_eq!((manifest.files.len(), manifest.removed.len()), (0, 2));
    }
}

/// So versions that are observed meanwhile are sealed before all files are written again.
#[tokio::test]
async fn many_files_are_written_anew_some_at_a_time() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    let options = SealOptions::default();
    for _ in 0..7 {
        world.observe(91).await;
        world.seal(&place, options).await.unwrap();
    }
    world.delete(KEY).await;
    for (erased, versions, forgotten) in [(4, 633, 4), (3, 630, 7), (0, 630, 7)] {
        let done = world.seal(&place, options).await.unwrap();
        assert_eq!(done.erased, erased);
        checked(&storage, versions, forgotten).await;
    }
}

/// The damaged file does not hinder the others, and is looked into again.
#[tokio::test]
async fn a_damaged_file_may_have_an_event_until_it_is_whole() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        let options = SealOptions::default();
        for _ in 0..3 {
            world.observe(91).await;
            world.seal(&place, options).await.unwrap();
        }
        let manifest = newest(&place, "prod").await.unwrap();
        let file = storage.file(&format!("prod/{}", manifest.files[1].path));
        let whole = std::fs::read(&file).unwrap();
        for damaged in [Some(&whole[..whole.len() / 2]), Some(&whole[..0]), None] {
            put(&file, damaged);
            if damaged.is_some_and(|bytes| !bytes.is_empty()) {
                world.delete(KEY).await;
                assert_eq!(world.seal(&place, options).await.unwrap().erased, 2);
            }
            let done = world.seal(&place, options).await.unwrap();
            assert_eq!(done.erased, 0);
            let problems = check(&place, "prod").await.unwrap().problems;
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
        std::fs::write(&file, whole).unwrap();
        assert_eq!(world.seal(&place, options).await.unwrap().erased, 1);
        checked(&storage, 270, 3).await;
    }
}

/// The order of the waiting events does not matter.
#[tokio::test]
async fn an_event_that_is_deleted_later_does_not_wait_for_a_damaged_file() {
    const KEYS: [&[u8]; 2] = [KEY, b"shop/web-1.1"];
    for order in [[0, 1], [1, 0]] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut world = World::new();
        let options = SealOptions::default();
        for _ in 0..2 {
            world.observe(91).await;
            world.seal(&place, options).await.unwrap();
        }
        let manifest = newest(&place, "prod").await.unwrap();
        let file = storage.file(&format!("prod/{}", manifest.files[0].path));
        let whole = std::fs::read(&file).unwrap();
        put(&file, Some(&whole[..whole.len() / 2]));
        let cluster = world.open().await;
        believe(&cluster, &world.clock);
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let sealer = Sealer::new(&place, &cluster, clock, options);
        // This seal has searched the damaged file once.
        sealer.seal().await.unwrap();
        for key in order.map(|at| Bytes::from_static(KEYS[at])) {
            cluster.store().delete(key, None).await.unwrap();
            assert_eq!(sealer.seal().await.unwrap().erased, 1);
        }
        assert_eq!(sealer.seal().await.unwrap().erased, 0);
        cluster.close().await;
    }
}

/// A damaged filter says that the file does not have the event.
#[tokio::test]
async fn what_a_file_has_not_is_believed_once_it_is_compared() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    let options = SealOptions::default();
    world.observe(91).await;
    world.seal(&place, options).await.unwrap();
    let manifest = newest(&place, "prod").await.unwrap();
    let file = storage.file(&format!("prod/{}", manifest.files[0].path));
    let whole = std::fs::read(&file).unwrap();
    let meta = ParquetMetaDataReader::new();
    let meta = meta.parse_and_finish(&Bytes::from(whole.clone())).unwrap();
    let column = meta.row_group(0).column(5);
    assert_eq!(column.column_path().string(), "uid");
    let filter = usize::try_from(column.bloom_filter_offset().unwrap()).unwrap();
    let len = usize::try_from(column.bloom_filter_length().unwrap()).unwrap();
    let mut damaged = whole.clone();
    // The filter's bytes: a header, and then blocks of 32 bytes.
    damaged[filter + len % 32..filter + len].fill(0);
    put(&file, Some(&damaged));
    world.delete(KEY).await;
    assert_eq!(world.seal(&place, options).await.unwrap().erased, 0);
    put(&file, Some(&whole));
    assert_eq!(world.seal(&place, options).await.unwrap().erased, 1);
    checked(&storage, 90, 1).await;
}

/// The clock is ahead when the event is removed from the files, or was ahead when they were sealed.
#[tokio::test]
async fn former_files_go_after_the_grace_whatever_the_clock_says() {
    const DAY: i64 = 24 * 3_600_000;
    for ahead in [500 * DAY, -500 * DAY] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.grace = Duration::from_secs(3600);
        world.observe(91).await;
        world.seal(&place, options).await.unwrap();
        world.delete(KEY).await;
        let cluster = world.open().await;
        believe(&cluster, &world.clock);
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let sealer = Sealer::new(&place, &cluster, clock, options);
        world.clock.set_by(ahead);
        assert_eq!(sealer.seal().await.unwrap().erased, 1);
        world.clock.set_by(-ahead);
        sealer.seal().await.unwrap();
        assert_eq!(storage.files(), 4, "{ahead}: within the grace");
        for _ in 0..30 {
            world.clock.advance(3_600_000);
            cluster.unsealed().confirmed();
            sealer.seal().await.unwrap();
        }
        assert_eq!(storage.files(), 2, "{ahead}: after the grace");
        cluster.close().await;
    }
}

/// The reader has the removed files in its cache.
#[tokio::test]
async fn a_list_does_not_continue_with_a_deleted_event_after_the_grace() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(91).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let sealed = read(&place).await;
    let store = sealed.store();
    let all = ListRequest::default();
    let first = store.list(all.clone().limit(1)).await.unwrap();
    let rest = all.at(first.revision).after(first.records[0].key.clone());
    // Everything that the list needs is in the cache now.
    assert_eq!(store.list(rest.clone()).await.unwrap().records.len(), 90);
    world.delete(KEY).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    sealed.look().await.unwrap();
    assert_eq!(store.list(rest.clone()).await.unwrap().records.len(), 90);
    world.seal_late(&place, 1 << 20).await.unwrap();
    sealed.look().await.unwrap();
    let over = store.list(rest).await.unwrap_err();
    assert!(matches!(over, ReadError::Compacted { .. }), "{over}");
}

/// Whatever fault a request has, each version of the event is removed once, and no other version.
/// With `one_of` above 1, only some requests have a fault.
async fn any_request_has_a_fault(storage: Storage, one_of: usize) {
    let mut begun = World::new();
    for _ in 0..2 {
        begun.observe(FIRST).await;
        let place = storage.place();
        begun.seal_late(&place, 1 << 20).await.unwrap();
    }
    begun.delete(b"shop/web-1.1").await;
    begun.observe(4).await;
    let observed = begun.observed - 2;
    let (sum, requests) = {
        let (storage, world) = (storage.copy(), begun.copy());
        let (unsure, place) = Unsure::new(&storage, Plan::None);
        assert_eq!(world.seal_late(&place, 1 << 20).await.unwrap().erased, 2);
        (
            sum_of(&checked(&storage, observed, 2).await),
            unsure.requests(),
        )
    };
    assert!(requests > 15, "there were only {requests} requests");
    for (begin, fault) in FAULTS.into_iter().enumerate() {
        for at in sampled((begin % one_of..requests).step_by(one_of)) {
            let (storage, world) = (storage.copy(), begun.copy());
            let (unsure, place) = Unsure::new(&storage, Plan::At(at, fault));
            // It depends on the request whether the seal fails.
            drop(world.seal_late(&place, 1 << 20).await);
            // A delayed request arrives before the next attempt, or after it.
            if at % 2 == 0 {
                unsure.arrive().await;
            }
            world.seal_late(&storage.place(), 1 << 20).await.unwrap();
            unsure.arrive().await;
            world.seal_late(&storage.place(), 1 << 20).await.unwrap();
            assert_eq!(sum_of(&checked(&storage, observed, 2).await), sum);
        }
    }
}

#[tokio::test]
async fn any_request_in_a_folder_has_a_fault() {
    any_request_has_a_fault(Storage::folder(), 3).await;
}

#[tokio::test]
async fn any_request_to_s3_has_a_fault() {
    any_request_has_a_fault(Storage::s3(), 7).await;
}
