//! Exports the events of a range as a file: JSON Lines, as `tidings import` reads them, or the JSON
//! of Perfetto. The file is streamed. If it reaches its maximum, it says so at its end.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{FutureExt, stream};
use http::{StatusCode, header};
use serde_json::json;
use tidings_api::codec::Api;
use tidings_api::codec::stored::StoredEvent;

use super::super::enter::Entry;
use super::super::merged::{Found, Merged};
use super::super::query::range_with_ahead;
use super::super::read::brief;
use super::super::state::Timeline;
use super::super::visible::Caller;
use super::perfetto::{HEAD, OBJECTS_MAX, TAIL, Tracks};
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum events read for an export.
const EVENTS_MAX: usize = 200_000;
/// Bytes at which a chunk ends; events not yet written stay in their stored form.
const CHUNK_BYTES: usize = 64 << 10;

/// The form of a file, with the state of what was written.
enum Form {
    Lines,
    Perfetto { tracks: Tracks, first: bool },
}

/// GET /timeline/api/export
pub(in super::super) async fn export(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(caller): Extension<Arc<Caller>>,
    Extension(again): Extension<Arc<Entry>>,
    Extension(info): Extension<Arc<RequestInfo>>,
) -> Result<Response, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let range = range_with_ahead(&info.query, now)?;
    let (form, content_type, name) = match info.query.get(params::FORMAT) {
        None | Some("jsonl") => (
            Form::Lines,
            "application/x-ndjson",
            "attachment; filename=\"events.jsonl\"",
        ),
        Some("perfetto") => (
            Form::Perfetto {
                tracks: Tracks::default(),
                first: true,
            },
            "application/json",
            "attachment; filename=\"events.perfetto.json\"",
        ),
        Some(other) => {
            let why = format!("format {other:?} is neither jsonl nor perfetto");
            return Err(Status::bad_request(why));
        }
    };
    // A file must not lack a cluster in silence.
    if !caller.unasked.is_empty() {
        return Err(Status::cannot_check().about_clusters(&caller.unasked));
    }
    let merged = Merged::of(&caller.clusters, &caller.filter, range, EVENTS_MAX);
    let head = match form {
        Form::Lines => Bytes::new(),
        Form::Perfetto { .. } => Bytes::from_static(HEAD.as_bytes()),
    };
    let recheck = timeline.sources.root().options.timeline.recheck;
    let refused = again.refused(Arc::clone(&caller), recheck).boxed();
    let state = Some((merged, form, caller, refused, Vec::new().into_iter()));
    let chunks = stream::try_unfold((state, head), |(state, head)| async move {
        let Some((mut merged, mut form, caller, mut refused, mut waiting)) = state else {
            return Ok(None);
        };
        // An aborted stream shows the client that the file is incomplete.
        let ended = || std::io::Error::other("the caller may not read on, or the server stops");
        if (&mut refused).now_or_never().is_some() {
            return Err(ended());
        }
        let mut chunk = head.to_vec();
        let mut is_over = false;
        if waiting.as_slice().is_empty() {
            let found = tokio::select! {
                () = &mut refused => return Err(ended()),
                found = merged.next() => found,
            };
            let found =
                found.map_err(|status| std::io::Error::other(status.message().to_owned()))?;
            is_over = found.is_none();
            waiting = found.unwrap_or_default().into_iter();
        }
        while chunk.len() < CHUNK_BYTES
            && !form.is_full()
            && let Some(event) = waiting.next()
        {
            form.write(&caller, &event, &mut chunk);
        }
        is_over |= form.is_full();
        if is_over {
            form.end(merged.cut.is_some(), &mut chunk);
        }
        let state = (!is_over).then_some((merged, form, caller, refused, waiting));
        Ok::<_, std::io::Error>(Some((Bytes::from(chunk), (state, Bytes::new()))))
    });
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_DISPOSITION, name),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((StatusCode::OK, headers, Body::from_stream(chunks)).into_response())
}

impl Form {
    fn write(&mut self, caller: &Caller, event: &Found, out: &mut Vec<u8>) {
        match self {
            Self::Lines => {
                let event = &event.record;
                let stored = StoredEvent::open(&event.value, event.revision);
                let before = out.len();
                match stored.and_then(|event| event.write_json(Api::Core, true, out)) {
                    Some(()) => out.push(b'\n'),
                    None => out.truncate(before),
                }
            }
            Self::Perfetto { tracks, first } => {
                let cluster = caller.clusters.get(event.cluster);
                let cluster = cluster.map_or("", |cluster| &cluster.source.name);
                let Some(brief) = brief(&event.record) else {
                    return;
                };
                for event in tracks.events((event.cluster, cluster), &brief) {
                    let comma = if std::mem::take(first) { "\n" } else { ",\n" };
                    out.extend_from_slice(comma.as_bytes());
                    // Serializing a value to memory cannot fail.
                    _ = serde_json::to_writer(&mut *out, &event);
                }
            }
        }
    }

    /// Whether no more events may be added.
    fn is_full(&self) -> bool {
        match self {
            Self::Lines => false,
            Self::Perfetto { tracks, .. } => tracks.are_full(),
        }
    }

    /// Ends the file; a truncated one gets a note about that.
    fn end(&mut self, is_cut: bool, out: &mut Vec<u8>) {
        let (is_cut, why) = if self.is_full() {
            let why = format!("cut: a trace has {OBJECTS_MAX} objects at most");
            (true, why)
        } else {
            let why = format!("cut: an export is made of {EVENTS_MAX} events at most");
            (is_cut, why)
        };
        match self {
            Self::Lines if is_cut => {
                let status = json!({"kind": "Status", "message": why});
                out.extend_from_slice(format!("{status}\n").as_bytes());
            }
            Self::Lines => {}
            Self::Perfetto { first, tracks } => {
                if is_cut {
                    let comma = if *first { "\n" } else { ",\n" };
                    out.extend_from_slice(comma.as_bytes());
                    out.extend_from_slice(tracks.note(&why).to_string().as_bytes());
                }
                out.extend_from_slice(TAIL.as_bytes());
            }
        }
    }
}
