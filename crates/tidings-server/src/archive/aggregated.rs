//! The API that the aggregation layer of the home cluster's API server proxies to: the archive's
//! API group. Its requests have a user whom the front proxy named ([`Fronted`]), and nothing else
//! of the archive is served to them.
//!
//! `clusters/NAME/proxy` is the root of a followed cluster's whole Event API. Users of the home
//! cluster need `get` on `clusters/proxy` for this name there. In another cluster than their own
//! they may then do only what bindings about it allow.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, Uri};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tidings_api::codec::{PAST_GROUP, PAST_VERSION};
use tokio::time::timeout;

use super::clusters::{Clusters, Served};
use super::dispatch::below;
use crate::api::request::encoded;
use crate::api::{access, chain, history};
use crate::auth::attributes::{Attributes, ResourceAttributes};
use crate::auth::front_proxy::Fronted;
use crate::http::negotiate::Media;
use crate::http::request::is_at_or_below;
use crate::http::status::Status;

/// The path of the followed clusters, below that of the group's version.
const CLUSTERS: &str = "/clusters";
/// The path of a cluster's API, below that of the cluster.
const PROXY: &str = "/proxy";

struct Aggregated {
    clusters: Arc<Clusters>,
    documents: TowerToHyperService<Router>,
    /// The path of the group's version.
    version: String,
}

pub(super) fn router(clusters: Arc<Clusters>) -> Router {
    let documents = history::documents(Arc::clone(&clusters.root));
    let aggregated = Aggregated {
        clusters,
        documents: TowerToHyperService::new(documents),
        version: history::version(),
    };
    Router::new()
        .fallback(dispatch)
        .with_state(Arc::new(aggregated))
}

async fn dispatch(State(aggregated): State<Arc<Aggregated>>, request: Request) -> Response {
    let path = request.uri().path();
    let below_version = path.strip_prefix(aggregated.version.as_str());
    let is_resource = below_version.is_some_and(|rest| !rest.trim_end_matches('/').is_empty());
    let answer = if !is_resource {
        // The aggregation layer asks for discovery whether or not the home cluster is served.
        aggregated.documents.call(request).await
    } else if let Some(home) = aggregated.clusters.home() {
        home_answer(&aggregated, &home, request).await
    } else {
        let root = Arc::clone(&aggregated.clusters.root);
        let status = Status::unavailable("the archive does not serve its own cluster yet");
        Ok(chain::refuse(root, request, status))
    };
    answer.unwrap_or_else(|never: Infallible| match never {})
}

/// Answers a request for a resource of the group.
async fn home_answer(
    aggregated: &Aggregated,
    home: &Arc<Served>,
    request: Request,
) -> Result<Response, Infallible> {
    let path = request.uri().path();
    let rest = path.strip_prefix(aggregated.version.as_str());
    let rest = rest.unwrap_or_default();
    if !is_at_or_below(rest, CLUSTERS) {
        let Some(past) = &home.past else {
            let status = Status::no_such_path();
            return Ok(chain::refuse(Arc::clone(&home.server), request, status));
        };
        home.requests.fetch_add(1, Ordering::Relaxed);
        return past.call(request).await;
    }
    let rest = rest.get(CLUSTERS.len()..).unwrap_or_default();
    if rest.trim_end_matches('/').is_empty() {
        return Ok(list(aggregated, home, request).await);
    }
    let named = rest.strip_prefix('/').unwrap_or_default();
    let (name, rest) = named.split_at(named.find('/').unwrap_or(named.len()));
    if name.is_empty() || !is_at_or_below(rest, PROXY) {
        let status = Status::no_such_path();
        return Ok(chain::refuse(Arc::clone(&home.server), request, status));
    }
    let name = name.to_owned();
    let prefix = path.len() - rest.len() + PROXY.len();
    let below = below(request.uri(), prefix);
    let found = aggregated.clusters.find(&name).zip(below);
    let request = match admit(home, request, ("get", &name), found.as_ref()).await {
        Ok(request) => request,
        Err(refused) => return Ok(refused),
    };
    let Some((served, uri)) = found else {
        let status = Status::no_such_cluster(&name);
        return Ok(chain::refuse(Arc::clone(&home.server), request, status));
    };
    let mut request = request;
    *request.uri_mut() = uri;
    served.requests.fetch_add(1, Ordering::Relaxed);
    served.api.call(request).await
}

/// Returns the request if its user may do this at home with the API of the cluster of this name, or
/// with the list of clusters if the name is empty. `found` is the cluster, and the path there.
///
/// # Errors
/// The answer to a request that is refused. The audit log has it if it would have changed events.
async fn admit(
    home: &Arc<Served>,
    request: Request,
    (verb, name): (&'static str, &str),
    found: Option<&(Arc<Served>, Uri)>,
) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    let server = &home.server;
    let Ok(room) = chain::room_for_head(&parts) else {
        return Err(chain::refuse_head(server, Request::from_parts(parts, body)));
    };
    let allowed = async {
        let Some(Fronted(user)) = parts.extensions.get() else {
            return Err(Status::unauthorized());
        };
        let asked = Attributes::Resource(ResourceAttributes {
            verb: verb.into(),
            group: PAST_GROUP.into(),
            version: "v1".into(),
            resource: "clusters".into(),
            subresource: if name.is_empty() { "" } else { "proxy" }.into(),
            name: name.into(),
            ..ResourceAttributes::default()
        });
        access::require(server, user, &asked).await
    };
    let allowed = timeout(server.options.request_timeout, allowed).await;
    drop(room);
    let mut request = Request::from_parts(parts, body);
    match (allowed.unwrap_or_else(|_| Err(Status::timeout())), found) {
        (Ok(()), _) => Ok(request),
        (Err(status), None) => Err(chain::refuse(Arc::clone(server), request, status)),
        (Err(status), Some((served, uri))) => {
            *request.uri_mut() = uri.clone();
            Err(chain::refuse_user(&served.server, request, status).await)
        }
    }
}

/// GET of the list of followed clusters. The home cluster is marked: its own users read it without
/// `clusters/proxy`.
async fn list(aggregated: &Aggregated, home: &Arc<Served>, request: Request) -> Response {
    let request = match admit(home, request, ("list", ""), None).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    if request.method() != Method::GET {
        let status = Status::method_not_allowed();
        return chain::refuse(Arc::clone(&home.server), request, status);
    }
    // Also the clusters that cannot be opened or reached: they are not to be overlooked.
    let mut names = aggregated.clusters.names();
    let followed = aggregated.clusters.followings().into_iter();
    for (name, _) in followed {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let names = names.into_iter();
    let items: Vec<Value> = names
        .map(|name| json!({"metadata": {"name": name}, "isHome": name == home.name}))
        .collect();
    let list =
        json!({"kind": "ClusterList", "apiVersion": PAST_VERSION, "metadata": {}, "items": items});
    encoded(StatusCode::OK, Media::Json, list.to_string().into_bytes()).into_response()
}
