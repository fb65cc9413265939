//! Small requests with large effects: deep nesting, multiplying aliases, copies of copies, false
//! lengths.

use std::fmt::Write;
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};

use tidings_testing::requests::{is_fair, send, server};

const EVENT: &str = "/api/v1/namespaces/shop/events/web.1";
const EVENTS: &str = "/api/v1/namespaces/shop/events";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn nested(open: &str, core: &str, close: &str, depth: usize) -> Vec<u8> {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth)).into_bytes()
}

/// YAML in which every line refers nine times to the line before it.
fn laughs(lines: usize) -> Vec<u8> {
    let mut text = "a0: &a0 [lol]\n".to_owned();
    for line in 1..lines {
        let aliases = vec![format!("*a{}", line - 1); 9].join(",");
        writeln!(text, "a{line}: &a{line} [{aliases}]").unwrap();
    }
    text.into_bytes()
}

/// A JSON patch whose operations each double the annotations.
fn doubling() -> Vec<u8> {
    let operations: Vec<String> = (0..60)
        .map(|number| format!("{{\"op\":\"copy\",\"from\":\"/metadata\",\"path\":\"/metadata/annotations/x{number}\"}}"))
        .collect();
    format!("[{}]", operations.join(",")).into_bytes()
}

/// A protobuf message whose length exceeds its envelope.
fn lying_protobuf() -> Vec<u8> {
    let mut bytes = b"k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Event\x12".to_vec();
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x7f]);
    bytes
}

/// Nested protobuf messages, each a field 1.
fn nested_protobuf(depth: usize) -> Vec<u8> {
    let mut inner = Vec::new();
    for _ in 0..depth {
        let mut outer = vec![0x0a];
        let mut length = inner.len();
        while length >= 0x80 {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.append(&mut inner);
        inner = outer;
    }
    let mut bytes = b"k8s\x00".to_vec();
    bytes.append(&mut inner);
    bytes
}

/// Requests by name: method, path, content type and body.
fn small_requests() -> Vec<(&'static str, Method, &'static str, &'static str, Vec<u8>)> {
    const DEPTH: usize = 50_000;
    vec![
        (
            "nested arrays",
            Method::POST,
            EVENTS,
            JSON,
            nested("[", "", "]", DEPTH),
        ),
        (
            "nested objects",
            Method::POST,
            EVENTS,
            JSON,
            nested("{\"metadata\":", "1", "}", DEPTH),
        ),
        (
            "nested flow",
            Method::POST,
            EVENTS,
            YAML,
            nested("[", "", "]", DEPTH),
        ),
        (
            "nested blocks",
            Method::POST,
            EVENTS,
            YAML,
            nested("- ", "a", "", DEPTH),
        ),
        ("laughs", Method::POST, EVENTS, YAML, laughs(30)),
        ("laughs applied", Method::PATCH, EVENT, APPLY, laughs(30)),
        (
            "nested applied",
            Method::PATCH,
            EVENT,
            APPLY,
            nested("{a: ", "1", "}", DEPTH),
        ),
        (
            "nested merge",
            Method::PATCH,
            EVENT,
            MERGE,
            nested("{\"metadata\":", "1", "}", DEPTH),
        ),
        (
            "nested strategic",
            Method::PATCH,
            EVENT,
            STRATEGIC,
            nested("{\"metadata\":", "1", "}", DEPTH),
        ),
        (
            "nested value",
            Method::PATCH,
            EVENT,
            JSON_PATCH,
            [
                b"[{\"op\":\"add\",\"path\":\"/x\",\"value\":".as_slice(),
                &nested("[", "", "]", DEPTH),
                b"}]",
            ]
            .concat(),
        ),
        ("doubling", Method::PATCH, EVENT, JSON_PATCH, doubling()),
        (
            "lying length",
            Method::POST,
            EVENTS,
            PROTOBUF,
            lying_protobuf(),
        ),
        (
            "nested messages",
            Method::POST,
            EVENTS,
            PROTOBUF,
            nested_protobuf(DEPTH),
        ),
    ]
}

#[tokio::test]
async fn small_requests_that_ask_for_much_are_refused_soon() {
    let api = server().await;
    for (name, method, path, content_type, body) in small_requests() {
        let query = if content_type == APPLY {
            "?fieldManager=m"
        } else {
            ""
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}{query}"))
            .header("authorization", "Bearer s3cret")
            .header("content-type", content_type)
            .body(Body::from(body))
            .unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), send(&api, request)).await;
        let (status, answer) = answer.unwrap_or_else(|_| panic!("{name}: no answer"));
        assert!(status.is_client_error(), "{name}: {status}");
        assert!(is_fair(status, &answer), "{name}: {status}");
        assert!(
            answer.len() < 64 * 1024,
            "{name}: an answer of {} bytes",
            answer.len()
        );
    }
}

#[tokio::test]
async fn long_queries_and_selectors_are_answered() {
    let api = server().await;
    let many = |term: &str, count: usize| vec![term; count].join(",");
    for query in [
        format!("fieldSelector={}", many("reason%3Da", 5_000)),
        format!("labelSelector={}", many("a%20in%20(b,c)", 3_000)),
        format!("labelSelector={}", "(".repeat(30_000)),
        format!("fieldSelector=reason%3D{}", "%5C".repeat(20_000)),
        format!("continue={}", "A".repeat(60_000)),
        format!("limit={}", "9".repeat(60_000)),
        "a=b&".repeat(15_000),
    ] {
        let request = Request::builder()
            .uri(format!("/api/v1/events?{query}"))
            .header("authorization", "Bearer s3cret")
            .body(Body::empty())
            .unwrap();
        let (status, body) = send(&api, request).await;
        assert!(is_fair(status, &body), "{status} for {}", &query[..60]);
    }
}
