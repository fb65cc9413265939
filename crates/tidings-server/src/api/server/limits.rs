//! Limits of requests in flight, of their memory and of their time. They last until the answer's
//! last byte is sent.

use std::convert::Infallible;
use std::future;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::options::ApiOptions;
use super::shares::share_of;
use crate::auth::User;
use crate::clock;
use crate::flow::budget::{Budget, Held};
use crate::flow::connections::{LoginShare, Visitor};
use crate::flow::paced;
use crate::flow::place_counters::{FlowMetrics, Rejection};
use crate::flow::places::{Level, Places, permits};
use crate::http::request::{RequestInfo, RequestLabels};
use crate::http::status::Status;
use crate::metrics::{Metrics, Text};

/// Maximum time of a write of one event, whatever the request timeout is
/// (`requestTimeoutUpperBound`).
const WRITE_TIME_MAX: Duration = Duration::from_secs(34);

/// Divisor of a request's time that gives its maximum wait for a place (`getRequestWaitContext` of
/// `k8s.io/apiserver`).
const WAIT_DIVISOR: u32 = 4;

/// Divisor of the number of processors that gives the long bodies handled at once; at least one.
const LONG_BODIES_DIVISOR: usize = 2;

/// Maximum concurrent logins to the timeline, and maximum waiting ones. Each may hold the head and
/// body of an unknown client.
const LOGINS_MAX: usize = 100;
/// Maximum logins of one peer, including waiting ones, so that one stranger cannot block others.
const PEER_LOGINS_MAX: usize = LOGINS_MAX / 4;

/// Maximum requests that wait for memory of one pool. Also the divisor of reads in flight that
/// gives how many of these may wait: they keep their places meanwhile, which other requests need.
const MEMORY_WAITING_MAX: usize = 100;
const MEMORY_WAITING_DIVISOR: usize = 4;

/// A place in flight. A login's place is also part of its peer's share.
type Place = (OwnedSemaphorePermit, Option<LoginShare>);

/// The result of waiting for a place in flight.
pub(crate) enum Admitted {
    /// A watch, which holds a place only until it has sent the existing events.
    Watch(Option<InitialPlace>),
    Within(Limit),
    Refused(Response),
}

/// The places of requests in flight, and the time limits of requests.
#[derive(Debug)]
pub(crate) struct Limits {
    reads: Places,
    writes: Places,
    /// Places for reviews of oneself, separate because a slow cluster must not delay other
    /// requests.
    reviews: Places,
    /// Places for logins to the timeline, separate because strangers must not delay other requests.
    logins: Places,
    /// Maximum logins that one peer may have, including waiting ones.
    peer_logins_max: usize,
    /// Places for requests with a long body, in addition to one of the above.
    long_bodies: Places,
    /// Places for requests proxied to all followed clusters together, and for the long-running ones
    /// among them. Each cluster has its own bound, too.
    passed: Arc<Semaphore>,
    passed_long: Arc<Semaphore>,
    flow: FlowMetrics,
    /// The memory budget of answers.
    pub(crate) budget: Arc<Budget>,
    request_bytes_max: usize,
    request_timeout: Duration,
    wait_limit: Duration,
}

impl Limits {
    pub(crate) fn new(options: &ApiOptions) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let places = |level| {
            let count = match level {
                Level::ReadOnly => options.max_requests_inflight,
                Level::Mutating | Level::Reviews => options.max_mutating_requests_inflight,
                Level::Logins => LOGINS_MAX,
                Level::LongBodies => (processors / LONG_BODIES_DIVISOR).max(1),
            };
            let waiting_max = if level == Level::Logins {
                options.max_requests_inqueue.min(LOGINS_MAX)
            } else {
                options.max_requests_inqueue
            };
            Places::new(level, count, waiting_max)
        };
        Self {
            reads: places(Level::ReadOnly),
            writes: places(Level::Mutating),
            reviews: places(Level::Reviews),
            logins: places(Level::Logins),
            // Behind a proxy, all logins come from one peer.
            peer_logins_max: match options.max_connections_per_peer {
                0 => usize::MAX,
                _ => PEER_LOGINS_MAX,
            },
            long_bodies: places(Level::LongBodies),
            passed: Arc::new(Semaphore::new(permits(options.max_requests_inflight))),
            passed_long: Arc::new(Semaphore::new(permits(options.max_connections))),
            flow: FlowMetrics::default(),
            budget: Arc::new(Budget::new(
                match options.max_requests_inflight / MEMORY_WAITING_DIVISOR {
                    // 0 means no limit on requests in flight.
                    0 => MEMORY_WAITING_MAX,
                    some => some.min(MEMORY_WAITING_MAX),
                },
                (options.request_wait_limit).min(options.request_timeout / WAIT_DIVISOR),
            )),
            request_bytes_max: options.request_bytes_max,
            request_timeout: options.request_timeout,
            wait_limit: options.request_wait_limit,
        }
    }

    /// Appends the metrics of each level: its places, and its waiting requests.
    pub(crate) fn write(&self, text: &mut Text) {
        let levels = [
            &self.reads,
            &self.writes,
            &self.reviews,
            &self.logins,
            &self.long_bodies,
        ];
        self.flow.write(&levels.map(Places::now), text);
        self.budget.write(text);
    }

    /// Waits for a place for a request, and then for the memory of its answer. Answers 429 after
    /// the maximum wait, or if the peer has used its share. The request's time counts from `began`.
    /// `gone` resolves when the client disconnects. `body` is the length of the request's body, if
    /// it is known.
    pub(crate) async fn admit(
        &self,
        metrics: &Arc<Metrics>,
        info: &RequestInfo,
        (user, visitor): (&User, Option<&Arc<Visitor>>),
        body: Option<u64>,
        began: Instant,
        gone: impl Future<Output = ()>,
    ) -> Admitted {
        let mut longest = self.request_timeout;
        if info.writes_one() {
            longest = longest.min(WRITE_TIME_MAX);
        }
        let timeout = match info.query.timeout() {
            // For a watch, the parameter is its duration.
            _ if info.is_watch() => longest,
            Ok(None | Some(Duration::ZERO)) => longest,
            Ok(Some(asked)) => asked.min(longest),
            Err(status) => return Admitted::Refused(status.into_response()),
        };
        let deadline = clock::deadline(began, timeout);
        let mut gone = std::pin::pin!(gone);
        let place = match self.places(info) {
            None => None,
            Some(places) => {
                let wait = self.wait_limit.min(timeout / WAIT_DIVISOR);
                let visitor = visitor.filter(|_| info.is_login());
                let Ok(place) = self.take(places, visitor, wait, gone.as_mut()).await else {
                    metrics.terminated(info.labels, 429);
                    return Admitted::Refused(too_many_requests());
                };
                Some(place)
            }
        };
        if info.is_watch() {
            return Admitted::Watch(place.map(|place| InitialPlace::new(place, deadline)));
        }
        let mut held = Held::NOTHING;
        if place.is_some() || info.is_metrics() {
            let (pool, bytes) = share_of(info, body, self.request_bytes_max);
            let parts = self.budget.parts_of(&user.name);
            let share = tokio::select! {
                biased;
                share = self.budget.take(pool, bytes, &parts) => share.ok(),
                () = gone => None,
            };
            let Some(share) = share else {
                metrics.terminated(info.labels, 429);
                return Admitted::Refused(Status::out_of_memory().into_response());
            };
            held = Held::new(&self.budget, share);
        }
        Admitted::Within(Limit {
            held,
            metrics: Arc::clone(metrics),
            labels: info.labels,
            place,
            deadline,
        })
    }

    /// Takes one of these places; a `login` only within its peer's share.
    async fn take(
        &self,
        places: &Places,
        login: Option<&Arc<Visitor>>,
        within: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<Place, Rejection> {
        let share = login.map(|visitor| {
            let share = visitor.begin_login(self.peer_logins_max);
            share.ok_or(Rejection::ConcurrencyLimit)
        });
        let share = share.transpose();
        let share = share.inspect_err(|why| places.refuse(&self.flow, *why))?;
        let place = places.take(&self.flow, within, gone).await?;
        Ok((place, share))
    }

    /// Takes a place for a request with a long body, in addition to its place in flight. The wait
    /// counts as part of the request's time.
    pub(crate) async fn apart(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        let time = self.request_timeout.min(WRITE_TIME_MAX);
        let wait = self.wait_limit.min(time / WAIT_DIVISOR);
        let places = &self.long_bodies;
        places.take(&self.flow, wait, future::pending()).await
    }

    /// Takes a place among all proxied requests, if one is free. There are as many as for reads, or
    /// as connections for long-running requests, because each takes a connection to its cluster.
    pub(crate) fn passed(&self, is_long: bool) -> Option<OwnedSemaphorePermit> {
        let places = if is_long {
            &self.passed_long
        } else {
            &self.passed
        };
        Arc::clone(places).try_acquire_owned().ok()
    }

    /// The places for this kind of request. Requests for metrics need no place, because they matter
    /// most when all places are taken. Neither do those for the timeline's page: its files are
    /// ready, and strangers, who may request them, must not wait among known users.
    fn places(&self, info: &RequestInfo) -> Option<&Places> {
        if info.is_metrics() || info.is_page() {
            None
        } else if info.is_review() {
            Some(&self.reviews)
        } else if info.is_login() {
            Some(&self.logins)
        } else if info.is_mcp()
            || matches!(info.method, Method::GET | Method::HEAD | Method::OPTIONS)
        {
            Some(&self.reads)
        } else {
            Some(&self.writes)
        }
    }
}

/// The place of a watch that sends existing events. It is released when the last clone is dropped,
/// or at the deadline of other requests, because a client that does not read must not keep it.
#[derive(Clone, Debug)]
pub(crate) struct InitialPlace(#[expect(dead_code, reason = "held")] Arc<HeldPlace>);

#[derive(Debug)]
struct HeldPlace {
    place: Mutex<Option<Place>>,
    /// The receiver resolves when this is dropped.
    _held: oneshot::Sender<Infallible>,
}

impl InitialPlace {
    fn new(place: Place, deadline: Instant) -> Self {
        let (held, dropped) = oneshot::channel();
        let held = Arc::new(HeldPlace {
            place: Mutex::new(Some(place)),
            _held: held,
        });
        let late = Arc::downgrade(&held);
        tokio::spawn(async move {
            _ = tokio::time::timeout_at(deadline, dropped).await;
            if let Some(late) = late.upgrade() {
                late.place.lock().take();
            }
        });
        Self(held)
    }
}

/// A request's place in flight, if it needs one, its memory, and its deadline.
pub(crate) struct Limit {
    pub(crate) held: Held,
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    place: Option<Place>,
    deadline: Instant,
}

impl Limit {
    /// Answers before the deadline, or with a timeout. The deadline also holds for the answer's
    /// body.
    pub(crate) async fn hold(self, answer: impl Future<Output = Response>) -> Response {
        let Self {
            held,
            metrics,
            labels,
            place,
            deadline,
        } = self;
        let answer = tokio::time::timeout_at(deadline, answer).await;
        let timed_out = move || metrics.aborted(labels);
        if let Ok(response) = answer {
            response.map(|body| {
                let body = Body::new(Counted { body, held });
                paced::pace(body, place, deadline, timed_out)
            })
        } else {
            timed_out();
            Status::timeout().into_response()
        }
    }
}

/// A body whose bytes hold the memory of the request until they are sent. When it is dropped, for
/// example at its deadline, the bytes not sent yet hold only their own length.
struct Counted {
    body: Body,
    held: Held,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.made();
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let counted = |frame: Frame<Bytes>| frame.map_data(|bytes| self.held.of(bytes));
        Poll::Ready(frame.map(|frame| frame.map(counted)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(crate) fn too_many_requests() -> Response {
    let headers = [
        (header::RETRY_AFTER, "1"),
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
    ];
    let text = "Too many requests, please try again later.\n";
    (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response()
}
