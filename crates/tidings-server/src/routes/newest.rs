//! `?order=newest&limit=N`: the events last seen, first of all the latest, without reading the others.
//!
//! No kube-apiserver has this; like every parameter it does not know, it passes it over. So an answer in this order says so in a header, and one
//! without the header is a list as always. Only lists of all events, or of a namespace's, are answered so: what a selector leaves out would have
//! to be read first.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderName, HeaderValue};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_store::NewestRequest;

use super::call::Call;
use super::list::{key_prefix, page_response};
use crate::error::Status;
use crate::negotiate::Form;
use crate::query::{ListOptions, ResourceVersion};
use crate::server::ApiServer;

/// Says that an answer is in this order.
const HEADER: HeaderName = HeaderName::from_static("tidings-newest-first");
/// An answer is made in memory; a longer list comes in its usual order, page by page.
const LIMIT_MAX: usize = 500;

/// How many events are asked for in this order, if they are.
pub(crate) fn limit(call: &Call, options: &ListOptions) -> Option<usize> {
    let is_wanted = call.query.get("order") == Some("newest")
        && options.selector.is_empty()
        && options.continue_token.is_none()
        && options.resource_version == ResourceVersion::Unset;
    options
        .limit
        .filter(|limit| is_wanted && *limit <= LIMIT_MAX)
}

/// Answers with the events last seen.
pub(crate) async fn list(
    server: &Arc<ApiServer>,
    call: &Call,
    form: Form,
    limit: usize,
) -> Result<Response, Status> {
    let request = NewestRequest {
        prefix: key_prefix(&call.namespace).into(),
        since: None,
        limit,
    };
    let page = server.store.newest(request).await;
    let page = page.map_err(|error| Status::from_read(&error, None))?;
    server
        .metrics
        .listed(page.records.len(), page.records.len());
    // That is all there is to the list: it has no next page.
    let meta = ListMeta {
        resource_version: Some(page.revision.to_string()),
        ..ListMeta::default()
    };
    let mut response = page_response(server, call, form, &page.records, &meta)?;
    let headers = response.headers_mut();
    headers.insert(HEADER, HeaderValue::from_static("true"));
    Ok(response)
}
