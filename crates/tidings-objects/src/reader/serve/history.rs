//! The history of a sealed cluster, as servers ask for it; and the loop that asks for pending
//! versions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tidings_history::{
    Capabilities, Coverage, Following, History, ObjectRequests, OverQuota, Unwatched, Versions,
};
use tidings_store::clock::Clock;
use tidings_store::{BoxFuture, ReadError};

use super::cluster::SealedCluster;
use crate::reader::pending::WaitingSource;
use crate::reader::state::HearError;

/// The history of a sealed cluster.
pub struct SealedHistory {
    cluster: SealedCluster,
    clock: Arc<dyn Clock>,
    option: &'static str,
    /// When all pending versions were known last, by the steady clock.
    answered_at: Mutex<Option<Duration>>,
}

impl SealedHistory {
    /// Makes the history of a cluster. A cluster can be watched only if its reader asks for pending
    /// versions; `option` is the option that answers name where it does not.
    pub fn new(cluster: SealedCluster, clock: Arc<dyn Clock>, option: &'static str) -> Self {
        Self {
            cluster,
            clock,
            option,
            answered_at: Mutex::default(),
        }
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &SealedCluster {
        &self.cluster
    }

    /// Asks once for pending versions.
    ///
    /// # Errors
    /// The pending versions are not known. Those of the last answer are still served.
    pub async fn hear(&self) -> Result<(), HearError> {
        self.cluster.hear().await?;
        *self.answered_at.lock() = Some(self.clock.steady());
        Ok(())
    }

    /// Keeps asking for pending versions, and says in the log when they are not known.
    pub async fn keep_hearing(&self, interval: Duration) {
        let cluster = self.cluster.name();
        let mut was_well = true;
        loop {
            let heard = self.hear().await;
            match &heard {
                Ok(()) if !was_well => {
                    tracing::info!(cluster, "the pending versions are known again");
                }
                Err(error) if was_well => {
                    tracing::warn!(cluster, %error, "the pending versions are not known");
                }
                Ok(()) | Err(_) => {}
            }
            was_well = heard.is_ok();
            tokio::time::sleep(interval).await;
        }
    }
}

impl History for SealedHistory {
    fn capabilities(&self) -> Capabilities {
        let source = self.cluster.source();
        let was_answered = self.answered_at.lock().is_some();
        let watch = was_answered.then_some(()).ok_or_else(|| Unwatched {
            address: source.and_then(WaitingSource::address),
            option: source.is_none().then_some(self.option),
        });
        Capabilities::of_files(watch)
    }

    fn following(&self) -> Following {
        let coverage = self.cluster.coverage();
        let totals = coverage.totals.unwrap_or_default();
        let until = coverage.followed.iter().map(|it| it.complete_until).min();
        let heard = self.cluster.heard();
        let mut following = Following::new(match &heard {
            Some(heard) if heard.failure.is_none() => "sealed and waiting",
            _ => "sealed",
        });
        let answered_at = *self.answered_at.lock();
        following.since_answer = answered_at.map(|at| self.clock.steady().saturating_sub(at));
        following.pending = heard.as_ref().map(|heard| heard.versions);
        let now = self.clock.now();
        following.since_progress = until.map(|until| {
            let since = u64::try_from(now.0.saturating_sub(until.0)).unwrap_or(0);
            Duration::from_millis(since)
        });
        let unheard = heard.and_then(|heard| heard.failure);
        let unheard = unheard.map(|why| format!("the pending versions are not known: {why}"));
        following.why = self.cluster.failure().or(unheard);
        following.events = totals.events;
        following.versions = totals.events;
        following.stored_bytes = totals.disk_bytes;
        following.gaps = coverage.gaps.iter().map(|gap| gap.gaps).sum();
        following.covered_since = coverage.followed.iter().map(|it| it.since).max();
        following.kept_since = totals.kept_since;
        following.complete_until = until;
        following
    }

    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        Box::pin(async move { self.cluster.versions(&key, after, limit).await })
    }

    fn coverage(&self, namespace: Option<String>) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        let coverage = self.cluster.coverage();
        let coverage = match namespace {
            Some(namespace) => Coverage {
                // It is not known how much of each namespace was removed to keep the quota.
                over_quota: OverQuota::default(),
                ..coverage.of_namespace(&namespace)
            },
            None => coverage,
        };
        Box::pin(std::future::ready(Ok(coverage)))
    }

    fn requests(&self) -> Option<ObjectRequests> {
        Some(self.cluster.requests())
    }
}
