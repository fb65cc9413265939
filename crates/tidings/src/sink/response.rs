//! Reads the outcome of a write from the API server's answer, in bounded memory.

use std::error::Error;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Response, StatusCode, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::core::Status;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidings_core::{StatusFailure, WriteError};

use super::protobuf;
use super::said::Said;

/// Maximum bytes read from the body of an error: a Status object is a few hundred bytes.
const ERROR_BODY_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes read of the event in a successful answer, to find its resourceVersion. Reading to
/// the end also keeps the connection usable.
const EVENT_BODY_BYTES_MAX: usize = 2 << 20;

/// Maximum wait for the rest of a successful answer. If it takes longer, the connection is given
/// up.
const EVENT_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum characters of a body that is no Status which go into an error message.
const EXCERPT_CHARS_MAX: usize = 200;

/// The parts of a written event that are read.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    metadata: WrittenMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    #[serde(default)]
    resource_version: String,
}

/// Reads the result of a write from `response`, at `deadline` at the latest. On success, returns
/// the resourceVersion of the written event: empty if the answer has none, `None` if it could not
/// be read.
pub(super) async fn read<B>(
    response: Response<B>,
    deadline: impl Future<Output = ()>,
) -> Result<Option<String>, WriteError>
where
    B: BodyExt<Data: AsRef<[u8]>> + Unpin,
{
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        if let Some(why) = strange(&head.headers) {
            return Err(WriteError::transport(format!("{} {why}", head.status)));
        }
        // The write has succeeded, even if the body does not arrive.
        let mut bytes = Vec::new();
        let keep = |chunk: &[u8]| bytes.extend_from_slice(chunk);
        tokio::select! {
            () = read_body(body, EVENT_BODY_BYTES_MAX, keep) => {}
            () = tokio::time::sleep(EVENT_BODY_TIMEOUT) => {}
            () = deadline => {}
        }
        if serde_json::from_slice(&bytes).is_ok_and(|body: Value| !is_object(&body)) {
            let why = "an answer without a kind in place of an API server's";
            return Err(WriteError::transport(why.to_owned()));
        }
        return Ok(resource_version(&bytes));
    }
    let mut bytes = Vec::new();
    let keep = |chunk: &[u8]| bytes.extend_from_slice(chunk);
    // If the body does not arrive, the status code is enough.
    tokio::select! {
        () = read_body(body, ERROR_BODY_BYTES_MAX, keep) => {}
        () = deadline => {}
    }
    Err(refusal(head.status, &head.headers, &bytes))
}

/// If a successful answer is not from an API server, describes its content. It may be a login page,
/// for example.
fn strange(headers: &HeaderMap) -> Option<String> {
    let content = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = content.split(';').next().unwrap_or_default().trim();
    let is_object = ["application/json", "application/vnd.kubernetes.protobuf"];
    let is_object = is_object
        .iter()
        .any(|one| essence.eq_ignore_ascii_case(one));
    (!is_object).then(|| format!("with {content} in place of an API server's answer"))
}

/// Whether JSON looks like an object of an API server.
fn is_object(body: &Value) -> bool {
    let has = |name: &str| body.get(name).is_some();
    has("kind") || has("metadata") || body.as_object().is_some_and(Map::is_empty)
}

/// The error of a request that failed or was refused.
pub(super) fn failure(error: &kube::Error) -> WriteError {
    let message = explain(error);
    match error {
        kube::Error::Api(status) => {
            let failure = StatusFailure {
                code: status.code,
                reason: status.reason.clone(),
                ..StatusFailure::default()
            };
            WriteError::status(failure, message)
        }
        kube::Error::HttpError(_) | kube::Error::BuildRequest(_) => WriteError::invalid(message),
        _ => WriteError::transport(message),
    }
}

/// An error's text for people: the server's message, or the error and its causes.
pub(super) fn explain(error: &kube::Error) -> String {
    match error {
        // kube's own text prints the whole Status as Rust code.
        kube::Error::Api(status) => {
            let said = if status.message.is_empty() {
                &status.reason
            } else {
                &status.message
            };
            let separator = if said.is_empty() { "" } else { ": " };
            format!("the server answered {}{separator}{said}", status.code)
        }
        error => chain(error),
    }
}

/// The resourceVersion in the body of an answer; `None` if it cannot be read, for example because
/// the body was cut.
fn resource_version(body: &[u8]) -> Option<String> {
    let in_json = || serde_json::from_slice::<Written>(body).ok();
    protobuf::resource_version(body)
        .or_else(|| in_json().map(|written| written.metadata.resource_version))
}

/// Passes the body's bytes to `keep`, up to about `bytes_max`. Stops at an error.
async fn read_body<B>(mut body: B, bytes_max: usize, mut keep: impl FnMut(&[u8]))
where
    B: BodyExt<Data: AsRef<[u8]>> + Unpin,
{
    let mut read = 0;
    while read < bytes_max
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref().map(AsRef::as_ref) {
            let room = data.len().min(bytes_max - read);
            keep(data.get(..room).unwrap_or_default());
            read += data.len();
        }
    }
}

/// The error for a refused request.
pub(super) fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> WriteError {
    let mut failure = StatusFailure {
        code: code.as_u16(),
        retry_after: retry_after(headers),
        ..StatusFailure::default()
    };
    let in_json = || serde_json::from_slice::<Status>(body).ok().map(Said::from);
    let said = if let Some(said) = protobuf::status(body).or_else(in_json) {
        let asked = Duration::from_secs(said.retry_after_seconds);
        failure.retry_after = failure.retry_after.or((!asked.is_zero()).then_some(asked));
        failure.reason = said.reason;
        failure.namespace_terminating = said
            .causes
            .iter()
            .any(|reason| reason == "NamespaceTerminating");
        said.message
    } else if body.trim_ascii_start().starts_with(b"<") {
        // If the body is an HTML page, only the code is shown.
        String::new()
    } else {
        let text = String::from_utf8_lossy(body);
        text.trim().chars().take(EXCERPT_CHARS_MAX).collect()
    };
    let separator = if said.is_empty() { "" } else { ": " };
    let message = format!("the server answered {code}{separator}{said}");
    WriteError::status(failure, message)
}

/// The wait in a `Retry-After` header, in seconds or as a date. A date is compared with the
/// answer's own `Date`, so that the server's clock need not agree with ours. Without a `Date`, a
/// date is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let wait = http_date(asked)?.duration_since(http_date(text(header::DATE)?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

/// Parses a date in the form of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// The texts of an error and its causes; kube's own text omits the cause.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause in their own text.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tidings_core::WriteErrorKind;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), http::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_request_that_cannot_be_made_is_not_tried_again() {
        let no_uri = http::Uri::try_from("\n").expect_err("no URI has a line end");
        let error = failure(&kube::Error::HttpError(no_uri.into()));
        assert!(matches!(error.kind, WriteErrorKind::Invalid), "{error:?}");
        let error = failure(&kube::Error::LinesCodecMaxLineLengthExceeded);
        assert!(matches!(error.kind, WriteErrorKind::Transport), "{error:?}");
    }

    /// client-go `rest` TestIsNextRetry, which supports seconds only.
    #[test]
    fn retry_after_is_seconds_or_a_date() {
        const DATE: (HeaderName, &str) = (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT");
        let after = |value| (header::RETRY_AFTER, value);
        let table = [
            (vec![DATE], None),
            (vec![after("0")], Some(0)),
            (vec![after(" 120 ")], Some(120)),
            (
                vec![DATE, after("Sun, 06 Nov 1994 08:51:37 GMT")],
                Some(120),
            ),
            (vec![DATE, after("Sun, 06 Nov 1994 08:40:00 GMT")], Some(0)),
            (vec![after("Sun, 06 Nov 1994 08:51:37 GMT")], None),
            (vec![DATE, after("soon")], None),
            (vec![DATE, after("-5")], None),
            (vec![DATE, after("1.5")], None),
            (vec![DATE, after("99999999999999999999999")], None),
        ];
        for (pairs, seconds) in table {
            assert_eq!(
                retry_after(&headers(&pairs)),
                seconds.map(Duration::from_secs),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn refusals_say_what_the_server_said() {
        let terminating = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: is being terminated",
            "reason":"Forbidden","details":{"name":"e","kind":"events","causes":[{"reason":"NamespaceTerminating","message":"m","field":"metadata.namespace"}]},"code":403}"#;
        let error = refusal(
            StatusCode::FORBIDDEN,
            &HeaderMap::new(),
            terminating.as_bytes(),
        );
        let expected = StatusFailure {
            code: 403,
            reason: "Forbidden".to_owned(),
            retry_after: None,
            namespace_terminating: true,
        };
        let message = "the server answered 403 Forbidden: forbidden: is being terminated";
        assert_eq!(error, WriteError::status(expected, message));

        let timeout = r#"{"kind":"Status","reason":"ServerTimeout","message":"try again","details":{"retryAfterSeconds":2},"code":500}"#;
        let error = refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            &HeaderMap::new(),
            timeout.as_bytes(),
        );
        let expected = StatusFailure {
            code: 500,
            reason: "ServerTimeout".to_owned(),
            retry_after: Some(Duration::from_secs(2)),
            namespace_terminating: false,
        };
        let message = "the server answered 500 Internal Server Error: try again";
        assert_eq!(error, WriteError::status(expected, message));

        for (body, said) in [
            (&b""[..], ""),
            (b"\n<html>gateway</html>\n", ""),
            (b"\xff\xfe", ": \u{fffd}\u{fffd}"),
            (b"{\"kind\":", ": {\"kind\":"),
        ] {
            let error = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body);
            assert_eq!(
                error.message,
                format!("the server answered 502 Bad Gateway{said}")
            );
        }
    }

    #[test]
    fn the_version_of_what_was_written_is_read_if_all_of_it_is_there() {
        let event = br#"{"kind":"Event","metadata":{"name":"web","resourceVersion":"42","managedFields":[{}]},"count":1}"#;
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(resource_version(event), version("42"));
        for body in [&b"{}"[..], br#"{"metadata":{}}"#] {
            assert_eq!(resource_version(body), version(""));
        }
        for body in [
            &event[..90],
            b"",
            b"\0garbage",
            br#"{"metadata":{"resourceVersion":7}}"#,
        ] {
            assert_eq!(resource_version(body), None);
        }
    }

    /// A login page answers 200, too.
    #[tokio::test]
    async fn only_an_object_is_a_success() {
        let json = "application/json";
        for (content, body, is_written) in [
            (json, r#"{"kind": "Event", "metadata": {}}"#, true),
            ("application/vnd.kubernetes.protobuf", "k8s\0", true),
            // The body was cut.
            (json, r#"{"kind": "Ev"#, true),
            (json, r#"{"login": "https://login.example"}"#, false),
            ("text/html; charset=utf-8", "<html></html>", false),
            ("text/plain", "ok", false),
        ] {
            let answer = Response::builder().status(201);
            let answer = answer.header(header::CONTENT_TYPE, content);
            let answer = answer.body(Full::new(body.as_bytes())).unwrap();
            let read = read(answer, std::future::pending()).await;
            assert_eq!(read.is_ok(), is_written, "{content} {body}: {read:?}");
            let is_retried = |error: WriteError| matches!(error.kind, WriteErrorKind::Transport);
            assert!(read.err().is_none_or(is_retried), "{content} {body}");
        }
    }

    /// The part of the body that arrived by the deadline is used.
    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_at_its_deadline() {
        for (code, kind) in [(201, None), (500, Some(500))] {
            let begun = Full::new(&b"overloaded, and far too busy to"[..]);
            let body = begun.with_trailers(std::future::pending());
            let answer = Response::builder().status(code).body(body).unwrap();
            let deadline = tokio::time::sleep(Duration::from_millis(100));
            let read = tokio::time::timeout(Duration::from_millis(101), read(answer, deadline));
            let result = read.await.expect("no wait beyond the deadline");
            match kind {
                None => assert_eq!(result, Ok(None)),
                Some(code) => {
                    let error = result.unwrap_err();
                    assert!(error.message.ends_with("too busy to"), "{error}");
                    assert!(
                        matches!(error.kind, WriteErrorKind::Status(failure) if failure.code == code)
                    );
                }
            }
        }
    }
}
