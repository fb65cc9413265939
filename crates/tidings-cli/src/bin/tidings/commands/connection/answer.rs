//! Checks that an answer comes from an API server, because logins and proxies in front of one
//! answer, too, with pages of their own.
//!
//! Invariant: the absence of an error is not taken for success. The answer to a path of the API is
//! accepted only if it is JSON or protobuf, and callers check the form of the object. Errors of
//! other servers become one line, without their pages.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::text::one_line;

/// Maximum bytes read of an error's body.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Maximum characters shown of an error's body.
const SAID_CHARS_MAX: usize = 200;
/// Maximum characters shown of a header.
const HEADER_CHARS_MAX: usize = 100;

/// The reason of the Status that is made of another server's error.
///
/// An API server never writes it: its own reasons say what they mean, or are empty. client-go takes
/// a 409 with an empty one for `AlreadyExists`.
pub(crate) const OF_OTHERS: &str = "Unknown";

/// An answer that does not come from an API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stranger {
    #[error("{status}, a redirect to {location}, in place of an API server's answer")]
    Redirect {
        status: StatusCode,
        /// The redirect's address without its query and its user, which may contain secrets.
        location: String,
    },
    #[error("{status} with {content} in place of an API server's answer")]
    Page { status: StatusCode, content: String },
    #[error("an answer without {0} in place of an API server's")]
    Form(&'static str),
}

impl Stranger {
    /// Wraps this as the error of a request.
    pub(crate) fn into_error(self) -> kube::Error {
        kube::Error::Service(Box::new(self))
    }

    /// Whether the error of a request means that something else than an API server answered.
    pub(crate) fn is_in(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// Checks that the body of a successful answer is an API server's object, of any kind.
pub(crate) fn check_object(body: &[u8]) -> Result<(), Stranger> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Object {
        kind: String,
        api_version: String,
    }
    let object: Option<Object> = serde_json::from_slice(body).ok();
    let is_one = object.is_some_and(|it| !it.kind.is_empty() && !it.api_version.is_empty());
    is_one
        .then_some(())
        .ok_or(Stranger::Form("a kind and an apiVersion"))
}

/// Checks that the body of a successful answer to a create is the event of this name, or a Status
/// of success, as client-go does.
///
/// # Errors
/// Another object, or a Status of failure, which is then the request's error.
pub(crate) fn check_created(body: &[u8], name: &str) -> kube::Result<()> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_event = answer["kind"] == "Event" && answer["metadata"]["name"] == name;
    let is_status = answer["kind"] == "Status" && answer["apiVersion"] == "v1";
    if is_event || is_status && answer["status"] == "Success" {
        return Ok(());
    }
    match serde_json::from_value(answer) {
        Ok(status) if is_status => Err(kube::Error::Api(status)),
        _ => Err(Stranger::Form("the created event").into_error()),
    }
}

/// Returns the answer to a request for `path`, if it comes from an API server. Any other error
/// answer becomes a Status with its code.
pub(super) async fn judged(path: &str, answer: Response<Body>) -> Result<Response<Body>, Stranger> {
    let status = answer.status();
    if status.is_client_error() || status.is_server_error() {
        return Ok(refusal(answer).await);
    }
    if status.is_redirection() {
        return Err(Stranger::Redirect {
            status,
            location: location(answer.headers()),
        });
    }
    if status.is_success() && is_expected(path, answer.headers()) {
        return Ok(answer);
    }
    Err(Stranger::Page {
        status,
        content: content(answer.headers()),
    })
}

/// Whether the content type may be that of a path.
fn is_expected(path: &str, headers: &HeaderMap) -> bool {
    let is_of_api = ["/api", "/apis", "/version"].iter().any(|root| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    match essence(headers).as_str() {
        "application/json" | "application/vnd.kubernetes.protobuf" => true,
        "text/html" | "application/xhtml+xml" => false,
        // Metrics, health checks and exports may have any content type.
        _ => !is_of_api,
    }
}

/// An error answer with a Status: its own, or one made from it.
async fn refusal(answer: Response<Body>) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    let body = read(body).await;
    let kind = essence(&head.headers);
    let is_status = kind == "application/vnd.kubernetes.protobuf"
        || serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["kind"] == "Status");
    if is_status {
        return Response::from_parts(head, Body::from(body.to_vec()));
    }
    let said = match kind.as_str() {
        // kube-apiserver's own plain text for some errors.
        "text/plain" => bounded(&String::from_utf8_lossy(&body), SAID_CHARS_MAX),
        "application/json" => {
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            bounded(body["message"].as_str().unwrap_or_default(), SAID_CHARS_MAX)
        }
        _ => String::new(),
    };
    let message = if said.is_empty() {
        let content = content(&head.headers);
        format!(
            "{} with {content} in place of an API server's answer",
            head.status
        )
    } else {
        format!("{}: {said}", head.status)
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": OF_OTHERS,
        "message": message, "code": head.status.as_u16(),
    });
    head.headers.remove(CONTENT_LENGTH);
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(CONTENT_TYPE, json);
    Response::from_parts(head, Body::from(status.to_string().into_bytes()))
}

/// The beginning of a body, as far as it arrives.
async fn read(mut body: Body) -> Bytes {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    bytes.into()
}

/// The content type without parameters.
fn essence(headers: &HeaderMap) -> String {
    let text = text(headers, CONTENT_TYPE);
    let essence = text.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn content(headers: &HeaderMap) -> String {
    match text(headers, CONTENT_TYPE).as_str() {
        "" => "no Content-Type".to_owned(),
        content => bounded(content, HEADER_CHARS_MAX),
    }
}

fn location(headers: &HeaderMap) -> String {
    let text = text(headers, LOCATION);
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (before, rest) = text.split_at(text.find("//").map_or(0, |at| at + 2));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let location = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{before}{host}{path}"),
        None => text.to_owned(),
    };
    match location.as_str() {
        "" => "nowhere".to_owned(),
        location => bounded(location, HEADER_CHARS_MAX),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> String {
    let value = headers.get(name).map(HeaderValue::as_bytes);
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

fn bounded(text: &str, max: usize) -> String {
    one_line(text.trim()).chars().take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_api_servers_answers_are_successes() {
        let page = "<html><body>secret</body></html>";
        let said = " in place of an API server's answer";
        let events = "/api/v1/events";
        for (path, code, content, body, expected) in [
            (events, 200, "application/json", "{}", None),
            (events, 201, "application/json; charset=utf-8", "{}", None),
            (
                events,
                200,
                "application/vnd.kubernetes.protobuf;stream=watch",
                "",
                None,
            ),
            ("/export", 200, "application/jsonl", "{}", None),
            ("/metrics", 200, "text/plain", "a 1", None),
            (
                events,
                200,
                "text/html; charset=utf-8",
                page,
                Some("200 OK with text/html; charset=utf-8"),
            ),
            (
                events,
                201,
                "TEXT/HTML",
                page,
                Some("201 Created with TEXT/HTML"),
            ),
            (
                events,
                200,
                "text/plain",
                "ok",
                Some("200 OK with text/plain"),
            ),
            (
                "/version",
                200,
                "",
                "ok",
                Some("200 OK with no Content-Type"),
            ),
            (
                "/apis",
                204,
                "",
                "",
                Some("204 No Content with no Content-Type"),
            ),
            (
                "/metrics",
                200,
                "text/html",
                page,
                Some("200 OK with text/html"),
            ),
            (
                events,
                302,
                "text/html",
                page,
                Some("302 Found, a redirect to https://login.example/start,"),
            ),
            (
                events,
                304,
                "",
                "",
                Some("304 Not Modified, a redirect to https://login.example/start,"),
            ),
        ] {
            let answer = Response::builder()
                .status(code)
                .header(CONTENT_TYPE, content)
                .header(
                    LOCATION,
                    "https://user:secret@login.example/start?state=secret",
                );
            let answer = answer.body(Body::from(body.as_bytes().to_vec())).unwrap();
            let judged = judged(path, answer).await;
            match expected {
                None => assert!(judged.is_ok(), "{path} {content}"),
                Some(expected) => {
                    let why = judged.unwrap_err().to_string();
                    let expected = format!("{expected}{said}");
                    assert_eq!(why, expected, "{path} {code} {content}");
                }
            }
        }
    }

    #[tokio::test]
    async fn an_error_is_told_in_one_line_without_a_page() {
        let status = r#"{"kind": "Status", "code": 503, "message": "too busy"}"#;
        let instead = "with text/html in place of an API server's answer";
        for (code, content, body, expected) in [
            (503, "application/json", status, "too busy"),
            (
                502,
                "text/html",
                "<html>secret</html>",
                &format!("502 Bad Gateway {instead}"),
            ),
            (
                401,
                "text/html",
                "<html>secret</html>",
                &format!("401 Unauthorized {instead}"),
            ),
            (
                429,
                "text/plain",
                "Too many\nrequests.\n",
                "429 Too Many Requests: Too many requests.",
            ),
            (
                403,
                "application/json",
                r#"{"message": "no"}"#,
                "403 Forbidden: no",
            ),
            (
                409,
                "text/html",
                "<h1>Conflict</h1>",
                &format!("409 Conflict {instead}"),
            ),
            (
                500,
                "application/json",
                r#"{"error": "secret"}"#,
                "500 Internal Server Error with application/json in place of an API server's answer",
            ),
        ] {
            let is_page = body != status;
            let answer = Response::builder()
                .status(code)
                .header(CONTENT_TYPE, content);
            let answer = answer.body(Body::from(body.as_bytes().to_vec())).unwrap();
            let judged = judged("/api/v1/events", answer).await.unwrap();
            assert_eq!(judged.status(), code);
            let body = judged.into_body().collect_bytes().await.unwrap();
            let status: kube::core::Status = serde_json::from_slice(&body).unwrap();
            assert_eq!((status.code, status.message.as_str()), (code, expected));
            // A page is not taken for AlreadyExists.
            assert_ne!(status.reason.is_empty(), is_page, "{code} {content}");
        }
    }

    #[test]
    fn a_created_event_is_the_one_that_was_sent() {
        let refused = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}"#;
        let other = "an answer without the created event in place of an API server's";
        for (body, expected) in [
            (
                r#"{"kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"}}"#,
                "",
            ),
            (
                r#"{"kind": "Status", "apiVersion": "v1", "status": "Success"}"#,
                "",
            ),
            (
                r#"{"kind": "Event", "apiVersion": "v1", "metadata": {"name": "b"}}"#,
                other,
            ),
            (
                r#"{"kind": "EventList", "apiVersion": "v1", "items": []}"#,
                other,
            ),
            (
                r#"{"kind": "LoginRequest", "apiVersion": "auth.example/v1"}"#,
                other,
            ),
            (
                r#"{"kind": "Status", "apiVersion": "auth.example/v1", "status": "Success"}"#,
                other,
            ),
            ("<html></html>", other),
            (refused, "403 Forbidden"),
        ] {
            let why = match check_created(body.as_bytes(), "a") {
                Ok(()) => String::new(),
                Err(kube::Error::Api(status)) => format!("{} {}", status.code, status.reason),
                Err(error) => super::super::super::text::with_sources(&error),
            };
            assert!(
                why.contains(expected) && why.is_empty() == expected.is_empty(),
                "{why} from {body}"
            );
        }
    }

    #[test]
    fn an_object_says_what_it_is() {
        for (body, expected) in [
            (r#"{"kind": "Event", "apiVersion": "v1"}"#, true),
            (
                r#"{"kind": "Status", "apiVersion": "v1", "status": "Success"}"#,
                true,
            ),
            ("{}", false),
            (r#"{"kind": "", "apiVersion": "v1"}"#, false),
            (r#"{"login": "required"}"#, false),
            (r#"["a"]"#, false),
            ("<html></html>", false),
            ("", false),
        ] {
            assert_eq!(check_object(body.as_bytes()).is_ok(), expected, "{body}");
        }
    }
}
