//! The served clusters. They are looked up for every request and rarely change: a change makes a
//! new table, and requests keep the table they began with.
//!
//! They have one order wherever they are listed: that which was given, and behind it by name. A
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

use crate::api::followed::{FollowedCluster, Following};
use crate::api::router;
use crate::api::server::ApiServer;
use crate::clock::monotonic;

/// The prefix of a cluster's paths.
pub(super) const PREFIX: &str = "/clusters/";

/// The name of the cluster that a path is about, whether or not it is served.
pub(super) fn name_in(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(PREFIX).filter(|rest| !rest.is_empty())?;
    Some(rest.split_once('/').map_or(rest, |(name, _)| name))
}

/// Why a cluster is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Its name is not a DNS label.
    #[error("{name:?} cannot be a cluster's name: {why}")]
    Name {
        /// What was given.
        name: String,
        /// What is accepted.
        why: String,
    },
    /// A cluster of that name is served already.
    #[error("there is a cluster {name:?} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The maximum number of clusters is served already.
    #[error("an archive has at most {max} clusters")]
    TooMany {
        /// [`ApiOptions::max_clusters`](crate::ApiOptions::max_clusters).
        max: usize,
    },
    /// Its options contradict those of the archive.
    #[error("cluster {name:?}: {why}")]
    Options {
        /// Its name.
        name: String,
        /// Which, and why.
        why: &'static str,
    },
    /// The kubeconfig could not be written. The cluster was added or removed anyway.
    #[error("{}: {source}", path.display())]
    Kubeconfig {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// See the module documentation.
pub(crate) struct Clusters {
    /// The server of the root paths. It has no events.
    pub(crate) root: Arc<ApiServer>,
    table: RwLock<Arc<Table>>,
    /// The number of the cluster that was added last, by which shared caches tell it from others.
    last: AtomicU64,
    /// Clusters that are not served, and should be.
    missing: RwLock<BTreeMap<String, Missing>>,
}

/// A cluster that is not served, and should be.
struct Missing {
    since: Instant,
    why: String,
}

/// Clusters by name, and their order.
#[derive(Clone, Default)]
struct Table {
    clusters: BTreeMap<String, Arc<Served>>,
    /// The places of names, served or not. Others are behind them.
    places: HashMap<String, usize>,
}

impl Table {
    /// The place of a cluster among the others; that of those without one is behind all.
    fn place(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or(usize::MAX)
    }

    fn in_order(&self) -> Vec<Arc<Served>> {
        let mut all: Vec<_> = self.clusters.values().cloned().collect();
        all.sort_by_key(|served| self.place(&served.name));
        all
    }
}

/// A cluster that is served.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) server: Arc<ApiServer>,
    pub(super) api: TowerToHyperService<Router>,
    pub(super) requests: AtomicU64,
}

impl Clusters {
    pub(crate) fn new(root: Arc<ApiServer>) -> Self {
        Self {
            root,
            table: RwLock::default(),
            last: AtomicU64::new(0),
            missing: RwLock::default(),
        }
    }

    /// Begins to serve a cluster.
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
            server,
            requests: AtomicU64::new(0),
        };
        let mut table = Table::clone(&current);
        table.clusters.insert(name, Arc::new(served));
        *current = Arc::new(table);
        Ok(())
    }

    /// Stops serving a cluster: its watches end, and other open requests are finished. Returns
    /// false if no cluster has that name.
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

    /// Sets the order of the clusters, by their names, whether they are served yet or not. Returns
    /// whether it was another one.
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

    /// Replaces the clusters that are not served and should be, by names, and why. One that was
    /// missing before is missing since then.
    pub(crate) fn set_missing(&self, clusters: BTreeMap<String, String>) {
        let mut missing = self.missing.write();
        let clusters = clusters.into_iter().map(|(name, why)| {
            let former = missing.get(&name);
            let since = former.map_or_else(monotonic, |former| former.since);
            (name, Missing { since, why })
        });
        *missing = clusters.collect();
    }

    /// How each cluster is followed. Those that are not served and should be are among them, as
    /// clusters that are followed badly.
    pub(super) fn followings(&self) -> Vec<(String, Following)> {
        let table = self.table();
        let served = table.clusters.values().filter_map(|served| {
            let followed = served.server.followed.as_ref()?;
            Some((served.name.clone(), followed.past.following()))
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

    /// The names, in the order of the clusters.
    pub(crate) fn names(&self) -> Vec<String> {
        let served = self.all().into_iter();
        served.map(|served| served.name.clone()).collect()
    }

    /// The names, and the users whose requests are passed on, in that order.
    pub(crate) fn users(&self) -> Vec<(String, Option<String>)> {
        let of = |served: &Arc<Served>| {
            let followed = served.server.followed.as_ref();
            let user = followed.and_then(|followed| followed.passed_user.clone());
            (served.name.clone(), user)
        };
        self.all().iter().map(of).collect()
    }

    /// The clusters that are served, in their order.
    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        self.table().in_order()
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
