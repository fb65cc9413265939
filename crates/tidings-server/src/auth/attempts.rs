//! Attempts to be let in and to do something, counted by what came of them.

use std::time::Duration;

use crate::metrics::{Counters, Histograms, Label, Text};

/// Buckets of `authentication_duration_seconds` and `authorization_duration_seconds`: from a
/// millisecond, doubling.
const ACCESS_DURATIONS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
/// Names that are said as they are; there is no telling how many others there will be
/// (`compressUsername`).
const KNOWN_USERS: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// What came of an attempt to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt<'a> {
    /// The user of this name was let in.
    Success(&'a str),
    /// No user was found.
    Failure,
    /// It could not be checked.
    Error,
}

/// What came of an attempt to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Allowed,
    Denied,
    NoOpinion,
    /// It could not be checked.
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
            authentications: Counters::default(),
            users: Counters::default(),
            authentication_durations: Histograms::of_durations(ACCESS_DURATIONS),
            authorizations: Counters::default(),
            authorization_durations: Histograms::of_durations(ACCESS_DURATIONS),
        }
    }
}

impl Attempts {
    /// Counts an attempt to be let in.
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

    /// Counts an attempt to do something.
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

    /// Who was let in, and what was allowed.
    pub(crate) fn write(&self, text: &mut Text) {
        text.family(
            "authentication_attempts",
            "Attempts to be let in, by result.",
            &self.authentications,
        );
        text.family(
            "authenticated_user_requests",
            "Requests that were let in, by username.",
            &self.users,
        );
        text.family(
            "authentication_duration_seconds",
            "Time until it was known whose request it is.",
            &self.authentication_durations,
        );
        text.family(
            "authorization_attempts_total",
            "Attempts to do something, by result.",
            &self.authorizations,
        );
        text.family(
            "authorization_duration_seconds",
            "Time until it was known whether a request is allowed.",
            &self.authorization_durations,
        );
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
