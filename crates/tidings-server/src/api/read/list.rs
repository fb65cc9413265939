//! Reading one event, and lists of them.
//!
//! Every list is [streamed], in every form and with any limit: the store is read page by page at
//! one revision, and each page is encoded and sent while the next is read, so memory stays bounded
//! however long the list is.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use tidings_history::ListOrder;
use tidings_store::{At, ListRequest};

use super::newest;
use super::pages::Pages;
use super::streamed;
use crate::api::request::Call;
use crate::api::request::event_response;
use crate::api::request::{key_prefix, not_newer_than_store, request_to};
use crate::api::server::ApiServer;
use crate::api::watch;
use crate::http::continuation::Continuation;
use crate::http::list_options::{ListOptions, ResourceVersion};
use crate::http::negotiate::{Answer, Form, Shape};
use crate::http::params;
use crate::http::status::Status;

/// Rows of a page from which on the client is taken for kubectl, if it requests a Table and a page
/// after the first. kubectl reads the whole list.
const KUBECTL_CHUNK: usize = 500;
/// The header with the order of a sealed archive's list, which is by objects and not by names.
const ORDER: HeaderName = HeaderName::from_static("tidings-order");

/// GET of one event.
pub(crate) async fn get(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    // A single event is watched through its collection; as upstream, `watch` has no effect here.
    if call.info.is_watch_path {
        return list(State(server), call).await;
    }
    let form = call.form(Answer::Object)?;
    if let ResourceVersion::At(revision) =
        ResourceVersion::parse(call.info.query.get(params::RESOURCE_VERSION))?
    {
        not_newer_than_store(&server, revision).await?;
    }
    let stored = call.stored(&server).await?;
    let now = server.clock.now();
    event_response(&call, form, StatusCode::OK, &stored.event, now, &[])
}

/// GET of a collection: a list or a watch.
pub(crate) async fn list(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    let watched = call.info.is_watch_path || call.info.query.flag(params::WATCH);
    let form = call.form(if watched { Answer::Watch } else { Answer::List })?;
    let options = ListOptions::parse(call.api, &call.info.query, call.info.is_watch_path)?;
    if options.watch {
        if let Some(followed) = &server.followed
            && let Err(unwatched) = followed.history.capabilities().watch
        {
            return Err(Status::unwatched(&followed.name, &unwatched));
        }
        return watch::watch(server, call, options).await;
    }
    if let Some(wanted) = newest::wanted(&call, &options)? {
        return newest::list(&server, &call, form, wanted).await;
    }
    stream_list(server, call, form, options).await
}

/// The first request of a list, at its revision, and the number of remaining events if that is
/// known.
async fn first_request(
    server: &ApiServer,
    namespace: &str,
    options: &ListOptions,
) -> Result<(ListRequest, Option<u64>), Status> {
    let mut request = request_to(server, namespace, &options.selector);
    if let Some(token) = &options.continue_token {
        let continuation = Continuation::decode_for(token, server.store_identity())?;
        request.at = continuation.revision.map_or(At::Latest, At::Exact);
        request.after = Some((key_prefix(namespace) + &continuation.after).into());
        let remaining = server.remaining.of(&request.prefix, token);
        return Ok((request, remaining));
    }
    if let ResourceVersion::At(revision) = options.resource_version {
        not_newer_than_store(server, revision).await?;
        let exact = options.match_exact.unwrap_or(options.limit.is_some());
        request.at = if exact {
            At::Exact(revision)
        } else {
            At::Latest
        };
    }
    Ok((request, None))
}

/// The reader of a request's list.
pub(crate) async fn pages(
    server: &Arc<ApiServer>,
    call: &Call,
    options: &ListOptions,
) -> Result<Pages, Status> {
    let (request, remaining) = first_request(server, &call.info.namespace, options).await?;
    Ok(Pages::new(
        Arc::clone(server),
        options.selector.clone(),
        request,
        key_prefix(&call.info.namespace).len(),
        options.limit,
        remaining,
    ))
}

async fn stream_list(
    server: Arc<ApiServer>,
    call: Call,
    form: Form,
    mut options: ListOptions,
) -> Result<Response, Status> {
    // With a selector, filling such a page may need any number of reads, and the time of a request
    // is limited.
    let is_all_read_on = options.continue_token.is_some() && options.selector.is_empty();
    if is_all_read_on
        && matches!(form.shape, Shape::Table(_))
        && let Some(limit @ KUBECTL_CHUNK..) = options.limit
    {
        options.limit = Some(limit.max(server.options.table_continuation_rows));
    }
    let pages = pages(&server, &call, &options).await?;
    let mut response = streamed::answer(&server, &call, form, pages).await?;
    if server.capabilities().lists == ListOrder::Object {
        let objects = HeaderValue::from_static("objects");
        response.headers_mut().insert(ORDER, objects);
    }
    Ok(response)
}
