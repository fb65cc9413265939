//! Reading one event, and lists of them.
//!
//! Every list is streamed, in every form and with any limit: the store is read page by page at one revision, and each
//! page is encoded and sent while the next is read, so memory stays bounded however long the list is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, StatusCode, header};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_store::{At, ListRequest, Record, Revision};

use super::body::{encoded, event_response, table_rows};
use super::call::Call;
use super::list_writer::ListWriter;
use super::newest;
use super::pages::Pages;
use super::watch;
use crate::continuation::Continuation;
use crate::error::Status;
use crate::negotiate::{Answer, Form, Media, Shape};
use crate::query::{ListOptions, ResourceVersion};
use crate::selector::Selector;
use crate::server::ApiServer;

/// Who wants a Table in pages of so many rows and goes on behind the first is kubectl, which wants all of it.
const KUBECTL_CHUNK: usize = 500;

/// GET of one event.
pub(crate) async fn get(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    // A watch of one is asked of the collection; as upstream, `watch` means nothing here.
    if call.watch_path {
        return list(State(server), call).await;
    }
    let form = call.form(Answer::Object)?;
    if let ResourceVersion::At(revision) =
        ResourceVersion::parse(call.query.get("resourceVersion"))?
    {
        not_newer_than_store(&server, revision)?;
    }
    let stored = server.stored(call.api, &call.key()).await?;
    event_response(
        &call,
        form,
        StatusCode::OK,
        &stored.event,
        server.clock.now(),
        &[],
    )
}

/// GET of a collection: a list or a watch.
pub(crate) async fn list(
    State(server): State<Arc<ApiServer>>,
    mut call: Call,
) -> Result<Response, Status> {
    let watched = call.watch_path || call.query.flag("watch");
    let form = call.form(if watched { Answer::Watch } else { Answer::List })?;
    let options = ListOptions::parse(call.api, &call.query, call.watch_path)?;
    if options.watch {
        return watch::watch(server, call, options).await;
    }
    call.name.clear();
    if let Some(limit) = newest::limit(&call, &options) {
        return newest::list(&server, &call, form, limit).await;
    }
    stream_list(server, call, form, options).await
}

/// What the store is asked for first.
pub(crate) fn store_request(namespace: &str, selector: &Selector) -> ListRequest {
    let fields = &selector.fields;
    let namespace = if namespace.is_empty() {
        fields.namespace().unwrap_or_default()
    } else {
        namespace
    };
    let prefix = match (namespace, fields.name()) {
        ("", _) => String::new(),
        (namespace, name) => format!("{namespace}/{}", name.unwrap_or_default()),
    };
    ListRequest {
        object: fields.object(),
        ..ListRequest::prefix(prefix)
    }
}

/// 504 if a client knows of a later revision than the store does.
pub(crate) fn not_newer_than_store(server: &ApiServer, revision: Revision) -> Result<(), Status> {
    let current = server.store.revision();
    if revision > current {
        Err(Status::too_large_resource_version(revision, current))
    } else {
        Ok(())
    }
}

/// What the keys of a namespace begin with; nothing if the list is of all of them.
pub(crate) fn key_prefix(namespace: &str) -> String {
    if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    }
}

/// The first request of a list, at the right revision, and how much the list has behind it where that is known already.
fn first_request(
    server: &ApiServer,
    namespace: &str,
    options: &ListOptions,
) -> Result<(ListRequest, Option<u64>), Status> {
    let mut request = store_request(namespace, &options.selector);
    if let Some(token) = &options.continue_token {
        let continuation = Continuation::decode(token)?;
        request.at = continuation.revision.map_or(At::Latest, At::Exact);
        request.after = Some((key_prefix(namespace) + &continuation.after).into());
        let remaining = server.remaining.of(&request.prefix, token);
        return Ok((request, remaining));
    }
    if let ResourceVersion::At(revision) = options.resource_version {
        not_newer_than_store(server, revision)?;
        let exact = options.match_exact.unwrap_or(options.limit.is_some());
        request.at = if exact {
            At::Exact(revision)
        } else {
            At::Latest
        };
    }
    Ok((request, None))
}

/// Answers with a list, or a page of one, that was read already and may not be there any more.
pub(crate) fn page_response(
    server: &ApiServer,
    call: &Call,
    form: Form,
    records: &[Record],
    meta: &ListMeta,
) -> Result<Response, Status> {
    let rows = table_rows(call, form, server.clock.now())?;
    let mut writer = ListWriter::new(call.api, form, rows);
    let mut len = 0;
    for record in records {
        len += writer.item_len(record)?;
    }
    let mut body = Vec::with_capacity(records.len() * 1024 + 256);
    writer.write_start(meta, len, &mut body)?;
    for record in records {
        writer.write_item(record, &mut body)?;
    }
    writer.write_end(meta, &mut body)?;
    Ok(encoded(StatusCode::OK, form.media, body))
}

/// What reads the list that a request is about.
pub(crate) fn pages(
    server: &Arc<ApiServer>,
    call: &Call,
    options: &ListOptions,
) -> Result<Pages, Status> {
    let (request, remaining) = first_request(server, &call.namespace, options)?;
    Ok(Pages::new(
        Arc::clone(server),
        options.selector.clone(),
        request,
        key_prefix(&call.namespace).len(),
        options.limit,
        remaining,
    ))
}

/// A list on its way out.
struct Streamed {
    pages: Pages,
    writer: ListWriter,
    meta: ListMeta,
}

async fn stream_list(
    server: Arc<ApiServer>,
    call: Call,
    form: Form,
    mut options: ListOptions,
) -> Result<Response, Status> {
    // With a selector there is no telling how much has to be read for so many rows, and a request has its time.
    let is_all_read_on = options.continue_token.is_some() && options.selector.is_empty();
    if is_all_read_on
        && matches!(form.shape, Shape::Table(_))
        && let Some(limit @ KUBECTL_CHUNK..) = options.limit
    {
        options.limit = Some(limit.max(server.options.table_continuation_rows));
    }
    let rows = table_rows(&call, form, server.clock.now())?;
    let mut writer = ListWriter::new(call.api, form, rows);
    let mut pages = pages(&server, &call, &options)?;
    // The first page is encoded before the answer starts, so that what is wrong with it is still told by a Status.
    let batch = pages.next().await?.unwrap_or_default();
    let mut items_len = 0;
    for record in &batch {
        items_len += writer.item_len(record)?;
    }
    let meta = pages
        .look_ahead(form.media == Media::Protobuf, |record| {
            items_len += writer.item_len(record)?;
            Ok(())
        })
        .await?;
    let mut first = Vec::with_capacity(batch.len() * 1024 + 512);
    writer.write_start(&meta, items_len, &mut first)?;
    for record in &batch {
        writer.write_item(record, &mut first)?;
    }
    if pages.is_done() {
        writer.write_end(&meta, &mut first)?;
        return Ok(encoded(StatusCode::OK, form.media, first));
    }
    let streamed = Streamed {
        pages,
        writer,
        meta,
    };
    let rest = stream::try_unfold(streamed, |mut streamed| async move {
        match streamed.next_chunk().await {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, streamed))),
            // The answer has begun; cutting it off is the only way left to say that it is not whole.
            Err(status) => Err(std::io::Error::other(
                String::from_utf8_lossy(&status.to_json()).into_owned(),
            )),
        }
    });
    let first = stream::iter([Ok(Bytes::from(first))]);
    let body = Body::from_stream(futures::StreamExt::chain(first, rest));
    let content_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static(form.media.content_type()),
    )];
    Ok((StatusCode::OK, content_type, body).into_response())
}

impl Streamed {
    /// The next part of the answer; `None` when nothing is left.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(batch) = self.pages.next().await? else {
            return Ok(None);
        };
        let mut out = Vec::with_capacity(batch.len() * 1024);
        for record in &batch {
            self.writer.write_item(record, &mut out)?;
        }
        if self.pages.is_done() {
            self.writer.write_end(&self.meta, &mut out)?;
        }
        Ok(Some(out.into()))
    }
}
