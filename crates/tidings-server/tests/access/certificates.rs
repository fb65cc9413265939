//! Client certificates of every form, and files that are replaced while the server runs.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SignatureScheme, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::clusters::{Archive, cluster};
use crate::connections::until_the_end;
use crate::support::{Authority, Credentials, Server, Signed, TOKENS, token, write};

const EVENTS: &str = "/api/v1/namespaces/shop/events";

#[tokio::test]
async fn replaced_files_are_in_force_and_broken_ones_are_not() {
    let (first, second) = (Authority::new("one"), Authority::new("two"));
    let server = Server::start(|options, folder| {
        options.security.client_ca_file = Some(write(folder, "clients.pem", &first.pem));
    })
    .await;
    let ann = |authority: &Authority| Credentials::Certificate(authority.client("ann", &[], 2040));
    let (of_first, of_second) = (
        server.client(&ann(&first)).await,
        server.client(&ann(&second)).await,
    );
    let by_token = server.client(&token("t-ann")).await;
    let reader = server.client(&token("t-reader")).await;
    let codes = async || {
        let mut codes = Vec::new();
        for client in [&of_first, &of_second, &by_token, &reader] {
            codes.push(client.get(EVENTS).await.code);
        }
        codes
    };
    assert_eq!(codes().await, [200, 401, 200, 200]);
    assert!(server.running.reload().await, "nothing has changed");

    // Replaces the authority of clients that are connected already, then tokens and permissions.
    server.write("clients.pem", &second.pem);
    server.write("tokens.csv", "t-ann,ann,2\nt-reader,writer,4\n");
    assert!(server.running.reload().await);
    assert_eq!(codes().await, [401, 200, 200, 403]);
    server.write("rbac.yaml", "");
    assert!(server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);

    // An incomplete line was written: the former content stays in force.
    server.write("tokens.csv", TOKENS);
    assert!(server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);
    server.write("tokens.csv", "t-admin,admin,1,\"system:masters\"\nt-ann,a");
    assert!(!server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);

    // An empty file, and one with only comments, is a file without tokens.
    for text in ["", "# t-ann,ann,2\n"] {
        server.write("tokens.csv", TOKENS);
        assert!(server.running.reload().await);
        assert_eq!(codes().await, [401, 403, 403, 403]);
        server.write("tokens.csv", text);
        assert!(server.running.reload().await, "{text:?}");
        assert_eq!(codes().await, [401, 403, 401, 401], "{text:?}");
    }
    server.write("tokens.csv", TOKENS);
    assert!(server.running.reload().await);

    for (name, text) in [
        (
            "clients.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
        ("clients.pem", ""),
        ("tokens.csv", "t-ann\n"),
        ("rbac.yaml", "kind: Role"),
    ] {
        server.write(name, text);
        assert!(!server.running.reload().await, "{name} {text}");
        assert_eq!(codes().await, [401, 403, 403, 403], "{name} {text}");
    }
    std::fs::remove_file(server.folder.path().join("tokens.csv")).unwrap();
    assert!(!server.running.reload().await);
    assert_eq!(codes().await, [401, 403, 403, 403]);
    server.running.shutdown().await;
}

#[tokio::test]
async fn a_replaced_certificate_is_served() {
    let (first, second) = (Authority::new("one"), Authority::new("two"));
    let (old, new) = (first.server(2040), second.server(2040));
    let server = Server::start(|options, folder| {
        // Clients trust the certificates after the first.
        let certificate = write(
            folder,
            "tls.crt",
            &format!("{}{}", old.certificate, first.pem),
        );
        options.security.tls_files = Some((certificate, write(folder, "tls.key", &old.key)));
    })
    .await;
    let reaches = async || {
        let client = server.as_admin().await;
        client
            .try_send(http::Method::GET, EVENTS, &[], &serde_json::Value::Null)
            .await
            .is_ok()
    };
    assert!(reaches().await);
    // An incomplete replacement is ignored.
    server.write("tls.crt", &format!("{}{}", new.certificate, second.pem));
    assert!(!server.running.reload().await);
    assert!(reaches().await);
    server.write("tls.key", &new.key);
    assert!(server.running.reload().await);
    // The kubeconfig is written anew, and trusts the present authority.
    assert!(reaches().await);
    server.write("tls.crt", &format!("{}{}", old.certificate, first.pem));
    server.write("tls.key", &old.key);
    assert!(server.running.reload().await);
    assert!(reaches().await);

    // A renewed certificate of the same key; the file is missing at one check.
    let reloads = async || {
        let answer = server.as_admin().await.get("/metrics").await;
        let text = answer.body.as_str().unwrap().to_owned();
        let name = "tidings_file_reloads_total{result=\"success\"} ";
        let count = text.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse::<u64>().unwrap()
    };
    let before = reloads().await;
    let renewed = format!("{}{}\n", old.certificate, first.pem);
    server.write("tls.crt", &renewed);
    std::fs::remove_file(server.folder.path().join("tls.key")).unwrap();
    assert!(!server.running.reload().await);
    assert!(reaches().await);
    server.write("tls.key", &old.key);
    assert!(server.running.reload().await);
    assert_eq!(reloads().await, before + 1);
    server.running.shutdown().await;
}

/// A self-signed certificate is its own authority. Its name may be another, too.
#[tokio::test]
async fn the_kubeconfig_of_an_archive_trusts_the_certificate_in_force() {
    let signed = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    let folder = tempfile::tempdir().unwrap();
    let put = |(certificate, key): (String, String)| {
        let certificate = write(folder.path(), "tls.crt", &certificate);
        (certificate, write(folder.path(), "tls.key", &key))
    };
    let files = put(signed(&["127.0.0.1", "localhost"]));
    let clusters = vec![cluster("prod", &["a.1"]).await];
    let archive = Archive::start_with(clusters, |options| {
        options.security.tls_files = Some(files);
    });
    let archive = archive.await.unwrap();
    let name = || {
        let text = std::fs::read_to_string(archive.running.kubeconfig()).unwrap();
        text.contains("tls-server-name: events.example")
    };
    let reaches = async || {
        let admin = archive.to_cluster("prod", &token("t-admin")).await;
        admin.get(EVENTS).await.code == 200
    };
    assert!(reaches().await && !name());
    for (names, is_named) in [
        (&["127.0.0.1"] as &[&str], false),
        (&["events.example"], true),
        (&["127.0.0.1"], false),
    ] {
        put(signed(names));
        assert!(archive.running.reload().await);
        assert!(reaches().await, "{names:?}");
        assert_eq!(name(), is_named, "{names:?}");
    }
    archive.running.shutdown().await;
}

/// Sends a certificate without checking it.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Requests events over one version of TLS, with a certificate, a key and optionally a token.
async fn ask(
    server: &Server,
    version: &'static SupportedProtocolVersion,
    (certificate, key): (&str, &str),
    token: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let authority = server.folder.path().join("data/pki/ca.crt");
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let shows = Shows(Arc::new(CertifiedKey::new(vec![certificate], key)));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(shows));
    let stream = TcpStream::connect(server.running.address()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let credentials = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let request =
        format!("GET {EVENTS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{credentials}\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(until_the_end(&mut stream).await)
}

/// TLS checks only that the client has the key: an invalid certificate gets an answer with the
/// reason, not a failed handshake.
#[tokio::test]
async fn certificates_that_are_not_good_are_told_why() {
    let (authority, foreign) = (Authority::new("clients"), Authority::new("clients"));
    let server = Server::start(|options, folder| {
        options.security.client_ca_file = Some(write(folder, "clients.pem", &authority.pem));
    })
    .await;
    let good = authority.client("ann", &[], 2040);
    let other_key = Signed {
        key: foreign.client("ann", &[], 2040).key,
        ..good.clone()
    };
    let no_key = "";
    for version in [&TLS12, &TLS13] {
        for (what, signed, why) in [
            ("good", &good, None),
            ("another's key", &other_key, Some(no_key)),
            (
                "expired",
                &authority.client("ann", &[], 2021),
                Some("it has expired"),
            ),
            (
                "foreign",
                &foreign.client("ann", &[], 2040),
                Some("no authority that is trusted here vouches for it"),
            ),
            (
                "version 1",
                &authority.version_1("ann"),
                Some("it is of X.509 version 1, and version 3 is needed"),
            ),
            (
                "an authority's",
                &authority.intermediate("ann"),
                Some("it is an authority's own (CA:TRUE), and a client's is needed"),
            ),
        ] {
            let case = format!("{what} {:?}", version.version);
            let pem = (&*signed.certificate, &*signed.key);
            let answer = ask(&server, version, pem, "").await;
            match (why, answer) {
                (None, answer) => assert!(answer.unwrap().starts_with("HTTP/1.1 200"), "{case}"),
                (Some(why), Ok(answer)) if why == no_key => assert_eq!(answer, "", "{case}"),
                (Some(why), Err(_)) if why == no_key => {}
                (Some(why), answer) => {
                    let answer = answer.expect(&case);
                    assert!(answer.starts_with("HTTP/1.1 401"), "{case}: {answer}");
                    let warning =
                        format!("warning: 299 - \"the client certificate is not accepted: {why}\"");
                    assert!(answer.contains(&warning), "{case}: {answer}");
                    // Other credentials are still valid.
                    let answer = ask(&server, version, pem, "t-ann").await.unwrap();
                    assert!(answer.starts_with("HTTP/1.1 200"), "{case}: {answer}");
                }
            }
        }
    }
    server.running.shutdown().await;
}
