//! What is about all clusters: their list, health, version and metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get};
use http::StatusCode;
use serde_json::json;

use super::clusters::Clusters;
use crate::api::body::encoded;
use crate::api::server::ApiServer;
use crate::api::{chain, discovery, health, metrics};
use crate::http::negotiate::Media;
use crate::http::status::Status;

/// The root's own paths, behind the same chain as a cluster's.
pub(super) fn router(clusters: &Arc<Clusters>) -> Router {
    let mut api = Router::new()
        .route("/", any(paths))
        .route("/clusters", get(list))
        .route("/clusters/", get(list))
        .route("/version", get(discovery::version))
        .route("/version/", get(discovery::version))
        .route("/metrics", get(metrics::metrics));
    for path in ["/healthz", "/livez", "/readyz"] {
        api = api
            .route(path, any(health::all))
            .route(&format!("{path}/{{check}}"), any(health::one));
    }
    let api = api
        .fallback(|| async { Status::name_a_cluster() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(api, &clusters.root)
        .layer(axum::Extension(Arc::clone(clusters)))
        .with_state(Arc::clone(&clusters.root))
}

/// GET /clusters: their names, in the order in which they were added.
async fn list(axum::Extension(clusters): axum::Extension<Arc<Clusters>>) -> Response {
    let names = clusters.names();
    let list = json!({
        "clusters": names.iter().map(|name| json!({
            "name": name,
            "path": format!("/clusters/{name}"),
        })).collect::<Vec<_>>(),
    });
    let mut json = serde_json::to_vec_pretty(&list).unwrap_or_default();
    json.push(b'\n');
    encoded(StatusCode::OK, Media::Json, json)
}

/// Any method of /: every path there is to know of.
async fn paths(State(_root): State<Arc<ApiServer>>) -> Response {
    let paths = [
        "/clusters",
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
        "/version",
    ];
    let json = serde_json::to_vec_pretty(&json!({"paths": paths})).unwrap_or_default();
    encoded(StatusCode::OK, Media::Json, json)
}
