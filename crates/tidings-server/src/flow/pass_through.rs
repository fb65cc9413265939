//! The client that proxies requests to a followed cluster, with its limits.
//!
//! It has no credentials of its own. The cluster authenticates a request only by the request's own
//! headers: the TLS configuration has no client certificate, and no header is added.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, Uri};
use hyper::body::Incoming;
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tidings_connect::proxy::{Proxies, ProxyError};
use tidings_connect::{Client, ClientOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum time to connect to a cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Keep-alive of a silent HTTP/2 connection: its interval, and the time for an answer.
///
/// Without an answer in time the connection is ended. These are client-go's values. All requests to
/// a cluster share one connection, so a dead one, for example of a failed load balancer, would
/// delay all of them for as long as TCP tries.
const KEEP_ALIVE: KeepAlive = KeepAlive {
    every: Duration::from_secs(30),
    within: Duration::from_secs(15),
};
/// Maximum bytes that are buffered of an answer over HTTP/1.1, and of its head.
const BUFFER_MAX: usize = 64 << 10;
/// Maximum bytes that a cluster may send ahead over HTTP/2: of an answer, and of all answers. One
/// that is not read must not stop the others.
const WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = WINDOW * (REQUESTS_MAX + LONG_REQUESTS_MAX) as u32;
/// Maximum idle connections.
const IDLE_MAX: usize = 8;
/// Default maximum of concurrent requests.
const REQUESTS_MAX: usize = 100;
/// Default maximum of concurrent watches and followed logs.
const LONG_REQUESTS_MAX: usize = 1000;

/// A client of a followed cluster's API server, for reads that are not about events. Clones share
/// connections and limits.
#[derive(Clone)]
pub struct PassThrough {
    server: Uri,
    client: Client<Body>,
    requests: Arc<Semaphore>,
    long_requests: Arc<Semaphore>,
}

/// How a cluster's API server is reached and verified. By default it is reached without a proxy,
/// and verified by the system's roots and the host of its address.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct PassThroughOptions {
    /// Certificates of the authorities of its certificate, in PEM form. `None` means the system's
    /// roots.
    pub authority_pem: Option<Vec<u8>>,
    /// The name that the server's certificate must have, which is also sent to it (SNI). `None`
    /// means the host of its address.
    pub server_name: Option<String>,
    /// Address of a proxy to the server: `http://`, `https://`, `socks5://` or `socks5h://`, with
    /// the user and the password for it. As in other clients of Kubernetes, a proxy at `https://`
    /// is verified by the same authorities and name as the API server.
    pub proxy: Option<Uri>,
}

/// The interval of keep-alive probes, and the time for an answer.
#[derive(Clone, Copy)]
struct KeepAlive {
    every: Duration,
    within: Duration,
}

/// The reason why requests cannot be proxied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassThroughError {
    /// The server's address is not valid.
    #[error("not an address of an API server, https://host:port: {address:?}")]
    Address {
        /// The given address.
        address: String,
    },
    /// The certificates of the authorities are not valid.
    #[error("not usable certificates of the cluster's authority: {why}")]
    Authority {
        /// The mistake in them.
        why: String,
    },
    /// No authority is named, and the system has no usable roots.
    #[error("the cluster's authority is not named, and the system's roots are not usable: {why}")]
    Roots {
        /// The reason why they are not usable.
        why: String,
    },
    /// The name of the server is not valid.
    #[error("not a name of a server: {name:?}")]
    ServerName {
        /// The given name.
        name: String,
    },
    /// The address of the proxy to the cluster cannot be used.
    #[error(transparent)]
    Proxy(ProxyError),
}

impl std::fmt::Debug for PassThroughOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The proxy's address may contain a password.
        f.debug_struct("PassThroughOptions")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PassThrough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassThrough")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl PassThrough {
    /// A client of an API server at `https://host:port`, with or without a path. The server's
    /// certificate must be of these authorities (in PEM form). At most 100 requests, and 1,000
    /// watches and followed logs, are concurrent; any more get 429.
    ///
    /// # Errors
    ///
    /// [`PassThroughError`] for an invalid address or invalid certificates.
    pub fn new(server: &str, authority_pem: &[u8]) -> Result<Self, PassThroughError> {
        let options = PassThroughOptions {
            authority_pem: Some(authority_pem.to_vec()),
            ..PassThroughOptions::default()
        };
        Self::with_options(server, &options)
    }

    /// A client of an API server that is reached or verified as the options say. The server is
    /// always verified, because callers' tokens are sent to it.
    ///
    /// # Errors
    ///
    /// [`PassThroughError`] for an invalid address, invalid certificates or an invalid name, for a
    /// proxy of another kind, and if the system's roots are needed and cannot be used.
    pub fn with_options(
        server: &str,
        options: &PassThroughOptions,
    ) -> Result<Self, PassThroughError> {
        Self::kept_alive(server, options, KEEP_ALIVE)
    }

    fn kept_alive(
        server: &str,
        options: &PassThroughOptions,
        keep_alive: KeepAlive,
    ) -> Result<Self, PassThroughError> {
        let address = || PassThroughError::Address {
            address: server.to_owned(),
        };
        let server: Uri = server.parse().map_err(|_| address())?;
        let is_plain = server.scheme_str() == Some("https") && server.query().is_none();
        if !is_plain || server.host().is_none_or(str::is_empty) {
            return Err(address());
        }
        Ok(Self {
            server,
            client: client(options, keep_alive)?,
            requests: places(REQUESTS_MAX),
            long_requests: places(LONG_REQUESTS_MAX),
        })
    }

    /// The same client with other limits: of concurrent requests, and of watches and followed logs.
    #[must_use]
    pub fn limits(mut self, requests: usize, long_requests: usize) -> Self {
        self.requests = places(requests);
        self.long_requests = places(long_requests);
        self
    }

    /// Takes a place for a request, or for a watch or a followed log, if one is free.
    pub(crate) fn place(&self, is_long: bool) -> Option<OwnedSemaphorePermit> {
        let places = if is_long {
            &self.long_requests
        } else {
            &self.requests
        };
        Arc::clone(places).try_acquire_owned().ok()
    }

    /// Sends a request without a body to a path, with its query, below the server's address.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
    ) -> Result<Passed, PassError> {
        let base = self.server.path().trim_end_matches('/');
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.server.authority().map_or("", |it| it.as_str()))
            .path_and_query(format!("{base}{target}"))
            .build()
            .map_err(|_| PassError::Address)?;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let answer = self.client.request(request).await.map_err(|error| {
            let why = chain(&error);
            if error.is_connect() {
                PassError::Unreachable(why)
            } else {
                PassError::Broken(why)
            }
        })?;
        // No other protocol was requested, and none is passed to the client.
        if answer.status().is_informational() {
            return Err(PassError::Broken(format!(
                "its code is {}",
                answer.status()
            )));
        }
        Ok(answer)
    }
}

/// A client that connects as the options say.
fn client(
    options: &PassThroughOptions,
    keep_alive: KeepAlive,
) -> Result<Client<Body>, PassThroughError> {
    let name = |name: &String| {
        ServerName::try_from(name.clone())
            .map_err(|_| PassThroughError::ServerName { name: name.clone() })
    };
    let mut connect = ClientOptions::new(tls(options.authority_pem.as_deref())?);
    connect.server_name = options.server_name.as_ref().map(name).transpose()?;
    connect.proxies = Proxies::Fixed(options.proxy.clone());
    connect.has_http2 = true;
    connect.connect_timeout = Some(CONNECT_TIMEOUT);
    // For HTTP/1.1, where only TCP has keep-alive probes.
    connect.tcp.set_keepalive(Some(keep_alive.every));
    connect.tcp.set_keepalive_interval(Some(keep_alive.within));
    connect
        .http
        .http2_keep_alive_interval(keep_alive.every)
        .http2_keep_alive_timeout(keep_alive.within)
        .http1_max_buf_size(BUFFER_MAX)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX);
    Client::new(connect).map_err(PassThroughError::Proxy)
}

fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// A cluster's answer.
pub(crate) type Passed = Response<Incoming>;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the path cannot be below that of the cluster")]
    Address,
    #[error("the cluster cannot be reached: {0}")]
    Unreachable(String),
    #[error("the cluster's answer is not valid: {0}")]
    Broken(String),
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A TLS configuration with these authorities, or the system's.
fn tls(authority_pem: Option<&[u8]>) -> Result<ClientConfig, PassThroughError> {
    let Some(pem) = authority_pem else {
        return tidings_connect::tls(None).map_err(|error| PassThroughError::Roots {
            why: error.to_string(),
        });
    };
    let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    tidings_connect::tls(Some(&authorities.map_err(unusable)?)).map_err(unusable)
}

fn unusable(why: impl std::fmt::Display) -> PassThroughError {
    PassThroughError::Authority {
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Mutex;

    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use rustls::ServerConfig;
    use rustls_pki_types::PrivatePkcs8KeyDer;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;
    use tokio::time::timeout;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::server::TlsStream;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    /// Environment variable with the folder of the system's roots, for a child process.
    const FOLDER: &str = "TIDINGS_TEST_ROOTS";

    type Certified = rcgen::CertifiedKey<rcgen::KeyPair>;
    /// What a server observed, in order.
    type Seen = Arc<Mutex<Vec<String>>>;

    fn certified(name: &str) -> Certified {
        rcgen::generate_simple_self_signed([name.to_owned()]).unwrap()
    }

    fn options(own: &Certified) -> PassThroughOptions {
        PassThroughOptions {
            authority_pem: Some(own.cert.pem().into_bytes()),
            ..PassThroughOptions::default()
        }
    }

    fn acceptor(own: &Certified) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }

    async fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Serves a connection on which every request is answered.
    fn answered(stream: TlsStream<TcpStream>) -> impl Future<Output = hyper::Result<()>> + Send {
        let answer = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer)
    }

    /// A server that answers everything, and the server names that it was asked for.
    async fn answering(own: &Certified) -> (SocketAddr, Seen) {
        let (listener, address) = listening().await;
        let (acceptor, names) = (acceptor(own), Seen::default());
        let seen = Arc::clone(&names);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust the certificate disconnects.
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let name = stream.get_ref().1.server_name().unwrap_or_default();
                seen.lock().unwrap().push(name.to_owned());
                tokio::spawn(answered(stream));
            }
        });
        (address, names)
    }

    /// An HTTP proxy, with a certificate or without, and the heads of its requests.
    async fn proxy(own: Option<&Certified>) -> (SocketAddr, Seen) {
        let (listener, address) = listening().await;
        let (acceptor, heads) = (own.map(acceptor), Seen::default());
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                match &acceptor {
                    Some(acceptor) => {
                        let stream = acceptor.accept(stream).await.unwrap();
                        tokio::spawn(tunnelled(stream, Arc::clone(&seen)));
                    }
                    None => {
                        tokio::spawn(tunnelled(stream, Arc::clone(&seen)));
                    }
                }
            }
        });
        (address, heads)
    }

    async fn tunnelled(mut near: impl AsyncRead + AsyncWrite + Unpin, heads: Seen) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(near.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        heads.lock().unwrap().push(head);
        let mut far = TcpStream::connect(target).await.unwrap();
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        // The copy ends when the client disconnects.
        let _ = copy_bidirectional(&mut near, &mut far).await;
    }

    /// A SOCKS proxy, and the servers that it connected to.
    async fn socks() -> (SocketAddr, Seen) {
        let (listener, address) = listening().await;
        let targets = Seen::default();
        let seen = Arc::clone(&targets);
        tokio::spawn(async move {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut greeting = [0; 3];
            near.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting, [5, 1, 0]);
            near.write_all(&[5, 0]).await.unwrap();
            let mut asked = [0; 10];
            near.read_exact(&mut asked).await.unwrap();
            let [5, 1, 0, 1, host @ .., high, low] = asked else {
                panic!("{asked:?}");
            };
            let target = SocketAddr::from((host, u16::from_be_bytes([high, low])));
            seen.lock().unwrap().push(target.to_string());
            let mut far = TcpStream::connect(target).await.unwrap();
            let done = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            near.write_all(&done).await.unwrap();
            let _ = copy_bidirectional(&mut near, &mut far).await;
        });
        (address, targets)
    }

    /// A client of a server through a proxy.
    fn through(
        proxy: &str,
        server: SocketAddr,
        own: &Certified,
    ) -> Result<PassThrough, PassThroughError> {
        let options = PassThroughOptions {
            proxy: Some(proxy.parse().unwrap()),
            ..options(own)
        };
        assert!(!format!("{options:?}").contains("secret"));
        PassThrough::with_options(&format!("https://{server}"), &options)
    }

    async fn asked(way: &PassThrough) -> Result<(), PassError> {
        let asked = way.send(Method::GET, "/api", HeaderMap::new());
        let answer = timeout(PATIENCE, asked).await.expect("no answer");
        answer.map(drop)
    }

    #[tokio::test]
    async fn a_server_is_verified_by_the_name_that_is_given_for_it() {
        let own = certified("cluster.example");
        let (address, names) = answering(&own).await;
        for (name, is_answered) in [
            (None, false),
            (Some("other.example"), false),
            (Some("cluster.example"), true),
        ] {
            let options = PassThroughOptions {
                server_name: name.map(str::to_owned),
                ..options(&own)
            };
            let way = PassThrough::with_options(&format!("https://{address}"), &options).unwrap();
            assert_eq!(asked(&way).await.is_ok(), is_answered, "{name:?}");
        }
        assert_eq!(*names.lock().unwrap(), ["cluster.example"]);
        let options = PassThroughOptions {
            server_name: Some("not a name".to_owned()),
            ..options(&own)
        };
        let way = PassThrough::with_options("https://10.0.0.1:6443", &options);
        assert!(matches!(way, Err(PassThroughError::ServerName { .. })));
    }

    #[tokio::test]
    async fn a_proxy_leads_to_the_server_and_sees_nothing_of_a_request() {
        let own = certified("127.0.0.1");
        let (server, _) = answering(&own).await;
        let asked = async |proxy: String| {
            let way = through(&proxy, server, &own).unwrap();
            asked(&way).await.unwrap();
        };
        let (plain, heads) = proxy(None).await;
        for login in ["", "a%40b:secret@"] {
            asked(format!("http://{login}{plain}")).await;
        }
        let (secure, secure_heads) = proxy(Some(&own)).await;
        asked(format!("https://{secure}")).await;
        let head =
            |more: &str| format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{more}\r\n");
        let login = "Proxy-Authorization: Basic YUBiOnNlY3JldA==\r\n";
        assert_eq!(*heads.lock().unwrap(), [head(""), head(login)]);
        assert_eq!(*secure_heads.lock().unwrap(), [head("")]);
        let (socks, targets) = socks().await;
        asked(format!("socks5://{socks}")).await;
        assert_eq!(*targets.lock().unwrap(), [server.to_string()]);
    }

    #[tokio::test]
    async fn without_a_usable_proxy_nothing_is_sent() {
        let own = certified("127.0.0.1");
        let (server, names) = answering(&own).await;
        let way = |proxy: &str| through(proxy, server, &own);
        // Nothing listens at this address.
        let (_, unused) = listening().await;
        for scheme in ["http", "https", "socks5"] {
            let way = way(&format!("{scheme}://{unused}")).unwrap();
            let failed = asked(&way).await;
            assert!(matches!(failed, Err(PassError::Unreachable(_))), "{scheme}");
        }
        for proxy in ["socks4://a:secret@p:1", "ftp://p", "p:1"] {
            let error = way(proxy).unwrap_err();
            assert!(matches!(error, PassThroughError::Proxy(_)), "{proxy}");
            assert!(!error.to_string().contains("secret"));
        }
        assert!(names.lock().unwrap().is_empty());
    }

    #[test]
    fn without_an_authority_the_systems_roots_decide() {
        let folder = tempfile::tempdir().unwrap();
        // A process has only one set of roots, so each case needs a child process.
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["flow::pass_through::tests::child", "--exact", "--ignored"])
            .env(FOLDER, folder.path())
            .env("SSL_CERT_FILE", folder.path().join("roots.pem"))
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{text}");
        assert!(text.contains("1 passed"), "{text}");
    }

    /// The child's part with its roots; not a separate test.
    #[tokio::test]
    #[ignore = "run by the test above"]
    async fn child() {
        let Some(folder) = std::env::var_os(FOLDER) else {
            return;
        };
        let roots = Path::new(&folder).join("roots.pem");
        let own = certified("127.0.0.1");
        let (address, _) = answering(&own).await;
        let way = || {
            let options = PassThroughOptions::default();
            PassThrough::with_options(&format!("https://{address}"), &options)
        };
        assert!(matches!(way(), Err(PassThroughError::Roots { .. })));
        for (root, is_answered) in [(&own, true), (&certified("127.0.0.1"), false)] {
            std::fs::write(&roots, root.cert.pem()).unwrap();
            assert_eq!(asked(&way().unwrap()).await.is_ok(), is_answered);
        }
    }

    /// The connection stays open, but nothing arrives on it, as with a load balancer that failed.
    #[tokio::test]
    async fn a_dead_connection_is_given_up_for_another() {
        let own = certified("127.0.0.1");
        let (listener, address) = listening().await;
        let acceptor = acceptor(&own);
        let (dies, died) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (die, dead) = (Arc::clone(&dies), Arc::clone(&died));
        let served = tokio::spawn(async move {
            let mut kept = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                let mut connection = Box::pin(answered(stream));
                let is_dead = tokio::select! {
                    _ = &mut connection => false,
                    () = die.notified() => true,
                };
                if is_dead {
                    kept.push(connection);
                    dead.notify_one();
                }
            }
        });
        let keep_alive = KeepAlive {
            every: Duration::from_millis(100),
            // A live connection answers in time even on a busy machine.
            within: Duration::from_secs(1),
        };
        let server = format!("https://{address}");
        let way = PassThrough::kept_alive(&server, &options(&own), keep_alive).unwrap();
        let answered = async || {
            let asked = async || way.send(Method::GET, "/api", HeaderMap::new()).await;
            let answered = async { while asked().await.is_err() {} };
            timeout(PATIENCE, answered).await.is_ok()
        };
        assert!(answered().await);
        dies.notify_one();
        timeout(PATIENCE, died.notified()).await.unwrap();
        assert!(answered().await);
        served.abort();
    }

    #[test]
    fn only_https_to_a_trusted_authority() {
        let own = certified("localhost");
        let pem = own.cert.pem();
        for (server, expected) in [
            ("https://10.0.0.1:6443", true),
            ("https://api.example/k8s/clusters/c-1", true),
            ("http://10.0.0.1:6443", false),
            ("10.0.0.1:6443", false),
            ("https:///x", false),
            ("https://10.0.0.1:6443/?x", false),
            ("", false),
        ] {
            let way = PassThrough::new(server, pem.as_bytes());
            assert_eq!(way.is_ok(), expected, "{server}: {way:?}");
        }
        for pem in [
            "",
            "x",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let way = PassThrough::new("https://10.0.0.1:6443", pem.as_bytes());
            assert!(
                matches!(way, Err(PassThroughError::Authority { .. })),
                "{way:?}"
            );
        }
    }
}
