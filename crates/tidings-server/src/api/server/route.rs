//! Routes of the API.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;

use super::state::ApiServer;
use crate::http::status::Status;

/// Adds a route, with and without a slash at its end.
pub(in crate::api) fn at(
    router: Router<Arc<ApiServer>>,
    path: &str,
    answer: MethodRouter<Arc<ApiServer>>,
) -> Router<Arc<ApiServer>> {
    let answer = answer.fallback(|| async { Status::method_not_allowed() });
    router
        .route(&format!("{path}/"), answer.clone())
        .route(path, answer)
}
