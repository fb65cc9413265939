//! Requests written as HTTP/1 text, a server to send them to, and a check of the answers. For tests
//! and fuzz targets.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use tidings_server::{ApiOptions, ApiServer, Authenticator, Token, User, router};
use tidings_store::Store;
use tidings_store::UnixMillis;
use tidings_store::clock::ManualClock;
use tidings_store::memory::MemoryStore;
use tower::ServiceExt;

/// Parts of messages with which kube-apiserver itself answers 500, although the client is at fault.
/// Of the other codes from 500 on only 504 is permitted, for a revision that is not reached in
/// time.
const KUBERNETES_OWN_500: [&str; 16] = [
    "resourceVersion should not be set on objects to be created",
    "failed to create typed patch object",
    "failed to convert new object",
    // From strategic merge patches.
    "unknown patch type: ",
    "unable to find api field in struct ",
    "expected slice or array type, but got: ",
    "data type is not struct, instead is: map",
    "expected a map[string]interface {}, but received a ",
    "expected a []interface {}, but received a ",
    " does not contain declared merge key: ",
    "list element types are not identical: ",
    "no elements in any of the given slices",
    " doesn't match $setElementOrder list:",
    "cannot merge lists without merge key for struct",
    "merging lists cannot yet be specified in the patch",
    " is not a map",
];

/// Maximum number of pieces of an answer that are read, because a watch never ends.
const PIECES: usize = 64;

/// A server with a store in memory that has two events.
pub async fn server() -> Router {
    let clock = ManualClock::at(UnixMillis(1_772_600_767_000));
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone()), 1000));
    let token = Token {
        token: "s3cret".into(),
        user: User::new("admin", "1", ["system:masters".to_owned()]),
    };
    let api = router(Arc::new(ApiServer::new(
        store as Arc<dyn Store>,
        Arc::new(Arc::new(clock)),
        Authenticator::new(vec![token]),
        ApiOptions::default(),
    )));
    for name in ["web.1", "web.2"] {
        let text = CREATE.replace("NAME", name);
        let request = parse(text.as_bytes()).expect("the request is well formed");
        assert_eq!(send(&api, request).await.0, StatusCode::CREATED);
    }
    api
}

/// Creates an event named NAME.
pub const CREATE: &str = "POST /api/v1/namespaces/shop/events?fieldValidation=Strict&fieldManager=test\ncontent-type: application/json\naccept: application/json\n\n\
    {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"NAME\",\"namespace\":\"shop\",\"labels\":{\"a\":\"b\"},\"annotations\":{\"c\":\"d\"}},\
    \"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"u-1\",\"apiVersion\":\"v1\"},\"reason\":\"BackOff\",\"message\":\"Back-off\",\
    \"source\":{\"component\":\"kubelet\",\"host\":\"n1\"},\"firstTimestamp\":\"2026-03-04T05:06:07Z\",\"lastTimestamp\":\"2026-03-04T05:06:07Z\",\"count\":1,\"type\":\"Warning\",\
    \"eventTime\":null,\"reportingComponent\":\"kubelet\",\"reportingInstance\":\"n1\"}";

/// Reads `METHOD target`, header lines, an empty line and a body. `None` if it is not an HTTP
/// request.
pub fn parse(text: &[u8]) -> Option<Request<Body>> {
    let end = text.windows(2).position(|pair| pair == b"\n\n")?;
    let (head, body) = (&text[..end], &text[end + 2..]);
    let mut lines = head.split(|byte| *byte == b'\n');
    let (method, target) = {
        let line = lines.next()?;
        let space = line.iter().position(|byte| *byte == b' ')?;
        (&line[..space], &line[space + 1..])
    };
    let mut request = Request::builder()
        .method(Method::from_bytes(method).ok()?)
        .uri(target)
        .header("authorization", "Bearer s3cret");
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Body::from(Bytes::copy_from_slice(body))).ok()
}

/// Sends a request. Returns the status and the part of the body that was read.
pub async fn send(api: &Router, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let Ok(response) = api.clone().oneshot(request).await;
    let (parts, body) = response.into_parts();
    let mut pieces = body.into_data_stream().take(PIECES);
    let mut text = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        text.extend_from_slice(&piece);
    }
    (parts.status, text)
}

/// Whether an answer is permitted for any input.
pub fn is_fair(status: StatusCode, body: &[u8]) -> bool {
    match status.as_u16() {
        ..500 | 504 => true,
        500 => {
            let body = String::from_utf8_lossy(body);
            KUBERNETES_OWN_500.iter().any(|own| body.contains(own))
        }
        _ => false,
    }
}
