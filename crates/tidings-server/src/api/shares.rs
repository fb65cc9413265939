//! How much memory answers may hold, by what is requested: the most that reading, encoding and
//! sending one takes. A share that turns out to be too large is given back in part.

use tidings_store::PAGE_BYTES_MAX;

use crate::flow::budget::{Held, Pool};
use crate::http::request::{RequestInfo, TIMELINE_API};

/// Stored bytes of the longest event.
pub(crate) const EVENT_MAX: usize = 3 << 19;
/// A page of the store, which ends with the event that fills it.
pub(crate) const PAGE: usize = PAGE_BYTES_MAX + EVENT_MAX;

/// A small answer, and what is held of a request while it is made.
pub(crate) const SMALL: usize = 64 << 10;
/// Longest stored event whose answer is a small one.
pub(crate) const SMALL_EVENT: usize = SMALL / 4;
/// Longest list, as it is stored, that is held whole; longer ones are streamed.
pub(crate) const SHORT_LIST: usize = 128 << 10;
/// The first page of a list, and a short list as it is sent.
const FIRST_PAGE: usize = PAGE + 4 * SHORT_LIST;
/// Chunks of a streamed answer: one that is being made, one that is made, and one that is being
/// sent. Each may end with a long event.
const CHUNKS: usize = 3 * (EVENT_MAX + (512 << 10));
/// A streamed list: a page, a short one before it, chunks, and a compressor.
const LIST: usize = PAGE + (512 << 10) + CHUNKS + COMPRESSOR;
/// An answer beyond this no longer counts as small.
const SMALL_ANSWER: u64 = 128 << 10;
/// Memory of a compressor.
const COMPRESSOR: usize = 512 << 10;

/// The pool and the bytes of a request's share. `body` is the length of its body; one that is not
/// known counts as small until it is [not](long_body).
pub(crate) fn share_of(info: &RequestInfo, body: Option<u64>, body_max: usize) -> (Pool, usize) {
    let body = body.map_or(0, |body| usize::try_from(body).unwrap_or(usize::MAX));
    if body > SMALL {
        return long_body(body.min(body_max));
    }
    if let Some(answer) = info.uri.path().strip_prefix(TIMELINE_API) {
        return of_timeline(answer, info.query.get(crate::http::params::FORMAT));
    }
    if info.is_versions() {
        return (Pool::Small, 2 * PAGE);
    }
    if info.is_about_events() && matches!(info.verb, "list" | "deletecollection") {
        return (Pool::Small, FIRST_PAGE);
    }
    match info.labels.subresource {
        "/coverage" | "/counts" | "/clusters" => (Pool::Small, 4 << 20),
        "/export" => (Pool::Large, 8 << 20),
        // The file is built from what waits: its bytes, and the columns that they are made of.
        "/waiting" => (Pool::Large, 32 << 20),
        _ => (Pool::Small, SMALL),
    }
}

/// The share of a long body: as it is sent, and as it is read.
pub(crate) fn long_body(len: usize) -> (Pool, usize) {
    (Pool::Large, len * 2)
}

fn of_timeline(answer: &str, format: Option<&str>) -> (Pool, usize) {
    match answer {
        "overview" => (Pool::Small, PAGE + SMALL),
        "object" => (Pool::Large, 2 * PAGE),
        "export" if format == Some("perfetto") => (Pool::Large, 36 << 20),
        "events" | "export" => (Pool::Large, 16 << 20),
        // A picture, and an event with its neighbours.
        _ => (Pool::Large, 24 << 20),
    }
}

/// The share of an event's answer, by its stored bytes: as it is stored, decoded and encoded.
pub(crate) fn of_event(stored: usize) -> usize {
    5 * stored
}

/// The share of a list that is streamed: one of a single page by its stored bytes.
pub(crate) fn of_list(single: Option<usize>) -> usize {
    single.map_or(LIST, |bytes| LIST.min(4 * bytes + COMPRESSOR))
}

/// Gives back what a complete answer of some bytes does not need. Buffers grow by doubling, so it
/// may take twice its length.
pub(crate) fn answered(held: &Held, len: u64, is_compressed: bool) {
    let mut bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(2);
    if is_compressed && len > SMALL_ANSWER {
        bytes = bytes.saturating_add(COMPRESSOR);
    }
    // A client that does not read must not keep memory from small answers.
    if len > SMALL_ANSWER {
        held.try_exchange(Pool::Large, bytes);
    }
    held.shrink(bytes);
}
