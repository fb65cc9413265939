//! Counters of reviews by a cluster, and of reloaded files.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::attempts::Attempts;
use crate::metrics::Text;

/// Counts since the server started. The name of the metric is given if kube-apiserver has it, too.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AccessCounters {
    /// `apiserver_delegated_authn_request_total`: token reviews that a cluster answered. Cached
    /// answers are not counted.
    pub token_reviews: Count,
    /// Token reviews without a usable answer.
    pub token_review_failures: Count,
    /// `apiserver_delegated_authz_request_total`: access reviews that a cluster answered. Cached
    /// answers are not counted.
    pub access_reviews: Count,
    /// Access reviews without a usable answer.
    pub access_review_failures: Count,
    /// Reloads of replaced files (certificates, tokens, permissions).
    pub files_reloaded: Count,
    /// Replaced files that were not usable. Their former content is still in force.
    pub file_reload_failures: Count,
    pub(crate) attempts: Attempts,
    certificates: Mutex<Vec<(&'static str, Timestamp)>>,
}

impl AccessCounters {
    /// Sets when certificates in use end, by their names.
    pub(crate) fn set_certificates(&self, ends: Vec<(&'static str, Timestamp)>) {
        *self.certificates() = ends;
    }

    fn certificates(&self) -> MutexGuard<'_, Vec<(&'static str, Timestamp)>> {
        self.certificates.lock()
    }

    /// Appends the metrics.
    pub(crate) fn write(&self, text: &mut Text) {
        self.attempts.write(text);
        for (name, help, answered, failed) in [
            (
                "apiserver_delegated_authn_request_total",
                "Token reviews by a cluster.",
                self.token_reviews.get(),
                self.token_review_failures.get(),
            ),
            (
                "apiserver_delegated_authz_request_total",
                "Access reviews by a cluster.",
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
            "Replaced files of tokens, permissions and certificates, by result of their reload.",
        );
        text.sample(name, &[("result", "success")], self.files_reloaded.get());
        text.sample(
            name,
            &[("result", "failure")],
            self.file_reload_failures.get(),
        );
        let name = "tidings_certificate_expires_seconds";
        text.metric(
            name,
            "gauge",
            "Unix time at which a certificate in use ends; of several authorities, the first that a client needs.",
        );
        for (certificate, at) in &*self.certificates() {
            text.sample(name, &[("certificate", certificate)], at.as_second());
        }
    }
}

/// One counter.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
