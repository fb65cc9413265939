//! A process that writes is killed with SIGKILL at random moments, again and again on the same
//! folder. Afterwards every acknowledged write must be there once, every index entry must be right,
//! and the revisions must have no gap.
//!
//! `TIDINGS_STORE_KILLS` sets the number of kills (default 20), `TIDINGS_STORE_CRASH_SEED` the
//! seed; a failure is reported with both. `cargo xtask crash` is the long form.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_store::clock::{Clock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{
    Change, ListRequest, NewRecord, NewestRequest, ObjectSelector, Record, Revision, Store,
    UnixMillis,
};

use crate::support::{about, show};

const WRITERS: u64 = 24;
/// This number of writers make records that soon expire; they are checked only by their changes.
const EXPIRING: u64 = 8;
const KEYS: u64 = 7;
const FOLDER: &str = "TIDINGS_STORE_CRASH_FOLDER";
const FIRST: &str = "TIDINGS_STORE_CRASH_FIRST";

fn open(folder: &Path) -> EmbeddedStore {
    let mut options = EmbeddedOptions::default();
    options.history_retention = Duration::MAX;
    // Some hundred changes, so that kills also hit flushes and merges of the index.
    options.index_memory_bytes = 64 << 10;
    // And rewrites of segments.
    options.segment_bytes = 64 << 10;
    options.log_files_max = 2;
    EmbeddedStore::open(folder, options).unwrap()
}

/// Identifies the folder of an index, to notice a replacement.
fn index_of(folder: &Path) -> Option<u64> {
    let index = std::fs::metadata(folder.join("index"));
    Some(std::os::unix::fs::MetadataExt::ino(&index.ok()?))
}

fn key(writer: u64, number: u64) -> String {
    format!("w{writer}/{}", number % KEYS)
}

fn deletes(number: u64) -> bool {
    number % 5 == 4
}

/// The killed process; not a separate test.
#[test]
#[ignore = "run by the test below"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(open(Path::new(&folder)));
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for number in first.. {
                        write(&*store, writer, number).await;
                        println!("\nack {writer} {number}.");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn write(store: &dyn Store, writer: u64, number: u64) {
    let key = key(writer, number);
    let found = store.get(key.clone().into()).await.unwrap();
    if deletes(number) {
        if let Some(found) = found {
            let deleted = store.delete(key.into(), Some(found.revision)).await;
            assert!(deleted.is_ok() || writer < EXPIRING, "{deleted:?}");
        }
        return;
    }
    let padding = "-".repeat((number % 11 * 30) as usize);
    let mut record = NewRecord::new(format!("{number} {padding}"))
        .index(about(&format!("pod-{writer}"), number.cast_signed()));
    if writer < EXPIRING {
        // Half of them have a TTL of a moment, the others of up to weeks.
        let life = match writer % 2 {
            0 => 50 + number % 100,
            _ => 50 << (number % 24),
        };
        record = record.expires_at(UnixMillis(SystemClock.now().0 + life.cast_signed()));
    }
    let written = match found {
        None => store.create(key.into(), record).await,
        Some(found) => store.update(key.into(), record, found.revision).await,
    };
    // An expiring record may come or go between the two.
    assert!(written.is_ok() || writer < EXPIRING, "{written:?}");
}

#[test]
fn nothing_acknowledged_is_lost() {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let kills: u64 = variable("TIDINGS_STORE_KILLS").unwrap_or(20);
    let seed: u64 =
        variable("TIDINGS_STORE_CRASH_SEED").unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    // The last acknowledged number of each writer, and of each key of it.
    let mut acknowledged: HashMap<u64, u64> = HashMap::new();
    let mut by_key: BTreeMap<String, u64> = BTreeMap::new();
    let (mut first, mut total) = (0, 0);
    let mut story = Story {
        revision: tidings_store::REVISION_OF_NEW,
        held: BTreeMap::new(),
    };
    for kill in 0..kills {
        let patience = patience(seed, kill);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "crash::child",
                "--exact",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(FOLDER, folder.path())
            .env(FIRST, first.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut read = |until: u64| {
            let mut count = 0;
            while count < until
                && let Some(Ok(line)) = lines.next()
            {
                // An incomplete line has no full stop.
                let Some(line) = line
                    .strip_prefix("ack ")
                    .and_then(|line| line.strip_suffix('.'))
                else {
                    continue;
                };
                let (writer, number) = line.split_once(' ').unwrap();
                let (writer, number) = (writer.parse().unwrap(), number.parse().unwrap());
                acknowledged.insert(writer, number);
                by_key.insert(key(writer, number), number);
                count += 1;
            }
            count
        };
        let before = read(patience);
        child.kill().unwrap();
        child.wait().unwrap();
        total += before + read(u64::MAX);
        assert!(
            before == patience,
            "the child ended by itself before kill {kill}"
        );
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        // Captured with the failure, if there is one.
        println!("kill {kill} after {before} acknowledgements");
        let records = runtime.block_on(async {
            let was_made = folder.path().join("CHECKPOINT").exists();
            let index = index_of(folder.path());
            let store = open(folder.path());
            // A kill damages nothing that would need a rebuild.
            assert!(!was_made || index == index_of(folder.path()), "kill {kill}");
            let records = check(&store, &acknowledged, &by_key, &mut story).await;
            // So that the next one has space to release.
            store.compact(story.revision).await.unwrap();
            store.close().await;
            records
        });
        first = acknowledged.values().max().map_or(0, |last| last + 10);
        // Writes in flight at the kill are judged now; from here on numbers start above all earlier
        // ones, and each key counts as found.
        for last in acknowledged.values_mut() {
            *last = first - 1;
        }
        let found = records.iter().map(|record| {
            let key = String::from_utf8(record.key.to_vec()).unwrap();
            (key, number(record))
        });
        by_key = found.collect();
    }
    println!(
        "crash: {kills} kills, {total} acknowledged writes, {} revisions without a gap, 0 lost, 0 doubled (seed {seed})",
        story.revision
    );
}

/// Acknowledgements to wait for before the kill: mostly some hundred, in one of eight cases none or
/// a few, so that kills also hit opening.
fn patience(seed: u64, kill: u64) -> u64 {
    let mut mixed = seed.wrapping_add((kill + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    if mixed.is_multiple_of(8) {
        (mixed >> 8) % 3
    } else {
        (mixed >> 8) % 1500
    }
}

/// The history so far: its revision, and its records.
struct Story {
    revision: Revision,
    held: BTreeMap<Bytes, Record>,
}

fn number(record: &Record) -> u64 {
    str::from_utf8(&record.value)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

async fn check(
    store: &dyn Store,
    acknowledged: &HashMap<u64, u64>,
    by_key: &BTreeMap<String, u64>,
    story: &mut Story,
) -> Vec<Record> {
    for (key, number_acknowledged) in by_key {
        let writer: u64 = key
            .trim_start_matches('w')
            .split('/')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        if writer < EXPIRING {
            continue;
        }
        // One write of each writer may have been in flight: it exists or not.
        let in_flight = acknowledged.get(&writer).map_or(0, |last| last + 1);
        let allowed = |number: u64| (!deletes(number)).then_some(number);
        let mut states = vec![allowed(*number_acknowledged)];
        if self::key(writer, in_flight) == *key {
            states.push(allowed(in_flight));
        }
        let found = store
            .get(key.clone().into())
            .await
            .unwrap()
            .map(|record| number(&record));
        assert!(
            states.contains(&found),
            "{key} is {found:?}, acknowledged is {number_acknowledged}, {states:?} are right"
        );
    }

    // Writes every due expiry, so that the history has all ends.
    store.expire().await.unwrap();
    let page = store.list(ListRequest::default()).await.unwrap();
    let listed: BTreeMap<_, _> = page
        .records
        .iter()
        .map(|record| (record.key.clone(), record.clone()))
        .collect();

    // The history, from where it ended before the kill and without a gap, ends in what is listed;
    // no write is in it twice.
    let mut watch = store.watch("".into(), story.revision).await.unwrap();
    let Story { revision, held } = story;
    let mut puts = HashMap::new();
    while *revision < page.revision {
        for change in watch
            .next()
            .await
            .unwrap()
            .iter()
            .take_while(|change| change.revision() <= page.revision)
        {
            *revision += 1;
            assert_eq!(change.revision(), *revision, "no gap in the revisions");
            assert_eq!(change.previous(), held.get(change.key()), "{change:?}");
            match &**change {
                Change::Put { record, .. } => {
                    *puts.entry(show(record)).or_insert(0) += 1;
                    held.insert(record.key.clone(), record.clone());
                }
                Change::Delete { previous, .. } => drop(held.remove(&previous.key)),
            }
        }
    }
    let now = SystemClock.now();
    let unexpired = |records: &BTreeMap<Bytes, Record>| {
        let mut records = records.clone();
        records.retain(|_, record| record.expires_at.is_none_or(|at| at > now));
        records
    };
    let still = unexpired(&listed);
    assert_eq!(unexpired(held), still);
    assert_eq!(
        puts.into_iter().find(|(_, count)| *count > 1),
        None,
        "a write that was done twice"
    );

    // Point reads return what is listed.
    for (key, record) in &listed {
        let found = store.get(key.clone()).await.unwrap();
        // It may have expired since.
        assert!(found.as_ref() == Some(record) || record.expires_at.is_some());
    }

    check_indexes(store, &still).await;
    page.records
}

/// Checks that both indexes have every record, and nothing else.
async fn check_indexes(store: &dyn Store, still: &BTreeMap<Bytes, Record>) {
    let newest = store
        .newest(NewestRequest {
            limit: usize::MAX,
            ..NewestRequest::default()
        })
        .await
        .unwrap();
    let newest: BTreeMap<_, _> = newest
        .records
        .into_iter()
        .map(|record| (record.key.clone(), record))
        .collect();
    let lasting = |records: &BTreeMap<_, Record>| -> Vec<Record> {
        records
            .values()
            .filter(|record| record.expires_at.is_none())
            .cloned()
            .collect()
    };
    assert_eq!(lasting(&newest), lasting(still));
    for writer in EXPIRING..WRITERS {
        let prefix = format!("w{writer}/");
        let expected: Vec<_> = still
            .values()
            .filter(|record| record.key.starts_with(prefix.as_bytes()))
            .cloned()
            .collect();
        let index = about(&format!("pod-{writer}"), 0);
        let by_name = ObjectSelector::Name {
            name: index.object_name,
            kind: Some(index.object_kind),
            namespace: Some(index.object_namespace),
        };
        for object in [ObjectSelector::Uid(index.object_uid), by_name] {
            let request = ListRequest::default().object(object);
            let found = store.list(request).await.unwrap().records;
            assert_eq!(found, expected);
        }
    }
}
