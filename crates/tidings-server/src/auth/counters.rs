//! How often a cluster was asked who somebody is and what they may do, and how often replaced files were taken over.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the server started. Prometheus' names for them are kube-apiserver's own, beside each.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AccessCounters {
    /// `apiserver_delegated_authn_request_total`: tokens a cluster was asked about and gave an answer; those from the cache are not counted.
    pub token_reviews: Count,
    /// Tokens a cluster was asked about and gave no usable answer.
    pub token_review_failures: Count,
    /// `apiserver_delegated_authz_request_total`: permissions a cluster was asked about and gave an answer; those from the cache are not counted.
    pub access_reviews: Count,
    /// Permissions a cluster was asked about and gave no usable answer.
    pub access_review_failures: Count,
    /// Replaced files (certificates, tokens, permissions) that were taken over.
    pub files_reloaded: Count,
    /// Replaced files that were not usable; what they held before is still in force.
    pub file_reload_failures: Count,
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
