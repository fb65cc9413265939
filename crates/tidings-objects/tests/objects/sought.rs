//! Searches among the newest versions, and an archive whose files cannot be deleted.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tidings_api::codec;
use tidings_objects::{ReadOptions, Reader, SealOptions, newest};
use tidings_store::clock::Clock;
use tidings_store::{ListRequest, NewestRequest, PAGE_BYTES_MAX, Record};

use super::history::History;
use super::reading::{id, judged, latest_records, listed, observe, read, seal};
use super::storage::Storage;
use super::world::World;

/// A search for something rare or missing is divided into pages, each of which reads a bounded
/// number of row groups.
#[tokio::test]
async fn texts_are_looked_for_in_what_people_read() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        let mut history = History::new(11);
        history.noise = 400;
        // Now there are seven files of one part, and seven of eight parts.
        for _ in 0..63 {
            observe(&mut world, &mut history, 8).await;
            seal(&world, &place).await;
        }
        assert_eq!(newest(&place, "prod").await.unwrap().files.len(), 14);
        let mut options = ReadOptions::default();
        options.page_row_groups = 1;
        let reader = Reader::new(place.clone(), options);
        let sealed = reader.open("prod").await.unwrap();
        let store = &*sealed.store();
        let has = |record: &Record, text: &str| {
            let event = codec::decode_stored(&record.value, 0).unwrap();
            let object = event.involved_object.unwrap_or_default();
            let object = format!("{}/{}", object.kind.unwrap(), object.name.unwrap());
            let source = event.source.unwrap_or_default().component;
            let fields = [event.message, event.reason, source, Some(object)];
            let mut fields = fields.into_iter().flatten();
            fields.any(|field| field.to_lowercase().contains(text))
        };
        let all = latest_records(store, &NewestRequest::default(), 500)
            .await
            .0;
        for (texts, are_some) in [
            (vec!["nowhere"], false),
            (vec!["ab"], true),
            (vec!["a", "cd"], true),
            (vec!["", "m"], true),
        ] {
            let asked = NewestRequest {
                texts: texts.iter().map(|text| (*text).to_owned()).collect(),
                ..NewestRequest::default()
            };
            let has = |it: &&Record| texts.iter().all(|text| has(it, text));
            let expected: Vec<_> = all.iter().filter(has).map(id).collect();
            assert_eq!(!expected.is_empty(), are_some, "{texts:?}");
            for limit in [3, 500] {
                let (found, pages) = latest_records(store, &asked, limit).await;
                let found: Vec<_> = found.iter().map(id).collect();
                assert_eq!(found, expected, "{texts:?} {limit}");
                assert!(pages > 1, "{texts:?}");
            }
        }
    }
}

/// A newer file has an event of the same name in another namespace, and no event of the object. A
/// search for the object reads only that file's filters.
#[tokio::test]
async fn newer_files_without_the_object_are_not_looked_into() {
    const EVENTS: usize = 3;
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(16);
        history.noise = 400;
        for (namespace, object) in [("a", "lone"), ("b", "other")] {
            let mut versions: Vec<_> = std::iter::repeat_with(|| history.next())
                .take(1200)
                .collect();
            for number in 0..EVENTS {
                let mut version = history.next();
                let (name, object) = (format!("lone.{number}"), format!("{object}-{number}"));
                version["namespace"] = json!(namespace);
                version["name"] = json!(name);
                let event = &mut version["event"];
                event["metadata"]["namespace"] = json!(namespace);
                event["metadata"]["name"] = json!(name);
                event["metadata"]["uid"] = json!(format!("uid-of-{object}"));
                event["involvedObject"]["namespace"] = json!(namespace);
                event["involvedObject"]["kind"] = json!("Node");
                event["involvedObject"]["name"] = json!(object);
                event["message"] = json!(format!("about {object}"));
                versions.push(version);
            }
            world.clock.advance(history.time + 1 - world.clock.now().0);
            world.import(&versions).await;
            seal(&world, &place).await;
        }
        let manifest = newest(&place, "prod").await.unwrap();
        assert!(manifest.files.iter().all(|file| file.bytes > 256 << 10));
        let mut asked = Vec::new();
        for number in 0..EVENTS {
            let sealed = read(&place).await;
            let request = NewestRequest {
                texts: vec![format!("about lone-{number}")],
                limit: 50,
                ..NewestRequest::default()
            };
            store.asked();
            let page = sealed.store().newest(request).await.unwrap();
            assert_eq!((page.records.len(), page.more), (1, false));
            asked.push(store.asked());
        }
        // The ends of both files, their texts and times, keys, objects and bytes of the event, and
        // the filters of both. A filter may wrongly report a name.
        assert_eq!(asked.iter().min(), Some(&9), "{asked:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_deleted_keeps_nothing_from_being_sealed() {
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(12);
        let options = || {
            let mut options = SealOptions::default();
            options.keep_for = Some(Duration::from_secs(3600));
            options.grace = Duration::ZERO;
            options
        };
        observe(&mut world, &mut history, 5).await;
        world.seal(&place, options()).await.unwrap();
        history.time += 2 * 3_600_000;
        observe(&mut world, &mut history, 5).await;
        store.keeps.store(true, Ordering::Relaxed);
        let sealed = world.seal(&place, options()).await.unwrap();
        assert_eq!((sealed.versions, sealed.deleted), (5, 0));
        // The removed files are not part of the archive any more, but are still to be deleted.
        let manifest = newest(&place, "prod").await.unwrap();
        assert_eq!((manifest.files.len(), manifest.rows()), (1, 5));
        assert!(!manifest.removed.is_empty());
        store.keeps.store(false, Ordering::Relaxed);
        let sealed = world.seal(&place, options()).await.unwrap();
        assert!(sealed.deleted >= 1, "{sealed:?}");
        assert!(newest(&place, "prod").await.unwrap().removed.is_empty());
    }
}

/// An event's name was used again by another event. Then another version of the first event was
/// observed, under the name that it has had since.
#[tokio::test]
async fn an_elder_event_is_found_once_under_either_name() {
    for (storage, taker) in Storage::each().into_iter().zip(["x-1", "x-2"]) {
        let place = storage.place();
        let mut world = World::new();
        let mut history = History::new(14);
        let first = history.next();
        let name = first["name"].as_str().unwrap().to_owned();
        let elder = format!("{name}.0a1b2c3d");
        for (number, uid, name, object) in [
            (100, "0a1b2c3d-1", &name, "x-1"),
            (200, "4e5f6a7b-2", &name, taker),
            (101, "0a1b2c3d-1", &elder, "x-1"),
        ] {
            let mut version = first.clone();
            version["event"]["involvedObject"]["name"] = json!(object);
            version["name"] = json!(name);
            version["event"]["metadata"]["name"] = json!(name);
            version["event"]["metadata"]["uid"] = json!(uid);
            version["event"]["metadata"]["resourceVersion"] = json!(number.to_string());
            version["event"]["count"] = json!(number);
            world.clock.advance(10_000);
            world.import(&[version]).await;
            seal(&world, &place).await;
        }
        let sealed = read(&place).await;
        let cold = sealed.store();
        let newest = latest_records(&*cold, &NewestRequest::default(), 5).await.0;
        let list = listed(&*cold, &ListRequest::default(), 5).await;
        let shown = |record: &Record| {
            let count = codec::decode_stored(&record.value, 0).unwrap().count;
            (count.unwrap(), id(record).1)
        };
        // If the new event is about another object, the search by object shows the older event
        // under its name at the source.
        let elder = if taker == "x-1" { &elder } else { &name };
        for records in [newest, list] {
            let mut shown: Vec<_> = records.iter().map(shown).collect();
            shown.sort();
            assert_eq!(shown, [(101, elder.clone()), (200, name.clone())]);
        }
    }
}

/// Each event may have megabytes, and all events of a page are in memory at once.
#[tokio::test]
async fn a_page_of_large_events_has_few_of_them() {
    const BYTES: usize = 512 << 10;
    const EVENTS: usize = 60;
    let storage = Storage::each().into_iter().next().unwrap();
    let place = storage.place();
    let mut world = World::new();
    let mut history = History::new(15);
    let mut random = fastrand::Rng::with_seed(15);
    let large = std::iter::repeat_with(|| {
        let mut version = history.next();
        let note: String = std::iter::repeat_with(|| random.alphanumeric())
            .take(BYTES)
            .collect();
        version["event"]["metadata"]["annotations"] = json!({ "note": note });
        version
    });
    let large: Vec<_> = large.take(EVENTS).collect();
    world.clock.advance(10_000);
    world.import(&large).await;
    seal(&world, &place).await;
    let sealed = read(&place).await;
    let cold = sealed.store();
    let mut request = NewestRequest {
        limit: EVENTS,
        ..NewestRequest::default()
    };
    let mut found = 0;
    loop {
        let page = cold.newest(request.clone()).await.unwrap();
        let bytes: usize = page.records.iter().map(|record| record.value.len()).sum();
        assert!(bytes <= PAGE_BYTES_MAX + 2 * BYTES, "{bytes}");
        found += page.records.len();
        if !page.more {
            break;
        }
        request.after = page.place;
    }
    let uids: BTreeSet<_> = large
        .iter()
        .map(|version| version["event"]["metadata"]["uid"].as_str())
        .collect();
    assert!(uids.len() * BYTES > 2 * PAGE_BYTES_MAX);
    assert_eq!(found, uids.len());
}

/// The archive's clock went back between two versions that it observed.
#[tokio::test]
async fn the_newest_version_is_the_sources() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        let mut history = History::new(13);
        let mut version = history.next();
        for (number, seconds) in [(100, 5), (101, 3), (102, 4)] {
            let time = Timestamp::from_millisecond(history.time + seconds * 1000).unwrap();
            version["observedAt"] = json!(time.to_string());
            version["event"]["metadata"]["resourceVersion"] = json!(number.to_string());
            version["event"]["count"] = json!(number);
            world.clock.advance(10_000);
            world.import(std::slice::from_ref(&version)).await;
            seal(&world, &place).await;
        }
        let sealed = read(&place).await;
        let cold = sealed.store();
        let (namespace, name) = (&version["namespace"], &version["name"]);
        let key = format!("{}/{}", namespace.as_str().unwrap(), name.as_str().unwrap());
        let found = cold.get(key.into()).await.unwrap().unwrap();
        let newest = latest_records(&*cold, &NewestRequest::default(), 5).await.0;
        let list = listed(&*cold, &ListRequest::default(), 5).await;
        let count = |record: &Record| codec::decode_stored(&record.value, 0).unwrap().count;
        for records in [vec![found], newest, list] {
            let counts: Vec<_> = records.iter().map(count).collect();
            assert_eq!(counts, [Some(102)]);
        }
    }
}
