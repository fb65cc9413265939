//! Who was let in, what was allowed, what admission made of it: what happens to a request before its handler.

use std::time::Duration;

use super::series::{Counters, Histograms, Text};

/// Buckets of `authentication_duration_seconds` and `authorization_duration_seconds`: from a millisecond, doubling.
const ACCESS_DURATIONS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
const ADMISSION_DURATIONS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// Names that are said as they are; there is no telling how many others there will be (`compressUsername`).
const KNOWN_USERS: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// What judges writes, by kube-apiserver's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    NamespaceLifecycle,
    EventRateLimit,
}

/// What a write is to admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
}

/// What came of an attempt to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt<'a> {
    /// The user of this name was let in.
    Success(&'a str),
    /// Nobody was found.
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
pub(crate) struct PolicyMetrics {
    attempts: Counters<1>,
    users: Counters<1>,
    authentication_durations: Histograms<1>,
    authorizations: Counters<1>,
    authorization_durations: Histograms<1>,
    admissions: Histograms<4>,
}

impl Default for PolicyMetrics {
    fn default() -> Self {
        Self {
            attempts: Counters::new(["result"]),
            users: Counters::new(["username"]),
            authentication_durations: Histograms::new(["result"], ACCESS_DURATIONS),
            authorizations: Counters::new(["result"]),
            authorization_durations: Histograms::new(["result"], ACCESS_DURATIONS),
            admissions: Histograms::new(
                ["name", "operation", "rejected", "type"],
                ADMISSION_DURATIONS,
            ),
        }
    }
}

impl PolicyMetrics {
    /// Somebody asked to be let in.
    pub(crate) fn authenticated(&self, attempt: Attempt<'_>, took: Duration) {
        let result = match attempt {
            Attempt::Success(user) => {
                self.users.of([username(user)]).add(1);
                "success"
            }
            Attempt::Failure => "failure",
            Attempt::Error => "error",
        };
        self.attempts.of([result]).add(1);
        self.authentication_durations
            .of([result])
            .observe_duration(took);
    }

    /// Somebody asked to do something.
    pub(crate) fn authorized(&self, permission: Permission, took: Duration) {
        let result = match permission {
            Permission::Allowed => "allowed",
            Permission::Denied => "denied",
            Permission::NoOpinion => "no-opinion",
            Permission::Error => "error",
        };
        self.authorizations.of([result]).add(1);
        self.authorization_durations
            .of([result])
            .observe_duration(took);
    }

    /// A write was judged.
    pub(crate) fn judged(&self, by: Judge, operation: Operation, rejected: bool, took: Duration) {
        let (name, step) = match by {
            Judge::NamespaceLifecycle => ("NamespaceLifecycle", "admit"),
            Judge::EventRateLimit => ("EventRateLimit", "validate"),
        };
        let operation = match operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
        };
        let rejected = if rejected { "true" } else { "false" };
        self.admissions
            .of([name, operation, rejected, step])
            .observe_duration(took);
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

impl PolicyMetrics {
    /// Who was let in, and what was allowed.
    pub(crate) fn write_access(&self, text: &mut Text) {
        text.counters(
            "authentication_attempts",
            "Attempts to be let in, by result.",
            &self.attempts,
        );
        text.counters(
            "authenticated_user_requests",
            "Requests that were let in, by username.",
            &self.users,
        );
        text.histograms(
            "authentication_duration_seconds",
            "Time until it was known whose request it is.",
            &self.authentication_durations,
        );
        text.counters(
            "authorization_attempts_total",
            "Attempts to do something, by result.",
            &self.authorizations,
        );
        text.histograms(
            "authorization_duration_seconds",
            "Time until it was known whether a request is allowed.",
            &self.authorization_durations,
        );
    }

    /// What admission made of writes.
    pub(crate) fn write_admission(&self, text: &mut Text) {
        text.histograms(
            "apiserver_admission_controller_admission_duration_seconds",
            "Time an admission plugin took for a write.",
            &self.admissions,
        );
    }
}
