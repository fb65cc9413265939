//! The checkpoint follows from the log, so a store without its checkpoint is unchanged: even if the
//! buckets of the last commits have been dropped since, without later writes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{ListRequest, NewRecord, REVISION_OF_NEW, Revision, Store, UnixMillis};
use tidings_testing::copy_folder;

use crate::support::{START, about, show};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Steps before the writes end.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes the record with this name and TTL; 0 means no expiry.
    Write(&'static str, i64),
    Delete(&'static str),
    /// Lets time pass, and the store do all due work.
    Pass(i64),
}

use Step::{Delete, Pass, Write};

/// A record with a shorter TTL than the one it replaces has a commit with frames in both buckets.
const HISTORIES: &[&[Step]] = &[
    &[Write("a", 14 * DAY), Write("a", HOUR), Pass(2 * HOUR)],
    &[
        Write("b", 14 * DAY),
        Write("a", 14 * DAY),
        Write("a", HOUR),
        Pass(2 * HOUR),
    ],
    &[Write("a", HOUR), Pass(2 * HOUR)],
    &[Write("a", HOUR), Write("b", 14 * DAY), Pass(2 * HOUR)],
    &[Write("b", 14 * DAY), Write("a", HOUR), Pass(2 * HOUR)],
    &[
        Write("b", 14 * DAY),
        Write("a", HOUR),
        Pass(2 * HOUR),
        Pass(20 * DAY),
    ],
    &[Write("b", 0), Write("a", HOUR), Pass(2 * HOUR)],
    &[Write("a", 0), Write("a", HOUR), Pass(2 * HOUR)],
    &[
        Write("a", 0),
        Write("a", 14 * DAY),
        Write("a", HOUR),
        Delete("a"),
        Pass(2 * HOUR),
        Write("c", MINUTE),
        Pass(DAY),
        Pass(30 * DAY),
    ],
];

fn open(folder: &Path, clock: &ManualClock) -> EmbeddedStore {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    EmbeddedStore::open(folder, options).unwrap()
}

/// Runs the steps. Returns the store's revision.
async fn make(folder: &Path, clock: &ManualClock, steps: &[Step]) -> Revision {
    let mut store = open(folder, clock);
    for step in steps {
        match *step {
            Write(key, life) => {
                let mut record = NewRecord::new(format!("{key} for {life}")).index(about(key, 0));
                record.expires_at = (life > 0).then(|| UnixMillis(clock.now().0 + life));
                match store.get(key.into()).await.unwrap() {
                    None => store.create(key.into(), record).await.unwrap(),
                    Some(found) => store
                        .update(key.into(), record, found.revision)
                        .await
                        .unwrap(),
                };
            }
            Delete(key) => drop(store.delete(key.into(), None).await.unwrap()),
            Pass(millis) => {
                clock.advance(millis);
                store.expire().await.unwrap();
                store.compact(store.revision()).await.unwrap();
                // Closing flushes the index; the next commit drops buckets.
                store.close().await;
                store = open(folder, clock);
                store.expire().await.unwrap();
            }
        }
    }
    let revision = store.revision();
    store.close().await;
    revision
}

/// Whether an expired bucket still has a segment.
fn has_ended_bucket(folder: &Path, now: UnixMillis) -> bool {
    let mut files = fs::read_dir(folder.join("log")).unwrap();
    files.any(|file| {
        let name = file.unwrap().file_name();
        let bucket = name.to_str().unwrap().split('-').next().unwrap();
        u64::from_str_radix(bucket, 16).unwrap() <= now.0.cast_unsigned()
    })
}

async fn shown(store: &EmbeddedStore) -> Vec<String> {
    let page = store.list(ListRequest::default()).await.unwrap();
    page.records.iter().map(show).collect()
}

/// A name and an operation on a store's files.
type Harm = (&'static str, fn(&Path));

const HARMS: [Harm; 5] = [
    ("nothing", |_| {}),
    ("a dropped bucket left a file behind", |folder| {
        let file = "log/0000000000000001-0000000000000001.idx";
        fs::write(folder.join(file), "").unwrap();
    }),
    ("checkpoint lost", |folder| {
        fs::remove_file(folder.join("CHECKPOINT")).unwrap();
    }),
    ("checkpoint garbled", |folder| {
        fs::write(folder.join("CHECKPOINT"), "1 2 3").unwrap();
    }),
    ("all but the log lost", |folder| {
        fs::remove_file(folder.join("CHECKPOINT")).unwrap();
        fs::remove_dir_all(folder.join("index")).unwrap();
    }),
];

#[tokio::test]
async fn no_revision_is_given_out_twice() {
    for steps in HISTORIES {
        let made = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(UnixMillis(START));
        let revision = make(made.path(), &clock, steps).await;
        assert!(revision > REVISION_OF_NEW);
        assert!(
            !has_ended_bucket(made.path(), clock.now()),
            "nothing was dropped: {steps:?}"
        );
        let store = open(made.path(), &clock);
        let expected = shown(&store).await;
        store.close().await;
        for (what, harm) in HARMS {
            let folder = tempfile::tempdir().unwrap();
            copy_folder(made.path(), folder.path());
            harm(folder.path());
            // Twice: rebuilt files are also kept.
            for turn in 1..3 {
                let store = open(folder.path(), &clock);
                assert_eq!(shown(&store).await, expected, "{what}: {steps:?}");
                assert!(
                    store.revision() >= revision,
                    "{what}: at {}, after {revision}: {steps:?}",
                    store.revision()
                );
                let created = store.create(format!("new-{turn}").into(), NewRecord::new(""));
                assert!(created.await.unwrap() > revision, "{what}: {steps:?}");
                store
                    .delete(format!("new-{turn}").into(), None)
                    .await
                    .unwrap();
                store.close().await;
            }
            let torn = folder.path().join("torn");
            assert!(!torn.exists(), "{what}: nothing was torn: {steps:?}");
        }
    }
}
