//! The timeline: a page that shows what happened, and what it asks for.
//!
//! It is of one server's events or of all clusters of an archive. Everything it shows of a cluster
//! is what the caller may list there: who sees nothing in a namespace sees no lane, count, reason
//! or neighbour of it. Every answer is bounded, whatever is asked.
//!
//! - [`enter`]: who a request is from, and which namespaces of which clusters it may see.
//! - [`page`]: the files of the page.
//! - [`apart`]: threads for what takes processor time.
//! - [`read`] and [`merged`]: events of a range of time, from the stores.
//! - [`rules`]: what is made of them, without any input or output.
//! - [`answers`]: what the page asks for.

mod ahead;
mod answers;
mod apart;
mod doors;
mod enter;
mod gaps;
mod logins;
mod merged;
mod page;
mod query;
mod read;
mod rules;
mod sessions;
mod sources;
mod state;
mod visible;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{any, get, post};

use crate::api::chain;
use crate::api::not_found::not_found;
use crate::api::server::ApiServer;
use crate::http::request::TIMELINE_LOGIN;
use crate::http::status::Status;
pub(crate) use state::{Entrance, PREFIX, Timeline};

/// The timeline of a server's events as a service, beside its [`router`](crate::router): everything
/// below `/timeline`. Browsers log in with a token, at the host that they name.
pub fn timeline(server: Arc<ApiServer>) -> Router {
    router(Arc::new(Timeline::of_server(server, Entrance::Login)))
}

/// Everything below `/timeline`.
pub(crate) fn router(timeline: Arc<Timeline>) -> Router {
    let root = Arc::clone(timeline.sources.root());
    let routes = Router::new()
        .route("/timeline", get(page::index))
        .route("/timeline/", get(page::index))
        .route("/timeline/assets/{*name}", get(page::asset))
        .route(TIMELINE_LOGIN, post(logins::login))
        .route("/timeline/logout", post(logins::logout))
        .route("/timeline/enter", any(logins::enter))
        .route("/timeline/api/overview", get(answers::overview::overview))
        .route("/timeline/api/view", get(answers::view::view))
        .route("/timeline/api/events", get(answers::events::events))
        .route("/timeline/api/object", get(answers::object::object))
        .route("/timeline/api/event", get(answers::event::event))
        .route("/timeline/api/live", get(answers::live::live))
        .route("/timeline/api/export", get(answers::export::export))
        .fallback(|| async { not_found() })
        .method_not_allowed_fallback(|| async { Status::method_not_allowed() });
    chain::around(routes, &root)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&timeline),
            enter::enter,
        ))
        .layer(axum::Extension(timeline))
        .with_state(root)
}
