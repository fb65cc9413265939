//! What every request handler shares: the store, the clock, the options, and who may come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use tidings_store::{BoxFuture, ReadError, Record, Store, UnixMillis};
use tokio::sync::watch;

use crate::admission::{
    Admission, AdmissionCounts, EventRateLimitOptions, EventSizeLimit, Gate, Namespaces,
};
use crate::audit::{AuditCounts, AuditLog};
use crate::auth::{AccessCounters, Authenticator, Authorizer};
use crate::clock::Clock;
use crate::codec::{self, Api};
use crate::connections::Connections;
use crate::encoded::EncodedEvents;
use crate::error::Status;
use crate::limits::BODY_BYTES_MAX;
use crate::metrics::Metrics;
use crate::observed::ObservedStore;
use crate::places::{Level, Places};
use crate::remaining::Remaining;
use crate::retention::RetentionRules;

/// How the API behaves. The names are those of kube-apiserver's flags where it has one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApiOptions {
    /// How long an event is kept after the last write to it (`--event-ttl`). Default: one hour.
    pub event_ttl: Duration,
    /// So many reading requests are served at once, and watches that tell what there is (`--max-requests-inflight`); 0 is no limit. Default: 400.
    pub max_requests_inflight: usize,
    /// So many writing requests are served at once (`--max-mutating-requests-inflight`), and as many reviews of oneself;
    /// 0 is no limit. Default: 200.
    pub max_mutating_requests_inflight: usize,
    /// Of each of these kinds so many requests wait for others to be over (`--max-requests-inqueue`), first come, first
    /// served; more get 429 at once, with 0 all do. Default: 6,400, which is what a priority level of kube-apiserver holds.
    pub max_requests_inqueue: usize,
    /// A request waits no longer than this, nor than a quarter of its time (`--request-wait-limit`), and gets 429 then.
    /// Default: one minute, as in kube-apiserver; so that a quarter counts.
    pub request_wait_limit: Duration,
    /// The longest body of a request, in bytes (`--max-request-bytes`); longer ones get 413. Default: 3 MiB, which is
    /// kube-apiserver's limit.
    pub request_bytes_max: usize,
    /// Longest line and headers of a request together, in bytes (`--max-header-bytes`), and 4 KiB more as in Go; longer
    /// ones get 431. From 8 KiB to 1 MiB. Each connection may hold as much before its client has shown credentials.
    /// Default: 64 KiB; kube-apiserver takes 1 MiB.
    pub header_bytes_max: usize,
    /// Behind its first page, a Table without a selector that is asked for in pages of 500 rows or more has so many in a
    /// page, if that is more (`--table-continuation-rows`): kubectl asks five times a second at most. 0 is as many as were
    /// asked for. Default: 10,000.
    pub table_continuation_rows: usize,
    /// A request other than a watch is given up after this (`--request-timeout`). Default: one minute.
    pub request_timeout: Duration,
    /// Watches without a timeout of their own end after this to twice this (`--min-request-timeout`). Default: 30 minutes.
    pub min_request_timeout: Duration,
    /// A watcher that allows bookmarks gets one this often, also when nothing happens. Default: one minute.
    pub bookmark_interval: Duration,
    /// Maximum of open connections (`--max-connections`). A new one beyond it takes the place of the oldest without
    /// credentials of the peer that has the most of these, an idle one if there is one. A tenth of the places is kept for connections that have shown good
    /// credentials, and a tenth for those that have not, as probes. Default: 10,000.
    pub max_connections: usize,
    /// Maximum of open connections of one peer (`--max-connections-per-peer`): an IPv4 address, or a /64 network of IPv6. A
    /// new one beyond it takes the place of the peer's oldest without credentials; if all have shown good ones, it is
    /// refused. 0 is no limit, for servers behind a proxy. Default: 2,000.
    pub max_connections_per_peer: usize,
    /// A connection on which no request has shown good credentials ends after this, once nothing is asked on it
    /// (`--unauthenticated-connection-timeout`). Default: 30 seconds.
    pub unauthenticated_connection_timeout: Duration,
    /// A client has this long for the TLS handshake. Default: ten seconds.
    pub tls_handshake_timeout: Duration,
    /// A client has this long from the handshake to its first request, and to take what is left of an answer when the time
    /// of its request is over. Default: 32 seconds, as in kube-apiserver.
    pub read_header_timeout: Duration,
    /// A connection on which nothing is asked or answered ends after this, at most twice this. Default: 90 seconds, as in
    /// kube-apiserver.
    pub idle_timeout: Duration,
    /// From when on it is kept who manages which field of an event. Default: from the first server-side apply.
    pub managed_fields: ManagedFields,
    /// Told to end, the server goes on for this long while it reports not ready, so that load balancers notice
    /// (`--shutdown-delay-duration`). Default: zero.
    pub shutdown_delay: Duration,
    /// After that, requests that still run get this long to finish. Default: 30 seconds.
    pub shutdown_grace: Duration,
    /// Which namespaces there are (`--namespaces`). Default: every valid name is one.
    pub namespaces: Namespaces,
    /// How many events are taken, of whom (`--event-rate-limit-config`). Default: all.
    pub event_rate_limit: EventRateLimitOptions,
    /// How large an event may be (`--event-size-limit`). Default: 1.5 MiB, and larger ones are refused.
    pub event_size_limit: EventSizeLimit,
    /// Which events are kept for another time than [`event_ttl`](Self::event_ttl) (`--retention-file`). Default: none.
    pub retention: RetentionRules,
}

/// From when on `metadata.managedFields` says who manages which field of an event.
///
/// kube-apiserver keeps them from the creation. That is a third more bytes in every event, stored, listed and watched,
/// for something hardly anybody does with events; so by default an event has them once it is applied. What was there
/// before is then managed by `before-first-apply`, as upstream does it for objects that were never tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManagedFields {
    /// From the first server-side apply.
    #[default]
    Apply,
    /// From the creation, as kube-apiserver does.
    Always,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            max_requests_inqueue: 6400,
            request_wait_limit: Duration::from_secs(60),
            request_bytes_max: BODY_BYTES_MAX,
            header_bytes_max: 64 * 1024,
            table_continuation_rows: 10_000,
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
            bookmark_interval: Duration::from_secs(60),
            max_connections: 10_000,
            max_connections_per_peer: 2000,
            unauthenticated_connection_timeout: Duration::from_secs(30),
            tls_handshake_timeout: Duration::from_secs(10),
            read_header_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
            managed_fields: ManagedFields::default(),
            shutdown_delay: Duration::ZERO,
            shutdown_grace: Duration::from_secs(30),
            namespaces: Namespaces::default(),
            event_rate_limit: EventRateLimitOptions::default(),
            event_size_limit: EventSizeLimit::default(),
            retention: RetentionRules::default(),
        }
    }
}

/// The state of the API, shared by all requests; see [`router`](crate::router).
pub struct ApiServer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: ApiOptions,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) access: Arc<AccessCounters>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) admission: Admission,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) reads: Places,
    pub(crate) writes: Places,
    /// Of the users themselves: what a cluster is asked must not hold up what nobody is asked about.
    pub(crate) reviews: Places,
    pub(crate) encoded: EncodedEvents,
    pub(crate) metrics: Metrics,
    pub(crate) observed: ObservedStore,
    pub(crate) remaining: Remaining,
    stopping: watch::Sender<bool>,
    ending: AtomicBool,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Serves a store to whom the authenticator lets in. What they may do is up to the default [`Authorizer`]: next to
    /// nothing, unless they are in `system:masters`; see [`with_authorizer`](Self::with_authorizer).
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        authenticator: Authenticator,
        options: ApiOptions,
    ) -> Self {
        let places = |level| {
            let count = match level {
                Level::ReadOnly => options.max_requests_inflight,
                Level::Mutating | Level::Reviews => options.max_mutating_requests_inflight,
            };
            Places::new(level, count, options.max_requests_inqueue)
        };
        Self {
            store,
            clock,
            authenticator,
            authorizer: Authorizer::default(),
            access: Arc::default(),
            connections: Arc::new(Connections::new(
                options.max_connections,
                options.max_connections_per_peer,
            )),
            admission: Admission::new(&options),
            audit: None,
            reads: places(Level::ReadOnly),
            writes: places(Level::Mutating),
            reviews: places(Level::Reviews),
            encoded: EncodedEvents::default(),
            metrics: Metrics::default(),
            observed: ObservedStore::default(),
            remaining: Remaining::default(),
            stopping: watch::Sender::new(false),
            ending: AtomicBool::new(false),
            options,
        }
    }

    /// The same server, with another say in what users may do.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: Authorizer) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Who was let in and what was allowed, counted.
    pub fn access_counters(&self) -> &AccessCounters {
        &self.access
    }

    /// Writes down in an audit log what requests write.
    #[must_use]
    pub fn with_audit_log(mut self, log: AuditLog) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// What became of the audit log's lines until now; `None` without one.
    pub fn audit_counts(&self) -> Option<AuditCounts> {
        self.audit.as_ref().map(|log| log.counts())
    }

    /// Ends all watches cleanly and reports not ready from now on. Other requests are still served.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Reports not ready from now on, and serves everything as before.
    pub fn stop_soon(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether the server is about to go, or going.
    pub(crate) fn is_stopping(&self) -> bool {
        self.ending.load(Ordering::Acquire) || *self.stopping.borrow()
    }

    /// Resolves when [`stop`](Self::stop) is called.
    pub(crate) fn stopped(&self) -> BoxFuture<'static, ()> {
        let mut stopping = self.stopping.subscribe();
        Box::pin(async move {
            // An error means the server itself is gone, which is stopping too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        })
    }

    /// The rate limits for a request that writes.
    pub(crate) fn gate<'a>(&'a self, user: &'a str, api: Api, dry_run: bool) -> Gate<'a> {
        self.admission
            .gate(&self.metrics, &*self.clock, api, user, dry_run)
    }

    /// What admission did with writes until now.
    pub fn admission_counts(&self) -> AdmissionCounts {
        self.admission.counts()
    }

    /// When an event written now ends.
    pub(crate) fn expiry(&self, event: &Event) -> UnixMillis {
        let options = &self.options;
        let ttl = options.retention.ttl(event).unwrap_or(options.event_ttl);
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        UnixMillis(self.clock.now().as_millisecond().saturating_add(ttl))
    }

    /// The stored event under a key, with its record.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) async fn stored(&self, api: Api, key: &Key) -> Result<Stored, Status> {
        let record = self
            .store
            .get(key.bytes())
            .await
            .map_err(|error: ReadError| Status::from_read(&error, None))?;
        Stored::decode(record.ok_or_else(|| Status::not_found(api, &key.name))?)
    }
}

/// An event and the record it was read from.
pub(crate) struct Stored {
    pub(crate) event: Event,
    pub(crate) record: Record,
}

impl Stored {
    pub(crate) fn decode(record: Record) -> Result<Self, Status> {
        let event = codec::decode_stored(&record.value, record.revision)
            .map_err(|why| Status::damaged(&record.key, &why))?;
        Ok(Self { event, record })
    }
}

/// Where an event is stored: `namespace/name`.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn bytes(&self) -> bytes::Bytes {
        format!("{}/{}", self.namespace, self.name).into()
    }
}
