//! Dispatches requests to clusters, by the first two segments of the path.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use http::Uri;
use http::uri::PathAndQuery;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::clusters::{Clusters, PREFIX, name_in};
use crate::api::chain;
use crate::http::request::{FEEDS, OfCluster, is_at_or_below};
use crate::http::status::Status;

/// Path prefixes of the root, which are not those of a cluster even if a single cluster's API is
/// also at the root.
const ROOT: [&str; 6] = [
    "/clusters",
    FEEDS,
    "/healthz",
    "/livez",
    "/metrics",
    "/readyz",
];

struct Dispatch {
    clusters: Arc<Clusters>,
    root: TowerToHyperService<Router>,
}

/// Sends each request to its cluster. The root answers requests for unknown clusters, after asking
/// for credentials like a cluster does.
pub(super) fn router(clusters: Arc<Clusters>, root: Router) -> Router {
    let root = TowerToHyperService::new(root);
    Router::new()
        .fallback(dispatch)
        .with_state(Arc::new(Dispatch { clusters, root }))
}

async fn dispatch(State(dispatch): State<Arc<Dispatch>>, mut request: Request) -> Response {
    let Dispatch { clusters, root } = &*dispatch;
    let path = request.uri().path();
    let name = name_in(path).map(str::to_owned);
    if name.is_some() {
        request.extensions_mut().insert(OfCluster);
    }
    let served = match name.as_deref() {
        Some(name) => match clusters.find(name) {
            Some(served) => {
                let below = below(request.uri(), PREFIX.len() + name.len());
                let Some(uri) = below else {
                    let status = Status::no_such_path();
                    return chain::refuse(Arc::clone(&clusters.root), request, status);
                };
                *request.uri_mut() = uri;
                Some(served)
            }
            None => None,
        },
        None if is_roots(request.uri().path()) => None,
        None => clusters.only(),
    };
    let answer = match served {
        Some(served) => {
            served.requests.fetch_add(1, Ordering::Relaxed);
            served.api.call(request).await
        }
        None => root.call(request).await,
    };
    answer.unwrap_or_else(|never: Infallible| match never {})
}

fn is_roots(path: &str) -> bool {
    ROOT.into_iter().any(|root| is_at_or_below(path, root))
}

/// The URI without the first `len` bytes of its path.
pub(super) fn below(uri: &Uri, len: usize) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().get(len..)?;
    let rest = match rest.as_bytes().first() {
        Some(b'/') => PathAndQuery::try_from(rest),
        _ => PathAndQuery::try_from(format!("/{rest}")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(rest.ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_taken_off_and_nothing_else() {
        for (uri, len, expected) in [
            ("/clusters/a", 11, "/"),
            ("/clusters/a/", 11, "/"),
            ("/clusters/a?x=/y", 11, "/?x=/y"),
            (
                "/clusters/a/api/v1/events?limit=1",
                11,
                "/api/v1/events?limit=1",
            ),
            ("/clusters/a//api", 11, "//api"),
            ("/clusters/a/%2e%2e/b", 11, "/%2e%2e/b"),
            (
                "https://archive.example:6443/clusters/a/api",
                11,
                "https://archive.example:6443/api",
            ),
        ] {
            let below = below(&uri.parse().unwrap(), len).unwrap();
            assert_eq!(below.to_string(), expected, "{uri}");
        }
    }

    #[test]
    fn a_path_below_clusters_names_one() {
        for (path, expected) in [
            ("/clusters", None),
            ("/clusters/", None),
            ("/clustersx/a", None),
            ("/api/v1/clusters/a", None),
            ("/clusters/a", Some("a")),
            ("/clusters/a/", Some("a")),
            ("/clusters/a/clusters/b", Some("a")),
            ("/clusters/%61/api", Some("%61")),
            ("/clusters//api", Some("")),
        ] {
            assert_eq!(name_in(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_the_roots_own() {
        for (path, expected) in [
            ("/clusters", true),
            ("/clusters/", true),
            ("/readyz/ping", true),
            ("/metrics", true),
            ("/metricsx", false),
            ("/api/v1", false),
            ("/", false),
        ] {
            assert_eq!(is_roots(path), expected, "{path}");
        }
    }
}
