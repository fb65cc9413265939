//! The server's view of a cluster that an archive follows: the store of its events, and their
//! history. How the cluster is followed is unknown here.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_history::{History, PendingVersions};
use tidings_store::Store;

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
    /// All versions of its events, its coverage, and what can be done with its events.
    pub history: Arc<dyn History>,
    /// Versions that wait to be sealed into an object storage. Default: the cluster is not sealed.
    pub pending: Option<Arc<dyn PendingVersions>>,
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
    /// The namespace of the cluster's contexts in the archive's kubeconfig. Default: they name
    /// none, which clients read as `default`.
    pub namespace: Option<String>,
    /// When the client certificate ends by which the cluster is followed. Default: there is none,
    /// or its end is not known.
    pub client_certificate_ends: Option<Timestamp>,
}

impl FollowedCluster {
    /// Makes a cluster that only users of the archive's own options may read.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>, history: Arc<dyn History>) -> Self {
        let name = name.into();
        Self {
            store_identity: name.clone(),
            name,
            store,
            history,
            pending: None,
            access: None,
            pass_through: None,
            passed_user: None,
            namespace: None,
            client_certificate_ends: None,
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

/// The followed cluster of a server.
pub(crate) struct Followed {
    pub(crate) name: String,
    pub(crate) store_identity: String,
    pub(crate) history: Arc<dyn History>,
    pub(crate) pending: Option<Arc<dyn PendingVersions>>,
    pub(crate) pass_through: Option<PassThrough>,
    pub(crate) passed_user: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) client_certificate_ends: Option<Timestamp>,
    /// Whether the cluster itself reviews tokens that the archive does not know.
    pub(crate) reviews_tokens: bool,
    /// Identifies the cluster in shared caches. Never reused.
    pub(crate) number: u64,
}
