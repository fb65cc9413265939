//! State shared by the store's methods, tasks and watches.
//!
//! It also has their common requests: the cluster's revision, the record of a version, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::client::{Client, LEASE_TIME_TO_LIVE, RANGE, unsigned};
use super::describe::Describe;
use super::end::End;
use super::expiry::{Expiries, Known};
use super::failure::Failure;
use super::index::LocalIndex;
use super::keys::Keys;
use super::lease::Leases;
use super::options::EtcdOptions;
use super::wire;
use crate::changes::{Bounds, Changes};
use crate::clock::{Clock, Reading};
use crate::confirmed::Confirmed;
use crate::{Fault, Record, Revision, UnixMillis};

/// The shared state; see the module documentation.
pub(super) struct Shared {
    pub(super) options: EtcdOptions,
    pub(super) client: Arc<Client>,
    pub(super) clock: Arc<dyn Clock>,
    /// The confirmed time: up to it, what cannot be undone may be done.
    pub(super) confirmed: Mutex<Confirmed>,
    pub(super) describe: Describe,
    pub(super) keys: Keys,
    pub(super) leases: Leases,
    pub(super) expiries: Expiries,
    pub(super) index: LocalIndex,
    /// The recent changes, complete up to the feed's revision.
    pub(super) changes: Arc<Changes>,
    /// The revision up to which the feed has published changes.
    pub(super) fed: tokio::sync::watch::Sender<Revision>,
    /// The number of etcd's current history; see `history.rs`.
    pub(super) history: tokio::sync::watch::Sender<u64>,
    /// The id of the followed cluster; zero if it is unknown.
    pub(super) cluster: AtomicU64,
    /// Wakes the feed to ask etcd for progress.
    pub(super) want_progress: Notify,
    /// The oldest readable revision known; zero if nothing was ever compacted.
    pub(super) oldest: AtomicU64,
    pub(super) expired: AtomicU64,
    /// The latest revision that this process wrote.
    pub(super) wrote: AtomicU64,
    /// Number of watches that read etcd's own history.
    pub(super) direct_watches: AtomicU64,
    pub(super) closed: tokio::sync::watch::Sender<bool>,
}

impl Shared {
    /// State for a cluster, given its oldest readable and its latest revision.
    pub(super) fn new(
        options: EtcdOptions,
        client: Arc<Client>,
        clock: Arc<dyn Clock>,
        describe: Describe,
        (oldest, latest): (Revision, Revision),
    ) -> Self {
        let bounds = Bounds {
            changes: options.history_len_max,
            bytes: options.history_bytes_max,
        };
        // Records of other programs may expire by this clock, so it is not believed at once.
        let confirmed = Confirmed::resume(None, Reading::of(&*clock));
        Self {
            client,
            clock,
            confirmed: Mutex::new(confirmed),
            describe,
            keys: Keys::new(&options.prefix),
            leases: Leases::new(options.lease_ttl_min),
            expiries: Expiries::new(options.history_len_max.max(options.index_len_max)),
            index: LocalIndex::new(options.index_len_max),
            changes: Arc::new(Changes::new(latest, bounds)),
            fed: tokio::sync::watch::Sender::new(latest),
            history: tokio::sync::watch::Sender::new(0),
            cluster: AtomicU64::new(0),
            want_progress: Notify::new(),
            oldest: AtomicU64::new(oldest),
            expired: AtomicU64::new(0),
            wrote: AtomicU64::new(0),
            direct_watches: AtomicU64::new(0),
            closed: tokio::sync::watch::Sender::new(false),
            options,
        }
    }

    pub(super) fn check_open(&self) -> Result<(), Fault> {
        if *self.closed.borrow() {
            Err(Fault::Closed)
        } else {
            Ok(())
        }
    }

    /// Returns when the store is closed.
    pub(super) async fn until_closed(&self) {
        // `self` owns the sender, so the wait cannot end because the sender was dropped.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub(super) fn oldest(&self) -> Revision {
        self.oldest.load(Ordering::Acquire)
    }

    /// Records that etcd has compacted the history before a revision.
    pub(super) fn compacted(&self, revision: Revision) {
        self.oldest.fetch_max(revision, Ordering::AcqRel);
        self.changes.forget(revision);
    }

    /// Asks etcd for the cluster's latest revision.
    pub(super) async fn latest(&self, deadline: Instant) -> Result<Revision, Failure> {
        // No record's key is the prefix itself, so the answer has no values.
        let request = wire::RangeRequest {
            key: self.keys.full(b""),
            ..wire::RangeRequest::default()
        };
        let answer: wire::RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        Ok(self.client.observe(answer.header))
    }

    /// Asks etcd for the number of this store's keys.
    pub(super) async fn count_all(&self) -> Result<u64, Failure> {
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

    /// Converts a version that etcd returned to a record.
    pub(super) async fn record(&self, version: wire::KeyValue) -> Record {
        self.record_and_end(version).await.0
    }

    pub(super) async fn record_and_end(&self, version: wire::KeyValue) -> (Record, Option<End>) {
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

    /// The end of a version of a record, by the current clock.
    pub(super) async fn end_of(&self, key: &Bytes, version: &wire::KeyValue) -> Option<End> {
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

    pub(super) fn as_set_now(&self, end: End) -> End {
        match end.lead {
            Some(_) => end.under(self.reading().lead()),
            None => end,
        }
    }

    /// Asks etcd for the remaining time of another program's lease, and remembers the end. If etcd
    /// does not answer, the record counts as live, and the next call asks again.
    pub(super) async fn first_sight(&self, lease: i64) -> Option<End> {
        let request = wire::LeaseTimeToLiveRequest { id: lease };
        let deadline = self.client.deadline();
        let answer: Result<wire::LeaseTimeToLiveResponse, _> =
            self.client.ask(LEASE_TIME_TO_LIVE, request, deadline).await;
        // The clock is read after the answer, which may have taken long: a late end is better than
        // an early one.
        let now = self.reading();
        match answer {
            // etcd gives a lease that is gone a remaining time of -1.
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

    pub(super) fn is_live(&self, record: &Record) -> bool {
        let now = self.clock.now();
        record.expires_at.is_none_or(|end| end > now)
    }

    /// The confirmed time, up to which records may be deleted.
    pub(super) fn confirmed(&self) -> UnixMillis {
        self.read_clock().1
    }

    /// Reads the clock for computing an end. An end computed while the clock is briefly set back
    /// seems early. So every such reading also updates the confirmed time, which then stays behind
    /// for as long as it matters.
    pub(super) fn reading(&self) -> Reading {
        self.read_clock().0
    }

    pub(super) fn read_clock(&self) -> (Reading, UnixMillis) {
        let mut confirmed = self.confirmed.lock();
        let now = Reading::of(&*self.clock);
        (now, confirmed.at(now))
    }

    /// Waits until the feed has reached a revision, at most for `at_most`.
    pub(super) async fn until_fed(&self, revision: Revision, at_most: Duration) {
        let mut fed = self.fed.subscribe();
        // A timeout is no error: each caller checks the feed's revision itself.
        let _ = timeout(at_most, fed.wait_for(|fed| *fed >= revision)).await;
    }
}
