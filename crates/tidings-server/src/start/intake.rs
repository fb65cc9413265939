//! Compares the bytes that an HTTP/1.1 connection receives with the data of its requests.
//!
//! Invariants:
//! - Most of a received body must be data: a client that sends little but chunk headers is refused.
//!   hyper limits chunk extensions and trailers, but not leading zeros and blanks.
//! - A body in chunks of one byte is allowed, as in Go's net/http.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Bytes of overhead allowed for each chunk, and for each byte of its data; the values of Go's
/// `chunkedReader`.
const OVERHEAD_OF_CHUNK: usize = 16;
const OVERHEAD_OF_BYTE: usize = 2;
/// Maximum bytes of further overhead; Go's value.
const EXCESS_MAX: usize = 16 * 1024;

/// The counts of a connection.
// The connection's task sees the end of a body before it sees the answer to it. So these values
// need no stronger memory order.
#[derive(Clone, Debug)]
pub(super) struct Intake(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Whether bytes were received since the last request that was read completely.
    unread: AtomicBool,
    /// Bytes received since then, minus data and its allowed overhead.
    excess: AtomicUsize,
    excess_max: usize,
}

impl Intake {
    /// Makes the counts of a connection. Its reader's buffer has `buffer_max` bytes, and may be
    /// full while as many more are passed to the request.
    pub(super) fn new(buffer_max: usize) -> Self {
        let ahead_max = buffer_max.saturating_mul(2);
        Self(Arc::new(Counts {
            unread: AtomicBool::new(false),
            excess: AtomicUsize::new(0),
            excess_max: EXCESS_MAX.saturating_add(ahead_max),
        }))
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// Too much of the body is overhead.
    pub(super) fn came(&self, bytes: usize) -> io::Result<()> {
        let counts = &self.0;
        counts.unread.store(true, Ordering::Relaxed);
        let before = counts.excess.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > counts.excess_max {
            let why = "chunked encoding contains too much non-data";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }

    /// Records that the head of a request was read.
    fn body_begins(&self) {
        self.0.excess.store(0, Ordering::Relaxed);
    }

    /// Counts data that was passed to a request.
    fn data(&self, bytes: usize) {
        let allowed = bytes
            .saturating_mul(1 + OVERHEAD_OF_BYTE)
            .saturating_add(OVERHEAD_OF_CHUNK);
        let less = |excess: usize| Some(excess.saturating_sub(allowed));
        let excess = &self.0.excess;
        let _ = excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Records that a request was read completely.
    pub(super) fn request_ends(&self) {
        self.0.unread.store(false, Ordering::Relaxed);
        self.0.excess.store(0, Ordering::Relaxed);
    }

    /// Whether a request was received in part and not read completely.
    pub(super) fn is_unread(&self) -> bool {
        self.0.unread.load(Ordering::Relaxed)
    }
}

/// A request's body, which counts its data as it is read.
pub(super) struct Received {
    body: Incoming,
    intake: Intake,
}

impl Received {
    pub(super) fn new(body: Incoming, intake: &Intake) -> Self {
        intake.body_begins();
        if body.is_end_stream() {
            intake.request_ends();
        }
        let intake = intake.clone();
        Self { body, intake }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.intake.data(data.len());
        }
        // A body of known length ends with its last byte, any other body after it.
        if frame.is_none() || self.body.is_end_stream() {
            self.intake.request_ends();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 1000;
    const MAX: usize = EXCESS_MAX + 2 * BUFFER;

    #[test]
    fn what_is_no_data_is_bounded() {
        let intake = Intake::new(BUFFER);
        // Chunks of one byte, for ever: each takes six bytes.
        for _ in 0..MAX {
            intake.came(6).unwrap();
            intake.data(1);
        }
        // Chunks whose length is written with 30 zeros.
        let refused = (0..MAX).position(|_| {
            let came = intake.came(36);
            intake.data(1);
            came.is_err()
        });
        assert_eq!(refused, Some((MAX - 36) / (36 - 19) + 1));
        // The counts of another request begin at zero.
        intake.request_ends();
        intake.came(MAX).unwrap();
        intake.body_begins();
        intake.came(MAX).unwrap();
        intake.came(1).unwrap_err();
    }

    #[test]
    fn a_request_is_unread_until_its_end() {
        let intake = Intake::new(BUFFER);
        assert!(!intake.is_unread());
        intake.came(1).unwrap();
        intake.body_begins();
        intake.data(1);
        assert!(intake.is_unread());
        intake.request_ends();
        assert!(!intake.is_unread());
    }
}
