//! Answers have the numbers of their store, and numbers of another store are refused.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{
    CountsRequest, ListRequest, NewestRequest, PAGE_BYTES_MAX, Place, ReadError, Store, UnixMillis,
    WatchError, WriteError,
};

use super::ranges::Numbers;
use super::store::ServedStore;
use crate::keep::coverage::Position;
use crate::keep::versions::{Keeper, Observation, With};

const NOW: i64 = 1_700_000_000_000;

/// Opens a store in which these events were observed, one after the other.
async fn served(folder: &Path, identity: &str, names: &[&str]) -> ServedStore {
    let clock = ManualClock::at(UnixMillis(NOW));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    let store = EmbeddedStore::open(folder, options).unwrap();
    let keep_for = Arc::new(|_: &Event| Duration::from_secs(3600));
    let keeper = Keeper::new(Arc::new(store), Arc::new(clock), keep_for, false);
    let store = ServedStore {
        keeper: Arc::new(keeper),
        numbers: Numbers::of(identity),
    };
    for name in names {
        observe(&store, name, "").await;
    }
    store
}

async fn observe(store: &ServedStore, name: &str, message: &str) {
    let event = Event {
        metadata: Some(ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some(format!("uid-{name}")),
            ..ObjectMeta::default()
        }),
        message: Some(message.to_owned()),
        last_timestamp: Some(Time {
            seconds: Some(NOW / 1000),
            nanos: None,
        }),
        ..Event::default()
    };
    let observation = Observation {
        event,
        number: 7,
        is_gone: false,
    };
    let mut position = Position::default();
    let (keeper, observed) = (&store.keeper, [observation]);
    let kept = keeper.keep(&observed, "", &mut position, With::default());
    kept.await.unwrap();
}

#[tokio::test]
async fn everything_served_has_the_numbers_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = served(folder.path(), "one", &["a", "b", "c"]).await;
    let page = store.list(ListRequest::default()).await.unwrap();
    let numbers: Vec<_> = page.records.iter().map(|it| it.revision).collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.is_sorted() && numbers[2] <= page.revision);
    assert_eq!(page.revision, store.revision());
    for record in &page.records {
        assert!(store.is_own(record.revision) && record.revision >> 62 == 1);
        let kept = store.keeper.store.get(record.key.clone()).await;
        let kept = kept.unwrap().unwrap().revision;
        assert_eq!(store.numbers.revision(record.revision), Some(kept));
        let found = store.get(record.key.clone()).await.unwrap();
        assert_eq!(found.as_ref(), Some(record));
    }

    // All events were seen at the same time, so that the place between two pages is a revision.
    let mut newest = Vec::new();
    let mut request = NewestRequest {
        limit: 1,
        ..NewestRequest::default()
    };
    loop {
        let found = store.newest(request.clone()).await.unwrap();
        assert_eq!(found.revision, page.revision);
        newest.extend(found.records.iter().map(|it| it.revision));
        request.after = found.place;
        if !found.more {
            break;
        }
    }
    newest.reverse();
    assert_eq!(newest, numbers);
    let counted = CountsRequest {
        limit: 9,
        ..CountsRequest::default()
    };
    let counts = store.counts(counted).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!([counts.revision, stats.revision], [page.revision; 2]);
    assert!(store.is_own(stats.oldest_revision));

    let mut watch = store.watch("shop/".into(), numbers[0]).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let changes = watch.next().await.unwrap();
        seen.extend(changes.iter().map(|change| change.revision()));
    }
    assert_eq!(seen, numbers[1..]);
    assert!(store.is_own(watch.revision()) && watch.revision() >= numbers[2]);
    let deleted = store.delete("shop/b".into(), Some(numbers[1])).await;
    let deleted = deleted.unwrap();
    assert_eq!(deleted.previous.revision, numbers[1]);
    let changes = watch.next().await.unwrap();
    assert_eq!(changes[0].revision(), deleted.revision);
    assert_eq!(changes[0].previous().unwrap().revision, numbers[1]);

    let before = ListRequest::default().at(page.revision);
    let before = store.list(before).await.unwrap();
    assert_eq!(before.records, page.records);
    assert_eq!(before.revision, page.revision);
}

#[tokio::test]
async fn what_does_not_fit_into_a_page_has_its_number_too() {
    const LEN: usize = 700 << 10;
    let folder = tempfile::tempdir().unwrap();
    let store = served(folder.path(), "one", &[]).await;
    let message = "m".repeat(LEN);
    for number in 0..=PAGE_BYTES_MAX / LEN + 1 {
        observe(&store, &format!("web.{number}"), &message).await;
    }
    let request = NewestRequest {
        limit: 100,
        ..NewestRequest::default()
    };
    let page = store.newest(request).await.unwrap();
    assert!(!page.behind.is_empty());
    for (key, place) in page.behind {
        let found = store.get(key).await.unwrap().unwrap();
        assert_eq!(found.revision, place.revision);
    }
}

#[tokio::test]
async fn errors_have_the_numbers_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = served(folder.path(), "one", &["a", "b"]).await;
    let page = store.list(ListRequest::default()).await.unwrap();
    let numbers: Vec<_> = page.records.iter().map(|it| it.revision).collect();
    let error = store.delete("shop/b".into(), Some(numbers[0])).await;
    match error.unwrap_err() {
        WriteError::Conflict { expected, current } => assert_eq!([expected, current], numbers[..]),
        error => panic!("{error}"),
    }

    let latest = store.revision();
    let later = latest + 1000;
    let error = store.list(ListRequest::default().at(later)).await;
    match error.unwrap_err() {
        ReadError::Future { requested, current } => {
            assert_eq!([requested, current], [later, latest]);
        }
        error => panic!("{error}"),
    }
    match store.watch("".into(), later).await.err().unwrap() {
        WatchError::Future { requested, current } => {
            assert_eq!([requested, current], [later, latest]);
        }
        error => panic!("{error}"),
    }
    match store.compact(later).await.unwrap_err() {
        WriteError::FutureRevision { requested, current } => {
            assert_eq!([requested, current], [later, latest]);
        }
        error => panic!("{error}"),
    }

    store.compact(latest).await.unwrap();
    let error = store.list(ListRequest::default().at(numbers[0])).await;
    match error.unwrap_err() {
        ReadError::Compacted { requested, oldest } => {
            assert_eq!([requested, oldest], [numbers[0], latest]);
        }
        error => panic!("{error}"),
    }
    match store.watch("".into(), numbers[0]).await.err().unwrap() {
        WatchError::Compacted { after, oldest } => {
            assert_eq!([after, oldest], [numbers[0], latest]);
        }
        error => panic!("{error}"),
    }
}

/// It does not matter whether the number is far ahead or far behind.
#[tokio::test]
async fn a_number_of_another_store_is_one_whose_history_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [
        served(&folder.path().join("one"), "one", &["a", "b", "c"]).await,
        served(&folder.path().join("other"), "other", &["a"]).await,
    ];
    for (mine, other) in [(0, 1), (1, 0)] {
        let (store, number) = (&stores[mine], stores[other].revision());
        // These are numbers of a source, or of an archive of an earlier version, which had no
        // numbers of its own.
        for number in [number, 2, 1_000_000] {
            assert!(!store.is_own(number));
            let error = store.list(ListRequest::default().at(number)).await;
            let error = error.unwrap_err();
            assert!(
                matches!(error, ReadError::Compacted { requested, .. } if requested == number),
                "{error}"
            );
            let error = store.watch("".into(), number).await.err().unwrap();
            assert!(
                matches!(error, WatchError::Compacted { after, .. } if after == number),
                "{error}"
            );
            let request = NewestRequest {
                after: Some(Place {
                    last_seen: UnixMillis(NOW),
                    revision: number,
                }),
                limit: 9,
                ..NewestRequest::default()
            };
            let error = store.newest(request).await.unwrap_err();
            assert!(matches!(error, ReadError::Compacted { .. }), "{error}");
            let error = store.delete("shop/a".into(), Some(number)).await;
            let error = error.unwrap_err();
            assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
            store.compact(number).await.unwrap();
        }
        // Every store begins with this number, so everything that it still has follows it.
        assert!(store.is_own(1) && store.watch("".into(), 1).await.is_ok());
        assert!(store.get("shop/a".into()).await.unwrap().is_some());
    }
}
