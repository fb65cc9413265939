//! Metrics of authentication and authorization.

use std::time::Duration;

use crate::metrics::{Counters, Histograms, Label, Text};

/// Buckets of `authentication_duration_seconds` and `authorization_duration_seconds`, in seconds.
const ACCESS_DURATIONS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
/// User names with a label of their own (`compressUsername`). The number of other names is
/// unbounded.
const KNOWN_USERS: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// The result of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt<'a> {
    /// The user with this name was authenticated.
    Success(&'a str),
    /// The request has no valid credentials.
    Failure,
    /// The credentials could not be checked.
    Error,
}

/// The result of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Allowed,
    Denied,
    NoOpinion,
    /// The permission could not be checked.
    Error,
}

#[derive(Debug)]
pub(crate) struct Attempts {
    authentications: Counters<[Label; 1]>,
    users: Counters<[Label; 1]>,
    authentication_durations: Histograms<[Label; 1]>,
    authorizations: Counters<[Label; 1]>,
    authorization_durations: Histograms<[Label; 1]>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            authentications: Counters::new(
                "authentication_attempts",
                "Authentications, by result.",
            ),
            users: Counters::new(
                "authenticated_user_requests",
                "Authenticated requests, by user name.",
            ),
            authentication_durations: Histograms::of_durations(
                "authentication_duration_seconds",
                "Time of an authentication.",
                ACCESS_DURATIONS,
            ),
            authorizations: Counters::new(
                "authorization_attempts_total",
                "Authorizations, by result.",
            ),
            authorization_durations: Histograms::of_durations(
                "authorization_duration_seconds",
                "Time of an authorization.",
                ACCESS_DURATIONS,
            ),
        }
    }
}

impl Attempts {
    /// Counts an authentication.
    pub(crate) fn authenticated(&self, attempt: Attempt<'_>, took: Duration) {
        let result = match attempt {
            Attempt::Success(user) => {
                self.users.of([("username", username(user))]).add(1);
                "success"
            }
            Attempt::Failure => "failure",
            Attempt::Error => "error",
        };
        self.authentications.of([("result", result)]).add(1);
        self.authentication_durations
            .of([("result", result)])
            .observe_duration(took);
    }

    /// Counts an authorization.
    pub(crate) fn authorized(&self, permission: Permission, took: Duration) {
        let result = match permission {
            Permission::Allowed => "allowed",
            Permission::Denied => "denied",
            Permission::NoOpinion => "no-opinion",
            Permission::Error => "error",
        };
        self.authorizations.of([("result", result)]).add(1);
        self.authorization_durations
            .of([("result", result)])
            .observe_duration(took);
    }

    /// Appends the metrics.
    pub(crate) fn write(&self, text: &mut Text) {
        text.family(&self.authentications);
        text.family(&self.users);
        text.family(&self.authentication_durations);
        text.family(&self.authorizations);
        text.family(&self.authorization_durations);
    }
}

fn username(name: &str) -> &'static str {
    let known = KNOWN_USERS.into_iter().find(|known| *known == name);
    known.unwrap_or(if name.contains('@') {
        "email_id"
    } else {
        "other"
    })
}
