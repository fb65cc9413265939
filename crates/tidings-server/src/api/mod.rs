//! The routes of the API, and its handlers.
//!
//! Its rooms, each of which uses those below it:
//!
//! | room | contents |
//! |---|---|
//! | `history` | what an archive adds: versions, coverage, counts, exports, its API group |
//! | `chain`, `documents`, `write` | the steps of each request; discovery and OpenAPI; writes |
//! | `read` | events, lists, namespaces |
//! | `access`, `watch` | authentication, authorization, reviews; and watches |
//! | `request` | a request, its body, and its answer |
//! | `server` | the state that all handlers share |

pub(crate) mod access;
pub(crate) mod chain;
pub(crate) mod documents;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod metrics;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod server;
mod watch;
pub(crate) mod write;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::routing::{any, get, post};

use documents::{discovery, openapi};
use read::{list, namespaces};
use request::apart;
use write::delete;

use crate::api::access::review;
use crate::api::server::{ApiServer, at};
use crate::http::status::Status;

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
                .post(|server, call| apart(server, call, write::create))
                .delete(|server, call| apart(server, call, delete::delete_collection)),
        );
        api = at(
            api,
            &one,
            get(list::get)
                .put(|server, call| apart(server, call, write::replace))
                .patch(|server, call| apart(server, call, write::patch))
                .delete(|server, call| apart(server, call, delete::delete)),
        );
        if server.followed.is_some() {
            api = at(api, &format!("{one}/versions"), get(history::versions));
        }
        for watched in [
            "events",
            "namespaces/{namespace}/events",
            "namespaces/{namespace}/events/{name}",
        ] {
            api = at(api, &format!("{prefix}/watch/{watched}"), get(list::list));
        }
    }
    for (path, answer) in [
        ("/api", get(discovery::root)),
        ("/api/v1", get(discovery::below)),
        ("/apis/{group}", get(discovery::below)),
        ("/apis/{group}/{version}", get(discovery::below)),
        ("/api/v1/namespaces", get(namespaces::list)),
        ("/api/v1/namespaces/{namespace}", get(namespaces::get)),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            post(review::access),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            post(|server, call| apart(server, call, review::rules)),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            post(review::subject),
        ),
    ] {
        api = at(api, path, answer);
    }
    api = at(api, "/version", get(discovery::version));
    for path in ["/healthz", "/livez", "/readyz"] {
        api = api
            .route(path, any(health::all))
            .route(&format!("{path}/{{check}}"), any(health::one));
    }
    // An archive has one page of metrics for all clusters, at its root.
    let api = match server.followed {
        Some(_) => api
            .route("/coverage", get(history::coverage))
            .route("/counts", get(history::counts))
            .route("/export", get(history::export))
            .route("/waiting", get(history::waiting)),
        None => api.route("/metrics", get(metrics::metrics)),
    };
    let api = api
        // These accept any method.
        .route("/", any(discovery::paths))
        .route("/apis", any(discovery::root))
        .route("/apis/", any(discovery::root))
        .route("/openapi/v2", any(openapi::joined))
        .route("/openapi/v3", get(openapi::index))
        .route("/openapi/v3/{*path}", get(openapi::version))
        .fallback(|uri: Uri| async move { discovery::no_such_path(uri.path()) })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(api, &server).with_state(server)
}
