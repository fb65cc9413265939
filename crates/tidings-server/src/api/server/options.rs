//! Options of the API.

use std::time::Duration;

use crate::admission::retention::RetentionRules;
use crate::admission::{EventRateLimitOptions, Namespaces};
use crate::http::body::BODY_BYTES_MAX;

/// Options of the API. The names are those of kube-apiserver's flags where it has one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApiOptions {
    /// Retention of an event after the last write to it (`--event-ttl`). Default: one hour.
    pub event_ttl: Duration,
    /// Maximum concurrent reads, including watches while they send the
    /// existing events; 0 means no limit. Default: 400.
    pub max_requests_inflight: usize,
    /// Maximum concurrent writes and, counted separately,
    /// maximum concurrent reviews of oneself; 0 means no limit. Default: 200.
    pub max_mutating_requests_inflight: usize,
    /// Maximum waiting requests of each of these kinds; of logins to the
    /// timeline, at most 100 wait. They are served in order of arrival; further ones get 429 at
    /// once. With 0, no request waits. Default: 6,400, as many as a priority level of
    /// kube-apiserver holds.
    pub max_requests_inqueue: usize,
    /// Maximum wait of a request for its turn, and at most a quarter of
    /// the request's time; after it the request gets 429. Default: one minute, as in
    /// kube-apiserver, so that the quarter is the effective limit.
    pub request_wait_limit: Duration,
    /// Maximum bytes of a request's body; longer ones get 413. Default: 3
    /// MiB, which is kube-apiserver's limit.
    pub request_bytes_max: usize,
    /// Maximum bytes of a request's first line and headers, and 4 KiB more
    /// as in Go; longer ones get 431. From 8 KiB to 1 MiB. Each connection may hold this much
    /// memory before its client has shown credentials. Default: 64 KiB; kube-apiserver accepts 1
    /// MiB.
    pub header_bytes_max: usize,
    /// Minimum rows of each page after the first, for a Table without a selector that is requested
    /// in pages of 500 rows or more. kubectl sends at most five requests a second. With 0, a page
    /// has the requested rows. Default: 10,000.
    pub table_continuation_rows: usize,
    /// Maximum time of a request other than a watch. Default: one minute.
    pub request_timeout: Duration,
    /// Minimum time of a watch that requests no timeout; it ends after this to twice this.
    /// Default: 30 minutes.
    pub min_request_timeout: Duration,
    /// Interval of the bookmarks of a watch that allows them, also on a quiet watch. Default: one
    /// minute.
    pub bookmark_interval: Duration,
    /// Maximum open connections. A further connection replaces the oldest one without credentials,
    /// preferably an idle one, of the peer that has most of these. A tenth of the places is
    /// reserved for connections with valid credentials, and a tenth for those without, such as
    /// probes. Default: 10,000.
    pub max_connections: usize,
    /// Maximum open connections of one peer (`--max-connections-per-peer`): an IPv4 address, or a
    /// /64 network of IPv6. A further connection replaces the peer's oldest one without
    /// credentials; if all have valid credentials, it is refused. 0 means no limit, for servers
    /// behind a proxy. Default: 2,000.
    pub max_connections_per_peer: usize,
    /// Maximum time of a connection on which no request had valid credentials. It then ends once
    /// it has no open request. Default: 30 seconds.
    pub unauthenticated_connection_timeout: Duration,
    /// Maximum time of the TLS handshake. Default: ten seconds.
    pub tls_handshake_timeout: Duration,
    /// Maximum time from the handshake to a client's first request, for the body of a login to the
    /// timeline, and for a client to read the rest of an answer after the request's deadline.
    /// Default: 32 seconds, as in kube-apiserver.
    pub read_header_timeout: Duration,
    /// Minimum time after which an idle connection ends; at most twice this. Default: 90 seconds,
    /// as in kube-apiserver.
    pub idle_timeout: Duration,
    /// When the server starts to record which manager owns which field of an event. Default: at the
    /// first server-side apply.
    pub managed_fields: ManagedFields,
    /// Time for which the server continues to serve at shutdown, while it reports not ready, so
    /// that load balancers notice (`--shutdown-delay-duration`). Default: zero.
    pub shutdown_delay: Duration,
    /// Maximum time after that for open requests to finish. Default: 30 seconds.
    pub shutdown_grace: Duration,
    /// The existing namespaces (`--namespaces`). Default: every valid name is a namespace.
    pub namespaces: Namespaces,
    /// Rate limits of events (`--event-rate-limit-config`). Default: no limits.
    pub event_rate_limit: EventRateLimitOptions,
    /// Maximum bytes of an event as stored (Kubernetes' protobuf); larger events are refused.
    /// Default: 1.5 MiB. That is etcd's own default, and also the maximum.
    pub event_bytes_max: usize,
    /// Maximum followed clusters that one archive serves. Default: 100.
    pub max_clusters: usize,
    /// Whether the timeline is served, and its bounds.
    pub timeline: TimelineOptions,
    /// Whether a created event keeps the uid and the creationTimestamp with which it is sent, and
    /// has none if it is sent without. For a server that shows captures. Default: no; the server
    /// sets both.
    pub keep_identities: bool,
    /// Rules for events whose retention differs from [`event_ttl`](Self::event_ttl)
    /// (`--retention-file`). Default: no rules.
    pub retention: RetentionRules,
}

/// Options of the timeline at `/timeline`, a page that shows what happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TimelineOptions {
    /// Whether it is served (`--no-timeline`). Default: yes.
    pub enabled: bool,
    /// How long a browser stays logged in. Default: 12 hours.
    pub session_time: Duration,
    /// Maximum browsers that are logged in. One more ends the session that would expire first, of
    /// the user who has the most. Default: 1,000.
    pub max_sessions: usize,
    /// Maximum events read for one view. Of a range with more events,
    /// evenly distributed parts are read, warnings first. Default: 8,000.
    pub read_limit: usize,
    /// Interval at which the permissions of a live stream's user are checked again. Default: one
    /// minute.
    pub recheck: Duration,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            session_time: Duration::from_secs(12 * 3600),
            max_sessions: 1000,
            read_limit: 8_000,
            recheck: Duration::from_secs(60),
        }
    }
}

/// When `metadata.managedFields` begins to record which manager owns which field of an event.
///
/// kube-apiserver records them from the creation on. They make every event, as stored, listed and
/// watched, a third larger, and are hardly ever used for events. So by default an event has them
/// once it is applied. The fields it had before are then managed by `before-first-apply`, as
/// upstream does for objects that were never tracked.
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
            event_bytes_max: tidings_store::VALUE_LEN_MAX,
            max_clusters: 100,
            timeline: TimelineOptions::default(),
            keep_identities: false,
            retention: RetentionRules::default(),
        }
    }
}
