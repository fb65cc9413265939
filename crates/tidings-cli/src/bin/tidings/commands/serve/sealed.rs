//! `tidings serve --archive`: serves the clusters of an archive on object storage as an API server.
//! It polls for new manifests, new clusters, and pending versions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tidings_cli::times::duration_of_seconds;
use tidings_objects::{
    LookError, Place, PlaceError, ReadOptions, Reader, SealedHistory, WaitingSource,
};
use tidings_server::{FollowedCluster, RunningClusters};
use tidings_store::clock::SystemClock;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::waiting::Source;

/// The option without which sealed archives cannot be watched.
const WAITING_FROM: &str = "--archive-waiting-from";
/// Maximum wait for the first pending versions.
const FIRST: Duration = Duration::from_secs(5);
/// Maximum interval of requests for pending versions.
const PENDING_EVERY: Duration = Duration::from_secs(5);
/// Polls for manifests between two polls for new clusters.
const CLUSTERS_EVERY: u32 = 4;

/// The flags of the archive to serve.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sealed archive")]
pub(super) struct SealedFlags {
    /// Serve the clusters of an archive on object storage, which tidings archive --objects wrote:
    /// s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER
    ///
    /// Each is below /clusters/NAME, and at the root if there is only one. Events can be read, not
    /// written or deleted, and watched only with --archive-waiting-from. The data folder holds only
    /// certificates, tokens and the kubeconfig, and any number of servers may read one archive.
    /// Credentials come from the environment, as for tidings archive --objects.
    #[cfg_attr(feature = "etcd", arg(conflicts_with = "etcd_servers"))]
    #[arg(long, value_name = "URL")]
    archive: Option<String>,
    /// Interval of checks for new manifests
    #[arg(long, value_name = "DURATION", default_value = "1m", requires = "archive", value_parser = duration_of_seconds)]
    archive_refresh: Duration,
    /// Kubeconfig of the tidings archive that writes to this URL, with a context for each cluster;
    /// its pending versions are shown, too
    ///
    /// That archive is asked for its pending versions, and watches are served from the first answer
    /// on. It is asked every 5s, or as often as for manifests. While it does not answer, the last
    /// answer is shown. The kubeconfig's token has to be allowed to list the events of all
    /// namespaces.
    #[arg(long, value_name = "FILE", requires = "archive")]
    archive_waiting_from: Option<PathBuf>,
}

/// The served archive.
pub(super) struct Sealed {
    reader: Reader,
    url: String,
    interval: Duration,
    /// The kubeconfig of the archive that follows the clusters, and the interval of requests to it.
    waiting: Option<(PathBuf, Duration)>,
    clusters: BTreeMap<String, Known>,
    /// Clusters that cannot be opened, and why.
    missing: BTreeMap<String, String>,
}

/// A cluster that is served.
struct Known {
    history: Arc<SealedHistory>,
    hearing: Option<AbortHandle>,
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(hearing) = &self.hearing {
            hearing.abort();
        }
    }
}

impl SealedFlags {
    /// Opens the archive, if one is to be served; the storage has then answered.
    pub(super) async fn open(&self) -> Result<Option<Sealed>, PlaceError> {
        let Some(url) = &self.archive else {
            return Ok(None);
        };
        let place = Place::open(url)?;
        let url = place.url().to_owned();
        let mut sealed = Sealed {
            reader: Reader::new(place, ReadOptions::default()),
            url,
            interval: self.archive_refresh,
            waiting: self
                .archive_waiting_from
                .clone()
                .map(|kubeconfig| (kubeconfig, self.archive_refresh.min(PENDING_EVERY))),
            clusters: BTreeMap::new(),
            missing: BTreeMap::new(),
        };
        sealed.find().await?;
        if sealed.clusters.is_empty() {
            tracing::warn!(
                url = sealed.url,
                "there is no archive yet; it is looked for"
            );
        }
        Ok(Some(sealed))
    }
}

impl Sealed {
    /// The known clusters, in the server's form.
    pub(super) fn followed(&self) -> Vec<FollowedCluster> {
        let known = self.clusters.values();
        known.map(|known| followed(&known.history)).collect()
    }

    /// Searches for new clusters, and returns them.
    async fn find(&mut self) -> Result<Vec<FollowedCluster>, PlaceError> {
        let mut new = Vec::new();
        let before = std::mem::take(&mut self.missing);
        for name in self.reader.clusters().await? {
            if self.clusters.contains_key(&name) {
                continue;
            }
            let source = self.waiting.as_ref();
            let source = source.map(|(file, _)| {
                let source: Arc<dyn WaitingSource> = Arc::new(Source::new(&name, file));
                source
            });
            match self.reader.open_with(&name, source).await {
                Ok(cluster) => {
                    let clock = Arc::new(SystemClock);
                    new.push(Arc::new(SealedHistory::new(cluster, clock, WAITING_FROM)));
                }
                Err(error) => {
                    let why = error.to_string();
                    if before.get(&name) != Some(&why) {
                        tracing::warn!(cluster = name, %error, "not served yet; it is tried again");
                    }
                    self.missing.insert(name, why);
                }
            }
        }
        if self.waiting.is_some() {
            // Pending versions are served from the first request on, if they arrive in time. The
            // task asks again.
            join_all(new.iter().map(|history| timeout(FIRST, history.hear()))).await;
        }
        let new = new.into_iter().map(|history| {
            let hearing = self.waiting.as_ref().map(|(_, interval)| {
                let (history, interval) = (Arc::clone(&history), *interval);
                let hearing = async move { history.keep_hearing(interval).await };
                tokio::spawn(hearing).abort_handle()
            });
            let followed = followed(&history);
            let name = history.cluster().name().to_owned();
            self.clusters.insert(name, Known { history, hearing });
            followed
        });
        Ok(new.collect())
    }

    /// Polls for new manifests and new clusters for ever.
    pub(super) async fn follow(&mut self, server: &RunningClusters) {
        let mut looks = 0_u32;
        server.set_missing(self.missing.clone());
        loop {
            tokio::time::sleep(self.interval).await;
            looks = looks.wrapping_add(1);
            let known = self.clusters.values();
            let known = known.map(|known| known.history.cluster().clone());
            let look = known.map(|cluster| async move {
                let was_well = cluster.failure().is_none();
                let name = cluster.name().to_owned();
                match cluster.look().await {
                    Err(error @ LookError::None { .. }) => return Some((name, error)),
                    Err(error) if was_well => {
                        let cluster = name;
                        tracing::warn!(cluster, %error, "new manifests cannot be read");
                    }
                    Ok(()) if !was_well => {
                        tracing::info!(cluster = name, "the storage answers again");
                    }
                    Ok(()) | Err(_) => {}
                }
                None
            });
            for (cluster, error) in join_all(look).await.into_iter().flatten() {
                tracing::warn!(cluster, %error, "served no longer");
                self.clusters.remove(&cluster);
                if let Err(error) = server.remove(&cluster).await {
                    tracing::error!(cluster, %error, "the kubeconfig was not written");
                }
            }
            if looks.is_multiple_of(CLUSTERS_EVERY) || self.clusters.is_empty() {
                self.add_new(server).await;
            }
        }
    }

    async fn add_new(&mut self, server: &RunningClusters) {
        let new = match self.find().await {
            Ok(new) => new,
            Err(error) => {
                tracing::debug!(%error, "new clusters cannot be looked for");
                return;
            }
        };
        server.set_missing(self.missing.clone());
        for cluster in new {
            let name = cluster.name.clone();
            match server.add(cluster).await {
                Ok(()) => tracing::info!(cluster = name, "served from now on"),
                Err(error) => tracing::error!(cluster = name, %error, "not served"),
            }
        }
    }
}

/// Converts a cluster to the server's form.
fn followed(history: &Arc<SealedHistory>) -> FollowedCluster {
    let cluster = history.cluster();
    let mut followed = FollowedCluster::new(cluster.name(), cluster.store(), history.clone());
    cluster.identity().clone_into(&mut followed.store_identity);
    followed
}
