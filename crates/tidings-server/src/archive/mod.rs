//! The archive of several followed clusters, as one server: `/clusters/NAME/` is the whole API of a
//! cluster's events, and the root has what is about all of them.
//!
//! Each cluster has an `ApiServer` and a router of its own, so that what is served below its
//! prefix goes by its store and its permissions alone. The prefix is taken off before anything else
//! looks at the path. Where there is exactly one cluster, its API is at the root, too.

mod clusters;
mod dispatch;
mod measures;
mod root;

use std::sync::Arc;

use axum::Router;

pub use clusters::ClusterError;
pub(crate) use clusters::Clusters;

/// Everything that an archive serves.
pub(crate) fn router(clusters: Arc<Clusters>) -> Router {
    let root = root::router(&clusters);
    dispatch::router(clusters, root)
}
