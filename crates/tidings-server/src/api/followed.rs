//! The server's view of a cluster that an archive follows: the store of its events, and their
//! earlier versions. How the cluster is followed is unknown here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidings_store::{BoxFuture, ReadError, Store, UnixMillis};

use crate::auth::Reviewer;
use crate::flow::pass_through::PassThrough;

/// A followed cluster, whose kept events are served; see [`start_clusters`](crate::start_clusters).
#[derive(Clone)]
#[non_exhaustive]
pub struct FollowedCluster {
    /// Its name in paths, in the kubeconfig and in metrics: a DNS label, as a namespace's is.
    pub name: String,
    /// Identifies the store in continue tokens, so that tokens of another store are answered with
    /// 410 and never with wrong events. Default: the name.
    pub store_identity: String,
    /// Its events, under `namespace/name`, in the stored form of [`tidings_api::codec`].
    pub store: Arc<dyn Store>,
    /// Earlier versions of its events, and its coverage.
    pub past: Arc<dyn Past>,
    /// Asked about tokens that the archive itself does not know (`TokenReview`), and what the users
    /// whom it then knows may do (`SubjectAccessReview`). Nothing else decides about these: a role
    /// that the archive's own options give to a user or group is not given to a namesake in the
    /// cluster. Nor is the cluster asked about users of the archive's own options, who are valid
    /// for every cluster. Default: only these are let in.
    pub access: Option<Arc<dyn Reviewer>>,
    /// The connection to the cluster itself, for reads that are not about events. These are passed
    /// on with their caller's own token, if [`access`](Self::access) knew it, and the cluster
    /// authorizes them. Default: they are not passed on.
    pub pass_through: Option<PassThrough>,
    /// The name, in kubeconfigs of the cluster itself, of the user whose token is passed on. The
    /// archive's kubeconfig has only the name, in its context `archive-NAME`, which can be used
    /// where both are read. Default: that context has the archive's own token, which is not passed
    /// on.
    pub passed_user: Option<String>,
    /// Whether these are events that were sealed: the cluster is not followed here, and nothing is
    /// deleted; they are watched only if [`Past::is_watched`] says so. Default: no.
    pub is_sealed: bool,
}

impl FollowedCluster {
    /// A cluster that only users of the archive's own options may read.
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

/// An archive's knowledge of a cluster's events, in addition to their last versions.
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

    /// The same for who may list the events of one namespace only: nothing in it is about others,
    /// and no number about the whole cluster. Default: there is none.
    fn coverage_of(
        &self,
        namespace: String,
    ) -> BoxFuture<'_, Result<Option<serde_json::Value>, ReadError>> {
        drop(namespace);
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A page of everything that is kept, as JSON Lines; the first one without a place, and then
    /// from [`Exported::more`] on. `0/NAMESPACE/NAME` is the place where an event begins. `None`:
    /// that is not a place.
    fn export(&self, place: Option<String>) -> BoxFuture<'_, Result<Option<Exported>, ReadError>>;

    /// A file of the versions that wait to be sealed into an object storage: of the entries of
    /// their journal from a number on, and before `to` if it is given. Default: the cluster is not
    /// sealed.
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Waiting, ReadError>> {
        let _ = (from, to);
        Box::pin(std::future::ready(Ok(Waiting::NotSealed)))
    }

    /// The state of the following. Called often, by health checks and metrics, so it must not
    /// block.
    fn following(&self) -> Following;

    /// Of a sealed archive: whether its store is told what is new, so that it can be watched.
    /// Default: no.
    fn is_watched(&self) -> bool {
        false
    }

    /// Of a sealed archive: the address where the cluster's events can be watched, if it is known.
    /// Default: it is not.
    fn watched_at(&self) -> Option<String> {
        None
    }

    /// Of a sealed archive: the option that the server would have to be started with so that it can
    /// be watched, if it is not. Default: there is none.
    fn watched_with(&self) -> Option<&'static str> {
        None
    }

    /// What was asked of an object storage; `None`, which is the default, if there is none.
    fn asked(&self) -> Option<Asked> {
        None
    }
}

/// What waits to be sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// A Parquet file of it.
    File(Vec<u8>),
    /// Some of what was asked for is sealed, and not known as such any more.
    Sealed,
    /// Nothing of the cluster is sealed.
    NotSealed,
}

/// What was asked of an object storage since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Requests.
    pub requests: u64,
    /// Those that were not answered as they should be.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// A page of the versions of one event.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The versions, newest first.
    pub versions: Vec<ObservedVersion>,
    /// Where the next page begins, if there is one.
    pub more: Option<u64>,
    /// The event's end at its source, if it was noted.
    pub ended: Option<Ended>,
}

/// The end of an event at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it was noted.
    pub at: UnixMillis,
    /// If nothing was followed then: until when the event lived at least.
    pub after: Option<UnixMillis>,
}

/// A page of an export.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// Whole lines.
    pub lines: Vec<u8>,
    /// Where the next page begins, if there is one.
    pub more: Option<String>,
}

/// An event as it was once observed.
#[derive(Clone, Debug)]
pub struct ObservedVersion {
    /// The event, in the stored form of [`tidings_api::codec`].
    pub value: Bytes,
    /// Its `metadata.resourceVersion` at its source.
    pub source_version: String,
    /// When the archive received it.
    pub observed_at: UnixMillis,
}

/// Events that were kept, and are not any more before their time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Those that were deleted to keep the quota.
    pub by_quota: u64,
    /// Those whose time was over at once when the rules of retention were changed.
    pub by_rules: u64,
}

/// The state of the following of a cluster.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Following {
    /// The current activity, such as `watching`, `listing` or `waiting`. One of a few values,
    /// because it is a label of metrics.
    pub state: &'static str,
    /// Time since anything was heard of the cluster, or since it is tried; `None` if it is not
    /// followed.
    pub since_progress: Option<Duration>,
    /// The problem, in one line; `None` if there is no problem. Shown to authenticated users only.
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
    /// Versions of events that could not be kept since the start, by causes: a few words, because
    /// they are a label of metrics. Empty for a sealed archive.
    pub not_kept: Vec<(&'static str, u64)>,
    /// Since when the cluster is followed, if it is known.
    pub covered_since: Option<UnixMillis>,
    /// About when the oldest event that is kept was last seen, if there is one.
    pub kept_since: Option<UnixMillis>,
    /// Events that were deleted to keep the quota, and those that changed rules ended at once,
    /// since the folder was made; `None` for a sealed archive.
    pub taken: Option<Taken>,
    /// By how much the clock is ahead of what the followed clusters say, zero if it is not; `None`
    /// for a sealed archive.
    pub clock_ahead: Option<Duration>,
    /// Up to when nothing is missing but for the gaps, if it is known.
    pub complete_until: Option<UnixMillis>,
    /// About how many versions wait to be sealed into an object storage; `None` if the cluster
    /// never was sealed. Of a sealed archive: how many are shown that wait.
    pub unsealed: Option<u64>,
    /// Why the last attempt to seal what waits failed, in one line; `None` if it did not, or none
    /// was made. Shown to authenticated users only.
    pub not_sealed: Option<String>,
    /// Whether nothing is sealed as the data folder is older than what it sealed: it was restored
    /// from a copy.
    pub is_older_than_sealed: bool,
    /// Bytes of the newest manifest of the cluster's archive on object storage; 0 if that is not
    /// known.
    pub manifest_bytes: u64,
    /// Of a sealed archive that asks for what waits: how long ago that was last answered; `None` if
    /// it does not ask, or was not answered yet.
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

    /// All that is wrong, if something is.
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
    /// Whether it is asked itself about tokens that the archive does not know.
    pub(crate) reviews_tokens: bool,
    /// Identifies the cluster in shared caches. Never reused.
    pub(crate) number: u64,
}
