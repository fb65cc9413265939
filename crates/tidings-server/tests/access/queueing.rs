//! Waiting for a place over real connections: many requests at once, disconnecting clients, and the
//! end of the server.

use std::convert::Infallible;
use std::net::Shutdown;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream;
use http::{Method, Request};
use http_body_util::{Full, StreamBody};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::{SockRef, Socket};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use crate::connections::{PATIENCE, tls, tls_from, until_the_end};
use crate::support::{Caller, Server};

const EVENTS: &str = "/api/v1/namespaces/shop/events";

fn event(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"involvedObject":{{"namespace":"shop"}}}}"#)
}

/// A write without the last byte of its body, which takes and keeps a place.
async fn begin(server: &Server, name: &str) -> TlsStream<TcpStream> {
    let event = event(name);
    let mut stream = tls(server, "http/1.1").await;
    let head = format!(
        "POST {EVENTS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer t-admin\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        event.len()
    );
    let most = event.strip_suffix('}').unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(most.as_bytes()).await.unwrap();
    stream
}

/// Sends the last byte, and returns the beginning of the answer.
async fn finish(mut stream: TlsStream<TcpStream>) -> String {
    stream.write_all(b"}").await.unwrap();
    let answer = until_the_end(&mut stream).await;
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Waits until a metric's sample has a value.
async fn until(admin: &Caller, name: &str, expected: &str) {
    let line = format!("{name} {expected}");
    let mut metrics = String::new();
    let reached = async {
        loop {
            admin
                .get("/metrics")
                .await
                .body
                .as_str()
                .unwrap()
                .clone_into(&mut metrics);
            if metrics.lines().any(|it| it == line) {
                return;
            }
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    reached.unwrap_or_else(|_| panic!("never: {line}\n{metrics}"));
}

const IN_FLIGHT: &str = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
const WAITING: &str = "apiserver_current_inqueue_requests{request_kind=\"mutating\"}";
const LOGINS: &str = "apiserver_current_inflight_requests{request_kind=\"logins\"}";
const CREATED: &str = "HTTP/1.1 201 Created";

/// A connection for many requests, and its socket.
async fn connect<B>(server: &Server) -> (http2::SendRequest<B>, Socket)
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = tls(server, "h2").await;
    let socket = SockRef::from(stream.get_ref().0).try_clone().unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    (sender, socket)
}

fn post<B>(body: B) -> Request<B> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("https://localhost{EVENTS}"))
        .header("authorization", "Bearer t-admin")
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// As many requests as benchmarks have in flight, with all defaults.
#[tokio::test]
async fn of_256_writes_at_once_none_is_refused() {
    let server = Server::start(|_, _| {}).await;
    let admin = server.as_admin().await;
    let release = watch::Sender::new(false);
    let mut answers = Vec::new();
    for connection in 0..4 {
        let (mut sender, _) = connect(&server).await;
        for stream in 0..64 {
            let mut released = release.subscribe();
            let bytes = Bytes::from(event(&format!("e{connection}.{stream}")));
            let body = stream::once(Box::pin(async move {
                released.wait_for(|released| *released).await.unwrap();
                Ok(Frame::data(bytes))
            }));
            answers.push(tokio::spawn(
                sender.send_request(post(StreamBody::new(body))),
            ));
        }
    }
    until(&admin, IN_FLIGHT, "200").await;
    until(&admin, WAITING, "56").await;
    release.send_replace(true);
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status(), 201);
    }
    server.running.shutdown().await;
}

/// Logins come from unknown users, and their bodies may be slow.
#[tokio::test]
async fn logins_take_no_place_of_known_users() {
    const LOGIN: &str = "POST /timeline/login HTTP/1.1\r\nhost: localhost\r\n\
                         origin: https://localhost\r\ncontent-type: application/json\r\n\
                         content-length: 10\r\n\r\n";
    let server = Server::start(|options, _| {
        options.api.max_mutating_requests_inflight = 2;
        options.api.max_requests_inqueue = 0;
    })
    .await;
    let admin = server.as_admin().await;
    let mut logins = Vec::new();
    for _ in 0..2 {
        let mut login = tls(&server, "http/1.1").await;
        login.write_all(LOGIN.as_bytes()).await.unwrap();
        logins.push(login);
    }
    until(&admin, LOGINS, "2").await;
    assert_eq!(finish(begin(&server, "a").await).await, CREATED);
    drop(logins);
    until(&admin, LOGINS, "0").await;
    server.running.shutdown().await;
}

/// The status code of a login with the admin's token from this peer.
async fn log_in(server: &Server, peer: u8) -> String {
    const BODY: &str = r#"{"token":"t-admin"}"#;
    let request = format!(
        "POST /timeline/login HTTP/1.1\r\nhost: localhost\r\norigin: https://localhost\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let mut stream = tls_from(server, "http/1.1", peer).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = until_the_end(&mut stream).await;
    answer.get(9..12).unwrap_or_default().to_owned()
}

/// A stranger's logins without a body, over one connection.
#[tokio::test]
async fn logins_of_one_peer_keep_no_other_out() {
    const SHARE: usize = 25;
    let server = Server::start(|_, _| {}).await;
    let admin = server.as_admin().await;
    let (mut sender, socket) = connect(&server).await;
    for _ in 0..SHARE {
        let never = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let login = Request::post("https://localhost/timeline/login")
            .header("origin", "https://localhost")
            .body(StreamBody::new(never))
            .unwrap();
        tokio::spawn(sender.send_request(login));
    }
    until(&admin, LOGINS, &SHARE.to_string()).await;
    assert_eq!(log_in(&server, 1).await, "429");
    assert_eq!(log_in(&server, 2).await, "204");
    let refused = "apiserver_flowcontrol_rejected_requests_total{priority_level=\"logins\",\
                   flow_schema=\"catch-all\",reason=\"concurrency-limit\"}";
    until(&admin, refused, "1").await;
    socket.shutdown(Shutdown::Both).unwrap();
    until(&admin, LOGINS, "0").await;
    assert_eq!(log_in(&server, 1).await, "204");
    server.running.shutdown().await;
}

/// Everyone, including strangers in any number, may request the page.
#[tokio::test]
async fn what_is_sent_to_everyone_waits_for_no_place() {
    let server = Server::start(|options, _| options.api.max_mutating_requests_inflight = 1).await;
    let admin = server.as_admin().await;
    let first = begin(&server, "a").await;
    until(&admin, IN_FLIGHT, "1").await;
    for (path, code) in [("/timeline/logout", "204"), ("/timeline/nothing", "404")] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\norigin: https://localhost\r\n\
             connection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let mut stream = tls(&server, "http/1.1").await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = until_the_end(&mut stream).await;
        assert_eq!(answer.get(9..12), Some(code), "{path}: {answer}");
    }
    assert_eq!(finish(first).await, CREATED);
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_is_not_waited_for() {
    let server = Server::start(|options, _| options.api.max_mutating_requests_inflight = 1).await;
    let admin = server.as_admin().await;
    let first = begin(&server, "a").await;
    until(&admin, IN_FLIGHT, "1").await;
    let (mut sender, socket) = connect(&server).await;
    let mut send = |name| tokio::spawn(sender.send_request(post(Full::new(event(name).into()))));
    // One request is cancelled; the connection of another ends.
    let cancelled = send("b");
    until(&admin, WAITING, "1").await;
    let _cut_off = send("c");
    until(&admin, WAITING, "2").await;
    cancelled.abort();
    until(&admin, WAITING, "1").await;
    socket.shutdown(Shutdown::Both).unwrap();
    until(&admin, WAITING, "0").await;
    let gone = "apiserver_flowcontrol_rejected_requests_total{priority_level=\"mutating\",\
                flow_schema=\"catch-all\",reason=\"cancelled\"}";
    until(&admin, gone, "2").await;

    assert_eq!(finish(first).await, CREATED);
    for name in ["b", "c"] {
        assert_eq!(admin.get(&format!("{EVENTS}/{name}")).await.code, 404);
    }
    server.running.shutdown().await;
}

#[tokio::test]
async fn who_waits_when_the_server_is_told_to_end_is_served() {
    let server = Server::start(|options, _| options.api.max_mutating_requests_inflight = 1).await;
    let admin = server.as_admin().await;
    let first = begin(&server, "a").await;
    until(&admin, IN_FLIGHT, "1").await;
    let second = begin(&server, "b").await;
    let third = begin(&server, "c").await;
    until(&admin, WAITING, "2").await;

    // The server closes its listener, completes accepted requests, and only then ends.
    let address = server.running.address();
    let ended = tokio::spawn(server.running.shutdown());
    while TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!ended.is_finished());
    let answers = join_all([first, second, third].map(finish)).await;
    assert_eq!(answers, [CREATED; 3]);
    tokio::time::timeout(PATIENCE, ended)
        .await
        .unwrap()
        .unwrap();
}
