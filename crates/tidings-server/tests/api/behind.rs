//! A store that learns only from its reads what other servers have written, as one on a shared etcd
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidings_server::ApiOptions;
use tidings_store::clock::ManualClock;
use tidings_store::{
    BoxFuture, Counts, CountsRequest, Deleted, ListRequest, NewRecord, NewestRequest, Page,
    ReadError, Record, Revision, Stats, Store, UnixMillis, Watch, WatchError, WriteError,
};

use crate::backend;
use crate::support::{START, Server};

const SHOP: &str = "/api/v1/namespaces/shop/events";

struct Behind {
    store: Arc<dyn Store>,
    /// The latest revision of a list.
    told: AtomicU64,
}

impl Store for Behind {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store.create(key, record)
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store.update(key, record, expected)
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        self.store.delete(key, expected)
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        self.store.get(key)
    }

    fn revision(&self) -> Revision {
        self.told.load(Ordering::Acquire)
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            let page = self.store.list(request).await?;
            self.told.fetch_max(page.revision, Ordering::AcqRel);
            Ok(page)
        })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        self.store.counts(request)
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        self.store.newest(request)
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        self.store.watch(prefix, after)
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        self.store.compact(revision)
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        self.store.expire()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        self.store.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }
}

/// A client may ask any server for what another one has told it.
#[tokio::test]
async fn a_version_that_another_server_has_told_is_not_of_the_future() {
    let clock = ManualClock::at(UnixMillis(START));
    let store = backend::store(&clock);
    let behind = || {
        let behind = Behind {
            store: Arc::clone(&store),
            told: AtomicU64::new(1),
        };
        Server::over(Arc::new(behind), clock.clone(), ApiOptions::default())
    };
    let other = Server::over(Arc::clone(&store), clock.clone(), ApiOptions::default());
    let created = other.create("shop", "a").await;
    assert_eq!(created["metadata"]["resourceVersion"], "2");
    for uri in [
        format!("{SHOP}/a?resourceVersion=2"),
        format!("{SHOP}?resourceVersion=2"),
        format!("{SHOP}?resourceVersion=2&resourceVersionMatch=Exact"),
    ] {
        behind().get(&uri).await.expect(200);
        let later = uri.replace("=2", "=99");
        let status = behind().get(&later).await.expect(504);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("99, current: 2"), "{message}");
    }
    let start = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = behind()
        .watch(&format!("{SHOP}?{start}&resourceVersion=2"))
        .await;
    assert_eq!(watch.line().await, "ADDED a@2");
}
