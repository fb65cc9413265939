//! Delegates authentication (`TokenReview`) and authorization (`SubjectAccessReview`) to a cluster.
//!
//! It works as in Kubernetes' aggregated API servers
//! (`k8s.io/apiserver/pkg/server/options/authentication.go`, `authorization.go`).
//!
//! Without an answer there is no permission. [`Reviewer`] is the connection to the cluster.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::counters::AccessCounters;
use super::decision::Decision;
use super::reviewed::{Reviewed, Room};
use super::reviewer::{ReviewError, Reviewer};
use super::tokens::digest_of;
use super::{MASTERS, User};
use crate::flow::connections::network;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Pauses before retries, after the cluster was too busy or the request was lost.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];
/// Maximum bytes of a token; a longer one is invalid. A service account's token has about 1,200
/// bytes.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

async fn ask<T: for<'a> Deserialize<'a>>(
    cluster: &dyn Reviewer,
    path: &'static str,
    body: Value,
) -> Result<T, ReviewError> {
    #[derive(Deserialize)]
    struct Review<T> {
        status: T,
    }
    let mut pauses = RETRY_AFTER.into_iter();
    let answer = loop {
        match cluster.review(path, body.clone()).await {
            Err(error) if error.may_pass() => match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            },
            answer => break answer?,
        }
    };
    serde_json::from_value::<Review<T>>(answer)
        .map(|review| review.status)
        .map_err(|error| ReviewError::Unreadable {
            why: error.to_string(),
        })
}

/// Token reviews by one cluster.
pub(super) struct TokenReviews {
    cluster: Arc<dyn Reviewer>,
    /// Name of the followed cluster that these users belong to. `None` for users of the server
    /// itself.
    name: Option<Arc<str>>,
    answers: Reviewed<Option<User>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: Option<UserStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserStatus {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

impl TokenReviews {
    /// Reviews for users of the server itself.
    pub(super) fn new(cluster: Arc<dyn Reviewer>) -> Self {
        Self {
            cluster,
            name: None,
            answers: Reviewed::new(Room::Whole, Option::is_some),
        }
    }

    /// Reviews for users of the followed cluster of this name.
    pub(super) fn of_cluster(cluster: Arc<dyn Reviewer>, name: &str) -> Self {
        Self {
            cluster,
            name: Some(name.into()),
            answers: Reviewed::new(Room::Part, Option::is_some),
        }
    }

    /// The name of the followed cluster that the users belong to.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The user of a token that a peer sent; `None` if the token has no user.
    pub(super) async fn user(
        &self,
        token: &str,
        peer: Option<IpAddr>,
        now: Instant,
        counters: &Arc<AccessCounters>,
    ) -> Result<Option<User>, ReviewError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(None);
        }
        let (cluster, counters) = (Arc::clone(&self.cluster), Arc::clone(counters));
        let question = digest_of(token);
        let token = token.to_owned();
        let name = self.name.clone();
        let ask = || async move {
            let body = json!({
                "kind": "TokenReview",
                "apiVersion": "authentication.k8s.io/v1",
                "spec": {"token": token},
            });
            let status: TokenStatus = ask(&*cluster, TOKEN_REVIEWS, body)
                .await
                .inspect(|_| counters.token_reviews.add())
                .inspect_err(|_| counters.token_review_failures.add())?;
            let user = status
                .user
                .filter(|user| status.authenticated && !user.username.is_empty());
            Ok(user.map(|user| {
                let mut groups = user.groups.unwrap_or_default();
                let extra = user.extra.unwrap_or_default();
                if name.is_none() {
                    // Whoever answers reviews is not the administrator of this server. A followed
                    // cluster's user keeps the group, because only that cluster is asked about it.
                    groups.retain(|group| group != MASTERS);
                }
                User::with_extra(user.username, user.uid, groups, extra).of_cluster(name)
            }))
        };
        let asker = peer.map(network);
        self.answers.get(question, asker, now, ask).await
    }
}

/// Access reviews by one cluster.
pub(super) struct AccessReviews {
    cluster: Arc<dyn Reviewer>,
    answers: Reviewed<Decision>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl Debug for AccessReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AccessReviews").field(&self.cluster).finish()
    }
}

impl AccessReviews {
    pub(super) fn new(cluster: Arc<dyn Reviewer>, room: Room) -> Self {
        Self {
            cluster,
            answers: Reviewed::new(room, |decision| decision.allowed),
        }
    }

    pub(super) async fn authorize(
        &self,
        user: &User,
        asked: &Attributes<'_>,
        now: Instant,
        counters: &Arc<AccessCounters>,
    ) -> Result<Decision, ReviewError> {
        let mut spec = json!({
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
        });
        match asked {
            Attributes::Resource(asked) => {
                spec["resourceAttributes"] = json!({
                    "namespace": asked.namespace, "verb": asked.verb, "group": asked.group, "version": asked.version,
                    "resource": asked.resource, "subresource": asked.subresource, "name": asked.name,
                });
            }
            Attributes::Path { verb, path } => {
                spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
            }
        }
        let question = digest_of(&spec.to_string());
        let (cluster, counters) = (Arc::clone(&self.cluster), Arc::clone(counters));
        let ask = || async move {
            let body = json!({
                "kind": "SubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "spec": spec,
            });
            let status: AccessStatus = ask(&*cluster, ACCESS_REVIEWS, body)
                .await
                .inspect(|_| counters.access_reviews.add())
                .inspect_err(|_| counters.access_review_failures.add())?;
            Ok(Decision {
                // A contradictory answer allows nothing.
                allowed: status.allowed && !status.denied,
                denied: status.denied,
                reason: status.reason,
            })
        };
        self.answers.get(question, &user.name, now, ask).await
    }
}
