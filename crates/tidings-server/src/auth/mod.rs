//! Authentication and authorization.
//!
//! - [`authenticator`]: finds the user of a request (headers of a front proxy, bearer tokens,
//!   client certificates, a cluster's `TokenReview`).
//! - [`attributes`]: describes the request in the authorizer's terms.
//! - [`authorizer`]: decides whether the request is allowed (RBAC from a file, a cluster's
//!   `SubjectAccessReview`).
//!
//! Everything that cannot be checked is refused. Credentials are compared and stored as digests,
//! and appear in no log, error or `Debug`.

pub(crate) mod attempts;
pub(crate) mod attributes;
pub(crate) mod authenticator;
pub(crate) mod authorizer;
pub(crate) mod certificate;
pub(crate) mod cluster;
pub(crate) mod counters;
pub(crate) mod decision;
mod forbidden;
pub(crate) mod front_proxy;
pub(crate) mod impersonation;
pub(crate) mod rbac;
pub(crate) mod reviewed;
mod reviewer;
pub(crate) mod settings;
mod tokens;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

pub use authenticator::Authenticator;
pub use authorizer::Authorizer;
pub use certificate::AuthorityError;
pub use counters::{AccessCounters, Count};
pub(crate) use forbidden::forbidden;
pub use front_proxy::{RequestHeader, RequestHeaderError};
pub use rbac::{RbacError, RbacPolicy};
pub use reviewer::{ReviewError, Reviewer};
pub(crate) use tokens::{Digest, bearer, digest_of};
pub use tokens::{Token, TokenFileError, parse_token_file};

/// The group whose members may do everything. The limits of requests in flight apply to them, too,
/// because the only token of most servers is a member's.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all users with valid credentials.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of all other clients.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of clients without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// An authenticated user. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    info: Arc<UserInfo>,
    /// The followed cluster that knows the user; `None` for users that the server itself knows.
    /// Names and groups have a meaning only together with it.
    cluster: Option<Arc<str>>,
}

/// The users of a request.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// The authenticated user; `None` if the request was refused.
    pub(crate) user: Option<User>,
    /// The user to act as instead, if impersonation was requested and allowed.
    pub(crate) impersonated: Option<User>,
}

/// The attributes of a [`User`], Kubernetes' `user.Info`. In JSON they are the `UserInfo` of
/// `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UserInfo {
    /// The user's name.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A unique identifier that is never reused; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The user's groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further attributes of the user, from the authenticator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user in these groups and in `system:authenticated`.
    ///
    /// ```
    /// let ann = tidings_server::User::new("ann", "7", ["dev".to_owned()]);
    /// assert_eq!(ann.groups, ["dev", "system:authenticated"]);
    /// ```
    pub fn new(
        name: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = String>,
    ) -> Self {
        Self::with_extra(name.into(), uid.into(), groups, BTreeMap::new())
    }

    pub(crate) fn with_extra(
        name: String,
        uid: String,
        groups: impl IntoIterator<Item = String>,
        extra: BTreeMap<String, Vec<String>>,
    ) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        Self::exactly(UserInfo {
            name,
            uid,
            groups,
            extra,
        })
    }

    /// A user in exactly these groups.
    pub(crate) fn exactly(info: UserInfo) -> Self {
        Self {
            info: Arc::new(info),
            cluster: None,
        }
    }

    /// The same user, known by a followed cluster, or by the server itself if `cluster` is `None`.
    pub(crate) fn of_cluster(self, cluster: Option<Arc<str>>) -> Self {
        Self { cluster, ..self }
    }

    /// The same user, known by the same cluster or server as another user.
    pub(crate) fn beside(self, other: &Self) -> Self {
        self.of_cluster(other.cluster.clone())
    }

    /// The followed cluster that knows the user; `None` if the server itself does.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// The user of clients without credentials.
    pub(crate) fn anonymous() -> Self {
        Self::exactly(UserInfo {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..UserInfo::default()
        })
    }

    /// Whether the server itself knows the user as a member of `system:masters`.
    pub(crate) fn is_master(&self) -> bool {
        self.cluster.is_none() && self.groups.iter().any(|group| group == MASTERS)
    }
}

impl Deref for User {
    type Target = UserInfo;

    fn deref(&self) -> &UserInfo {
        &self.info
    }
}
