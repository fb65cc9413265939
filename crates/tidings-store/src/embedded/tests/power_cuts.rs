//! Test: cuts the power or kills the process at random changes of the files, again and again.
//!
//! Each round continues with what the last one left: under concurrent writers, during opening,
//! during repair. Now and then the checkpoint is lost, too. Afterwards the store opens, has every
//! acknowledged write and no refused one, its indexes are right, and the revisions have no gap.
//!
//! `TIDINGS_STORE_CUTS` sets the number of rounds (default 40), `TIDINGS_STORE_CUTS_SEED` the seed
//! of the random numbers. A failure is reported with both.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::embedded::files::LOG;
use crate::embedded::files::faults::Random;
use crate::embedded::files::power::Disk;
use crate::{Index, ObjectSelector, UnixMillis};

const NOW: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
const WRITERS: u64 = 6;
const KEYS: usize = 3;

/// What the test knows about a key.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The record that the key certainly has, if it has one.
    sure: Option<Record>,
    /// What the key may have instead: the results of writes whose outcome is unknown.
    others: Vec<Option<Record>>,
}

/// A writer, with its keys, and the writes acknowledged since the last check.
#[derive(Clone, Debug)]
struct Writer {
    number: u64,
    random: Random,
    keys: BTreeMap<Bytes, Known>,
    acknowledged: Vec<(Revision, Bytes, Option<Bytes>)>,
}

impl Writer {
    fn new(number: u64, seed: u64) -> Self {
        let key = |key| Bytes::from(format!("w{number}/{key}"));
        Self {
            number,
            random: Random(seed ^ number << 32),
            keys: (0..KEYS)
                .map(|number| (key(number), Known::default()))
                .collect(),
            acknowledged: Vec::new(),
        }
    }

    fn index(number: u64) -> Index {
        Index {
            object_uid: format!("uid-{number}"),
            object_kind: "Pod".into(),
            object_namespace: format!("w{number}"),
            object_name: format!("pod-{number}"),
            ..Index::default()
        }
    }

    fn record(&mut self, now: UnixMillis) -> NewRecord {
        // Half of the values are noise, which makes frames of many pages.
        let noise = self.random.below(2) * self.random.below(9000);
        let value: Vec<u8> = (0..16 + noise).map(|_| self.random.next() as u8).collect();
        let index = Index {
            last_seen: UnixMillis(NOW + (self.random.next() % 1000).cast_signed()),
            ..Self::index(self.number)
        };
        let record = NewRecord::new(value).index(index);
        let minutes = match self.number {
            0 | 1 => 1 + self.random.next() % 4,
            2 | 3 => 1 + self.random.next() % 600,
            // Any lifetime from a minute to years.
            4 => 1 << self.random.below(23),
            _ => return record,
        };
        record.expires_at(UnixMillis(now.0 + minutes.cast_signed() * MINUTE))
    }

    /// Writes until the power fails.
    async fn write(&mut self, store: &EmbeddedStore, checked: Revision) {
        loop {
            match self.random.below(60) {
                0 => drop(store.expire().await),
                1 => drop(store.compact(checked).await),
                2 if self.number == 4 => self.add_dictionary(store),
                3..8 => match self.write_pair(store).await {
                    Ok(()) => {}
                    Err(WriteError::Fault(_)) => return,
                    Err(error) => panic!("{error}"),
                },
                _ => {}
            }
            let at = self.random.below(KEYS);
            let (key, known) = self.keys.iter().nth(at).unwrap();
            let (key, now) = (key.clone(), store.shared.clock.now());
            let current = known.sure.clone().filter(|record| is_live(record, now));
            let delete = self.random.below(4) == 0;
            let (outcome, after) = match current {
                Some(current) if delete => {
                    let deleted = store.delete(key.clone(), Some(current.revision)).await;
                    (deleted.map(|deleted| deleted.revision), None)
                }
                current => {
                    let record = self.record(now);
                    let after = Record {
                        key: key.clone(),
                        value: record.value.clone(),
                        revision: 0,
                        expires_at: record.expires_at,
                    };
                    let written = match current {
                        None => store.create(key.clone(), record).await,
                        Some(current) => store.update(key.clone(), record, current.revision).await,
                    };
                    (written, Some(after))
                }
            };
            let value = after.as_ref().map(|record| record.value.clone());
            let known = self.keys.get_mut(&key).unwrap();
            match outcome {
                Ok(revision) => {
                    known.sure = after.map(|record| Record { revision, ..record });
                    self.acknowledged.push((revision, key, value));
                }
                Err(WriteError::Fault(Fault::Unknown(_) | Fault::Closed)) => {
                    known.others.push(after);
                    return;
                }
                // These writes are certainly not done.
                Err(WriteError::Fault(Fault::Storage(_))) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Writes two records with the same value and very different lifetimes in one commit.
    async fn write_pair(&mut self, store: &EmbeddedStore) -> Result<(), WriteError> {
        let value = self.random.next().to_string();
        let now = store.shared.clock.now();
        let half = |half: &str, minutes: i64| {
            let end = UnixMillis(now.0 + minutes * MINUTE);
            let record = NewRecord::new(value.clone()).expires_at(end);
            Write::put(format!("pair{}/{half}", self.number), record)
        };
        let pair = vec![half("left", 1 << 24), half("right", 1 << 30)];
        let revisions = store.write_all(pair).await?;
        assert_eq!(revisions[0] + 1, revisions[1]);
        Ok(())
    }

    fn add_dictionary(&mut self, store: &EmbeddedStore) {
        let shared = &store.shared;
        let id = shared.codec.current().0 + 1;
        let words: Vec<u8> = (0..500 + self.random.below(9000))
            .map(|_| self.random.next() as u8)
            .collect();
        if dictionaries::add(&shared.path, id, &words).is_ok() {
            shared.codec.add(id, words);
        }
    }
}

/// Makes a folder, in memory if possible: real syncs do not matter here.
fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn is_live(record: &Record, now: UnixMillis) -> bool {
    record.expires_at.is_none_or(|at| at > now)
}

fn open(folder: &Path, clock: &ManualClock) -> Result<EmbeddedStore, OpenError> {
    let options = EmbeddedOptions {
        clock: Arc::new(clock.clone()),
        expire_by_itself: false,
        history_retention: Duration::MAX,
        free_space_min: 0,
        // So little that the index is flushed many times between two cuts.
        index_memory_bytes: 8 << 10,
        // So short that segments are rewritten.
        segment_bytes: 24 << 10,
        log_files_max: 2,
        ..EmbeddedOptions::default()
    };
    EmbeddedStore::open(folder, options)
}

/// The state that follows from the history so far: its revision and its records.
struct Story {
    revision: Revision,
    held: BTreeMap<Bytes, Record>,
}

async fn check(store: &EmbeddedStore, writers: &mut [Writer], story: &mut Story) {
    let now = store.shared.clock.now();
    // The history continues from where it was, has every acknowledged write, and leads to the
    // listed records.
    let page = store.list(ListRequest::default()).await.unwrap();
    let mut watch = store.watch(Bytes::new(), story.revision).await.unwrap();
    for pair in writers.iter().map(|writer| writer.number) {
        let half = |half| {
            let key = format!("pair{pair}/{half}");
            let mut records = page.records.iter();
            let record = records.find(|record| record.key == key);
            record.map(|record| record.value.clone())
        };
        assert_eq!(half("left"), half("right"), "half a commit");
    }
    let Story { revision, held } = story;
    let mut told = BTreeMap::new();
    assert!(page.revision >= *revision, "the revision went back");
    while *revision < page.revision {
        for change in watch.next().await.unwrap() {
            *revision += 1;
            assert_eq!(change.revision(), *revision, "no gap in the revisions");
            assert_eq!(change.previous(), held.get(change.key()), "{change:?}");
            let value = change.record().map(|record| record.value.clone());
            told.insert(*revision, (change.key().clone(), value));
            match change.record() {
                Some(record) => drop(held.insert(record.key.clone(), record.clone())),
                None => drop(held.remove(change.key())),
            }
        }
    }
    for (revision, key, value) in writers
        .iter_mut()
        .flat_map(|writer| writer.acknowledged.drain(..))
    {
        assert_eq!(
            told.get(&revision),
            Some(&(key, value)),
            "revision {revision}"
        );
    }
    let mut live = held.clone();
    live.retain(|_, record| is_live(record, now));
    let by_key = |records: Vec<Record>| -> BTreeMap<Bytes, Record> {
        let records = records.into_iter();
        records.map(|record| (record.key.clone(), record)).collect()
    };
    assert_eq!(by_key(page.records), live);

    let newest = NewestRequest {
        limit: usize::MAX,
        ..NewestRequest::default()
    };
    let newest = store.newest(newest).await.unwrap().records;
    assert_eq!(by_key(newest), live);
    for Writer { number, keys, .. } in writers {
        let mut of_object = live.clone();
        let prefix = format!("w{number}/");
        of_object.retain(|key, _| key.starts_with(prefix.as_bytes()));
        let Index {
            object_uid,
            object_kind,
            object_namespace,
            object_name,
            ..
        } = Writer::index(*number);
        let by_name = ObjectSelector::Name {
            name: object_name,
            kind: Some(object_kind),
            namespace: Some(object_namespace),
        };
        for object in [ObjectSelector::Uid(object_uid), by_name] {
            let page = store.list(ListRequest::default().object(object)).await;
            assert_eq!(by_key(page.unwrap().records), of_object);
        }
        for (key, known) in keys {
            let found = store.get(key.clone()).await.unwrap();
            assert_eq!(found.as_ref(), live.get(key));
            let Known { sure, others } = std::mem::take(known);
            let sure = sure.filter(|record| is_live(record, now));
            let value = found.as_ref().map(|record| record.value.clone());
            // A record written then may have expired since.
            let is_other = others.into_iter().any(|other| {
                let other = other.filter(|record| is_live(record, now));
                other.map(|record| record.value) == value
            });
            assert!(
                found == sure || is_other,
                "{key:?}: {found:?}, not {sure:?}"
            );
            known.sure = found;
        }
    }
}

/// Lets expired buckets be dropped while nothing is written for hours, then loses the checkpoint.
/// The last commit before has frames in two buckets.
async fn rest(folder: &Path, clock: &ManualClock, writers: &mut [Writer], story: &mut Story) {
    let store = open(folder, clock).unwrap();
    let now = store.shared.clock.now();
    let lives = |minutes| NewRecord::new("rest").expires_at(UnixMillis(now.0 + minutes * MINUTE));
    let created = store.create("rest".into(), lives(6000)).await.unwrap();
    let updated = store.update("rest".into(), lives(1), created);
    updated.await.unwrap();
    clock.advance(5 * 60 * MINUTE);
    store.expire().await.unwrap();
    check(&store, writers, story).await;
    store.compact(story.revision).await.unwrap();
    store.close().await;
    let store = open(folder, clock).unwrap();
    store.expire().await.unwrap();
    store.close().await;
    std::fs::remove_file(folder.join("CHECKPOINT")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost() {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let cuts: u64 = variable("TIDINGS_STORE_CUTS").unwrap_or(40);
    let seed =
        variable("TIDINGS_STORE_CUTS_SEED").unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("seed {seed}");
    let mut random = Random(seed);
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer::new(number, seed))
        .collect();
    let mut story = Story {
        revision: crate::REVISION_OF_NEW,
        held: BTreeMap::new(),
    };
    let (mut folder, mut checked) = (new_folder(), 0);
    let mut disk = Disk::follow(folder.path(), random.clone());
    for cut in 0..cuts {
        clock.advance(MINUTE);
        if random.below(12) == 0 {
            disk.lock().cut_after(usize::MAX);
            rest(folder.path(), &clock, &mut writers, &mut story).await;
            disk = Disk::follow(folder.path(), random.clone());
        }
        let is_off = || disk.lock().is_off();
        let changes = 1 + [random.below(60), random.below(400)][cut as usize % 2];
        disk.lock().cut_after(changes);
        println!("cut {cut} after {changes} changes");
        match open(folder.path(), &clock) {
            Err(error) => assert!(is_off(), "{error}"),
            Ok(store) => {
                if is_off() {
                    store.close().await;
                } else {
                    checked += 1;
                    check(&store, &mut writers, &mut story).await;
                    let store = Arc::new(store);
                    let tasks: Vec<_> = writers
                        .drain(..)
                        .map(|mut writer| {
                            let (store, checked) = (Arc::clone(&store), story.revision);
                            tokio::spawn(async move {
                                writer.write(&store, checked).await;
                                writer
                            })
                        })
                        .collect();
                    for task in tasks {
                        writers.push(task.await.unwrap());
                    }
                    store.close().await;
                }
            }
        }
        // In the other cases only the process is killed: what it wrote is there, though not synced
        // yet.
        if random.below(3) > 0 {
            let next = new_folder();
            disk.lock().leave(next.path());
            // The checkpoint may be lost as well, because all that it says follows from the log.
            // Without a log it may not: a store whose files show writes and whose log is empty is
            // refused.
            let has_log = !log::is_empty(&next.path().join(LOG));
            if random.below(3) == 0 && has_log {
                drop(std::fs::remove_file(next.path().join("CHECKPOINT")));
            }
            folder = next;
            disk = Disk::follow(folder.path(), random.clone());
            random.next();
        }
    }
    println!(
        "{cuts} cuts, {checked} checks, {} revisions (seed {seed})",
        story.revision
    );
    assert!(checked * 4 > cuts, "the store was hardly ever opened");
}
