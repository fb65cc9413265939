//! Broken HTTP on real connections: each is refused or closed, and the next client is served.

use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tidings_server::{Running, StartOptions, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum wait for an answer that does not come.
const PATIENCE: Duration = Duration::from_secs(30);

async fn answer(server: &Running, connector: &TlsConnector, bytes: &[u8]) -> Vec<u8> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    // The server may close during the write or after it.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let reading = async {
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            answer.extend_from_slice(&piece[..length]);
            if answer.windows(4).any(|end| end == b"\r\n\r\n") {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("an answer or an end");
    answer
}

#[tokio::test]
async fn broken_http_is_refused_and_the_next_client_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StartOptions::new(folder.path());
    options.secure_port = 0;
    let server = start(options).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(folder.path().join("pki/ca.crt")).unwrap())
        .unwrap();
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));

    let long_header = format!(
        "GET /livez HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "a".repeat(2 << 20)
    );
    let many_headers = format!(
        "GET /livez HTTP/1.1\r\nhost: x\r\n{}\r\n",
        "a: b\r\n".repeat(10_000)
    );
    let long_target = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(2 << 20));
    let cases: &[(&str, &[u8])] = &[
        ("no HTTP", b"hello\r\n\r\n"),
        ("another version", b"GET /livez HTTP/9.9\r\nhost: x\r\n\r\n"),
        ("control characters", b"GET /\x00\x01 HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("a header without a name", b"GET /livez HTTP/1.1\r\n: x\r\n\r\n"),
        ("a space before the colon", b"GET /livez HTTP/1.1\r\nhost : x\r\n\r\n"),
        ("a negative length", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n"),
        ("two lengths", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ("a length beyond all", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999999\r\n\r\n"),
        ("a chunk beyond all", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
        ("no chunk", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
        ("an unknown coding", b"POST /api/v1/namespaces/a/events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n"),
        ("half of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("a long header", long_header.as_bytes()),
        ("many headers", many_headers.as_bytes()),
        ("a long target", long_target.as_bytes()),
    ];
    for (name, bytes) in cases {
        let answered = answer(&server, &connector, bytes).await;
        let text = String::from_utf8_lossy(&answered);
        assert!(!text.starts_with("HTTP/1.1 2"), "{name}: {text}");
        assert!(!text.starts_with("HTTP/1.1 5"), "{name}: {text}");
        let good = answer(
            &server,
            &connector,
            b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(
            good.starts_with(b"HTTP/1.1 200"),
            "after {name}: {}",
            String::from_utf8_lossy(&good)
        );
    }
    server.shutdown().await;
}
