//! Authorization.
//!
//! - Users that the server itself knows: members of `system:masters` may do everything. Then the
//!   RBAC policy may allow a request. Then a cluster may allow it, if there is one to ask.
//!   Everything else is forbidden.
//! - Users that a followed cluster knows may do what the built-in policy allows to every
//!   authenticated user, and what that cluster allows. The RBAC policy is about other users, even
//!   if they have the same name.
//! - In another cluster than their own, users of the home cluster may do what bindings allow that
//!   are about this cluster. Neither their groups nor their permissions at home count here.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use super::attributes::Attributes;
use super::cluster::AccessReviews;
use super::counters::AccessCounters;
use super::decision::Decision;
use super::rbac::{RbacPolicy, Rule};
use super::reviewed::Room;
use super::reviewer::{ReviewError, Reviewer};
use super::{AUTHENTICATED, User};
use parking_lot::RwLock;

/// Decides what a user may do. The default allows what kube-apiserver's default policy allows:
/// everything to `system:masters`, discovery and reviews of oneself to authenticated users, health
/// and version to all clients.
#[derive(Debug, Default)]
pub struct Authorizer {
    allows_everything: bool,
    policy: Arc<RwLock<Arc<RbacPolicy>>>,
    /// The cluster that is asked about users that the server itself knows.
    cluster: Option<Arc<AccessReviews>>,
    /// The only followed cluster for which `cluster` is asked; `None` for all.
    home: Option<Arc<str>>,
    followed: Option<Followed>,
}

/// A followed cluster, which alone decides about its users.
#[derive(Debug)]
struct Followed {
    name: String,
    /// `None` if the cluster is not asked.
    reviews: Option<AccessReviews>,
}

/// The built-in policy, and two users: one who has only the permissions of every authenticated
/// user, and one who has those of all other clients.
static BUILT_IN: LazyLock<(RbacPolicy, [User; 2])> = LazyLock::new(|| {
    let users = [User::new("", "", []), User::anonymous()];
    (RbacPolicy::default(), users)
});

/// The built-in policy, and whom it sees in a followed cluster's user.
fn built_in(user: &User) -> (&'static RbacPolicy, &'static User) {
    let (policy, [authenticated, other]) = &*BUILT_IN;
    // The home cluster's API server also proxies requests of clients that it does not know.
    let is_known = user.groups.iter().any(|group| group == AUTHENTICATED);
    (policy, if is_known { authenticated } else { other })
}

/// The rules that apply to a user in a namespace.
pub(crate) struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// The reason why there may be more rules; `None` if these are all.
    pub(crate) incomplete: Option<&'static str>,
}

impl Authorizer {
    /// Allows everything to all authenticated users, as kube-apiserver's `AlwaysAllow` does.
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

    /// Asks a cluster about requests that the policy does not allow, in turns by user. It does so
    /// as [`Authenticator::ask_cluster`] does about tokens. Without an answer within ten seconds,
    /// the request is refused. A cluster that is not [verified](Reviewer::is_verified) is not
    /// asked.
    ///
    /// [`Authenticator::ask_cluster`]: super::Authenticator::ask_cluster
    #[must_use]
    pub fn ask_cluster(mut self, cluster: Arc<dyn Reviewer>) -> Self {
        let asked = Some(cluster).filter(|cluster| cluster.is_verified());
        self.cluster = asked.map(|cluster| Arc::new(AccessReviews::new(cluster, Room::Whole)));
        self
    }

    /// The cluster that is asked is the followed cluster of this name. Its permissions grant
    /// nothing in other followed clusters.
    #[must_use]
    pub(crate) fn at_home(mut self, home: &str) -> Self {
        self.home = Some(home.into());
        self
    }

    /// An authorizer that decides the same for the followed cluster of this name, and asks that
    /// cluster about its users, if there is a way to. Changes of the policy apply to both. The
    /// cache is a sixteenth of the usual size, because there may be many such authorizers.
    pub(crate) fn of_cluster(&self, cluster: Option<Arc<dyn Reviewer>>, name: &str) -> Self {
        let asked = cluster.filter(|cluster| cluster.is_verified());
        let is_home = self.home.as_deref().is_none_or(|home| home == name);
        Self {
            allows_everything: self.allows_everything,
            policy: Arc::clone(&self.policy),
            cluster: self.cluster.clone().filter(|_| is_home),
            home: self.home.clone(),
            followed: Some(Followed {
                name: name.to_owned(),
                reviews: asked.map(|cluster| AccessReviews::new(cluster, Room::Part)),
            }),
        }
    }

    /// Replaces the policy, for requests from now on.
    pub fn replace_policy(&self, policy: RbacPolicy) {
        *self.policy.write() = Arc::new(policy);
    }

    /// Whether every authenticated user may do everything.
    pub(crate) fn allows_everything(&self) -> bool {
        self.allows_everything
    }

    fn policy(&self) -> Arc<RbacPolicy> {
        self.policy.read().clone()
    }

    /// Decides whether a user may make a request.
    ///
    /// # Errors
    ///
    /// The cluster that must be asked does not answer. The request is not allowed then.
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
            let cluster = user.cluster();
            tracing::warn!(cluster, user = user.name, %error, "a permission could not be checked; the request is refused");
        }
        decision
    }

    /// Whether a cluster must be asked about a request.
    pub(crate) fn leaves_to_cluster(&self, user: &User, asked: &Attributes<'_>) -> bool {
        self.decide_here(user, asked).is_err()
    }

    /// Decides without asking a cluster, if possible.
    ///
    /// # Errors
    ///
    /// The cluster to ask.
    fn decide_here(&self, user: &User, asked: &Attributes<'_>) -> Result<Decision, &AccessReviews> {
        let allowed = |reason: &str| Decision {
            allowed: true,
            denied: false,
            reason: reason.to_owned(),
        };
        let asks = if let Some(cluster) = user.cluster() {
            let (built_in, seen) = built_in(user);
            if let Some(reason) = built_in.allows(seen, asked) {
                return Ok(allowed(reason));
            }
            match &self.followed {
                Some(followed) if followed.name == cluster => followed.reviews.as_ref(),
                Some(followed) => {
                    let policy = self.policy();
                    let reason = policy.allows_in(&followed.name, user, asked);
                    return Ok(reason.map_or_else(Decision::default, allowed));
                }
                None => None,
            }
        } else {
            if user.is_master() || self.allows_everything {
                return Ok(allowed(""));
            }
            if let Some(reason) = self.policy().allows(user, asked) {
                return Ok(allowed(reason));
            }
            self.cluster.as_deref()
        };
        asks.map_or_else(|| Ok(Decision::default()), Err)
    }

    /// The namespaces in which the policy gives a user some permission.
    pub(crate) fn namespaces(&self, user: &User) -> Vec<String> {
        if user.cluster().is_some() {
            return Vec::new();
        }
        let policy = self.policy();
        let namespaces = policy.namespaces(user).into_iter();
        namespaces.map(str::to_owned).collect()
    }

    /// Whether a cluster is asked about requests that no policy allows to the user.
    pub(crate) fn asks_cluster(&self, user: &User) -> bool {
        match (user.cluster(), &self.followed) {
            (Some(known), Some(followed)) => followed.name == known,
            (Some(_), None) => false,
            (None, _) => self.cluster.is_some(),
        }
    }

    /// The rules for a user in a namespace, including cluster-wide ones.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> Rules {
        let is_own = user.cluster().is_none();
        if is_own && self.allows_everything {
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
        let mut rules = if is_own {
            policy.rules(user, namespace)
        } else {
            let (built_in, seen) = built_in(user);
            built_in.rules(seen, namespace)
        };
        if let (Some(known), Some(followed)) = (user.cluster(), &self.followed)
            && followed.name != known
        {
            rules.extend(policy.rules_in(&followed.name, user, namespace));
        }
        let incomplete = "webhook authorizer does not support user rule resolution";
        Rules {
            rules: rules.into_iter().cloned().collect(),
            incomplete: self.asks_cluster(user).then_some(incomplete),
        }
    }
}
