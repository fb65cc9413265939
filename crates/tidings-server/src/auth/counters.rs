//! How often a cluster was asked who a user is and what the user may do, and how often replaced
//! files were loaded.

use std::sync::atomic::{AtomicU64, Ordering};

use super::attempts::Attempts;
use crate::metrics::Text;

/// Counts since the server started. Prometheus' names for them are kube-apiserver's own, beside
/// each.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AccessCounters {
    /// `apiserver_delegated_authn_request_total`: tokens a cluster was asked about and gave an
    /// answer; those from the cache are not counted.
    pub token_reviews: Count,
    /// Tokens a cluster was asked about and gave no usable answer.
    pub token_review_failures: Count,
    /// `apiserver_delegated_authz_request_total`: permissions a cluster was asked about and gave an
    /// answer; those from the cache are not counted.
    pub access_reviews: Count,
    /// Permissions a cluster was asked about and gave no usable answer.
    pub access_review_failures: Count,
    /// Replaced files (certificates, tokens, permissions) that were taken over.
    pub files_reloaded: Count,
    /// Replaced files that were not usable; what they held before is still in force.
    pub file_reload_failures: Count,
    pub(crate) attempts: Attempts,
}

impl AccessCounters {
    /// Who was let in and what was allowed, what a cluster was asked, and files that were replaced.
    pub(crate) fn write(&self, text: &mut Text) {
        self.attempts.write(text);
        for (name, help, answered, failed) in [
            (
                "apiserver_delegated_authn_request_total",
                "Tokens a cluster was asked about.",
                self.token_reviews.get(),
                self.token_review_failures.get(),
            ),
            (
                "apiserver_delegated_authz_request_total",
                "Permissions a cluster was asked about.",
                self.access_reviews.get(),
                self.access_review_failures.get(),
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
        text.sample(name, &[("result", "success")], self.files_reloaded.get());
        text.sample(
            name,
            &[("result", "failure")],
            self.file_reload_failures.get(),
        );
    }
}

/// One count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
