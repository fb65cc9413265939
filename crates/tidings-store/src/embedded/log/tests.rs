//! Tests of the log alone: damaged bytes, and failed commits.

use std::fs;
use std::path::Path;

use super::frame::{Frame, Kind};
use super::segment::Scratch;
use super::{Failure, Frames, Log, Unfinished};
use crate::embedded::codec::State;
use crate::embedded::files::faults;
use crate::{Fault, Revision};

const BUCKET: u64 = 7;

fn open(folder: &Path) -> Log {
    let (log, _) = Log::open(folder, Some((0, 0)), true, 64 << 10, 2).unwrap();
    log
}

/// Commits versions with the given revisions.
fn commit(
    log: &Log,
    number: u64,
    versions: std::ops::Range<Revision>,
    unfinished: &mut Unfinished,
) -> Result<(), Failure> {
    commit_to(log, BUCKET, number, versions, unfinished)
}

fn commit_to(
    log: &Log,
    bucket: u64,
    number: u64,
    versions: std::ops::Range<Revision>,
    unfinished: &mut Unfinished,
) -> Result<(), Failure> {
    let mut frame = Frame::default();
    for version in versions.clone() {
        let content = version.to_string().repeat(5);
        frame.push(bucket, Kind::Version, version, content.as_bytes());
    }
    let frames = Frames::from([(bucket, frame)]);
    let state = State {
        revision: versions.end - 1,
        ..State::default()
    };
    log.commit(frames, number, versions.start, state, unfinished)
}

/// A version in damaged bytes is an error, never missing. A caller that gets "missing" for a
/// version forgets everything else about it.
#[test]
fn a_version_in_damaged_bytes_is_never_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    commit(&log, 1, 1..4, &mut unfinished).unwrap();
    commit(&log, 2, 4..6, &mut unfinished).unwrap();
    log.close();
    let segments = log.bucket(BUCKET);
    let path = segments.all()[0].path.clone();
    let whole = fs::read(&path).unwrap();
    let mut noticed = 0;
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).unwrap();
        let mut scratch = Scratch::default();
        for version in 1..6_u64 {
            match segments.version(version, &mut scratch) {
                Ok(Some(found)) => assert_eq!(found, version.to_string().repeat(5).as_bytes()),
                Err(Fault::Corrupt(_)) => noticed += 1,
                other => panic!("bit {bit}, version {version}: {other:?}"),
            }
        }
    }
    assert!(noticed > 0);
}

/// Makes two commits, of which the second fails in some way before it is repeated. Calls `with`
/// with the log, and whether a sync failed.
fn after_a_failure(
    [first, second]: [std::ops::Range<Revision>; 2],
    check: impl Fn(&Path, Log, bool),
) {
    let mut syncs = 0;
    for seed in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        let mut unfinished = Unfinished::default();
        commit(&log, 1, first.clone(), &mut unfinished).unwrap();
        faults::begin(folder.path(), seed);
        let failed = commit(&log, 2, second.clone(), &mut unfinished);
        faults::end(folder.path());
        if let Err(failure) = failed {
            log.roll_back(&mut unfinished).unwrap();
            commit(&log, 2, second.clone(), &mut unfinished).unwrap();
            let is_sync = matches!(failure, Failure::Unknown(_));
            syncs += usize::from(is_sync);
            check(folder.path(), log, is_sync);
        }
    }
    assert!(syncs > 0);
}

/// A segment is named after its first revision. A commit without revisions does not use up the
/// name.
#[test]
fn a_segment_without_a_revision_goes_on_after_a_failed_sync() {
    after_a_failure([1..1, 1..2], |folder, log, _| {
        assert_eq!(log.bucket(BUCKET).all().len(), 1);
        drop(log);
        let mut scratch = Scratch::default();
        let segments = open(folder).bucket(BUCKET);
        let found = segments.version(1, &mut scratch).unwrap();
        assert_eq!(found, Some(&b"11111"[..]));
    });
}

/// After a failed sync the state of a segment on the disk is unknown. If it has a revision, it
/// never grows again.
#[test]
fn a_segment_whose_sync_failed_is_not_added_to() {
    after_a_failure([1..2, 2..3], |_, log, is_sync| {
        let expected = if is_sync { 2 } else { 1 };
        assert_eq!(log.bucket(BUCKET).all().len(), expected);
    });
}

/// The lengths of a bucket's segment files, and of their frames.
fn lengths(log: &Log, bucket: u64) -> Vec<(u64, u64)> {
    let segments = log.bucket(bucket).all();
    let lengths = segments.iter().map(|segment| {
        let file = fs::metadata(&segment.path).unwrap().len();
        assert_eq!(segment.file_len(), file);
        (file, segment.len())
    });
    lengths.collect()
}

/// Small frames that follow each other have preallocated room. The room is removed when it is not
/// used any more.
#[test]
fn room_is_made_where_it_is_used_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    let mut add = |log: &Log, bucket, number: u64| {
        commit_to(log, bucket, number, number..number + 1, &mut unfinished).unwrap();
        log.give_room_back(number);
    };
    let has_room = |log: &Log, bucket| {
        let lengths = lengths(log, bucket);
        lengths.last().is_some_and(|(file, frames)| file > frames)
    };
    add(&log, BUCKET, 1);
    assert!(!has_room(&log, BUCKET), "it may stay the only one");
    add(&log, BUCKET, 2);
    assert!(has_room(&log, BUCKET));
    let before = lengths(&log, BUCKET);
    add(&log, BUCKET, 3);
    let after = lengths(&log, BUCKET);
    assert_eq!(before[0].0, after[0].0, "the frame lies where the room was");
    // Dropping the log without closing it is like a kill of the process.
    drop(log);
    let log = open(folder.path());
    assert!(!has_room(&log, BUCKET));
    let mut scratch = Scratch::default();
    for version in 1..4_u64 {
        let found = log.bucket(BUCKET).version(version, &mut scratch).unwrap();
        assert_eq!(found, Some(version.to_string().repeat(5).as_bytes()));
    }
    for number in 4..6 {
        add(&log, BUCKET, number);
    }
    let other = BUCKET + 1;
    for number in 6..69 {
        add(&log, other, number);
    }
    assert!(has_room(&log, BUCKET) && has_room(&log, other));
    add(&log, other, 69);
    assert!(!has_room(&log, BUCKET), "it was not used for 64 commits");
    log.close();
    assert!(!has_room(&log, other));
    // A segment that is not the last has no room.
    let mut number = 70;
    while lengths(&log, BUCKET).len() < 3 {
        add(&log, BUCKET, number);
        number += 1;
    }
    let lengths = lengths(&log, BUCKET);
    assert!(
        lengths
            .iter()
            .rev()
            .skip(1)
            .all(|(file, frames)| file == frames)
    );
    assert!(
        lengths
            .iter()
            .all(|(file, frames)| *file <= log.segment_len.max(*frames)),
        "{lengths:?}"
    );
    drop(log);
    assert_eq!(open(folder.path()).bucket(BUCKET).last(), number - 1);
}

/// A long frame is written without room after it.
#[test]
fn long_frames_have_no_room_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    let mut first = 1;
    for number in 1..4 {
        commit(&log, number, first..first + 1000, &mut unfinished).unwrap();
        first += 1000;
        let lengths = lengths(&log, BUCKET);
        assert!(
            lengths.iter().all(|(file, frames)| file == frames),
            "{lengths:?}"
        );
    }
}

/// Opening reads only frames after the checkpoint, even if commits continued during it.
#[test]
fn what_a_checkpoint_has_is_not_read_when_opening() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    // One bucket has a full segment, another has nothing after the checkpoint.
    commit_to(&log, 8, 1, 1..2, &mut unfinished).unwrap();
    commit(&log, 2, 2..100, &mut unfinished).unwrap();
    let extents = log.extents();
    commit(&log, 3, 100..1000, &mut unfinished).unwrap();
    commit(&log, 4, 1000..3000, &mut unfinished).unwrap();
    assert_eq!(log.bucket(BUCKET).all().len(), 2);
    log.write_idx(&extents).unwrap();
    drop(log);
    // A read of the first frames would find damage.
    for (bucket, first) in [(8, 1), (BUCKET, 2)] {
        let path = folder
            .path()
            .join(format!("{bucket:016x}-{first:016x}.log"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[20] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let open = |checkpoint| Log::open(folder.path(), Some(checkpoint), false, 64 << 10, 2);
    let (log, commits) = open((2, 99)).unwrap();
    let numbers: Vec<_> = commits.iter().map(|commit| commit.number).collect();
    assert_eq!(numbers, [3, 4]);
    let len = log.bucket(BUCKET).len();
    assert!((len / 2..len).contains(&log.behind()), "{len}");
    assert!(
        open((1, 1)).is_err(),
        "it is not written down where that ends"
    );
}

/// A frame that is too long to be read would be acknowledged, and later found damaged.
#[test]
fn a_frame_that_is_too_long_to_be_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    let mut frame = Frame::default();
    let content = vec![0; 1 << 20];
    for version in 1..65 {
        frame.push(BUCKET, Kind::Version, version, &content);
    }
    let frames = Frames::from([(BUCKET, frame)]);
    let state = State {
        revision: 64,
        ..State::default()
    };
    let refused = log.commit(frames, 1, 1, state, &mut unfinished);
    assert!(
        matches!(refused, Err(Failure::NotWritten(_))),
        "{refused:?}"
    );
    assert!(unfinished.0.is_empty() && log.bucket(BUCKET).all().is_empty());
    commit(&log, 1, 1..4, &mut unfinished).unwrap();
}
