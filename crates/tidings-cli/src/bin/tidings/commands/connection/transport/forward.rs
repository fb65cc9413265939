//! Connections to a proxy that forwards requests without TLS: the client then sends whole addresses
//! in its requests.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::{BoxError, Service};

/// A connector to a proxy, whatever server is asked for.
#[derive(Clone)]
pub(super) struct Forward<C> {
    proxy: Uri,
    connector: C,
}

impl<C> Forward<C> {
    pub(super) fn new(proxy: &Uri, connector: C) -> Self {
        Self {
            proxy: proxy.clone(),
            connector,
        }
    }
}

impl<C> Service<Uri> for Forward<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = Forwarded<C::Response>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connector.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connecting = self.connector.call(self.proxy.clone());
        Box::pin(async { connecting.await.map(Forwarded).map_err(io::Error::other) })
    }
}

/// A connection to a proxy.
pub(super) struct Forwarded<S>(S);

impl<S: Connection> Connection for Forwarded<S> {
    fn connected(&self) -> Connected {
        self.0.connected().proxy(true)
    }
}

impl<S: Read + Unpin> Read for Forwarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Forwarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
