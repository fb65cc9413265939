//! The steps before and after the handler of each request, in the order of
//! `DefaultBuildHandlerChain` in `k8s.io/apiserver/pkg/server/config.go`.
//!
//! These are functions and not a stack of tower layers: each layer would box the request's future
//! and copy the request once more, which together took about a fifth of a small create's processor
//! time.

use std::convert::Infallible;
use std::future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, StreamExt, stream};
use http::request::Parts;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::proxy;
use super::request_metrics::Measured;
use crate::api::access;
use crate::api::read::streamed::Outcome;
use crate::api::server::ApiServer;
use crate::api::server::limits::{self, Admitted};
use crate::api::server::shares;
use crate::audit::{self, AUDIT_ID};
use crate::auth::front_proxy::Fronted;
use crate::auth::{Identity, User};
use crate::clock;
use crate::flow::connections::{HeadRoom, Visitor};
use crate::http::compress;
use crate::http::present::present_status;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum headers of a request; more are answered with 431. Over HTTP/1.1, hyper's own maximum is
/// 100.
pub(crate) const HEADERS_MAX: usize = 200;
/// Memory of a header in addition to its text.
const HEADER_OVERHEAD: usize = 128;
/// Memory of a query parameter in addition to its text.
const PARAMETER_OVERHEAD: usize = 96;

/// The result of an earlier authentication, as an extension of a request. The handler decides what
/// the user may see.
#[derive(Clone)]
pub(crate) struct Entered(pub(crate) Result<User, Status>);

/// Wraps the routes of a server in these steps.
pub(crate) fn around(
    router: Router<Arc<ApiServer>>,
    server: &Arc<ApiServer>,
) -> Router<Arc<ApiServer>> {
    router.layer(middleware::from_fn_with_state(Arc::clone(server), answer))
}

/// The RequestInfo of a request. An earlier step may have made it; otherwise it is made now and
/// attached for later steps.
fn info_of(request: &mut Request) -> Arc<RequestInfo> {
    let made = request.extensions().get::<Arc<RequestInfo>>();
    // A RequestInfo that was made before the path was changed describes another request.
    if let Some(made) = made.filter(|made| made.is_of(request.method(), request.uri())) {
        return Arc::clone(made);
    }
    let info = RequestInfo::of(request.method(), request.uri(), request.headers());
    let info = Arc::new(info);
    request.extensions_mut().insert(Arc::clone(&info));
    info
}

/// Refuses a request before its authentication, for example because its path is unknown.
pub(crate) fn refuse(
    server: Arc<ApiServer>,
    mut request: Request,
    why: impl IntoResponse,
) -> Response {
    let info = info_of(&mut request);
    let measured = Measured::begin(server, Arc::clone(&info), &request);
    let common = Common::of(info, &mut request);
    measured.follow(common.complete(why.into_response()))
}

/// Refuses a request before its authentication, because there is [no room](room_for_head) for its
/// head.
pub(crate) fn refuse_head(server: &Arc<ApiServer>, mut request: Request) -> Response {
    let info = info_of(&mut request);
    server.metrics.terminated(info.labels, 429);
    refuse(Arc::clone(server), request, limits::too_many_requests())
}

/// Refuses a request whose user a front proxy named, and writes its audit entry.
pub(crate) async fn refuse_user(
    server: &Arc<ApiServer>,
    mut request: Request,
    status: Status,
) -> Response {
    let info = info_of(&mut request);
    let measured = Measured::begin(Arc::clone(server), Arc::clone(&info), &request);
    let common = Common::of(Arc::clone(&info), &mut request);
    let fronted = request.extensions().get();
    let identity = Identity {
        user: fronted.map(|Fronted(user)| user.clone()),
        impersonated: None,
    };
    let entry = begin_entry(server, &info, identity, &mut request);
    let response = status.into_response();
    let response = match entry {
        Some(entry) => write_entry(entry, Arc::clone(server), response).await,
        None => response,
    };
    measured.follow(common.complete(response))
}

/// Handles a request after routing, whether or not a route matched.
async fn answer(
    State(server): State<Arc<ApiServer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let info = info_of(&mut request);
    let measured = Measured::begin(Arc::clone(&server), Arc::clone(&info), &request);
    if request.headers().len() > HEADERS_MAX {
        return measured.follow(too_many_headers());
    }
    let common = Common::of(Arc::clone(&info), &mut request);
    let response = authenticate_and_serve(server, info, request, next).await;
    measured.follow(common.complete(response))
}

/// The error if there is no room for a request's head.
pub(crate) struct NoRoom;

/// Reserves memory for a request's head while its credentials are checked, which may take as long
/// as a cluster takes to answer. It is released when the result is dropped.
pub(crate) fn room_for_head(head: &Parts) -> Result<Option<HeadRoom>, NoRoom> {
    let Some(visitor) = head.extensions.get::<Arc<Visitor>>() else {
        return Ok(None);
    };
    let room = visitor.room_for_head(head_bytes(head));
    room.map(Some).ok_or(NoRoom)
}

/// Approximate memory of a request's head: its URI as sent and as parsed, and its headers.
fn head_bytes(head: &Parts) -> usize {
    let query = head.uri.query().unwrap_or_default();
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let uri = head.uri.path().len() + query.len();
    let read = uri + parameters.count() * PARAMETER_OVERHEAD;
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD);
    headers.sum::<usize>() + uri + read
}

fn too_many_headers() -> Response {
    let text = format!("a request has at most {HEADERS_MAX} headers\n");
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
}

/// Authenticates a request and opens its audit entry.
async fn authenticate_and_serve(
    server: Arc<ApiServer>,
    info: Arc<RequestInfo>,
    request: Request,
    next: Next,
) -> Response {
    let began = clock::timer();
    let (mut parts, body) = request.into_parts();
    let Ok(room) = room_for_head(&parts) else {
        server.metrics.terminated(info.labels, 429);
        return limits::too_many_requests();
    };
    let (identity, user) = match parts.extensions.get::<Entered>() {
        Some(Entered(user)) => {
            let identity = Identity {
                user: user.as_ref().ok().cloned(),
                impersonated: None,
            };
            (identity, user.clone())
        }
        None => access::authenticate(&server, &mut parts).await,
    };
    drop(room);
    if let Ok(user) = &user {
        parts.extensions.insert(user.clone());
    }
    let mut request = Request::from_parts(parts, body);
    let entry = begin_entry(&server, &info, identity, &mut request);
    let audited = entry.is_some();
    let (gone, _here) = audited.then(oneshot::channel).unzip();
    // Boxed, like its parts. A future is as large as everything it awaits, twice where a value is
    // moved, and is copied to the place where it is polled. Unboxed it would take thirty kilobytes
    // for every request.
    let answer = Box::pin(async move {
        let response = match user {
            Ok(user) => {
                let answer = allowed(&server, &info, &user, request, next, (began, gone));
                catch_panic(Box::pin(answer)).await
            }
            Err(status) => status.into_response(),
        };
        match entry {
            Some(entry) => write_entry(entry, server, response).await,
            None => response,
        }
    });
    if !audited {
        return answer.await;
    }
    // Runs in its own task, so that a write whose client disconnects is finished and audited. When
    // `_here` is dropped, the request only stops waiting for a place in flight.
    tokio::spawn(answer).await.unwrap_or_else(|_| panicked())
}

/// Opens the audit entry of a request; `None` if it has none.
fn begin_entry(
    server: &ApiServer,
    info: &Arc<RequestInfo>,
    identity: Identity,
    request: &mut Request,
) -> Option<audit::Entry> {
    let log = server.audit.as_ref()?;
    let cluster = server.followed.as_ref();
    let cluster = cluster.map(|followed| followed.name.as_str());
    audit::Entry::begin(log, server.clock.now(), info, cluster, identity, request)
}

/// Writes the result of a request to the audit log: now, or at the end of a streamed answer.
async fn write_entry(
    entry: audit::Entry,
    server: Arc<ApiServer>,
    mut response: Response,
) -> Response {
    let Some(outcome) = response.extensions_mut().remove::<Outcome>() else {
        // A successful delete answers with a Status, too.
        let status = response.extensions().get::<Status>();
        let failure = status.filter(|_| !response.status().is_success()).cloned();
        let (now, code) = (server.clock.now(), response.status());
        entry.write(now, code, failure.as_ref()).await;
        return response;
    };
    let unwritten = UnwrittenEntry(Some((entry, server, outcome)));
    response.map(|body| {
        // The end of the answer waits for the log, as an unstreamed answer does.
        let written = stream::once(unwritten.write());
        let nothing = written.filter_map(|()| future::ready(None));
        Body::from_stream(body.into_data_stream().chain(nothing))
    })
}

/// An audit entry that is not written yet. It is written by its own task, so that it is written
/// even if the client does not wait for the end of the answer.
struct UnwrittenEntry(Option<(audit::Entry, Arc<ApiServer>, Outcome)>);

impl UnwrittenEntry {
    async fn write(mut self) {
        if let Some(task) = self.begin() {
            // The task does not panic, and is never cancelled.
            _ = task.await;
        }
    }

    fn begin(&mut self) -> Option<JoinHandle<()>> {
        let (entry, server, outcome) = self.0.take()?;
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            let failure = outcome.failure();
            let code = failure.as_ref().map_or(StatusCode::OK, Status::code);
            let now = server.clock.now();
            entry.write(now, code, failure.as_ref()).await;
        }))
    }
}

impl Drop for UnwrittenEntry {
    fn drop(&mut self) {
        self.begin();
    }
}

/// Turns a panic of a handler into a 500, so that the connection survives.
async fn catch_panic(answer: impl Future<Output = Response>) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    answer.await.unwrap_or_else(|_| panicked())
}

fn panicked() -> Response {
    Status::internal("this request made the server panic; its log says how").into_response()
}

/// The receiver is dropped when the client disconnects. Without a sender, the request itself is
/// dropped then.
type Gone = Option<oneshot::Sender<Infallible>>;

async fn is_gone(gone: Gone) {
    match gone {
        Some(mut gone) => gone.closed().await,
        None => future::pending().await,
    }
}

/// Serves a request if its user is authorized. Asking a cluster may take long, and a request that
/// waits for it holds no place in flight.
async fn allowed(
    server: &Arc<ApiServer>,
    info: &RequestInfo,
    user: &User,
    mut request: Request,
    next: Next,
    (began, gone): (Instant, Gone),
) -> Response {
    if let Some(followed) = &server.followed {
        let is_change = info.changes_events() || info.deletes_events();
        if is_change && !followed.history.capabilities().delete {
            return Status::sealed(&followed.name).into_response();
        }
        if info.changes_events() {
            return Status::read_only(&followed.name).into_response();
        }
        if let Some(way) = &followed.pass_through
            && proxy::is_for_cluster(info)
        {
            // The followed cluster authorizes the caller itself.
            let head = proxy::head(followed, info, &request);
            let passed = proxy::pass(server, (followed, way), info, head, began);
            match Box::pin(passed).await {
                Ok(response) => return response,
                // This server's own answer is better than an error.
                Err(_) if proxy::is_served_here(info) => {}
                Err(refused) => return refused,
            }
        }
    }
    let is_entered = request.extensions().get::<Entered>().is_some();
    let allowed = async {
        if is_entered {
            return Ok(());
        }
        access::authorize(server, user, info).await
    };
    let end = clock::deadline(began, server.options.request_timeout);
    match timeout_at(end, allowed).await {
        Ok(Ok(())) => {}
        Ok(Err(status)) => return status.into_response(),
        Err(_) => return Status::timeout().into_response(),
    }
    // Probes are answered even under load.
    if info.is_probe() {
        return next.run(request).await;
    }
    if info.may_create_by_name() {
        let asked = access::preauthorize_create(server, info, user, &mut request);
        Box::pin(asked).await;
    }
    let limits = &server.limits;
    let visitor = request.extensions().get::<Arc<Visitor>>();
    let body = request.body().size_hint().upper();
    match limits
        .admit(
            &server.metrics,
            info,
            (user, visitor),
            body,
            began,
            is_gone(gone),
        )
        .await
    {
        Admitted::Watch(place) => {
            if let Some(place) = place {
                request.extensions_mut().insert(place);
            }
            serve(request, next).await
        }
        Admitted::Refused(response) => response,
        Admitted::Within(limit) => {
            if let Some(notes) = request.extensions().get::<audit::Notes>() {
                notes.served();
            }
            let compressed = compress::accepts_gzip(request.headers());
            let held = limit.held.clone();
            request.extensions_mut().insert(held.clone());
            let served = async {
                let response = serve(request, next).await;
                if let Some(len) = response.body().size_hint().exact() {
                    shares::answered(&held, len, compressed);
                }
                compress::compress(compressed, response).await
            };
            limit.hold(Box::pin(served)).await
        }
    }
}

/// The API of resources does not allow HEAD.
async fn serve(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let resource = path.starts_with("/api/") || path == "/api" || path.starts_with("/apis/");
    if resource && request.method() == Method::HEAD {
        return Status::method_not_allowed().into_response();
    }
    next.run(request).await
}

/// The parts of a request that every answer needs.
struct Common {
    audit_id: Option<HeaderValue>,
    /// The headers that determine the form of a [`Status`].
    asked: HeaderMap,
    info: Arc<RequestInfo>,
}

impl Common {
    /// Reads the parts, and gives the request an Audit-Id.
    fn of(info: Arc<RequestInfo>, request: &mut Request) -> Self {
        let given = request
            .headers()
            .get(&AUDIT_ID)
            .filter(|id| !id.is_empty())
            .cloned();
        let made = || {
            let id = crate::api::random::uuid().ok()?;
            HeaderValue::from_str(&id).ok()
        };
        let audit_id = given.or_else(made);
        let headers = request.headers_mut();
        if let Some(audit_id) = &audit_id {
            // This cannot fail: a map holds far more than HEADERS_MAX.
            _ = headers.try_insert(AUDIT_ID.clone(), audit_id.clone());
        }
        // The values are shared, not copied.
        let asked = [header::ACCEPT, header::USER_AGENT]
            .into_iter()
            .filter_map(|name| {
                let value = headers.get(&name)?.clone();
                Some((name, value))
            })
            .collect();
        Self {
            audit_id,
            asked,
            info,
        }
    }

    fn complete(self, mut response: Response) -> Response {
        if let Some(status) = response.extensions_mut().remove::<Status>() {
            let query = &self.info.query;
            let (media, body) = present_status(&status, &self.asked, query);
            *response.body_mut() = Body::from(body);
            let headers = response.headers_mut();
            let content_type = HeaderValue::from_static(media.content_type());
            headers.insert(header::CONTENT_TYPE, content_type);
            headers.remove(header::CONTENT_LENGTH);
        }
        let headers = response.headers_mut();
        if let Some(audit_id) = self.audit_id {
            headers.insert(AUDIT_ID.clone(), audit_id);
        }
        let private = HeaderValue::from_static("no-cache, private");
        headers.entry(header::CACHE_CONTROL).or_insert(private);
        let nosniff = HeaderValue::from_static("nosniff");
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_info_of_a_request_is_made_once_for_each_path_it_has() {
        let mut request = http::Request::get("/clusters/prod/api/v1/events?watch=1")
            .body(Body::empty())
            .unwrap();
        let outer = info_of(&mut request);
        assert!(Arc::ptr_eq(&outer, &info_of(&mut request)));
        assert!(!outer.is_resource_request);
        // An archive does this: later steps see the path below the cluster's name.
        *request.uri_mut() = "/api/v1/events?watch=1".parse().unwrap();
        let inner = info_of(&mut request);
        assert!(inner.is_watch());
        let left = request.extensions().get::<Arc<RequestInfo>>();
        assert!(Arc::ptr_eq(&inner, left.unwrap()));
        *request.method_mut() = Method::DELETE;
        assert_eq!(info_of(&mut request).verb, "deletecollection");
    }

    #[test]
    fn a_head_of_many_parameters_counts_for_what_they_take() {
        let head = |uri: String| {
            let (head, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
            head_bytes(&head)
        };
        let many = head(format!("/?{}", "a&".repeat(1000)));
        let one = head(format!("/?{}", "a".repeat(2000)));
        assert_eq!(many - one, 999 * PARAMETER_OVERHEAD);
    }
}
