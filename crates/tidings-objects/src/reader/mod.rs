//! Reads archives of clusters where they are, as an API server serves them.
//!
//! A reader holds a cache of bounded size and, if it asks for that, what waits to be sealed; so any
//! number of them read one archive. Rows are found by the manifest, the statistics, the filters and
//! the page index of files; of these only the pages that have them are read.
//!
//! Of these files, each uses those behind it: `served` and `store`, what a server needs; `watched`,
//! what those who watch are told; `hear` and `cluster`, the newest view; `ask`, where more is asked
//! for; `news`, what is new to those who watch; `list`, `find`, `newest` and `counts`, what is
//! asked for; `view`, what one manifest names, and `tail`, what waits behind it; `columns`, `runs`,
//! `rolled` and `footer`, parts of files; `fetch`, requests and the cache.

mod ask;
mod cluster;
mod columns;
mod counts;
mod fault;
mod fetch;
mod find;
mod footer;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod hear;
mod leaf;
mod list;
mod names;
mod newest;
mod news;
mod objects;
mod position;
mod rolled;
mod runs;
mod selection;
mod served;
mod store;
mod tail;
mod view;
mod watched;

use std::sync::Arc;

pub use ask::{AskError, WaitingSource};
pub use cluster::{Asked, LookError};
pub use hear::HearError;
pub use served::{HeardOf, SealedCluster};

use cluster::Sealed;
use fetch::Shared;

use crate::place::{Place, PlaceError};

/// How archives are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum bytes of the cache of all clusters. Default: 32 MiB.
    pub cache_bytes: u64,
    /// Of each cluster: bytes of events from which on no more of what waits to be sealed is held,
    /// in the newest state and, compressed, in former ones of lists that may continue. Default: 32
    /// MiB.
    pub waiting_bytes: u64,
    /// Row groups after which a page of the newest events ends, however few were found, so that
    /// what is rare, or is not there, is looked for in pages. Default: 32, about 260,000 versions.
    pub page_row_groups: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            waiting_bytes: 32 << 20,
            page_row_groups: 32,
        }
    }
}

/// All clusters that are archived at a place.
pub struct Reader {
    place: Place,
    shared: Arc<Shared>,
    waiting_bytes: u64,
}

impl Reader {
    /// Of a place. Nothing is asked yet.
    pub fn new(place: Place, options: ReadOptions) -> Self {
        let store = Arc::clone(&place.store);
        let shared = Shared::new(store, options.cache_bytes, options.page_row_groups);
        Self {
            place,
            shared: Arc::new(shared),
            waiting_bytes: options.waiting_bytes,
        }
    }

    /// The names of the clusters, in order.
    ///
    /// # Errors
    /// The storage does not answer.
    pub async fn clusters(&self) -> Result<Vec<String>, PlaceError> {
        self.place.clusters().await
    }

    /// One of them: what is sealed of it.
    ///
    /// # Errors
    /// The storage does not answer as it should, or has no such cluster.
    pub async fn open(&self, cluster: &str) -> Result<SealedCluster, LookError> {
        self.open_with(cluster, None).await
    }

    /// The same, and what waits to be sealed, which is asked for there by
    /// [`hear`](SealedCluster::hear).
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub async fn open_with(
        &self,
        cluster: &str,
        source: Option<Arc<dyn WaitingSource>>,
    ) -> Result<SealedCluster, LookError> {
        let (shared, waiting) = (Arc::clone(&self.shared), (source, self.waiting_bytes));
        let sealed = Sealed::open(&self.place, cluster, shared, waiting).await?;
        Ok(SealedCluster(Arc::new(sealed)))
    }
}
