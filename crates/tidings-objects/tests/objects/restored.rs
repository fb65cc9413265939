//! A data folder that was restored from a copy, manifests that it did not write, a clock that is
//! wrong, and a storage that replaces what may only be created: no waiting or sealed version is
//! lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_archive::Cluster;
use tidings_history::{Cause, Gap, History};
use tidings_objects::{
    ContinueError, FolderError, Manifest, Place, SealError, SealOptions, Sealer, check, newest,
    take_over,
};
use tidings_store::clock::Clock;

use super::reading::{judged, read};
use super::storage::{Storage, put};
use super::world::{World, believe};

const DAY_MILLIS: i64 = 24 * 3_600_000;

/// Checks the archive, which must have no problems. Returns the newest manifest.
async fn checked(place: &Place) -> Manifest {
    let checked = check(place, "prod").await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    assert_eq!(checked.rows, checked.manifest.rows());
    checked.manifest
}

/// Checks that nothing is sealed, everything still waits, and the cluster reports why.
async fn refused(world: &World, place: &Place) {
    let before = newest(place, "prod").await.unwrap();
    let cluster = world.open().await;
    let waited = cluster.unsealed().waiting();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let sealer = Sealer::new(place, &cluster, clock, SealOptions::default());
    for _ in 0..2 {
        let refused = sealer.seal().await;
        assert!(
            matches!(refused, Err(SealError::Older { .. })),
            "{refused:?}"
        );
    }
    let failure = cluster.unsealed().failure().unwrap();
    assert!(failure.is_older, "{failure:?}");
    assert!(failure.why.contains("data folder is older"), "{failure:?}");
    assert_eq!(cluster.unsealed().waiting(), waited);
    drop(sealer);
    cluster.close().await;
    assert_eq!(newest(place, "prod").await.unwrap(), before);
}

/// Lets the folder continue the archive, and seals what waits.
async fn continued(world: &World, place: &Place) {
    let identity = world.identity().await;
    assert!(world.take_over(place).await.unwrap());
    assert_ne!(world.identity().await, identity);
    world.seal(place, SealOptions::default()).await.unwrap();
    // From then on the archive is the folder's own.
    assert!(!world.take_over(place).await.unwrap());
}

/// The second copy kept the identity of the lost folder, whose numbers were then taken for its own.
#[tokio::test]
async fn copies_made_before_the_first_seal_get_identities_of_their_own() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(1).await;
    let copies = [world.copy(), world.copy()];
    world.seal(&place, SealOptions::default()).await.unwrap();
    for copy in &copies {
        continued(copy, &place).await;
        checked(&place).await;
    }
}

/// Makes a step of an archive. A test may copy the data folder before any step.
async fn step(world: &mut World, place: &Place, number: u64) {
    world.observe(3).await;
    if number == 4 {
        world.delete("shop/web-1.1").await;
    }
    if number % 3 != 2 {
        world.seal(place, SealOptions::default()).await.unwrap();
    }
}

/// A restored copy must be recognized, however many entries it writes, and whatever was sealed
/// since.
async fn a_copy_of_any_step(storage: Storage, one_of: usize) {
    const STEPS: u64 = 9;
    let place = storage.place();
    let mut world = World::new();
    world.observe(1).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let mut copies = Vec::new();
    for number in 0..STEPS {
        copies.push((world.copy(), newest(&place, "prod").await.ok()));
        step(&mut world, &place, number).await;
    }
    world.seal(&place, SealOptions::default()).await.unwrap();
    let last = checked(&place).await;
    // The copy observes new versions in place of those that the former folder sealed since.
    for (copy, sealed) in copies.iter().step_by(one_of) {
        let (mut restored, storage) = (copy.copy(), storage.copy());
        let place = storage.place();
        restored.observed = 2010;
        restored.observe(2).await;
        assert!(
            sealed
                .as_ref()
                .is_none_or(|sealed| sealed.number < last.number)
        );
        refused(&restored, &place).await;
        // The numbers of its own entries become greater than those of the sealed ones.
        for _ in 0..STEPS + 2 {
            restored.observe(1).await;
        }
        refused(&restored, &place).await;
        continued(&restored, &place).await;
        let manifest = checked(&place).await;
        assert_eq!(
            manifest.rows() + manifest.forgotten,
            last.rows() + last.forgotten + 2 + STEPS + 2
        );
        restored.observe(4).await;
        restored.seal(&place, SealOptions::default()).await.unwrap();
        assert_eq!(checked(&place).await.rows(), manifest.rows() + 4);
        // The folder that was believed to be lost seals nothing more.
        let former = world.copy().seal(&place, SealOptions::default()).await;
        assert!(
            matches!(former, Err(SealError::Foreign { .. })),
            "{former:?}"
        );
        // The same copy is restored again, after another one has continued the archive.
        let again = copy.copy();
        let rows = checked(&place).await.rows();
        continued(&again, &place).await;
        assert_eq!(checked(&place).await.rows(), rows);
    }
}

#[tokio::test]
async fn a_data_folder_restored_from_any_step_is_older_than_a_folder() {
    a_copy_of_any_step(Storage::folder(), 2).await;
}

#[tokio::test]
async fn a_data_folder_restored_from_any_step_is_older_than_a_bucket() {
    a_copy_of_any_step(Storage::s3(), 5).await;
}

/// Nothing was sealed since the copy was made, so it may seal.
#[tokio::test]
async fn a_copy_of_the_latest_step_is_no_older() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(5).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let mut copy = world.copy();
    world.observe(5).await;
    copy.observe(7).await;
    copy.seal(&place, SealOptions::default()).await.unwrap();
    copy.check(&place).await;
    refused(&world, &place).await;
}

/// A world that was sealed several times, and has versions that were not.
async fn sealed_times(times: usize, place: &Place) -> World {
    let mut world = World::new();
    for _ in 0..times {
        world.observe(5).await;
        world.seal(place, SealOptions::default()).await.unwrap();
    }
    world.observe(5).await;
    world
}

#[tokio::test]
async fn manifests_that_the_store_did_not_write_are_not_believed() {
    let storage = Storage::folder();
    let place = storage.place();
    let world = sealed_times(3, &place).await;
    let own = newest(&place, "prod").await.unwrap();
    let file = |number: u64| storage.file(&format!("prod/manifests/{number:020}.json"));
    let text = std::fs::read(file(own.number)).unwrap();
    let forged: [fn(&mut Value); 5] = [
        |it| it["sealedThrough"] = u64::MAX.into(),
        |it| {
            it["sealedThrough"] = u64::MAX.into();
            it.as_object_mut().unwrap().remove("archive");
        },
        |it| it["id"] = "0123456789abcdef".into(),
        |it| it["archive"] = "0123456789abcdef".into(),
        |it| it["files"] = json!([]),
    ];
    for forge in forged {
        let mut manifest: Value = serde_json::from_slice(&text).unwrap();
        manifest["number"] = (own.number + 1).into();
        forge(&mut manifest);
        let file = file(manifest["number"].as_u64().unwrap());
        std::fs::write(&file, manifest.to_string()).unwrap();
        refused(&world, &place).await;
        std::fs::remove_file(file).unwrap();
    }
    // The next manifest, or the same number again: forged, and without files.
    for number in [own.number, own.number + 1] {
        let mut manifest: Value = serde_json::from_slice(&text).unwrap();
        manifest["files"] = json!([]);
        if number > own.number {
            manifest["number"] = number.into();
            manifest.as_object_mut().unwrap().remove("archive").unwrap();
        }
        std::fs::write(file(number), manifest.to_string()).unwrap();
        refused(&world, &place).await;
        std::fs::remove_file(file(number)).unwrap();
    }
    std::fs::write(file(own.number), &text).unwrap();
    world.seal(&place, SealOptions::default()).await.unwrap();
    world.check(&place).await;
}

/// The bucket was restored from a copy, or manifests were deleted there. The journal no longer has
/// what they sealed.
#[tokio::test]
async fn what_is_kept_is_sealed_again_if_the_archive_lost_its_newest_manifests() {
    for lost in [1, 2, 4] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut world = sealed_times(5, &place).await;
        let own = newest(&place, "prod").await.unwrap();
        for number in own.number - lost + 1..=own.number {
            std::fs::remove_file(storage.file(&format!("prod/manifests/{number:020}.json")))
                .unwrap();
        }
        refused(&world, &place).await;
        continued(&world, &place).await;
        world.check(&place).await;
        world.observe(5).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
        world.check(&place).await;
    }
}

/// The operator lets the folder continue the archive. What was observed since waits, and is sealed.
#[tokio::test]
async fn a_forged_position_keeps_nothing_from_being_sealed() {
    for version in [u64::MAX, 1 << 62] {
        let storage = Storage::folder();
        let place = storage.place();
        let world = sealed_times(3, &place).await;
        let own = newest(&place, "prod").await.unwrap();
        let file = |number: u64| storage.file(&format!("prod/manifests/{number:020}.json"));
        let text = std::fs::read(file(own.number)).unwrap();
        let mut manifest: Value = serde_json::from_slice(&text).unwrap();
        manifest["number"] = (own.number + 1).into();
        manifest["positions"] = json!([["", {
            "version": version, "latest": version, "epoch": 0, "identity": null, "since": 1,
            "completeUntil": 2, "cause": null, "versions": 15, "selection": "",
        }]]);
        std::fs::write(file(own.number + 1), manifest.to_string()).unwrap();
        refused(&world, &place).await;
        continued(&world, &place).await;
        world.check(&place).await;
        // No source went back that often.
        let manifest = newest(&place, "prod").await.unwrap();
        storage.change_manifest(manifest.number, |manifest| {
            manifest["positions"][0][1]["epoch"] = u64::MAX.into();
        });
        let error = newest(&place, "prod").await.unwrap_err();
        assert!(error.to_string().contains("went back"), "{error}");
    }
}

/// A store that never noted a manifest, as with the first versions of the program, has nothing to
/// compare the archive with.
#[tokio::test]
async fn an_archive_that_lost_its_identity_is_continued_by_the_operator_only() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    world.observe(5).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let manifest = newest(&place, "prod").await.unwrap();
    storage.change_manifest(manifest.number, |manifest| {
        manifest["id"] = "0123456789abcdef".into();
        manifest.as_object_mut().unwrap().remove("archive").unwrap();
    });
    world.observe(5).await;
    refused(&world, &place).await;
    continued(&world, &place).await;
    world.check(&place).await;
    assert!(newest(&place, "prod").await.unwrap().archive.is_some());
}

/// For a while the folder seals to another place. Each place that it is told to continue has
/// everything.
#[tokio::test]
async fn a_folder_seals_to_one_place_and_then_another_and_the_first_again() {
    let [one, other] = [Storage::folder(), Storage::folder()];
    let mut world = World::new();
    let options = SealOptions::default();
    let mut former = 0;
    for to in [0, 1, 0, 0, 1] {
        world.observe(5).await;
        let place = [&one, &other][to].place();
        if to != former {
            assert!(world.seal(&place, options).await.is_err());
            assert!(world.take_over(&place).await.unwrap());
        }
        former = to;
        world.seal(&place, options).await.unwrap();
        assert_eq!(checked(&place).await.rows(), world.observed);
    }
}

/// Files that are too old only by a wrong clock stay, at any step and over restarts.
#[tokio::test]
async fn a_clock_that_is_wrong_for_seconds_takes_nothing_out() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    let mut options = SealOptions::default();
    options.keep_for = Some(Duration::from_secs(400 * 24 * 3600));
    options.grace = Duration::from_secs(24 * 3600);
    for _ in 0..9 {
        world.observe(3).await;
        world.seal(&place, options).await.unwrap();
    }
    let (files, removed) = (
        storage.files(),
        newest(&place, "prod").await.unwrap().removed,
    );
    assert!(files > 2 && !removed.is_empty());
    let kept = async |world: &World, cluster: &Cluster| {
        let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
        let sealer = Sealer::new(&place, cluster, clock, options);
        sealer.seal().await.unwrap();
        let manifest = checked(&place).await;
        assert_eq!(manifest.rows(), world.observed);
        assert_eq!(
            (storage.files(), manifest.removed),
            (files, removed.clone())
        );
    };
    for ahead in [500 * DAY_MILLIS, -500 * DAY_MILLIS, 30_000 * DAY_MILLIS] {
        let cluster = world.open().await;
        believe(&cluster, &world.clock);
        kept(&world, &cluster).await;
        world.clock.set_by(ahead);
        world.clock.advance(7000);
        kept(&world, &cluster).await;
        world.clock.set_by(-ahead);
        kept(&world, &cluster).await;
        cluster.close().await;
        // The clock is wrong when the process starts, and then right again.
        world.clock.set_by(ahead);
        let cluster = world.open().await;
        world.clock.advance(7000);
        kept(&world, &cluster).await;
        world.clock.set_by(-ahead);
        kept(&world, &cluster).await;
        cluster.close().await;
    }
    // The clock stays wrong.
    world.clock.set_by(500 * DAY_MILLIS);
    world.seal(&place, options).await.unwrap();
    assert_eq!(newest(&place, "prod").await.unwrap().files, []);
}

#[tokio::test]
async fn a_storage_that_replaces_what_it_should_create_is_found_before_anything_is_sealed() {
    let storage = Storage::folder();
    let (place, judged) = judged(&storage);
    judged.replaces.store(true, Ordering::Relaxed);
    let mut world = World::new();
    world.observe(5).await;
    let sealed = world.seal(&place, SealOptions::default()).await;
    let expected = matches!(sealed, Err(SealError::Folder(FolderError::Replaces)));
    assert!(expected, "{sealed:?}");
    assert!(place.clusters().await.unwrap().is_empty());
    judged.replaces.store(false, Ordering::Relaxed);
    world.seal(&place, SealOptions::default()).await.unwrap();
    world.check(&place).await;
}

/// The line of an export with the position of a whole cluster.
fn followed(identity: &str, since: i64, until: i64, version: u64) -> Value {
    let time = |millis| {
        jiff::Timestamp::from_millisecond(millis)
            .unwrap()
            .to_string()
    };
    json!([{
        "namespace": "", "identity": identity, "since": time(since), "completeUntil": time(until),
        "resourceVersion": version.to_string(), "latestResourceVersion": version.to_string(),
        "epoch": 0, "versions": 40, "selection": "",
    }])
}

/// For example a pod with an empty volume, which was started before anybody noticed.
#[tokio::test]
async fn a_folder_that_never_sealed_continues_an_archive_behind_a_gap() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut former = World::new();
    former.observe(40).await;
    let now = former.clock.now().0;
    let [began, ended, begun_anew] = [now - 9_000_000, now, now + 600_000];
    former.clock.advance(1000);
    former
        .import_with([followed("one", began, ended, 40), json!([])], &[])
        .await;
    former.seal(&place, SealOptions::default()).await.unwrap();

    // The new folder has the last versions of the events that exist, and newer ones.
    let mut new = World::new();
    new.clock.advance(begun_anew - new.clock.now().0);
    new.observed = 30;
    new.observe(25).await;
    let until = new.clock.now().0;
    new.clock.advance(1000);
    new.import_with([followed("one", begun_anew, until, 55), json!([])], &[])
        .await;
    let foreign = new.seal(&place, SealOptions::default()).await;
    assert!(
        matches!(foreign, Err(SealError::Foreign { .. })),
        "{foreign:?}"
    );
    assert!(new.take_over(&place).await.unwrap());
    new.seal(&place, SealOptions::default()).await.unwrap();
    let manifest = checked(&place).await;
    assert_eq!((manifest.rows(), manifest.gone), (55, 0));
    let [(_, position)] = &manifest.positions[..] else {
        panic!("{:?}", manifest.positions);
    };
    assert_eq!((position.since, position.complete_until), (began, until));
    let gaps = |gaps: &[Gap]| -> Vec<_> {
        gaps.iter()
            .map(|gap| (gap.from.0, gap.to.0, gap.cause))
            .collect()
    };
    let missed = [(ended, begun_anew, Cause::Absent)];
    assert_eq!(gaps(&manifest.gaps), missed);
    let coverage = read(&place).await.coverage();
    assert_eq!(coverage.followed[0].since.0, began);
    // The archive that begins here covers what it has itself.
    let cluster = new.open().await;
    let coverage = cluster.history().coverage(None).await.unwrap();
    assert_eq!(coverage.followed[0].since.0, begun_anew);
    let sealed = coverage.sealed_before.unwrap();
    assert_eq!((sealed.since.0, sealed.until.0), (began, ended));
    cluster.close().await;

    // A folder of another cluster does not continue the archive.
    let mut other = World::new();
    other
        .import_with([followed("other", now, now, 7), json!([])], &[])
        .await;
    let refused = other.take_over(&place).await;
    assert!(
        matches!(refused, Err(ContinueError::OtherCluster { .. })),
        "{refused:?}"
    );
}

/// The new folder covers the time from the end of the sealed versions, and does not claim to have
/// what was before.
#[tokio::test]
async fn a_new_folder_covers_the_time_from_where_the_sealed_versions_end() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut former = World::new();
    former.observe(40).await;
    let now = former.clock.now().0;
    former.clock.advance(1000);
    former
        .import_with([followed("one", now - 9_000_000, now, 40), json!([])], &[])
        .await;
    former.seal(&place, SealOptions::default()).await.unwrap();
    let new = World::new();
    // If the cluster was built anew since, its kube-system has another uid.
    let mut cluster = new.open().await;
    let rebuilt = Some("another");
    let at = jiff::Timestamp::MAX;
    let taken = take_over(&place, &mut cluster, rebuilt, at, &new.clock).await;
    assert!(!taken.unwrap());
    cluster.close().await;
    for is_taken in [true, false] {
        assert_eq!(new.take_over(&place).await.unwrap(), is_taken);
        let cluster = new.open().await;
        let coverage = cluster.history().coverage(None).await.unwrap();
        assert_eq!(
            (
                coverage.followed[0].since.0,
                coverage.followed[0].progress.unwrap().versions
            ),
            (now, 0)
        );
        let sealed = coverage.sealed_before.unwrap();
        assert_eq!((sealed.since.0, sealed.until.0), (now - 9_000_000, now));
        cluster.close().await;
    }
    let coverage = read(&place).await.coverage();
    assert_eq!(coverage.followed[0].since.0, now - 9_000_000);
}

/// Up to when nothing is missing is said with some seconds to spare, in which sealed versions were
/// observed. The new folder has none of these.
#[tokio::test]
async fn a_new_folder_does_not_claim_the_last_seconds_of_the_sealed_versions() {
    for is_damaged in [false, true] {
        let storage = Storage::folder();
        let place = storage.place();
        let mut former = World::new();
        former.observe(40).await;
        let now = former.clock.now().0;
        let complete = now - 5000;
        former.clock.advance(1000);
        former
            .import_with(
                [followed("one", now - 9_000_000, complete, 40), json!([])],
                &[],
            )
            .await;
        former.seal(&place, SealOptions::default()).await.unwrap();
        let manifest = newest(&place, "prod").await.unwrap();
        let file = &manifest.files[0];
        // The last of 40 versions, as the world observes them.
        assert_eq!(file.to.as_millisecond(), now - 960);
        if is_damaged {
            put(&storage.file(&format!("prod/{}", file.path)), None);
        }
        let new = World::new();
        assert!(new.take_over(&place).await.unwrap());
        let cluster = new.open().await;
        let coverage = cluster.history().coverage(None).await.unwrap();
        let followed = &coverage.followed[0];
        assert_eq!(followed.since.0, now - 960, "{is_damaged}");
        assert_eq!(followed.complete_until, followed.since);
        let kept = coverage.totals.unwrap().kept_since;
        assert!(kept.is_none_or(|kept| kept >= followed.since), "{kept:?}");
        let sealed = coverage.sealed_before.unwrap();
        assert_eq!(sealed.until.0, complete);
        cluster.close().await;
        // A reader of the bucket covers both.
        if !is_damaged {
            let coverage = read(&place).await.coverage();
            assert_eq!(coverage.followed[0].since.0, now - 9_000_000);
        }
    }
}

/// The bucket was emptied, or another one is named.
#[tokio::test]
async fn what_a_folder_sealed_elsewhere_is_sealed_again_only_when_told() {
    let (one, other) = (Storage::folder(), Storage::folder());
    let mut world = World::new();
    world.observe(40).await;
    let now = world.clock.now().0;
    let position = followed("one", now - 9_000_000, now, 40);
    world.clock.advance(1000);
    world.import_with([position, json!([])], &[]).await;
    let options = SealOptions::default();
    world.seal(&one.place(), options).await.unwrap();
    world.observe(5).await;
    let place = other.place();
    let refused = world.seal(&place, options).await;
    assert!(
        matches!(refused, Err(SealError::Gone { .. })),
        "{refused:?}"
    );
    assert!(world.take_over(&place).await.unwrap());
    world.seal(&place, options).await.unwrap();
    let manifest = checked(&place).await;
    assert_eq!(manifest.rows(), 45);
    // What had expired before is nowhere.
    let missed = manifest.gaps.iter().map(|gap| (gap.from.0, gap.cause));
    let missed: Vec<_> = missed.collect();
    assert_eq!(missed, [(now - 9_000_000, Cause::Storage)]);
}

/// An old file is damaged so that nothing in it can be read.
#[tokio::test]
async fn a_damaged_file_does_not_keep_an_archive_from_being_continued() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut former = World::new();
    for _ in 0..2 {
        former.observe(20).await;
        former.seal(&place, SealOptions::default()).await.unwrap();
    }
    let manifest = newest(&place, "prod").await.unwrap();
    let whole = std::fs::read(storage.file(&format!("prod/{}", manifest.files[0].path))).unwrap();
    for damaged in [Some(&b"PAR1"[..]), Some(&whole[..whole.len() - 1]), None] {
        let storage = storage.copy();
        let file = storage.file(&format!("prod/{}", manifest.files[0].path));
        put(&file, damaged);
        assert!(World::new().take_over(&storage.place()).await.unwrap());
    }
}

/// A folder that exists keeps its permissions, and users who may open it can read new files.
#[cfg(unix)]
#[tokio::test]
async fn sealed_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = super::storage::temporary();
    let root = folder.path().join("new");
    let place = Place::create(&format!("file://{}", root.display())).unwrap();
    let mut world = World::new();
    world.observe(5).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let mut folders = vec![root.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                files += 1;
            }
        }
    }
    // The probe, a manifest, a file and its rollup.
    assert_eq!(files, 4);
    let events = root.join("prod/events");
    std::fs::set_permissions(&events, PermissionsExt::from_mode(0o750)).unwrap();
    world.observe(5).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    assert_eq!(mode(&events), 0o750);
    let files = std::fs::read_dir(&events).unwrap();
    let mut modes: Vec<_> = files.map(|it| mode(&it.unwrap().path())).collect();
    modes.sort_unstable();
    assert_eq!(modes, [0o600, 0o640]);
}
