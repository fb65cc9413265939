//! Reading one event, and lists of them.
//!
//! A list without a limit is streamed: the store is read page by page at one revision, and each page is encoded and sent
//! before the next is read, so memory stays bounded however long the list is.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, StatusCode, header};
use k8s_pb::api::core::v1::{Event, EventList};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    ListMeta, PartialObjectMetadata, PartialObjectMetadataList,
};
use tidings_store::{At, ListRequest, Page, ReadError, Revision};

use super::body::{encoded, event_response, present, table_rows};
use super::call::Call;
use super::watch;
use crate::codec::{self, Api};
use crate::continuation::Continuation;
use crate::error::Status;
use crate::negotiate::{Answer, Form, Media, Shape};
use crate::query::{ListOptions, ResourceVersion};
use crate::selector::Selector;
use crate::server::{ApiServer, Stored};
use crate::table::Rows;

/// So many records are read from the store at a time.
const STORE_PAGE_LEN: usize = 500;

/// GET of one event.
pub(crate) async fn get(
    State(server): State<Arc<ApiServer>>,
    call: Call,
) -> Result<Response, Status> {
    if call.watch_path || call.query.flag("watch") {
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
    let options = ListOptions::parse(call.api, &call.query, call.watch_path)?;
    if options.watch {
        return watch::watch(server, call, options).await;
    }
    call.name.clear();
    let form = call.form(Answer::List)?;
    let whole = options.limit.is_none() && form.media == Media::Json && !form.pretty;
    if whole {
        return stream_list(server, call, form, options).await;
    }
    let page = collect(&server, &call, &options).await?;
    page_response(&server, &call, form, &page)
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

/// The first request of a list, at the right revision.
fn first_request(
    server: &ApiServer,
    namespace: &str,
    options: &ListOptions,
) -> Result<ListRequest, Status> {
    let mut request = store_request(namespace, &options.selector);
    request.limit = Some(STORE_PAGE_LEN);
    if let Some(token) = &options.continue_token {
        let continuation = Continuation::decode(token)?;
        request.at = continuation.revision.map_or(At::Latest, At::Exact);
        request.after = Some(continuation.after.into());
        return Ok(request);
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
    Ok(request)
}

async fn read_page(server: &ApiServer, request: ListRequest) -> Result<Page, Status> {
    let after = request.after.clone();
    server
        .store
        .list(request)
        .await
        .map_err(|error: ReadError| {
            // A list that cannot go on at its own revision may go on at the latest.
            let resume = after.map(|after| {
                Continuation {
                    revision: None,
                    after: String::from_utf8_lossy(&after).into_owned(),
                }
                .encode()
            });
            Status::from_read(&error, resume)
        })
}

/// A page of a list in memory.
pub(crate) struct Collected {
    pub(crate) events: Vec<Stored>,
    revision: Revision,
    continuation: Option<Continuation>,
    remaining: Option<u64>,
}

/// Reads a list, or as much of it as its limit says.
pub(crate) async fn collect(
    server: &ApiServer,
    call: &Call,
    options: &ListOptions,
) -> Result<Collected, Status> {
    let mut request = first_request(server, &call.namespace, options)?;
    let unfiltered = options.selector.is_empty();
    if let (true, Some(limit)) = (unfiltered, options.limit) {
        request.limit = Some(limit);
        request.count_remaining = true;
    }
    let mut events = Vec::new();
    loop {
        let page = read_page(server, request.clone()).await?;
        let Page {
            records,
            revision,
            more,
            remaining,
        } = page;
        request.at = At::Exact(revision);
        let mut records = records.into_iter();
        for record in records.by_ref() {
            request.after = Some(record.key.clone());
            let stored = Stored::decode(record)?;
            if unfiltered || options.selector.matches(&stored.event) {
                events.push(stored);
            }
            if options.limit.is_some_and(|limit| events.len() >= limit) {
                break;
            }
        }
        let full = options.limit.is_some_and(|limit| events.len() >= limit);
        let left = more || records.len() > 0;
        if full || !left {
            let after = request.after.filter(|_| left);
            return Ok(Collected {
                events,
                revision,
                continuation: after.map(|after| Continuation {
                    revision: Some(revision),
                    after: String::from_utf8_lossy(&after).into_owned(),
                }),
                remaining: remaining.filter(|remaining| unfiltered && *remaining > 0),
            });
        }
    }
}

/// Answers with a page of a list.
pub(crate) fn page_response(
    server: &ApiServer,
    call: &Call,
    form: Form,
    page: &Collected,
) -> Result<Response, Status> {
    let meta = ListMeta {
        resource_version: Some(page.revision.to_string()),
        r#continue: page.continuation.as_ref().map(Continuation::encode),
        remaining_item_count: page
            .remaining
            .and_then(|remaining| i64::try_from(remaining).ok()),
        ..ListMeta::default()
    };
    let events = || page.events.iter().map(|stored| stored.event.clone());
    if form.media == Media::Protobuf {
        return Ok(encoded(
            StatusCode::OK,
            Media::Protobuf,
            protobuf_list(call.api, form.shape, meta, events()),
        ));
    }
    let writer = ListWriter {
        api: call.api,
        shape: form.shape,
        rows: table_rows(call, form, server.clock.now())?,
    };
    let mut json = Vec::with_capacity(page.events.len() * 1024 + 256);
    writer.write_start(&meta, &mut json);
    for (index, stored) in page.events.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        writer.write_item(&stored.event, &mut json);
    }
    json.extend_from_slice(b"]}");
    let (media, body) = present(form, json)?;
    Ok(encoded(StatusCode::OK, media, body))
}

fn protobuf_list(
    api: Api,
    shape: Shape,
    meta: ListMeta,
    events: impl Iterator<Item = Event>,
) -> Vec<u8> {
    let metadata = Some(meta);
    match (shape, api) {
        (Shape::Partial(version), _) => {
            let items = events
                .map(|event| PartialObjectMetadata {
                    metadata: event.metadata,
                })
                .collect();
            let list = PartialObjectMetadataList { metadata, items };
            codec::protobuf::envelop(
                &format!("meta.k8s.io/{version}"),
                "PartialObjectMetadataList",
                &list,
            )
        }
        (_, Api::Core) => {
            let list = EventList {
                metadata,
                items: events.collect(),
            };
            codec::protobuf::envelop(api.api_version(), "EventList", &list)
        }
        (_, Api::Events) => {
            let items = events.map(codec::protobuf::to_events).collect();
            let list = k8s_pb::api::events::v1::EventList { metadata, items };
            codec::protobuf::envelop(api.api_version(), "EventList", &list)
        }
    }
}

/// Writes a list's JSON piece by piece; it ends with `]}`.
struct ListWriter {
    api: Api,
    shape: Shape,
    rows: Rows,
}

impl ListWriter {
    fn write_start(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        let (kind, api_version) = match self.shape {
            Shape::Table(_) => return self.rows.write_start(meta, true, out),
            Shape::Whole => ("EventList", self.api.api_version().to_owned()),
            Shape::Partial(version) => (
                "PartialObjectMetadataList",
                format!("meta.k8s.io/{version}"),
            ),
        };
        out.extend_from_slice(
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":")
                .as_bytes(),
        );
        codec::write_list_meta(meta, out);
        out.extend_from_slice(b",\"items\":[");
    }

    fn write_item(&self, event: &Event, out: &mut Vec<u8>) {
        match self.shape {
            Shape::Table(_) => self.rows.write_row(event, out),
            Shape::Whole => codec::write_event(self.api, event, false, out),
            Shape::Partial(version) => {
                let metadata = event.metadata.clone().unwrap_or_default();
                codec::write_partial(&metadata, &format!("meta.k8s.io/{version}"), true, out);
            }
        }
    }
}

/// A list on its way out.
struct Streamed {
    server: Arc<ApiServer>,
    selector: Selector,
    writer: ListWriter,
    /// The page to be sent next, and the request it came from.
    page: Option<(Page, ListRequest)>,
    first_item: bool,
}

async fn stream_list(
    server: Arc<ApiServer>,
    call: Call,
    form: Form,
    options: ListOptions,
) -> Result<Response, Status> {
    let request = first_request(&server, &call.namespace, &options)?;
    let writer = ListWriter {
        api: call.api,
        shape: form.shape,
        rows: table_rows(&call, form, server.clock.now())?,
    };
    let page = read_page(&server, request.clone()).await?;
    let meta = ListMeta {
        resource_version: Some(page.revision.to_string()),
        ..ListMeta::default()
    };
    let mut start = Vec::new();
    writer.write_start(&meta, &mut start);
    let request = ListRequest {
        at: At::Exact(page.revision),
        ..request
    };

    let mut streamed = Streamed {
        server,
        selector: options.selector,
        writer,
        page: Some((page, request)),
        first_item: true,
    };
    // The first page is encoded before the answer starts, so that what is wrong with it is still told by a Status.
    let first = streamed.next_chunk(start).await?;
    let body = if streamed.page.is_none() {
        Body::from(first)
    } else {
        let rest = stream::try_unfold(streamed, |mut streamed| async move {
            if streamed.page.is_none() {
                return Ok(None);
            }
            match streamed.next_chunk(Vec::new()).await {
                Ok(chunk) => Ok(Some((chunk, streamed))),
                // The answer has begun; cutting it off is the only way left to say that it is not whole.
                Err(status) => Err(std::io::Error::other(
                    String::from_utf8_lossy(&status.to_json()).into_owned(),
                )),
            }
        });
        Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(first)]), rest))
    };
    let content_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )];
    Ok((StatusCode::OK, content_type, body).into_response())
}

impl Streamed {
    /// Encodes the page at hand and fetches the one behind it.
    async fn next_chunk(&mut self, mut out: Vec<u8>) -> Result<Bytes, Status> {
        let Some((page, mut request)) = self.page.take() else {
            return Ok(out.into());
        };
        out.reserve(page.records.len() * 1024);
        let more = page.more;
        for record in page.records {
            request.after = Some(record.key.clone());
            let stored = Stored::decode(record)?;
            if self.selector.is_empty() || self.selector.matches(&stored.event) {
                if !std::mem::take(&mut self.first_item) {
                    out.push(b',');
                }
                self.writer.write_item(&stored.event, &mut out);
            }
        }
        if more {
            let next = read_page(&self.server, request.clone()).await?;
            self.page = Some((next, request));
        } else {
            out.extend_from_slice(b"]}\n");
        }
        Ok(out.into())
    }
}
