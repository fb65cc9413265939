//! The memory that requests reserve, by what they ask for: the maximum that reading, encoding and
//! sending the answer takes. If a share turns out to be too large, part of it is released.

use axum::http::Method;
use tidings_api::codec::PAST_GROUP;
use tidings_store::PAGE_BYTES_MAX;

use crate::flow::budget::{Held, Pool};
use crate::http::request::{RequestInfo, TIMELINE_API};

/// Maximum bytes of a stored event.
pub(crate) const EVENT_MAX: usize = 3 << 19;
/// Maximum bytes of a page of the store, which ends with the event that fills it.
pub(crate) const PAGE: usize = PAGE_BYTES_MAX + EVENT_MAX;

/// Share of a small answer, including the request's own memory while it is made.
pub(crate) const SMALL: usize = 64 << 10;
/// Maximum bytes of a stored event whose answer counts as small.
pub(crate) const SMALL_EVENT: usize = SMALL / 4;
/// Maximum stored bytes of a list that is held as a whole. Longer lists are streamed.
pub(crate) const SHORT_LIST: usize = 128 << 10;
/// Share of the first page of a list, or of a short list while it is sent.
const FIRST_PAGE: usize = PAGE + 4 * SHORT_LIST;
/// Share of the chunks of a streamed answer: one that is being made, one that is complete, and one
/// that is being sent. Each may end with a long event.
const CHUNKS: usize = 3 * (EVENT_MAX + (512 << 10));
/// Share of a streamed list: a page, a short page before it, the chunks, and a compressor.
const LIST: usize = PAGE + (512 << 10) + CHUNKS + COMPRESSOR;
/// An answer beyond this no longer counts as small.
const SMALL_ANSWER: u64 = 128 << 10;
/// Times that an event which is changed is in memory.
const CHANGE: usize = 8;
/// Coverage, counts, or a list of clusters, as it is made and as it is sent.
const HISTORY: usize = 4 << 20;
/// The page of metrics, as it is made and as it is sent.
const METRICS: usize = 512 << 10;
/// A request of the Model Context Protocol, as it is sent and read, and both forms of its answer.
const MCP: usize = 512 << 10;
/// Memory of a compressor.
const COMPRESSOR: usize = 512 << 10;

/// Returns the pool and the bytes of a request's share: the larger of the share for its body and
/// the share for its answer. `body` is the length of its body. An unknown length counts as small
/// until the body turns out to be [long](long_body). A body that is not read does not count.
pub(crate) fn share_of(info: &RequestInfo, body: Option<u64>, body_max: usize) -> (Pool, usize) {
    let answer = of_answer(info);
    let body =
        body.filter(|_| !matches!(info.method, Method::GET | Method::HEAD | Method::OPTIONS));
    let body = body.map_or(0, |body| usize::try_from(body).unwrap_or(usize::MAX));
    let body = (body > SMALL).then(|| long_body(info, body.min(body_max)));
    match body {
        Some(body) if body.1 > answer.1 => body,
        _ => answer,
    }
}

fn of_answer(info: &RequestInfo) -> (Pool, usize) {
    if let Some(answer) = info.uri.path().strip_prefix(TIMELINE_API) {
        return of_timeline(answer, info.query.get(crate::http::params::FORMAT));
    }
    if info.is_mcp() {
        return (Pool::Small, MCP);
    }
    if info.is_versions() {
        return (Pool::Small, 2 * PAGE);
    }
    if info.is_about_events() && matches!(info.verb, "list" | "deletecollection") {
        return (Pool::Small, FIRST_PAGE);
    }
    if info.is_metrics() {
        return (Pool::Small, METRICS);
    }
    if info.group == PAST_GROUP && info.resource == "timeline" {
        return of_timeline(&info.name, None);
    }
    if info.group == PAST_GROUP && matches!(info.resource.as_str(), "coverage" | "counts") {
        return (Pool::Small, HISTORY);
    }
    match info.labels.subresource {
        "/coverage" | "/counts" | "/clusters" => (Pool::Small, HISTORY),
        "/export" => (Pool::Large, 8 << 20),
        // The file is made from the waiting versions: their bytes, and the columns of these.
        "/waiting" => (Pool::Large, 32 << 20),
        _ => (Pool::Small, SMALL),
    }
}

/// The share of a long body: as it is sent, read, changed, stored and answered. A request that
/// changes an event has what the longest stored one takes, too: it must not wait for more while it
/// holds its body. A share is at most a user's part of the pool: a body that is longer than the
/// longest event is only read, and refused.
pub(crate) fn long_body(info: &RequestInfo, len: usize) -> (Pool, usize) {
    let stored = if info.changes_stored() { EVENT_MAX } else { 0 };
    let bytes = CHANGE * (len + stored);
    (Pool::Large, bytes.min(Pool::Large.user_bytes_max()))
}

/// The share of a call of a tool while it reads. It is taken when the request's body is read, and
/// not for requests that read nothing.
pub(crate) fn of_tool(tool: &str) -> (Pool, usize) {
    match tool {
        "clusters" | "coverage" => (Pool::Small, HISTORY),
        "search" => of_timeline("events", None),
        "object" => of_timeline("object", None),
        _ => of_timeline("event", None),
    }
}

/// Gives back what a tool's call needed while it read.
pub(crate) fn of_answered_tool(held: &Held) {
    held.shrink(MCP);
}

fn of_timeline(answer: &str, format: Option<&str>) -> (Pool, usize) {
    match answer {
        "overview" => (Pool::Small, PAGE + SMALL),
        "filter" => (Pool::Small, SMALL),
        "object" => (Pool::Views, 2 * PAGE),
        "export" if format == Some("perfetto") => (Pool::Views, 36 << 20),
        "events" | "export" => (Pool::Views, 16 << 20),
        // A view, a table of its events, or an event with its neighbours.
        _ => (Pool::Views, 24 << 20),
    }
}

/// The share of a request for a stored event, by its stored bytes: for an answer, as it is stored,
/// decoded and encoded; for a change, also as a document, as it becomes, and as that is stored.
pub(crate) fn of_event(info: &RequestInfo, stored: usize) -> (Pool, usize) {
    if info.changes_stored() {
        (Pool::Large, CHANGE * stored)
    } else {
        (Pool::Small, 5 * stored)
    }
}

/// Returns the share of a streamed list. If it has a single page, it is computed from the page's
/// stored bytes.
pub(crate) fn of_list(single: Option<usize>) -> usize {
    single.map_or(LIST, |bytes| LIST.min(4 * bytes + COMPRESSOR))
}

/// Releases what a complete answer of `len` bytes does not need. Buffers grow by doubling, so the
/// answer may take twice its length.
pub(crate) fn answered(held: &Held, len: u64, is_compressed: bool) {
    let mut bytes = usize::try_from(len).unwrap_or(usize::MAX).saturating_mul(2);
    if is_compressed && len > SMALL_ANSWER {
        bytes = bytes.saturating_add(COMPRESSOR);
    }
    // A client that does not read must not keep memory of the pool for small answers.
    if len > SMALL_ANSWER {
        held.try_exchange(Pool::Large, bytes);
    }
    held.shrink(bytes);
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, Uri};

    use super::*;

    const BODY_MAX: usize = 3 << 20;

    fn share(method: &Method, uri: &'static str, body: u64) -> (Pool, usize) {
        let uri = Uri::from_static(uri);
        let info = RequestInfo::of(method, &uri, &HeaderMap::new());
        share_of(&info, Some(body), BODY_MAX)
    }

    /// Without this rule, claiming a length would reduce the share to a tenth.
    #[test]
    fn a_body_never_makes_the_share_of_an_answer_smaller() {
        let view = "/timeline/api/view";
        for uri in [view, "/timeline/api/export", "/api/v1/events", "/readyz"] {
            for method in [Method::GET, Method::POST] {
                let answer = share(&method, uri, 0);
                for body in [1, 70_000, u64::MAX] {
                    let all = share(&method, uri, body);
                    assert!(all.1 >= answer.1, "{method} {uri} {body}");
                    assert!(all == answer || method == Method::POST, "{uri} {body}");
                }
            }
        }
        // Otherwise, requests whose bodies do not arrive hold the memory of views.
        for body in [0, 100, 60_000] {
            assert_eq!(share(&Method::POST, "/mcp", body), (Pool::Small, MCP));
        }
        let events = "/api/v1/namespaces/shop/events";
        let long = share(&Method::POST, events, u64::MAX);
        assert_eq!(long, (Pool::Large, CHANGE * BODY_MAX));
        // Room is left for another user.
        let change = 24 << 20;
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            let event = "/api/v1/namespaces/shop/events/web.1";
            assert_eq!(share(&method, event, u64::MAX), (Pool::Large, change));
            assert_eq!(share(&method, event, 1), (Pool::Small, SMALL));
        }
        assert_eq!(share(&Method::GET, view, 70_000), (Pool::Views, 24 << 20));
    }
}
