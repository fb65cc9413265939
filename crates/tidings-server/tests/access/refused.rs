//! A request that is refused before it was read completely: its client, which still sends, gets the
//! answer without a reset.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::connections::{PATIENCE, tls};
use crate::support::Server;

/// Bytes sent at a time.
const PIECE: usize = 16 * 1024;
const EVENTS: &str = "/api/v1/namespaces/shop/events";

/// Sends a whole request, piece by piece, and only then reads the whole answer.
async fn send_and_then_read(stream: &mut TlsStream<TcpStream>, request: &[u8]) -> String {
    let exchange = async {
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        for piece in request.chunks(PIECE) {
            pace.tick().await;
            stream.write_all(piece).await.expect("the rest is taken");
        }
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("the answer, and its end");
        answer
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap()
}

#[tokio::test]
async fn a_client_that_still_sends_gets_the_answer() {
    let server = Server::start(|options, _| options.api.request_bytes_max = 100_000).await;
    let rest = "a".repeat(360_000);
    let post = |headers: &str| {
        format!("POST {EVENTS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}")
    };
    let admin = "authorization: Bearer t-admin\r\n";
    let length = rest.len();
    let message = "m".repeat(50_000);
    let event = serde_json::json!({
        "metadata": {"name": "web.1"}, "message": message,
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
    });
    let mut bytes = String::new();
    for byte in event.to_string().chars() {
        bytes.extend(["1\r\n", byte.encode_utf8(&mut [0; 4]), "\r\n"]);
    }
    bytes.push_str("0\r\n\r\n");
    let cases = [
        (
            431,
            format!("GET /api HTTP/1.1\r\nhost: x\r\nx: {rest}\r\n\r\n"),
        ),
        (
            414,
            format!(
                "POST /{} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{rest}",
                &rest[..66_000]
            ),
        ),
        (
            413,
            post(&format!("{admin}content-length: {length}\r\n\r\n{rest}")),
        ),
        (
            413,
            post(&format!(
                "{admin}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{rest}\r\n0\r\n\r\n"
            )),
        ),
        (
            401,
            post(&format!("content-length: {length}\r\n\r\n{rest}")),
        ),
        (
            400,
            post(&format!(
                "{admin}transfer-encoding: chunked\r\n\r\nno length\r\n{rest}"
            )),
        ),
        // Go's net/http allows chunks of one byte, and refuses bodies that are mainly chunk
        // headers.
        (
            201,
            post(&format!(
                "{admin}connection: close\r\ntransfer-encoding: chunked\r\n\r\n{bytes}"
            )),
        ),
        (
            400,
            post(&format!(
                "{admin}transfer-encoding: chunked\r\n\r\n{}1\r\n{{",
                "0".repeat(length)
            )),
        ),
    ];
    for (code, request) in cases {
        let mut stream = tls(&server, "http/1.1").await;
        let answer = send_and_then_read(&mut stream, request.as_bytes()).await;
        let expected = format!("HTTP/1.1 {code} ");
        assert!(answer.starts_with(&expected), "{expected}: {answer}");
    }
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_server_that_stops_waits_no_longer_for_a_client_that_does_not() {
    let server = Server::start(|options, _| {
        options.api.shutdown_grace = PATIENCE;
        options.api.request_bytes_max = 10;
    })
    .await;
    let mut stream = tls(&server, "http/1.1").await;
    let request = format!(
        "POST {EVENTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t-admin\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{}",
        "a".repeat(100)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // The client does not close its side. The server does not wait for the end of its grace.
    let stopped = tokio::time::timeout(PATIENCE / 2, server.running.shutdown());
    stopped.await.expect("the server stops");
    drop(stream);
}
