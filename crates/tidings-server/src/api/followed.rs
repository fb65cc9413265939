//! A cluster that an archive follows, as the server needs it: the store its events are kept in, and
//! what is known of them beyond their last versions. Who follows the cluster is not known here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_store::{BoxFuture, ReadError, Store, UnixMillis};

use crate::auth::Reviewer;
use crate::flow::pass_through::PassThrough;

/// A cluster to serve the kept events of; see [`start_clusters`](crate::start_clusters).
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowedCluster {
    /// Its name in paths, in the kubeconfig and in metrics: a DNS label, as a namespace's is.
    pub name: String,
    /// Which store this is. Continue tokens name it, so that those of another store are answered
    /// with 410 and never with wrong events. Default: the name.
    pub store_identity: String,
    /// Its events, under `namespace/name`, in the stored form of [`tidings_api::codec`].
    pub store: Arc<dyn Store>,
    /// What is known beyond the last versions of its events.
    pub past: Arc<dyn Past>,
    /// Who may read its events, in addition to those whom the archive's own options let in.
    pub security: ClusterSecurity,
    /// How reads that are not about events reach the cluster itself. They go with their caller's
    /// own token, if it is one that [`ClusterSecurity::authentication`] knew, and the cluster
    /// decides what they may do. Default: they do not reach it.
    pub pass_through: Option<PassThrough>,
}

impl FollowedCluster {
    /// A cluster that those may read whom the archive's own options let in.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>, past: Arc<dyn Past>) -> Self {
        let name = name.into();
        Self {
            store_identity: name.clone(),
            name,
            store,
            past,
            security: ClusterSecurity::default(),
            pass_through: None,
        }
    }
}

impl std::fmt::Debug for FollowedCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowedCluster")
            .field("name", &self.name)
            .field("security", &self.security)
            .field("pass_through", &self.pass_through)
            .finish_non_exhaustive()
    }
}

/// Whom a followed cluster lets in to its kept events. The tokens, client certificates and
/// permissions of the archive itself are valid for every cluster; what they do not know or allow,
/// the cluster is asked about.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClusterSecurity {
    /// Asked with a `TokenReview` about tokens that the archive does not know. Default: the
    /// archive's [`authentication_cluster`](crate::SecurityOptions::authentication_cluster).
    pub authentication: Option<Arc<dyn Reviewer>>,
    /// Asked with a `SubjectAccessReview` about what the archive's permissions do not allow.
    /// Default: the archive's
    /// [`authorization_cluster`](crate::SecurityOptions::authorization_cluster).
    pub authorization: Option<Arc<dyn Reviewer>>,
}

impl ClusterSecurity {
    /// The cluster itself is asked about both.
    pub fn of_cluster(cluster: Arc<dyn Reviewer>) -> Self {
        Self {
            authentication: Some(Arc::clone(&cluster)),
            authorization: Some(cluster),
        }
    }
}

/// What an archive knows of a cluster's events beyond their last versions.
pub trait Past: Send + Sync + 'static {
    /// The versions of the event under a key (`namespace/name`), newest first: at most `limit`, and
    /// no more once their values together reach a megabyte or so, as an answer is made of all of
    /// them at once. `after` is [`Versions::more`] of the page before. `None`: no such event.
    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>>;

    /// From when to when the cluster is covered, its gaps, and how much is kept: a JSON object,
    /// which is served as it is.
    fn coverage(&self) -> BoxFuture<'_, Result<serde_json::Value, ReadError>>;

    /// How the following goes. It is asked often, by health checks and metrics, and waits for
    /// nothing.
    fn following(&self) -> Following;
}

/// A page of the versions of one event.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The versions, newest first.
    pub versions: Vec<ObservedVersion>,
    /// Where the next page begins, if there is one.
    pub more: Option<u64>,
}

/// An event as it was once observed.
#[derive(Clone, Debug)]
pub struct ObservedVersion {
    /// The event, in the stored form of [`tidings_api::codec`].
    pub value: Bytes,
    /// Its `metadata.resourceVersion` at its source.
    pub source_version: String,
    /// When the archive saw it.
    pub observed_at: UnixMillis,
}

/// How the following of a cluster goes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Following {
    /// What is being done, in a word or two: `watching`, `listing`, `waiting`. One of a few, as
    /// metrics have it as a label.
    pub state: &'static str,
    /// Time since the archive last knew that it missed nothing; `None` before the first time.
    pub since_progress: Option<Duration>,
    /// What is wrong, in one line; `None` when all is well. It is told to known users only.
    pub why: Option<String>,
    /// Events that are kept.
    pub events: u64,
    /// Versions of events that are kept.
    pub versions: u64,
    /// Bytes that they take on disk.
    pub stored_bytes: u64,
    /// Changes received from the cluster since the start.
    pub received: u64,
    /// Spans of time in which versions may be missing.
    pub gaps: u64,
}

impl Following {
    /// All is well, as far as it goes.
    pub fn new(state: &'static str) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }
}

/// What the server of a followed cluster knows of it.
pub(crate) struct Followed {
    pub(crate) name: String,
    pub(crate) store_identity: String,
    pub(crate) past: Arc<dyn Past>,
    pub(crate) pass_through: Option<PassThrough>,
    /// What stands for the cluster where its name would be long. It is never given again.
    pub(crate) number: u64,
}
