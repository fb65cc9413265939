//! The root of an archive: the list of clusters, health, version and metrics, and the answer to
//! requests for unknown clusters.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use http::{StatusCode, Uri};
use serde_json::json;
use tidings_history::{ClusterPath, Clusters as ClusterList};

use super::clusters::{Clusters, name_in};
use super::{feeds, measures};
use crate::api::request::encoded;
use crate::api::server::ApiServer;
use crate::api::{chain, documents, health, metrics};
use crate::auth::{ANONYMOUS, User};
use crate::http::negotiate::Media;
use crate::http::request::{FEEDS, RequestInfo};
use crate::http::status::Status;
use crate::metrics::Text;

/// The root's routes, wrapped in the same chain of steps as a cluster's.
pub(super) fn router(clusters: &Arc<Clusters>) -> Router {
    let mut api = Router::new()
        .route("/", any(paths))
        .route("/clusters", get(list))
        .route("/clusters/", get(list))
        .route("/version", get(documents::version))
        .route("/version/", get(documents::version))
        .route("/metrics", get(measure))
        .route("/metrics/events", get(measure_events))
        .route(FEEDS, any(feeds::answer))
        .route("/feeds/{*rest}", any(feeds::answer));
    for path in ["/healthz", "/livez", "/readyz"] {
        api = api
            .route(path, any(check_all))
            .route(&format!("{path}/{{check}}"), any(check_one));
    }
    let api = api
        .fallback(|uri: Uri| async move { not_served(uri.path()) })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(api, &clusters.root)
        .layer(Extension(Arc::clone(clusters)))
        .with_state(Arc::clone(&clusters.root))
}

/// The Status for a path that belongs neither to the root nor to a cluster.
fn not_served(path: &str) -> Status {
    name_in(path).map_or_else(Status::name_a_cluster, Status::no_such_cluster)
}

/// GET of all checks. A problem of one cluster fails no check. Anonymous clients do not see the
/// names of clusters.
async fn check_all(
    State(root): State<Arc<ApiServer>>,
    Extension(clusters): Extension<Arc<Clusters>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    Extension(user): Extension<User>,
) -> Response {
    let mut found = Vec::new();
    for check in health::checks(info.uri.path()) {
        found.push((*check, failure(&root, &clusters, check).await));
    }
    let followings = clusters.followings();
    let lines = if user.name == ANONYMOUS {
        let fail = followings.iter().filter(|(_, it)| it.problem().is_some());
        vec![health::clusters_line(followings.len(), fail.count())]
    } else {
        let lines = followings.iter();
        let lines = lines.map(|(name, following)| health::following_line(name, following, &user));
        lines.collect()
    };
    health::report(&info, &found, lines)
}

/// GET of one check.
async fn check_one(
    State(root): State<Arc<ApiServer>>,
    Extension(clusters): Extension<Arc<Clusters>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    Path(check): Path<String>,
) -> Response {
    let check = health::our_name(&check);
    if !health::checks(info.uri.path()).contains(&check) {
        return documents::not_found();
    }
    health::report_one(failure(&root, &clusters, check).await)
}

/// Why a check fails; `None` if it passes. The check of the store fails only if the stores of all
/// clusters fail; the first of them is named.
async fn failure(root: &ApiServer, clusters: &Clusters, check: &str) -> Option<String> {
    if check != "store" {
        return health::failure(root, check).await;
    }
    let mut first = None;
    for served in clusters.all() {
        let why = health::failure(&served.server, check).await?;
        first.get_or_insert(format!("cluster {}: {why}", served.name));
    }
    first
}

/// GET /metrics
async fn measure(
    State(root): State<Arc<ApiServer>>,
    Extension(clusters): Extension<Arc<Clusters>>,
) -> Response {
    let mut text = metrics::page(&root, None);
    measures::write(&clusters, &mut text);
    if let Some(feeds) = &clusters.feeds {
        text.append(&feeds.metrics().await);
    }
    metrics::answer(text)
}

/// GET /metrics/events
async fn measure_events(Extension(clusters): Extension<Arc<Clusters>>) -> Response {
    let page = match &clusters.feeds {
        Some(feeds) => feeds.event_metrics().await,
        None => None,
    };
    let Some(page) = page else {
        let why = "no feed counts events: the file of feeds has none with metrics";
        return Status::of_feeds(StatusCode::NOT_FOUND, why).into_response();
    };
    let mut text = Text::default();
    text.append(&page);
    metrics::answer(text)
}

/// GET /clusters: the clusters' names, in order.
async fn list(Extension(clusters): Extension<Arc<Clusters>>) -> Response {
    let names = clusters.names().into_iter();
    let clusters = names.map(|name| ClusterPath {
        path: format!("/clusters/{name}"),
        name,
    });
    let list = ClusterList {
        clusters: clusters.collect(),
    };
    let mut json = serde_json::to_vec_pretty(&list).unwrap_or_default();
    json.push(b'\n');
    encoded(StatusCode::OK, Media::Json, json)
}

/// Any method of /: the paths that the root serves.
async fn paths() -> Response {
    let paths = [
        "/clusters",
        "/feeds",
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
        "/version",
    ];
    let json = serde_json::to_vec_pretty(&json!({"paths": paths})).unwrap_or_default();
    encoded(StatusCode::OK, Media::Json, json)
}
