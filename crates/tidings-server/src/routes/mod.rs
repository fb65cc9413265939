//! Which path is answered by whom, and what every answer has in common.

mod access;
mod apply;
mod body;
mod call;
mod delete;
mod discovery;
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
mod watch;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};

use crate::audit;
use crate::compress;
use crate::error::Status;
use crate::limits;
use crate::metrics::measure;
use crate::server::ApiServer;

pub(crate) use discovery::build_info;

/// The whole API as a service, to be put behind a listener or called directly.
pub fn router(server: Arc<ApiServer>) -> Router {
    let events = |prefix: &str| -> Router<Arc<ApiServer>> {
        Router::new()
            .route(&format!("{prefix}/events"), get(list::list))
            .route(
                &format!("{prefix}/namespaces/{{namespace}}/events"),
                get(list::list)
                    .post(write::create)
                    .delete(delete::delete_collection),
            )
            .route(
                &format!("{prefix}/namespaces/{{namespace}}/events/{{name}}"),
                get(list::get)
                    .put(write::replace)
                    .patch(write::patch)
                    .delete(delete::delete),
            )
            .route(&format!("{prefix}/watch/events"), get(list::list))
            .route(
                &format!("{prefix}/watch/namespaces/{{namespace}}/events"),
                get(list::list),
            )
            .route(
                &format!("{prefix}/watch/namespaces/{{namespace}}/events/{{name}}"),
                get(list::list),
            )
    };
    let api = Router::new()
        .merge(events("/api/v1"))
        .merge(events("/apis/events.k8s.io/v1"))
        .route("/api", get(discovery::core_versions))
        .route("/apis", get(discovery::groups))
        .route("/apis/{group}", get(discovery::group))
        .route("/api/v1", get(discovery::core_resources))
        .route("/apis/{group}/{version}", get(discovery::resources))
        .route("/api/v1/namespaces", get(namespaces::list))
        .route("/api/v1/namespaces/{namespace}", get(namespaces::get))
        .route(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            post(review::access),
        )
        .route(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            post(review::rules),
        )
        .route(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            post(review::subject),
        )
        .route("/metrics", get(metrics::metrics))
        .route("/openapi/v3", get(openapi::index))
        .route("/openapi/v3/{*path}", get(openapi::version))
        .fallback(|| async { Status::no_such_path() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() })
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
    let probes = Router::new()
        .route("/version", get(discovery::version))
        .route("/healthz", get(health::all))
        .route("/healthz/{check}", get(health::one))
        .route("/livez", get(health::all))
        .route("/livez/{check}", get(health::one))
        .route("/readyz", get(health::all))
        .route("/readyz/{check}", get(health::one))
        .layer(middleware::from_fn_with_state(
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
    let mut response = next.run(request).await;
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
