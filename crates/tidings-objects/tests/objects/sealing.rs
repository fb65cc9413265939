//! What was observed is sealed once, merged, and deleted after its retention, in a folder, on S3
//! and in other clouds alike.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use tidings_archive::{Cluster, ClusterOptions};
use tidings_history::History;
use tidings_objects::{ContinueError, SealError, SealOptions, Sealer, check, newest, take_over};
use tidings_store::clock::Clock;
use tidings_testing::serving;
use tokio::sync::mpsc;

use super::reading::{judged, read};
use super::storage::{Storage, put};
use super::world::{World, believe, long_after};

/// A hundred years.
const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The name of a file that a killed writer left behind.
const STRAY: &str = "20260101T000000Z-20260101T000000Z-00112233445566ff.parquet";

#[tokio::test]
async fn files_are_merged_and_have_what_those_before_had() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.grace = LONG;
        let mut merged = 0;
        for _ in 0..20 {
            world.observe(50).await;
            merged += world.seal(&place, options).await.unwrap().merged;
            world.check(&place).await;
        }
        assert_eq!(merged, 16);
        let manifest = newest(&place, "prod").await.unwrap();
        let levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
        assert_eq!(levels, [1, 1, 0, 0, 0, 0]);
        // The files from before the merge are kept for readers, with their rollups.
        assert_eq!(manifest.removed.len(), 2 * 16);
        for removed in &manifest.removed {
            let path = format!("prod/{}", removed.path);
            assert!(storage.has(&path), "{path}");
        }
    }
}

/// Versions that were deleted before they were sealed are not in a gap.
#[tokio::test]
async fn readers_are_told_how_many_versions_were_deleted_before_they_were_sealed() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(2).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let sealed = read(&place).await;
    assert_eq!(sealed.coverage().totals.unwrap().gone, Some(0));
    world.observe(2).await;
    world.delete(b"shop/web-3.3").await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    sealed.look().await.unwrap();
    let coverage = sealed.coverage();
    let totals = coverage.totals.unwrap();
    assert_eq!((totals.events, totals.gone), (3, Some(1)));
    // Readers do not know how long versions are kept.
    assert_eq!(coverage.retention, None);
}

/// Making a file takes memory, so only one cluster does it at a time.
#[tokio::test]
async fn clusters_take_turns_at_making_files() {
    let mut world = World::new();
    for _ in 0..10 {
        world.observe(2).await;
    }
    let folders: Vec<_> = (0..4).map(|_| world.copy()).collect();
    let storage = Storage::folder();
    let (place, judged) = judged(&storage);
    let mut options = SealOptions::default();
    options.part_bytes = 1;
    let sealed = folders.iter().enumerate().map(|(number, world)| {
        let (name, place) = (format!("cluster-{number}"), &place);
        async move { world.seal_as(&name, world.path(), place, options).await }
    });
    for sealed in futures::future::join_all(sealed).await {
        assert_eq!(sealed.unwrap().files, 20);
    }
    assert_eq!(judged.most.load(Ordering::Relaxed), 1);
}

/// If versions arrive faster than they are sealed, a seal would otherwise never end, and would
/// write files of a few versions each.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_observed_meanwhile_waits_for_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let [source, kept] = ["source", "kept"].map(|name| folder.path().join(name));
    let server = serving::start(&source, 0).await;
    let client = serving::client(server.kubeconfig()).await;
    let events: Api<Event> = Api::namespaced(client.clone(), "shop");
    let mut options = ClusterOptions::new("prod");
    options.seal = true;
    let cluster = Cluster::open(&kept, &client, options).await.unwrap();
    let past = cluster.history();
    let observe = async |number: u64| {
        let name = format!("web.{number}");
        let event = serving::event(&name);
        let created = events.create(&PostParams::default(), &event).await;
        created.unwrap();
        let is_kept = async {
            let key = Bytes::from(format!("shop/{name}"));
            let found = async || past.versions(key.clone(), None, 1).await.unwrap();
            while found().await.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let is_kept = tokio::time::timeout(Duration::from_secs(60), is_kept);
        is_kept.await.unwrap();
    };
    observe(1).await;
    let storage = Storage::folder();
    let (place, store) = judged(&storage);
    let clock: Arc<dyn Clock> = Arc::new(long_after());
    let sealer = Sealer::new(&place, &cluster, clock, SealOptions::default());
    let (tell, mut told) = mpsc::channel(1);
    *store.meanwhile.lock() = Some(tell);
    let observing = async {
        for number in 2..5 {
            let written = told.recv().await.unwrap();
            observe(number).await;
            written.send(()).unwrap();
        }
    };
    let sealed = tokio::select! {
        sealed = sealer.seal() => sealed.unwrap(),
        () = observing => panic!("it seals what comes meanwhile, too"),
    };
    assert_eq!((sealed.versions, sealed.files), (1, 1));
    *store.meanwhile.lock() = None;
    let sealed = sealer.seal().await.unwrap();
    assert_eq!((sealed.versions, sealed.files), (1, 1));
    assert_eq!(newest(&place, "prod").await.unwrap().rows(), 2);
    drop(sealer);
    cluster.close().await;
    server.shutdown().await;
}

/// If the data folder is lost, versions that were not sealed are read at the source again.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_end_at_the_source_too_early_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let [source, kept, log] = ["source", "kept", "log"].map(|name| folder.path().join(name));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(Arc::new(std::fs::File::create(&log).unwrap()))
        .with_max_level(tracing::Level::WARN)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = serving::start(&source, 0).await;
    let client = serving::client(server.kubeconfig()).await;
    let events: Api<Event> = Api::namespaced(client.clone(), "shop");
    let mut options = ClusterOptions::new("prod");
    options.seal = true;
    let cluster = Cluster::open(&kept, &client, options).await.unwrap();
    let history = cluster.history();
    let until = async |is_so: &dyn Fn() -> bool| {
        let waited = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waited)
            .await
            .unwrap();
    };
    until(&|| history.following().state == "watching").await;
    // From a hundred ends on it is known how long events live.
    for number in 0..100 {
        let event = serving::event(&format!("web.{number}"));
        let created = events.create(&PostParams::default(), &event).await;
        created.unwrap();
    }
    let (how, all) = (DeleteParams::default(), ListParams::default());
    events.delete_collection(&how, &all).await.unwrap();
    until(&|| cluster.unsealed().longest_life().is_some()).await;
    let clock: Arc<dyn Clock> = Arc::new(long_after());
    let storage = Storage::folder();
    let sealer = Sealer::new(&storage.place(), &cluster, clock, SealOptions::default());
    let is_warned = || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("--seal-after should be half as long")
    };
    tokio::select! {
        () = sealer.run() => panic!("it ends"),
        () = until(&is_warned) => {}
    }
    cluster.close().await;
    server.shutdown().await;
}

/// Files are merged between the parts of a seal, so that no manifest names many small files.
#[tokio::test]
async fn one_who_fell_behind_leaves_few_files() {
    let mut behind = World::new();
    for _ in 0..40 {
        behind.observe(2).await;
    }
    for storage in Storage::each() {
        let (place, world) = (storage.place(), behind.copy());
        let mut options = SealOptions::default();
        options.grace = LONG;
        // Each version is a part of its own.
        options.part_bytes = 1;
        let sealed = world.seal(&place, options).await.unwrap();
        assert_eq!((sealed.files, sealed.merged), (80, 80 + 8));
        world.check(&place).await;
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(storage.file("prod/manifests")).unwrap() {
            let manifest = std::fs::read(entry.unwrap().path()).unwrap();
            let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
            numbers.push(manifest["files"].as_array().unwrap().len());
        }
        let most = numbers.iter().max().unwrap();
        assert!(*most <= 3 * 8 && numbers.len() > 80, "{numbers:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_not_merged_and_keeps_nothing_from_being_sealed() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        let options = SealOptions::default();
        for _ in 0..7 {
            world.observe(5).await;
            world.seal(&place, options).await.unwrap();
        }
        let manifest = newest(&place, "prod").await.unwrap();
        let file = storage.file(&format!("prod/{}", manifest.files[3].path));
        let whole = std::fs::read(&file).unwrap();
        let longer = [&whole[..], b"x"].concat();
        for damaged in [Some(&whole[..50]), Some(&longer[..]), None] {
            put(&file, damaged);
            world.observe(5).await;
            let sealed = world.seal(&place, options).await.unwrap();
            // With the second kind of damage there are eight other files to merge.
            let expected = u64::from(damaged == Some(&longer[..])) * 8;
            assert_eq!((sealed.versions, sealed.merged), (5, expected));
        }
        let checked = check(&place, "prod").await.unwrap();
        assert_eq!(checked.problems.len(), 1);
        std::fs::write(&file, whole).unwrap();
        world.check(&place).await;
    }
}

#[tokio::test]
async fn files_are_deleted_when_their_time_is_over_and_after_a_grace() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.keep_for = Some(Duration::from_secs(3600));
        options.grace = Duration::from_secs(600);
        world.observe(30).await;
        for (millis, named, removed, there) in
            [(0, 1, 0, 2), (3_700_000, 0, 2, 2), (700_000, 0, 0, 0)]
        {
            world.clock.advance(millis);
            world.seal(&place, options).await.unwrap();
            let manifest = newest(&place, "prod").await.unwrap();
            let found = (manifest.files.len(), manifest.removed.len());
            assert_eq!((found, storage.files()), ((named, removed), there));
        }
    }
}

#[tokio::test]
async fn the_oldest_files_are_deleted_above_a_quota_and_after_a_grace() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.grace = Duration::from_secs(600);
        for _ in 0..4 {
            world.observe(30).await;
            world.seal(&place, options).await.unwrap();
        }
        let before = newest(&place, "prod").await.unwrap();
        let mut kept = before.clone();
        kept.files.drain(..2);
        options.quota = Some(kept.bytes());
        world.seal(&place, options).await.unwrap();
        let manifest = newest(&place, "prod").await.unwrap();
        assert_eq!(manifest.files, kept.files);
        let until = before.files[1].to;
        let over = manifest.over_quota;
        assert_eq!((over.versions, over.until), (60, Some(until)));
        // The removed files are kept for readers, with their rollups.
        assert_eq!((manifest.removed.len(), storage.files()), (4, 8));
        let checked = check(&place, "prod").await.unwrap();
        assert_eq!(checked.problems, Vec::<String>::new());
        assert_eq!((checked.rows, checked.leavings), (60, 0));
        let coverage = read(&place).await.coverage();
        assert_eq!(
            (coverage.totals.unwrap().events, coverage.over_quota.events),
            (60, 60)
        );
        let before = coverage.over_quota.observed_before.unwrap();
        assert_eq!(before.0, until.as_millisecond());
        world.clock.advance(700_000);
        world.seal(&place, options).await.unwrap();
        let manifest = newest(&place, "prod").await.unwrap();
        assert_eq!((manifest.removed.len(), storage.files()), (0, 4));
        // Without removed files, nothing is written.
        world.seal(&place, options).await.unwrap();
        let after = newest(&place, "prod").await.unwrap();
        assert_eq!(after, manifest);
    }
}

/// Otherwise newer versions would be deleted to keep the quota, and then older ones would arrive.
#[tokio::test]
async fn everything_that_waits_is_sealed_before_a_quota_takes_anything() {
    let mut world = World::new();
    for _ in 0..40 {
        world.observe(2).await;
    }
    let storage = Storage::folder();
    let mut options = SealOptions::default();
    options.grace = LONG;
    options.quota = Some(0);
    // Each version is a part of its own.
    options.part_bytes = 1;
    let place = storage.place();
    world.seal(&place, options).await.unwrap();
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(storage.file("prod/manifests")).unwrap() {
        let manifest = std::fs::read(entry.unwrap().path()).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        if !manifest["overQuota"].is_null() {
            numbers.push(manifest["number"].as_u64().unwrap());
        }
    }
    let manifest = newest(&place, "prod").await.unwrap();
    assert_eq!(numbers, [manifest.number]);
    // The latest file stays.
    assert_eq!(manifest.files.len(), 1);
    assert_eq!(manifest.files[0].to, manifest.sealed_until);
    assert_eq!(manifest.rows() + manifest.over_quota.versions, 80);
    assert_eq!(check(&place, "prod").await.unwrap().problems.len(), 0);
}

#[tokio::test]
async fn one_that_cannot_be_deleted_keeps_no_other() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(5).await;
    let mut options = SealOptions::default();
    world.seal(&place, options).await.unwrap();
    let manifest = newest(&place, "prod").await.unwrap();
    let path = manifest.files[0].path.clone();
    // A folder of this name cannot be deleted as a file is.
    let file = storage.file(&format!("prod/{path}"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let stray = storage.file(&format!("prod/events/{STRAY}"));
    std::fs::write(&stray, "x").unwrap();
    options.keep_for = Some(Duration::from_secs(3600));
    options.grace = Duration::ZERO;
    world.clock = long_after();
    world.seal(&place, options).await.unwrap();
    assert!(!stray.exists());
    let manifest = newest(&place, "prod").await.unwrap();
    let left: Vec<_> = manifest.removed.iter().map(|it| &it.path).collect();
    assert_eq!(left, [&path]);
}

/// The storage keeps some objects by a rule of its own.
#[tokio::test]
async fn objects_that_cannot_be_deleted_keep_no_others() {
    const HELD: usize = 12;
    let storage = Storage::folder();
    let (place, store) = judged(&storage);
    let mut world = World::new();
    let mut options = SealOptions::default();
    for _ in 0..7 {
        world.observe(3).await;
        world.seal(&place, options).await.unwrap();
    }
    let manifest = newest(&place, "prod").await.unwrap();
    let paths = manifest.files.iter().flat_map(|file| {
        let rollup = file.rollup.as_ref().unwrap();
        [file.path.as_str(), rollup.path.as_str()]
    });
    let mut paths: Vec<_> = paths.map(|path| format!("prod/{path}").into()).collect();
    paths.truncate(HELD);
    *store.held.lock() = paths;
    options.keep_for = Some(Duration::from_secs(3600));
    options.grace = Duration::ZERO;
    world.clock = long_after();
    let cluster = world.open().await;
    believe(&cluster, &world.clock);
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let sealer = Sealer::new(&place, &cluster, clock, options);
    // The first seal ends its deletions after ten failures, all of held objects.
    for files in [14, HELD, HELD] {
        sealer.seal().await.unwrap();
        assert_eq!(storage.files(), files);
    }
    let left = newest(&place, "prod").await.unwrap().removed.len();
    assert_eq!((left, storage.files()), (HELD, HELD));
    store.held.lock().clear();
    for _ in 0..2 {
        sealer.seal().await.unwrap();
    }
    assert_eq!(storage.files(), 0);
    cluster.close().await;
}

/// Without this the task that seals would end, and nobody would learn of it.
#[tokio::test]
async fn a_panic_is_a_failure_and_sealing_goes_on() {
    let storage = Storage::folder();
    let (place, store) = judged(&storage);
    let mut world = World::new();
    world.observe(3).await;
    let cluster = world.open().await;
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let sealer = Sealer::new(&place, &cluster, clock, SealOptions::default());
    store.panics.store(true, Ordering::Relaxed);
    let failed = sealer.seal().await;
    assert!(matches!(failed, Err(SealError::Panicked)), "{failed:?}");
    let failure = cluster.unsealed().failure().unwrap();
    assert!(failure.why.contains("panicked"), "{failure:?}");
    store.panics.store(false, Ordering::Relaxed);
    assert_eq!(sealer.seal().await.unwrap().versions, 3);
    assert_eq!(cluster.unsealed().failure(), None);
    cluster.close().await;
}

#[tokio::test]
async fn another_store_does_not_go_on_with_an_archive() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        world.observe(10).await;
        let options = SealOptions::default();
        world.seal(&place, options).await.unwrap();
        let other = tempfile::tempdir().unwrap();
        let kept = Cluster::open_kept(other.path(), world.options("prod")).await;
        let kept = kept.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let foreign = Sealer::new(&place, &kept, clock, options).seal().await;
        assert!(
            matches!(foreign, Err(SealError::Foreign { .. })),
            "{foreign:?}"
        );
        // The cluster reports the failure.
        let failure = kept.unsealed().failure().unwrap();
        assert!(failure.why.contains("another data folder"), "{failure:?}");
        assert!(!failure.is_older);
        kept.close().await;
        // Under another name, the other folder has an archive of its own.
        let own = world.seal_as("other", other.path(), &place, options).await;
        own.unwrap();
        world.check(&place).await;
    }
}

/// A check finds and reports what is wrong with an archive.
#[tokio::test]
async fn damage_is_found() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        world.observe(10).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        let manifest = newest(&place, "prod").await.unwrap();
        let file = storage.file(&format!("prod/{}", manifest.files[0].path));
        let whole = std::fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        let cut = &whole[..whole.len() - 1];
        for bytes in [&flipped[..], cut] {
            std::fs::write(&file, bytes).unwrap();
            let problems = check(&place, "prod").await.unwrap().problems;
            assert_eq!(problems.len(), 1);
            assert!(problems[0].contains("its bytes"), "{problems:?}");
        }
        std::fs::remove_file(&file).unwrap();
        let problems = check(&place, "prod").await.unwrap().problems;
        assert!(problems[0].contains("not there"), "{problems:?}");
        std::fs::write(&file, whole).unwrap();
        world.check(&place).await;
        std::fs::write(storage.file(&format!("prod/events/{STRAY}")), "x").unwrap();
        std::fs::write(storage.file(&format!("prod/rollups/{STRAY}")), "x").unwrap();
        assert_eq!(check(&place, "prod").await.unwrap().leavings, 2);
        assert_eq!(place.clusters().await.unwrap(), ["prod"]);
    }
}

/// A rollup is compared with the events of its file, and with its checksum.
#[tokio::test]
async fn a_rollup_that_says_something_else_is_found() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        for versions in [10, 11] {
            world.observe(versions).await;
            world.seal(&place, SealOptions::default()).await.unwrap();
        }
        let manifest = newest(&place, "prod").await.unwrap();
        let rollup = manifest.files[0].rollup.clone().unwrap();
        let file = storage.file(&format!("prod/{}", rollup.path));
        let whole = std::fs::read(&file).unwrap();
        let problem = async || {
            let problems = check(&place, "prod").await.unwrap().problems;
            assert!(problems[0].starts_with(&rollup.path), "{problems:?}");
            problems.join("\n")
        };
        std::fs::remove_file(&file).unwrap();
        assert!(problem().await.contains("not there"));
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert!(problem().await.contains("its bytes"));
        std::fs::write(&file, whole).unwrap();
        world.check(&place).await;
        // Each of two files has the rollup of the other.
        storage.change_manifest(manifest.number, |manifest| {
            let (one, other) = (&manifest["files"][0], &manifest["files"][1]);
            let rollups = [other["rollup"].clone(), one["rollup"].clone()];
            for (file, rollup) in rollups.into_iter().enumerate() {
                manifest["files"][file]["rollup"] = rollup;
            }
        });
        let problems = check(&place, "prod").await.unwrap().problems;
        assert_eq!(problems.len(), 2, "{problems:?}");
        let says = "it does not say what the events say";
        assert!(problems.iter().all(|it| it.contains(says)), "{problems:?}");
    }
}

/// Files of early versions have no rollup. The file that they are merged into has one.
#[tokio::test]
async fn files_without_a_rollup_are_part_of_an_archive() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        let mut options = SealOptions::default();
        options.grace = Duration::ZERO;
        for _ in 0..7 {
            world.observe(5).await;
            world.seal(&place, options).await.unwrap();
        }
        let manifest = newest(&place, "prod").await.unwrap();
        storage.change_manifest(manifest.number, |manifest| {
            for file in manifest["files"].as_array_mut().unwrap() {
                file.as_object_mut().unwrap().remove("rollup").unwrap();
            }
        });
        world.check(&place).await;
        // As if a writer that knows no rollups had sealed the files. This folder did not seal them.
        assert!(world.take_over(&place).await.unwrap());
        std::fs::remove_dir_all(storage.file("prod/rollups")).unwrap();
        world.check(&place).await;
        world.observe(5).await;
        assert_eq!(world.seal(&place, options).await.unwrap().merged, 8);
        world.check(&place).await;
        let manifest = newest(&place, "prod").await.unwrap();
        assert!(manifest.files[0].rollup.is_some());
        assert_eq!(storage.files(), 2);
    }
}

#[tokio::test]
async fn a_new_store_takes_the_place_of_one_that_is_lost() {
    for storage in Storage::each() {
        let place = storage.place();
        let options = SealOptions::default();
        let (mut former, mut new) = (World::new(), World::new());
        former.observe(40).await;
        former.seal(&place, options).await.unwrap();
        let before = newest(&place, "prod").await.unwrap();

        let mut cluster = new.open().await;
        // It was written since the time by which it was lost.
        let at = before.written_at;
        let taken = take_over(&place, &mut cluster, None, at, &new.clock).await;
        assert!(!taken.unwrap());
        assert_eq!(newest(&place, "prod").await.unwrap(), before);
        let lost = at + jiff::SignedDuration::from_millis(1);
        let taken = take_over(&place, &mut cluster, None, lost, &new.clock).await;
        assert!(taken.unwrap());
        let after = newest(&place, "prod").await.unwrap();
        // A second folder that is given the same time is refused.
        assert!(after.written_at >= lost);
        assert_eq!((&after.files, after.sealed_through), (&before.files, 0));
        assert_eq!(after.writer, cluster.store_identity());
        // From then on the archive is the folder's own.
        let again = take_over(&place, &mut cluster, None, jiff::Timestamp::MAX, &new.clock).await;
        assert!(!again.unwrap());
        cluster.close().await;

        // If the former folder appears again, it seals nothing more.
        former.observe(10).await;
        let fenced = former.seal(&place, options).await;
        assert!(
            matches!(fenced, Err(SealError::Foreign { .. })),
            "{fenced:?}"
        );
        // A folder that has sealed elsewhere does not continue this archive.
        let (elsewhere, mut other) = (Storage::folder(), World::new());
        other.observe(10).await;
        other.seal(&elsewhere.place(), options).await.unwrap();
        let refused = other.take_over(&place).await;
        assert!(
            matches!(refused, Err(ContinueError::HasSealed { .. })),
            "{refused:?}"
        );

        new.observed = 40;
        new.clock.advance(3_600_000);
        new.observe(25).await;
        new.seal(&place, options).await.unwrap();
        new.check(&place).await;
    }
}
