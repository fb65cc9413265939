//! The API server of an archive with several followed clusters. `/clusters/NAME/` is the API of a
//! cluster's events; the root has health, metrics and the list of clusters.
//!
//! Each cluster has its own `ApiServer` and router, so requests below its prefix depend only on its
//! store and permissions. The prefix is removed before the path is used for anything else. The API
//! of a single cluster is also served at the root.

mod aggregated;
mod clusters;
mod dispatch;
mod feeds;
mod measures;
mod root;
mod served_feeds;

use std::sync::Arc;

use axum::Router;

pub use clusters::ClusterError;
pub(crate) use clusters::{ClusterContext, Clusters, Served};
pub use served_feeds::ServedFeeds;

/// The routes for the aggregation layer of the home cluster's API server.
pub(crate) fn aggregated(clusters: Arc<Clusters>) -> Router {
    aggregated::router(clusters)
}

/// All routes of an archive.
pub(crate) fn router(clusters: Arc<Clusters>) -> Router {
    let root = root::router(&clusters);
    dispatch::router(clusters, root)
}
