//! Connects to a server, directly or through its proxy. TLS to the server is laid over it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceExt};

use crate::proxy::{self, Proxies};

/// A connector for hyper's client.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) tcp: HttpConnector,
    /// The connector to proxies at `https://`.
    pub(crate) secure: HttpsConnector<HttpConnector>,
    pub(crate) proxies: Proxies,
}

impl Connector {
    async fn connect(self, server: Uri) -> Result<Stream, BoxError> {
        let proxy = self.proxies.of(&server)?;
        let is_forwarded = proxy.as_ref().is_some_and(|it| is_forwarded(it, &server));
        let inner = match proxy {
            None => MaybeHttpsStream::Http(self.tcp.oneshot(server).await?),
            Some(proxy) if is_forwarded => self.secure.oneshot(proxy).await?,
            Some(proxy) => self.tunnel(proxy, server).await?,
        };
        Ok(Stream {
            inner,
            is_forwarded,
        })
    }

    async fn tunnel(self, proxy: Uri, server: Uri) -> Result<Inner, BoxError> {
        proxy::check(&proxy)?;
        if matches!(proxy.scheme_str(), Some("http" | "https")) {
            let tunnel = Tunnel::new(proxy.clone(), self.secure);
            let tunnel = match authorization(&proxy) {
                Some(login) => tunnel.with_auth(login),
                None => tunnel,
            };
            return Ok(tunnel.oneshot(server).await?);
        }
        // The proxy resolves the host's name.
        let socks = SocksV5::new(proxy.clone(), self.tcp);
        let socks = match proxy::login(&proxy) {
            Some((name, password)) => socks.with_auth(name, password),
            None => socks,
        };
        let connected = socks.oneshot(with_port(server)).await?;
        Ok(MaybeHttpsStream::Http(connected))
    }
}

/// Whether requests to the server are sent to the proxy itself: proxies refuse tunnels to other
/// ports than that of HTTPS.
pub(crate) fn is_forwarded(proxy: &Uri, server: &Uri) -> bool {
    server.scheme_str() == Some("http") && matches!(proxy.scheme_str(), Some("http" | "https"))
}

/// The header with the name and the password in a proxy's address.
pub(crate) fn authorization(proxy: &Uri) -> Option<HeaderValue> {
    let (name, password) = proxy::login(proxy)?;
    let login = STANDARD.encode(format!("{name}:{password}"));
    let mut header = HeaderValue::try_from(format!("Basic {login}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// A server's address with the port of its scheme, because the SOCKS connector takes that of HTTPS.
fn with_port(server: Uri) -> Uri {
    let (Some("http"), Some(host), None) = (server.scheme_str(), server.host(), server.port_u16())
    else {
        return server;
    };
    let mut parts = server.clone().into_parts();
    parts.authority = format!("{host}:80").parse().ok();
    Uri::from_parts(parts).unwrap_or(server)
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        Box::pin(self.clone().connect(server))
    }
}

type Inner = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to a server, or to a proxy that forwards requests. To such a proxy hyper sends
/// whole addresses in requests.
pub(crate) struct Stream {
    inner: Inner,
    is_forwarded: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.inner.connected().proxy(self.is_forwarded)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
