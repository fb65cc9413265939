//! The content of an event is chosen by its author. It must not make requests about other events
//! expensive, or hide them.

use std::sync::Arc;

use jiff::Timestamp;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use tidings_api::codec;
use tidings_history::Version;
use tidings_objects::{
    Filler, Place, ReadOptions, Reader, SealOptions, SealedCluster, check, newest,
};
use tidings_store::clock::Clock;
use tidings_store::{CountsRequest, ListRequest, NewestRequest, ObjectSelector, UnixMillis};

use super::reading::{id, judged, listed, read};
use super::storage::Storage;
use super::world::World;

/// A version of an event in the form of an export.
fn version(world: &World, number: usize, uid: &str, about: &Value) -> Value {
    let at = Timestamp::from_millisecond(world.clock.now().0).unwrap();
    let name = format!("event-{number:03}");
    json!({
        "kind": "Version", "namespace": "default", "name": name, "epoch": 0,
        "observedAt": at.to_string(),
        "event": {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "namespace": "default", "name": name, "uid": uid,
                "resourceVersion": (number + 1).to_string(),
            },
            "involvedObject": about, "reason": "Created", "type": "Normal",
            "lastTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
    })
}

/// Events about a node are in the namespace `default`, while the node itself has no namespace. A
/// page of selected events may have none of the first names.
#[tokio::test]
async fn a_list_passes_over_no_event_behind_those_that_are_not_selected() {
    let storage = Storage::folder();
    let mut world = World::new();
    world.clock.advance(60_000);
    let versions = (0..40).map(|number| {
        let namespace = if number < 33 { "" } else { "default" };
        let node = json!({"kind": "Node", "name": "n1", "namespace": namespace});
        version(&world, number, &format!("uid-{number}"), &node)
    });
    let mut versions: Vec<Value> = versions.collect();
    let other = json!({"kind": "Node", "name": "n2", "namespace": "default"});
    versions.push(version(&world, 40, "uid-40", &other));
    world.import(&versions).await;
    world
        .seal(&storage.place(), SealOptions::default())
        .await
        .unwrap();
    let store = read(&storage.place()).await.store();
    let object = ObjectSelector::Name {
        name: "n1".into(),
        kind: None,
        namespace: Some("default".into()),
    };
    let request = ListRequest::default().object(object);
    let expected: Vec<_> = (33..40)
        .map(|number| format!("event-{number:03}"))
        .collect();
    for limit in [1, 2, 6, 7, 8, 500] {
        let all = listed(&*store, &request, limit).await;
        let names: Vec<String> = all.iter().map(|record| id(record).1).collect();
        assert_eq!(names, expected, "pages of {limit}");
    }
}

/// A version of an event whose last time is `last_seen`, observed some hours after the first ones.
fn filled(number: u64, hours: u64, last_seen: i64) -> Version {
    let mut version = Filler::sample(number);
    version.observed_at.0 += i64::try_from(hours).unwrap() * 3_600_000;
    let mut event = codec::decode_stored(&version.event, 0).unwrap();
    event.last_timestamp.as_mut().unwrap().seconds = Some(last_seen / 1000);
    version.event = codec::encode_stored(&mut event);
    version
}

/// An archive in which each file has one event with a time in a far year.
#[tokio::test]
async fn events_of_a_far_year_do_not_have_all_files_read() {
    const FILES: u64 = 40;
    const FAR: i64 = 32_503_680_000_000;
    let storage = Storage::folder();
    let (place, asked) = judged(&storage);
    let mut filler = Filler::new(&place, "prod");
    let mut latest = 0;
    for file in 0..FILES {
        let hours = 3 * file;
        latest = Filler::sample(0).observed_at.0 + i64::try_from(hours).unwrap() * 3_600_000;
        let versions = (0..9).map(|number| {
            let seen = if number == 4 {
                FAR
            } else {
                latest + 1000 * number
            };
            filled(file * 10 + number.unsigned_abs(), hours, seen)
        });
        filler.add(0, versions.collect()).await.unwrap();
    }
    filler.finish(Timestamp::UNIX_EPOCH).await.unwrap();
    let sealed = read(&place).await;
    let store = sealed.store();
    let mut request = NewestRequest {
        until: Some(UnixMillis(latest + 60_000)),
        limit: 3,
        ..NewestRequest::default()
    };
    asked.asked();
    let page = store.newest(request.clone()).await.unwrap();
    assert_eq!(page.records.len(), 3);
    // The request reads the latest file, and a few others at the same time.
    let requests = asked.asked();
    assert!(requests <= 8, "{requests} requests");
    // All events are found, each event of a far year near the time at which it was observed.
    request.until = None;
    request.limit = 7;
    let (mut found, mut of_far_years) = (0, 0);
    let mut before = i64::MAX;
    loop {
        let page = store.newest(request.clone()).await.unwrap();
        for record in &page.records {
            let event = codec::decode_stored(&record.value, 0).unwrap();
            let seen = event.last_timestamp.unwrap().seconds.unwrap() * 1000;
            found += 1;
            if seen == FAR {
                of_far_years += 1;
                continue;
            }
            assert!(seen <= before, "{seen} behind {before}");
            before = seen;
        }
        request.after = page.place;
        if !page.more {
            break;
        }
    }
    assert_eq!((found, of_far_years), (9 * FILES, FILES));
}

async fn archive(versions: Vec<Vec<Version>>) -> (Place, SealedCluster) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let place = Place::of(store, "memory:");
    let mut filler = Filler::new(&place, "prod");
    for versions in versions {
        filler.add(0, versions).await.unwrap();
    }
    filler.finish(Timestamp::UNIX_EPOCH).await.unwrap();
    let sealed = read(&place).await;
    (place, sealed)
}

/// It does not matter whether the counts come from rollups or rows, nor how many are on a page.
#[tokio::test]
async fn counts_have_the_beginnings_of_long_reasons() {
    let version = |number: u64| {
        let mut version = Filler::sample(number);
        let mut event = codec::decode_stored(&version.event, 0).unwrap();
        let end = number % 3;
        event.reason = Some(format!("{}{}{end}", number % 2, "r".repeat(1 << 20)));
        version.event = codec::encode_stored(&mut event);
        version
    };
    let (place, sealed) = archive(vec![(0..6).map(version).collect()]).await;
    let manifest = newest(&place, "prod").await.unwrap();
    let rollup = manifest.files[0].rollup.as_ref().unwrap();
    let store = sealed.store();
    let all = |limit| CountsRequest {
        limit,
        ..CountsRequest::default()
    };
    let by_rollup = store.counts(all(10)).await.unwrap();
    let lengths = by_rollup.counts.iter();
    let lengths: Vec<_> = lengths.map(|it| (it.reason.len(), it.records)).collect();
    assert_eq!(lengths, [(512, 3), (512, 3)]);
    let mut first = store.counts(all(1)).await.unwrap();
    assert!(first.more);
    assert_eq!(first.counts.remove(0), by_rollup.counts[0]);
    assert_eq!(check(&place, "prod").await.unwrap().problems, [""; 0]);
    let path = format!("prod/{}", rollup.path);
    let objects = super::storage::store_of(place.clone());
    let gone = object_store::ObjectStoreExt::delete(&*objects, &path.as_str().into()).await;
    gone.unwrap();
    let by_rows = read(&place).await.store().counts(all(10)).await.unwrap();
    assert_eq!(by_rows.counts, by_rollup.counts);
}

/// Imported events may have no uid.
#[tokio::test]
async fn versions_that_differ_by_the_name_of_their_event_are_told_apart() {
    let version = |name: &str| {
        let mut version = Filler::sample(7);
        let mut event = codec::decode_stored(&version.event, 0).unwrap();
        let metadata = event.metadata.as_mut().unwrap();
        (metadata.name, metadata.uid) = (Some(name.to_owned()), None);
        version.event = codec::encode_stored(&mut event);
        version
    };
    let (place, sealed) = archive(vec![["b", "c", "a"].map(version).to_vec()]).await;
    let checked = check(&place, "prod").await.unwrap();
    assert_eq!(checked.problems, [""; 0]);
    assert_eq!(checked.rows, 3);
    let all = listed(&*sealed.store(), &ListRequest::default(), 2).await;
    let names: Vec<String> = all.iter().map(|record| id(record).1).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

/// A read may need more than the cache holds. Then it is read again.
#[tokio::test]
async fn lists_of_many_files_are_the_same_without_a_cache() {
    let files = (0..12).map(|file| {
        let versions = (0..40).map(|number| Filler::sample(file * 40 + number));
        versions.collect()
    });
    let (place, sealed) = archive(files.collect()).await;
    let mut options = ReadOptions::default();
    options.cache_bytes = 1;
    let without = Reader::new(place, options).open("prod").await.unwrap();
    for request in [
        ListRequest::default(),
        ListRequest::prefix("shop-1/"),
        ListRequest::default().object(ObjectSelector::Name {
            name: "web-3".into(),
            kind: None,
            namespace: None,
        }),
    ] {
        let with = listed(&*sealed.store(), &request, 500).await;
        assert!(with.len() > 50, "{}", with.len());
        assert_eq!(listed(&*without.store(), &request, 30).await, with);
    }
}
