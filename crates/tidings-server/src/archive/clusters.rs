//! The table of served clusters. It is looked up for every request and rarely changes. A change
//! makes a new table, and requests keep the table they began with.
//!
//! Clusters have one order wherever they are listed: the given order, and after that by name. A
//! cluster that is removed and added again has its former place.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use parking_lot::RwLock;
use tidings_core::validate::check_dns1123_label;
use tidings_history::Following;

use super::served_feeds::ServedFeeds;
use crate::api::server::ApiServer;
use crate::api::server::FollowedCluster;
use crate::api::{history, router};
use crate::clock::monotonic;

/// The prefix of a cluster's paths.
pub(super) const PREFIX: &str = "/clusters/";

/// The cluster's name in a path, whether or not the cluster is served.
pub(super) fn name_in(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(PREFIX).filter(|rest| !rest.is_empty())?;
    Some(rest.split_once('/').map_or(rest, |(name, _)| name))
}

/// Why a cluster is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The cluster's name is not a DNS label.
    #[error("{name:?} cannot be a cluster's name: {why}")]
    Name {
        /// The given name.
        name: String,
        /// Says which names are accepted.
        why: String,
    },
    /// A cluster of that name is served already.
    #[error("there is a cluster {name:?} already")]
    Exists {
        /// The cluster's name.
        name: String,
    },
    /// The maximum number of clusters is served already.
    #[error("an archive has at most {max} clusters")]
    TooMany {
        /// [`ApiOptions::max_clusters`](crate::ApiOptions::max_clusters).
        max: usize,
    },
    /// The cluster's options contradict those of the archive.
    #[error("cluster {name:?}: {why}")]
    Options {
        /// The cluster's name.
        name: String,
        /// Which option, and why.
        why: &'static str,
    },
    /// The kubeconfig could not be written. The cluster was added or removed nevertheless.
    #[error("{}: {source}", path.display())]
    Kubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The table of served clusters, and the clusters that should be served and are not.
pub(crate) struct Clusters {
    /// The server of the root paths. It has no events.
    pub(crate) root: Arc<ApiServer>,
    /// The name of the cluster whose API server proxies to the archive's API group, if one does.
    home: Option<String>,
    /// The feeds, if the archive has any.
    pub(super) feeds: Option<Arc<dyn ServedFeeds>>,
    table: RwLock<Arc<Table>>,
    /// The number of the cluster that was added last. Shared caches distinguish clusters by their
    /// numbers.
    last: AtomicU64,
    /// Clusters that should be served and are not.
    missing: RwLock<BTreeMap<String, Missing>>,
}

/// A cluster that should be served and is not.
struct Missing {
    since: Instant,
    why: String,
}

/// The served clusters by name, and their order.
#[derive(Clone, Default)]
struct Table {
    clusters: BTreeMap<String, Arc<Served>>,
    /// The sort positions of names, served or not. Other names come last.
    places: HashMap<String, usize>,
}

impl Table {
    /// The sort position of a cluster; clusters without one come last.
    fn place(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or(usize::MAX)
    }

    fn in_order(&self) -> Vec<Arc<Served>> {
        let mut all: Vec<_> = self.clusters.values().cloned().collect();
        all.sort_by_key(|served| self.place(&served.name));
        all
    }
}

/// A served cluster.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) server: Arc<ApiServer>,
    pub(super) api: TowerToHyperService<Router>,
    /// The resources of the archive's API group; of the home cluster only.
    pub(super) past: Option<TowerToHyperService<Router>>,
    pub(super) requests: AtomicU64,
}

/// A followed cluster as it is in the archive's kubeconfig.
pub(crate) struct ClusterContext {
    pub(crate) name: String,
    /// The user in the cluster's own kubeconfig whose token is sent on.
    pub(crate) user: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl Clusters {
    pub(crate) fn new(
        root: Arc<ApiServer>,
        home: Option<String>,
        feeds: Option<Arc<dyn ServedFeeds>>,
    ) -> Self {
        Self {
            root,
            home,
            feeds,
            table: RwLock::default(),
            last: AtomicU64::new(0),
            missing: RwLock::default(),
        }
    }

    /// Adds a cluster to the table.
    pub(crate) fn add(&self, cluster: FollowedCluster) -> Result<(), ClusterError> {
        let name = cluster.name.clone();
        if let Some(why) = check_dns1123_label(&name).into_iter().next() {
            return Err(ClusterError::Name { name, why });
        }
        if cluster.access.is_some() && self.root.authorizer.allows_everything() {
            return Err(ClusterError::Options {
                name,
                why: "permissions have no effect where everything is allowed (--authorization-mode=AlwaysAllow)",
            });
        }
        let mut current = self.table.write();
        let max = self.root.options.max_clusters;
        if current.clusters.contains_key(&name) {
            return Err(ClusterError::Exists { name });
        }
        if current.clusters.len() >= max {
            return Err(ClusterError::TooMany { max });
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let server = Arc::new(self.root.of_cluster(cluster, number));
        let served = Served {
            name: name.clone(),
            api: TowerToHyperService::new(router(Arc::clone(&server))),
            past: (self.home.as_ref() == Some(&name))
                .then(|| TowerToHyperService::new(history::resources(Arc::clone(&server)))),
            server,
            requests: AtomicU64::new(0),
        };
        let mut table = Table::clone(&current);
        table.clusters.insert(name, Arc::new(served));
        *current = Arc::new(table);
        Ok(())
    }

    /// Removes a cluster: its watches end, and other open requests are finished. Returns false if
    /// no cluster has that name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut current = self.table.write();
        let mut table = Table::clone(&current);
        let served = table.clusters.remove(name);
        if let Some(served) = &served {
            *current = Arc::new(table);
            served.server.remove();
        }
        served.is_some()
    }

    /// Sets the order of clusters by name, served or not. Returns whether it changed.
    pub(crate) fn set_order(&self, names: Vec<String>) -> bool {
        let places = names.into_iter().enumerate();
        let places: HashMap<_, _> = places.map(|(place, name)| (name, place)).collect();
        let mut current = self.table.write();
        let is_new = current.places != places;
        if is_new {
            let mut table = Table::clone(&current);
            table.places = places;
            *current = Arc::new(table);
        }
        is_new
    }

    /// Replaces the clusters that should be served and are not, by name, each with the reason. A
    /// cluster that was missing before keeps the time since when it is.
    pub(crate) fn set_missing(&self, clusters: BTreeMap<String, String>) {
        let mut missing = self.missing.write();
        let clusters = clusters.into_iter().map(|(name, why)| {
            let former = missing.get(&name);
            let since = former.map_or_else(monotonic, |former| former.since);
            (name, Missing { since, why })
        });
        *missing = clusters.collect();
    }

    /// The state of following for each cluster. A missing cluster is included, with its reason as
    /// the problem.
    pub(super) fn followings(&self) -> Vec<(String, Following)> {
        let table = self.table();
        let served = table.clusters.values().filter_map(|served| {
            let followed = served.server.followed.as_ref()?;
            Some((served.name.clone(), followed.history.following()))
        });
        let missing = self.missing.read();
        let missing = missing
            .iter()
            .filter(|(name, _)| !table.clusters.contains_key(*name));
        let missing = missing.map(|(name, missing)| {
            let mut following = Following::new("not started");
            following.since_progress = Some(missing.since.elapsed());
            following.why = Some(missing.why.clone());
            (name.clone(), following)
        });
        let missing = missing.take(self.root.options.max_clusters);
        let mut all: Vec<_> = served.chain(missing).collect();
        all.sort_by(|(one, _), (other, _)| {
            (table.place(one), one).cmp(&(table.place(other), other))
        });
        all
    }

    /// The clusters' names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let served = self.all().into_iter();
        served.map(|served| served.name.clone()).collect()
    }

    /// The name of each followed cluster, and the user and namespace of its contexts in the
    /// archive's kubeconfig, in the order in which the clusters are listed.
    pub(crate) fn contexts(&self) -> Vec<ClusterContext> {
        let of = |served: &Arc<Served>| {
            let followed = served.server.followed.as_ref();
            ClusterContext {
                name: served.name.clone(),
                user: followed.and_then(|followed| followed.passed_user.clone()),
                namespace: followed.and_then(|followed| followed.namespace.clone()),
            }
        };
        self.all().iter().map(of).collect()
    }

    /// The served clusters, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        self.table().in_order()
    }

    /// The home cluster, if it is served.
    pub(crate) fn home(&self) -> Option<Arc<Served>> {
        self.find(self.home.as_deref()?)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Served>> {
        self.table().clusters.get(name).cloned()
    }

    /// The cluster, if it is the only one.
    pub(super) fn only(&self) -> Option<Arc<Served>> {
        let table = self.table();
        let only = table.clusters.values().next().cloned();
        only.filter(|_| table.clusters.len() == 1)
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }
}
