//! Tests of rare faults from inside the crate: damage and failed commits.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings_testing::copy_folder;

use super::*;
use crate::clock::ManualClock;
use crate::embedded::codec::{State, Swept, version};
use crate::embedded::commit::Put;
use crate::embedded::engine::Checkpoint;
use crate::embedded::files::faults::{self, Point};
use crate::embedded::index;
use crate::embedded::index::keys::Fields;
use crate::embedded::index::memtable::Found;
use crate::embedded::log::segment::Segment;
use crate::embedded::log::{Handles, Log, Unfinished};
use crate::embedded::read::{AT_ONCE_MAX, PASSED_OVER_MAX, View};
use crate::{At, Index, ObjectSelector, UnixMillis};

fn forget_idx(folder: &Path) {
    for path in segments(folder) {
        drop(fs::remove_file(path.with_extension("idx")));
    }
}

fn garble_end(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_bucket_without_a_commit_is_not_noted() {
    let folder = tempfile::tempdir().unwrap();
    let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
    let open = || Engine::open(folder.path(), SIZES, &codec);
    let engine = open().unwrap();
    engine.bucket(1 << 40).unwrap();
    engine.write_checkpoint().unwrap();
    drop(engine);
    open().unwrap();
}

#[tokio::test]
async fn a_replaced_version_stays_replaced_when_its_successor_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    let mut revisions = Vec::new();
    for key in ["expires", "deleted", "longer", "stays"] {
        let created = store.create(key.into(), living("1", 600)).await.unwrap();
        revisions.push(created);
    }
    let shorten = |key: &'static str, at: Revision| store.update(key.into(), living("2", 2), at);
    shorten("expires", revisions[0]).await.unwrap();
    shorten("deleted", revisions[1]).await.unwrap();
    store.delete("deleted".into(), None).await.unwrap();
    let short = shorten("longer", revisions[2]).await.unwrap();
    let longer = store.update("longer".into(), living("3", 600), short);
    longer.await.unwrap();
    clock.advance(10 * MINUTE);
    store.expire().await.unwrap();
    store.compact(store.revision()).await.unwrap();
    store.close().await;
    assert_eq!(segments(folder.path()).len(), 2);

    let store = open(folder.path(), &clock).unwrap();
    store.expire().await.unwrap();
    store.close().await;
    assert_eq!(
        segments(folder.path()).len(),
        1,
        "the short bucket is dropped"
    );

    for rebuilt in [false, true] {
        if rebuilt {
            fs::remove_dir_all(folder.path().join("index")).unwrap();
        }
        let store = open(folder.path(), &clock).unwrap();
        let page = store.list(ListRequest::default()).await.unwrap();
        let found: Vec<_> = page
            .records
            .iter()
            .map(|record| (&record.key[..], &record.value[..]))
            .collect();
        assert_eq!(found, [(&b"longer"[..], &b"3"[..]), (b"stays", b"1")]);
        for key in ["expires", "deleted"] {
            assert_eq!(
                store.get(key.into()).await.unwrap(),
                None,
                "{key} {rebuilt}"
            );
        }
        let longer = store.get("longer".into()).await.unwrap().unwrap();
        assert_eq!(&longer.value[..], b"3");
        store.close().await;
    }
}

#[tokio::test]
async fn a_damaged_bucket_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("a".into(), living("1", 2)).await.unwrap();
    store.create("b".into(), living("1", 60)).await.unwrap();
    let files = segments(folder.path());
    assert_eq!(files.len(), 2);
    garble_end(&files[0]);
    // The record has expired, but its bucket may still get records.
    clock.advance(2 * MINUTE);
    let refused = store.expire().await;
    assert!(
        matches!(refused, Err(WriteError::Fault(Fault::Corrupt(_)))),
        "{refused:?}"
    );
    clock.advance(90 * MINUTE);
    assert_eq!(store.expire().await.unwrap(), 1);
    assert_eq!(store.expire().await.unwrap(), 0);
    store.create("a".into(), living("2", 200)).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_damaged_end_of_an_older_segment_is_no_torn_commit() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    for (key, minutes) in [("a", 2), ("b", 2), ("c", 600)] {
        store
            .create(key.into(), living("1", minutes))
            .await
            .unwrap();
    }
    store.close().await;
    forget_idx(folder.path());
    for file in segments(folder.path()) {
        let whole = fs::read(&file).unwrap();
        garble_end(&file);
        let refused = open(folder.path(), &clock).err();
        assert!(
            matches!(&refused, Some(OpenError::Damaged { file: named, .. }) if *named == file),
            "{refused:?}"
        );
        fs::write(&file, whole).unwrap();
    }
    open(folder.path(), &clock).unwrap().close().await;
}

#[tokio::test]
async fn without_a_checkpoint_a_torn_commit_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("a".into(), living("1", 600)).await.unwrap();
    let b = store.create("b".into(), living("1", 600)).await.unwrap();
    // The last commit has a frame in each bucket.
    store.update("b".into(), living("2", 2), b).await.unwrap();
    store.close().await;
    let files = segments(folder.path());
    assert_eq!(files.len(), 2);
    garble_end(&files[0]);
    fs::remove_file(folder.path().join("CHECKPOINT")).unwrap();
    let store = open(folder.path(), &clock).unwrap();
    assert_eq!(store.revision(), b);
    assert_eq!(
        store
            .list(ListRequest::default())
            .await
            .unwrap()
            .records
            .len(),
        2
    );
    store.close().await;
}

#[test]
fn an_unreadable_checkpoint_of_an_empty_log_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    fs::write(folder.path().join("FORMAT"), "tidings-store 3\n").unwrap();
    fs::write(folder.path().join("CHECKPOINT"), "1 2 3").unwrap();
    let refused = open(folder.path(), &clock).err();
    assert!(
        matches!(refused, Some(OpenError::LogLost { .. })),
        "{refused:?}"
    );
    assert_eq!(Checkpoint::read(folder.path()).unwrap(), None);
}

/// A folder without a checkpoint does not become a new store if any file shows writes.
#[tokio::test]
async fn a_log_that_is_lost_with_its_checkpoint_is_damage() {
    let clock = ManualClock::at(UnixMillis(NOW));
    let harms: [(&str, &[&str], bool); 5] = [
        ("the index is left", &["CLOCK"], false),
        ("the time is left", &["index"], false),
        ("all but the dictionaries", &["index", "CLOCK"], true),
        ("as made: nothing was written", &[], true),
        ("as made, and killed while being made", &["CLOCK"], true),
    ];
    for (number, (what, removed, opens)) in harms.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), &clock).unwrap();
        if number < 3 {
            store.create("a".into(), living("1", 600)).await.unwrap();
        }
        store.close().await;
        for name in ["CHECKPOINT", "log"].iter().chain(removed) {
            let path = folder.path().join(name);
            drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
        }
        let opened = open(folder.path(), &clock);
        match opened {
            Ok(store) => {
                assert!(opens, "{what}");
                store.close().await;
            }
            Err(error) => {
                assert!(!opens, "{what}: {error}");
                assert!(matches!(error, OpenError::LogLost { .. }), "{error}");
            }
        }
    }
}

/// An earlier version dropped buckets with frames of the newest commit. Opening repairs that state.
#[tokio::test]
async fn a_newest_commit_that_is_not_in_the_log_is_made_again_when_opening() {
    let clock = ManualClock::at(UnixMillis(NOW));
    for (what, lives) in [("the bucket", &[2][..]), ("one of two", &[600, 2])] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), &clock).unwrap();
        let mut revision = 0;
        for life in lives {
            revision = match revision {
                0 => store.create("a".into(), living("1", *life)).await,
                at => store.update("a".into(), living("2", *life), at).await,
            }
            .unwrap();
        }
        store.close().await;
        // As if everything in the bucket was swept and forgotten, and then dropped.
        let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
        let engine = Engine::open(folder.path(), SIZES, &codec).unwrap();
        let first = *engine.buckets().keys().next().unwrap();
        let published = engine.published();
        let state = State {
            swept: Swept::up_to(first, Revision::MAX),
            compacted: revision,
            ..published.state
        };
        engine.publish(state, published.number);
        engine.write_checkpoint().unwrap();
        engine.drop_bucket(first).unwrap();
        drop(engine);
        fs::remove_file(folder.path().join("CLOCK")).unwrap();

        open(folder.path(), &clock).unwrap().close().await;
        fs::remove_file(folder.path().join("CHECKPOINT")).unwrap();
        let store = open(folder.path(), &clock).unwrap();
        assert_eq!(store.revision(), revision, "{what}");
        store.close().await;
    }
}

#[test]
fn a_commit_can_be_rolled_back_again() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(folder.path(), None, true, 64 << 10, 2).unwrap();
    let path = folder.path().join(format!("{:016x}-{:016x}.log", 7, 1));
    let handles = Handles::new(2);
    let segment = Segment::create(path.clone(), 7, 1, &handles).unwrap();
    let mut unfinished = Unfinished(vec![Arc::new(segment)]);
    fs::remove_file(path).unwrap();
    log.roll_back(&mut unfinished).unwrap();
    assert!(log.buckets().is_empty());
}

#[tokio::test]
async fn an_index_found_damaged_in_use_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("a".into(), living("1", 600)).await.unwrap();
    store.close().await;
    let noted = |folder: &Path| index::Index::is_distrusted(&folder.join("index"));
    let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
    let engine = Engine::open(folder.path(), SIZES, &codec).unwrap();
    let full = std::io::ErrorKind::StorageFull;
    engine.index.distrust(&lsm_tree::Error::Io(full.into()));
    assert!(!noted(folder.path()));
    engine.index.distrust(&lsm_tree::Error::Unrecoverable);
    assert!(noted(folder.path()));
    drop(engine);
    let store = open(folder.path(), &clock).unwrap();
    assert!(!noted(folder.path()), "it was made anew");
    assert!(store.get("a".into()).await.unwrap().is_some());
    store.close().await;
}

/// Versions that an interrupted flush left in the trees must not be found once they have ended.
/// Also, `.idx` files may be newer than the checkpoint.
#[tokio::test]
async fn what_ended_after_an_interrupted_write_out_stays_ended() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let about = |key: &str| Index {
        object_uid: format!("uid of {key}"),
        ..Index::default()
    };
    let store = open(folder.path(), &clock).unwrap();
    let first = store.create("first".into(), living("0", 600));
    first.await.unwrap();
    store.close().await;
    let checkpoint = fs::read(folder.path().join("CHECKPOINT")).unwrap();
    let store = open(folder.path(), &clock).unwrap();
    let mut revisions = Vec::new();
    for key in ["deleted", "replaced"] {
        let record = living("1", 600).index(about(key));
        revisions.push(store.create(key.into(), record).await.unwrap());
    }
    store.close().await;
    // As if the process had died after the trees were written and before the checkpoint was.
    fs::write(folder.path().join("CHECKPOINT"), checkpoint).unwrap();

    let store = open(folder.path(), &clock).unwrap();
    store.delete("deleted".into(), None).await.unwrap();
    let record = living("2", 600).index(about("replaced"));
    let replaced = store.update("replaced".into(), record, revisions[1]);
    replaced.await.unwrap();
    store.close().await;

    let store = open(folder.path(), &clock).unwrap();
    let newest = store.newest(NewestRequest {
        limit: 9,
        ..NewestRequest::default()
    });
    let newest = newest.await.unwrap().records;
    assert_eq!(newest.len(), 2, "{newest:?}");
    assert_eq!(&newest[0].value[..], b"2");
    for (key, count) in [("deleted", 0), ("replaced", 1)] {
        let object = ObjectSelector::Uid(format!("uid of {key}"));
        let page = store
            .list(ListRequest::default().object(object))
            .await
            .unwrap();
        assert_eq!(page.records.len(), count, "{key}");
    }
    store.close().await;
}

/// A partial index must not be taken for a complete one.
#[tokio::test]
async fn an_index_whose_making_was_interrupted_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    for key in ["a", "b"] {
        store.create(key.into(), living("1", 600)).await.unwrap();
    }
    store.close().await;
    let index = folder.path().join("index");
    let names: Vec<_> = fs::read_dir(&index)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    index::Index::discard(&index).unwrap();
    // All trees exist, but are empty, when the process dies.
    let codec = Codec::new(dictionaries::load(folder.path()).unwrap());
    let empty = index::Index::open(&index, SIZES).unwrap();
    for name in names {
        if let Some(bucket) = name
            .to_str()
            .and_then(|name| u64::from_str_radix(name, 16).ok())
        {
            empty.bucket(bucket).unwrap();
        }
    }
    drop(empty);
    let engine = Engine::open(folder.path(), SIZES, &codec).unwrap();
    assert!(!index::Index::is_distrusted(&index), "it is whole now");
    drop(engine);
    let store = open(folder.path(), &clock).unwrap();
    assert_eq!(
        store
            .list(ListRequest::default())
            .await
            .unwrap()
            .records
            .len(),
        2
    );
    store.close().await;
}

#[tokio::test]
async fn what_was_looked_up_before_the_index_was_written_out_is_looked_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        index_memory_bytes: 0,
        free_space_min: 0,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let shared = &store.shared;
    let key = Bytes::from_static(b"a");
    let look_up = || shared.read(|view| view.look_up(&key)).unwrap();
    let before = look_up();
    let created = store.create(key.clone(), NewRecord::new("one")).await;
    let created = created.unwrap();
    // Every commit flushes the previous memtable; the first one has the key.
    let known = |view: &View<'_>| {
        let hash = view.engine.index.hash(b"a");
        let found = view.in_memory(hash, b"a", view.state.revision);
        Ok::<_, Fault>(!matches!(found, Found::Unknown))
    };
    for number in 0.. {
        if !shared.read(known).unwrap() {
            break;
        }
        let other = Bytes::from(format!("b{number}"));
        store.create(other, NewRecord::new("")).await.unwrap();
    }

    let body = version::encode_body(&key, &Index::default(), b"two");
    let put = Box::new(Put {
        fields: Fields::of(&Index::default(), &key),
        reason: String::new(),
        key: key.clone(),
        value: Bytes::from_static(b"two"),
        expires_at: None,
        body: shared.codec.pack(body),
        expected: Expected::Absent,
        looked_up: before,
        found: None,
    });
    let written = shared.submit(0, |reply| Request::Put(put, reply)).await;
    assert!(
        matches!(written, Err(WriteError::AlreadyExists { revision }) if revision == created),
        "{written:?}"
    );
    store.close().await;
}

/// Writes, syncs and truncations of the log fail at random. Acknowledged writes exist, refused ones
/// do not, and the store continues without being reopened.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_disk_lose_nothing_acknowledged() {
    let (mut refused, mut unknown) = (0, 0);
    for seed in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(UnixMillis(NOW));
        let store = Arc::new(open(folder.path(), &clock).unwrap());
        let log = folder.path().join("log");
        faults::begin(&log, seed);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut outcomes = Vec::new();
                    for number in 0..30 {
                        let key = Bytes::from(format!("{writer}/{number}"));
                        // There are two buckets, so that a commit has one frame or two.
                        let record = living("1", 60 + number % 2 * 6000);
                        outcomes.push((key.clone(), store.create(key, record).await));
                    }
                    outcomes
                })
            })
            .collect();
        let mut outcomes = Vec::new();
        for writer in writers {
            outcomes.extend(writer.await.unwrap());
        }
        faults::end(&log);
        let last = store.create("last".into(), living("1", 60)).await;
        outcomes.push(("last".into(), last));
        assert!(outcomes.last().unwrap().1.is_ok(), "{outcomes:?}");

        let list = async |store: &EmbeddedStore| {
            let page = store.list(ListRequest::default()).await.unwrap();
            let records = page.records.into_iter();
            let records = records.map(|record| (record.key, record.revision));
            records.collect::<std::collections::BTreeMap<_, _>>()
        };
        let listed = list(&store).await;
        for (key, outcome) in outcomes {
            match outcome {
                Ok(revision) => assert_eq!(listed.get(&key), Some(&revision), "seed {seed}"),
                Err(WriteError::Fault(Fault::Storage(_))) => {
                    assert_eq!(listed.get(&key), None, "seed {seed}");
                    refused += 1;
                }
                Err(WriteError::Fault(Fault::Unknown(_))) => unknown += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        store.close().await;
        let store = open(folder.path(), &clock).unwrap();
        assert_eq!(list(&store).await, listed, "seed {seed}");
        store.close().await;
    }
    assert!(refused > 0 && unknown > 0);
}

/// A few events of one object are read in the calling task, with the same result or none.
#[tokio::test]
async fn an_objects_events_are_the_same_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    for (object, events) in [("few", 3), ("most", AT_ONCE_MAX), ("many", 200)] {
        let mut index = Index::default();
        object.clone_into(&mut index.object_uid);
        for number in 0..events {
            let record = living("1", 60).index(index.clone());
            let key = format!("shop/{object}.{number:03}");
            store.create(key.into(), record).await.unwrap();
        }
        let request = ListRequest {
            object: Some(ObjectSelector::Uid(object.to_owned())),
            ..ListRequest::default()
        };
        let listed = store.list(request.clone()).await.unwrap();
        assert_eq!(listed.records.len(), events);
        let at_once = |at| {
            let request = ListRequest {
                at,
                ..request.clone()
            };
            let read = |view: &View<'_>| view.list_at_once(&request, UnixMillis(NOW));
            store.shared.read(read).unwrap()
        };
        let expected = (events <= AT_ONCE_MAX).then_some(&listed);
        assert_eq!(at_once(At::Latest).as_ref(), expected);
        assert_eq!(at_once(At::Exact(listed.revision)).as_ref(), expected);
        assert_eq!(at_once(At::Exact(listed.revision - 1)), None);

        // Pages evicted from the page cache are read from the disk, by a blocking thread.
        #[cfg(target_os = "linux")]
        for path in segments(folder.path()) {
            let file = fs::File::open(path).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        assert_eq!(store.list(request.clone()).await.unwrap(), listed);
    }
}

/// A page of the newest ends after the maximum of skipped records, and the next one continues
/// there. The records may be in memory or in the trees.
#[tokio::test]
async fn pages_of_the_newest_pass_over_a_bounded_number_of_records() {
    const RECORDS: usize = 2 * PASSED_OVER_MAX + 100;
    // The number of newer records for each requested one.
    const WANTED: [usize; 4] = [0, 1, PASSED_OVER_MAX + 2, RECORDS - 1];
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut store = open(folder.path(), &clock).unwrap();
    let create = |number: usize| {
        let is_wanted = WANTED.contains(&(RECORDS - 1 - number));
        let index = Index {
            object_uid: "one".to_owned(),
            reason: if is_wanted { "BackOff" } else { "Pulled" }.to_owned(),
            last_seen: UnixMillis(NOW + number.cast_signed() as i64),
            ..Index::default()
        };
        store.create(
            format!("shop/{number}").into(),
            living("1", 60).index(index),
        )
    };
    for created in futures::future::join_all((0..RECORDS).map(create)).await {
        created.unwrap();
    }
    for is_opened_again in [false, true] {
        if is_opened_again {
            store.close().await;
            store = open(folder.path(), &clock).unwrap();
        }
        // The search is by object, and the reason is checked in the record.
        let mut request = NewestRequest {
            object: Some(ObjectSelector::Uid("one".to_owned())),
            reason: Some("BackOff".to_owned()),
            limit: 10,
            ..NewestRequest::default()
        };
        let mut pages = Vec::new();
        loop {
            let page = store.newest(request.clone()).await.unwrap();
            let keys = page.records.iter().map(|record| record.key.clone());
            pages.push(keys.collect::<Vec<_>>());
            assert_eq!(page.more, page.place.is_some());
            let Some(place) = page.place else { break };
            // Number of records that the pages cover.
            let reached = RECORDS - usize::try_from(place.last_seen.0 - NOW).unwrap();
            let found: usize = pages.iter().map(Vec::len).sum();
            assert!(reached - found <= pages.len() * PASSED_OVER_MAX);
            request.after = Some(place);
        }
        let key = |newer: usize| Bytes::from(format!("shop/{}", RECORDS - 1 - newer));
        let [first, second, third, last] = WANTED.map(key);
        assert_eq!(
            pages,
            [vec![first, second], vec![third], vec![last]],
            "opened again: {is_opened_again}"
        );

        // A page that is full before the maximum is skipped is like any other.
        request.limit = 2;
        request.after = None;
        let page = store.newest(request).await.unwrap();
        assert_eq!((page.records.len(), page.more), (2, true));
    }
    store.close().await;
}

#[tokio::test]
async fn room_in_a_bucket_goes_when_others_are_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    let create = async |bucket: &str, number: i64, minutes: i64| {
        let key = format!("{bucket} {number}").into();
        store.create(key, living("1", minutes)).await.unwrap();
    };
    // In the order of names the bucket that expires first is first.
    let lengths = || {
        let files = segments(folder.path()).into_iter();
        let lengths = files.map(|path| fs::metadata(path).unwrap().len());
        lengths.collect::<Vec<_>>()
    };
    for number in 0..3 {
        create("short", number, 2).await;
    }
    let with_room = lengths()[0];
    assert!(with_room > 100 << 10);
    // The room is removed after the answer to one of these writes, and before the next is written.
    for number in 0..70 {
        create("long", number, 600).await;
    }
    let lengths = lengths();
    assert!(
        lengths[0] < 4 << 10 && lengths[1] > 100 << 10,
        "{lengths:?}"
    );
    assert!(store.stats().await.unwrap().disk_bytes >= lengths.iter().sum());
    store.close().await;
}

/// The answer to a write is true even if the committer panics in the middle of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_the_commit_changed_nothing_and_one_behind_it_may_have() {
    let clock = ManualClock::at(UnixMillis(NOW));
    for point in [Point::Decided, Point::Synced] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(folder.path(), &clock).unwrap());
        store.create("old".into(), living("1", 1)).await.unwrap();
        faults::panic_next(&store.shared.path, point);
        // More writes than fit in one commit.
        let mut writes = tokio::task::JoinSet::new();
        for number in 0..600 {
            let (store, key) = (Arc::clone(&store), Bytes::from(format!("new{number}")));
            writes.spawn(async move { (key.clone(), store.create(key, living("1", 1)).await) });
        }
        let mut unknown = Vec::new();
        let mut closed = Vec::new();
        for (key, written) in writes.join_all().await {
            match written {
                Err(WriteError::Fault(Fault::Unknown(_))) => unknown.push(key),
                Err(WriteError::Fault(Fault::Closed)) => closed.push(key),
                other => panic!("{other:?}"),
            }
        }
        store.close().await;
        let store = open(folder.path(), &clock).unwrap();
        assert!(store.get("old".into()).await.unwrap().is_some());
        for key in closed {
            let got = store.get(key.clone()).await.unwrap();
            assert!(got.is_none(), "{point:?} {key:?}");
        }
        assert_eq!(unknown.is_empty(), point == Point::Decided);
        for key in unknown {
            let got = store.get(key.clone()).await.unwrap();
            assert!(got.is_some(), "{point:?} {key:?}");
        }
        store.close().await;
    }
}

/// Makes four changes, two seconds apart, and checks which can be watched after the last.
#[tokio::test]
async fn history_is_forgotten_by_age_and_by_count() {
    let seconds = Duration::from_secs;
    for (history_retention, history_len_max, forgotten) in [
        (Duration::MAX, u64::MAX, 0),
        (seconds(4), u64::MAX, 0),
        (seconds(3), u64::MAX, 1),
        (seconds(1), u64::MAX, 2),
        (Duration::MAX, 3, 0),
        (Duration::MAX, 2, 1),
        (seconds(3), 1, 2),
        (seconds(1), 2, 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(UnixMillis(NOW));
        let options = EmbeddedOptions {
            clock: Arc::new(clock.clone()),
            expire_by_itself: false,
            free_space_min: 0,
            history_retention,
            history_len_max,
            ..EmbeddedOptions::default()
        };
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        let mut revisions = vec![store.revision()];
        for key in ["a", "b", "c", "d"] {
            revisions.push(store.create(key.into(), living("1", 600)).await.unwrap());
            clock.advance(2_000);
        }
        for (place, after) in revisions.iter().enumerate() {
            let watch = store.watch("".into(), *after).await;
            let case = format!("{history_retention:?}, {history_len_max}, change {place}");
            assert_eq!(watch.is_err(), place < forgotten, "{case}");
        }
        store.close().await;
    }
}

/// The next process does not repeat a replay after a kill. That holds even if it is killed during
/// the replay.
#[tokio::test]
async fn a_replay_that_is_interrupted_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("first".into(), living("0", 9)).await.unwrap();
    store.close().await;
    let store = open(folder.path(), &clock).unwrap();
    let mut latest = 0;
    for number in 0..300 {
        let key = format!("key-{}", number % 100);
        let record = living(&format!("{number}"), 5 + number % 7);
        latest = if number < 100 {
            store.create(key.into(), record).await.unwrap()
        } else {
            let found = store.get(key.clone().into()).await.unwrap().unwrap();
            let updated = store.update(key.into(), record, found.revision);
            updated.await.unwrap()
        };
    }
    let killed = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), killed.path());
    let before = store.list(ListRequest::default()).await.unwrap().records;
    store.close().await;
    let reached = || Checkpoint::read(killed.path()).unwrap().unwrap().number;
    assert_eq!(reached(), 1);

    // The store is not closed, and the last memtable is not flushed.
    let codec = Codec::new(dictionaries::load(killed.path()).unwrap());
    let sizes = Sizes {
        memtable: 16 << 10,
        ..SIZES
    };
    drop(Engine::open(killed.path(), sizes, &codec).unwrap());
    let first = reached();
    assert!((200..300).contains(&first), "{first}");
    let engine = Engine::open(killed.path(), sizes, &codec).unwrap();
    assert_eq!(engine.checkpoint.load(Ordering::Relaxed), first);
    assert_eq!(engine.published().state.revision, latest);
    drop(engine);
    let store = open(killed.path(), &clock).unwrap();
    let after = store.list(ListRequest::default()).await.unwrap().records;
    assert_eq!(after, before);
    store.close().await;
}

/// A process flushes replayed entries once the store is open, because it may be killed, too.
#[tokio::test]
async fn what_was_replayed_is_flushed_without_being_asked() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("first".into(), living("0", 9)).await.unwrap();
    store.close().await;
    let store = open(folder.path(), &clock).unwrap();
    for number in 0..20 {
        let key = format!("key-{number}");
        store.create(key.into(), living("1", 9)).await.unwrap();
    }
    let killed = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), killed.path());
    store.close().await;
    let options = EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        index_memory_bytes: 16 << 10,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(killed.path(), options).unwrap();
    while Checkpoint::read(killed.path()).unwrap().unwrap().number == 1 {
        tokio::task::yield_now().await;
    }
    store.close().await;
}

/// Large values fill the log before they fill the index; the replay is bounded nevertheless.
#[tokio::test]
async fn a_log_of_large_values_is_not_replayed_from_far_behind() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let store = open(folder.path(), &ManualClock::at(UnixMillis(NOW))).unwrap();
    let mut random = 1_u64;
    for number in 0..80 {
        let value: Vec<u8> = (0..1 << 17)
            .flat_map(|_| {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                random.to_le_bytes()
            })
            .collect();
        let key = format!("key-{number}");
        store
            .create(key.into(), NewRecord::new(value))
            .await
            .unwrap();
    }
    // The last of the writes waited until earlier ones were flushed.
    assert!(Checkpoint::read(folder.path()).unwrap().unwrap().number > 30);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_ask_for_the_identity_at_once_get_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    let ask = |number: usize| store.identity(number.to_string());
    let found = futures::future::join_all((0..16).map(ask)).await;
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
    store.close().await;
    // Another process may have the folder by now.
    fs::remove_file(folder.path().join("IDENTITY")).unwrap();
    let late = store.identity("late".into()).await;
    assert!(matches!(late, Err(Fault::Closed)), "{late:?}");
    assert!(!folder.path().join("IDENTITY").exists());
}

/// Somebody may have put files into the folder. Hexadecimal names are not necessarily ours.
#[tokio::test]
async fn files_with_names_of_another_form_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(UnixMillis(NOW));
    let store = open(folder.path(), &clock).unwrap();
    store.create("a".into(), living("1", 600)).await.unwrap();
    store.close().await;
    let names = [
        "index/cafe/note",
        "index/00000000000000FF/note",
        "index/+00000000000000f/note",
        "log/cafe-1.log",
        "log/00000000000000ff-1.log",
    ];
    for name in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let store = open(folder.path(), &clock).unwrap();
    assert!(store.get("a".into()).await.unwrap().is_some());
    store.close().await;
    for name in names {
        let content = fs::read_to_string(folder.path().join(name));
        assert_eq!(content.ok().as_deref(), Some(name));
    }
}
