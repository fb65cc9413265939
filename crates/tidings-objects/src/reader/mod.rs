//! Reads sealed archives and serves their clusters as an API server would.
//!
//! A reader holds a cache of bounded size and, if it has a source, the pending versions. So any
//! number of readers can share one archive. Rows are found by the manifest, and by files'
//! statistics, bloom filters and page indexes; only the pages that have them are fetched.
//!
//! Its rooms, each of which uses those below it:
//!
//! | room | contents |
//! |---|---|
//! | `serve` | what a server needs: a handle of a cluster, a store, watches, the history |
//! | `answer`, `state` | answers about a view; and the newest view |
//! | `plan` | views, the objects in them, and which parts of files a request reads |
//! | `pending` | pending versions, and what they change for watchers |
//! | `scan` | parts of files: requests and the cache, footers, columns |
//! | `keys` | what identifies objects and events, and their order |

mod answer;
mod fault;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod keys;
mod pending;
mod plan;
mod scan;
mod serve;
mod state;

use std::sync::Arc;

pub use pending::{AskError, WaitingSource};
pub use serve::{HeardOf, SealedCluster, SealedHistory};
pub use state::{HearError, LookError};

use scan::Shared;
use state::Sealed;

use crate::place::{Place, PlaceError};

/// How sealed archives are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Maximum bytes of the cache of all clusters. Default: 32 MiB.
    pub cache_bytes: u64,
    /// Maximum bytes of pending events held for each cluster. Default: 32 MiB. It bounds the newest
    /// state and, compressed, the former states for lists that may continue.
    pub waiting_bytes: u64,
    /// Number of row groups after which a page of the newest events ends, however few it found. So
    /// a search for rare or absent events continues page by page. Default: 32, about 260,000
    /// versions.
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

/// All clusters that have an archive at a place.
pub struct Reader {
    place: Place,
    shared: Arc<Shared>,
    waiting_bytes: u64,
}

impl Reader {
    /// Makes a reader of a place, without any request yet.
    pub fn new(place: Place, options: ReadOptions) -> Self {
        let store = Arc::clone(&place.store);
        let shared = Shared::new(store, options.cache_bytes, options.page_row_groups);
        Self {
            place,
            shared: Arc::new(shared),
            waiting_bytes: options.waiting_bytes,
        }
    }

    /// Lists the names of the clusters, in order.
    ///
    /// # Errors
    ///
    /// The object storage does not answer.
    pub async fn clusters(&self) -> Result<Vec<String>, PlaceError> {
        self.place.clusters().await
    }

    /// Opens one cluster, with its sealed versions only.
    ///
    /// # Errors
    ///
    /// The object storage failed, or has no such cluster.
    pub async fn open(&self, cluster: &str) -> Result<SealedCluster, LookError> {
        self.open_with(cluster, None).await
    }

    /// Opens one cluster with its pending versions. [`hear`](SealedCluster::hear) asks `source` for
    /// them.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open).
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
