//! A store that behaves like one on a shared etcd: its answers may be slow, or it learns of other
//! servers' writes only from its reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use tidings_store::{
    BoxFuture, Counts, CountsRequest, Deleted, ListRequest, NewRecord, NewestRequest, Page,
    ReadError, Record, Revision, Stats, Store, Watch, WatchError, WriteError,
};
use tokio::sync::watch;

/// The reason of the tests' events.
const REASON: &str = "BackOff";

/// A wrapper of a store. Lists, creates and queries by this reason wait for a signal; everything
/// else is passed through.
pub(crate) struct Remote {
    store: Arc<dyn Store>,
    released: watch::Receiver<bool>,
    /// Number of waiting requests.
    asked: watch::Sender<usize>,
    /// The latest revision returned by a list, if the store knows no other.
    told: Option<AtomicU64>,
    /// Revisions from this one on are those of another store.
    foreign: Option<Revision>,
}

impl Remote {
    /// A store that waits, the sender of its signal, and the number of waiting requests.
    pub(crate) fn slow(
        store: Arc<dyn Store>,
    ) -> (Self, watch::Sender<bool>, watch::Receiver<usize>) {
        let (release, released) = watch::channel(false);
        let (asked, seen) = watch::channel(0);
        let slow = Self {
            store,
            released,
            asked,
            told: None,
            foreign: None,
        };
        (slow, release, seen)
    }

    /// A store that waits for nothing, and knows this revision.
    pub(crate) fn behind(store: Arc<dyn Store>, revision: Revision) -> Self {
        let (mut behind, release, _) = Self::slow(store);
        release.send_replace(true);
        behind.told = Some(AtomicU64::new(revision));
        behind
    }

    /// A store that waits for nothing, and recognises revisions of another store by their number.
    pub(crate) fn apart(store: Arc<dyn Store>, foreign: Revision) -> Self {
        let (mut apart, release, _) = Self::slow(store);
        release.send_replace(true);
        apart.foreign = Some(foreign);
        apart
    }

    async fn released(&self) {
        self.asked.send_modify(|asked| *asked += 1);
        // If the test has ended, no request waits.
        let _ = self.released.clone().wait_for(|released| *released).await;
    }
}

impl Store for Remote {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        let create = move |()| self.store.create(key, record);
        Box::pin(self.released().then(create))
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
        let told = self.told.as_ref().map(|told| told.load(Ordering::Acquire));
        told.unwrap_or_else(|| self.store.revision())
    }

    fn is_own(&self, revision: Revision) -> bool {
        self.foreign.is_none_or(|foreign| revision < foreign)
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move {
            self.released().await;
            let page = self.store.list(request).await?;
            if let Some(told) = &self.told {
                told.fetch_max(page.revision, Ordering::AcqRel);
            }
            Ok(page)
        })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        self.store.counts(request)
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        if request.reason.as_deref() != Some(REASON) {
            return self.store.newest(request);
        }
        Box::pin(self.released().then(move |()| self.store.newest(request)))
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
