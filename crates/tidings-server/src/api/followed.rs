//! The server's view of a cluster that an archive follows: the store of its events, and its
//! history. How the cluster is followed is unknown here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_store::{BoxFuture, ReadError, Store, UnixMillis};

use crate::auth::Reviewer;
use crate::flow::pass_through::PassThrough;

/// A followed cluster, whose stored events are served; see
/// [`start_clusters`](crate::start_clusters).
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowedCluster {
    /// The cluster's name in paths, in the kubeconfig and in metrics: a DNS label, like a
    /// namespace's name.
    pub name: String,
    /// Identifies the store in continue tokens, so that tokens of another store are answered with
    /// 410 and never with wrong events. Default: the name.
    pub store_identity: String,
    /// The cluster's events, under `namespace/name`, in the stored form of [`tidings_api::codec`].
    pub store: Arc<dyn Store>,
    /// Earlier versions of the cluster's events, and its coverage.
    pub past: Arc<dyn Past>,
    /// Reviews tokens that the archive itself does not know (`TokenReview`), and the permissions of
    /// their users (`SubjectAccessReview`). Only the cluster decides about these users: a role that
    /// the archive's own options give to a user or group does not apply to users of the same name
    /// in the cluster. The cluster is not asked about users of the archive's own options, who are
    /// valid for every cluster. Default: only those users have access.
    pub access: Option<Arc<dyn Reviewer>>,
    /// The client of the cluster itself, for reads of other kinds than events. They are proxied
    /// with their caller's own token, if [`access`](Self::access) knew it, and the cluster
    /// authorizes them. Default: they are not proxied.
    pub pass_through: Option<PassThrough>,
    /// The name, in the cluster's own kubeconfigs, of the user whose token is sent on. The
    /// archive's kubeconfig has only this name, in its context `archive-NAME`, which works if both
    /// kubeconfigs are read together. Default: that context has the archive's own token, which is
    /// not sent on.
    pub passed_user: Option<String>,
    /// Whether the events are sealed: the cluster is not followed here, and nothing is deleted.
    /// They can be watched only if [`Past::is_watched`] says so. Default: no.
    pub is_sealed: bool,
}

impl FollowedCluster {
    /// Makes a cluster that only users of the archive's own options may read.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>, past: Arc<dyn Past>) -> Self {
        let name = name.into();
        Self {
            store_identity: name.clone(),
            name,
            store,
            past,
            access: None,
            pass_through: None,
            passed_user: None,
            is_sealed: false,
        }
    }
}

impl std::fmt::Debug for FollowedCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowedCluster")
            .field("name", &self.name)
            .field("access", &self.access)
            .field("pass_through", &self.pass_through)
            .finish_non_exhaustive()
    }
}

/// An archive's history of a cluster's events, in addition to their last versions.
pub trait Past: Send + Sync + 'static {
    /// The versions of the event under a key (`namespace/name`), newest first. Returns at most
    /// `limit`, and stops once their values reach about a megabyte, because an answer is made of
    /// all of them at once. `after` is [`Versions::more`] of the previous page. `None` if there is
    /// no such event.
    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>>;

    /// The coverage of the cluster, its gaps, and its counts, as a JSON object that is served
    /// unchanged.
    fn coverage(&self) -> BoxFuture<'_, Result<serde_json::Value, ReadError>>;

    /// The coverage for a user who may list the events of one namespace only: it contains nothing
    /// about other namespaces, and no count of the whole cluster. Default: there is none.
    fn coverage_of(
        &self,
        namespace: String,
    ) -> BoxFuture<'_, Result<Option<serde_json::Value>, ReadError>> {
        drop(namespace);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A page of all stored versions, as JSON Lines. Without a place it is the first page; later
    /// ones begin at [`Exported::more`]. `0/NAMESPACE/NAME` is the place at which an event begins.
    /// `None` if `place` is invalid.
    fn export(&self, place: Option<String>) -> BoxFuture<'_, Result<Option<Exported>, ReadError>>;

    /// A file of versions that are pending for object storage: those of the feed's entries from
    /// number `from` on and, if `to` is given, before `to`. Default: the cluster is not sealed.
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Waiting, ReadError>> {
        let _ = (from, to);
        Box::pin(std::future::ready(Ok(Waiting::NotSealed)))
    }

    /// The state of following. Called often, by health checks and metrics, so it must not block.
    fn following(&self) -> Following;

    /// For a sealed archive: whether its store receives new versions, so that it can be watched.
    /// Default: no.
    fn is_watched(&self) -> bool {
        false
    }

    /// For a sealed archive: the address at which the cluster's events can be watched, if it is
    /// known. Default: unknown.
    fn watched_at(&self) -> Option<String> {
        None
    }

    /// For a sealed archive that cannot be watched: the option with which it could be. Default:
    /// there is none.
    fn watched_with(&self) -> Option<&'static str> {
        None
    }

    /// Counts of requests to an object storage; `None`, the default, if there is none.
    fn asked(&self) -> Option<Asked> {
        None
    }
}

/// Pending versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// A Parquet file of pending versions.
    File(Vec<u8>),
    /// Some of the requested entries are sealed, and no longer available here.
    Sealed,
    /// The cluster is not sealed.
    NotSealed,
}

/// Counts of requests to an object storage since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// All requests.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// A page of the versions of one event.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The versions, newest first.
    pub versions: Vec<ObservedVersion>,
    /// The position of the next page, if there is one.
    pub more: Option<u64>,
    /// The event's end at its source, if it was detected.
    pub ended: Option<Ended>,
}

/// The end of an event at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the end was detected.
    pub at: UnixMillis,
    /// If nothing was followed then: the time until which the event existed at least.
    pub after: Option<UnixMillis>,
}

/// A page of an export.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// Whole lines.
    pub lines: Vec<u8>,
    /// The place of the next page, if there is one.
    pub more: Option<String>,
}

/// One version of an event.
#[derive(Clone, Debug)]
pub struct ObservedVersion {
    /// The event, in the stored form of [`tidings_api::codec`].
    pub value: Bytes,
    /// The version's `metadata.resourceVersion` at its source.
    pub source_version: String,
    /// When the archive received the version.
    pub observed_at: UnixMillis,
}

/// Counts of events that were deleted before their expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events deleted to keep the quota.
    pub by_quota: u64,
    /// Events that expired at once when retention rules changed.
    pub by_rules: u64,
}

/// The state of the following of a cluster.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Following {
    /// The current activity, such as `watching`, `listing` or `waiting`. One of a few values,
    /// because it is a label of metrics.
    pub state: &'static str,
    /// Time since the cluster last answered or, before that, since the first attempt; `None` if it
    /// is not followed.
    pub since_progress: Option<Duration>,
    /// The problem, in one line; `None` if there is no problem. Shown to authenticated users only.
    pub why: Option<String>,
    /// Stored events.
    pub events: u64,
    /// Stored versions of events.
    pub versions: u64,
    /// Bytes of the cluster's events on disk.
    pub stored_bytes: u64,
    /// Changes received from the cluster since the start.
    pub received: u64,
    /// Gaps: periods in which versions may be missing.
    pub gaps: u64,
    /// Versions of events that could not be stored since the start, by cause. Causes are a few
    /// words, because they are a label of metrics. Empty for a sealed archive.
    pub not_kept: Vec<(&'static str, u64)>,
    /// When following began, if it is known.
    pub covered_since: Option<UnixMillis>,
    /// Approximately when the oldest stored event was last seen, if there is one.
    pub kept_since: Option<UnixMillis>,
    /// Events deleted to keep the quota, and events that expired at once when rules changed, since
    /// the folder was made; `None` for a sealed archive.
    pub taken: Option<Taken>,
    /// How far the machine's clock is ahead of the followed clusters' clocks; zero if it is not.
    /// `None` for a sealed archive.
    pub clock_ahead: Option<Duration>,
    /// The time until which no version is missing except in gaps, if it is known.
    pub complete_until: Option<UnixMillis>,
    /// Approximate number of versions that are pending for object storage; `None` if the cluster
    /// was never sealed. For a sealed archive: how many pending versions are shown.
    pub unsealed: Option<u64>,
    /// Why the last attempt to seal failed, in one line; `None` if it succeeded, or there was none.
    /// Shown to authenticated users only.
    pub not_sealed: Option<String>,
    /// Whether sealing stopped because the data folder is older than its sealed versions: it was
    /// restored from a copy.
    pub is_older_than_sealed: bool,
    /// Bytes of the newest manifest of the cluster's archive on object storage; 0 if unknown.
    pub manifest_bytes: u64,
    /// For a sealed archive that requests pending versions: the time since the last answer; `None`
    /// if it makes no requests, or got no answer yet.
    pub since_answer: Option<Duration>,
}

impl Following {
    /// A state without problems.
    pub fn new(state: &'static str) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// All problems in one text, if there are any.
    pub(crate) fn problem(&self) -> Option<String> {
        let not_sealed = self.not_sealed.as_ref();
        let not_sealed = not_sealed.map(|why| format!("not sealed: {why}"));
        let all: Vec<String> = self.why.clone().into_iter().chain(not_sealed).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The followed cluster of a server.
pub(crate) struct Followed {
    pub(crate) name: String,
    pub(crate) store_identity: String,
    pub(crate) past: Arc<dyn Past>,
    pub(crate) pass_through: Option<PassThrough>,
    pub(crate) passed_user: Option<String>,
    pub(crate) is_sealed: bool,
    /// Whether the cluster itself reviews tokens that the archive does not know.
    pub(crate) reviews_tokens: bool,
    /// Identifies the cluster in shared caches. Never reused.
    pub(crate) number: u64,
}
