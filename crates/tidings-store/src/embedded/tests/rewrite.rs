//! Tests of releasing space: with all TTLs, and without visible effects.

use std::fs;
use std::path::Path;

use tidings_testing::copy_folder;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::embedded::codec::Swept;
use crate::embedded::codec::version::NEVER;
use crate::embedded::files::faults::{self, Random};
use crate::embedded::files::power::Disk;
use crate::embedded::log::segment::Scratch;
use crate::embedded::maintenance::{Failure, Pass, Place, step};
use crate::embedded::read::View;
use crate::{At, Change, Index, ObjectSelector, UnixMillis};

const NOW: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const SEGMENT: u64 = 8 << 10;

/// Makes a folder, in memory if possible: each of many openings and commits is synced.
fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn options(clock: &ManualClock) -> EmbeddedOptions {
    EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        free_space_min: 0,
        history_memory_bytes: 4 << 10,
        segment_bytes: SEGMENT,
        log_files_max: 1,
        ..EmbeddedOptions::default()
    }
}

fn open(folder: &Path, clock: &ManualClock) -> EmbeddedStore {
    EmbeddedStore::open(folder, options(clock)).unwrap()
}

fn engine(store: &EmbeddedStore) -> Arc<Engine> {
    match &*store.shared.engine() {
        Some(engine) => Arc::clone(engine),
        None => panic!("it is open"),
    }
}

async fn reopen(store: EmbeddedStore, folder: &Path, clock: &ManualClock) -> EmbeddedStore {
    store.close().await;
    drop(store);
    open(folder, clock)
}

/// Runs a complete pass besides those that the store begins by itself. Returns its last place.
fn pass(store: &EmbeddedStore) -> Place {
    let engine = engine(store);
    engine.log.seal(0, u64::MAX);
    let mut at = Place::default();
    while let Some(next) = step(&engine, &all(&engine), at, &|_| true).unwrap() {
        at = next;
    }
    at
}

/// A pass over all buckets. All swept versions count as garbage if the history is forgotten.
fn all(engine: &Engine) -> Pass {
    let state = engine.published().state;
    let is_forgotten = state.compacted == state.revision;
    Pass {
        dead: if is_forgotten {
            state.swept
        } else {
            Swept::default()
        },
        spared: 0,
    }
}

/// Bytes of the whole log.
fn log_len(store: &EmbeddedStore) -> u64 {
    engine(store).len_behind(0)
}

fn record(random: &mut Random, object: usize) -> NewRecord {
    // Bytes that do not compress.
    let value: Vec<u8> = (0..60 + random.below(200))
        .map(|_| random.next() as u8)
        .collect();
    let index = Index {
        object_uid: format!("uid-{object}"),
        last_seen: UnixMillis(NOW + (random.next() % 1000).cast_signed()),
        ..Index::default()
    };
    NewRecord::new(value).index(index)
}

/// Everything that can be read: current and past records, in every order, and later changes.
#[derive(Debug, PartialEq)]
struct Seen {
    stats: (u64, u64, Revision, Revision),
    pages: Vec<(Option<Revision>, Vec<Record>)>,
    newest: Vec<Record>,
    objects: Vec<Vec<Record>>,
    gets: Vec<Option<Record>>,
    changes: Vec<Arc<Change>>,
}

async fn look(store: &EmbeddedStore, keys: &[Bytes]) -> Seen {
    let stats = store.stats().await.unwrap();
    let (oldest, latest) = (stats.oldest_revision, stats.revision);
    let mut pages = Vec::new();
    for at in [
        None,
        Some(oldest),
        Some(Revision::midpoint(oldest, latest)),
        Some(latest),
    ] {
        let request = ListRequest {
            at: at.map_or(At::Latest, At::Exact),
            ..ListRequest::default()
        };
        pages.push((at, store.list(request).await.unwrap().records));
    }
    let newest = NewestRequest {
        limit: usize::MAX,
        ..NewestRequest::default()
    };
    let newest = store.newest(newest).await.unwrap().records;
    let mut objects = Vec::new();
    for object in 0..5 {
        let object = ObjectSelector::Uid(format!("uid-{object}"));
        let page = store.list(ListRequest::default().object(object)).await;
        objects.push(page.unwrap().records);
    }
    let mut gets = Vec::new();
    for key in keys {
        gets.push(store.get(key.clone()).await.unwrap());
    }
    let mut changes = Vec::new();
    let mut watch = store.watch(Bytes::new(), oldest).await.unwrap();
    while changes
        .last()
        .map_or(oldest, |change: &Arc<Change>| change.revision())
        < latest
    {
        changes.extend(watch.next().await.unwrap().iter().cloned());
    }
    Seen {
        stats: (stats.records, stats.value_bytes, oldest, latest),
        pages,
        newest,
        objects,
        gets,
        changes,
    }
}

async fn churn(store: &EmbeddedStore, random: &mut Random, keys: &[Bytes], steps: usize) {
    for _ in 0..steps {
        let at = random.below(keys.len());
        let key = keys[at].clone();
        let current = store.get(key.clone()).await.unwrap();
        let now = store.shared.clock.now();
        let record = record(random, at % 5);
        let record = match random.below(6) {
            // Sometimes a version replaces one in another bucket.
            0 => record.expires_at(UnixMillis(now.0 + 600 * MINUTE)),
            1 => record.expires_at(UnixMillis(now.0 + 2 * MINUTE)),
            2 => record.expires_at(UnixMillis(now.0 + 14 * DAY)),
            _ => record,
        };
        match current {
            None => drop(store.create(key, record).await.unwrap()),
            Some(_) if random.below(5) == 0 => drop(store.delete(key, None).await.unwrap()),
            Some(current) => {
                let updated = store.update(key, record, current.revision).await;
                updated.unwrap();
            }
        }
    }
}

fn keys(count: usize) -> Vec<Bytes> {
    (0..count)
        .map(|number| Bytes::from(format!("ns/{number:03}")))
        .collect()
}

#[tokio::test]
async fn the_space_of_replaced_and_deleted_records_is_given_back() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(1);
    let mut store = open(folder.path(), &clock);
    let keys = keys(40);
    // In every segment some records stay while the others change.
    for number in 0..1500 {
        let at = number % keys.len();
        let record = record(&mut random, at % 5);
        match store.get(keys[at].clone()).await.unwrap() {
            Some(current) => {
                let updated = store.update(keys[at].clone(), record, current.revision);
                updated.await.unwrap();
            }
            None => drop(store.create(keys[at].clone(), record).await.unwrap()),
        }
        if number % 100 == 0 {
            let stays = Bytes::from(format!("stays/{number}"));
            store
                .create(stays, self::record(&mut random, 1))
                .await
                .unwrap();
        }
    }
    store.compact(store.revision()).await.unwrap();
    let before = log_len(&store);
    store = reopen(store, folder.path(), &clock).await;
    pass(&store);
    let stats = store.stats().await.unwrap();
    let lives = stats.value_bytes + stats.records * 100;
    let after = log_len(&store);
    println!("{before} {after} {lives}");
    assert!(after < 2 * lives + 2 * SEGMENT, "{before} {after} {lives}");
    assert!(before > 6 * after);

    // Everything is deleted; the last segments have only deletions.
    let page = store.list(ListRequest::default()).await.unwrap();
    for record in page.records {
        store.delete(record.key, None).await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    store = reopen(store, folder.path(), &clock).await;
    pass(&store);
    assert!(log_len(&store) < 3 * SEGMENT, "{}", log_len(&store));
    assert_eq!(store.stats().await.unwrap().records, 0);
    store.close().await;
}

/// For weeks, records with a TTL of two weeks are patched and deleted, beside those of an hour.
/// Then there are no writes.
#[tokio::test]
async fn a_mixture_takes_little_more_than_what_lives() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(5);
    let mut store = open(folder.path(), &clock);
    let keys = keys(60);
    let mut most = 0;
    for day in 0..40 {
        // In the last days there are no writes, and the records expire gradually.
        for hour in 0..24 {
            for _ in 0..6 * usize::from(day < 25) {
                let at = random.below(keys.len());
                let now = clock.now();
                let lives = record(&mut random, at % 5).expires_at(UnixMillis(now.0 + 14 * DAY));
                let key = keys[at].clone();
                match store.get(key.clone()).await.unwrap() {
                    None => drop(store.create(key, lives).await.unwrap()),
                    Some(_) if random.below(9) == 0 => drop(store.delete(key, None).await.unwrap()),
                    Some(found) => drop(store.update(key, lives, found.revision).await.unwrap()),
                }
                let short = record(&mut random, 0).expires_at(UnixMillis(now.0 + 60 * MINUTE));
                let key = format!("hour/{day}/{hour}/{}", random.next());
                store.create(key.into(), short).await.unwrap();
            }
            clock.advance(60 * MINUTE);
            store.expire().await.unwrap();
        }
        store.compact(store.revision()).await.unwrap();
        let before = look(&store, &keys).await;
        store = reopen(store, folder.path(), &clock).await;
        // The index on disk has everything now, so expired buckets are dropped at once.
        store.expire().await.unwrap();
        pass(&store);
        assert_eq!(look(&store, &keys).await, before, "day {day}");
        let stats = store.stats().await.unwrap();
        let lives = stats.value_bytes + stats.records * 100;
        most = most.max(lives);
        let len = log_len(&store);
        assert!(
            len < 2 * lives + SEGMENT,
            "day {day}: {len}, of which {lives} live"
        );
        if day % 5 == 4 {
            store.close().await;
            drop(store);
            fs::remove_dir_all(folder.path().join("index")).unwrap();
            if day % 2 == 0 {
                fs::remove_file(folder.path().join("CHECKPOINT")).unwrap();
            }
            store = open(folder.path(), &clock);
            assert_eq!(look(&store, &keys).await, before, "day {day}: made anew");
        }
    }
    assert!(most > SEGMENT);
    assert_eq!(store.stats().await.unwrap().records, 0);
    store.close().await;
}

#[tokio::test]
async fn a_store_that_stays_open_does_so_by_itself() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(3);
    let options = EmbeddedOptions {
        index_memory_bytes: 4 << 10,
        ..options(&clock)
    };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let keys = keys(20);
    let mut written = 0;
    // A pass may come late, but it comes.
    while written < 100 || log_len(&store) > 6 * SEGMENT {
        written += 1;
        assert!(written < 400, "{}", log_len(&store));
        churn(&store, &mut random, &keys, 20).await;
        clock.advance(MINUTE);
        store.expire().await.unwrap();
        store.compact(store.revision()).await.unwrap();
    }
    store.close().await;
}

/// Time alone begins a pass, because deletions may be the last writes for long.
#[tokio::test]
async fn space_is_given_back_without_further_writes() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(3);
    let store = open(folder.path(), &clock);
    let keys = keys(400);
    for key in &keys {
        let record = record(&mut random, 1);
        store.create(key.clone(), record).await.unwrap();
    }
    for key in &keys {
        store.delete(key.clone(), None).await.unwrap();
    }
    let revision = store.revision();
    store.compact(revision).await.unwrap();
    assert!(log_len(&store) > 9 * SEGMENT, "{}", log_len(&store));
    let idle = async {
        while log_len(&store) > 3 * SEGMENT {
            clock.advance(1_000);
            // This call only makes the store read the clock.
            assert_eq!(store.expire().await.unwrap(), 0);
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), idle).await;
    assert!(done.is_ok(), "{}", log_len(&store));
    assert_eq!(store.revision(), revision);
    store.close().await;
}

#[tokio::test]
async fn nothing_that_can_be_read_changes() {
    let mut given_back = 0;
    for seed in 0..6 {
        let folder = new_folder();
        let clock = ManualClock::at(UnixMillis(NOW));
        let mut random = Random(seed);
        let mut store = open(folder.path(), &clock);
        let keys = keys(12 + 10 * seed as usize);
        for round in 0..6 {
            churn(&store, &mut random, &keys, 120).await;
            let latest = store.revision();
            let until = latest - random.below(150).min(latest as usize) as u64;
            store.compact(until).await.unwrap();
            clock.advance((random.next() % 3).cast_signed() * MINUTE);
            store.expire().await.unwrap();
            let before = look(&store, &keys).await;
            let len = log_len(&store);
            store = reopen(store, folder.path(), &clock).await;
            pass(&store);
            given_back += len.saturating_sub(log_len(&store));
            assert_eq!(look(&store, &keys).await, before, "{seed} {round}");
            store = reopen(store, folder.path(), &clock).await;
            assert_eq!(
                look(&store, &keys).await,
                before,
                "{seed} {round}: reopened"
            );
            store.close().await;
            drop(store);
            fs::remove_dir_all(folder.path().join("index")).unwrap();
            if random.below(2) == 0 {
                fs::remove_file(folder.path().join("CHECKPOINT")).unwrap();
            }
            store = open(folder.path(), &clock);
            assert_eq!(
                look(&store, &keys).await,
                before,
                "{seed} {round}: made anew"
            );
        }
        store.close().await;
    }
    assert!(given_back > 50 * SEGMENT, "{given_back}");
}

/// Versions that were replaced by ones of a dropped bucket must not be live again. Their own
/// segment is unchanged.
#[tokio::test]
async fn what_tells_an_end_stays_as_long_as_what_ended() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(1);
    let mut store = open(folder.path(), &clock);
    let create = async |store: &EmbeddedStore, key: String, random: &mut Random| {
        let record = record(random, 1);
        store.create(key.into(), record).await.unwrap()
    };
    let replaced = create(&store, "replaced".into(), &mut random).await;
    let deleted = create(&store, "deleted".into(), &mut random).await;
    for number in 0..50 {
        create(&store, format!("stays/{number}"), &mut random).await;
    }
    let life = UnixMillis(NOW + 2 * MINUTE);
    let short = record(&mut random, 1).expires_at(life);
    let updated = store.update("replaced".into(), short, replaced);
    updated.await.unwrap();
    let deletion = store.delete("deleted".into(), Some(deleted));
    deletion.await.unwrap();
    for number in 0..300 {
        create(&store, "changes".into(), &mut random).await;
        store.delete("changes".into(), None).await.unwrap();
        if number % 40 == 0 {
            create(&store, format!("stays as well/{number}"), &mut random).await;
        }
    }
    clock.advance(10 * MINUTE);
    store.expire().await.unwrap();
    store.compact(store.revision()).await.unwrap();
    store = reopen(store, folder.path(), &clock).await;
    store.expire().await.unwrap();
    store = reopen(store, folder.path(), &clock).await;
    let count = engine(&store).buckets().len();
    assert_eq!(count, 1, "the other bucket is gone");
    pass(&store);
    let found = engine(&store)
        .buckets()
        .get(&NEVER)
        .unwrap()
        .log
        .version(replaced, &mut Scratch::default())
        .unwrap()
        .is_some();
    assert!(found, "its segment is as it was");
    assert!(log_len(&store) < 5 * SEGMENT, "others are not");
    let before = look(&store, &["replaced".into(), "deleted".into()]).await;
    assert_eq!(before.gets, [None, None]);
    store.close().await;
    drop(store);
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    let store = open(folder.path(), &clock);
    assert_eq!(
        look(&store, &["replaced".into(), "deleted".into()]).await,
        before
    );
    store.close().await;
}

#[tokio::test]
async fn a_reader_goes_on_with_what_it_had() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(1);
    // Every commit flushes the previous memtable.
    let options = EmbeddedOptions {
        index_memory_bytes: 0,
        ..options(&clock)
    };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let keys = keys(20);
    churn(&store, &mut random, &keys, 60).await;
    let (engine, codec) = (engine(&store), &store.shared.codec);
    let (view, request) = (View::new(&engine, codec), ListRequest::default());
    let list = |view: &View<'_>| view.list(&request, UnixMillis(NOW)).unwrap();
    let before = list(&view);
    let first = || engine.buckets().get(&NEVER).unwrap().log.all().remove(0);
    let as_it_was = first();
    let mut rounds = 0;
    while Arc::ptr_eq(&first(), &as_it_was) {
        rounds += 1;
        assert!(rounds < 100, "it is written anew some time");
        churn(&store, &mut random, &keys, 20).await;
        store.compact(store.revision()).await.unwrap();
        pass(&store);
    }
    assert_eq!(list(&view).records, before.records);
    assert_ne!(list(&View::new(&engine, codec)).records, before.records);
    drop(view);
    store.close().await;
}

/// Whatever fails, the state is the old or the new one. The work is completed when the disk works
/// again.
#[tokio::test]
async fn errors_of_the_disk_change_nothing() {
    let (mut nothing, mut unknown) = (0, 0);
    for seed in 0..12 {
        let folder = new_folder();
        let log = folder.path().join("log");
        let clock = ManualClock::at(UnixMillis(NOW));
        let mut random = Random(seed);
        let mut store = open(folder.path(), &clock);
        let keys = keys(20);
        // Each segment keeps something.
        for number in 0..24 {
            let stays = Bytes::from(format!("stays/{number}"));
            let lives = record(&mut random, 1);
            let lives = match number % 4 {
                0 => lives.expires_at(UnixMillis(NOW + 2 * MINUTE)),
                1 => lives.expires_at(UnixMillis(NOW + 600 * MINUTE)),
                2 => lives.expires_at(UnixMillis(NOW + 14 * DAY)),
                _ => lives,
            };
            store.create(stays, lives).await.unwrap();
            churn(&store, &mut random, &keys, 25).await;
        }
        store = reopen(store, folder.path(), &clock).await;
        // The store does nothing by itself.
        engine(&store).upkeep.give_up();
        store.compact(store.revision()).await.unwrap();
        let before = look(&store, &keys).await;
        let len = log_len(&store);
        faults::begin(&log, seed);
        let mut from = Some(Place::default());
        while let Some(at) = from {
            let engine = engine(&store);
            from = match step(&engine, &all(&engine), at, &|_| true) {
                Ok(next) => next,
                // The pass is repeated until it is done, or its outcome is unknown.
                Err(Failure::Nothing(_)) => {
                    nothing += 1;
                    Some(at)
                }
                // After an unknown outcome nothing more is done.
                Err(Failure::Unknown(_)) => {
                    unknown += 1;
                    None
                }
            };
            assert_eq!(look(&store, &keys).await, before, "seed {seed}");
        }
        faults::end(&log);
        store = reopen(store, folder.path(), &clock).await;
        assert_eq!(look(&store, &keys).await, before, "seed {seed}");
        pass(&store);
        let left = log_len(&store);
        assert!(left * 2 < len, "seed {seed}: {left} of {len}");
        assert_eq!(look(&store, &keys).await, before, "seed {seed}");
        let files = fs::read_dir(&log).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        assert!(files.all(|file| file.extension().is_some_and(|it| it != "new")));
        store.close().await;
    }
    assert!(nothing > 0 && unknown > 0, "{nothing} {unknown}");
}

/// The power fails at each change of the disk in turn.
#[tokio::test]
async fn a_power_cut_at_any_change_loses_nothing() {
    let folder = new_folder();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(7);
    let store = open(folder.path(), &clock);
    let keys = keys(12);
    // Some segments become empty, others do not.
    churn(&store, &mut random, &keys, 100).await;
    for number in 0..3 {
        let stays = Bytes::from(format!("stays/{number}"));
        let created = store.create(stays, record(&mut random, 1));
        created.await.unwrap();
        churn(&store, &mut random, &keys, 60).await;
    }
    store.compact(store.revision() - 40).await.unwrap();
    let before = look(&store, &keys).await;
    store.close().await;
    drop(store);
    let sizes = Sizes {
        files: 2,
        cache: 1 << 20,
        memtable: 1 << 20,
        segment: SEGMENT,
    };
    let (mut cuts, mut given_back) = (0, 0);
    loop {
        cuts += 1;
        let cut = new_folder();
        copy_folder(folder.path(), cut.path());
        let codec = Codec::new(dictionaries::load(cut.path()).unwrap());
        let disk = Disk::follow(cut.path(), Random(cuts));
        let engine = Engine::open(cut.path(), sizes, &codec).unwrap();
        let len = || engine.buckets().get(&NEVER).unwrap().log.len();
        let whole = len();
        disk.lock().cut_after(cuts as usize);
        let mut from = Some(Place::default());
        while let Some(at) = from {
            from = step(&engine, &all(&engine), at, &|_| true).unwrap_or(None);
        }
        given_back = given_back.max(whole - len());
        drop(engine);
        if !disk.lock().is_off() {
            break;
        }
        // The state after the cut is random.
        for chance in 0..16 {
            let left = new_folder();
            disk.lock().leave(left.path());
            if chance % 8 == 0 {
                let index = left.path().join("index");
                fs::remove_dir_all(index).unwrap();
            }
            let store = open(left.path(), &clock);
            if chance % 4 == 0 {
                assert_eq!(look(&store, &keys).await, before, "{cuts} {chance}");
                pass(&store);
                assert_eq!(look(&store, &keys).await, before, "{cuts} {chance}");
            }
            store.close().await;
        }
    }
    assert!(cuts > 20 && given_back > 2 * SEGMENT, "{cuts} {given_back}");
}

/// Commits without revisions all begin at the next revision, but fill segments.
#[tokio::test]
async fn segments_do_not_begin_twice_at_one_revision() {
    let (folder, other) = (new_folder(), new_folder());
    let clock = ManualClock::at(UnixMillis(NOW));
    let options = EmbeddedOptions {
        segment_bytes: 200,
        log_files_max: 1,
        ..options(&clock)
    };
    let store = EmbeddedStore::open(folder.path(), options.clone()).unwrap();
    for number in 0..20 {
        let key = format!("shop/{number:02}");
        let record = NewRecord::new("value");
        store.create(key.into(), record).await.unwrap();
    }
    for revision in 1..20 {
        store.compact(revision).await.unwrap();
    }
    // A copy of the folder is its state after a kill.
    copy_folder(folder.path(), other.path());
    let found = EmbeddedStore::open(other.path(), options).unwrap();
    let listed = found.list(ListRequest::default()).await.unwrap();
    assert_eq!(listed.records.len(), 20);
    let stats = found.stats().await.unwrap();
    assert_eq!(stats.oldest_revision, 19);
}

/// Makes a store whose log has several segments of garbage and which does nothing by itself.
async fn with_garbage(folder: &Path, clock: &ManualClock) -> EmbeddedStore {
    let store = open(folder, clock);
    engine(&store).upkeep.give_up();
    let mut random = Random(7);
    for number in 0..400 {
        let key = format!("shop/{}", number % 4);
        let found = store.get(key.clone().into()).await.unwrap();
        let record = record(&mut random, 0);
        match found {
            Some(found) => store.update(key.into(), record, found.revision).await,
            None => store.create(key.into(), record).await,
        }
        .unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    engine(&store).write_checkpoint().unwrap();
    store
}

/// A segment that is damaged or gone does not affect the others.
#[tokio::test]
async fn what_cannot_be_read_is_passed_over() {
    for is_gone in [false, true] {
        let folder = new_folder();
        let clock = ManualClock::at(UnixMillis(NOW));
        let store = with_garbage(folder.path(), &clock).await;
        let segments = engine(&store).buckets().get(&NEVER).unwrap().log.all();
        assert!(segments.len() > 6);
        let damaged = &segments[2];
        if is_gone {
            fs::remove_file(&damaged.path).unwrap();
        } else {
            let mut bytes = fs::read(&damaged.path).unwrap();
            for byte in bytes.iter_mut().skip(16) {
                *byte ^= 0x55;
            }
            fs::write(&damaged.path, bytes).unwrap();
        }
        let before = log_len(&store);
        // Damage stays; a disk may work again.
        assert_eq!(pass(&store).is_incomplete, is_gone);
        let after = log_len(&store);
        assert!(after < before / 2, "{after} of {before} are left");
        assert_eq!(damaged.path.exists(), !is_gone);
    }
}

/// A segment left out for lack of room is rewritten once there is room.
#[tokio::test]
async fn a_pass_without_room_is_to_be_repeated() {
    let folder = new_folder();
    let log = folder.path().join("log");
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = with_garbage(folder.path(), &clock).await;
    let before = log_len(&store);
    faults::fill(&log);
    assert!(pass(&store).is_incomplete);
    assert_eq!(log_len(&store), before);
    faults::empty(&log);
    assert!(!pass(&store).is_incomplete);
    assert!(log_len(&store) < before / 2);
    store.close().await;
}

/// The store rewrites it by itself; nothing has to grow first.
#[tokio::test]
async fn a_store_that_had_no_room_gives_space_back_once_it_has_some() {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let folder = new_folder();
    let log = folder.path().join("log");
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut random = Random(11);
    let store = open(folder.path(), &clock);
    let keys = keys(400);
    for key in &keys {
        let record = record(&mut random, 1);
        store.create(key.clone(), record).await.unwrap();
    }
    for key in &keys[1..] {
        store.delete(key.clone(), None).await.unwrap();
    }
    let until = async |is_so: &dyn Fn() -> bool| {
        let idle = async {
            while !is_so() {
                clock.advance(1_000);
                assert_eq!(store.expire().await.unwrap(), 0);
            }
        };
        tokio::time::timeout(PATIENCE, idle).await.is_ok()
    };
    faults::fill(&log);
    let revision = store.revision();
    store.compact(revision).await.unwrap();
    let is_left_out = || engine(&store).upkeep.awaits() == Some(revision + 1);
    assert!(until(&is_left_out).await, "the pass does not end");
    assert!(log_len(&store) > 9 * SEGMENT, "{}", log_len(&store));
    faults::empty(&log);
    store.delete(keys[0].clone(), None).await.unwrap();
    store.compact(store.revision()).await.unwrap();
    let is_shorter = || log_len(&store) <= 3 * SEGMENT;
    assert!(until(&is_shorter).await, "{}", log_len(&store));
    store.close().await;
}
