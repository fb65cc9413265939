//! Cases of the contract with large values: pages and changes are bounded in size.

use bytes::Bytes;
use tidings_store::{ListRequest, NewRecord, NewestRequest, ObjectSelector};

use crate::support::{Fixture, about};

pub(crate) async fn limited_pages_end_at_a_size(fixture: Fixture) {
    let large = vec![b'x'; 350_000];
    for number in 0..8 {
        let record = NewRecord::new(large.clone()).index(about("p", 0));
        let key = format!("a/{number}");
        fixture.store.create(key.into(), record).await.unwrap();
    }
    let object = ObjectSelector::Uid("uid-of-p".into());
    for mut request in [
        ListRequest::prefix("a/"),
        ListRequest::prefix("a/").object(object),
    ] {
        let all = fixture.store.list(request.clone()).await.unwrap();
        assert_eq!(all.records.len(), 8, "what has no limit is whole");
        request = request.limit(500);
        request.count_remaining = true;
        let page = fixture.store.list(request.clone()).await.unwrap();
        let len = page.records.len();
        assert!((5..=6).contains(&len) && page.more, "{len}");
        assert_eq!(page.remaining, Some(8 - len as u64));
        let last = page.records[len - 1].key.clone();
        let rest = fixture.store.list(request.after(last)).await.unwrap();
        assert_eq!((rest.records.len(), rest.more), (8 - len, false));
    }
    for (limit, found) in [(2, 2), (7, 7), (9, 8)] {
        let request = NewestRequest {
            limit,
            ..NewestRequest::default()
        };
        let page = fixture.store.newest(request).await.unwrap();
        assert_eq!(page.records.len(), found.min(6), "{limit}");
        assert_eq!(page.more, found < 8, "{limit}");
        let mut keys: Vec<_> = page
            .records
            .iter()
            .map(|record| record.key.clone())
            .collect();
        for (key, place) in page.behind {
            let record = fixture.store.get(key.clone()).await.unwrap();
            let is_there = record.is_some_and(|record| record.revision == place.revision);
            assert!(is_there, "{limit}");
            keys.push(key);
        }
        let expected = (0..8)
            .rev()
            .map(|number| Bytes::from(format!("a/{number}")));
        assert_eq!(keys, expected.take(found).collect::<Vec<_>>(), "{limit}");
    }
    for (limit, pages) in [(2, vec![2, 2, 2, 2]), (7, vec![6, 2]), (500, vec![6, 2])] {
        let mut request = NewestRequest {
            limit,
            values_only: true,
            ..NewestRequest::default()
        };
        let mut found = Vec::new();
        loop {
            let page = fixture.store.newest(request.clone()).await.unwrap();
            assert!(page.behind.is_empty(), "{limit}");
            assert_eq!(page.more, page.place.is_some(), "{limit}");
            found.push(page.records.len());
            request.after = page.place;
            if !page.more {
                break;
            }
        }
        assert_eq!(found, pages, "{limit}");
    }
}

pub(crate) async fn a_watch_takes_large_changes_few_at_a_time(mut fixture: Fixture) {
    let large = vec![b'x'; 400_000];
    let first = fixture.create("a/0", "").await;
    for number in 1..=12 {
        let record = NewRecord::new(large.clone());
        let created = fixture
            .store
            .create(format!("a/{number:02}").into(), record);
        created.await.unwrap();
    }
    // From memory, and from disk.
    for _ in 0..2 {
        let mut watch = fixture.watch("a/", first).await;
        let mut told = 0;
        while told < 12 {
            let changes = watch.next().await.unwrap();
            assert!(changes.len() <= 3, "{}", changes.len());
            told += changes.len();
            assert_eq!(watch.revision(), changes.last().unwrap().revision());
        }
        // Past changes from etcd arrive in its own batches.
        if fixture.backend.is_remote() {
            return;
        }
        fixture.restart().await;
    }
}
