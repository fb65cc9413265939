//! The timeline: a page that shows what happened, and the answers to its requests.
//!
//! It shows one server's events, or those of all clusters of an archive. It shows only events that
//! the caller may list: a user who may see nothing in a namespace sees no lane, count, reason or
//! neighbour from it. Every answer is bounded, whatever is requested.
//!
//! - [`enter`]: authenticates a request, and determines which namespaces of which clusters it may
//!   see.
//! - [`page`]: the files of the page.
//! - [`apart`]: threads for long calculations.
//! - [`read`] and [`merged`]: read the events of a time range from the stores.
//! - [`reads`]: reads these answers within the process, for the Model Context Protocol.
//! - [`rules`]: calculate what is shown, without input or output.
//! - [`answers`]: answer the page's requests.

mod ahead;
mod answers;
mod apart;
mod comments;
mod doors;
mod enter;
mod gaps;
mod logins;
mod merged;
mod page;
mod query;
mod read;
mod reads;
mod rules;
mod sessions;
mod sources;
mod state;
mod visible;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{any, get, post};
use tidings_api::codec::PAST_VERSION;

use crate::api::chain;
use crate::api::documents::not_found;
use crate::api::server::ApiServer;
use crate::http::request::{TIMELINE_API, TIMELINE_LOGIN};
use crate::http::status::Status;
pub(crate) use enter::Entry;
pub(crate) use reads::Reads;
pub(crate) use state::{Entrance, PREFIX, Timeline};

/// The timeline of a server's events as a service, in addition to its [`router`](crate::router):
/// all paths below `/timeline`. Browsers log in with a token, and name the host in the request.
pub fn timeline(server: Arc<ApiServer>) -> Router {
    router(Arc::new(Timeline::of_server(server, Entrance::Login)))
}

/// The routes below `/timeline`.
pub(crate) fn router(timeline: Arc<Timeline>) -> Router {
    let routes = Router::new()
        .route("/timeline", get(page::index))
        .route("/timeline/", get(page::index))
        .route("/timeline/assets/{*name}", get(page::asset))
        .route(TIMELINE_LOGIN, post(logins::login))
        .route("/timeline/logout", post(logins::logout))
        .route("/timeline/enter", any(logins::enter))
        .route("/timeline/api/overview", get(answers::overview::overview))
        .route("/timeline/api/view", get(answers::view::view))
        .route("/timeline/api/filter", get(answers::filter::filter))
        .merge(texts(TIMELINE_API))
        .route("/timeline/api/live", get(answers::live::live))
        .route("/timeline/api/export", get(answers::export::export))
        .fallback(|| async { not_found() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    around(routes, timeline)
}

/// Wraps routes in the steps of every request, with the caller known.
pub(crate) fn around(routes: Router<Arc<ApiServer>>, timeline: Arc<Timeline>) -> Router {
    entered(chain::around(routes, timeline.sources.root()), timeline)
}

/// The routes below the archive's API group, for users whom the home cluster's API server names:
/// the answers that can be shown as text, about the home cluster or one of its namespaces.
pub(crate) fn past(timeline: Arc<Timeline>) -> Router {
    let routes = texts(&format!("/apis/{PAST_VERSION}/timeline/"))
        .merge(texts(&format!(
            "/apis/{PAST_VERSION}/namespaces/{{namespace}}/timeline/"
        )))
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    around(routes, timeline)
}

/// The routes of answers that can be shown as text, below this path. They need nothing of the
/// [chain].
fn texts(below: &str) -> Router<Arc<ApiServer>> {
    let at = |answer: &str| format!("{below}{answer}");
    Router::new()
        .route(&at("coverage"), get(answers::coverage::coverage))
        .route(&at("events"), get(answers::events::events))
        .route(&at("object"), get(answers::object::object))
        .route(&at("event"), get(answers::event::event))
        .route(&at("top"), get(answers::top::top))
}

/// Makes routes that know their caller.
fn entered(routes: Router<Arc<ApiServer>>, timeline: Arc<Timeline>) -> Router {
    let root = Arc::clone(timeline.sources.root());
    routes
        .layer(middleware::from_fn_with_state(
            Arc::clone(&timeline),
            enter::enter,
        ))
        .layer(axum::Extension(timeline))
        .with_state(root)
}
