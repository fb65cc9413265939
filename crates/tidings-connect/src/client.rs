//! The HTTP client.
//!
//! Invariant: a proxy's name and password are sent to the proxy only.

use std::error::Error as StdError;
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::uri::Scheme;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::connector::{Connector, authorization, is_forwarded};
use crate::proxy::{self, Proxies, ProxyError};

/// How a [`Client`] connects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// TLS to servers, and to proxies at `https://`. It must not name protocols (ALPN).
    pub tls: ClientConfig,
    /// The name that certificates must have, which is also sent (SNI). `None` means the host of an
    /// address.
    pub server_name: Option<ServerName<'static>>,
    /// The proxy of each request. By default, the environment variables of the process choose it
    /// (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
    pub proxies: Proxies,
    /// Whether requests without TLS are sent. By default they are an error.
    pub allows_plain: bool,
    /// Whether HTTP/2 is offered to servers, besides HTTP/1.1. By default it is not.
    pub has_http2: bool,
    /// Maximum time to connect, including the proxy and TLS. `None`, the default, means no limit.
    pub connect_timeout: Option<Duration>,
    /// Maximum time that a read waits, from the last byte sent or received. `None`, the default,
    /// means no limit.
    pub read_timeout: Option<Duration>,
    /// Maximum time that a write waits. `None`, the default, means no limit.
    pub write_timeout: Option<Duration>,
    /// Options of TCP, such as keep-alive probes.
    pub tcp: HttpConnector,
    /// Options of HTTP, such as the size of buffers and the pool of connections.
    pub http: legacy::Builder,
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request would be sent without TLS, and the options do not allow that.
    #[error("a request without TLS")]
    Plain,
    /// No proxy can be chosen.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The server cannot be reached, or the connection broke.
    #[error(transparent)]
    Direct(legacy::Error),
    /// The same, through a proxy.
    #[error("through the proxy {proxy}")]
    Proxied {
        /// The proxy's address without a name and a password.
        proxy: String,
        /// What failed.
        source: legacy::Error,
    },
}

impl RequestError {
    /// Whether there was no connection, so the server received nothing.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        match self {
            Self::Plain | Self::Proxy(_) => true,
            Self::Direct(error) | Self::Proxied { source: error, .. } => error.is_connect(),
        }
    }
}

impl ClientOptions {
    /// Options with this TLS configuration, such as that of [`tls`](crate::tls).
    #[must_use]
    pub fn new(tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let mut http = legacy::Client::builder(TokioExecutor::new());
        http.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
        Self {
            tls,
            server_name: None,
            proxies: Proxies::Chosen(proxy::of_process),
            allows_plain: false,
            has_http2: false,
            connect_timeout: None,
            read_timeout: None,
            write_timeout: None,
            tcp,
            http,
        }
    }

    fn secure<C>(&self, connector: C, has_http2: bool) -> HttpsConnector<C> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.tls.clone());
        // A proxy at `http://` is always reached without TLS.
        let builder = builder.https_or_http();
        let builder = match self.server_name.clone() {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => builder,
        };
        if has_http2 {
            builder.enable_all_versions().wrap_connector(connector)
        } else {
            builder.enable_http1().wrap_connector(connector)
        }
    }
}

/// A client with a pool of connections, for requests with bodies of type `B`. Clones share the
/// pool.
///
/// # Example
///
/// ```
/// use tidings_connect::{Client, ClientOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let made = rcgen::generate_simple_self_signed(["bucket.example".to_owned()])?;
/// # let authority = made.cert.der().clone();
/// let mut options = ClientOptions::new(tidings_connect::tls(Some(&[authority]))?);
/// options.connect_timeout = Some(std::time::Duration::from_secs(5));
/// let client: Client<String> = Client::new(options)?;
/// let request = http::Request::get("https://bucket.example/").body(String::new())?;
/// let answer = client.request(request);
/// # drop(answer);
/// # Ok(())
/// # }
/// ```
pub struct Client<B> {
    http: legacy::Client<TimeoutConnector<HttpsConnector<Connector>>, B>,
    proxies: Proxies,
    allows_plain: bool,
}

impl<B> Client<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// A client with these options.
    ///
    /// # Errors
    ///
    /// [`ProxyError::Scheme`] for a fixed proxy whose address has another scheme.
    pub fn new(mut options: ClientOptions) -> Result<Self, ProxyError> {
        if let Proxies::Fixed(Some(proxy)) = &options.proxies {
            proxy::check(proxy)?;
        }
        // TCP divides the time among the addresses of a name, so the next one is tried.
        options.tcp.set_connect_timeout(options.connect_timeout);
        let connector = Connector {
            tcp: options.tcp.clone(),
            // A tunnel begins in HTTP/1.1, so only that may be negotiated with a proxy.
            secure: options.secure(options.tcp.clone(), false),
            proxies: options.proxies.clone(),
        };
        let mut connector = TimeoutConnector::new(options.secure(connector, options.has_http2));
        connector.set_connect_timeout(options.connect_timeout);
        connector.set_read_timeout(options.read_timeout);
        connector.set_write_timeout(options.write_timeout);
        // A pooled connection is read while it waits for the next request.
        connector.set_reset_reader_on_write(true);
        Ok(Self {
            http: options.http.build(connector),
            proxies: options.proxies,
            allows_plain: options.allows_plain,
        })
    }

    /// Sends a request, and waits for the head of its answer. Redirects are not followed.
    ///
    /// # Errors
    ///
    /// [`RequestError`] without an answer.
    pub async fn request(
        &self,
        mut request: Request<B>,
    ) -> Result<Response<Incoming>, RequestError> {
        if !self.allows_plain && request.uri().scheme() != Some(&Scheme::HTTPS) {
            return Err(RequestError::Plain);
        }
        let proxy = self.proxies.of(request.uri())?;
        if let Some(proxy) = &proxy
            && is_forwarded(proxy, request.uri())
            && let Some(login) = authorization(proxy)
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, login);
        }
        let answer = self.http.request(request).await;
        answer.map_err(|source| match proxy {
            Some(proxy) => RequestError::Proxied {
                proxy: proxy::shown(&proxy),
                source,
            },
            None => RequestError::Direct(source),
        })
    }
}

impl<B> Clone for Client<B> {
    fn clone(&self) -> Self {
        Self {
            http: self.http.clone(),
            proxies: self.proxies.clone(),
            allows_plain: self.allows_plain,
        }
    }
}

impl<B> std::fmt::Debug for Client<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("proxies", &self.proxies)
            .finish_non_exhaustive()
    }
}
