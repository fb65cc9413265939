//! The log by itself: what it says of damaged bytes, and how it goes on after a failed commit.

use std::fs;
use std::path::Path;

use super::faults;
use super::frame::{Frame, Kind};
use super::keys::State;
use super::log::{Failure, Frames, Log, Unfinished};
use super::segment::Scratch;
use crate::{Fault, Revision};

const BUCKET: u64 = 7;

fn open(folder: &Path) -> Log {
    let (log, _) = Log::open(folder, Some((0, 0)), true, 64 << 10).unwrap();
    log
}

/// A commit of the versions with some revisions.
fn commit(
    log: &Log,
    number: u64,
    versions: std::ops::Range<Revision>,
    unfinished: &mut Unfinished,
) -> Result<(), Failure> {
    let mut frame = Frame::default();
    for version in versions.clone() {
        let content = version.to_string().repeat(5);
        frame.push(BUCKET, Kind::Version, version, content.as_bytes());
    }
    let frames = Frames::from([(BUCKET, frame)]);
    let state = State {
        revision: versions.end - 1,
        ..State::default()
    };
    log.commit(frames, number, versions.start, state, unfinished)
}

/// Whoever is told that a version is not there forgets what else is known of it.
#[test]
fn a_version_in_damaged_bytes_is_never_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let mut unfinished = Unfinished::default();
    commit(&log, 1, 1..4, &mut unfinished).unwrap();
    commit(&log, 2, 4..6, &mut unfinished).unwrap();
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

/// A segment is named after its first revision; a commit that took none does not use that name up.
#[test]
fn a_segment_without_a_revision_goes_on_after_a_failed_sync() {
    let mut failed = 0;
    for seed in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        let mut unfinished = Unfinished::default();
        commit(&log, 1, 1..1, &mut unfinished).unwrap();
        faults::begin(folder.path(), seed);
        let second = commit(&log, 2, 1..2, &mut unfinished);
        faults::end(folder.path());
        if second.is_ok() {
            continue;
        }
        failed += usize::from(matches!(second, Err(Failure::Unknown(_))));
        log.roll_back(&mut unfinished).unwrap();
        commit(&log, 2, 1..2, &mut unfinished).unwrap();
        assert_eq!(log.bucket(BUCKET).all().len(), 1, "seed {seed}");
        drop(log);

        let log = open(folder.path());
        let mut scratch = Scratch::default();
        let found = log.bucket(BUCKET);
        let found = found.version(1, &mut scratch).unwrap();
        assert_eq!(found, Some(&b"11111"[..]), "seed {seed}");
    }
    assert!(failed > 0);
}

/// After a failed sync it is not known what the disk has of a segment: with a revision in it, it is not added to again.
#[test]
fn a_segment_whose_sync_failed_is_not_added_to() {
    let mut failed = 0;
    for seed in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        let mut unfinished = Unfinished::default();
        commit(&log, 1, 1..2, &mut unfinished).unwrap();
        faults::begin(folder.path(), seed);
        let second = commit(&log, 2, 2..3, &mut unfinished);
        faults::end(folder.path());
        let expected = match second {
            Ok(()) => continue,
            Err(Failure::Unknown(_)) => 2,
            Err(_) => 1,
        };
        failed += expected - 1;
        log.roll_back(&mut unfinished).unwrap();
        commit(&log, 2, 2..3, &mut unfinished).unwrap();
        assert_eq!(log.bucket(BUCKET).all().len(), expected, "seed {seed}");
    }
    assert!(failed > 0);
}
