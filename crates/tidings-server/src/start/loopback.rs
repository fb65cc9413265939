//! Serves the timeline to a person at their own machine: on the loopback interface, over plain
//! HTTP, and only through a link that can be used once.
//!
//! A request under another host name, or without the cookie that the link sets, gets nothing about
//! any event.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use http::HeaderValue;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::StartError;
use super::inside::{bearer, closed};
use crate::api::server::ApiOptions;
use crate::api::server::ApiServer;
use crate::api::server::FollowedCluster;
use crate::timeline::{self, Entrance, PREFIX, Timeline};

/// A timeline that is served on the loopback interface. Dropping it without
/// [`shutdown`](RunningTimeline::shutdown) also ends it, but without waiting for anything.
pub struct RunningTimeline {
    address: SocketAddr,
    code: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Leaves out the secret code.
impl std::fmt::Debug for RunningTimeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningTimeline")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl RunningTimeline {
    /// The address on which the timeline listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link that gives one browser access, for as long as the timeline is served. Whoever opens
    /// it first sees all served events.
    pub fn link(&self) -> String {
        format!("http://{}{PREFIX}/enter?code={}", self.address, self.code)
    }

    /// Ends all connections.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the task has ended already.
            let _ = stop.send(());
        }
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the timeline ended abnormally");
        }
    }
}

/// Starts the timeline of followed clusters on the loopback interface; port 0 chooses a free one.
/// Nothing else is served, and [`RunningTimeline::link`] is the only access. Needs a tokio runtime.
///
/// # Errors
/// [`StartError`] says which address or cluster was wrong.
pub async fn start_timeline(
    port: u16,
    clusters: Vec<FollowedCluster>,
    options: ApiOptions,
) -> Result<RunningTimeline, StartError> {
    let (all, credentials) = closed(clusters, options)?;
    let root = Arc::clone(&all.root);
    let make = |entrance| Timeline::of_archive(all, entrance);
    start(port, root, credentials, make).await
}

/// Starts the timeline of one server on the loopback interface, as [`start_timeline`] does for
/// clusters. The link gives the access of the token's user.
///
/// # Errors
/// [`StartError`] says which address was wrong, or that the token cannot be sent in a header.
pub async fn start_timeline_of_server(
    port: u16,
    server: &Arc<ApiServer>,
    token: &str,
) -> Result<RunningTimeline, StartError> {
    let make = |entrance| Timeline::of_server(Arc::clone(server), entrance);
    start(port, Arc::clone(server), bearer(token)?, make).await
}

async fn start(
    port: u16,
    server: Arc<ApiServer>,
    credentials: HeaderValue,
    make: impl FnOnce(Entrance) -> Timeline,
) -> Result<RunningTimeline, StartError> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let listening = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", address.port()));
    let timeline = make(Entrance::Link {
        hosts: hosts.into(),
    });
    let code = timeline.make_code(credentials)?;
    let router = timeline::router(Arc::new(timeline));
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, server, router, stopped));
    Ok(RunningTimeline {
        address,
        code,
        stop: Some(stop),
        task,
    })
}

/// Accepts and serves connections until it is stopped.
async fn serve(
    listener: TcpListener,
    server: Arc<ApiServer>,
    router: Router,
    mut stopped: oneshot::Receiver<()>,
) {
    let service = TowerToHyperService::new(router);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // A dropped sender stops it, too.
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(super::serve::ACCEPT_RETRY).await;
            continue;
        };
        let Some(place) = server.connections.enter(peer.ip()).await else {
            continue;
        };
        let (service, server) = (service.clone(), Arc::clone(&server));
        connections.spawn(async move {
            tokio::select! {
                () = place.needed() => {}
                () = connection(stream, service, &server) => {}
            }
        });
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, service: TowerToHyperService<Router>, server: &ApiServer) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(server.options.idle_timeout)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection ended with an error");
    }
}
