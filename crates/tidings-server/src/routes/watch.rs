//! Watches: what exists, if asked for, then every change in order, until time or server end it.
//!
//! A watch answers 200 at once; whatever goes wrong later is one `ERROR` in the stream, for not every client reads the
//! HTTP status of a watch. A change is judged by the selector before and after it: an event that enters the selection
//! is `ADDED`, one that leaves it `DELETED`. A client that reads slowly makes its own watch wait, nobody else's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, StatusCode, header};
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_store::{At, BoxFuture, Change, ListRequest, Record, Revision, Watch, WatchError};

use super::body::{encode_watched, table_rows};
use super::call::Call;
use super::list::{not_newer_than_store, store_request};
use crate::codec;
use crate::encoded::EncodingKey;
use crate::error::Status;
use crate::negotiate::{Answer, Form, Media, Shape};
use crate::query::{ListOptions, ResourceVersion};
use crate::server::{ApiServer, Stored};
use crate::table::Rows;

/// So many existing events are read at a time.
const INITIAL_PAGE_LEN: usize = 500;

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
    // Refuses a wrong includeObject while there still is a status line to do it with.
    table_rows(&call, form, server.clock.now())?;
    if !call.name.is_empty() {
        options.selector.fields.require_name(&call.name);
    }
    let timeout = options
        .timeout
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or_else(|| {
            server
                .options
                .min_request_timeout
                .mul_f64(1.0 + crate::random::fraction())
        });
    let content_type = match form.media {
        Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    let ended: BoxFuture<'static, ()> = {
        let stopped = server.stopped();
        Box::pin(async move {
            tokio::select! {
                () = tokio::time::sleep(timeout) => {}
                () = stopped => {}
            }
        })
    };
    let mut watching = Watching {
        bookmarks: tokio::time::interval_at(
            tokio::time::Instant::from_std(crate::clock::monotonic())
                + server.options.bookmark_interval,
            server
                .options
                .bookmark_interval
                .max(Duration::from_millis(1)),
        ),
        phase: Phase::Over,
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
    let frames = futures::StreamExt::take_until(
        stream::unfold(watching, |mut watching| async move {
            watching
                .next_frames()
                .await
                .map(|frames| (Ok::<_, std::convert::Infallible>(frames), watching))
        }),
        ended,
    );
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
    Ok((StatusCode::OK, content_type, Body::from_stream(frames)).into_response())
}

/// One watch.
struct Watching {
    server: Arc<ApiServer>,
    call: Call,
    options: ListOptions,
    form: Form,
    phase: Phase,
    columns_sent: bool,
    /// The latest revision the client has heard of.
    sent_revision: Revision,
    bookmarks: tokio::time::Interval,
}

/// ```text
/// ──┬──▶ Initial ──┬──▶ Live ───┐
///   ├──────────────┘            ├──▶ Over
///   └──▶ Failed ────────────────┘
/// ```
enum Phase {
    /// What exists is being sent.
    Initial {
        request: ListRequest,
        announce_end: bool,
    },
    /// Changes are being sent as they come.
    Live {
        watch: Box<dyn Watch>,
        pending: VecDeque<Arc<Change>>,
    },
    /// There is nothing to say but this.
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
                Ok(frames) if frames.is_empty() => {}
                Ok(frames) => return Some(frames.into()),
                Err(status) => {
                    // Phase::Over stays: an error is the last thing a watch says.
                    return Some(self.frame("ERROR", &self.error_object(&status)).into());
                }
            }
        }
    }

    /// Finds out where to begin.
    async fn start(&mut self) -> Result<Vec<u8>, Status> {
        let options = &self.options;
        let (initial, after) = match (options.send_initial_events, options.resource_version) {
            (Some(true), ResourceVersion::At(revision)) => {
                not_newer_than_store(&self.server, revision)?;
                (true, None)
            }
            (Some(true), _) | (None, ResourceVersion::Unset | ResourceVersion::Zero) => {
                (true, None)
            }
            (Some(false), ResourceVersion::Unset | ResourceVersion::Zero) => (false, None),
            (_, ResourceVersion::At(revision)) => (false, Some(revision)),
        };
        if initial {
            let mut request = store_request(&self.call.namespace, &options.selector);
            request.limit = Some(INITIAL_PAGE_LEN);
            // As since Kubernetes 1.32, a plain watch from the beginning counts as one that asked for what exists.
            self.phase = Phase::Initial {
                request,
                announce_end: options.allow_bookmarks,
            };
        } else {
            let revision = after.unwrap_or_else(|| self.server.store.revision());
            self.go_live(revision).await?;
        }
        Ok(Vec::new())
    }

    async fn go_live(&mut self, after: Revision) -> Result<(), Status> {
        let prefix = store_request(&self.call.namespace, &self.options.selector).prefix;
        let watch = self
            .server
            .store
            .watch(prefix, after)
            .await
            .map_err(|error| watch_status(&error))?;
        self.sent_revision = after;
        self.phase = Phase::Live {
            watch,
            pending: VecDeque::new(),
        };
        Ok(())
    }

    /// Sends a page of what exists.
    async fn initial(
        &mut self,
        mut request: ListRequest,
        announce_end: bool,
    ) -> Result<Vec<u8>, Status> {
        let page = self
            .server
            .store
            .list(request.clone())
            .await
            .map_err(|error| match error {
                tidings_store::ReadError::Compacted { .. } => Status::watch_expired(),
                other => Status::from_read(&other, None),
            })?;
        request.at = At::Exact(page.revision);
        let mut frames = Vec::new();
        for record in page.records {
            request.after = Some(record.key.clone());
            let Stored { event, record } = Stored::decode(record)?;
            if self.options.selector.matches(&event) {
                let object = self.encode(&event, &record, record.revision, false)?;
                frames.extend(self.frame("ADDED", &object));
            }
        }
        if page.more {
            self.phase = Phase::Initial {
                request,
                announce_end,
            };
        } else {
            self.go_live(page.revision).await?;
            if announce_end {
                frames.extend(self.bookmark(page.revision, true)?);
            }
        }
        Ok(frames)
    }

    /// Waits for changes, or for the time to tell a quiet client how far it is.
    async fn live(
        &mut self,
        mut watch: Box<dyn Watch>,
        mut pending: VecDeque<Arc<Change>>,
    ) -> Result<Vec<u8>, Status> {
        if pending.is_empty() {
            let changes = tokio::select! {
                biased;
                changes = watch.next() => Some(changes),
                _ = self.bookmarks.tick(), if self.options.allow_bookmarks => None,
            };
            match changes {
                Some(Ok(changes)) => pending.extend(changes),
                Some(Err(WatchError::Fault(tidings_store::Fault::Closed))) => return Ok(Vec::new()),
                Some(Err(error)) => return Err(watch_status(&error)),
                None => {
                    let revision = watch.revision().max(self.sent_revision);
                    self.phase = Phase::Live { watch, pending };
                    self.sent_revision = revision;
                    return self.bookmark(revision, false);
                }
            }
        }
        let mut frames = Vec::new();
        while let Some(change) = pending.pop_front() {
            self.change(&change, &mut frames)?;
            self.sent_revision = change.revision();
        }
        self.phase = Phase::Live { watch, pending };
        Ok(frames)
    }

    /// Appends what a change means to this watch.
    fn change(&mut self, change: &Change, frames: &mut Vec<u8>) -> Result<(), Status> {
        let revision = change.revision();
        let decode = |record: Option<&Record>| record.cloned().map(Stored::decode).transpose();
        let selected = |stored: &Stored| {
            self.options.selector.is_empty() || self.options.selector.matches(&stored.event)
        };
        let after = decode(change.record())?.filter(selected);
        // Without a selector what was there before was selected; its content is needed only if it is to be sent.
        let before = if after.is_some() && self.options.selector.is_empty() {
            change.previous().map(|_| None)
        } else {
            decode(change.previous())?.filter(selected).map(Some)
        };
        let (kind, stored, is_before) = match (before, after) {
            (None, Some(after)) => ("ADDED", after, false),
            (Some(_), Some(after)) => ("MODIFIED", after, false),
            (Some(Some(before)), None) => ("DELETED", before, true),
            (Some(None) | None, None) => return Ok(()),
        };
        let object = self.encode(&stored.event, &stored.record, revision, is_before)?;
        frames.extend(self.frame(kind, &object));
        Ok(())
    }

    /// The object's bytes at a revision (a deleted object carries that of its deletion).
    fn encode(
        &mut self,
        event: &Event,
        record: &Record,
        revision: Revision,
        before: bool,
    ) -> Result<Bytes, Status> {
        let at_revision = || {
            let mut event = event.clone();
            event.metadata.get_or_insert_default().resource_version = Some(revision.to_string());
            event
        };
        if let Shape::Table(_) = self.form.shape {
            let rows = self.rows()?;
            let columns = !std::mem::replace(&mut self.columns_sent, true);
            return encode_watched(
                self.call.api,
                self.form,
                &at_revision(),
                Some(&rows),
                columns,
            );
        }
        let key = EncodingKey {
            revision,
            key: record.key.clone(),
            before,
            api: self.call.api,
            media: self.form.media,
            shape: self.form.shape,
        };
        let encode = || encode_watched(self.call.api, self.form, &at_revision(), None, false);
        self.server.encoded.get_or_encode(key, encode)
    }

    fn rows(&self) -> Result<Rows, Status> {
        table_rows(&self.call, self.form, self.server.clock.now())
    }

    /// A BOOKMARK: an otherwise empty event that tells how far the watch has come.
    fn bookmark(
        &mut self,
        revision: Revision,
        initial_events_end: bool,
    ) -> Result<Vec<u8>, Status> {
        let mut metadata = ObjectMeta {
            resource_version: Some(revision.to_string()),
            ..ObjectMeta::default()
        };
        if initial_events_end {
            metadata
                .annotations
                .insert("k8s.io/initial-events-end".into(), "true".into());
        }
        let event = Event {
            metadata: Some(metadata),
            ..Event::default()
        };
        let rows = if let Shape::Table(_) = self.form.shape {
            Some(self.rows()?)
        } else {
            None
        };
        let columns = rows.is_some() && !std::mem::replace(&mut self.columns_sent, true);
        let object = encode_watched(self.call.api, self.form, &event, rows.as_ref(), columns)?;
        Ok(self.frame("BOOKMARK", &object))
    }

    fn error_object(&self, status: &Status) -> Bytes {
        if self.form.media == Media::Protobuf {
            status.to_protobuf().into()
        } else {
            status.to_json().into()
        }
    }

    /// One watch event around an encoded object.
    fn frame(&self, kind: &str, object: &Bytes) -> Vec<u8> {
        if self.form.media == Media::Protobuf {
            return codec::protobuf::watch_frame(kind, object);
        }
        let mut frame = Vec::with_capacity(object.len() + 40);
        frame.extend_from_slice(b"{\"type\":\"");
        frame.extend_from_slice(kind.as_bytes());
        frame.extend_from_slice(b"\",\"object\":");
        frame.extend_from_slice(object);
        frame.extend_from_slice(b"}\n");
        frame
    }
}

fn watch_status(error: &WatchError) -> Status {
    match error {
        WatchError::Compacted { .. } => Status::watch_expired(),
        WatchError::Future { requested, current } => {
            Status::too_large_resource_version(*requested, *current)
        }
        WatchError::Fault(fault) => {
            Status::from_read(&tidings_store::ReadError::Fault(fault.clone()), None)
        }
        other => Status::internal(other.to_string()),
    }
}
