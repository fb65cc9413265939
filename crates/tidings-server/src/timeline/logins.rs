//! Login by token, login by a link that can be used once, and logout.
//!
//! A login comes from an unknown client. Logins have places of their own, of which one peer has a
//! share. The body is short and must arrive soon, and only then is its token checked.

use std::sync::Arc;

use axum::Extension;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use tidings_core::filter::Filter;
use tokio::time::timeout;

use super::doors;
use super::enter::{Asked, Known, known, visible};
use super::state::{Entrance, PREFIX, Timeline};
use crate::auth::bearer;
use crate::http::body::read_body;
use crate::http::params;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum bytes of a login's body.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The content of a login.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
    /// The followed cluster that knows the token, if the archive does not.
    #[serde(default)]
    cluster: Option<String>,
}

impl Entrance {
    pub(super) fn scheme(&self) -> &'static str {
        match self {
            Self::Login => "https",
            Self::Link { .. } => "http",
        }
    }
}

/// POST /timeline/login
pub(super) async fn login(
    Extension(timeline): Extension<Arc<Timeline>>,
    request: Request,
) -> Result<Response, Status> {
    let (mut parts, body) = request.into_parts();
    let host = own_page(&timeline, &parts)?;
    if let Entrance::Link { .. } = timeline.entrance {
        return Err(Status::open_the_link());
    }
    let time = timeline.sources.root().options.read_header_timeout;
    let body = timeout(time, read_body(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| Status::timeout())??;
    let Login { token, cluster } = read(&parts, &body)?;
    let credentials = bearer(token.trim()).map_err(|_| Status::unauthorized())?;
    let shown = credentials.clone();
    parts.headers.insert(header::AUTHORIZATION, shown);
    let cluster = cluster.filter(|cluster| !cluster.is_empty());
    let cluster = cluster.as_deref();
    let asked = cluster.map_or(Asked::ServerOrOnly, Asked::ServerOr);
    let known = known(&timeline, &parts, asked).await?;
    let time = timeline.sources.root().options.request_timeout;
    let admitted = timeout(time, admit(&timeline, &known, cluster)).await;
    admitted.unwrap_or_else(|_| Err(Status::timeout()))?;
    let owner = (known.cluster, known.user.name.as_str());
    let cookie = begin(&timeline, credentials, owner, &host)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Refuses a login that would show nothing: the named cluster does not know the user, or the user
/// may see nothing of an archive with several clusters.
async fn admit(timeline: &Timeline, known: &Known, cluster: Option<&str>) -> Result<(), Status> {
    let sources = timeline.sources.all();
    if let Some(name) = cluster {
        let mut named = sources.iter().filter(|source| source.name == name);
        // A cluster that is not there is refused like one that does not know the token.
        return if named.any(|source| known.is_known_to(&source.server)) {
            Ok(())
        } else {
            Err(Status::unauthorized())
        };
    }
    if sources.len() > 1
        && visible(timeline, known, &Filter::default(), &Filter::default())
            .await?
            .0
            .is_empty()
    {
        return Err(Status::of_which_cluster(&known.user.name));
    }
    Ok(())
}

/// Reads the body of a login, a form or JSON.
fn read(parts: &Parts, body: &[u8]) -> Result<Login, Status> {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(HeaderValue::as_bytes).unwrap_or_default();
    if content_type.starts_with(b"application/x-www-form-urlencoded") {
        let mut login = Login::default();
        for (name, value) in form_urlencoded::parse(body) {
            match &*name {
                "token" => login.token = value.into_owned(),
                "cluster" => login.cluster = Some(value.into_owned()),
                _ => {}
            }
        }
        return Ok(login);
    }
    // The parser's error may quote the token.
    serde_json::from_slice(body)
        .map_err(|_| Status::bad_request("expected {\"token\": \"…\"}, or a form with a token"))
}

/// POST /timeline/logout
pub(super) async fn logout(
    Extension(timeline): Extension<Arc<Timeline>>,
    request: Request,
) -> Result<Response, Status> {
    let (parts, _) = request.into_parts();
    let host = own_page(&timeline, &parts)?;
    if let Some(doors::Id(id)) = parts.extensions.get() {
        timeline.sessions.end(id);
    }
    let secure = matches!(timeline.entrance, Entrance::Login);
    let cookie = doors::cookie(&host, "", 0, secure).ok_or_else(no_host)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// GET /timeline/enter. A HEAD request, as link checkers make, does not use up the code. A browser
/// with a used link gets the page, which has the session or says where a link is.
pub(super) async fn enter(
    Extension(timeline): Extension<Arc<Timeline>>,
    Extension(info): Extension<Arc<RequestInfo>>,
    request: Request,
) -> Result<Response, Status> {
    let (parts, _) = request.into_parts();
    if parts.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let host = doors::host(&parts).unwrap_or_default();
    let code = info.query.get(params::CODE).unwrap_or_default();
    let headers = [
        (header::LOCATION, PREFIX),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let Some(credentials) = timeline.sessions.redeem(code) else {
        let accept = parts.headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
        let is_browser = accept.is_some_and(|accept| accept.starts_with(b"text/html"));
        return if is_browser {
            Ok((StatusCode::SEE_OTHER, headers).into_response())
        } else {
            Err(Status::link_is_used())
        };
    };
    // Only one person could have the link.
    let cookie = begin(&timeline, credentials, (None, ""), host)?;
    let cookie = [(header::SET_COOKIE, cookie)];
    Ok((StatusCode::SEE_OTHER, cookie, headers).into_response())
}

/// Begins a session for a user of a cluster, or else of the server; returns its cookie.
fn begin(
    timeline: &Timeline,
    credentials: HeaderValue,
    owner: (Option<String>, &str),
    host: &str,
) -> Result<HeaderValue, Status> {
    let now = timeline.sources.root().clock.now().as_millisecond();
    let id = timeline.sessions.begin(credentials, owner, host, now);
    let id = id.map_err(|error| Status::internal(error.to_string()))?;
    let secure = matches!(timeline.entrance, Entrance::Login);
    let seconds = timeline.sessions.time.as_secs();
    doors::cookie(host, &id, seconds, secure).ok_or_else(no_host)
}

/// The host of a request that one of its own pages made.
///
/// # Errors
/// 403 if another page made it.
fn own_page(timeline: &Timeline, parts: &Parts) -> Result<String, Status> {
    let host = doors::host(parts).ok_or_else(no_host)?;
    let scheme = timeline.entrance.scheme();
    if !doors::is_of_own_page(&parts.headers, scheme, host) {
        return Err(Status::of_foreign_page());
    }
    Ok(host.to_owned())
}

fn no_host() -> Status {
    Status::bad_request("the request names no host")
}
