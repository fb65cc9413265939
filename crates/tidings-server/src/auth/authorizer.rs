//! Authorization, in this order: members of `system:masters` may do everything; then the RBAC
//! policy may allow a request; then a cluster may allow it, if there is one to ask; everything else
//! is forbidden.

use std::sync::Arc;
use std::time::Instant;

use super::User;
use super::attributes::Attributes;
use super::cluster::AccessReviews;
use super::counters::AccessCounters;
use super::decision::Decision;
use super::rbac::{RbacPolicy, Rule};
use super::reviewed::Room;
use super::reviewer::{ReviewError, Reviewer};
use parking_lot::RwLock;

/// Decides what a user may do. The default allows what kube-apiserver's default policy does:
/// everything to `system:masters`, discovery and reviews of oneself to authenticated users, health
/// and version to all clients.
#[derive(Debug, Default)]
pub struct Authorizer {
    allows_everything: bool,
    policy: Arc<RwLock<Arc<RbacPolicy>>>,
    cluster: Option<AccessReviews>,
    /// The name of that cluster, if it is one of several.
    cluster_name: Option<String>,
}

/// The rules that apply to a user in a namespace.
pub(crate) struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Why there may be more rules, if so.
    pub(crate) incomplete: Option<&'static str>,
}

impl Authorizer {
    /// Allows everything to all authenticated users; kube-apiserver's `AlwaysAllow`.
    pub fn always_allow() -> Self {
        Self {
            allows_everything: true,
            ..Self::default()
        }
    }

    /// Allows what the policy allows.
    pub fn rbac(policy: RbacPolicy) -> Self {
        Self {
            policy: Arc::new(RwLock::new(Arc::new(policy))),
            ..Self::default()
        }
    }

    /// Asks a cluster about requests that the policy does not allow, as
    /// [`Authenticator::ask_cluster`] does about tokens, in turns by user. Without an answer within
    /// ten seconds, a request is refused.
    ///
    /// [`Authenticator::ask_cluster`]: super::Authenticator::ask_cluster
    #[must_use]
    pub fn ask_cluster(mut self, cluster: Arc<dyn Reviewer>) -> Self {
        self.cluster = Some(AccessReviews::new(cluster, Room::Whole));
        self
    }

    /// An authorizer that shares the policy, now and later, but asks another cluster, of this name.
    /// Its cache is a sixteenth of the size, as there may be many of these.
    pub(crate) fn asking(&self, cluster: Arc<dyn Reviewer>, name: &str) -> Self {
        Self {
            allows_everything: self.allows_everything,
            policy: Arc::clone(&self.policy),
            cluster: Some(AccessReviews::new(cluster, Room::Part)),
            cluster_name: Some(name.to_owned()),
        }
    }

    /// Replaces the policy, for requests from now on.
    pub fn replace_policy(&self, policy: RbacPolicy) {
        *self.policy.write() = Arc::new(policy);
    }

    /// Whether everything is allowed.
    pub(crate) fn allows_everything(&self) -> bool {
        self.allows_everything
    }

    fn policy(&self) -> Arc<RbacPolicy> {
        self.policy.read().clone()
    }

    /// # Errors
    /// The cluster that has to be asked does not answer. The request is not allowed then.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        asked: &Attributes<'_>,
        now: Instant,
        counters: &Arc<AccessCounters>,
    ) -> Result<Decision, ReviewError> {
        let decision = match self.decide_here(user, asked) {
            Ok(decision) => Ok(decision),
            Err(cluster) => cluster.authorize(user, asked, now, counters).await,
        };
        if let Err(error) = &decision {
            let cluster = self.cluster_name.as_deref();
            tracing::warn!(cluster, user = user.name, %error, "a permission could not be checked; the request is refused");
        }
        decision
    }

    /// Whether a cluster has to be asked.
    pub(crate) fn leaves_to_cluster(&self, user: &User, asked: &Attributes<'_>) -> bool {
        self.decide_here(user, asked).is_err()
    }

    /// # Errors
    /// The cluster to ask.
    fn decide_here(&self, user: &User, asked: &Attributes<'_>) -> Result<Decision, &AccessReviews> {
        let allowed = |reason: &str| Decision {
            allowed: true,
            denied: false,
            reason: reason.to_owned(),
        };
        if user.is_master() || self.allows_everything {
            return Ok(allowed(""));
        }
        if let Some(reason) = self.policy().allows(user, asked) {
            return Ok(allowed(reason));
        }
        match &self.cluster {
            Some(cluster) => Err(cluster),
            None => Ok(Decision::default()),
        }
    }

    /// The namespaces in which the policy gives a user some permission.
    pub(crate) fn namespaces(&self, user: &User) -> Vec<String> {
        let policy = self.policy();
        let namespaces = policy.namespaces(user).into_iter();
        namespaces.map(str::to_owned).collect()
    }

    /// Whether a cluster is asked about what the policy does not allow.
    pub(crate) fn asks_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The rules for a user in a namespace, cluster-wide ones included.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> Rules {
        if self.allows_everything {
            let all = || vec!["*".to_owned()];
            let rules = vec![
                Rule {
                    verbs: all(),
                    api_groups: all(),
                    resources: all(),
                    ..Rule::default()
                },
                Rule {
                    verbs: all(),
                    non_resource_urls: all(),
                    ..Rule::default()
                },
            ];
            return Rules {
                rules,
                incomplete: None,
            };
        }
        let policy = self.policy();
        Rules {
            rules: policy.rules(user, namespace).into_iter().cloned().collect(),
            incomplete: self
                .cluster
                .as_ref()
                .map(|_| "webhook authorizer does not support user rule resolution"),
        }
    }
}
