//! The server's view of a cluster that an archive follows: the store of its events, and its
//! history. How the cluster is followed is unknown here.

use std::sync::Arc;

use bytes::Bytes;
use tidings_history::{Coverage, Exported, Following, Versions};
use tidings_store::{BoxFuture, ReadError, Store};

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

    /// From when to when the cluster is covered, its gaps, and how much is kept.
    fn coverage(&self) -> BoxFuture<'_, Result<Coverage, ReadError>>;

    /// The same for who may list the events of one namespace only: nothing in it is about others,
    /// and no number about the whole cluster. Default: there is none.
    fn coverage_of(&self, namespace: String) -> BoxFuture<'_, Result<Option<Coverage>, ReadError>> {
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
