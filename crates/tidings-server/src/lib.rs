//! The Kubernetes API for Events over a [`tidings_store::Store`]. To kubectl, client-go and kube-rs
//! it is a kube-apiserver with a single kind.
//!
//! # A whole server
//!
//! [`start()`] opens the embedded store in a folder, makes a certificate and a token at the first
//! start, and listens:
//!
//! ```
//! use tidings_server::{StartOptions, start};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let mut options = StartOptions::new(folder.path());
//! options.secure_port = 0; // a free one
//! let server = start(options).await?;
//! println!("kubectl --kubeconfig {} get events -A", server.kubeconfig().display());
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Only the API
//!
//! [`router`] is the same API as a service without a socket, over any store, with any clock and any
//! tokens: put it behind a listener with [`serve()`], or call it directly from a test.
//!
//! ```
//! use std::sync::Arc;
//! use tidings_server::{ApiOptions, ApiServer, Authenticator, Token, User, clock::SystemClock, router};
//! use tidings_store::memory::MemoryStore;
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ann = Token { token: "s3cret".into(), user: User::new("ann", "1", ["system:masters".to_owned()]) };
//! let server = ApiServer::new(
//!     Arc::new(MemoryStore::default()),
//!     Arc::new(SystemClock),
//!     Authenticator::new(vec![ann]),
//!     ApiOptions::default(),
//! );
//! let request = http::Request::get("/api/v1/events").header("authorization", "Bearer s3cret");
//! let response = router(Arc::new(server)).oneshot(request.body(axum::body::Body::empty())?).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # What it serves
//!
//! - `v1` and `events.k8s.io/v1` Events, two views of one stored object: get, list, watch, create,
//!   update (which also creates), JSON, merge and strategic merge patch, server-side apply, delete,
//!   deletecollection; dry runs, field validation, generated names.
//! - Selectors, consistent pages, resource versions, watch bookmarks and the list-then-watch
//!   stream.
//! - JSON as Go writes it, YAML, Kubernetes' protobuf, `Table` and `PartialObjectMetadata`.
//! - Users by token, client certificate or a cluster's `TokenReview`; permissions by RBAC from a
//!   file or a cluster's `SubjectAccessReview`; impersonation, and reviews of oneself. Without any
//!   of these only `system:masters` may access events, and anonymous clients see health and
//!   version, as with kube-apiserver's default policy.
//! - Discovery (with the names of the common kinds, so that `kubectl events --for deploy/web`
//!   works), OpenAPI as far as kubectl reads it, health, metrics. Long answers are compressed
//!   for clients that accept it.
//!
//! # An archive
//!
//! [`start_clusters`] serves the stored events of several clusters that other code follows, each
//! with its whole API at `/clusters/NAME`: events can be read and deleted, not written. The trait
//! [`History`](tidings_history::History) gives access to an archive's versions before the last.
//!
//! # What it does not do
//!
//! - Namespaces are not objects but a setting ([`Namespaces`]); by default every valid name is a
//!   namespace.

mod admission;
mod api;
mod archive;
mod audit;
mod auth;
pub mod clock;
mod flow;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod mcp;
mod metrics;
mod start;
mod timeline;

pub use admission::retention::{RetentionRules, parse_days};
pub use admission::{
    AdmissionCounts, EventLimit, EventRateLimitOptions, LimitType, Namespace, Namespaces,
    NamespacesError,
};
pub use api::documents::VERSION;
pub use api::router;
pub use api::server::{ApiOptions, ApiServer, FollowedCluster, ManagedFields, TimelineOptions};
pub use archive::{ClusterError, ServedFeeds};
pub use audit::{AuditCounts, AuditLevel, AuditLog, AuditOptions};
pub use auth::certificate::certificate_end;
pub use auth::settings::SettingsError;
pub use auth::{
    AccessCounters, Authenticator, AuthorityError, Authorizer, Count, RbacError, RbacPolicy,
    RequestHeader, RequestHeaderError, ReviewError, Reviewer, Token, TokenFileError, User,
    UserInfo, parse_token_file,
};
pub use flow::pass_through::{PassThrough, PassThroughError, PassThroughOptions};
pub use http::duration::parse_go_duration;
pub use http::moment::{parse_duration, parse_moment};
pub use start::clusters::{RunningClusters, start_clusters};
pub use start::error::StartError;
pub use start::inside::{source_of_clusters, source_of_server};
pub use start::loopback::{RunningTimeline, start_timeline, start_timeline_of_server};
pub use start::security::{AggregatedOptions, AuthorizationMode, SecurityOptions};
pub use start::serve::serve;
pub use start::storage::Storage;
#[cfg(feature = "etcd")]
pub use start::storage::describe;
pub use start::tls::{Tls, TlsError};
pub use start::{Aggregation, Running, StartOptions, start, start_with_store};
pub use tidings_api::codec::{CLUSTER_LABEL, PAST_API_SERVICE, PAST_GROUP, PAST_VERSION};
pub use tidings_api::table::human_duration;
pub use timeline::timeline;
