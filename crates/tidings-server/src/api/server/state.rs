//! The state that all request handlers share: store, clock, options, authentication and
//! authorization.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_pb::api::core::v1::Event;
use tidings_history::Capabilities;
use tidings_store::{BoxFuture, Revision, Store, UnixMillis};
use tokio::sync::watch;

use super::encoded::EncodedEvents;
use super::followed::{Followed, FollowedCluster};
use super::limits::Limits;
use super::options::ApiOptions;
use super::remaining::Remaining;
use super::statistics::ObservedStore;
use crate::admission::{Admission, AdmissionCounts, Gate};
use crate::audit::{AuditCounts, AuditLog};
use crate::auth::{AccessCounters, Authenticator, Authorizer};
use crate::clock::Clock;
use crate::flow::connections::Connections;
use crate::http::continuation::Continuation;
use crate::http::status::Status;
use crate::http::stored::{Key, Stored};
use crate::metrics::Metrics;
use tidings_api::codec::Api;

/// The state of the API, shared by all requests; see [`router`](crate::router).
pub struct ApiServer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Arc<ApiOptions>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) access: Arc<AccessCounters>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) encoded: Arc<EncodedEvents>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observed: ObservedStore,
    pub(crate) remaining: Arc<Remaining>,
    /// The cluster whose events these are, if an archive follows it.
    pub(crate) followed: Option<Followed>,
    /// The store's identity, if known. It is unknown for a followed cluster.
    pub(crate) identity: Option<String>,
    stopping: Arc<Stopping>,
    /// Set when only this server ends.
    removed: watch::Sender<bool>,
}

/// Whether the server is ending, now or soon.
#[derive(Debug)]
struct Stopping {
    now: watch::Sender<bool>,
    soon: AtomicBool,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Serves a store to the users that the authenticator recognizes. The default [`Authorizer`]
    /// allows them almost nothing, unless they are in `system:masters`; see
    /// [`with_authorizer`](Self::with_authorizer).
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        authenticator: Authenticator,
        options: ApiOptions,
    ) -> Self {
        Self {
            store,
            clock,
            authenticator: Arc::new(authenticator),
            authorizer: Arc::default(),
            access: Arc::default(),
            connections: Arc::new(Connections::new(
                options.max_connections,
                options.max_connections_per_peer,
            )),
            admission: Arc::new(Admission::new(
                options.namespaces.clone(),
                options.event_bytes_max,
                &options.event_rate_limit,
            )),
            audit: None,
            limits: Arc::new(Limits::new(&options)),
            encoded: Arc::default(),
            metrics: Arc::default(),
            observed: ObservedStore::default(),
            remaining: Arc::default(),
            followed: None,
            identity: None,
            stopping: Arc::new(Stopping {
                now: watch::Sender::new(false),
                soon: AtomicBool::new(false),
            }),
            removed: watch::Sender::new(false),
            options: Arc::new(options),
        }
    }

    /// Makes the server of a followed cluster's events. It shares all bounded resources with this
    /// server, and also counters, the audit log and the shutdown. If the cluster's options say so,
    /// it reviews its own users. `number` identifies it in shared caches.
    pub(crate) fn of_cluster(&self, cluster: FollowedCluster, number: u64) -> Self {
        let FollowedCluster {
            name,
            store_identity,
            store,
            history,
            pending,
            access,
            pass_through,
            passed_user,
            namespace,
            client_certificate_ends,
        } = cluster;
        let reviews_tokens = access.is_some();
        Self {
            store,
            clock: Arc::clone(&self.clock),
            options: Arc::clone(&self.options),
            authenticator: self.authenticator.of_cluster(access.clone(), &name),
            authorizer: Arc::new(self.authorizer.of_cluster(access, &name)),
            access: Arc::clone(&self.access),
            connections: Arc::clone(&self.connections),
            admission: Arc::clone(&self.admission),
            audit: self.audit.clone(),
            limits: Arc::clone(&self.limits),
            encoded: Arc::clone(&self.encoded),
            metrics: Arc::clone(&self.metrics),
            observed: ObservedStore::default(),
            remaining: Arc::clone(&self.remaining),
            followed: Some(Followed {
                name,
                store_identity,
                history,
                pending,
                pass_through,
                passed_user,
                namespace,
                client_certificate_ends,
                reviews_tokens,
                number,
            }),
            identity: None,
            stopping: Arc::clone(&self.stopping),
            removed: watch::Sender::new(false),
        }
    }

    /// The same server with another authorizer.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: Authorizer) -> Self {
        self.authorizer = Arc::new(authorizer);
        self
    }

    /// The same server; the uids of its namespaces derive from this identity of its store.
    #[must_use]
    pub fn with_identity(mut self, identity: Option<String>) -> Self {
        self.identity = identity;
        self
    }

    /// Counters of authentication and authorization.
    pub fn access_counters(&self) -> &AccessCounters {
        &self.access
    }

    /// The same server with an audit log of its writes.
    #[must_use]
    pub fn with_audit_log(mut self, log: AuditLog) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// Counts of the audit log's lines; `None` without an audit log.
    pub fn audit_counts(&self) -> Option<AuditCounts> {
        self.audit.as_ref().map(|log| log.counts())
    }

    /// Ends all watches cleanly and reports not ready. Other requests are still served.
    pub fn stop(&self) {
        self.stopping.now.send_replace(true);
    }

    /// Reports not ready, but serves all requests.
    pub fn stop_soon(&self) {
        self.stopping.soon.store(true, Ordering::Release);
    }

    /// Ends the watches of this server only.
    pub(crate) fn remove(&self) {
        self.removed.send_replace(true);
    }

    /// Whether reads of other kinds than events are proxied to the followed cluster.
    pub(crate) fn passes_through(&self) -> bool {
        let followed = self.followed.as_ref();
        followed.is_some_and(|followed| followed.pass_through.is_some())
    }

    /// What can be done with the events of a followed cluster, or with a server's own.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let followed = self.followed.as_ref();
        followed.map_or_else(Capabilities::default, |followed| {
            followed.history.capabilities()
        })
    }

    /// The store's identity for continue tokens; empty if there is only one store.
    pub(crate) fn store_identity(&self) -> &str {
        let followed = self.followed.as_ref();
        followed.map_or("", |followed| &followed.store_identity)
    }

    /// A continue token for a list of this store.
    pub(crate) fn continue_token(&self, revision: Option<Revision>, after: String) -> String {
        let continuation = Continuation {
            revision,
            after,
            store: self.store_identity().to_owned(),
        };
        continuation.encode()
    }

    /// Whether the server is ending, now or soon.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.soon.load(Ordering::Acquire)
            || *self.stopping.now.borrow()
            || *self.removed.borrow()
    }

    /// Resolves when [`stop`](Self::stop) is called, or this server is removed.
    pub(crate) fn stopped(&self) -> BoxFuture<'static, ()> {
        let mut stopping = self.stopping.now.subscribe();
        let mut removed = self.removed.subscribe();
        Box::pin(async move {
            // An error means that the server itself was dropped, which is an end, too.
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => {}
                _ = removed.wait_for(|removed| *removed) => {}
            }
        })
    }

    /// The rate limits for a request that writes.
    pub(crate) fn gate<'a>(&'a self, user: &'a str, dry_run: bool) -> Gate<'a> {
        self.admission.gate(&*self.clock, user, dry_run)
    }

    /// Counts of writes by their admission.
    pub fn admission_counts(&self) -> AdmissionCounts {
        self.admission.counts()
    }

    /// The time at which an event written now expires.
    pub(crate) fn expiry(&self, event: &Event) -> UnixMillis {
        let options = &self.options;
        let ttl = options.retention.ttl(event).unwrap_or(options.event_ttl);
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        UnixMillis(self.clock.now().as_millisecond().saturating_add(ttl))
    }

    /// Reads the event under a key, with its record.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) async fn stored(&self, api: Api, key: &Key) -> Result<Stored, Status> {
        let record = self.store.get(key.bytes()).await?;
        Stored::decode(record.ok_or_else(|| Status::not_found(api, &key.name))?)
    }
}
