//! Reads archives of clusters where they are, as an API server serves them.
//!
//! A reader holds a cache of bounded size and nothing else, so any number of them read one archive.
//! Rows are found by the manifest, the statistics, the filters and the page index of files; of
//! these only the pages that have them are read.
//!
//! Of these files, each uses those behind it: `served` and `store`, what a server needs; `cluster`,
//! the newest manifest; `list`, `find`, `newest` and `counts`, what is asked for; `view`, what one
//! manifest names; `columns`, `runs`, `rolled` and `footer`, parts of files; `fetch`, requests and
//! the cache.

mod cluster;
mod columns;
mod counts;
mod fault;
mod fetch;
mod find;
mod footer;
mod leaf;
mod list;
mod names;
mod newest;
mod objects;
mod position;
mod rolled;
mod runs;
mod selection;
mod served;
mod store;
mod view;

use std::sync::Arc;

pub use cluster::{Asked, LookError};
pub use served::SealedCluster;

use cluster::Sealed;
use fetch::Shared;

use crate::place::{Place, PlaceError};

/// How archives are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum bytes of the cache of all clusters. Default: 32 MiB.
    pub cache_bytes: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
        }
    }
}

/// All clusters that are archived at a place.
pub struct Reader {
    place: Place,
    shared: Arc<Shared>,
}

impl Reader {
    /// Of a place. Nothing is asked yet.
    pub fn new(place: Place, options: ReadOptions) -> Self {
        let shared = Shared::new(Arc::clone(&place.store), options.cache_bytes);
        Self {
            place,
            shared: Arc::new(shared),
        }
    }

    /// The names of the clusters, in order.
    ///
    /// # Errors
    /// The storage does not answer.
    pub async fn clusters(&self) -> Result<Vec<String>, PlaceError> {
        self.place.clusters().await
    }

    /// One of them.
    ///
    /// # Errors
    /// The storage does not answer as it should, or has no such cluster.
    pub async fn open(&self, cluster: &str) -> Result<SealedCluster, LookError> {
        let sealed = Sealed::open(&self.place, cluster, Arc::clone(&self.shared)).await?;
        Ok(SealedCluster(Arc::new(sealed)))
    }
}
