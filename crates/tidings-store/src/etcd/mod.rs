//! The contract on etcd, in kube-apiserver's own layout: both can serve the same etcd at once.
//!
//! - **Keys and values.** [`EtcdOptions::prefix`] and the contract's key; the value bytes as they are given.
//! - **Revisions** are etcd's: a record's is its `ModRevision`, a list's the answer's header revision. They count every
//!   write to the cluster, also those of other programs. [`Store::revision`] is the latest one seen by this process.
//! - **Writes** are transactions on the key's `ModRevision`. A write is sent again only where that cannot do it twice: an
//!   update or a delete (its condition can hold but once), or a create that was certainly not taken. When the answer to a
//!   write is lost, the key and its history are read: if they hold what was written the write is acknowledged, if they show that it
//!   was not and will not be done it is refused, and otherwise it is [`Fault::Unknown`]. It is never reported as failed when it may
//!   have been done.
//! - **Expiry.** Leases do the deleting, shared as kube-apiserver shares them, and may be late: by
//!   up to `min(60 s, 5 %)`, and by a whole life when etcd's leader changes. Reads hide a record
//!   from its true end on. The end is exact for what this process wrote (and for values that say it
//!   themselves, see [`Description::expires_at`]); for what another tidings, or this one before a
//!   restart, wrote it is the end its lease had when granted; for what kube-apiserver wrote, the
//!   end its lease had when first seen. Records whose lease was extended beyond that are deleted by
//!   this store. This store deletes only by a clock that has been right for half a minute: after it
//!   was opened, or the clock was set, that waits. The ends of others' leases move with a clock that
//!   is set, for leases live by steady time.
//! - **`expired`** of a [`Change::Delete`] is decided by the clock when the change is read: etcd does not
//!   say why a key went.
//! - **Watches.** One stream from etcd feeds all watchers through a bounded history in memory; a watcher that starts
//!   earlier than it reads etcd's own history. After a failure the stream goes on at another member behind the last
//!   whole revision it delivered.
//! - **Indexes.** etcd has none. A bounded local index follows the watch; where it is not ready or too small, lists by
//!   object and by time read the whole prefix. Both find a record by what the server's decoder says of its value:
//!   [`NewRecord::index`] is not stored.
//!
//! Watch progress on revisions of *other* keys comes at once from etcd 3.4.25 and 3.5.8 on, every ten minutes before.
//!
//! The gRPC messages are written down in `wire.rs`, so that no `protoc` is needed to build.
//!
//! [`Change::Delete`]: crate::Change::Delete

mod client;
mod compact;
mod end;
mod expiry;
mod failure;
mod feed;
mod index;
mod keys;
mod lease;
mod members;
mod options;
mod read;
mod settle;
mod stream;
#[cfg(test)]
mod tests;
mod token;
mod walk;
mod watch;
mod wire;
mod write;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use self::client::{Client, LEASE_TIME_TO_LIVE, RANGE, STATUS, unsigned};
use self::end::End;
use self::expiry::{Expiries, Known};
use self::failure::{Failure, Outcome};
use self::index::LocalIndex;
use self::keys::Keys;
use self::lease::Leases;
pub use self::options::{Credentials, EtcdOptions, TlsFiles};
use crate::changes::{Bounds, Changes};
use crate::clock::{Clock, Reading};
use crate::confirmed::Confirmed;
use crate::{
    BoxFuture, Deleted, Fault, Index, ListRequest, NewRecord, NewestRequest, Page, ReadError,
    Record, Revision, Stats, Store, UnixMillis, Watch, WatchError, WriteError,
};

/// How long closing waits for etcd to tell the last changes this process made.
const LAST_CHANGES: Duration = Duration::from_secs(1);

/// What a value says about itself, for the store to find it by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What to find it by; the default for a value that cannot be decoded.
    pub index: Index,
    /// When it ends, if the value itself says so exactly. `None` leaves it to the lease.
    pub expires_at: Option<UnixMillis>,
}

/// Describes a value, whoever wrote it: the server's decoder. It must be quick; it is called for every record read.
pub type Describe = Arc<dyn Fn(&[u8]) -> Description + Send + Sync>;

/// Why a store on etcd could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options make no sense; the text says which and what is accepted.
    #[error("{0}")]
    Options(String),
    /// A TLS file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No member answered in time, or etcd refused.
    #[error("etcd cannot be used: {0}")]
    Etcd(Fault),
}

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

/// What the store's methods, its tasks and its watches have in common.
struct Shared {
    options: EtcdOptions,
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    /// Up to when the clock is believed.
    confirmed: Mutex<Confirmed>,
    describe: Describe,
    keys: Keys,
    leases: Leases,
    expiries: Expiries,
    index: LocalIndex,
    /// The recent history, as far as the feed has followed it.
    changes: Arc<Changes>,
    /// How far the feed has come.
    fed: tokio::sync::watch::Sender<Revision>,
    /// Wakes the feed to ask etcd for progress.
    want_progress: Notify,
    /// The oldest revision that can be read, as far as is known; zero if nothing was ever forgotten.
    oldest: AtomicU64,
    expired: AtomicU64,
    /// The latest revision this process wrote.
    wrote: AtomicU64,
    /// Watches reading etcd's own history.
    direct_watches: AtomicU64,
    closed: tokio::sync::watch::Sender<bool>,
}

impl EtcdStore {
    /// Connects to a cluster and begins to follow it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`OpenError`]; above all if no member answers within [`EtcdOptions::request_timeout`].
    pub async fn open(
        options: EtcdOptions,
        clock: Arc<dyn Clock>,
        describe: Describe,
    ) -> Result<Self, OpenError> {
        options.validate()?;
        let client = Arc::new(Client::new(&options)?);
        let shared = Shared::connect(options, client, clock, describe)
            .await
            .map_err(|failure| OpenError::Etcd(failure.into()))?;
        let shared = Arc::new(shared);
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

    fn shut(&self) {
        self.shared.closed.send_replace(true);
        self.end();
    }

    fn end(&self) {
        self.shared.changes.close(Fault::Closed);
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Shared {
    async fn connect(
        options: EtcdOptions,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        describe: Describe,
    ) -> Result<Self, Failure> {
        let (oldest, revision) = compact::oldest_and_latest(&client).await?;
        let bounds = Bounds {
            changes: options.history_len_max,
            bytes: options.history_bytes_max,
        };
        // What others have written may end by this clock, of which nothing is known yet.
        let confirmed = Confirmed::resume(None, Reading::of(&*clock));
        Ok(Self {
            client,
            clock,
            confirmed: Mutex::new(confirmed),
            describe,
            keys: Keys::new(&options.prefix),
            leases: Leases::new(options.lease_ttl_min),
            expiries: Expiries::new(options.history_len_max.max(options.index_len_max)),
            index: LocalIndex::new(options.index_len_max),
            changes: Arc::new(Changes::new(revision, bounds)),
            fed: tokio::sync::watch::Sender::new(revision),
            want_progress: Notify::new(),
            oldest: AtomicU64::new(oldest),
            expired: AtomicU64::new(0),
            wrote: AtomicU64::new(0),
            direct_watches: AtomicU64::new(0),
            closed: tokio::sync::watch::Sender::new(false),
            options,
        })
    }

    fn check_open(&self) -> Result<(), Fault> {
        if *self.closed.borrow() {
            Err(Fault::Closed)
        } else {
            Ok(())
        }
    }

    /// Returns when the store is closed.
    async fn until_closed(&self) {
        // The sender lives in self, so the only way to return is that it was set.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn oldest(&self) -> Revision {
        self.oldest.load(Ordering::Acquire)
    }

    /// Notes that etcd has forgotten what was before a revision.
    fn compacted(&self, revision: Revision) {
        self.oldest.fetch_max(revision, Ordering::AcqRel);
        self.changes.forget(revision);
    }

    /// The cluster's latest revision, not only the latest one seen here.
    async fn latest(&self, deadline: Instant) -> Result<Revision, Failure> {
        // No record has the prefix itself as its key.
        let request = wire::RangeRequest {
            key: self.keys.full(b""),
            ..wire::RangeRequest::default()
        };
        let answer: wire::RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        Ok(self.client.observe(answer.header))
    }

    /// How many keys etcd has for this store.
    async fn count_all(&self) -> Result<u64, Failure> {
        let (key, range_end) = self.keys.all();
        let request = wire::RangeRequest {
            key,
            range_end,
            count_only: true,
            ..wire::RangeRequest::default()
        };
        let deadline = self.client.deadline();
        let answer: wire::RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        self.client.observe(answer.header);
        Ok(unsigned(answer.count))
    }

    /// Makes a record of a version of a key as etcd returned it.
    async fn record(&self, version: wire::KeyValue) -> Record {
        self.record_and_end(version).await.0
    }

    async fn record_and_end(&self, version: wire::KeyValue) -> (Record, Option<End>) {
        let key = self.keys.short(&version.key);
        let end = self.end_of(&key, &version).await;
        let record = Record {
            expires_at: end.map(|end| end.at),
            key,
            revision: unsigned(version.mod_revision),
            value: version.value,
        };
        (record, end)
    }

    /// When a version of a record ends, by the clock as it is set now.
    async fn end_of(&self, key: &Bytes, version: &wire::KeyValue) -> Option<End> {
        let revision = unsigned(version.mod_revision);
        let decode = || {
            let indexed = self.index.end_of(key, revision);
            indexed.or_else(|| (self.describe)(&version.value).expires_at.map(End::exact))
        };
        let end = match self.expiries.of(key, version, decode) {
            Known::End(end) => end,
            Known::Lease(lease) => self.first_sight(lease).await,
        };
        end.map(|end| self.as_set_now(end))
    }

    fn as_set_now(&self, end: End) -> End {
        match end.lead {
            Some(_) => end.under(self.reading().lead()),
            None => end,
        }
    }

    /// Asks etcd how long the lease of another program has left. If etcd cannot tell now, the record is taken for one
    /// that lives on, and it is asked again next time.
    async fn first_sight(&self, lease: i64) -> Option<End> {
        let request = wire::LeaseTimeToLiveRequest { id: lease };
        let deadline = self.client.deadline();
        let answer: Result<wire::LeaseTimeToLiveResponse, _> =
            self.client.ask(LEASE_TIME_TO_LIVE, request, deadline).await;
        // After the answer: it may have taken long, and the end is rather late than early.
        let now = self.reading();
        match answer {
            // A lease that is gone has a life of -1.
            Ok(answer) => Some(self.expiries.first_seen(lease, End::after(now, answer.ttl))),
            Err(failure) if failure.says("requested lease not found") => {
                Some(self.expiries.first_seen(lease, End::after(now, 0)))
            }
            Err(failure) => {
                tracing::warn!(%failure, lease, "cannot learn when a lease of another program ends");
                None
            }
        }
    }

    fn is_live(&self, record: &Record) -> bool {
        let now = self.clock.now();
        record.expires_at.is_none_or(|end| end > now)
    }

    /// The time by which records may be deleted.
    fn confirmed(&self) -> UnixMillis {
        self.read_clock().1
    }

    /// Both times now. What is reckoned by a clock that is set back for a moment seems to end early; so the confirmed time
    /// takes note of every such reading, and is behind for as long as it matters.
    fn reading(&self) -> Reading {
        self.read_clock().0
    }

    fn read_clock(&self) -> (Reading, UnixMillis) {
        let mut confirmed = self
            .confirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Reading::of(&*self.clock);
        (now, confirmed.at(now))
    }

    async fn read_stats(&self) -> Result<Stats, ReadError> {
        self.check_open()?;
        let deadline = self.client.deadline();
        let records = self.count_all().await.map_err(Fault::from)?;
        let revision = self.client.revision();
        let status: Result<wire::StatusResponse, _> =
            self.client.ask(STATUS, wire::Empty {}, deadline).await;
        let status = status.map_err(Fault::from)?;
        self.index_reached(revision).await;
        let reading = self.reading();
        let (now, lead) = (reading.wall, reading.lead());
        let (first_ended, _) = self.index.ended(now, lead, 1).unwrap_or_default();
        let lag = first_ended.first().and_then(|(_, entry)| entry.end);
        let lag = lag.map(|end| end.under(lead).at);
        Ok(Stats {
            records,
            value_bytes: self.index.value_bytes().unwrap_or(0),
            disk_bytes: unsigned(status.db_size),
            revision,
            oldest_revision: self.oldest(),
            expiry_lag_ms: lag.map_or(0, |end| now.0.abs_diff(end.0)),
            expired: self.expired.load(Ordering::Acquire),
            watches: self.changes.watches() + self.direct_watches.load(Ordering::Acquire),
        })
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

    /// The latest revision any answer of etcd to this process carried.
    fn revision(&self) -> Revision {
        self.shared.client.revision()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            // In a task of its own, which takes etcd's answer also while the caller is busy with the page before: what is not
            // taken holds up everything else on the connection.
            let mut reading = JoinSet::new();
            reading.spawn(async move { shared.list(&request).await });
            let read = reading.join_next().await.ok_or(Fault::Closed)?;
            read.map_err(|error| Fault::Storage(Arc::new(error)))?
        })
    }

    fn newest(&self, request: NewestRequest) -> BoxFuture<'_, Result<Page, ReadError>> {
        Box::pin(async move { self.shared.newest(&request).await })
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

    /// `value_bytes` and `expiry_lag_ms` come from the local index, and are zero without it; `disk_bytes` is the size of
    /// one member's whole database.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, ReadError>> {
        Box::pin(async move { self.shared.read_stats().await })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closed.send_replace(true);
            // Watchers are told what was written, if etcd says it soon.
            let wrote = self.shared.wrote.load(Ordering::Acquire);
            let mut fed = self.shared.fed.subscribe();
            let _ = timeout(LAST_CHANGES, fed.wait_for(|fed| *fed >= wrote)).await;
            self.end();
        })
    }
}
