//! Bodies that are made while they are sent, run by a task of their own until a deadline.
//!
//! The maker of such a body holds a place and memory for as long as it lasts. If only the
//! connection drove it, a client that stops reading would stop it for ever; the task ends it at its
//! deadline, whether or not the client reads, and the client gets a truncated answer.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;

/// Maximum chunks made ahead of the client.
const CHUNKS_AHEAD: usize = 1;

/// What the task says to the connection.
enum Piece {
    Chunk(Bytes),
    Failed(axum::Error),
    End,
}

/// Limits a body that is not complete yet to `deadline`, and holds `place` until the deadline or
/// the end of the body. A complete body has no further cost: it is returned as it is, and the place
/// is given back.
pub(crate) fn pace(
    body: Body,
    place: impl Send + 'static,
    deadline: tokio::time::Instant,
    timed_out: impl FnOnce() + Send + 'static,
) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let _place = place;
        let send = async {
            let mut chunks = body.into_data_stream();
            while let Some(chunk) = chunks.next().await {
                let piece = chunk.map_or_else(Piece::Failed, Piece::Chunk);
                let failed = matches!(piece, Piece::Failed(_));
                // Without a receiver the client is gone.
                if sender.send(piece).await.is_err() || failed {
                    return;
                }
            }
            let _ = sender.send(Piece::End).await;
        };
        if tokio::time::timeout_at(deadline, send).await.is_err() {
            timed_out();
        }
    });
    let chunks = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Piece::Chunk(chunk)) => Some((Ok(chunk), Some(receiver))),
            Some(Piece::Failed(error)) => Some((Err(error), None)),
            Some(Piece::End) => None,
            None => Some((
                Err(axum::Error::new(std::io::Error::from(
                    std::io::ErrorKind::TimedOut,
                ))),
                None,
            )),
        }
    });
    Body::from_stream(chunks)
}

/// On an answer: it may last this long from now on, whatever the timeout of requests is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasting(pub(crate) Duration);
