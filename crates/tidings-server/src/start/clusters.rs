//! Starts the API server of an archive with several followed clusters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tidings_store::memory::MemoryStore;

use super::kubeconfig::kubeconfig_of_clusters;
use super::private::write_private;
use super::serve::Served;
use super::{Aggregation, Clients, Prepared, Running, StartOptions};
use crate::api::server::FollowedCluster;
use crate::archive::{self, ClusterError, Clusters};
use crate::start::error::StartError;
use crate::timeline::{self, Entrance, Timeline};

/// A running server of an archive. Dropping it also ends the server, but without waiting for
/// anything; see [`shutdown`](RunningClusters::shutdown).
#[derive(Debug)]
pub struct RunningClusters {
    running: Running,
    written: Arc<Kubeconfig>,
}

/// The kubeconfig and its parts.
struct Kubeconfig {
    clusters: Arc<Clusters>,
    address: SocketAddr,
    clients: Clients,
    path: PathBuf,
    /// Held while the file is written, so that the last written file has all changes.
    writing: Mutex<()>,
}

impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Kubeconfig {
    fn write(&self) -> Result<(), ClusterError> {
        let _writing = self.writing.lock();
        let followed = self.clusters.contexts();
        let text = kubeconfig_of_clusters(self.address, &self.clients.credentials(), &followed);
        write_private(&self.path, text.as_bytes()).map_err(|source| ClusterError::Kubeconfig {
            path: self.path.clone(),
            source,
        })
    }
}

impl RunningClusters {
    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// The path of a kubeconfig with a context for each cluster, readable by its owner only. The
    /// first cluster's context is the current one; see [`set_order`](Self::set_order). A second
    /// context of each cluster, `archive-NAME`, uses names that the cluster's own kubeconfig does
    /// not have; see [`FollowedCluster::passed_user`].
    pub fn kubeconfig(&self) -> &Path {
        self.running.kubeconfig()
    }

    /// The names of the clusters, in order; see [`set_order`](Self::set_order).
    pub fn clusters(&self) -> Vec<String> {
        self.written.clusters.names()
    }

    /// Sets the order of the clusters wherever they are listed, by name, whether or not they are
    /// served yet. Writes the kubeconfig if the order changed. Clusters without a place come last,
    /// by name. Default: the order of the first clusters.
    ///
    /// # Errors
    /// [`ClusterError::Kubeconfig`] if it cannot be written.
    pub async fn set_order(&self, names: Vec<String>) -> Result<(), ClusterError> {
        if !self.written.clusters.set_order(names) {
            return Ok(());
        }
        self.write().await
    }

    /// Begins to serve a cluster, and adds it to the kubeconfig.
    ///
    /// # Errors
    /// [`ClusterError`] says why it is not served.
    pub async fn add(&self, cluster: FollowedCluster) -> Result<(), ClusterError> {
        self.written.clusters.add(cluster)?;
        self.write().await
    }

    /// Stops serving a cluster, and removes it from the kubeconfig: its watches end, and other open
    /// requests are finished. Its store is not closed. Returns false if no cluster has that name.
    ///
    /// # Errors
    /// [`ClusterError::Kubeconfig`] if it cannot be written.
    pub async fn remove(&self, name: &str) -> Result<bool, ClusterError> {
        let removed = self.written.clusters.remove(name);
        if removed {
            self.write().await?;
        }
        Ok(removed)
    }

    /// Sets the clusters that should be served and are not, by name, each with the reason. Health
    /// and metrics then show them, as clusters that are not followed. Replaces the previous ones; a
    /// cluster that was missing before keeps its time. At most
    /// [`max_clusters`](crate::ApiOptions::max_clusters) are shown.
    pub fn set_missing(&self, clusters: BTreeMap<String, String>) {
        self.written.clusters.set_missing(clusters);
    }

    async fn write(&self) -> Result<(), ClusterError> {
        let written = Arc::clone(&self.written);
        let task = tokio::task::spawn_blocking(move || written.write());
        // The task does not panic; without a result, the runtime is shutting down.
        task.await.unwrap_or(Ok(()))
    }

    /// Reloads the files of tokens, permissions and certificates now; see [`Running::reload`].
    pub async fn reload(&self) -> bool {
        self.running.reload().await
    }

    /// Keeps the archive and the API server of the home cluster known to each other, if the options
    /// have [`aggregated`](StartOptions::aggregated).
    pub fn aggregation(&self) -> Aggregation {
        self.running.aggregation()
    }

    /// Stops accepting, ends watches cleanly and finishes requests in flight. The clusters' stores
    /// are not closed, because their followers may still write to them.
    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}

/// Starts a server of followed clusters' events, which is ready when this returns. Needs a tokio
/// runtime.
///
/// `/clusters/NAME` has the whole API of a cluster's events. With exactly one cluster, the root has
/// it, too. The root has health, version, metrics and the list of clusters, `/clusters`. Events can
/// be read and deleted, not written. Connections, requests in flight, caches of encoded events,
/// counts and the audit log are shared by all clusters.
///
/// If there are more than [`max_clusters`](crate::ApiOptions::max_clusters), the first ones are
/// served. The others are missing, as described at [`set_missing`](RunningClusters::set_missing).
///
/// [`StartOptions::storage`] is not used. The options' tokens, client certificates and permissions
/// are valid for the root and for every cluster; see [`FollowedCluster::access`].
///
/// # Errors
/// [`StartError`] says which file, address, token or cluster was wrong.
pub async fn start_clusters(
    options: StartOptions,
    clusters: Vec<FollowedCluster>,
) -> Result<RunningClusters, StartError> {
    // The root has no events of its own.
    let home = options.aggregated.as_ref().map(|it| it.home.clone());
    let feeds = options.feeds.clone();
    let prepared = Prepared::of(Arc::new(MemoryStore::default()), options).await?;
    let asked = |cluster: &FollowedCluster| cluster.access.is_some();
    // Clusters that are added later are not known yet.
    prepared.warn_of_closed_doors(clusters.is_empty() || clusters.iter().any(asked));
    let all = Clusters::new(Arc::clone(&prepared.server), home.clone(), feeds);
    let all = Arc::new(all);
    let names = clusters.iter().map(|cluster| cluster.name.clone());
    all.set_order(names.collect());
    let mut missing = BTreeMap::new();
    for cluster in clusters {
        let name = cluster.name.clone();
        match all.add(cluster) {
            Ok(()) => {}
            // A cluster too many does not prevent the others from being served.
            Err(error @ ClusterError::TooMany { .. }) => {
                tracing::error!(cluster = name, %error, "the cluster is not served");
                missing.insert(name, error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    all.set_missing(missing);
    let written = Arc::new(Kubeconfig {
        clusters: Arc::clone(&all),
        address: prepared.address,
        clients: prepared.clients(),
        path: prepared.kubeconfig.clone(),
        writing: Mutex::default(),
    });
    written.write()?;
    let timeline = prepared.has_timeline().then(|| {
        let timeline = Timeline::of_archive(Arc::clone(&all), Entrance::Login);
        Arc::new(timeline)
    });
    let pages = timeline.clone().map(super::timeline_router);
    let mut served = Served::new(archive::router(Arc::clone(&all)), pages);
    if home.is_some() {
        let group = archive::aggregated(all);
        served = served.with_aggregated(match timeline {
            Some(timeline) => timeline::past(timeline).fallback_service(group),
            None => group,
        });
    }
    let again = Arc::clone(&written);
    let write = Box::new(move || again.write().map_err(|error| error.to_string()));
    let running = prepared.run(served, write, std::future::ready(()));
    Ok(RunningClusters { running, written })
}
