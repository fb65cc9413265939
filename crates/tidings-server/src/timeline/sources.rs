//! The servers or clusters whose events a timeline shows.

use std::sync::Arc;

use crate::api::server::ApiServer;
use crate::archive::{Clusters, Served};

/// One server, or the clusters of an archive.
pub(crate) enum Sources {
    One(Arc<ApiServer>),
    Archive(Arc<Clusters>),
}

/// A cluster by its name, which is empty for a server's own events.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) server: Arc<ApiServer>,
}

impl Source {
    fn of(served: &Served) -> Self {
        Self {
            name: served.name.clone(),
            server: Arc::clone(&served.server),
        }
    }
}

impl Sources {
    /// The server that has the limits, clock and log of all.
    pub(crate) fn root(&self) -> &Arc<ApiServer> {
        match self {
            Self::One(server) => server,
            Self::Archive(clusters) => &clusters.root,
        }
    }

    /// The cluster whose API server proxies to the archive, if it is served.
    pub(super) fn home(&self) -> Option<Source> {
        match self {
            Self::One(_) => None,
            Self::Archive(clusters) => clusters.home().map(|served| Source::of(&served)),
        }
    }

    /// The clusters served now; their number is bounded.
    pub(crate) fn all(&self) -> Vec<Source> {
        match self {
            Self::One(server) => vec![Source {
                name: String::new(),
                server: Arc::clone(server),
            }],
            Self::Archive(clusters) => clusters.all().iter().map(|it| Source::of(it)).collect(),
        }
    }
}
