//! Connections: accepted, put behind TLS, served, and ended in good order.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::router;
use crate::server::ApiServer;

/// A client has this long for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client has this long to send the head of a request; kube-apiserver's own value.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// A silent HTTP/2 connection is pinged this often, and dropped if no answer comes as fast.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// So many requests are open at once on one HTTP/2 connection; kube-apiserver's own value.
const HTTP2_STREAMS_MAX: u32 = 100;
/// So many connections are open at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 10_000;
/// After this, requests that still run at shutdown are cut off.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// When accepting fails (no file descriptors left, say), it is tried again after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves the API over TLS until `shutdown` resolves; then ends watches, finishes what is in flight and returns.
pub async fn serve(
    listener: TcpListener,
    server: Arc<ApiServer>,
    tls: Arc<ServerConfig>,
    shutdown: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let service = TowerToHyperService::new(router(server.clone()));
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let (acceptor, service, watcher) = (acceptor.clone(), service.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _permit = permit;
            // Watch events are small and must not wait for more. Should it fail, the handshake will, too.
            let _ = stream.set_nodelay(true);
            let stream =
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => return tracing::debug!("TLS handshake timed out"),
                };
            let builder = connection_builder();
            let connection = builder
                .serve_connection(TokioIo::new(stream), service)
                .into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(error, "connection ended with an error");
            }
        });
    }
    drop(listener);
    server.stop();
    if tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = connections
        .clone()
        .acquire_owned()
        .await
        .map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

fn connection_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(HTTP2_STREAMS_MAX);
    builder
}
