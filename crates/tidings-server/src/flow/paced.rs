//! Streamed bodies, each produced by a task of its own until a deadline.
//!
//! A streamed body holds a place and memory until it ends. If only the connection polled it, a
//! client that stops reading could keep these for ever. The task ends it at its deadline, even if
//! the client does not read, and the client gets a truncated answer.

use std::io;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;

/// Maximum chunks produced ahead of the client.
const CHUNKS_AHEAD: usize = 1;

/// Ends a streamed body at `deadline`, and holds `place` until the body ends. A body that is
/// complete already is returned unchanged, and its place is released.
pub(crate) fn pace(
    body: Body,
    place: impl Send + 'static,
    deadline: tokio::time::Instant,
    timed_out: impl FnOnce() + Send + 'static,
) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    // A `None` is the end of the body.
    let (sender, receiver) = mpsc::channel::<Option<Result<Bytes, axum::Error>>>(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let _place = place;
        let send = async {
            let mut chunks = body.into_data_stream();
            loop {
                // A chunk is made only once there is room for it. If the receiver is gone, the
                // client has disconnected.
                let Ok(room) = sender.reserve().await else {
                    return;
                };
                let chunk = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    chunk = chunks.next() => chunk,
                };
                let is_last = !matches!(chunk, Some(Ok(_)));
                room.send(chunk);
                if is_last {
                    return;
                }
            }
        };
        if tokio::time::timeout_at(deadline, send).await.is_err() {
            timed_out();
        }
    });
    let chunks = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        let Some(piece) = receiver.recv().await else {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            return Some((Err(axum::Error::new(late)), None));
        };
        let chunk = piece?;
        let rest = chunk.is_ok().then_some(receiver);
        Some((chunk, rest))
    });
    Body::from_stream(chunks)
}

/// Attached to an answer that may last this long, regardless of the request timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting(pub(crate) Duration);
