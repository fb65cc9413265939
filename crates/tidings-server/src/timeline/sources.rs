//! The servers or clusters whose events a timeline shows.

use std::sync::Arc;

use crate::api::server::ApiServer;
use crate::archive::Clusters;

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

impl Sources {
    /// The server that has the limits, clock and log of all.
    pub(crate) fn root(&self) -> &Arc<ApiServer> {
        match self {
            Self::One(server) => server,
            Self::Archive(clusters) => &clusters.root,
        }
    }

    /// The clusters served now; their number is bounded.
    pub(crate) fn all(&self) -> Vec<Source> {
        match self {
            Self::One(server) => vec![Source {
                name: String::new(),
                server: Arc::clone(server),
            }],
            Self::Archive(clusters) => {
                let served = clusters.all().into_iter();
                served
                    .map(|served| Source {
                        name: served.name.clone(),
                        server: Arc::clone(&served.server),
                    })
                    .collect()
            }
        }
    }
}
