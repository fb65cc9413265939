//! Whose events a timeline is of.

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
    /// The server whose limits, clock and log are those of all.
    pub(crate) fn root(&self) -> &Arc<ApiServer> {
        match self {
            Self::One(server) => server,
            Self::Archive(clusters) => &clusters.root,
        }
    }

    /// Those that are served now: a bounded number.
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
