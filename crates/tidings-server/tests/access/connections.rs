//! The bounds of connections: no client can hold a connection without using it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::Method;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidings_testing::serving::event;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{Server, Signed};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LIST: &str =
    "GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t-admin\r\n\r\n";
pub(crate) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn start(max_connections: usize) -> Server {
    Server::start(|options, _| {
        options.api.max_connections = max_connections;
        options.api.tls_handshake_timeout = Duration::from_secs(2);
        options.api.read_header_timeout = Duration::from_secs(1);
        options.api.idle_timeout = Duration::from_secs(1);
        options.api.request_timeout = Duration::from_secs(2);
        options.api.bookmark_interval = Duration::from_secs(3);
    })
    .await
}

async fn tcp(server: &Server) -> TcpStream {
    tcp_from(server, 1).await
}

/// Connects from a peer address of its own: all addresses that begin with 127 are local.
async fn tcp_from(server: &Server, peer: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let peer = SocketAddr::from(([127, 0, 0, peer], 0));
    socket.bind(peer).unwrap();
    socket.connect(server.running.address()).await.unwrap()
}

pub(crate) async fn tls(server: &Server, protocol: &str) -> TlsStream<TcpStream> {
    tls_from(server, protocol, 1).await.unwrap()
}

/// A client's settings for the server of a data folder.
pub(crate) fn tls_config(data: &Path, protocol: &str, signed: Option<&Signed>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let authority = data.join("pki/ca.crt");
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match signed {
        Some(signed) => {
            let certificate = CertificateDer::from_pem_slice(signed.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
            let chain = vec![certificate.unwrap()];
            builder.with_client_auth_cert(chain, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    config
}

pub(crate) async fn tls_from(
    server: &Server,
    protocol: &str,
    peer: u8,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = tls_config(&server.folder.path().join("data"), protocol, None);
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, tcp_from(server, peer).await)
        .await
}

/// Reads until the server ends the connection.
pub(crate) async fn until_the_end(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    // How the connection ends does not matter.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the server holds a connection that does nothing");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn silence_is_ended_wherever_it_falls() {
    let server = start(100).await;
    // No data before the handshake, and none before the first request, over HTTP/1.1 and HTTP/2.
    assert_eq!(until_the_end(&mut tcp(&server).await).await, "");
    assert_eq!(until_the_end(&mut tls(&server, "http/1.1").await).await, "");
    until_the_end(&mut tls(&server, "h2").await).await;
    // An incomplete first request.
    let mut half = tls(&server, "http/1.1").await;
    half.write_all(b"GET /api HTTP/1.1\r\nhost:").await.unwrap();
    assert!(!until_the_end(&mut half).await.starts_with("HTTP/1.1 200"));
    let mut half = tls(&server, "h2").await;
    half.write_all(HTTP2_PREFACE).await.unwrap();
    // The beginning of a request's headers, which never end.
    half.write_all(b"\0\0\x04\x01\x01\0\0\0\x01\x82\x87\x84\x41")
        .await
        .unwrap();
    until_the_end(&mut half).await;
    // A pause between two requests.
    let mut idle = tls(&server, "http/1.1").await;
    idle.write_all(LIST.as_bytes()).await.unwrap();
    assert!(until_the_end(&mut idle).await.starts_with("HTTP/1.1 200"));
    server.running.shutdown().await;
}

#[tokio::test]
async fn bytes_that_trickle_are_silence() {
    let server = start(100).await;
    let stream = tls(&server, "http/1.1").await;
    let (mut read, mut write) = tokio::io::split(stream);
    let trickle = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        for byte in b"GET /".iter().chain(std::iter::repeat(&b'x')) {
            tick.tick().await;
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = trickle => {}
        _ = until_the_end(&mut read) => {}
    }
    server.running.shutdown().await;
}

/// The status code of a request with a token, a header of `bytes` bytes, and `others` short ones.
pub(crate) async fn headed(
    server: &Server,
    protocol: &str,
    (path, token): (&str, &str),
    bytes: usize,
    others: usize,
) -> u16 {
    let stream = TokioIo::new(tls(server, protocol).await);
    let mut request = hyper::Request::get(format!("https://localhost{path}"))
        .header("authorization", format!("Bearer {token}"))
        .header("x", "y".repeat(bytes));
    for number in 0..others {
        request = request.header(format!("x-{number}"), "y");
    }
    let request = request.body(String::new()).unwrap();
    let answer = if protocol == "h2" {
        let executor = TokioExecutor::new();
        let (mut sender, connection) = http2::handshake(executor, stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    answer.unwrap().status().as_u16()
}

#[tokio::test]
async fn the_head_of_a_request_is_bounded() {
    for (limit, cases) in [
        (
            None,
            &[
                ("http/1.1", 64_000, 0, 200),
                ("http/1.1", 70_000, 0, 431),
                ("http/1.1", 1, 90, 200),
                ("http/1.1", 1, 100, 431),
                ("h2", 64_000, 0, 200),
                ("h2", 70_000, 0, 431),
                ("h2", 1, 190, 200),
                ("h2", 1, 200, 431),
            ][..],
        ),
        // The limit is kube-apiserver's and no higher. A header map holds at most 24,576 headers.
        (
            Some(usize::MAX),
            &[
                ("http/1.1", 1_000_000, 0, 200),
                ("http/1.1", 1_100_000, 0, 431),
                ("h2", 1_000_000, 0, 200),
                ("h2", 1_100_000, 0, 431),
                ("h2", 1, 24_570, 431),
                ("h2", 1, 24_574, 431),
            ],
        ),
        (
            Some(0),
            &[("http/1.1", 8000, 0, 200), ("h2", 14_000, 0, 431)],
        ),
    ] {
        let server = Server::start(|options, _| {
            if let Some(limit) = limit {
                options.api.header_bytes_max = limit;
            }
        })
        .await;
        for &(protocol, bytes, others, code) in cases {
            let found = headed(&server, protocol, ("/api", "t-admin"), bytes, others).await;
            let what = format!("{limit:?} {protocol}: {bytes} bytes and {others} more");
            assert_eq!(found, code, "{what}");
        }
        server.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_watch_keeps_its_connection() {
    let server = start(100).await;
    let mut watch = tls(&server, "http/1.1").await;
    let request = LIST.replace("/events", "/events?watch=true&allowWatchBookmarks=true");
    watch.write_all(request.as_bytes()).await.unwrap();
    // A watch lasts three times the idle timeout.
    let mut text = String::new();
    while !text.contains("BOOKMARK") {
        let mut bytes = [0; 1024];
        let count = tokio::time::timeout(PATIENCE, watch.read(&mut bytes))
            .await
            .unwrap()
            .unwrap();
        assert_ne!(count, 0, "the watch was ended: {text}");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    server.running.shutdown().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_clients() {
    let server = start(1).await;
    let mut first = tls(&server, "http/1.1").await;
    first.write_all(LIST.as_bytes()).await.unwrap();
    let mut bytes = [0; 12];
    first.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"HTTP/1.1 200");
    let mut second = Box::pin(tls(&server, "http/1.1"));
    assert!(
        (&mut second).now_or_never().is_none(),
        "there is place for one"
    );
    drop(first);
    let mut second = tokio::time::timeout(PATIENCE, second).await.unwrap();
    second.write_all(LIST.as_bytes()).await.unwrap();
    assert!(until_the_end(&mut second).await.starts_with("HTTP/1.1 200"));
    server.running.shutdown().await;
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends a request, and reads the whole answer. The connection stays open.
async fn ask(stream: &mut TlsStream<TcpStream>, request: &str) -> String {
    let answered = async {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert_ne!(count, 0, "the connection was ended");
            answer.extend_from_slice(&bytes[..count]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let len = head.lines().find_map(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            let whole = match len {
                Some(len) => body.len() == len,
                None => body.ends_with("0\r\n\r\n"),
            };
            if whole {
                return text.into_owned();
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered)
        .await
        .expect("no answer: strangers hold the server")
}

/// A new connection with one request.
async fn ask_anew(server: &Server, peer: u8, request: &str) -> String {
    let connected = tokio::time::timeout(PATIENCE, tls_from(server, "http/1.1", peer));
    let mut stream = connected
        .await
        .expect("no connection: strangers hold the server")
        .unwrap();
    ask(&mut stream, request).await
}

fn with_limits(max: usize, peer_max: usize) -> impl Future<Output = Server> {
    Server::start(move |options, _| {
        options.api.max_connections = max;
        options.api.max_connections_per_peer = peer_max;
    })
}

/// Number of connections ended for this reason.
async fn ended(server: &Server, reason: &str) -> u64 {
    let metrics = server.as_admin().await.get("/metrics").await;
    let name = format!("tidings_connections_ended_total{{reason=\"{reason}\"}} ");
    let text = metrics.body.as_str().unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix(&name));
    count.unwrap().parse().unwrap()
}

#[tokio::test]
async fn idle_strangers_take_no_place_from_clients_and_probes() {
    let server = with_limits(8, 0).await;
    let mut client = tls(&server, "http/1.1").await;
    assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
    // Three times as many connections as places, each from another peer, in every state without a
    // request.
    let (mut silent, mut idle) = (Vec::new(), Vec::new());
    for peer in (2..).take(8) {
        silent.push(tcp_from(&server, peer).await);
        let mut half = tls_from(&server, "http/1.1", peer).await.unwrap();
        half.write_all(b"GET /api HTTP/1.1\r\nhost:").await.unwrap();
        idle.push(half);
        let mut asked = tls_from(&server, "http/1.1", peer).await.unwrap();
        assert!(ask(&mut asked, LIVEZ).await.ends_with("ok"));
        idle.push(asked);
        idle.push(tls_from(&server, "h2", peer).await.unwrap());
    }
    assert!(ask_anew(&server, 1, LIST).await.starts_with("HTTP/1.1 200"));
    assert!(ask_anew(&server, 1, LIVEZ).await.ends_with("ok"));
    // The oldest ends first; connections with credentials stay.
    until_the_end(&mut silent[0]).await;
    until_the_end(&mut idle[0]).await;
    assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
    assert!(ended(&server, "room").await >= 32 - 8);
    server.running.shutdown().await;
}

/// Requests without credentials do not protect a place.
#[tokio::test]
async fn busy_strangers_take_no_place_from_clients_and_probes() {
    let server = with_limits(8, 0).await;
    let mut busy = Vec::new();
    let fill = async {
        for peer in 2..12 {
            let stream = tls_from(&server, "h2", peer).await.unwrap();
            let (mut read, mut write) = tokio::io::split(stream);
            write.write_all(NO_WINDOW).await.unwrap();
            write.write_all(&get(1, "/", "")).await.unwrap();
            // A HEADERS frame: the request is answered, but the answer is not read.
            while frame(&mut read).await.0 != 1 {}
            busy.push((read, write));
        }
    };
    let filled = tokio::time::timeout(PATIENCE, fill).await;
    filled.expect("strangers hold the server");
    assert!(ask_anew(&server, 1, LIST).await.starts_with("HTTP/1.1 200"));
    assert!(ask_anew(&server, 1, LIVEZ).await.ends_with("ok"));
    server.running.shutdown().await;
}

#[tokio::test]
async fn clients_take_no_place_from_probes() {
    let server = with_limits(4, 0).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = tls(&server, "http/1.1").await;
        assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
        clients.push(client);
    }
    for _ in 0..3 {
        assert!(ask_anew(&server, 2, LIVEZ).await.ends_with("ok"));
    }
    // The last of four clients got no place that is reserved for clients.
    for client in &mut clients[..3] {
        assert!(ask(client, LIST).await.starts_with("HTTP/1.1 200"));
    }
    until_the_end(&mut clients[3]).await;
    server.running.shutdown().await;
}

#[tokio::test]
async fn one_peer_takes_no_more_than_its_share() {
    let server = with_limits(100, 2).await;
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(tls_from(&server, "http/1.1", 2).await.unwrap());
    }
    until_the_end(&mut strangers[0]).await;
    until_the_end(&mut strangers[1]).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = tls_from(&server, "http/1.1", 2).await.unwrap();
        assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
        clients.push(client);
    }
    assert!(tls_from(&server, "http/1.1", 2).await.is_err());
    assert!(ask_anew(&server, 3, LIVEZ).await.ends_with("ok"));
    assert_eq!(ended(&server, "peer-limit").await, 1);
    server.running.shutdown().await;
}

#[tokio::test]
async fn strangers_have_a_short_time_however_they_pass_it() {
    let server = Server::start(|options, _| {
        options.api.unauthenticated_connection_timeout = Duration::from_secs(1);
    })
    .await;
    let mut client = tls(&server, "http/1.1").await;
    assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
    let mut fresh = tls(&server, "http/1.1").await;
    let mut asked = tls(&server, "http/1.1").await;
    assert!(ask(&mut asked, LIVEZ).await.ends_with("ok"));
    let mut wrong = tls(&server, "http/1.1").await;
    let refused = ask(&mut wrong, &LIST.replace("t-admin", "t-wrong")).await;
    assert!(refused.starts_with("HTTP/1.1 401"));
    let mut half = tls(&server, "h2").await;
    half.write_all(HTTP2_PREFACE).await.unwrap();
    for stranger in [&mut fresh, &mut asked, &mut wrong, &mut half] {
        // The connection ends before any other deadline.
        let end = tokio::time::timeout(Duration::from_secs(25), until_the_end(stranger));
        end.await.expect("a stranger is kept");
    }
    assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
    assert_eq!(ended(&server, "unauthenticated").await, 4);
    server.running.shutdown().await;
}

/// A connection with valid credentials counts as a stranger once it sends invalid ones.
#[tokio::test]
async fn a_connection_whose_credentials_are_refused_is_ended() {
    let server = with_limits(100, 0).await;
    let mut client = tls(&server, "http/1.1").await;
    assert!(ask(&mut client, LIST).await.starts_with("HTTP/1.1 200"));
    let refused = ask(&mut client, &LIST.replace("t-admin", "t-wrong")).await;
    assert!(refused.starts_with("HTTP/1.1 401"));
    let end = tokio::time::timeout(Duration::from_secs(25), until_the_end(&mut client));
    end.await.expect("its privileges outlast its credentials");
    assert_eq!(ended(&server, "unauthenticated").await, 1);
    server.running.shutdown().await;
}

/// As kube-apiserver's `UnauthenticatedHTTP2DOSMitigation` does.
#[tokio::test]
async fn strangers_have_one_answer_over_http2() {
    const DATA: u8 = 0;
    const GOAWAY: u8 = 7;
    let server = with_limits(100, 0).await;
    for (path, authorization, ends) in [
        ("/livez", "", true),
        ("/api", "Bearer t-wrong", true),
        ("/api", "Bearer t-admin", false),
        ("/api", "Bearer t-admin, then t-wrong", true),
    ] {
        let (mut read, mut write) = tokio::io::split(tls(&server, "h2").await);
        write.write_all(HTTP2_PREFACE).await.unwrap();
        let mut seen = Vec::new();
        let conversation = async {
            for stream in [1, 3] {
                let shown = match authorization.split_once(", then ") {
                    Some((_, token)) if stream == 3 => &format!("Bearer {token}"),
                    Some((first, _)) => first,
                    None => authorization,
                };
                let request = get(stream, path, shown);
                write.write_all(&request).await.unwrap();
                // A connection without credentials ends; one with them gets a second answer.
                loop {
                    let (kind, of, _) = frame(&mut read).await;
                    seen.push(kind);
                    if ends && kind == GOAWAY {
                        return;
                    }
                    if (kind, of) == (DATA, stream)
                        && (!ends || stream == 1 && shown.ends_with("admin"))
                    {
                        break;
                    }
                }
            }
        };
        let ended = tokio::time::timeout(PATIENCE, conversation).await;
        ended.expect("the connection continues, or the answers do not come");
        assert_eq!(seen.contains(&GOAWAY), ends, "{path} {authorization}");
    }
    server.running.shutdown().await;
}

/// SETTINGS with an INITIAL_WINDOW_SIZE of zero.
const NO_WINDOW: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// HEADERS of a complete request: GET by https, the path, localhost as the authority, and
/// credentials.
pub(crate) fn get(stream: u8, path: &str, authorization: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len()).unwrap();
    let mut headers = vec![0x82, 0x87, 0x04, len(path)];
    headers.extend(path.bytes());
    headers.extend(b"\x01\x09localhost");
    if !authorization.is_empty() {
        headers.extend([0x0f, 0x08, len(authorization)]);
        headers.extend(authorization.bytes());
    }
    let mut frame = vec![
        0,
        0,
        u8::try_from(headers.len()).unwrap(),
        1,
        5,
        0,
        0,
        0,
        stream,
    ];
    frame.extend(headers);
    frame
}

/// Sends requests over HTTP/2 with no window for an answer's body, and waits for the end of the
/// connection.
async fn ask_and_take_nothing(server: &Server, path: &str, authorization: &str) {
    let (mut read, mut write) = tokio::io::split(tls(server, "h2").await);
    write.write_all(NO_WINDOW).await.unwrap();
    write.write_all(&get(1, path, authorization)).await.unwrap();
    // The connection ends before a ping times out.
    let answer = tokio::time::timeout(Duration::from_secs(25), until_the_end(&mut read))
        .await
        .expect("the connection is held by an answer that the client does not read");
    assert!(answer.len() > 60, "it was answered: {answer:?}");
}

#[tokio::test]
async fn answers_that_nobody_takes_are_ended() {
    let server = start(100).await;
    let watch = "/api/v1/events?watch=1&timeoutSeconds=4";
    futures::join!(
        // Neither answer is read, whatever the client's windows are.
        ask_and_take_nothing(&server, "/", ""),
        ask_and_take_nothing(&server, watch, ""),
        ask_and_take_nothing(&server, "/api/v1/events", "Bearer t-admin"),
        ask_and_take_nothing(&server, watch, "Bearer t-admin"),
    );
    server.running.shutdown().await;
}

/// A front proxy has the requests of all its users on one connection.
#[tokio::test]
async fn an_answer_that_nobody_takes_ends_its_stream_and_no_other() {
    let server = start(100).await;
    let stream = TokioIo::new(tls(&server, "h2").await);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(256);
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let ask = async |path: &str| {
        let request = hyper::Request::get(format!("https://localhost{path}"))
            .header("authorization", "Bearer t-admin");
        let request = request.body(String::new()).unwrap();
        let answer = sender.clone().send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.into_body()
    };
    let unread = ask("/api/v1/events?watch=true&timeoutSeconds=4").await;
    let mut read = ask("/api/v1/events?watch=true&timeoutSeconds=600").await;
    let mut text = String::new();
    let mut see = async |name: &str| {
        let client = server.as_admin().await;
        let body = serde_json::to_value(event(name)).unwrap();
        let created = client.send(Method::POST, "/api/v1/namespaces/shop/events", &body);
        assert_eq!(created.await.code, 201);
        while !text.contains(name) {
            let frame = tokio::time::timeout(PATIENCE, read.frame()).await.unwrap();
            text += &String::from_utf8_lossy(frame.unwrap().unwrap().data_ref().unwrap());
        }
    };
    // The second message waits for room.
    see("web.1").await;
    see("web.2").await;
    // The same connection shows when the stream is reset.
    let reset = async {
        loop {
            let metrics = ask("/metrics").await.collect().await.unwrap().to_bytes();
            let metrics = String::from_utf8_lossy(&metrics).into_owned();
            if metrics.contains("\ntidings_streams_reset_total 1\n") {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reset).await.unwrap();
    let rest = tokio::time::timeout(PATIENCE, unread.collect()).await;
    rest.unwrap().unwrap_err();
    see("web.3").await;
    assert_eq!(ended(&server, "untaken").await, 0);
    server.running.shutdown().await;
}

/// Without credentials, an answer that is not read is cheap to request: a few on a connection are
/// kept, not a hundred.
#[tokio::test]
async fn strangers_leave_few_answers_untaken() {
    let server = with_limits(100, 0).await;
    let (mut read, mut write) = tokio::io::split(tls(&server, "h2").await);
    write.write_all(NO_WINDOW).await.unwrap();
    for request in 0..50 {
        // The server may end the connection first.
        if write
            .write_all(&get(2 * request + 1, "/", ""))
            .await
            .is_err()
        {
            break;
        }
    }
    // The connection ends before any deadline.
    let end = tokio::time::timeout(Duration::from_secs(25), until_the_end(&mut read));
    end.await.expect("fifty answers are kept");
    assert_eq!(ended(&server, "untaken").await, 1);
    server.running.shutdown().await;
}

/// Floods of frames that cost a client almost nothing are ended by the protocol's bounds or by the
/// connection's deadlines. Other clients are not affected.
#[tokio::test]
async fn floods_of_frames_are_ended() {
    let server = Server::start(|options, _| {
        options.api.unauthenticated_connection_timeout = Duration::from_secs(2);
    })
    .await;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    // The head of a request for /livez without its authority, complete and to be continued.
    let head = b"\x82\x87\x04\x06/livez";
    let mut floods: Vec<(&str, Vec<u8>)> = vec![
        ("PING", frame(6, 0, 0, &[0; 8])),
        ("SETTINGS", frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff])),
        ("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 0, 16])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &[0, 0, 0, 1])),
        ("unknown", frame(0x77, 0, 0, &[0; 8])),
    ];
    for (_, flood) in &mut floods {
        *flood = flood.repeat(1000);
    }
    let mut resets = Vec::new();
    for stream in (1..20_001).step_by(2) {
        resets.extend(frame(1, 5, stream, head));
        resets.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    floods.push(("rapid reset", resets));
    let mut endless = frame(1, 1, 1, head);
    endless.extend(frame(9, 0, 1, b"\x40\x01a\x01b").repeat(10_000));
    floods.push(("CONTINUATION", endless));
    let mut empty = frame(
        1,
        4,
        1,
        &head.map(|byte| if byte == 0x82 { 0x83 } else { byte }),
    );
    empty.extend(frame(0, 0, 1, &[]).repeat(10_000));
    floods.push(("empty DATA", empty));

    for (what, flood) in floods {
        let (mut read, mut write) = tokio::io::split(tls(&server, "h2").await);
        let pour = async {
            if write.write_all(HTTP2_PREFACE).await.is_ok() {
                while write.write_all(&flood).await.is_ok() {}
            }
        };
        println!("{what}");
        // Without a time limit: a flood that is not ended would go on for ever.
        let mut answered = Vec::new();
        let ended = async { futures::join!(pour, read.read_to_end(&mut answered)) };
        // On a slow machine the probe may be late and be ended as a stranger; it then tries again.
        let probe = async { while !is_alive(&server).await {} };
        let (_, ()) = futures::join!(ended, probe);
    }
    server.running.shutdown().await;
}

/// Whether a new client gets the answer that the server is alive.
async fn is_alive(server: &Server) -> bool {
    let Ok(mut stream) = tls_from(server, "http/1.1", 2).await else {
        return false;
    };
    let request = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut answer = Vec::new();
    // How the connection ends does not matter.
    let asked = stream.write_all(request).await;
    let _ = stream.read_to_end(&mut answer).await;
    asked.is_ok() && answer.ends_with(b"ok")
}

/// The next frame: type, stream, payload.
async fn frame(read: &mut (impl AsyncRead + Unpin)) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    read.read_exact(&mut head).await.unwrap();
    let len = usize::from(head[1]) << 8 | usize::from(head[2]);
    let mut payload = vec![0; len];
    read.read_exact(&mut payload).await.unwrap();
    (head[3], head[8], payload)
}
