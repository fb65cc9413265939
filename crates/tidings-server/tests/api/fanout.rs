//! Thousands of watchers over real connections.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tidings_server::router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::Server;

const WATCHERS: usize = 2000;
const WATCHERS_OF_A_CONNECTION: usize = 100;
const EVENTS: usize = 30;

/// The first `count` events of a watcher, as `TYPE name@resourceVersion`.
async fn told(mut body: Incoming, count: usize) -> Vec<String> {
    let (mut buffer, mut told) = (Vec::new(), Vec::new());
    while told.len() < count {
        let frame = body.frame().await.expect("the watch goes on").unwrap();
        buffer.extend_from_slice(frame.data_ref().unwrap());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&buffer[..end]).unwrap();
            buffer.drain(..=end);
            let metadata = &event["object"]["metadata"];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            told.push(format!(
                "{} {}@{}",
                text(&event["type"]),
                text(&metadata["name"]),
                text(&metadata["resourceVersion"])
            ));
        }
    }
    told
}

async fn watchers(address: SocketAddr, count: usize) -> Vec<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut bodies = Vec::new();
    for _ in 0..count {
        let request = Request::get(format!(
            "http://{address}/api/v1/events?watch=true&resourceVersion=1"
        ))
        .header("authorization", "Bearer s3cret");
        let answer = sender.send_request(request.body(Body::empty()).unwrap());
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 200);
        bodies.push(answer.into_body());
    }
    bodies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_sees_every_event_once_and_in_order() {
    let server = Server::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn({
        let router = router(Arc::clone(&server.api));
        async move { axum::serve(listener, router).await }
    });

    // This watcher reads only after all others are done.
    let slow = watchers(address, 1).await.remove(0);
    let mut watching = JoinSet::new();
    for _ in 0..WATCHERS / WATCHERS_OF_A_CONNECTION {
        for body in watchers(address, WATCHERS_OF_A_CONNECTION).await {
            watching.spawn(told(body, EVENTS * 2));
        }
    }
    let mut expected = Vec::new();
    for n in 0..EVENTS {
        let name = format!("e{n}");
        server.create("shop", &name).await;
        expected.push(format!("ADDED {name}@{}", 2 * n + 2));
        let deleted = format!("/api/v1/namespaces/shop/events/{name}");
        server.delete(&deleted).await.expect(200);
        expected.push(format!("DELETED {name}@{}", 2 * n + 3));
    }
    let mut done = 0;
    while let Some(told) = watching.join_next().await {
        assert_eq!(told.unwrap(), expected);
        done += 1;
    }
    assert_eq!(done, WATCHERS);
    assert_eq!(told(slow, EVENTS * 2).await, expected);
    serving.abort();
}
