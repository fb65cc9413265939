//! Watches: the existing events, if requested, then every change in order, until the timeout or the
//! server's shutdown.
//!
//! A watch answers 200 at once; any later failure is one `ERROR` in the stream, because not every
//! client reads the HTTP status of a watch. The selector is applied to the event before and after a
//! change: an event that begins to match is `ADDED`, one that ceases to match is `DELETED`. A slow
//! client delays only its own watch. Frames are made once the previous ones were read and there is
//! memory for them. A watch that gets no memory in time ends.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::select;
use futures::{StreamExt, stream};
use http::{StatusCode, header};
use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_store::{
    At, Change, Fault, ListRequest, ReadError, Record, Revision, Watch, WatchError,
};

use super::frame::{event_frame, frame, together};
use crate::api::random;
use crate::api::request::Call;
use crate::api::request::{encode_watched, table_rows};
use crate::api::request::{not_newer_than_store, of_this_store, request_to};
use crate::api::server::ApiServer;
use crate::api::server::shares;
use crate::api::server::{EncodingKey, RowKey};
use crate::clock;
use crate::flow::budget::{Pool, Share};
use crate::flow::paced::Lasting;
use crate::http::list_options::{ListOptions, ResourceVersion};
use crate::http::negotiate::{Answer, Form, Media, STREAMED, Shape};
use crate::http::params;
use crate::http::status::Status;
use crate::http::stored::selects;
use tidings_api::table::Rows;

/// Maximum existing events read at a time.
const INITIAL_PAGE_LEN: usize = 500;
/// Bytes of existing events sent at once; a client that does not read costs no more memory than
/// that.
const INITIAL_CHUNK_LEN: usize = 256 << 10;
/// Memory of a page of existing events: as stored, and as sent.
const INITIAL: usize = shares::PAGE + 2 * (INITIAL_CHUNK_LEN + shares::EVENT_MAX);
/// Bytes of changes from which on they are sent.
const CHUNK_LEN: usize = 64 * 1024;
/// Bytes of a frame in addition to its event.
const FRAME: usize = 256;

/// GET with `watch=true`.
pub(crate) async fn watch(
    server: Arc<ApiServer>,
    call: Call,
    mut options: ListOptions,
) -> Result<Response, Status> {
    let form = Form {
        pretty: false,
        ..call.form(Answer::Watch)?
    };
    // Refuses an invalid includeObject before the status line is sent.
    table_rows(&call, form, server.clock.now())?;
    if form.media == Media::Yaml {
        return Err(Status::not_acceptable(STREAMED));
    }
    if !call.info.name.is_empty() {
        let fields = &mut options.selector.fields;
        if !fields.is_empty() && fields.name() != Some(&call.info.name) {
            return Err(Status::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            ));
        }
        fields.require_name(&call.info.name);
    }
    let shortest = server.options.min_request_timeout;
    let asked = options.timeout.filter(|timeout| !timeout.is_zero());
    let timeout = asked.unwrap_or_else(|| shortest.mul_f64(1.0 + random::fraction()));
    let content_type = match form.media {
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let interval = server.options.bookmark_interval;
    let first_bookmark = clock::deadline(clock::timer(), interval);
    let interval = interval.max(Duration::from_millis(1));
    let mut watching = Watching {
        bookmarks: tokio::time::interval_at(first_bookmark, interval),
        started: clock::monotonic(),
        phase: Phase::Over,
        share: None,
        columns_sent: false,
        sent_revision: 0,
        server,
        call,
        options,
        form,
    };
    if let Err(status) = watching.start().await {
        watching.phase = Phase::Failed(status);
    }
    let time = Box::pin(tokio::time::sleep(timeout));
    let ended = select(time, watching.server.stopped());
    let frames = stream::unfold(watching, |mut watching| async move {
        let frames = watching.next_frames().await?;
        Some((Ok::<_, Infallible>(frames), watching))
    });
    let body = Body::from_stream(frames.take_until(ended));
    let content_type = [(header::CONTENT_TYPE, content_type)];
    // The stream ends in time only while the client reads it; the connection ends unread streams.
    let lasting = Extension(Lasting(timeout));
    Ok((StatusCode::OK, content_type, lasting, body).into_response())
}

/// One watch.
struct Watching {
    server: Arc<ApiServer>,
    call: Call,
    options: ListOptions,
    form: Form,
    phase: Phase,
    /// The share of memory of the next frames.
    share: Option<Share>,
    columns_sent: bool,
    /// The latest revision that was sent.
    sent_revision: Revision,
    bookmarks: tokio::time::Interval,
    started: std::time::Instant,
}

/// Approximate bytes of the frames of the changes that are sent next.
fn encoded_len(changes: &VecDeque<Arc<Change>>) -> usize {
    let mut sum = 0;
    for change in changes {
        let records = [change.record(), change.previous()];
        let lens = records.map(|record| record.map_or(0, |record| record.value.len()));
        sum += 2 * lens.into_iter().max().unwrap_or_default() + FRAME;
        if sum >= 2 * CHUNK_LEN {
            break;
        }
    }
    sum
}

/// ```text
/// ──┬──▶ Initial ──┬──▶ Live ───┐
///   ├──────────────┘            ├──▶ Over
///   └──▶ Failed ────────────────┘
/// ```
enum Phase {
    /// Existing events are being sent.
    Initial {
        request: ListRequest,
        announce_end: bool,
    },
    /// Changes are sent as they happen.
    Live {
        watch: Box<dyn Watch>,
        pending: VecDeque<Arc<Change>>,
    },
    /// This error is sent, and then the watch ends.
    Failed(Status),
    Over,
}

impl Watching {
    /// The next bytes to send; `None` ends the answer.
    async fn next_frames(&mut self) -> Option<Bytes> {
        loop {
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Failed(status) => Err(status),
                Phase::Initial {
                    request,
                    announce_end,
                } => self.initial(request, announce_end).await,
                Phase::Live { watch, pending } => self.live(watch, pending).await,
            };
            match step {
                Ok(frames) if frames.is_empty() => self.share = None,
                Ok(frames) => {
                    let lens = frames.iter().map(Bytes::len);
                    self.server.metrics.watched(self.call.api, lens);
                    let frames = together(frames);
                    return Some(match self.share.take() {
                        Some(share) => share.of(frames),
                        // A bookmark was added.
                        None => frames,
                    });
                }
                Err(status) => {
                    self.call.initial_place = None;
                    // Phase::Over stays: an error ends the watch.
                    return Some(frame(self.form.media, "ERROR", &self.error_object(&status)));
                }
            }
        }
    }

    /// Determines the position at which the watch begins.
    async fn start(&mut self) -> Result<(), Status> {
        let options = &self.options;
        if let ResourceVersion::At(revision) = options.resource_version {
            of_this_store(&self.server, revision)?;
        }
        let (initial, after) = match (options.send_initial_events, options.resource_version) {
            (Some(true), ResourceVersion::At(revision)) => {
                let checked = not_newer_than_store(&self.server, revision).await;
                checked.map_err(Status::worth_waiting_for)?;
                (true, None)
            }
            (Some(true), _) | (None, ResourceVersion::Unset | ResourceVersion::Zero) => {
                (true, None)
            }
            (Some(false), ResourceVersion::Unset | ResourceVersion::Zero) => (false, None),
            (_, ResourceVersion::At(revision)) => (false, Some(revision)),
        };
        if initial {
            let namespace = &self.call.info.namespace;
            let mut request = request_to(&self.server, namespace, &options.selector);
            request.limit = Some(INITIAL_PAGE_LEN);
            // As in Kubernetes 1.32 and later, a watch from the beginning is treated as one with
            // sendInitialEvents; a watch by a deprecated path is not.
            let asked =
                options.send_initial_events.is_some() || self.call.info.query.flag(params::WATCH);
            self.phase = Phase::Initial {
                request,
                announce_end: options.allow_bookmarks && asked,
            };
        } else {
            let revision = after.unwrap_or_else(|| self.server.store.revision());
            self.go_live(revision).await?;
        }
        Ok(())
    }

    async fn go_live(&mut self, after: Revision) -> Result<(), Status> {
        let (namespace, selector) = (&self.call.info.namespace, &self.options.selector);
        let prefix = request_to(&self.server, namespace, selector).prefix;
        let watch = self.server.store.watch(prefix, after).await;
        let watch = watch.map_err(|error| watch_status(&error))?;
        self.sent_revision = after;
        // All existing events were read, so another request may have the place.
        self.call.initial_place = None;
        self.phase = Phase::Live {
            watch,
            pending: VecDeque::new(),
        };
        Ok(())
    }

    /// Takes memory for frames. Returns false if there is none, and the watch ends.
    async fn reserve(&mut self, bytes: usize) -> bool {
        // Releases the memory of frames that were not sent because no change matched.
        self.share = None;
        let budget = &self.server.limits.budget;
        let user = budget.parts_of(&self.call.user.name);
        self.share = budget.take(Pool::Streams, bytes, &user).await.ok();
        self.share.is_some()
    }

    /// Sends a page of existing events.
    async fn initial(
        &mut self,
        mut request: ListRequest,
        announce_end: bool,
    ) -> Result<Vec<Bytes>, Status> {
        if !self.reserve(INITIAL).await {
            return Ok(Vec::new());
        }
        let page = self.server.store.list(request.clone()).await;
        let page = page.map_err(|error| match error {
            ReadError::Compacted { .. } => Status::watch_expired(),
            other => other.into(),
        })?;
        request.at = At::Exact(page.revision);
        let mut frames = Vec::new();
        let (mut seen, mut len) = (0, 0);
        let mut records = page.records.into_iter();
        while len < INITIAL_CHUNK_LEN
            && let Some(record) = records.next()
        {
            seen += 1;
            request.after = Some(record.key.clone());
            if selects(&self.options.selector, &record)? {
                let frame = self.first_frame(&record)?;
                len += frame.len();
                frames.push(frame);
            }
        }
        let is_cut = records.len() > 0;
        // Events that were read but not sent are read again, in a page that is no larger than
        // needed.
        request.limit = Some(if is_cut {
            seen
        } else {
            (seen * 2).clamp(1, INITIAL_PAGE_LEN)
        });
        if is_cut || page.more {
            self.phase = Phase::Initial {
                request,
                announce_end,
            };
        } else {
            self.go_live(page.revision).await?;
            let took = clock::monotonic().saturating_duration_since(self.started);
            let scope = if self.call.info.namespace.is_empty() {
                "cluster"
            } else {
                "namespace"
            };
            self.server.metrics.watch_list(self.call.api, scope, took);
            if announce_end {
                frames.push(self.bookmark(page.revision, true)?);
            }
        }
        Ok(frames)
    }

    /// Waits for changes, or until a bookmark is due.
    async fn live(
        &mut self,
        mut watch: Box<dyn Watch>,
        mut pending: VecDeque<Arc<Change>>,
    ) -> Result<Vec<Bytes>, Status> {
        if pending.is_empty() {
            // Polled in random order: changes that do not match must not delay bookmarks.
            let changes = tokio::select! {
                changes = watch.next() => Some(changes),
                _ = self.bookmarks.tick(), if self.options.allow_bookmarks => None,
            };
            match changes {
                Some(Ok(changes)) => pending.extend(changes),
                Some(Err(WatchError::Fault(Fault::Closed))) => return Ok(Vec::new()),
                Some(Err(error)) => return Err(watch_status(&error)),
                None => {
                    let revision = watch.revision().max(self.sent_revision);
                    self.phase = Phase::Live { watch, pending };
                    self.sent_revision = revision;
                    return Ok(vec![self.bookmark(revision, false)?]);
                }
            }
        }
        if !self.reserve(encoded_len(&pending)).await {
            return Ok(Vec::new());
        }
        let mut frames: Vec<Bytes> = Vec::new();
        let mut len = 0;
        // All changes of a revision are sent together, because a client that resumes after it would
        // miss the rest.
        while let Some(change) = pending.front()
            && (len < CHUNK_LEN || change.revision() == self.sent_revision)
            && let Some(change) = pending.pop_front()
        {
            if let Some(frame) = self.change(&change)? {
                len += frame.len();
                frames.push(frame);
            }
            self.sent_revision = change.revision();
        }
        self.phase = Phase::Live { watch, pending };
        Ok(frames)
    }

    /// The watch event for a change; `None` if it does not match.
    fn change(&mut self, change: &Change) -> Result<Option<Bytes>, Status> {
        let selector = &self.options.selector;
        let selected =
            |record: Option<&Record>| record.map_or(Ok(false), |record| selects(selector, record));
        let (before, after) = (selected(change.previous())?, selected(change.record())?);
        let (kind, record) = match (before, after) {
            (false, true) => ("ADDED", change.record()),
            (true, true) => ("MODIFIED", change.record()),
            (true, false) => ("DELETED", change.previous()),
            (false, false) => return Ok(None),
        };
        let Some(record) = record else {
            return Ok(None);
        };
        let rows = self.rows_to_send()?;
        let revision = change.revision();
        let followed = self.server.followed.as_ref();
        let key = EncodingKey {
            cluster: followed.map_or(0, |followed| followed.number),
            revision,
            key: record.key.clone(),
            kind,
            api: self.call.api,
            media: self.form.media,
            shape: self.form.shape,
            row: rows.map(|(rows, columns)| RowKey {
                second: rows.now.as_second(),
                include_object: rows.include_object,
                columns,
            }),
        };
        let encode = || event_frame(self.call.api, self.form, kind, record, revision, rows);
        self.server.encoded.get_or_encode(&key, encode).map(Some)
    }

    /// An existing event, as ADDED.
    fn first_frame(&mut self, record: &Record) -> Result<Bytes, Status> {
        let rows = self.rows_to_send()?;
        let (api, form) = (self.call.api, self.form);
        event_frame(api, form, "ADDED", record, record.revision, rows)
    }

    /// For a watch of Tables: how rows are made, and whether this is the first Table, which has the
    /// columns. Ages are as of this second, so that all watchers share the rows.
    fn rows_to_send(&mut self) -> Result<Option<(Rows, bool)>, Status> {
        let Shape::Table(_) = self.form.shape else {
            return Ok(None);
        };
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let now = self.server.clock.now();
        let second = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let rows = table_rows(&self.call, self.form, second)?;
        Ok(Some((rows, columns)))
    }

    /// A BOOKMARK: an event without content, except for the revision of the watch.
    fn bookmark(&mut self, revision: Revision, initial_events_end: bool) -> Result<Bytes, Status> {
        let mut metadata = ObjectMeta {
            resource_version: Some(revision.to_string()),
            ..ObjectMeta::default()
        };
        if initial_events_end {
            metadata
                .annotations
                .insert("k8s.io/initial-events-end".into(), "true".into());
        }
        // These two are never absent in an event.
        let event = Event {
            metadata: Some(metadata),
            involved_object: Some(ObjectReference::default()),
            source: Some(EventSource::default()),
            ..Event::default()
        };
        let rows = self.rows_to_send()?;
        let object = encode_watched(self.call.api, self.form, &event, rows)?;
        Ok(frame(self.form.media, "BOOKMARK", &object))
    }

    fn error_object(&self, status: &Status) -> Bytes {
        if self.form.media == Media::Protobuf {
            status.to_protobuf().into()
        } else {
            status.to_json().into()
        }
    }
}

fn watch_status(error: &WatchError) -> Status {
    match error {
        WatchError::Compacted { .. } => Status::watch_expired(),
        WatchError::Future { requested, current } => {
            Status::too_large_resource_version(*requested, *current)
        }
        WatchError::Fault(fault) => ReadError::Fault(fault.clone()).into(),
        other => Status::internal(other.to_string()),
    }
}
