//! What a client may take up: the size of bodies, requests in flight, and time, each until the answer's last byte.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Status;
use crate::metrics::RequestKind;
use crate::paced;
use crate::query::Query;
use crate::server::ApiServer;

/// Longest accepted body by default, in bytes; kube-apiserver's own limit.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A write of one event has this long, whatever the limit of all requests (`requestTimeoutUpperBound`).
const WRITE_TIME_MAX: Duration = Duration::from_secs(34);

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

/// What becomes of a request.
pub(crate) enum Admitted {
    /// A watch: it lasts long, and is counted by nobody.
    Watch,
    Within(Limit),
    Refused(Response),
}

/// Lets so many requests in at once; the rest are told to come back.
pub(crate) fn admit(server: &Arc<ApiServer>, kind: RequestKind, request: &Request) -> Admitted {
    if kind.is_watch() {
        return Admitted::Watch;
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
    let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
        server.metrics.terminated(kind, 429);
        return Admitted::Refused(too_many_requests());
    };
    let mut longest = server.options.request_timeout;
    if kind.writes_one() {
        longest = longest.min(WRITE_TIME_MAX);
    }
    let timeout = match Query::parse(request.uri().query()).timeout() {
        Ok(None | Some(Duration::ZERO)) => longest,
        Ok(Some(asked)) => asked.min(longest),
        Err(status) => return Admitted::Refused(status.into_response()),
    };
    Admitted::Within(Limit {
        server: Arc::clone(server),
        kind,
        permit,
        deadline: paced::deadline(timeout),
    })
}

/// A request's place among those in flight, and its time.
pub(crate) struct Limit {
    server: Arc<ApiServer>,
    kind: RequestKind,
    permit: OwnedSemaphorePermit,
    deadline: tokio::time::Instant,
}

impl Limit {
    /// Answers within the time, or says that it was too short; the answer's body has what is left of it.
    pub(crate) async fn hold(self, answer: impl Future<Output = Response>) -> Response {
        let Self {
            server,
            kind,
            permit,
            deadline,
        } = self;
        let answer = tokio::time::timeout_at(deadline, answer).await;
        let timed_out = move || server.metrics.aborted(kind);
        if let Ok(response) = answer {
            response.map(|body| paced::pace(body, permit, deadline, timed_out))
        } else {
            timed_out();
            Status::timeout().into_response()
        }
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
