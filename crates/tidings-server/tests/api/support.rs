//! A server without a socket, with a manual clock.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tidings_server::{ApiOptions, ApiServer, Authenticator, Authorizer, Token, User, router};
use tidings_store::clock::ManualClock;
use tidings_store::{Store, UnixMillis};
use tower::ServiceExt;

use crate::backend;

/// 2026-03-04T05:06:07Z
pub(crate) const START: i64 = 1_772_600_767_000;

pub(crate) struct Server {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) api: Arc<ApiServer>,
}

pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Checks the status code, and returns the body as JSON.
    #[track_caller]
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(
            self.code.as_u16(),
            code,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(ApiOptions::default())
    }

    pub(crate) fn with(options: ApiOptions) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let store = backend::store(&clock);
        Self::over(store, clock, options)
    }

    pub(crate) fn over(store: Arc<dyn Store>, clock: ManualClock, options: ApiOptions) -> Self {
        let token = |token: &str, user: &str, uid: &str| Token {
            token: token.into(),
            user: User::new(user, uid, ["dev".to_owned()]),
        };
        let tokens = vec![token("s3cret", "ann", "7"), token("other", "bob", "8")];
        let api = ApiServer::new(
            Arc::clone(&store),
            Arc::new(Arc::new(clock.clone())),
            Authenticator::new(tokens),
            options,
        )
        .with_authorizer(Authorizer::always_allow());
        Self {
            store,
            clock,
            api: Arc::new(api),
        }
    }

    /// Sends a request; returns the answer with an unread body.
    pub(crate) async fn respond(&self, request: Request<Body>) -> Response<Body> {
        router(Arc::clone(&self.api))
            .oneshot(request)
            .await
            .unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.respond(request).await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX)
            .await
            .unwrap()
            .to_vec();
        Answer {
            code: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        self.send(request(method, uri, headers, body)).await
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.call(Method::GET, uri, &[], "").await
    }

    pub(crate) async fn get_as(&self, uri: &str, accept: &str) -> Answer {
        self.call(Method::GET, uri, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, uri: &str, body: &Value) -> Answer {
        self.call(Method::POST, uri, &[], body.to_string()).await
    }

    pub(crate) async fn put(&self, uri: &str, body: &Value) -> Answer {
        self.call(Method::PUT, uri, &[], body.to_string()).await
    }

    pub(crate) async fn delete(&self, uri: &str) -> Answer {
        self.call(Method::DELETE, uri, &[], "").await
    }

    /// Sends a PATCH of this kind: `merge`, `strategic-merge` or `json`.
    pub(crate) async fn patch(&self, kind: &str, uri: &str, body: &Value) -> Answer {
        let kind = match kind {
            "json" => "application/json-patch+json".to_owned(),
            kind => format!("application/{kind}-patch+json"),
        };
        self.call(
            Method::PATCH,
            uri,
            &[("content-type", &kind)],
            body.to_string(),
        )
        .await
    }

    /// Stores an event and returns it as stored.
    pub(crate) async fn create(&self, namespace: &str, name: &str) -> Value {
        self.post(&events(namespace), &event(namespace, name))
            .await
            .expect(201)
    }

    pub(crate) async fn watch(&self, uri: &str) -> Watching {
        self.watch_as(uri, "").await
    }

    pub(crate) async fn watch_as(&self, uri: &str, accept: &str) -> Watching {
        let request = request(Method::GET, uri, &[("accept", accept)], "");
        let response = router(Arc::clone(&self.api))
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        Watching {
            body: response.into_body().into_data_stream(),
            buffer: Vec::new(),
        }
    }
}

pub(crate) fn request(
    method: Method,
    uri: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .header("authorization", "Bearer s3cret");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}

/// A watch whose lines are read one by one.
pub(crate) struct Watching {
    body: BodyDataStream,
    buffer: Vec<u8>,
}

impl Watching {
    /// The next watch event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let chunk = tokio::time::timeout(Duration::from_secs(100), self.body.next());
            let chunk = chunk.await.expect("the watch says nothing")?;
            self.buffer.extend_from_slice(&chunk.unwrap());
        }
    }

    /// The next watch event as `TYPE name@resourceVersion`.
    pub(crate) async fn line(&mut self) -> String {
        let Some(event) = self.next().await else {
            return "END".into();
        };
        let metadata = &event["object"]["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        format!("{} {name}@{version}", event["type"].as_str().unwrap())
    }
}

/// tokio's clock, which a test may pause.
pub(crate) fn timer() -> tokio::time::Instant {
    tokio::time::sleep(Duration::ZERO).deadline()
}

pub(crate) fn events(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events")
}

pub(crate) fn event(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "web", "uid": "u-web", "apiVersion": "v1"},
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-03-04T05:00:00Z",
        "lastTimestamp": "2026-03-04T05:06:00Z",
        "count": 7,
        "type": "Warning",
    })
}
