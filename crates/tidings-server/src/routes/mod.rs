//! Which path is answered by whom, and what every answer has in common.

mod access;
mod apply;
mod body;
mod call;
mod delete;
mod discovery;
mod discovery_messages;
mod frame;
mod health;
mod list;
mod list_writer;
mod metrics;
mod namespaces;
mod newest;
mod openapi;
mod pages;
mod review;
mod warnings;
mod watch;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};

use crate::audit;
use crate::compress;
use crate::error::Status;
use crate::limits;
use crate::metrics::measure;
use crate::query::Query;
use crate::server::ApiServer;

pub(crate) use body::present;
pub(crate) use discovery::build_info;
pub(crate) use warnings::warn;

/// The whole API as a service, to be put behind a listener or called directly.
pub fn router(server: Arc<ApiServer>) -> Router {
    let mut api = Router::new();
    for prefix in ["/api/v1", "/apis/events.k8s.io/v1"] {
        let all = format!("{prefix}/namespaces/{{namespace}}/events");
        let one = format!("{all}/{{name}}");
        api = at(api, &format!("{prefix}/events"), get(list::list));
        api = at(
            api,
            &all,
            get(list::list)
                .post(write::create)
                .delete(delete::delete_collection),
        );
        api = at(
            api,
            &one,
            get(list::get)
                .put(write::replace)
                .patch(write::patch)
                .delete(delete::delete),
        );
        for watched in [
            "events",
            "namespaces/{namespace}/events",
            "namespaces/{namespace}/events/{name}",
        ] {
            api = at(api, &format!("{prefix}/watch/{watched}"), get(list::list));
        }
    }
    for (path, answer) in [
        ("/api", get(discovery::core_versions)),
        ("/apis/{group}", get(discovery::group)),
        ("/api/v1", get(discovery::core_resources)),
        ("/apis/{group}/{version}", get(discovery::resources)),
        ("/api/v1/namespaces", get(namespaces::list)),
        ("/api/v1/namespaces/{namespace}", get(namespaces::get)),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            post(review::access),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            post(review::rules),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            post(review::subject),
        ),
    ] {
        api = at(api, path, answer);
    }
    let api = api
        // These do not tell methods apart.
        .route("/", any(discovery::paths))
        .route("/apis", any(discovery::groups))
        .route("/apis/", any(discovery::groups))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi/v3", get(openapi::index))
        .route("/openapi/v3/{*path}", get(openapi::version))
        .fallback(no_such_path)
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() })
        .layer(middleware::from_fn(get_is_not_head))
        // The last is passed first.
        .layer(middleware::from_fn_with_state(
            server.clone(),
            compress::compress,
        ))
        .layer(middleware::from_fn_with_state(
            server.clone(),
            limits::limit,
        ))
        // A cluster may be asked for long: who waits for it is in nobody's way.
        .layer(middleware::from_fn_with_state(
            server.clone(),
            access::authorize,
        ))
        .layer(middleware::from_fn_with_state(server.clone(), audit::log));
    // A probe is answered however much there is to do.
    let mut probes = at(Router::new(), "/version", get(discovery::version));
    for path in ["/healthz", "/livez", "/readyz"] {
        probes = probes
            .route(path, any(health::all))
            .route(&format!("{path}/{{check}}"), any(health::one));
    }
    let probes = probes.layer(middleware::from_fn_with_state(
        server.clone(),
        access::authorize,
    ));
    probes
        .merge(api)
        .layer(middleware::from_fn_with_state(
            server.clone(),
            access::authenticate,
        ))
        .layer(middleware::from_fn(common_headers))
        .layer(middleware::from_fn_with_state(server.clone(), measure))
        .with_state(server)
}

/// Answers a path, and the same with a slash at its end.
fn at(
    router: Router<Arc<ApiServer>>,
    path: &str,
    answer: MethodRouter<Arc<ApiServer>>,
) -> Router<Arc<ApiServer>> {
    let answer = answer.fallback(|| async { Status::method_not_allowed() });
    router
        .route(&format!("{path}/"), answer.clone())
        .route(path, answer)
}

/// Resources are not asked for by HEAD.
async fn get_is_not_head(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let resource = path.starts_with("/api/") || path == "/api" || path.starts_with("/apis/");
    if resource && request.method() == Method::HEAD {
        return Status::method_not_allowed().into_response();
    }
    next.run(request).await
}

/// What is below a version that is served is answered in its terms; anything else is nobody's.
async fn no_such_path(uri: Uri) -> Response {
    let below = |root: &str| {
        let rest = uri.path().strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut groups = discovery::named_groups().into_iter();
    if below("/api")
        || below("/version")
        || groups.any(|(group, _)| below(&format!("/apis/{group}")))
    {
        return Status::no_such_path().into_response();
    }
    not_found()
}

/// The answer of Go's HTTP server where there is nothing.
fn not_found() -> Response {
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (StatusCode::NOT_FOUND, content_type, "404 page not found\n").into_response()
}

pub(crate) static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// An Audit-Id of a client is given back if it is no longer than this.
const AUDIT_ID_BYTES_MAX: usize = 64;

/// The headers of every answer.
async fn common_headers(mut request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(&AUDIT_ID)
        .filter(|id| id.len() <= AUDIT_ID_BYTES_MAX)
        .cloned();
    let made = || {
        crate::random::uuid()
            .ok()
            .and_then(|id| HeaderValue::from_str(&id).ok())
    };
    let audit_id = given.or_else(made);
    if let Some(audit_id) = &audit_id {
        request
            .headers_mut()
            .insert(AUDIT_ID.clone(), audit_id.clone());
    }
    // Both are shared, not copied.
    let headers = request.headers();
    let asked: HeaderMap = [header::ACCEPT, header::USER_AGENT]
        .into_iter()
        .filter_map(|name| {
            let value = headers.get(&name)?.clone();
            Some((name, value))
        })
        .collect();
    let uri = request.uri().clone();
    let mut response = next.run(request).await;
    if let Some(status) = response.extensions().get::<Status>().cloned() {
        let (media, body) = status.present(&asked, &Query::parse(uri.query()));
        let content_type = HeaderValue::from_static(media.content_type());
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.remove(header::CONTENT_LENGTH);
    }
    let headers = response.headers_mut();
    if let Some(audit_id) = audit_id {
        headers.insert(AUDIT_ID.clone(), audit_id);
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
