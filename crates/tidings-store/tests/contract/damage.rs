//! Damaged folders and files: each is refused with a clear error or repaired, and acknowledged
//! writes are never lost or changed silently.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use tidings_store::clock::{Clock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use tidings_store::{Fault, ListRequest, NewRecord, Store, UnixMillis, Write, WriteError};
use tidings_testing::copy_folder;

use crate::support::{about, show};

fn open(folder: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(folder, EmbeddedOptions::default())
}

fn refusal(folder: &Path) -> String {
    let error = open(folder).err().unwrap().to_string();
    error.replace(&*folder.to_string_lossy(), "FOLDER")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// A closed store with these records, written one after the other.
fn store_with(keys: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), keys);
    folder
}

fn add(folder: &Path, keys: &[&str]) {
    block_on(async {
        let store = open(folder).unwrap();
        for key in keys {
            let record = NewRecord::new(format!("value of {key}")).index(about(key, 1));
            store
                .create((*key).to_owned().into(), record)
                .await
                .unwrap();
        }
        store.close().await;
    });
}

fn records(folder: &Path) -> Result<Vec<String>, OpenError> {
    let store = open(folder)?;
    Ok(block_on(async {
        let page = store.list(ListRequest::default()).await.unwrap();
        store.close().await;
        page.records.iter().map(show).collect()
    }))
}

fn expected(keys: &[&str]) -> Vec<String> {
    keys.iter()
        .map(|key| format!("{key}=value of {key}"))
        .collect()
}

fn copy(from: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(from, folder.path());
    folder
}

#[test]
fn somebody_elses_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "important").unwrap();
    assert_eq!(
        refusal(folder.path()),
        "FOLDER is not empty and not a store (it contains \"thesis.txt\"); choose a new or empty folder"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("FORMAT"), "floppy 1440").unwrap();
    assert!(refusal(folder.path()).contains("not a store"));
    fs::write(folder.path().join("FORMAT"), [0xff]).unwrap();
    assert!(refusal(folder.path()).contains("not a store"));
}

#[test]
fn a_newer_format_is_refused() {
    let folder = store_with(&["a"]);
    fs::write(folder.path().join("FORMAT"), "tidings-store 5\n").unwrap();
    assert_eq!(
        refusal(folder.path()),
        "the store in FOLDER has format 5, this program knows formats up to 4; use a newer one"
    );
    fs::write(folder.path().join("FORMAT"), "tidings-store 1\n").unwrap();
    assert_eq!(
        refusal(folder.path()),
        "the store in FOLDER has format 1, which this program no longer reads; choose a new folder"
    );
}

#[test]
fn one_at_a_time() {
    let folder = store_with(&["a"]);
    let first = open(folder.path()).unwrap();
    assert_eq!(
        refusal(folder.path()),
        "the store in FOLDER is in use by another process"
    );
    block_on(first.close());
    assert_eq!(records(folder.path()).unwrap(), expected(&["a"]));
}

#[test]
fn a_file_in_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let message = refusal(&file);
    assert!(
        message.starts_with("failed to create folder FOLDER"),
        "{message}"
    );
}

#[test]
fn a_store_that_was_never_finished_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    fs::write(folder.path().join("FORMAT.new"), "tid").unwrap();
    assert_eq!(records(folder.path()).unwrap(), expected(&[]));
    let folder = store_with(&[]);
    fs::remove_dir_all(folder.path().join("log")).unwrap();
    fs::remove_file(folder.path().join("CHECKPOINT")).unwrap();
    add(folder.path(), &["a"]);
    assert_eq!(records(folder.path()).unwrap(), expected(&["a"]));
}

#[test]
fn a_full_disk_refuses_creates_only() {
    let folder = store_with(&["a", "b"]);
    let mut options = EmbeddedOptions::default();
    options.free_space_min = u64::MAX;
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    block_on(async {
        let error = store
            .create("c".into(), NewRecord::new(""))
            .await
            .unwrap_err();
        assert!(
            matches!(error, WriteError::Fault(Fault::NoSpace)),
            "{error}"
        );
        assert_eq!(error.to_string(), "no space left on the store's disk");
        store.delete("a".into(), None).await.unwrap();
        assert!(store.get("b".into()).await.unwrap().is_some());
        store.close().await;
    });
    add(folder.path(), &["c"]);
    assert_eq!(records(folder.path()).unwrap(), expected(&["b", "c"]));
}

/// A trim of an archive deletes and notes that it did, in one commit: a full disk must not prevent
/// what gives space back.
#[test]
fn a_full_disk_takes_deletions_with_notes_about_them() {
    let folder = store_with(&["a", "b", "c"]);
    let mut options = EmbeddedOptions::default();
    options.free_space_min = u64::MAX;
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let mut state = 1_u32;
    let noise = (0..100_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    let noise: Vec<u8> = noise.collect();
    let note = || Write::put("note", NewRecord::new("2 deleted"));
    let large = Write::put("large", NewRecord::new(noise));
    let cases = [
        (vec![Write::delete("a")], true),
        (vec![Write::delete("b"), note()], true),
        (vec![note()], false),
        (vec![Write::delete("c"), large], false),
    ];
    block_on(async {
        for (number, (writes, is_done)) in cases.into_iter().enumerate() {
            let written = store.write_all(writes).await;
            match written {
                Ok(_) => assert!(is_done, "{number}"),
                Err(WriteError::Fault(Fault::NoSpace)) => assert!(!is_done, "{number}"),
                Err(error) => panic!("{number}: {error}"),
            }
        }
        store.close().await;
    });
    let expected = ["c=value of c", "note=2 deleted"];
    assert_eq!(records(folder.path()).unwrap(), expected);
}

/// The only segment of the log, and its bytes.
fn segment(folder: &Path) -> (PathBuf, Vec<u8>) {
    let files = fs::read_dir(folder.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let path = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .max()
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// Makes a closed store look as if its process had died before flushing the index: only the log,
/// and the index as of the store's creation.
fn as_after_a_crash(folder: &Path, made: &Path) {
    fs::remove_dir_all(folder.join("index")).unwrap();
    copy_folder(&made.join("index"), &folder.join("index"));
    fs::copy(made.join("CHECKPOINT"), folder.join("CHECKPOINT")).unwrap();
    for entry in fs::read_dir(folder.join("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            fs::remove_file(path).unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Damage {
    /// A number of zeros, like a page that was not written.
    Hole(usize),
    /// The end is missing.
    Cut,
    /// Other bytes.
    Noise(Vec<u8>),
}

fn damages() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (1..300usize).prop_map(Damage::Hole),
        Just(Damage::Cut),
        proptest::collection::vec(any::<u8>(), 1..60).prop_map(Damage::Noise),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>, at: usize) {
        let (len, noise) = match self {
            Self::Cut => return bytes.truncate(at),
            Self::Hole(len) => (*len, vec![0; *len]),
            Self::Noise(noise) => (noise.len(), noise.clone()),
        };
        let end = bytes.len().min(at + len);
        bytes[at..end].copy_from_slice(&noise[..end - at]);
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

/// The machine died while writing the last commit: wherever it is torn, all earlier commits exist
/// and stay.
#[test]
fn a_torn_last_commit_is_cut_off_and_kept() {
    let made = store_with(&[]);
    let folder = copy(made.path());
    add(folder.path(), &["a", "b", "c"]);
    let whole = segment(folder.path()).1.len();
    add(folder.path(), &["torn"]);
    as_after_a_crash(folder.path(), made.path());
    let torn = segment(folder.path()).1.len();
    assert!(torn > whole + 80, "{torn} {whole}");
    let result = runner(48).run(&(whole..torn, damages()), |(at, damage)| {
        let folder = copy(folder.path());
        let (path, mut bytes) = segment(folder.path());
        let before = bytes.clone();
        damage.apply(&mut bytes, at);
        fs::write(&path, &bytes).unwrap();
        let found = records(folder.path()).unwrap();
        let kept = fs::read_dir(folder.path().join("torn")).map_or(0, Iterator::count);
        let mut keys = if bytes == before {
            vec!["a", "b", "c", "torn"]
        } else {
            vec!["a", "b", "c"]
        };
        prop_assert_eq!(found, expected(&keys));
        let tail = bytes.get(whole..).unwrap_or_default();
        let is_torn = bytes != before && tail.iter().any(|byte| *byte != 0);
        prop_assert_eq!(kept == 1, is_torn);
        add(folder.path(), &["later"]);
        keys.insert(3, "later");
        prop_assert_eq!(records(folder.path()).unwrap(), expected(&keys));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// The lengths of the log's segments, by path.
fn segment_lens(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let files = fs::read_dir(folder.join("log")).unwrap();
    let files = files.map(|entry| entry.unwrap());
    let logs = files.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().ends_with(".log")
    });
    logs.map(|entry| (entry.path(), entry.metadata().unwrap().len()))
        .collect()
}

/// The last commit has a frame in each of two buckets, and one is torn, in either bucket and at any
/// place: no part of the commit counts as done, with or without the checkpoint.
#[test]
fn a_commit_in_two_buckets_is_there_whole_or_not_at_all() {
    let made = store_with(&[]);
    let folder = copy(made.path());
    let record = |value: &'static str, life: i64| {
        let end = UnixMillis(SystemClock.now().0 + life);
        NewRecord::new(value).index(about("a", 1)).expires_at(end)
    };
    block_on(async {
        let store = open(folder.path()).unwrap();
        let long = record("long", 14 * 24 * 3_600_000);
        store.create("a".into(), long).await.unwrap();
        let short = record("short", 3_600_000);
        store.create("b".into(), short).await.unwrap();
        store.close().await;
    });
    let before = segment_lens(folder.path());
    block_on(async {
        let store = open(folder.path()).unwrap();
        let revision = store.get("a".into()).await.unwrap().unwrap().revision;
        let shorter = store.update("a".into(), record("shorter", 3_600_000), revision);
        shorter.await.unwrap();
        store.close().await;
    });
    let after = segment_lens(folder.path());
    let changed: Vec<_> = after
        .iter()
        .map(|(path, len)| (path.clone(), before.get(path).copied().unwrap_or(0)..*len))
        .filter(|(_, range)| !range.is_empty())
        .collect();
    assert_eq!(changed.len(), 2, "{before:?} {after:?}");
    as_after_a_crash(folder.path(), made.path());
    let cases = (
        0..2usize,
        any::<prop::sample::Index>(),
        damages(),
        any::<bool>(),
    );
    let result = runner(48).run(&cases, |(torn, at, damage, is_lost)| {
        let copied = copy(folder.path());
        if is_lost {
            fs::remove_file(copied.path().join("CHECKPOINT")).unwrap();
        }
        let (path, range) = &changed[torn];
        let path = copied
            .path()
            .join(path.strip_prefix(folder.path()).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let whole = bytes.clone();
        let at = range.start as usize + at.index((range.end - range.start) as usize);
        damage.apply(&mut bytes, at);
        fs::write(&path, &bytes).unwrap();
        let value = if bytes == whole { "shorter" } else { "long" };
        let shown = [format!("a={value}"), "b=short".to_owned()];
        for _ in 0..2 {
            prop_assert_eq!(records(copied.path()).unwrap(), &shown);
        }
        add(copied.path(), &["c"]);
        prop_assert_eq!(records(copied.path()).unwrap().len(), 3);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Damage that a crash cannot cause is not repaired by dropping later commits.
#[test]
fn damage_before_acknowledged_writes_is_refused() {
    let made = store_with(&[]);
    let folder = copy(made.path());
    add(folder.path(), &["a"]);
    let early = segment(folder.path()).1.len();
    // Enough that the damage does not reach the end.
    add(folder.path(), &["b", "c", "d", "e", "f", "g", "h", "i"]);
    assert!(segment(folder.path()).1.len() > early + 400);
    as_after_a_crash(folder.path(), made.path());
    let result = runner(48).run(&(0..early, damages()), |(at, damage)| {
        if matches!(damage, Damage::Cut) {
            return Ok(());
        }
        let folder = copy(folder.path());
        let (path, mut bytes) = segment(folder.path());
        let before = bytes.clone();
        damage.apply(&mut bytes, at);
        fs::write(&path, &bytes).unwrap();
        // Noise can begin with the bytes that were there.
        let Some(first) = bytes
            .iter()
            .zip(&before)
            .position(|(now, then)| now != then)
        else {
            return Ok(());
        };
        match records(folder.path()) {
            Err(OpenError::Damaged { file, offset }) => {
                prop_assert_eq!(file, path.clone());
                prop_assert!(offset <= first as u64, "{offset} > {first}");
                prop_assert_eq!(fs::read(&path).unwrap(), bytes, "and it is left as it was");
            }
            Err(other) => prop_assert!(false, "{}", other),
            Ok(found) => prop_assert!(false, "{:?}", found),
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Acknowledged commits are missing at the end of a segment, or the segment is missing: this is an
/// error, not ignored.
#[test]
fn a_log_that_lost_acknowledged_writes_is_refused() {
    let folder = store_with(&["a", "b"]);
    let (path, bytes) = segment(folder.path());
    for len in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = records(folder.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{len}: {error}");
    }
    fs::remove_file(&path).unwrap();
    let error = records(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

/// A file of the log is lost, and the others of its bucket are there.
#[test]
fn a_log_that_lost_one_of_its_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..60).map(|number| format!("key-{number:02}")).collect();
    block_on(async {
        let mut options = EmbeddedOptions::default();
        options.segment_bytes = 1 << 10;
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        for key in &keys {
            let record = NewRecord::new(format!("value of {key}")).index(about(key, 1));
            store.create(key.clone().into(), record).await.unwrap();
        }
        store.close().await;
    });
    let files: Vec<_> = segment_lens(folder.path()).into_keys().collect();
    assert!(files.len() > 3, "{files:?}");
    let (older, newest) = (files[1].clone(), files[files.len() - 1].clone());
    let places = newest.with_extension("idx");
    let checkpoint = folder.path().join("CHECKPOINT");
    let cases = [
        ("an older one", vec![&older]),
        ("the newest", vec![&newest]),
        (
            "the newest, and where things are in it",
            vec![&newest, &places],
        ),
        ("the newest, and the checkpoint", vec![&newest, &checkpoint]),
    ];
    for (what, lost) in cases {
        let copied = copy(folder.path());
        for path in lost {
            let path = path.strip_prefix(folder.path()).unwrap();
            fs::remove_file(copied.path().join(path)).unwrap();
        }
        for _ in 0..2 {
            let error = records(copied.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::Damaged { .. }),
                "{what}: {error}"
            );
        }
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(records(folder.path()).unwrap(), expected(&keys));
}

/// A name and an operation on a store's files.
type Harm = (&'static str, fn(&Path));

/// The index follows from the log: whatever happens to it, everything is found again.
#[test]
fn an_index_that_is_lost_or_damaged_is_made_anew() {
    let folder = store_with(&["a", "b"]);
    add(folder.path(), &["c"]);
    block_on(async {
        let store = open(folder.path()).unwrap();
        store.delete("b".into(), None).await.unwrap();
        store.close().await;
    });
    let damages: [Harm; 8] = [
        ("lost", |folder| {
            fs::remove_dir_all(folder.join("index")).unwrap();
        }),
        ("a bucket's part lost", |folder| {
            fs::remove_dir_all(folder.join("index/ffffffffffffffff")).unwrap();
        }),
        ("emptied", |folder| {
            fs::remove_dir_all(folder.join("index/names/tables")).unwrap();
        }),
        ("garbled", |folder| {
            fs::write(folder.join("index/names/current"), "garbage").unwrap();
        }),
        ("the names' pointer lost", |folder| {
            fs::remove_file(folder.join("index/names/current")).unwrap();
        }),
        ("a bucket's pointer lost", |folder| {
            fs::remove_file(folder.join("index/ffffffffffffffff/current")).unwrap();
        }),
        ("checkpoint lost", |folder| {
            fs::remove_file(folder.join("CHECKPOINT")).unwrap();
        }),
        ("checkpoint garbled", |folder| {
            fs::write(folder.join("CHECKPOINT"), "1 2 3").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let copied = copy(folder.path());
        damage(copied.path());
        // Twice: rebuilt files are also kept.
        for _ in 0..2 {
            assert_eq!(
                records(copied.path()).unwrap(),
                expected(&["a", "c"]),
                "{what}"
            );
        }
        add(copied.path(), &["b"]);
        assert_eq!(
            records(copied.path()).unwrap(),
            expected(&["a", "b", "c"]),
            "{what}"
        );
    }
}

/// One flipped bit anywhere in the log or the index: an error or the right answer, never a wrong
/// one.
#[test]
fn flipped_bits_are_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..24).map(|number| format!("key-{number:02}")).collect();
    // Values that cannot be compressed.
    let noise = |number: usize| -> Vec<u8> {
        let mut state = number as u64 + 1;
        let step = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        (0..4000).map(step).collect()
    };
    block_on(async {
        let store = open(folder.path()).unwrap();
        for (number, key) in keys.iter().enumerate() {
            store
                .create(key.clone().into(), NewRecord::new(noise(number)))
                .await
                .unwrap();
        }
        store.close().await;
    });
    let mut files = vec![segment(folder.path()).0];
    for tree in fs::read_dir(folder.path().join("index")).unwrap() {
        let tree = tree.unwrap().path();
        for folder in [tree.join("tables"), tree].iter().filter(|it| it.is_dir()) {
            let entries = fs::read_dir(folder).unwrap();
            files.extend(entries.map(|file| file.unwrap().path()));
        }
    }
    files.retain(|path| path.is_file());
    assert!(files.len() > 2, "nothing was flushed");
    let result = runner(64).run(
        &(
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            0..8u8,
        ),
        |(file, at, bit)| {
            let copied = copy(folder.path());
            let file = file.get(&files).strip_prefix(folder.path()).unwrap();
            let file = copied.path().join(file);
            let mut bytes = fs::read(&file).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            fs::write(&file, bytes).unwrap();
            let Ok(store) = open(copied.path()) else {
                return Ok(());
            };
            block_on(async {
                for (number, key) in keys.iter().enumerate() {
                    match store.get(key.clone().into()).await {
                        Ok(Some(record)) => {
                            assert!(record.value == noise(number), "{key} has a wrong value");
                        }
                        Ok(None) => panic!("{key} is gone without a word"),
                        Err(error) => drop(error),
                    }
                }
                store.close().await;
                if !file.starts_with(copied.path().join("index")) {
                    return;
                }
                // Damage that was found is repaired by the next opening.
                let store = open(copied.path()).unwrap();
                for (number, key) in keys.iter().enumerate() {
                    let found = store.get(key.clone().into()).await.unwrap().unwrap();
                    assert!(found.value == noise(number), "{key}");
                }
                store.close().await;
            });
            Ok(())
        },
    );
    result.unwrap_or_else(|error| panic!("{error}"));
}
