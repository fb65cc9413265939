//! Proxies reads of other kinds than events to the followed cluster.
//!
//! A request is proxied with its caller's own token, and only if that is a token of the cluster:
//! the archive's own tokens must stay secret, and a client certificate cannot be sent on. Other
//! headers are sent on if they are listed here. The answer is streamed.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::percent_decode_str;
use tidings_api::codec::PAST_GROUP;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::api::server::ApiServer;
use crate::api::server::Followed;
use crate::api::server::limits::too_many_requests;
use crate::auth::authenticator::KnownBy;
use crate::auth::impersonation;
use crate::clock;
use crate::flow::paced::Lasting;
use crate::flow::pass_through::{PassError, PassThrough, Passed};
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::{FORBIDDEN, Status, UNAUTHORIZED};

/// Headers of a request that are sent on, in addition to the token.
const REQUEST_HEADERS: [HeaderName; 10] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::USER_AGENT,
    HeaderName::from_static("audit-id"),
    HeaderName::from_static("kubectl-command"),
    HeaderName::from_static("kubectl-session"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];
/// Headers of an answer that are sent back.
const RESPONSE_HEADERS: [HeaderName; 10] = [
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::DATE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
    header::VARY,
    header::WARNING,
];
/// Subresources for which a GET may do more than read.
const TUNNELS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Divisor of a request's time that gives the cluster's time to begin an answer, if this server
/// could answer itself.
const WAIT_DIVISOR: u32 = 4;

/// Whether a request is for the cluster: a read in the API, but not of events, nor of the archive's
/// own group. This server answers health, version and the like itself.
pub(in crate::api) fn is_for_cluster(info: &RequestInfo) -> bool {
    let mut path = info.uri.path().split('/').skip(1);
    let first = path.next().unwrap_or_default();
    let is_of_past = first == "apis" && path.next() == Some(PAST_GROUP);
    matches!(info.method, Method::GET | Method::HEAD)
        && matches!(first, "api" | "apis" | "openapi")
        && !info.is_about_events()
        && !is_of_past
}

/// Whether this server could answer the request itself: discovery, and namespaces.
pub(in crate::api) fn is_served_here(info: &RequestInfo) -> bool {
    let is_of_namespaces = info.labels.resource == "namespaces";
    info.method == Method::GET && (!info.is_resource_request || is_of_namespaces)
}

/// Proxies a request with these headers ([`head`]), and streams the cluster's answer.
///
/// # Errors
/// The answer if the cluster gives none, or a server error that this server can replace.
pub(in crate::api) async fn pass(
    server: &ApiServer,
    (followed, way): (&Followed, &PassThrough),
    info: &RequestInfo,
    head: Result<HeaderMap, Status>,
    began: Instant,
) -> Result<Response, Response> {
    let head = head.map_err(IntoResponse::into_response)?;
    let is_long = is_long(info);
    let Some(places) = way.place(is_long).zip(server.limits.passed(is_long)) else {
        server.metrics.terminated(info.labels, 429);
        return Err(too_many_requests());
    };
    let options = &server.options;
    let until = clock::deadline(began, options.request_timeout);
    // If this server could answer itself, the time to do so is reserved.
    let begun_until = if is_served_here(info) {
        clock::deadline(began, options.request_timeout / WAIT_DIVISOR)
    } else {
        until
    };
    let target = info.uri.path_and_query().map_or("/", |it| it.as_str());
    let sent = way.send(info.method.clone(), target, head);
    let answer = match timeout_at(begun_until, sent).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::warn!(cluster = followed.name, %error, "a request was not passed on");
            let status = match error {
                PassError::Address => Status::no_such_path(),
                PassError::Unreachable(_) => Status::cluster_unavailable(&followed.name),
                PassError::Broken(_) => Status::bad_gateway(&followed.name),
            };
            return Err(status.into_response());
        }
        Err(_) => return Err(Status::timeout().into_response()),
    };
    let is_unanswered = answer.status().is_server_error() && is_served_here(info);
    let longest = options.min_request_timeout.saturating_mul(2);
    let (over, lasting): (Over, _) = if is_long {
        let end = clock::deadline(clock::timer(), longest);
        let stopped = server.stopped();
        let over = async move {
            tokio::select! {
                () = tokio::time::sleep_until(end) => {}
                () = stopped => {}
            }
            None
        };
        (Box::pin(over), Some(Lasting(longest)))
    } else {
        let over = async move {
            tokio::time::sleep_until(until).await;
            Some(io::ErrorKind::TimedOut.into())
        };
        (Box::pin(over), None)
    };
    let mut response = respond(answer, over, places);
    if let Some(lasting) = lasting {
        response.extensions_mut().insert(lasting);
    }
    if is_unanswered {
        return Err(response);
    }
    Ok(response)
}

/// The headers to send on with a request.
///
/// # Errors
/// Why the request is not proxied.
pub(in crate::api) fn head(
    followed: &Followed,
    info: &RequestInfo,
    request: &Request,
) -> Result<HeaderMap, Status> {
    let refuse = |reason, why| Err(Status::not_passed_on(reason, &followed.name, why));
    // The cluster, or a proxy before it, could interpret this path differently from this server.
    let is_unclear = |step: &str| {
        let decoded: Cow<'_, [u8]> = percent_decode_str(step).into();
        matches!(&*decoded, b"" | b"." | b"..")
    };
    let path = info.uri.path().trim_end_matches('/');
    if info.is_ambiguous || path.split('/').skip(1).any(is_unclear) {
        return Err(Status::no_such_path());
    }
    let tunnel = [info.resource.as_str(), &info.subresource];
    if tunnel.iter().any(|step| TUNNELS.contains(step)) {
        return refuse(FORBIDDEN, "this one may do more than read");
    }
    let given = request.headers();
    if impersonation::count_of(given) > 0 {
        return refuse(FORBIDDEN, "impersonation is not passed on");
    }
    let token = match request.extensions().get() {
        Some(KnownBy::ClusterToken(token)) if followed.reviews_tokens => token.clone(),
        // The cluster would learn a token that is valid elsewhere.
        Some(KnownBy::ClusterToken(_)) => {
            return refuse(FORBIDDEN, "this token was recognized by another cluster");
        }
        Some(KnownBy::FrontProxy) => {
            return refuse(
                FORBIDDEN,
                "the API server that named the user has shown none",
            );
        }
        Some(KnownBy::Certificate) => {
            return refuse(FORBIDDEN, "a client certificate cannot be shown to it");
        }
        Some(KnownBy::OwnToken) => {
            return refuse(FORBIDDEN, "this token is the archive's own");
        }
        Some(KnownBy::Nothing) | None => return refuse(UNAUTHORIZED, "there is none"),
    };
    let mut head = chosen(given, &REQUEST_HEADERS);
    head.insert(header::AUTHORIZATION, token);
    Ok(head)
}

fn chosen(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut chosen = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            chosen.append(name.clone(), HeaderValue::clone(value));
        }
    }
    chosen
}

/// Whether the answer does not end by itself: a watch, or a followed log.
fn is_long(info: &RequestInfo) -> bool {
    let is_followed = info.subresource == "log" && info.query.flag(params::FOLLOW);
    info.verb == "watch" || is_followed
}

/// Resolves at an answer's deadline; with an error if the answer is incomplete then.
type Over = Pin<Box<dyn Future<Output = Option<io::Error>> + Send>>;

/// An answer that is being streamed. If the client disconnects, it is dropped, which cancels the
/// request.
struct Coming {
    body: BodyDataStream,
    over: Over,
    _places: Taken,
}

/// A place among the proxied requests to this cluster, and one among those to all clusters.
type Taken = (OwnedSemaphorePermit, OwnedSemaphorePermit);

fn respond(answer: Passed, over: Over, places: Taken) -> Response {
    let (head, body) = answer.into_parts();
    let coming = Coming {
        body: Body::new(body).into_data_stream(),
        over,
        _places: places,
    };
    let chunks = stream::unfold(Some(coming), |coming| async move {
        let mut coming = coming?;
        let failed = |error: axum::Error| Some((Err(error), None));
        tokio::select! {
            biased;
            chunk = coming.body.next() => match chunk? {
                Ok(chunk) => Some((Ok::<Bytes, _>(chunk), Some(coming))),
                Err(error) => failed(error),
            },
            error = &mut coming.over => failed(axum::Error::new(error?)),
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    *response.status_mut() = head.status;
    *response.headers_mut() = chosen(&head.headers, &RESPONSE_HEADERS);
    response
}
