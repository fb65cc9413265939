//! The history of a followed cluster, in the form that the server reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
#[cfg(feature = "objects")]
use tidings_archive::JournalError;
use tidings_archive::{Cluster, Past, Unsealed};
use tidings_history::{Cause, Coverage, Exported, Following, Taken, Versions};
#[cfg(feature = "objects")]
use tidings_objects::WaitingError;
use tidings_server::FollowedCluster;
#[cfg(feature = "objects")]
use tidings_server::Waiting;
#[cfg(feature = "objects")]
use tidings_store::Fault;
use tidings_store::{BoxFuture, ReadError, UnixMillis};
use tokio::task::AbortHandle;

use super::source::Source;

/// Interval at which expensive counts are updated.
const MEASURE: Duration = Duration::from_secs(30);

/// A cluster's history, in the form that the server reads.
pub(in crate::commands) struct Served {
    past: Past,
    unsealed: Unsealed,
    #[cfg(feature = "objects")]
    waiting: tidings_objects::Waiting,
    measured: Arc<Mutex<Measured>>,
    measuring: AbortHandle,
}

/// Counts that are updated at intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    events: u64,
    versions: u64,
    stored_bytes: u64,
    gaps: u64,
    covered_since: Option<UnixMillis>,
    kept_since: Option<UnixMillis>,
    taken: Taken,
    complete_until: Option<UnixMillis>,
}

impl Served {
    /// Makes the server's view of a cluster.
    pub(in crate::commands) async fn of(
        cluster: &Cluster,
        source: Option<&Source>,
    ) -> FollowedCluster {
        let past = cluster.past();
        let measured = Arc::new(Mutex::new(Measured::default()));
        // Measured before it is served, because a counter that starts at zero would look like an
        // increase.
        measure(&past, &measured).await;
        let measuring = tokio::spawn(keep_measuring(past.clone(), Arc::clone(&measured)));
        let served = Self {
            past,
            unsealed: cluster.unsealed(),
            #[cfg(feature = "objects")]
            waiting: tidings_objects::Waiting::of(cluster),
            measured,
            measuring: measuring.abort_handle(),
        };
        let mut followed = FollowedCluster::new(cluster.name(), cluster.store(), Arc::new(served));
        cluster
            .store_identity()
            .clone_into(&mut followed.store_identity);
        followed.pass_through = source.and_then(|source| source.pass_through.clone());
        followed.passed_user = source.and_then(|source| source.passed_user.clone());
        if let Some(source) = source.filter(|source| source.is_asked) {
            if let Err(why) = source.verified {
                tracing::warn!(
                    cluster = followed.name,
                    "no token of a caller is sent to the cluster, and its users are refused: {why}"
                );
            }
            followed.access = Some(Arc::new(source.reviewer()));
        }
        followed
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.measuring.abort();
    }
}

async fn keep_measuring(past: Past, measured: Arc<Mutex<Measured>>) {
    loop {
        tokio::time::sleep(MEASURE).await;
        measure(&past, &measured).await;
    }
}

async fn measure(past: &Past, measured: &Mutex<Measured>) {
    match past.counted().await {
        Ok(coverage) => {
            let followed = coverage.followed.iter();
            // If several namespaces are followed, a value holds only if it holds for all of them.
            let is_begun = past.is_begun(&coverage);
            let current = followed
                .clone()
                .filter(|it| is_begun && past.is_current(&it.namespace));
            let covered_since = current.clone().map(|it| it.since).max();
            let complete_until = current.map(|it| it.complete_until).min();
            let progress = followed.filter_map(|it| it.progress);
            let totals = coverage.totals.unwrap_or_default();
            *measured.lock().unwrap_or_else(PoisonError::into_inner) = Measured {
                events: totals.events,
                versions: progress.map(|it| it.versions).sum(),
                stored_bytes: totals.disk_bytes,
                gaps: coverage.gaps.iter().map(|gap| gap.gaps).sum(),
                covered_since,
                kept_since: totals.kept_since,
                taken: Taken {
                    by_quota: coverage.over_quota.events,
                    by_rules: totals.ended_by_rules,
                },
                complete_until,
            };
        }
        Err(error) => tracing::debug!(%error, "the stored events could not be counted"),
    }
}

impl tidings_server::Past for Served {
    fn versions(
        &self,
        key: Bytes,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<Versions>, ReadError>> {
        Box::pin(self.past.versions(key, after, limit))
    }

    fn coverage(&self) -> BoxFuture<'_, Result<Coverage, ReadError>> {
        Box::pin(self.past.coverage())
    }

    fn coverage_of(&self, namespace: String) -> BoxFuture<'_, Result<Option<Coverage>, ReadError>> {
        Box::pin(async move { self.past.coverage_of(&namespace).await.map(Some) })
    }

    fn export(&self, place: Option<String>) -> BoxFuture<'_, Result<Option<Exported>, ReadError>> {
        Box::pin(async move { self.past.export(place.as_deref()).await })
    }

    #[cfg(feature = "objects")]
    fn waiting(&self, from: u64, to: Option<u64>) -> BoxFuture<'_, Result<Waiting, ReadError>> {
        Box::pin(async move {
            if !self.waiting.is_known() {
                return Ok(Waiting::NotSealed);
            }
            match self.waiting.file(from, to).await {
                Ok(Some(file)) => Ok(Waiting::File(file)),
                Ok(None) => Ok(Waiting::Sealed),
                Err(WaitingError::Journal(JournalError::Read(error))) => Err(error),
                Err(error) => Err(Fault::Storage(Arc::new(error)).into()),
            }
        })
    }

    fn following(&self) -> Following {
        let now = self.past.following();
        let measured = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let mut following = Following::new(now.state);
        following.since_progress = now.since_progress;
        following.why = now.why;
        following.events = measured.events;
        following.versions = measured.versions;
        following.stored_bytes = measured.stored_bytes;
        following.gaps = measured.gaps;
        following.not_kept = vec![
            (Cause::TooLarge.name(), now.too_large),
            (Cause::Unreadable.name(), now.unreadable),
        ];
        following.covered_since = measured.covered_since;
        following.kept_since = measured.kept_since;
        following.taken = Some(measured.taken);
        following.clock_ahead = Some(now.clock_ahead);
        following.complete_until = measured.complete_until;
        following.received = now.versions + now.seen_before + now.ends + now.forgotten;
        following.pending = self.unsealed.waiting();
        let failure = self.unsealed.failure();
        following.is_older_than_sealed = failure.as_ref().is_some_and(|it| it.is_older);
        following.not_sealed = failure.map(|it| it.why);
        following.manifest_bytes = self.unsealed.manifest_bytes();
        following
    }
}
