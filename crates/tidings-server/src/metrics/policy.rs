//! Who was let in, what was allowed, what admission and the audit log made of it: what happens to a request before and
//! beside its handler.

use std::time::Duration;

use super::Now;
use super::series::{Counters, Histograms, Text};
use crate::admission::LimitType;
use crate::auth::authenticator::Refusal;
use crate::auth::authorizer::Decision;
use crate::auth::{ReviewError, User};

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

#[derive(Debug)]
pub(super) struct PolicyMetrics {
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

impl super::Metrics {
    /// Somebody asked to be let in.
    pub(crate) fn authenticated(&self, found: &Result<User, Refusal>, took: Duration) {
        let result = match found {
            Ok(user) => {
                self.policy.users.of([username(&user.name)]).add(1);
                "success"
            }
            Err(Refusal::Unauthorized(_)) => "failure",
            Err(Refusal::Unchecked) => "error",
        };
        self.policy.attempts.of([result]).add(1);
        self.policy
            .authentication_durations
            .of([result])
            .observe_duration(took);
    }

    /// Somebody asked to do something.
    pub(crate) fn authorized(&self, decision: &Result<Decision, ReviewError>, took: Duration) {
        let result = match decision {
            Ok(decision) if decision.allowed => "allowed",
            Ok(decision) if decision.denied => "denied",
            Ok(_) => "no-opinion",
            Err(_) => "error",
        };
        self.policy.authorizations.of([result]).add(1);
        self.policy
            .authorization_durations
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
        self.policy
            .admissions
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
    pub(super) fn write(&self, now: &Now<'_>, text: &mut Text) {
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
        write_access(now, text);
        text.histograms(
            "apiserver_admission_controller_admission_duration_seconds",
            "Time an admission plugin took for a write.",
            &self.admissions,
        );
        write_admission(now, text);
        write_audit(now, text);
    }
}

/// What a cluster was asked, and files that were replaced.
fn write_access(now: &Now<'_>, text: &mut Text) {
    let access = &now.access;
    for (name, help, answered, failed) in [
        (
            "apiserver_delegated_authn_request_total",
            "Tokens a cluster was asked about.",
            access.token_reviews.get(),
            access.token_review_failures.get(),
        ),
        (
            "apiserver_delegated_authz_request_total",
            "Permissions a cluster was asked about.",
            access.access_reviews.get(),
            access.access_review_failures.get(),
        ),
    ] {
        text.metric(name, "counter", help);
        text.sample(name, &[("code", "200")], answered);
        text.sample(name, &[("code", "<error>")], failed);
    }
    let name = "tidings_file_reloads_total";
    text.metric(
        name,
        "counter",
        "Replaced files of tokens, permissions and certificates, by what came of them.",
    );
    text.sample(name, &[("result", "success")], access.files_reloaded.get());
    text.sample(
        name,
        &[("result", "failure")],
        access.file_reload_failures.get(),
    );
}

fn write_admission(now: &Now<'_>, text: &mut Text) {
    let admission = &now.admission;
    let name = "tidings_event_rate_limit_reached_total";
    text.metric(
        name,
        "counter",
        "Events that found a limit reached, in a dry run those let through.",
    );
    // Several limits may be of one type.
    for limit_type in LimitType::ALL {
        let of_type = |it: &&(LimitType, u64)| it.0 == limit_type;
        let mut counts = admission.rate_limited.iter().filter(of_type).peekable();
        if counts.peek().is_some() {
            let labels = [("type", limit_type.name())];
            text.sample(name, &labels, counts.map(|it| it.1).sum::<u64>());
        }
    }
    let name = "tidings_oversized_events_total";
    text.metric(name, "counter", "Events above the limit of their size.");
    text.sample(name, &[("outcome", "refused")], admission.oversized);
    text.sample(name, &[("outcome", "truncated")], admission.truncated);
}

fn write_audit(now: &Now<'_>, text: &mut Text) {
    let Some(audit) = &now.audit else { return };
    text.single(
        "apiserver_audit_event_total",
        "counter",
        "Entries for the audit log.",
        audit.offered,
    );
    let name = "apiserver_audit_error_total";
    text.metric(
        name,
        "counter",
        "Entries that are not in the audit log: dropped before a full queue, by whose they are, or not written to the file.",
    );
    text.sample(name, &[("plugin", "buffered")], audit.dropped);
    text.sample(name, &[("plugin", "refused")], audit.refused_dropped);
    text.sample(
        name,
        &[("plugin", "unauthenticated")],
        audit.unauthenticated_dropped,
    );
    text.sample(name, &[("plugin", "log")], audit.failed);
    text.single(
        "tidings_audit_truncated_total",
        "counter",
        "Entries for the audit log without the request's body, which was too long or could not be read.",
        audit.truncated,
    );
}
