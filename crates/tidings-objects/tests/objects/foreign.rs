//! Objects that others put into a bucket. Names that no archive uses are ignored. A newest manifest
//! that cannot be read stops the writer but not a reader, which never shows a deleted event.

use std::time::Duration;

use bytes::Bytes;
use tidings_objects::{LookError, ReadOptions, Reader, SealOptions, check, newest};

use super::reading::read;
use super::storage::{Storage, put};
use super::world::{World, long_after};

const NAME: &[u8] = b"shop/web-5.3";
const KEY: Bytes = Bytes::from_static(NAME);
pub(crate) const FOREIGN: [&str; 8] = [
    "prod.bak/manifests/00000000000000000001.json",
    "lost+found/manifests/00000000000000000001.json",
    "prod/manifests/999.json",
    "prod/manifests/18446744073709551615.json",
    "prod/manifests/00000274877906944000.json",
    "prod/manifests/old/00000000000000000099.json",
    "prod/events/notes.txt",
    "prod/rollups/copy.parquet",
];

fn manifest(number: u64) -> String {
    format!("prod/manifests/{number:020}.json")
}

#[tokio::test]
async fn names_that_no_archive_gives_are_left_out() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        world.observe(91).await;
        let mut options = SealOptions::default();
        options.grace = Duration::ZERO;
        world.seal(&place, options).await.unwrap();
        for name in FOREIGN {
            let file = storage.file(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            put(&file, Some(b"{}"));
        }
        let sealed = read(&storage.place()).await;
        assert_eq!(sealed.coverage().totals.unwrap().events, 91);
        // One reader was open before, and one is new.
        world.observe(9).await;
        world.seal(&place, options).await.unwrap();
        sealed.look().await.unwrap();
        assert_eq!(sealed.coverage().totals.unwrap().events, 100);
        world.clock = long_after();
        let place = storage.place();
        world.seal(&place, options).await.unwrap();
        let checked = check(&place, "prod").await.unwrap();
        assert_eq!((checked.rows, checked.leavings), (100, 0));
        for name in FOREIGN {
            assert!(storage.file(name).is_file(), "{name} was deleted");
        }
    }
}

#[tokio::test]
async fn the_manifest_before_stands_in_for_one_that_cannot_be_read() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    for _ in 0..3 {
        world.observe(10).await;
        world.seal(&place, SealOptions::default()).await.unwrap();
    }
    let sealed = read(&place).await;
    let newest_one = newest(&place, "prod").await.unwrap().number;
    let file = storage.file(&manifest(newest_one));
    let whole = std::fs::read(&file).unwrap();
    for damaged in [&b""[..], b"{", &whole[..whole.len() / 2], b"\xff"] {
        put(&file, Some(damaged));
        let new = read(&place).await;
        assert_eq!(new.coverage().totals.unwrap().events, 20);
        let failure = new.failure().unwrap();
        assert!(failure.contains(&manifest(newest_one)), "{failure}");
        // A reader that knows the newest manifest still shows it.
        sealed.look().await.unwrap();
        assert_eq!(sealed.coverage().totals.unwrap().events, 30);
        assert_eq!(sealed.failure(), Some(failure));
        // The writer does not continue after the manifest before it.
        let refused = world.seal(&place, SealOptions::default()).await;
        assert!(refused.is_err(), "{refused:?}");
        assert!(newest(&place, "prod").await.is_err());
    }
    // Two manifests in a row cannot be read, and the second could have removed deleted events.
    put(&storage.file(&manifest(newest_one + 1)), Some(b"{"));
    let reader = Reader::new(place.clone(), ReadOptions::default());
    assert!(reader.open("prod").await.is_err());
    put(&storage.file(&manifest(newest_one + 1)), None);
    put(&file, Some(&whole));
    sealed.look().await.unwrap();
    assert_eq!(sealed.failure(), None);
    world.observe(1).await;
    world.seal(&place, SealOptions::default()).await.unwrap();
    assert_eq!(read(&place).await.coverage().totals.unwrap().events, 31);
}

#[tokio::test]
async fn no_reader_goes_back_to_before_an_event_was_deleted() {
    let storage = Storage::folder();
    let mut world = World::new();
    for _ in 0..2 {
        world.observe(91).await;
        world
            .seal(&storage.place(), SealOptions::default())
            .await
            .unwrap();
    }
    let before = newest(&storage.place(), "prod").await.unwrap();
    assert_eq!(before.purging, Some(false));
    world.delete(NAME).await;
    world
        .seal(&storage.place(), SealOptions::default())
        .await
        .unwrap();
    let after = newest(&storage.place(), "prod").await.unwrap();
    assert_eq!((after.purging, after.forgotten), (Some(false), 2));
    // Three manifests were written: the announcement of the deletion, the removal from two files,
    // and its completion.
    assert_eq!(after.number, before.number + 3);
    let announced = std::fs::read(storage.file(&manifest(before.number + 1))).unwrap();
    for from in before.number + 1..=after.number {
        let storage = storage.copy();
        for number in from..=after.number {
            put(&storage.file(&manifest(number)), Some(b"{"));
        }
        let reader = Reader::new(storage.place(), ReadOptions::default());
        if let Ok(sealed) = reader.open("prod").await {
            let found = sealed.versions(&KEY, None, 9).await.unwrap();
            assert!(found.is_none(), "shown again without {from}");
        }
    }
    // A reader that shows the announcing manifest stops answering when the next one cannot be read.
    for number in before.number + 2..=after.number {
        put(&storage.file(&manifest(number)), None);
    }
    let sealed = read(&storage.place()).await;
    assert!(sealed.versions(&KEY, None, 9).await.unwrap().is_some());
    put(&storage.file(&manifest(before.number + 2)), Some(b"{"));
    let looked = sealed.look().await;
    assert!(
        matches!(looked, Err(LookError::Unreadable(_))),
        "{looked:?}"
    );
    assert!(sealed.versions(&KEY, None, 9).await.is_err());
    // So does a reader that shows the one before it, and finds it before one that cannot be read.
    for number in before.number + 1..=before.number + 2 {
        put(&storage.file(&manifest(number)), None);
    }
    let sealed = read(&storage.place()).await;
    assert!(sealed.versions(&KEY, None, 9).await.unwrap().is_some());
    for (number, behind) in [(1, &announced[..]), (2, b"{")] {
        put(
            &storage.file(&manifest(before.number + number)),
            Some(behind),
        );
    }
    assert!(sealed.look().await.is_err());
    assert!(sealed.versions(&KEY, None, 9).await.is_err());
    // This also holds with two unreadable manifests, of which the second could be anything.
    put(&storage.file(&manifest(before.number + 1)), Some(b"{"));
    assert!(sealed.look().await.is_err());
    assert!(sealed.versions(&KEY, None, 9).await.is_err());
    // A single unreadable manifest after the shown one can at most be the announcement.
    put(&storage.file(&manifest(before.number + 2)), None);
    sealed.look().await.unwrap();
    assert!(sealed.versions(&KEY, None, 9).await.unwrap().is_some());
}

#[tokio::test]
async fn many_objects_that_are_called_as_manifests_stop_no_reader() {
    let storage = Storage::folder();
    let mut world = World::new();
    world.observe(10).await;
    world
        .seal(&storage.place(), SealOptions::default())
        .await
        .unwrap();
    for number in 1000..1020 {
        put(&storage.file(&manifest(number)), Some(b"{"));
    }
    assert_eq!(
        read(&storage.place())
            .await
            .coverage()
            .totals
            .unwrap()
            .events,
        10
    );
}

/// Otherwise a copy of a folder under another name would be served as the cluster of that name.
#[tokio::test]
async fn a_manifest_of_another_cluster_is_refused() {
    let storage = Storage::folder();
    let mut world = World::new();
    world.observe(10).await;
    world
        .seal(&storage.place(), SealOptions::default())
        .await
        .unwrap();
    let bytes = std::fs::read(storage.file(&manifest(1))).unwrap();
    let copy = storage.file(&manifest(1).replace("prod", "staging"));
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    put(&copy, Some(&bytes));
    let reader = Reader::new(storage.place(), ReadOptions::default());
    let refused = reader
        .open("staging")
        .await
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("\"prod\", expected \"staging\""),
        "{refused}"
    );
    assert!(newest(&storage.place(), "staging").await.is_err());
}
