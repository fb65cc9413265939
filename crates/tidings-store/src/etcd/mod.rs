//! The contract on etcd, in kube-apiserver's own layout: both can serve the same etcd at once.
//!
//! - **Keys and values.** [`EtcdOptions::prefix`] and the contract's key; the value bytes as they
//!   are given.
//! - **Revisions** are etcd's: a record's is its `ModRevision`, a list's the answer's header
//!   revision. They count every write to the cluster, also those of other programs.
//!   [`Store::revision`] is the latest one seen by this process.
//! - **Writes** are transactions on the key's `ModRevision`. A write is sent again only if that
//!   cannot do it twice: an update or a delete (its condition holds only once), or a create that
//!   was certainly not accepted. When the answer to a write is lost, the key and its history are
//!   read: if they have the written value, the write is acknowledged; if they show that it was not
//!   and will not be done, it is refused; otherwise the result is [`Fault::Unknown`]. It is never
//!   reported as failed when it may have been done.
//! - **Expiry.** Leases delete records. They are shared as in kube-apiserver, and may be late: by
//!   up to `min(60 s, 5 %)`, and by a whole TTL when etcd's leader changes. Reads hide a record
//!   from its time of expiry on. That time is exact for records written by this process (and for
//!   values that state it, see [`Description::expires_at`]). For records of another tidings, or of
//!   this one before a restart, it is the end of the lease when granted; for records of
//!   kube-apiserver, the end of the lease when first seen. This store deletes records whose lease
//!   was extended beyond that, but only by a clock that has been right for half a minute: after
//!   opening, or after the clock was set, it waits. If the clock is set, the ends of others' leases
//!   move with it, since leases run by monotonic time.
//! - **`expired`** of a [`Change::Delete`] is decided by the clock when the change is read: etcd
//!   does not say why a key was deleted.
//! - **Watches.** One stream from etcd feeds all watchers through a bounded history in memory; a
//!   watcher that starts earlier than it reads etcd's own history. After a failure the stream
//!   continues at another member after the last complete revision.
//! - **Another history.** If etcd was restored from a backup under this process, or is another
//!   cluster, this is found when the stream from etcd is opened again, and logged: watches end as
//!   [`WatchError::Compacted`], [`Store::revision`] goes back to that of etcd, and the store
//!   continues with what etcd has. A client that begins a watch at a revision of the former history
//!   after the new one has reached it is not told: restore with `etcdutl`'s `--bump-revision` and
//!   `--mark-compacted`.
//! - **Indexes.** etcd has no indexes. A bounded local index follows the watch. While it is not
//!   ready, or if it is too small, lists by object and by time read the whole prefix. So does each
//!   page of [`Store::newest`] with a range, an object, a reason or a type; counts read everything.
//!   The index values are those that the server's decoder returns for a value: [`NewRecord::index`]
//!   is not stored.
//! - **Identity.** Its key is the prefix without the last slash, and `.tidings/identity`. The first
//!   reader creates it.
//!
//! From etcd 3.4.25 and 3.5.8 on, the progress of watches with revisions of *other* keys is
//! immediate; before, it came every ten minutes.
//!
//! The gRPC messages are declared in `wire.rs`, so the build needs no `protoc`.
//!
//! [`Change::Delete`]: crate::Change::Delete

mod client;
mod compact;
mod describe;
mod end;
mod error;
mod expiry;
mod failure;
mod feed;
mod history;
mod identity;
mod index;
mod keys;
mod lease;
mod members;
mod options;
mod pause;
mod read;
mod settle;
mod shared;
mod stream;
#[cfg(test)]
mod tests;
mod walk;
mod watch;
mod wire;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use self::client::{Client, STATUS, unsigned};
use self::shared::Shared;
use crate::clock::Clock;
use crate::{
    BoxFuture, Counts, CountsRequest, Deleted, Fault, ListRequest, NewRecord, NewestRequest, Page,
    ReadError, Record, Revision, Stats, Store, Watch, WatchError, WriteError,
};

pub use self::describe::{Describe, Description};
pub use self::error::OpenError;
pub use self::options::{EtcdOptions, TlsFiles};

/// Maximum time that closing waits until etcd has sent this process's last changes.
const LAST_CHANGES: Duration = Duration::from_secs(1);

/// A store on etcd; see the [module documentation](self).
///
/// ```no_run
/// use std::sync::Arc;
///
/// use tidings_store::clock::SystemClock;
/// use tidings_store::etcd::{Description, EtcdOptions, EtcdStore};
///
/// # async fn open() -> Result<(), tidings_store::etcd::OpenError> {
/// let options = EtcdOptions::new(["http://127.0.0.1:2379"]);
/// let describe = Arc::new(|_value: &[u8]| Description::default());
/// let store = EtcdStore::open(options, Arc::new(SystemClock), describe).await?;
/// # Ok(())
/// # }
/// ```
pub struct EtcdStore {
    shared: Arc<Shared>,
    tasks: Mutex<JoinSet<()>>,
}

impl EtcdStore {
    /// Connects to a cluster and begins to follow it. Call it within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; above all if no member answers within [`EtcdOptions::request_timeout`].
    pub async fn open(
        options: EtcdOptions,
        clock: Arc<dyn Clock>,
        describe: Describe,
    ) -> Result<Self, OpenError> {
        options.validate()?;
        let client = Arc::new(Client::new(&options)?);
        let revisions = compact::oldest_and_latest(&client)
            .await
            .map_err(|failure| OpenError::Etcd(failure.into()))?;
        let shared = Arc::new(Shared::new(options, client, clock, describe, revisions));
        let mut tasks = JoinSet::new();
        tasks.spawn(feed::follow(Arc::clone(&shared)));
        tasks.spawn(feed::sweep(Arc::clone(&shared)));
        if shared.options.tls.is_some() {
            let client = Arc::clone(&shared.client);
            tasks.spawn(async move { client.keep_tls().await });
        }
        if shared.options.index_len_max > 0 {
            tasks.spawn(feed::keep_index(Arc::clone(&shared)));
        }
        if let Some(every) = shared.options.compaction_interval {
            tasks.spawn(compact::run(Arc::clone(&shared), every));
        }
        Ok(Self {
            shared,
            tasks: Mutex::new(tasks),
        })
    }

    async fn read_stats(&self) -> Result<Stats, ReadError> {
        let shared = &self.shared;
        shared.check_open()?;
        let deadline = shared.client.deadline();
        let records = shared.count_all().await.map_err(Fault::from)?;
        let revision = shared.client.revision();
        let status: Result<wire::StatusResponse, _> =
            shared.client.ask(STATUS, wire::Empty {}, deadline).await;
        let status = status.map_err(Fault::from)?;
        shared.index_reached(revision).await;
        let reading = shared.reading();
        let (now, lead) = (reading.wall, reading.lead());
        let (first_ended, _) = shared.index.ended(now, lead, 1).unwrap_or_default();
        let lag = first_ended.first().and_then(|(_, entry)| entry.end);
        let lag = lag.map(|end| end.under(lead).at);
        Ok(Stats {
            records,
            value_bytes: shared.index.value_bytes().unwrap_or(0),
            disk_bytes: unsigned(status.db_size),
            revision,
            oldest_revision: shared.oldest(),
            expiry_lag_ms: lag.map_or(0, |end| now.0.abs_diff(end.0)),
            expired: shared.expired.load(Ordering::Acquire),
            watches: shared.changes.watches() + shared.direct_watches.load(Ordering::Acquire),
            ..Stats::default()
        })
    }

    fn shut(&self) {
        self.shared.closed.send_replace(true);
        self.end();
    }

    fn end(&self) {
        self.shared.changes.close(Fault::Closed);
        self.tasks.lock().abort_all();
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Store for EtcdStore {
    fn create(&self, key: Bytes, record: NewRecord) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move { self.shared.put(key, record, None).await })
    }

    fn update(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Revision,
    ) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move { self.shared.put(key, record, Some(expected)).await })
    }

    fn delete(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> BoxFuture<'_, Result<Deleted, WriteError>> {
        Box::pin(async move { self.shared.remove(key, expected).await })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        Box::pin(async move {
            self.shared.check_open()?;
            let record = self
                .shared
                .get_any(&key, self.shared.client.deadline())
                .await?;
            Ok(record.filter(|record| self.shared.is_live(record)))
        })
    }

    /// The greatest revision in any answer of etcd to this process. It goes back if etcd's history
    /// was replaced by an earlier one.
    fn revision(&self) -> Revision {
        self.shared.client.revision()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            // A task of its own reads etcd's answer even while the caller is busy with the previous
            // page. Unread data would delay everything else on the connection.
            let mut reading = JoinSet::new();
            reading.spawn(async move { shared.list(&request).await });
            let read = reading.join_next().await.ok_or(Fault::Closed)?;
            read.map_err(|error| Fault::Storage(Arc::new(error)))?
        })
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.shared.newest(&request).await })
    }

    fn counts(&self, request: CountsRequest) -> BoxFuture<'_, Result<Counts, ReadError>> {
        Box::pin(async move { self.shared.counts(&request).await })
    }

    fn watch(
        &self,
        prefix: Bytes,
        after: Revision,
    ) -> BoxFuture<'_, Result<Box<dyn Watch>, WatchError>> {
        Box::pin(async move { watch::start(&self.shared, prefix, after).await })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), WriteError>> {
        Box::pin(async move { self.shared.compact(revision).await })
    }

    fn expire(&self) -> BoxFuture<'_, Result<u64, WriteError>> {
        Box::pin(async move { self.shared.expire().await })
    }

    fn identity(&self, new: String) -> BoxFuture<'_, Result<Option<String>, Fault>> {
        Box::pin(async move { self.shared.identity(new).await.map_err(Fault::from) })
    }

    /// Reads counts and sizes. `value_bytes` and `expiry_lag_ms` come from the local index and are
    /// zero without it. `disk_bytes` is the size of one member's whole database.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move { self.read_stats().await })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closed.send_replace(true);
            // Watchers still get the last changes, if etcd sends them within this time.
            let wrote = self.shared.wrote.load(Ordering::Acquire);
            self.shared.until_fed(wrote, LAST_CHANGES).await;
            self.end();
        })
    }
}
