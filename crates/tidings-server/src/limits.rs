//! What a client may take up: the size of bodies, requests in flight, and time, each until the answer's last byte.

use std::sync::Arc;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::Status;
use crate::metrics::RequestKind;
use crate::paced;
use crate::query::Query;
use crate::server::ApiServer;

/// Longest accepted body by default, in bytes; kube-apiserver's own limit.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Reads a body of at most so many bytes.
///
/// # Errors
/// 413 for a longer one, 400 if the client went away in the middle.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<bytes::Bytes, Status> {
    use http_body_util::{BodyExt, LengthLimitError, Limited};
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::body_too_large(bytes_max)),
        Err(error) => Err(Status::bad_request(format!(
            "the body could not be read: {error}"
        ))),
    }
}

/// Whether a request is a watch: these last long and are counted by nobody.
pub(crate) fn is_watch(method: &Method, path: &str, query: &Query) -> bool {
    let below = ["/api/v1/", "/apis/events.k8s.io/v1/"]
        .into_iter()
        .find_map(|group| path.strip_prefix(group));
    let Some(below) = below.filter(|_| method == Method::GET) else {
        return false;
    };
    let (below, asked) = match below.strip_prefix("watch/") {
        Some(below) => (below, true),
        None => (below, query.flag("watch")),
    };
    let mut parts = below.split('/');
    let resource = match parts.next() {
        Some("namespaces") => parts.nth(1),
        first => first,
    };
    asked && resource == Some("events")
}

/// Lets so many requests in at once and gives each its time; the rest are told to come back.
pub(crate) async fn limit(
    State(server): State<Arc<ApiServer>>,
    request: Request,
    next: Next,
) -> Response {
    let query = Query::parse(request.uri().query());
    if is_watch(request.method(), request.uri().path(), &query) {
        return next.run(request).await;
    }
    let reading = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let permits = if reading {
        &server.reads
    } else {
        &server.writes
    };
    let kind = request.extensions().get::<RequestKind>().copied();
    let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
        if let Some(kind) = kind {
            server.metrics.terminated(kind, 429);
        }
        return too_many_requests();
    };
    let timeout = match query.timeout() {
        Ok(None | Some(Duration::ZERO)) => server.options.request_timeout,
        Ok(Some(asked)) => asked.min(server.options.request_timeout),
        Err(status) => return status.into_response(),
    };
    let deadline = paced::deadline(timeout);
    let answer = tokio::time::timeout_at(deadline, next.run(request)).await;
    let timed_out = move || {
        if let Some(kind) = kind {
            server.metrics.aborted(kind);
        }
    };
    if let Ok(response) = answer {
        response.map(|body| paced::pace(body, permit, deadline, timed_out))
    } else {
        timed_out();
        Status::timeout().into_response()
    }
}

fn too_many_requests() -> Response {
    let headers = [
        (header::RETRY_AFTER, HeaderValue::from_static("1")),
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ),
    ];
    (
        StatusCode::TOO_MANY_REQUESTS,
        headers,
        "Too many requests, please try again later.\n",
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_are_watched() {
        for (path, query, expected) in [
            ("/api/v1/events", "watch=1", true),
            ("/api/v1/events", "", false),
            ("/api/v1/namespaces/a/events/b", "watch=true", true),
            ("/apis/events.k8s.io/v1/watch/namespaces/a/events", "", true),
            ("/api/v1/namespaces/events", "watch=1", false),
            ("/api/v1/namespaces", "watch=1", false),
            ("/openapi/v3/api/v1", "watch=1", false),
            ("/metrics", "watch=1", false),
        ] {
            let query = Query::parse(Some(query));
            assert_eq!(is_watch(&Method::GET, path, &query), expected, "{path}");
        }
    }
}
