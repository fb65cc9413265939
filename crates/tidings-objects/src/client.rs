//! The HTTP client for the object storage of clouds.
//!
//! It reaches and verifies storages as all clients of tidings do (`tidings-connect`). Invariant: a
//! cloud's metadata service is asked without a proxy, because it answers only the machine itself.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use tidings_connect::proxy::{self, Proxies, ProxyError};
use tidings_connect::{Client, ClientOptions, RequestError};

/// Maximum time to connect to a storage.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request waits for its answer to begin, on top of the time for sending it.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The slowest rate, in bytes per second, at which a request is assumed to be sent.
const SENT_A_SECOND: usize = 128 << 10;
/// The error for a request that would be sent without TLS.
const PLAIN: &str = "plain HTTP takes AWS_ALLOW_HTTP=true, GOOGLE_ALLOW_HTTP=true or AZURE_ALLOW_HTTP=true, whichever cloud it is";

/// Makes HTTP clients that verify certificates by the system's authorities.
#[derive(Debug)]
pub(crate) struct Clients;

impl HttpConnector for Clients {
    fn connect(
        &self,
        options: &object_store::client::ClientOptions,
    ) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = client(allow_http.as_deref() == Some("true"));
        let client = client.map_err(|source| object_store::Error::Generic {
            store: "HTTP",
            source,
        })?;
        Ok(HttpClient::new(Service { client }))
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn client(allows_plain: bool) -> Result<Client<HttpRequestBody>, Failure> {
    let mut options = ClientOptions::new(tidings_connect::tls(None)?);
    options.proxies = Proxies::Chosen(proxy_of);
    options.allows_plain = allows_plain;
    options.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(Client::new(options)?)
}

/// The environment's proxy for a server.
fn proxy_of(server: &Uri) -> Result<Option<Uri>, ProxyError> {
    if is_metadata(server.host().unwrap_or_default()) {
        return Ok(None);
    }
    proxy::of_process(server)
}

/// Whether a host is the metadata service of a cloud.
fn is_metadata(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        // The second network is that of AWS: instance metadata, and the identities of pods.
        Ok(IpAddr::V6(address)) => {
            address.is_unicast_link_local() || address.segments().starts_with(&[0xfd00, 0xec2])
        }
        Err(_) => matches!(host, "metadata" | "metadata.google.internal"),
    }
}

#[derive(Debug)]
struct Service {
    client: Client<HttpRequestBody>,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let within = answer_max(request.body().content_length());
        let answer = tokio::time::timeout(within, self.client.request(request)).await;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Timeout, error))?;
        let answer = answer.map_err(|error| match error {
            // Errors of this kind are not retried.
            RequestError::Plain => {
                HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(PLAIN))
            }
            RequestError::Proxy(_) => HttpError::new(HttpErrorKind::Unknown, error),
            _ if error.is_connect() => HttpError::new(HttpErrorKind::Connect, error),
            _ => HttpError::new(HttpErrorKind::Request, error),
        })?;
        let (parts, body) = answer.into_parts();
        let body = http_body_util::BodyExt::map_err(body, |error| {
            HttpError::new(HttpErrorKind::Interrupted, error)
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Returns how long the answer to a request of `bytes` bytes may take to begin. The time grows with
/// the bytes, as a merged file takes minutes to send on a slow line.
fn answer_max(bytes: usize) -> Duration {
    let seconds = u64::try_from(bytes / SENT_A_SECOND).unwrap_or(u64::MAX);
    ANSWER_MAX.saturating_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
    };
    use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Environment variable with the address to which a child process sends a request.
    const ADDRESS: &str = "TIDINGS_TEST_STORAGE";
    const NAME: &str = "storage.example";

    /// A certificate, and its key.
    type Certified = (CertificateDer<'static>, Vec<u8>);

    fn params() -> CertificateParams {
        CertificateParams::new([NAME.to_owned(), "127.0.0.1".to_owned()]).unwrap()
    }

    /// A certificate issued by an authority with these changes, and the authority's certificate in
    /// PEM.
    fn issued(change: fn(&mut CertificateParams)) -> (Certified, String) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut authority);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap());
        let authority = authority.unwrap();
        let made = params().signed_by(&key, &authority).unwrap();
        let own = (made.der().clone(), key.serialize_der());
        (own, authority.pem())
    }

    /// The certificate that `openssl req -x509` makes, which is its own authority.
    fn self_signed() -> (Certified, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = params();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let made = params.self_signed(&key).unwrap();
        ((made.der().clone(), key.serialize_der()), made.pem())
    }

    /// A server with a certificate, which answers everything.
    async fn answering((certificate, key): &Certified) -> SocketAddr {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivatePkcs8KeyDer::from(key.clone());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust the certificate disconnects.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        });
        address
    }

    /// A proxy whose tunnels all end at one server, and the first lines of its requests.
    async fn proxy_to(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(near.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let line = head.lines().next().unwrap_or_default();
                seen.lock().unwrap().push(line.to_owned());
                let mut far = TcpStream::connect(server).await.unwrap();
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
        (address, heads)
    }

    /// Whether a child process with these roots and this environment gets an answer. A process has
    /// only one set of roots and proxies.
    fn is_answered(address: &str, roots: &str, environment: &[(&str, &str)]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem");
        std::fs::write(&file, roots).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args([
                "client::tests::child",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(ADDRESS, address)
            .env("SSL_CERT_FILE", &file)
            .env_remove("SSL_CERT_DIR");
        for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
            child.env_remove(name);
        }
        let output = child.envs(environment.iter().copied()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        text.contains("was answered")
    }

    /// By the authorities of `SSL_CERT_FILE`.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_storage_is_verified_as_go_does_it() {
        let (leaf, authority) = issued(|_| {});
        let (_, other) = issued(|_| {});
        let (of_over, over) = issued(|it| it.not_after = date_time_ymd(2020, 1, 1));
        let (own, own_authority) = self_signed();
        for (what, certified, roots, expected) in [
            ("of an authority", &leaf, &authority, true),
            ("of another authority", &leaf, &other, false),
            ("of an authority that expired", &of_over, &over, false),
            ("self-signed, CA:TRUE", &own, &own_authority, true),
        ] {
            let server = answering(certified).await;
            let found = is_answered(&format!("https://{server}"), roots, &[]);
            assert_eq!(found, expected, "a certificate {what}");
        }
    }

    /// The child's part; not a separate test.
    #[tokio::test]
    #[ignore = "run by the test above"]
    async fn child() {
        let Ok(address) = std::env::var(ADDRESS) else {
            return;
        };
        let request = http::Request::get(address).body(HttpRequestBody::empty());
        match client(false).unwrap().request(request.unwrap()).await {
            Ok(_) => println!("was answered"),
            Err(error) => println!("failed: {error:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_proxy_of_the_environment_leads_to_a_storage() {
        let (leaf, authority) = issued(|_| {});
        let (proxy, heads) = proxy_to(answering(&leaf).await).await;
        let proxy = format!("http://{proxy}");
        let tunnelled = format!("CONNECT {NAME}:443 HTTP/1.1");
        for (environment, expected) in [
            (&[("HTTPS_PROXY", proxy.as_str())][..], true),
            (&[("https_proxy", &proxy)], true),
            (&[("HTTPS_PROXY", &proxy), ("NO_PROXY", "example")], false),
            (
                &[("HTTPS_PROXY", &proxy), ("NO_PROXY", "other.example")],
                true,
            ),
            (&[], false),
        ] {
            // Nothing but the proxy leads to this name.
            let found = is_answered(&format!("https://{NAME}"), &authority, environment);
            let asked = std::mem::take(&mut *heads.lock().unwrap());
            assert_eq!(found, expected, "{environment:?}");
            assert_eq!(asked, vec![tunnelled.clone(); usize::from(expected)]);
        }
    }

    #[test]
    fn what_is_long_has_the_time_to_be_sent() {
        for (bytes, seconds) in [(0, 60), (100 << 10, 60), (1 << 20, 68), (32 << 20, 316)] {
            assert_eq!(answer_max(bytes), Duration::from_secs(seconds), "{bytes}");
        }
    }

    #[test]
    fn no_proxy_leads_to_the_metadata_of_a_cloud() {
        for (host, expected) in [
            ("169.254.169.254", true),
            ("169.254.170.2", true),
            ("[fd00:ec2::254]", true),
            ("[fd00:ec2::23]", true),
            ("[fd00:ec3::23]", false),
            ("metadata.google.internal", true),
            ("10.0.0.1", false),
            ("storage.googleapis.com", false),
            ("metadata.example", false),
        ] {
            assert_eq!(is_metadata(host), expected, "{host}");
        }
    }
}
