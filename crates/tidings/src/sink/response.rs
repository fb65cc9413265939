//! The outcome of a write, from the API server's answer, of which only the relevant part is read.

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

/// Maximum bytes read from the event in a successful answer, for its version. Reading to the end
/// also keeps the connection usable.
const EVENT_BODY_BYTES_MAX: usize = 2 << 20;

/// How long the rest of a success is waited for: it follows at once, or the connection is of no
/// more use.
const EVENT_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// The most of a body that is no Status object which goes into an error message.
const EXCERPT_CHARS_MAX: usize = 200;

/// Of an event, as far as it is read.
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

/// The result of a write that was answered with `response`, at `deadline` at the latest: of a
/// success, the resourceVersion of what was written, empty if the answer has none, `None` if it
/// could not be read.
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
        // The write is done, whether the whole body arrives or not.
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
    // The status code says enough if the body does not arrive.
    tokio::select! {
        () = read_body(body, ERROR_BODY_BYTES_MAX, keep) => {}
        () = deadline => {}
    }
    Err(refusal(head.status, &head.headers, &bytes))
}

/// What the content of a success is, if it is none of an API server: of a login page, say.
fn strange(headers: &HeaderMap) -> Option<String> {
    let content = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = content.split(';').next().unwrap_or_default().trim();
    let is_object = ["application/json", "application/vnd.kubernetes.protobuf"];
    let is_object = is_object
        .iter()
        .any(|one| essence.eq_ignore_ascii_case(one));
    (!is_object).then(|| format!("with {content} in place of an API server's answer"))
}

/// Whether JSON is an object of an API server, as far as it is looked at.
fn is_object(body: &Value) -> bool {
    let has = |name: &str| body.get(name).is_some();
    has("kind") || has("metadata") || body.as_object().is_some_and(Map::is_empty)
}

/// A request that got no answer, or one that says no.
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

/// What a person should read of an error: the server's answer, or the error and its causes.
pub(super) fn explain(error: &kube::Error) -> String {
    match error {
        // kube shows the whole Status as Rust code.
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

/// The version in the body of an answer; `None` if it cannot be read, for example because it was
/// cut.
fn resource_version(body: &[u8]) -> Option<String> {
    let in_json = || serde_json::from_slice::<Written>(body).ok();
    protobuf::resource_version(body)
        .or_else(|| in_json().map(|written| written.metadata.resource_version))
}

/// Hands the body's bytes to `keep`, up to about `bytes_max`. An error ends it.
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

/// An error answer.
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
        // Of a page only the code is told.
        String::new()
    } else {
        let text = String::from_utf8_lossy(body);
        text.trim().chars().take(EXCERPT_CHARS_MAX).collect()
    };
    let separator = if said.is_empty() { "" } else { ": " };
    let message = format!("the server answered {code}{separator}{said}");
    WriteError::status(failure, message)
}

/// The wait that a `Retry-After` header asks for, in seconds or as a date. A date counts from the
/// answer's own `Date`, so that it does not matter whether the server's clock agrees with ours;
/// without one it is not understood.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(header::RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let wait = http_date(asked)?.duration_since(http_date(text(header::DATE)?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// An error and its cause: kube's own say little without that.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their source's words in their own.
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

    /// client-go `rest` TestIsNextRetry knows seconds only.
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
            // It was cut.
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

    /// What has arrived of the body by then is used; nothing is waited for beyond.
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
