//! The files of a spill: order, bounds, and the state that the next process finds wherever this one
//! died.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1;
use proptest::prelude::*;

use super::record;
use super::*;

fn event(number: usize, message: &str) -> Event {
    let mut wire = v1::Event::default();
    wire.metadata.name = Some(format!("web.{number}"));
    wire.metadata.namespace = Some("default".to_owned());
    wire.involved_object.name = Some("web".to_owned());
    wire.message = Some(message.to_owned());
    wire.action = Some("Restarting".to_owned());
    wire.related = Some(wire.involved_object.clone());
    Event::from_wire(wire)
}

fn open(folder: &Path) -> Log {
    Log::open(&SpillOptions::new(folder).bytes_max(1 << 20)).unwrap()
}

fn names(kept: &[Kept]) -> Vec<String> {
    kept.iter()
        .map(|kept| kept.event.name().into_owned())
        .collect()
}

fn read_all(log: &mut Log) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let kept = log.read_next(7, 1 << 20).kept;
        if kept.is_empty() {
            return all;
        }
        all.extend(names(&kept));
    }
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count() - 1
}

#[test]
fn what_is_not_done_is_found_again_in_order_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    let kept = log.append((0..20).map(|number| event(number, "m")).collect());
    let places: Vec<u64> = kept.iter().filter_map(|kept| kept.sequence).collect();
    assert_eq!(places, (0..20).collect::<Vec<_>>());
    log.mark_done(&[0, 3, 19]);
    assert_eq!(
        Log::open(&SpillOptions::new(folder.path())).err(),
        Some(SpillError::InUse {
            folder: folder.path().to_owned()
        })
    );
    drop(log);
    let mut log = open(folder.path());
    let expected: Vec<String> = (0..20)
        .filter(|number| ![0, 3, 19].contains(number))
        .map(|number| format!("web.{number}"))
        .collect();
    let first = log.read_next(1, 1 << 20).kept;
    let (read, whole) = (&first[0].event, event(1, "m"));
    assert!(first[0].recovered);
    assert_eq!(read.to_wire(), whole.to_wire());
    assert_eq!([names(&first), read_all(&mut log)].concat(), expected);
    // Later events have later sequence numbers, and are not recovered ones.
    let later = log.append(vec![event(20, "m")]);
    assert_eq!((later[0].sequence, later[0].recovered), (Some(20), false));
    assert_eq!(read_all(&mut log), ["web.20"]);
    assert_eq!(log.unsettled(), 18);
    log.mark_done(&(0..=20).collect::<Vec<_>>());
    assert_eq!(
        (log.unsettled(), files(folder.path())),
        (0, 2),
        "the one appended to, and its marks"
    );
}

#[test]
fn the_bound_holds_and_what_is_done_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    let long = "x".repeat(10_000);
    let (mut places, mut refused) = (Vec::new(), 0);
    for number in 0..200 {
        match log.append(vec![event(number, &long)])[0].sequence {
            Some(place) => places.push(place),
            None => refused += 1,
        }
        assert!(log.bytes() <= 1 << 20);
    }
    assert!(refused > 90 && places.len() > 90, "{refused} refused");
    assert_eq!(log.unsettled(), places.len());
    assert!(files(folder.path()) >= 8);
    // Each file is removed when the last of its events is done, even if an earlier file remains.
    log.mark_done(&places[1..]);
    assert!(files(folder.path()) <= 4, "{} files", files(folder.path()));
    assert!(log.append(vec![event(1, &long)])[0].sequence.is_some());
    assert!(SpillOptions::new("x").bytes_max(7).validate().is_err());
}

/// Without its marks, the file's events would be delivered again.
#[test]
fn a_file_that_cannot_be_removed_keeps_its_marks() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    log.append(vec![event(0, "m"), event(1, "m")]);
    let file = only_file(folder.path());
    let bytes = fs::read(&file).unwrap();
    log.start_over();
    log.append(vec![event(2, "m")]);
    let used = log.bytes();
    // A folder with the file's name cannot be removed as a file.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    log.mark_done(&[0, 1]);
    assert_eq!((log.unsettled(), log.bytes()), (1, used));
    drop(log);
    fs::remove_dir(&file).unwrap();
    fs::write(&file, bytes).unwrap();
    let mut log = open(folder.path());
    assert_eq!(read_all(&mut log), ["web.2"]);
    assert!(!file.exists());
}

/// The only file of events in the folder.
fn only_file(folder: &Path) -> std::path::PathBuf {
    let paths = fs::read_dir(folder).unwrap();
    let mut paths = paths.map(|entry| entry.unwrap().path());
    let is_events = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "events");
    paths.find(is_events).unwrap()
}

/// An event without room on disk waits behind the events there, and later events wait behind it. If
/// there is room again before its turn, it is written to disk after all.
#[tokio::test]
async fn what_finds_no_room_on_disk_overtakes_nothing() {
    for makes_room in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(
            SpillOptions::new(folder.path()).bytes_max(1 << 20),
            &"test".into(),
        );
        spill.open().unwrap();
        let long = "x".repeat(100_000);
        let messages = |range: std::ops::Range<usize>| range.map(|number| event(number, &long));
        // The last event of the second batch would fit where the large one did not.
        assert!(
            spill
                .append(messages(0..6).collect(), false)
                .await
                .is_empty()
        );
        let mut batch: Vec<Event> = messages(6..14).collect();
        batch.push(event(14, "short"));
        assert!(spill.append(batch, false).await.is_empty());
        assert!(spill.holds() && spill.is_behind());
        let held = spill.held.len();
        assert!((2..9).contains(&held), "{held}");

        let (mut read, mut on_disk) = (Vec::new(), 0);
        while spill.is_behind() {
            let kept = spill.read(Monotonic::ZERO, 2, 1 << 20).await;
            let places: Vec<u64> = kept.iter().filter_map(|kept| kept.sequence).collect();
            on_disk += places.len();
            read.extend(names(&kept));
            if makes_room {
                spill.settled(places);
                spill.mark().await;
                spill.append_held().await;
            }
        }
        let expected: Vec<String> = (0..15).map(|number| format!("web.{number}")).collect();
        assert_eq!(read, expected);
        assert_eq!(on_disk == 15, makes_room, "{on_disk} were on disk");
        assert!(!spill.holds());
    }
}

/// A batch is encoded and written in parts, and files stay small, however large the batch is.
#[test]
fn a_long_batch_is_written_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::open(&SpillOptions::new(folder.path()).bytes_max(1 << 30)).unwrap();
    let long = "x".repeat(100_000);
    let kept = log.append((0..300).map(|number| event(number, &long)).collect());
    assert!(kept.iter().all(|kept| kept.sequence.is_some()));
    let lengths = fs::read_dir(folder.path()).unwrap();
    let lengths: Vec<u64> = lengths
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    let longest = lengths.iter().max().copied().unwrap_or_default();
    assert!(longest < 10 << 20, "a file of {longest} bytes");
    assert_eq!(read_all(&mut log).len(), 300);
    // An event that is too large for any server is kept in memory only, and has no other effect.
    let kept = log.append(vec![event(300, &"x".repeat(5 << 20))]);
    assert_eq!(kept[0].sequence, None);
    let mut part = Vec::new();
    assert!(!record::write(&mut part, 0, &event(0, &long), 50_000));
    assert!(part.is_empty() && part.capacity() <= 100_000);
}

/// With `sync`, a new file is in its synced folder before anything relies on it, and a removed one
/// is gone, so that nothing is lost if the machine dies.
#[test]
fn a_folder_is_synced_when_its_files_change() {
    let parent = tempfile::tempdir().unwrap();
    for sync in [true, false] {
        let folder = parent.path().join(format!("a/{sync}/b"));
        let options = SpillOptions::new(folder).bytes_max(1 << 20).sync(sync);
        let mut log = Log::open(&options).unwrap();
        let long = "x".repeat(100_000);
        let mut syncs = Vec::new();
        let mut places = Vec::new();
        for number in 0..3 {
            let kept = log.append(vec![event(number, &long)]);
            places.extend(kept.iter().filter_map(|kept| kept.sequence));
            syncs.push(log.folder_syncs);
        }
        log.mark_done(&places);
        syncs.push(log.folder_syncs);
        let expected = if sync { [1, 1, 2, 3] } else { [0; 4] };
        assert_eq!(syncs, expected, "for each new file, and for one that goes");
    }
}

#[tokio::test]
async fn a_disk_that_gives_no_answer_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(SpillOptions::new(folder.path()), &"test".into());
    spill.open().unwrap();
    let events = (0..3).map(|number| event(number, "m")).collect();
    assert!(spill.append(events, false).await.is_empty());
    let path = only_file(folder.path());
    // Reading a folder fails with an error other than the end of a file.
    fs::rename(&path, folder.path().join("away")).unwrap();
    fs::create_dir(&path).unwrap();
    let now = Monotonic::ZERO;
    assert!(spill.read(now, 9, 1 << 20).await.is_empty());
    assert!(spill.is_behind() && !spill.may_read());
    fs::remove_dir(&path).unwrap();
    fs::rename(folder.path().join("away"), &path).unwrap();
    let now = spill.poll_timeout().unwrap();
    spill.handle_timeout(now).await;
    assert!(spill.may_read());
    let read = spill.read(now, 9, 1 << 20).await;
    assert_eq!(names(&read), ["web.0", "web.1", "web.2"]);
    assert_eq!(spill.take_lost(), 0);
}

#[tokio::test]
async fn what_is_damaged_is_counted_and_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = Spill::new(SpillOptions::new(folder.path()), &"test".into());
    spill.open().unwrap();
    let events = (0..4).map(|number| event(number, "m")).collect();
    assert!(spill.append(events, false).await.is_empty());
    let path = only_file(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 + 20;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let read = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(names(&read), ["web.0", "web.1"]);
    assert_eq!(spill.take_lost(), 0);
    let read = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(names(&read), ["web.3"]);
    assert_eq!(spill.take_lost(), 1);
    assert!(spill.read(Monotonic::ZERO, 9, 1 << 20).await.is_empty());
    assert!(!spill.is_behind());
    spill.settled(vec![0, 1, 3]);
    spill.mark().await;
    assert_eq!(spill.log.as_ref().map(|log| log.unsettled()), Some(0));
    // Later events can be read.
    assert!(spill.append(vec![event(4, "m")], false).await.is_empty());
    let read = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(names(&read), ["web.4"]);
}

/// A spill with four events in one file, none of them in memory.
async fn spilled(folder: &Path) -> Spill {
    let mut spill = Spill::new(SpillOptions::new(folder), &"test".into());
    spill.open().unwrap();
    let events = (0..4).map(|number| event(number, "m")).collect();
    assert!(spill.append(events, false).await.is_empty());
    spill
}

#[tokio::test]
async fn a_file_that_is_gone_costs_what_was_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = spilled(folder.path()).await;
    fs::remove_file(only_file(folder.path())).unwrap();
    assert!(spill.read(Monotonic::ZERO, 9, 1 << 20).await.is_empty());
    assert!(!spill.is_behind());
    assert_eq!(spill.take_lost(), 4);
    // Later events are where they are expected.
    assert!(spill.append(vec![event(4, "m")], false).await.is_empty());
    let read = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(names(&read), ["web.4"]);
    drop(spill);
    assert_eq!(read_all(&mut open(folder.path())), ["web.4"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = spilled(folder.path()).await;
    let path = only_file(folder.path());
    let away = folder.path().join("away");
    fs::rename(&path, &away).unwrap();
    fs::create_dir(&path).unwrap();
    let mut now = Monotonic::ZERO;
    for _ in 1..log::READ_TRIES_MAX {
        assert!(spill.read(now, 9, 1 << 20).await.is_empty());
        assert!(spill.is_behind() && !spill.may_read());
        now = spill.poll_timeout().unwrap();
        spill.handle_timeout(now).await;
    }
    assert!(now >= Monotonic::ZERO.saturating_add(Duration::from_secs(50)));
    assert!(spill.read(now, 9, 1 << 20).await.is_empty());
    assert!(!spill.is_behind());
    assert_eq!(spill.take_lost(), 0);
    drop(spill);

    // The next process cannot read it either, and continues without it.
    let mut log = open(folder.path());
    assert_eq!(log.unsettled(), 0);
    log.append(vec![event(4, "m")]);
    assert_eq!(read_all(&mut log), ["web.4"]);
    drop(log);
    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    let mut log = open(folder.path());
    assert_eq!(
        read_all(&mut log),
        ["web.0", "web.1", "web.2", "web.3", "web.4"]
    );
}

#[tokio::test]
async fn what_was_damaged_before_the_start_costs_itself_only() {
    let folder = tempfile::tempdir().unwrap();
    drop(spilled(folder.path()).await);
    let path = only_file(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let second = bytes.len() / 4 + 40;
    bytes[second] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut spill = Spill::new(SpillOptions::new(folder.path()), &"test".into());
    spill.open().unwrap();
    assert_eq!((spill.take_recovered(), spill.take_lost()), (4, 1));
    let mut read = Vec::new();
    while spill.is_behind() {
        read.extend(spill.read(Monotonic::ZERO, 9, 1 << 20).await);
    }
    assert_eq!(names(&read), ["web.0", "web.2", "web.3"]);
    drop(spill);
    // The events are not counted twice.
    let mut log = open(folder.path());
    assert_eq!((log.unsettled(), log.take_damaged().len()), (3, 0));
}

/// The sequence number of the next intact record may be far away; no more events are lost than the
/// file could hold.
#[test]
fn what_is_damaged_is_no_more_than_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = vec![b'x'; 100];
    assert!(record::write(
        &mut bytes,
        u64::MAX >> 1,
        &event(0, "m"),
        usize::MAX
    ));
    fs::write(folder.path().join("0000000000000001.events"), bytes).unwrap();
    let mut log = open(folder.path());
    assert_eq!((log.unsettled(), log.take_damaged().len()), (2, 1));
    drop(log);
    let mut bytes = Vec::new();
    assert!(record::write(&mut bytes, 0, &event(0, "m"), usize::MAX));
    bytes.extend([b'x'; 100]);
    assert!(record::write(
        &mut bytes,
        u64::MAX >> 1,
        &event(1, "m"),
        usize::MAX
    ));
    fs::write(folder.path().join("0000000000000001.events"), bytes).unwrap();
    assert_eq!(open(folder.path()).take_damaged().len(), 100);
}

/// A correct checksum does not prove that a spill wrote the file.
#[test]
fn numbers_that_no_spill_gives_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let highest = u64::MAX >> 1;
    let mut records = Vec::new();
    assert!(record::write(
        &mut records,
        highest,
        &event(0, "m"),
        usize::MAX
    ));
    let file = |number: u64| folder.path().join(format!("{number:016x}.events"));
    for number in [1, u64::MAX] {
        fs::write(file(number), &records).unwrap();
    }
    let mut log = open(folder.path());
    assert_eq!(read_all(&mut log), ["web.0"]);
    // No sequence number is left, so the event is not on disk.
    assert_eq!(log.append(vec![event(1, "m")])[0].sequence, None);
    log.mark_done(&[highest]);
    drop(log);
    assert!(file(u64::MAX).is_file());

    fs::write(file(highest), &records).unwrap();
    let refused = Log::open(&SpillOptions::new(folder.path()));
    assert!(
        matches!(refused.err(), Some(SpillError::Io { message, .. }) if message.contains("numbers"))
    );
}

#[test]
fn an_append_that_failed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    log.append(vec![event(0, "m")]);
    // The file ends as if the disk had been full after the second record.
    let path = only_file(folder.path());
    let whole = fs::read(&path).unwrap();
    let mut second = Vec::new();
    assert!(record::write(&mut second, 1, &event(1, "m"), usize::MAX));
    fs::write(&path, [whole, second].concat()).unwrap();
    log.fail_appends();
    assert_eq!(
        log.append(vec![event(1, "m"), event(2, "m")])[0].sequence,
        None
    );
    log.append(vec![event(3, "m")]);
    drop(log);
    assert_eq!(read_all(&mut open(folder.path())), ["web.0", "web.3"]);
}

#[test]
fn marks_hold_whatever_is_torn_before_them_and_for_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = open(folder.path());
    log.append((0..4).map(|number| event(number, "m")).collect());
    log.mark_done(&[0]);
    let marks = only_file(folder.path()).with_extension("done");
    let torn = [fs::read(&marks).unwrap(), vec![7; 5]].concat();
    fs::write(&marks, torn).unwrap();
    log.mark_done(&[2]);
    drop(log);
    let mut log = open(folder.path());
    assert_eq!(read_all(&mut log), ["web.1", "web.3"]);
    drop(log);
    // The process died between the two removals.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "events") {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(marks.exists());
    let mut log = open(folder.path());
    log.append(vec![event(0, "m")]);
    drop(log);
    assert!(!marks.exists());
    assert_eq!(read_all(&mut open(folder.path())), ["web.0"]);
}

proptest! {
    /// The process is killed between two bytes of a write: all earlier events are found, and the
    /// one being written is not.
    #[test]
    fn a_torn_end_costs_what_was_being_written(events in 1_usize..12, cut in 0_usize..4000, done in prop::collection::btree_set(0_u64..12, 0..6)) {
        let folder = tempfile::tempdir().unwrap();
        let mut log = open(folder.path());
        let mut ends = vec![0];
        for number in 0..events {
            log.append(vec![event(number, &"m".repeat(number * 7))]);
            ends.push(log.bytes());
        }
        let done: Vec<u64> = done.into_iter().filter(|place| *place + 1 < events as u64).collect();
        log.mark_done(&done);
        drop(log);
        let path = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let path = path.filter(|path| path.extension().is_some_and(|extension| extension == "events")).min().unwrap();
        let whole = fs::read(&path).unwrap();
        let keep = whole.len().saturating_sub(cut);
        fs::write(&path, &whole[..keep]).unwrap();
        let mut log = open(folder.path());
        let there = ends.iter().skip(1).filter(|end| **end <= keep as u64).count();
        let done: BTreeSet<String> = done.iter().map(|place| format!("web.{place}")).collect();
        let expected: Vec<String> = (0..there).map(|number| format!("web.{number}")).filter(|name| !done.contains(name)).collect();
        prop_assert_eq!(read_all(&mut log), expected);
        // Later events are appended after the torn end.
        log.append(vec![event(77, "m")]);
        prop_assert_eq!(read_all(&mut log), ["web.77"]);
    }
}

/// A step that panics affects only itself; the spill continues.
#[tokio::test]
async fn the_spill_outlives_a_step_that_panics() {
    let folder = tempfile::tempdir().unwrap();
    let mut spill = spilled(folder.path()).await;
    let done = spill.step(|_| panic!("on purpose")).await;
    assert_eq!(done, None::<()>);
    assert!(spill.append(vec![event(4, "m")], true).await.is_empty());
    let read = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(read.len(), 4, "the first file");
    let rest = spill.read(Monotonic::ZERO, 9, 1 << 20).await;
    assert_eq!(names(&rest), ["web.4"]);
    assert!(rest.iter().all(|kept| kept.sequence.is_some()));
}
