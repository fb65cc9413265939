//! Any bytes on a TLS connection to a whole server, as HTTP/1 or, if the first byte is odd, as
//! HTTP/2 after its preface: no panic, and the server ends the connection once the client has
//! closed its side.

#![no_main]

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidings_server::{Running, StartOptions, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// Maximum time for the server to end the connection.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first bytes of an HTTP/2 client: the preface and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct Fixture {
    runtime: Runtime,
    /// The server ends when this is dropped.
    _server: Running,
    _folder: tempfile::TempDir,
    address: SocketAddr,
    connectors: [TlsConnector; 2],
}

impl Fixture {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut options = StartOptions::new(folder.path());
        options.secure_port = 0;
        let server = runtime.block_on(start(options)).expect("the server starts");
        let certificate = CertificateDer::from_pem_file(folder.path().join("pki/ca.crt"));
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.expect("there is a certificate"))
            .expect("it can be trusted");
        let connectors = [b"http/1.1".to_vec(), b"h2".to_vec()].map(|protocol| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("there are protocols")
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = vec![protocol];
            TlsConnector::from(Arc::new(config))
        });
        Self {
            address: server.address(),
            runtime,
            _server: server,
            _folder: folder,
            connectors,
        }
    }

    async fn send(&self, is_http2: bool, bytes: &[u8]) {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("it is a name");
        let connector = &self.connectors[usize::from(is_http2)];
        let mut stream = connector.connect(name, stream).await.expect("the handshake ends well");
        // The server may end the connection at any moment.
        if is_http2 {
            let _ = stream.write_all(PREFACE).await;
        }
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

fuzz_target!(|input: &[u8]| {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let fixture = FIXTURE.get_or_init(Fixture::new);
    fixture.runtime.block_on(async {
        let sent = tokio::time::timeout(PATIENCE, fixture.send(first % 2 == 1, bytes));
        sent.await.expect("the connection ends");
    });
});
