//! Adapts the store on etcd to the contract's tests.
//!
//! etcd stores neither index nor expiry, so both are encoded before the value, where the decoder
//! finds them, as a server finds them in an encoded event. And etcd's first revision is 1, before
//! any change: revisions count from there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use tidings_store::clock::ManualClock;
use tidings_store::etcd::{Description, EtcdOptions, EtcdStore};
use tidings_store::{
    At, BoxFuture, Change, Counts, CountsRequest, Deleted, Index, ListRequest, NewRecord,
    NewestRequest, Page, ReadError, Record, Revision, Stats, Store, UnixMillis, VALUE_LEN_MAX,
    Watch, WatchError, WriteError,
};
use tidings_testing::etcd::Cluster;

use super::backends::Backend;

/// On an etcd of its own.
pub(crate) fn etcd() -> Box<dyn Backend> {
    Box::new(Etcd(Cluster::start(1, &[])))
}

struct Etcd(Option<Cluster>);

impl Backend for Etcd {
    fn open<'a>(&'a self, _: &'a Path, clock: &'a ManualClock) -> BoxFuture<'a, Arc<dyn Store>> {
        let endpoints = self.0.as_ref().unwrap().endpoints();
        Box::pin(Enveloped::open(endpoints, clock))
    }

    fn is_available(&self) -> bool {
        self.0.is_some()
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// The revision of an etcd without writes.
const FIRST: Revision = 1;

const MARK: &[u8] = b"enveloped\0";

fn wrap(record: NewRecord) -> NewRecord {
    let mut wrapped = MARK.to_vec();
    wrapped.put_i64(record.expires_at.map_or(i64::MAX, |at| at.0));
    wrapped.put_i64(record.index.last_seen.0);
    for text in [
        &record.index.object_uid,
        &record.index.object_kind,
        &record.index.object_namespace,
        &record.index.object_name,
        &record.index.reason,
        &record.index.event_type,
    ] {
        wrapped.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
        wrapped.extend_from_slice(text.as_bytes());
    }
    wrapped.extend_from_slice(&record.value);
    // The greatest values have no room for more, and no test looks for them.
    let value = if wrapped.len() > VALUE_LEN_MAX {
        record.value
    } else {
        wrapped.into()
    };
    NewRecord { value, ..record }
}

fn unwrap(value: &[u8]) -> (Description, Bytes) {
    let Some(mut rest) = value.strip_prefix(MARK) else {
        return (Description::default(), Bytes::copy_from_slice(value));
    };
    let expires_at = Some(UnixMillis(rest.get_i64())).filter(|at| at.0 < i64::MAX);
    let last_seen = UnixMillis(rest.get_i64());
    let mut text = || {
        let len = rest.get_u16().into();
        let (text, behind) = rest.split_at(len);
        rest = behind;
        String::from_utf8(text.to_vec()).unwrap()
    };
    let index = Index {
        object_uid: text(),
        object_kind: text(),
        object_namespace: text(),
        object_name: text(),
        reason: text(),
        event_type: text(),
        last_seen,
    };
    let description = Description { index, expires_at };
    (description, Bytes::copy_from_slice(rest))
}

fn etcd_revision(ours: Revision) -> Revision {
    ours + FIRST
}

fn our_revision(etcds: Revision) -> Revision {
    etcds.saturating_sub(FIRST)
}

fn our_record(record: &Record) -> Record {
    Record {
        value: unwrap(&record.value).1,
        revision: our_revision(record.revision),
        ..record.clone()
    }
}

fn our_page(mut page: Page) -> Page {
    page.records = page.records.iter().map(our_record).collect();
    page.revision = our_revision(page.revision);
    for (_, place) in &mut page.behind {
        place.revision = our_revision(place.revision);
    }
    if let Some(place) = &mut page.place {
        place.revision = our_revision(place.revision);
    }
    page
}

fn our_change(change: &Change) -> Change {
    match change {
        Change::Put { record, previous } => Change::Put {
            record: our_record(record),
            previous: previous.as_ref().map(our_record),
        },
        Change::Delete {
            revision,
            previous,
            expired,
        } => Change::Delete {
            revision: our_revision(*revision),
            previous: our_record(previous),
            expired: *expired,
        },
    }
}

fn our_write_error(error: WriteError) -> WriteError {
    match error {
        WriteError::AlreadyExists { revision } => WriteError::AlreadyExists {
            revision: our_revision(revision),
        },
        WriteError::Conflict { expected, current } => WriteError::Conflict {
            expected: our_revision(expected),
            current: our_revision(current),
        },
        WriteError::FutureRevision { requested, current } => WriteError::FutureRevision {
            requested: our_revision(requested),
            current: our_revision(current),
        },
        other => other,
    }
}

fn our_read_error(error: ReadError) -> ReadError {
    match error {
        ReadError::Compacted { requested, oldest } => ReadError::Compacted {
            requested: our_revision(requested),
            oldest: our_revision(oldest),
        },
        ReadError::Future { requested, current } => ReadError::Future {
            requested: our_revision(requested),
            current: our_revision(current),
        },
        other => other,
    }
}

fn our_watch_error(error: WatchError) -> WatchError {
    match error {
        WatchError::Compacted { after, oldest } => WatchError::Compacted {
            after: our_revision(after),
            oldest: our_revision(oldest),
        },
        WatchError::Future { requested, current } => WatchError::Future {
            requested: our_revision(requested),
            current: our_revision(current),
        },
        other => other,
    }
}

/// The store on etcd, with the options to open it again.
struct Enveloped(EtcdStore, EtcdOptions);

impl Enveloped {
    /// A store that believes the clock.
    async fn open(endpoints: Vec<String>, clock: &ManualClock) -> Arc<dyn Store> {
        let mut options = EtcdOptions::new(endpoints);
        options.compaction_interval = None;
        // Records expire by the test's clock alone.
        options.lease_ttl_min = Duration::from_secs(3600);
        let store = connect(options.clone(), clock.clone()).await;
        // Half a minute passes, and the clock is set back by as much: set back, it is believed at
        // once.
        clock.advance(30_000);
        clock.set_by(-30_000);
        Arc::new(Self(store, options))
    }

    /// Bytes of the envelopes of all records, the expired among them.
    async fn envelope_bytes(&self) -> usize {
        // By an early clock nothing has expired.
        let clock = ManualClock::at(UnixMillis(i64::MIN));
        let mut options = self.1.clone();
        options.index_len_max = 0;
        let store = connect(options, clock).await;
        let records = store.list(ListRequest::default()).await.unwrap().records;
        let envelope = |record: &Record| record.value.len() - unwrap(&record.value).1.len();
        records.iter().map(envelope).sum()
    }
}

async fn connect(options: EtcdOptions, clock: ManualClock) -> EtcdStore {
    let describe = Arc::new(|value: &[u8]| unwrap(value).0);
    let store = EtcdStore::open(options, Arc::new(clock), describe).await;
    store.unwrap()
}

impl Store for Enveloped {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move {
            let created = self.0.create(key, wrap(record)).await;
            created.map(our_revision).map_err(our_write_error)
        })
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move {
            let updated = self.0.update(key, wrap(record), etcd_revision(expected));
            updated.await.map(our_revision).map_err(our_write_error)
        })
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        Box::pin(async move {
            let deleted = self.0.delete(key, expected.map(etcd_revision)).await;
            let deleted = deleted.map_err(our_write_error)?;
            Ok(Deleted {
                revision: our_revision(deleted.revision),
                previous: our_record(&deleted.previous),
            })
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move { Ok(self.0.get(key).await?.as_ref().map(our_record)) })
    }

    fn revision(&self) -> Revision {
        our_revision(self.0.revision())
    }

    fn list(&self, mut request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        if let At::Exact(revision) = request.at {
            request.at = At::Exact(etcd_revision(revision));
        }
        Box::pin(async move {
            let page = self.0.list(request).await;
            page.map(our_page).map_err(our_read_error)
        })
    }

    fn newest(&self, mut request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        if let Some(place) = &mut request.after {
            place.revision = etcd_revision(place.revision);
        }
        Box::pin(async move { self.0.newest(request).await.map(our_page) })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(async move {
            let mut counts = self.0.counts(request).await?;
            counts.revision = our_revision(counts.revision);
            Ok(counts)
        })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move {
            let watch = self.0.watch(prefix, etcd_revision(after)).await;
            let watch = watch.map_err(our_watch_error)?;
            Ok(Box::new(EnvelopedWatch(watch)) as Box<dyn Watch>)
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move {
            let compacted = self.0.compact(etcd_revision(revision)).await;
            compacted.map_err(our_write_error)
        })
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        self.0.expire()
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move {
            let mut stats = self.0.stats().await?;
            let envelopes = self.envelope_bytes().await;
            stats.value_bytes = stats.value_bytes.saturating_sub(envelopes as u64);
            stats.revision = our_revision(stats.revision);
            stats.oldest_revision = our_revision(stats.oldest_revision);
            Ok(stats)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

struct EnvelopedWatch(Box<dyn Watch>);

impl Watch for EnvelopedWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Vec<Arc<Change>>, WatchError>> {
        Box::pin(async move {
            let changes = self.0.next().await.map_err(our_watch_error)?;
            Ok(changes
                .iter()
                .map(|change| Arc::new(our_change(change)))
                .collect())
        })
    }

    fn revision(&self) -> Revision {
        our_revision(self.0.revision())
    }
}
