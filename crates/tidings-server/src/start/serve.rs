//! Accepts connections, adds TLS, serves requests, and ends connections in good order.
//!
//! No client can hold a connection without using it. The handshake, the first request, and the
//! pause between two requests each have a deadline, over HTTP/1.1 and HTTP/2. A request in
//! progress, above all a watch, keeps its connection until its own deadline. If the client has not
//! read the rest some time after that, the connection is ended; over HTTP/2 only the stream is
//! reset, because a front proxy has the requests of all its users on one connection. Connections on
//! which no request had valid credentials have a deadline and, over HTTP/2, only one answer.
//! `connections.rs` bounds the number of connections, and `lingering.rs` closes those of HTTP/1.1.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::api::server::ApiServer;
use crate::auth::certificate::PeerCertificate;
use crate::auth::front_proxy::Fronted;
use crate::clock;
use crate::flow::activity::{Activity, Open, Prepared};
use crate::flow::connection_counters::Ending;
use crate::flow::connections::Visitor;
use crate::flow::paced::Lasting;
use crate::http::request::{MCP, is_at_or_below};
use crate::router;
use crate::start::intake::{Intake, Received};
use crate::start::lingering::Lingering;
use crate::start::repolled::Repolled;
use crate::start::tls::Tls;
use crate::timeline;

/// Interval at which a silent connection is probed, by HTTP/2 pings and by TCP. Without an answer
/// it is dropped.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Maximum open requests on one HTTP/2 connection; kube-apiserver's value.
const HTTP2_STREAMS_MAX: u32 = 100;
/// Bytes that Go adds to the limit of a request's head.
const HEAD_SLACK: usize = 4096;
/// Bounds of the limit of a request's head: hyper needs 8 KiB, and kube-apiserver accepts 1 MiB.
const HEAD_BYTES: RangeInclusive<usize> = 8 * 1024..=1024 * 1024;
/// Maximum bytes of one request's body that a client may send before they are read;
/// kube-apiserver's value.
const HTTP2_STREAM_WINDOW: u32 = 256 * 1024;
/// Maximum bytes of all bodies of one connection that may be sent before they are read.
const HTTP2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Maximum requests that a client has reset before the server handled them. One more ends the
/// connection.
const HTTP2_PENDING_RESETS_MAX: usize = 20;
/// Maximum requests of one connection, over its whole lifetime, that were refused for protocol
/// errors. One more ends the connection. The library's own value.
const HTTP2_ERRORS_MAX: usize = 1024;
/// Time for a client without credentials to end its connection after it was told to.
const LINGER: Duration = Duration::from_secs(1);
/// Wait before accepting is tried again, for example when no file descriptors are left.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The services that answer requests.
#[derive(Clone)]
pub(super) struct Served {
    api: TowerToHyperService<Router>,
    /// The timeline's service, if there is one.
    timeline: Option<TowerToHyperService<Router>>,
    /// The service for requests whose user a front proxy named, if there is one.
    aggregated: Option<TowerToHyperService<Router>>,
}

impl Served {
    pub(super) fn new(api: Router, timeline: Option<Router>) -> Self {
        Self {
            api: TowerToHyperService::new(api),
            timeline: timeline.map(TowerToHyperService::new),
            aggregated: None,
        }
    }

    /// Also serves requests whose user a front proxy named. They get to nothing else.
    pub(super) fn with_aggregated(self, aggregated: Router) -> Self {
        Self {
            aggregated: Some(TowerToHyperService::new(aggregated)),
            ..self
        }
    }

    /// The service that answers a request. Takes the headers of front proxies from it: from here
    /// on, they are a user or nothing.
    fn of(
        &self,
        request: &mut Request<Incoming>,
        server: &ApiServer,
    ) -> &TowerToHyperService<Router> {
        if let Some(aggregated) = &self.aggregated
            && fronted(request, server)
        {
            return aggregated;
        }
        let path = request.uri().path();
        let is_timeline = is_at_or_below(path, timeline::PREFIX) || path == MCP;
        let timeline = self.timeline.as_ref();
        timeline.filter(|_| is_timeline).unwrap_or(&self.api)
    }
}

/// Takes the headers of front proxies from a request. Returns whether they name a user, who is
/// attached to the request then.
fn fronted(request: &mut Request<Incoming>, server: &ApiServer) -> bool {
    let Some(proxy) = server.authenticator.front_proxy() else {
        return false;
    };
    let certificate = request.extensions().get::<Arc<PeerCertificate>>().cloned();
    let now = server.clock.now();
    let user = proxy.take_user(certificate.as_deref(), request.headers_mut(), now);
    let Some(user) = user else {
        return false;
    };
    // Its certificate is the connection's credentials, whoever the user is.
    if let Some(visitor) = request.extensions().get::<Arc<Visitor>>() {
        visitor.authenticate();
    }
    request.extensions_mut().insert(Fronted(user));
    true
}

/// Serves the API over TLS until `shutdown` resolves. Then ends watches, finishes requests in
/// flight and returns.
pub async fn serve(
    listener: TcpListener,
    server: Arc<ApiServer>,
    tls: impl Into<Tls>,
    shutdown: impl Future<Output = ()>,
) {
    let api = router(Arc::clone(&server));
    let served = Served::new(api, None);
    serve_api(listener, server, served, tls.into(), shutdown).await;
}

/// Like [`serve`], for an API that has the server's limits and ends with it.
pub(super) async fn serve_api(
    listener: TcpListener,
    server: Arc<ApiServer>,
    served: Served,
    tls: Tls,
    shutdown: impl Future<Output = ()>,
) {
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(async {
        shutdown.await;
        server.stop_soon();
        tokio::time::sleep(server.options.shutdown_delay).await;
    });
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            // Finished connections are removed.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let place = tokio::select! {
            () = &mut shutdown => break,
            place = server.connections.enter(peer.ip()) => place,
        };
        let Some(place) = place else {
            tracing::debug!(%peer, "a connection is refused: its peer has as many as it may");
            continue;
        };
        let acceptor = TlsAcceptor::from(tls.current());
        let (server, served) = (server.clone(), served.clone());
        connections.spawn(async move {
            tokio::select! {
                () = place.needed() => {
                    tracing::debug!(%peer, "a connection without credentials is ended to make room");
                    server.connections.metrics.ended(Ending::Room);
                }
                () = connection(stream, peer, place.visitor(), acceptor, &server, served) => {}
            }
        });
    }
    drop(listener);
    server.stop();
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(server.options.shutdown_grace, ended)
        .await
        .is_err()
    {
        tracing::warn!(
            connections = connections.len(),
            "some requests did not end in time and were cut off"
        );
        connections.shutdown().await;
    }
}

/// Serves one connection, from the handshake to its end.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    visitor: &Arc<Visitor>,
    acceptor: TlsAcceptor,
    server: &Arc<ApiServer>,
    served: Served,
) {
    let options = &server.options;
    let stranger_until =
        clock::deadline(clock::timer(), options.unauthenticated_connection_timeout);
    // Watch events are small and must not wait for more data. If this fails, the handshake will
    // fail, too.
    let _ = stream.set_nodelay(true);
    // Detects clients that disappeared without closing the connection, even if there is nothing to
    // send, as on a quiet watch.
    let keepalive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(KEEP_ALIVE);
    if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "a connection is not kept alive");
    }
    let handshake = tokio::time::timeout(options.tls_handshake_timeout, acceptor.accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            server.connections.metrics.handshake_failed();
            return tracing::debug!(%peer, %error, "TLS handshake failed");
        }
        Err(_) => {
            server.connections.metrics.handshake_failed();
            return tracing::debug!(%peer, "TLS handshake timed out");
        }
    };
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session
        .peer_certificates()
        .map(|chain| Arc::new(PeerCertificate::new(chain.to_vec())));
    let activity = Arc::new(Activity::new(Arc::clone(visitor)));
    let proxy = server.authenticator.front_proxy();
    let is_proxy = |certificate| {
        proxy
            .as_ref()
            .is_some_and(|it| it.is_proxy(certificate, server.clock.now()))
    };
    let asked = match certificate.as_deref() {
        // A user of many groups has a header for each.
        Some(certificate) if is_proxy(certificate) => usize::MAX,
        _ => options.header_bytes_max,
    };
    let head_bytes_max = head_bytes_max(asked);
    let intake = Intake::new(head_bytes_max);
    let service = Connected {
        served,
        server: Arc::clone(server),
        peer,
        http2,
        certificate,
        activity: activity.clone(),
        intake: intake.clone(),
        request_timeout: options.request_timeout,
        grace: options.read_header_timeout,
    };
    let stopped = server.stopped();
    if http2 {
        let connection = hyper::server::conn::http2::Builder::new(Streams)
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .max_concurrent_streams(HTTP2_STREAMS_MAX)
            .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
            .initial_stream_window_size(HTTP2_STREAM_WINDOW)
            .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
            .max_pending_accept_reset_streams(HTTP2_PENDING_RESETS_MAX)
            .max_local_error_reset_streams(HTTP2_ERRORS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        drive(connection, &activity, stopped, stranger_until, server).await;
    } else {
        let stream = TokioIo::new(Lingering::new(stream, intake));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.idle_timeout)
            .max_header_size(head_bytes_max)
            .max_buf_size(head_bytes_max)
            .serve_connection(stream, service);
        drive(connection, &activity, stopped, stranger_until, server).await;
    }
}

/// Maximum bytes of a request's first line and headers, over HTTP/1.1 and HTTP/2. Longer ones are
/// answered with 431, and a URI of more than 65,534 bytes with 414. A connection whose head is
/// incomplete holds no more memory than this.
fn head_bytes_max(asked: usize) -> usize {
    asked.clamp(*HEAD_BYTES.start(), *HEAD_BYTES.end()) + HEAD_SLACK
}

/// Serves a connection until its client ends it, is idle for too long, shows no valid credentials
/// for too long, or the server stops.
async fn drive<C>(
    connection: C,
    activity: &Activity,
    stopped: impl Future<Output = ()>,
    stranger_until: Instant,
    server: &ApiServer,
) where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    let (options, metrics) = (&server.options, &server.connections.metrics);
    let mut connection = pin!(connection);
    let repolled = Repolled::new();
    let mut stranger = pin!(activity.stranger(stranger_until));
    let mut stopped = pin!(stopped);
    let mut idle = pin!(activity.idle(options.read_header_timeout, options.idle_timeout));
    let longest = options
        .request_timeout
        .saturating_add(options.read_header_timeout);
    let mut overdue = pin!(activity.overdue(longest));
    let mut ending = false;
    loop {
        tokio::select! {
            ended = poll_fn(|context| repolled.poll(connection.as_mut(), context)) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended with an error");
                }
                return;
            }
            () = &mut overdue => {
                tracing::debug!("a client did not read an answer in time");
                let reset = activity.reset_overdue();
                if reset == 0 {
                    return metrics.ended(Ending::Untaken);
                }
                metrics.reset(reset);
                overdue.set(activity.overdue(longest));
                continue;
            }
            () = activity.strangers_answers_pile_up() => {
                tracing::debug!("a client without credentials does not read its answers");
                return metrics.ended(Ending::Untaken);
            }
            () = activity.too_many_unproven() => {
                tracing::debug!("a client sends many requests without credentials");
                return metrics.ended(Ending::Unauthenticated);
            }
            () = &mut stopped, if !ending => {}
            () = &mut stranger, if !ending => {
                tracing::debug!("a connection without credentials is ended");
                metrics.ended(Ending::Unauthenticated);
                idle.set(activity.idle(LINGER, LINGER));
            }
            () = &mut idle => {
                if ending {
                    return tracing::debug!("a client would not end an idle connection");
                }
                tracing::debug!("an idle connection is ended");
                metrics.ended(Ending::Idle);
                idle.set(activity.idle(options.read_header_timeout, options.read_header_timeout));
            }
        }
        connection.as_mut().graceful_shutdown();
        ending = true;
    }
}

tokio::task_local! {
    /// Tells the task of an HTTP/2 stream to end.
    static RESET: Arc<Notify>;
}

/// Runs each HTTP/2 stream in a task of its own. A task that is told to end drops its stream, which
/// resets this one and no other.
#[derive(Clone, Copy)]
struct Streams;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let reset = Arc::new(Notify::new());
        let told = Arc::clone(&reset);
        tokio::spawn(RESET.scope(reset, async move {
            tokio::select! {
                _ = stream => {}
                () = told.notified() => {}
            }
        }));
    }
}

/// The API service for one connection.
struct Connected {
    served: Served,
    server: Arc<ApiServer>,
    certificate: Option<Arc<PeerCertificate>>,
    /// The peer's address, for the audit log.
    peer: SocketAddr,
    http2: bool,
    activity: Arc<Activity>,
    intake: Intake,
    request_timeout: Duration,
    /// Time for a client to read the rest of an answer after the request's deadline.
    grace: Duration,
}

impl Service<Request<Incoming>> for Connected {
    type Response = Response<Answer>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let grace = self.grace;
        let open = Open::new(
            &self.activity,
            self.request_timeout.saturating_add(grace),
            self.http2,
        );
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        request.extensions_mut().insert(self.peer);
        let visitor = Arc::clone(self.activity.visitor());
        request.extensions_mut().insert(visitor);
        let http2 = self.http2;
        let answered = self
            .served
            .of(&mut request, &self.server)
            .call(request.map(|body| Received::new(body, &self.intake)));
        Box::pin(async move {
            if let Ok(reset) = RESET.try_with(Arc::clone) {
                open.allow_reset(reset);
            }
            let response = answered.await?;
            let lasting = response.extensions().get().copied();
            match (http2, response.extensions().get()) {
                (true, None::<&Prepared>) => open.answered_over_http2(lasting.is_some()),
                (true, Some(Prepared)) => {}
                (false, _) => open.answered_over_http1(),
            }
            if let Some(Lasting(time)) = lasting {
                open.lasts(time.saturating_add(grace));
            }
            let is_stream = lasting.is_some();
            Ok(response.map(|body| Answer {
                body,
                is_stream,
                is_unread: false,
                open,
            }))
        })
    }
}

/// An answer's body.
struct Answer {
    body: Body,
    /// Whether the answer is a stream, such as a watch.
    is_stream: bool,
    /// For a stream: whether the last message is not read yet, as the next one was not requested.
    is_unread: bool,
    open: Open,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if self.is_stream && (self.is_unread || frame.is_ready()) {
            self.is_unread = frame.is_ready();
            self.open.set_unread(self.is_unread);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
