//! Whatever fault a storage has, no version is lost or duplicated, and leftovers are deleted later.
//! Faults are given one by one, or drawn from seeds.

use std::sync::Arc;
use std::time::Duration;

use tidings_objects::newest;
use tidings_objects::{ContinueError, FolderError, Place, SealError, SealOptions, Sealer, check};
use tidings_store::clock::{Clock, ManualClock};

use super::sampled::sampled;
use super::storage::Storage;
use super::turns::Turns;
use super::unsure::{FAULTS, Fault, Known, Plan, Unsure};
use super::world::{World, long_after, sum_of};

/// So small that versions which are observed together are sealed as a part of their own.
const PART_BYTES: usize = 1;

/// An archive of seven files, and `parts` parts that wait. Each has four versions.
async fn begin(storage: &Storage, parts: u64) -> World {
    let mut world = World::new();
    for _ in 0..7 {
        world.observe(4).await;
        world.seal_late(&storage.place(), 1 << 20).await.unwrap();
    }
    for _ in 0..parts {
        world.observe(4).await;
    }
    world
}

/// Seals without faults. Returns the sum of the sealed versions, and the number of requests.
async fn well(storage: &Storage, world: &World) -> (u64, usize) {
    let (storage, world) = (storage.copy(), world.copy());
    let (unsure, place) = Unsure::new(&storage, Plan::None);
    assert_eq!(world.seal_late(&place, PART_BYTES).await.unwrap().merged, 8);
    let sum = sum_of(&newest(&storage.place(), "prod").await.unwrap());
    world.check_sum(&storage, sum).await;
    (sum, unsure.requests())
}

/// Each request in turn has each fault; with `one_of` above 1 only some requests.
pub(crate) async fn any_request_has_a_fault(storage: Storage, one_of: usize) {
    let begun = begin(&storage, 2).await;
    let (sum, requests) = well(&storage, &begun).await;
    assert!(requests > 25, "there were only {requests} requests");
    for fault in FAULTS {
        for at in sampled((0..requests).step_by(one_of)) {
            let (storage, world) = (storage.copy(), begun.copy());
            let (unsure, place) = Unsure::new(&storage, Plan::At(at, fault));
            // It depends on the request whether the seal fails.
            drop(world.seal_late(&place, PART_BYTES).await);
            // A delayed request arrives before the next attempt, or after it.
            if at % 2 == 0 {
                unsure.arrive().await;
            }
            world.seal_late(&storage.place(), PART_BYTES).await.unwrap();
            unsure.arrive().await;
            world.seal_late(&storage.place(), PART_BYTES).await.unwrap();
            world.check_sum(&storage, sum).await;
        }
    }
}

#[tokio::test]
async fn any_request_in_a_folder_has_a_fault() {
    any_request_has_a_fault(Storage::folder(), 1).await;
}

#[tokio::test]
async fn any_request_to_s3_has_a_fault() {
    any_request_has_a_fault(Storage::s3(), 5).await;
}

/// If the answer to a new manifest is lost, the writer reads the manifest to find out whether it is
/// its own. The answers to the five requests that look for files to delete are not needed either.
#[tokio::test]
async fn a_manifest_whose_answer_is_lost_is_looked_for() {
    let storage = Storage::folder();
    let mut begun = World::new();
    begun.observe(4).await;
    let well = storage.copy();
    let (unsure, place) = Unsure::new(&well, Plan::None);
    begun.copy().seal_late(&place, 1 << 20).await.unwrap();
    for (fault, expected) in [(Fault::Refused, 5), (Fault::Unanswered, 6)] {
        let mut well = 0;
        for at in 0..unsure.requests() {
            let storage = storage.copy();
            let (_, place) = Unsure::new(&storage, Plan::At(at, fault));
            let sealed = begun.copy().seal_late(&place, 1 << 20).await;
            well += usize::from(sealed.is_ok());
        }
        assert_eq!(well, expected, "{fault:?}");
    }
}

/// After each change, the test's storage checks that every file of the newest manifest exists.
#[tokio::test]
async fn what_is_over_is_deleted_once_no_manifest_names_it() {
    let storage = Storage::folder();
    let mut begun = World::new();
    begun.observe(4).await;
    let options = || {
        let mut options = SealOptions::default();
        options.grace = Duration::ZERO;
        options
    };
    let sealed = begun.seal(&storage.place(), options()).await.unwrap();
    assert_eq!(sealed.files, 1);
    begun.clock = long_after();
    let over = || {
        let mut options = options();
        options.keep_for = Some(Duration::from_secs(3600));
        options
    };
    let well = storage.copy();
    let (unsure, place) = Unsure::new(&well, Plan::None);
    let sealed = begun.copy().seal(&place, over()).await.unwrap();
    assert_eq!((sealed.deleted, well.files()), (2, 0));
    for at in 0..unsure.requests() {
        let (storage, world) = (storage.copy(), begun.copy());
        let (_, place) = Unsure::new(&storage, Plan::At(at, Fault::Refused));
        // It depends on the request whether the seal fails.
        drop(world.seal(&place, over()).await);
        for file in newest(&storage.place(), "prod").await.unwrap().files {
            assert!(storage.file(&format!("prod/{}", file.path)).is_file());
        }
        world.seal(&storage.place(), over()).await.unwrap();
        assert_eq!(storage.files(), 0);
    }
}

/// The paused clock advances only while every task waits.
#[tokio::test(start_paused = true)]
async fn an_answer_is_not_waited_for_longer_than_five_minutes() {
    let storage = Storage::folder();
    let begun = begin(&storage, 2).await;
    let (sum, requests) = well(&storage, &begun).await;
    let longest = Duration::from_secs(301);
    let mut failed = 0;
    for at in 0..requests {
        let (storage, world) = (storage.copy(), begun.copy());
        let (_, place) = Unsure::new(&storage, Plan::At(at, Fault::Slow));
        let began = tokio::time::sleep(Duration::ZERO).deadline();
        match world.seal_late(&place, PART_BYTES).await {
            Err(SealError::Folder(FolderError::Slow)) => failed += 1,
            // The fault hit a merge, which is left for the next time.
            Ok(_) => {}
            Err(error) => panic!("{at}: {error}"),
        }
        assert!(began.elapsed() < longest, "{at}: {:?}", began.elapsed());
        world.seal_late(&storage.place(), PART_BYTES).await.unwrap();
        world.check_sum(&storage, sum).await;
    }
    assert!(failed > 5, "{failed} of {requests} failed");
}

async fn many_faults(storage: Storage, seeds: u64) {
    let begun = begin(&storage, 5).await;
    let (sum, _) = well(&storage, &begun).await;
    for seed in sampled(0..seeds) {
        let (storage, world) = (storage.copy(), begun.copy());
        let random = fastrand::Rng::with_seed(seed);
        let (unsure, place) = Unsure::new(&storage, Plan::Any(random, 8));
        let mut tries = 0;
        while world.seal_late(&place, PART_BYTES).await.is_err() {
            tries += 1;
            assert!(tries < 100, "{seed}: it never ends");
        }
        unsure.arrive().await;
        world.seal_late(&storage.place(), PART_BYTES).await.unwrap();
        world.check_sum(&storage, sum).await;
    }
}

#[tokio::test]
async fn many_requests_in_a_folder_have_faults() {
    many_faults(Storage::folder(), 40).await;
}

#[tokio::test]
async fn many_requests_to_s3_have_faults() {
    many_faults(Storage::s3(), 10).await;
}

/// In races, the time in milliseconds for which files that are no longer part of the archive are
/// left for readers.
const GRACE_MILLIS: i64 = 60_000;

fn options() -> SealOptions {
    let mut options = SealOptions::default();
    options.grace = Duration::from_millis(GRACE_MILLIS.unsigned_abs());
    options.part_bytes = PART_BYTES;
    options
}

async fn seal(world: &World, clock: &ManualClock, place: &Place) -> Result<(), SealError> {
    let cluster = world.open().await;
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let sealed = Sealer::new(place, &cluster, shared, options()).seal().await;
    cluster.close().await;
    sealed.map(drop)
}

/// A data folder and its copy seal at the same time. One of them seals what both have, and the
/// other stops.
pub(crate) async fn a_copy_races(storage: Storage, seeds: u64) {
    let begun = begin(&storage, 3).await;
    let (sum, _) = well(&storage, &begun).await;
    let mut taken = 0;
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let storage = storage.copy();
        let clock = ManualClock::at(begun.clock.now());
        let (turns, known) = (Turns::of(2), Known::by(&clock));
        let writer = |who: usize| {
            let (mut world, turns, clock) = (begun.copy(), Arc::clone(&turns), clock.clone());
            world.clock = clock.clone();
            let turn = Some((Arc::clone(&turns), who));
            let (_, place) = Unsure::among(&storage, Plan::None, Arc::clone(&known), turn);
            async move {
                let mut taken = 0;
                loop {
                    match seal(&world, &clock, &place).await {
                        Ok(()) => break,
                        Err(SealError::Folder(FolderError::Taken { .. })) => taken += 1,
                        // The other folder was first, and seals what both have.
                        Err(SealError::Older { .. }) => {
                            turns.done();
                            return (world, taken, true);
                        }
                        Err(error) => panic!("{seed}: {error}"),
                    }
                    assert!(taken < 20, "{seed}: it never ends");
                }
                turns.done();
                (world, taken, false)
            }
        };
        let given = turns.give(&mut random, &clock, 2 * GRACE_MILLIS);
        let ((), one, other) = tokio::join!(given, writer(0), writer(1));
        taken += one.1 + other.1;
        assert!(!(one.2 && other.2), "{seed}: both are older");
        let (first, second) = if one.2 { (other, one) } else { (one, other) };
        first
            .0
            .seal_late(&storage.place(), PART_BYTES)
            .await
            .unwrap();
        first.0.check_sum(&storage, sum).await;
        let refused = second.0.seal_late(&storage.place(), PART_BYTES).await;
        let is_older = matches!(refused, Err(SealError::Older { .. }));
        assert!(is_older, "{seed}: {refused:?}");
    }
    assert!(taken > 0, "they never met");
}

#[tokio::test]
async fn a_copy_of_a_data_folder_races_with_it_in_a_folder() {
    a_copy_races(Storage::folder(), 30).await;
}

#[tokio::test]
async fn a_copy_of_a_data_folder_races_with_it_on_s3() {
    a_copy_races(Storage::s3(), 6).await;
}

/// A writer that is believed to be lost is still running when another takes its place. It is
/// delayed for longer than any file is left for readers.
async fn the_lost_one_races(storage: Storage, parts: u64, seeds: u64) {
    let begun = begin(&storage, parts).await;
    let waiting = 4 * parts;
    let mut ends = [0, 0];
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let storage = storage.copy();
        let clock = ManualClock::at(begun.clock.now());
        let (turns, known) = (Turns::of(2), Known::by(&clock));
        let place = |who: usize| {
            let turn = Some((Arc::clone(&turns), who));
            Unsure::among(&storage, Plan::None, Arc::clone(&known), turn).1
        };
        let former = async {
            let (mut world, place) = (begun.copy(), place(0));
            world.clock = clock.clone();
            let ended = seal(&world, &clock, &place).await;
            turns.done();
            ended
        };
        let new = async {
            let (mut world, place) = (World::new(), place(1));
            world.clock = clock.clone();
            let mut tries = 0;
            loop {
                match world.take_over(&place).await {
                    Ok(taken) => break assert!(taken),
                    // A manifest was written in between, or a file of the manifest that was read
                    // was merged and removed.
                    Err(ContinueError::Folder(
                        FolderError::Taken { .. }
                        | FolderError::Store(object_store::Error::NotFound { .. }),
                    )) => tries += 1,
                    Err(error) => panic!("{seed}: {error}"),
                }
                assert!(tries < 20, "{seed}: it never ends");
            }
            world.observed = begun.observed;
            world.observe(9).await;
            seal(&world, &clock, &place).await.unwrap();
            turns.done();
        };
        let given = turns.give(&mut random, &clock, 2 * GRACE_MILLIS);
        let ((), ended, ()) = tokio::join!(given, former, new);
        match ended {
            Ok(()) => ends[0] += 1,
            Err(SealError::Foreign { .. } | SealError::Folder(FolderError::Taken { .. })) => {
                ends[1] += 1;
            }
            Err(error) => panic!("{seed}: {error}"),
        }
        let checked = check(&storage.place(), "prod").await.unwrap();
        assert_eq!(checked.problems, Vec::<String>::new(), "{seed}");
        assert_eq!(checked.rows, checked.manifest.rows());
        // All versions are there that were sealed before or that the new writer observed, and some
        // of those that waited in the lost folder.
        let before = begun.observed - waiting;
        let rows = before + 9..=before + 9 + waiting;
        assert!(rows.contains(&checked.rows), "{seed}: {}", checked.rows);
    }
    assert!(ends[0] > 0 && ends[1] > 0, "they never met: {ends:?}");
}

#[tokio::test]
async fn a_lost_writer_races_with_its_successor_in_a_folder() {
    the_lost_one_races(Storage::folder(), 3, 60).await;
}

/// With nothing left to seal, the late writer merges, and then deletes.
#[tokio::test]
async fn a_lost_writer_that_merges_deletes_nothing_of_its_successor() {
    the_lost_one_races(Storage::folder(), 1, 60).await;
}

#[tokio::test]
async fn a_lost_writer_races_with_its_successor_on_s3() {
    the_lost_one_races(Storage::s3(), 3, 6).await;
}
