//! Any bytes in one place of a request that is otherwise valid: a body, a patch, a selector, a
//! continue token, a header. The first byte chooses the place. No panic, and no answer that blames
//! the server.

#![no_main]

mod api;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use libfuzzer_sys::fuzz_target;

const CORE: &str = "/api/v1/namespaces/shop/events";
const CORE_ONE: &str = "/api/v1/namespaces/shop/events/web.1?fieldManager=m";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/shop/events";
const EVENTS_ONE: &str = "/apis/events.k8s.io/v1/namespaces/shop/events/web.1?fieldManager=m";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The place of the bytes in a request.
#[derive(Clone, Copy)]
enum Place {
    /// The body of a request with this method, target and content type.
    Body(&'static str, &'static str, &'static str),
    /// The protobuf of an event in its envelope, with this target and apiVersion.
    Protobuf(&'static str, &'static str),
    /// A parameter of a list, of this name.
    Parameter(&'static str),
    /// The continue token of a list, encoded in base64 as every token is.
    Token,
    /// A header of a list, of this name.
    Header(&'static str),
}

/// The places, which seeds choose by a letter from A on. New ones are added at the end.
const PLACES: &[Place] = &[
    Place::Body("POST", CORE, JSON),
    Place::Body("POST", CORE, YAML),
    Place::Body("POST", CORE, PROTOBUF),
    Place::Body("POST", EVENTS, JSON),
    Place::Body("POST", EVENTS, YAML),
    Place::Protobuf(CORE, "v1"),
    Place::Protobuf(EVENTS, "events.k8s.io/v1"),
    Place::Body("PUT", CORE_ONE, JSON),
    Place::Body("PATCH", CORE_ONE, JSON_PATCH),
    Place::Body("PATCH", CORE_ONE, MERGE),
    Place::Body("PATCH", CORE_ONE, STRATEGIC),
    Place::Body("PATCH", CORE_ONE, APPLY),
    Place::Body("PATCH", EVENTS_ONE, JSON_PATCH),
    Place::Body("PATCH", EVENTS_ONE, MERGE),
    Place::Body("PATCH", EVENTS_ONE, APPLY),
    Place::Body("DELETE", CORE_ONE, JSON),
    Place::Body("DELETE", CORE, PROTOBUF),
    Place::Body("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON),
    Place::Parameter("fieldSelector"),
    Place::Parameter("labelSelector"),
    Place::Parameter("continue"),
    Place::Token,
    Place::Parameter("resourceVersion"),
    Place::Parameter("limit"),
    Place::Header("accept"),
    Place::Header("accept-encoding"),
    Place::Header("content-type"),
    Place::Header("impersonate-user"),
    Place::Header("impersonate-group"),
];

/// Adds the bytes as a length-delimited field of a protobuf message.
fn field(number: u8, bytes: &[u8], message: &mut Vec<u8>) {
    message.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
}

/// Wraps an encoded event in `runtime.Unknown`.
fn envelope(api_version: &str, event: &[u8]) -> Vec<u8> {
    let mut kind = Vec::new();
    field(1, api_version.as_bytes(), &mut kind);
    field(2, b"Event", &mut kind);
    let mut body = b"k8s\0".to_vec();
    field(1, &kind, &mut body);
    field(2, event, &mut body);
    body
}

fn list(name: &str, value: &[u8]) -> http::request::Builder {
    let mut target = format!("{CORE}?limit=1&{name}=");
    for byte in value {
        target.push_str(&format!("%{byte:02x}"));
    }
    Request::get(target)
}

/// The request; `None` if HTTP does not allow the bytes in that place.
fn parse(input: &[u8]) -> Option<Request<Body>> {
    let (letter, bytes) = input.split_first()?;
    let place = PLACES[usize::from(letter.wrapping_sub(b'A')) % PLACES.len()];
    let (request, body) = match place {
        Place::Body(method, target, content_type) => {
            let request = Request::builder().method(method).uri(target);
            (request.header("content-type", content_type), bytes.to_vec())
        }
        Place::Protobuf(target, api_version) => {
            let request = Request::post(target).header("content-type", PROTOBUF);
            (request, envelope(api_version, bytes))
        }
        Place::Parameter(name) => (list(name, bytes), Vec::new()),
        Place::Token => (list("continue", STANDARD.encode(bytes).as_bytes()), Vec::new()),
        Place::Header(name) => (Request::get(CORE).header(name, bytes), Vec::new()),
    };
    request
        .header("authorization", "Bearer s3cret")
        .body(Body::from(body))
        .ok()
}

fuzz_target!(|input: &[u8]| {
    if let Some(request) = parse(input) {
        api::answer(request);
    }
});
