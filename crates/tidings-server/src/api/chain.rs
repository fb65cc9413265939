//! What every request passes before it is served, and its answer on the way back, in order:
//! `DefaultBuildHandlerChain` of `k8s.io/apiserver/pkg/server/config.go`.
//!
//! One function and not a stack of layers: each layer would box the request's future and copy the
//! request once more, which together took about a fifth of a small create's processor time.

use std::convert::Infallible;
use std::future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
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

use super::access;
use super::measured::Measured;
use super::passed;
use super::streamed::Outcome;
use crate::api::limits::{self, Admitted};
use crate::api::server::ApiServer;
use crate::audit::{self, AUDIT_ID};
use crate::auth::{Identity, User};
use crate::clock;
use crate::flow::connections::Visitor;
use crate::http::compress;
use crate::http::present::present_status;
use crate::http::request::RequestInfo;
use crate::http::status::Status;

/// Maximum of headers of a request; over HTTP/1.1 hyper takes 100. More are answered with 431.
const HEADERS_MAX: usize = 200;
/// What a header takes of memory beside its text.
const HEADER_OVERHEAD: usize = 128;
/// What a parameter of the query takes of memory beside its text.
const PARAMETER_OVERHEAD: usize = 96;

/// On a request: who makes it was found out before, or why it is refused; and what answers it
/// decides what may be shown.
#[derive(Clone)]
pub(crate) struct Entered(pub(crate) Result<User, Status>);

/// Puts all of this around what answers requests to a server.
pub(crate) fn around(
    router: Router<Arc<ApiServer>>,
    server: &Arc<ApiServer>,
) -> Router<Arc<ApiServer>> {
    router.layer(middleware::from_fn_with_state(Arc::clone(server), answer))
}

/// Answers a request that is for no server that there is, without asking whose it is.
pub(crate) fn refuse(server: Arc<ApiServer>, mut request: Request, why: Status) -> Response {
    let info = RequestInfo::of(request.method(), request.uri(), request.headers());
    let info = Arc::new(info);
    let measured = Measured::begin(server, Arc::clone(&info), &request);
    let common = Common::of(info, &mut request);
    measured.follow(common.complete(why.into_response()))
}

/// Answers a request whose path is matched, whatever it matched.
async fn answer(
    State(server): State<Arc<ApiServer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let info = RequestInfo::of(request.method(), request.uri(), request.headers());
    let info = Arc::new(info);
    let measured = Measured::begin(Arc::clone(&server), Arc::clone(&info), &request);
    if request.headers().len() > HEADERS_MAX {
        return measured.follow(too_many_headers());
    }
    let common = Common::of(Arc::clone(&info), &mut request);
    request.extensions_mut().insert(Arc::clone(&info));
    let response = let_in(server, info, request, next).await;
    measured.follow(common.complete(response))
}

/// What a head takes in memory, about: its address as sent and as read, and its headers.
fn head_bytes(head: &Parts, info: &RequestInfo) -> usize {
    let uri = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    let read = uri + info.query.len() * PARAMETER_OVERHEAD;
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD);
    headers.sum::<usize>() + uri + read
}

fn too_many_headers() -> Response {
    let text = format!("a request has at most {HEADERS_MAX} headers\n");
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
}

/// Finds out whose request it is.
async fn let_in(
    server: Arc<ApiServer>,
    info: Arc<RequestInfo>,
    request: Request,
    next: Next,
) -> Response {
    let began = clock::timer();
    let (mut parts, body) = request.into_parts();
    let visitor = parts.extensions.get::<Arc<Visitor>>();
    let room = match visitor.map(|visitor| visitor.room_for_head(head_bytes(&parts, &info))) {
        Some(None) => {
            server.metrics.terminated(info.labels, 429);
            return limits::too_many_requests();
        }
        room => room.flatten(),
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
    let entry = match &server.audit {
        Some(log) => {
            let received = server.clock.now();
            let cluster = server.followed.as_ref();
            let cluster = cluster.map(|followed| followed.name.as_str());
            audit::Entry::begin(log, received, &info, cluster, identity, &mut request)
        }
        None => None,
    };
    let audited = entry.is_some();
    let (gone, _here) = audited.then(oneshot::channel).unzip();
    // Boxed, as is what it consists of: a future is as long as all it waits for, twice where that
    // is handed on, and copied to where it is polled. Together it would be thirty kilobytes for
    // every request.
    let answer = Box::pin(async move {
        let response = match user {
            Ok(user) => {
                let answer = allowed(&server, &info, &user, request, next, (began, gone));
                unharmed(Box::pin(answer)).await
            }
            Err(status) => status.into_response(),
        };
        match entry {
            Some(entry) => write_down(entry, server, response).await,
            None => response,
        }
    });
    if !audited {
        return answer.await;
    }
    // In a task of its own: what a client that goes away leaves behind is finished, and written
    // down. Only its turn is not waited for any more once `_here` is dropped.
    tokio::spawn(answer).await.unwrap_or_else(|_| panicked())
}

/// Writes the result of a request to the audit log: now, or at the end of an answer that is made
/// while it is sent.
async fn write_down(
    entry: audit::Entry,
    server: Arc<ApiServer>,
    mut response: Response,
) -> Response {
    let Some(outcome) = response.extensions_mut().remove::<Outcome>() else {
        // A delete that was done answers with a Status, too.
        let status = response.extensions().get::<Status>();
        let failure = status.filter(|_| !response.status().is_success()).cloned();
        entry
            .write(server.clock.now(), response.status(), failure.as_ref())
            .await;
        return response;
    };
    let unwritten = Unwritten(Some((entry, server, outcome)));
    response.map(|body| {
        // The end of the answer waits for the log, as an answer made at once does.
        let written = stream::once(unwritten.write());
        let nothing = written.filter_map(|()| future::ready(None));
        Body::from_stream(body.into_data_stream().chain(nothing))
    })
}

/// What is yet to be written down. A task of its own does it, so that it is done also where nothing
/// waits for the end of the answer any more.
struct Unwritten(Option<(audit::Entry, Arc<ApiServer>, Outcome)>);

impl Unwritten {
    async fn write(mut self) {
        if let Some(task) = self.begin() {
            // It does not panic, and nothing ends it.
            _ = task.await;
        }
    }

    fn begin(&mut self) -> Option<JoinHandle<()>> {
        let (entry, server, outcome) = self.0.take()?;
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            let failure = outcome.failure();
            let code = failure.as_ref().map_or(StatusCode::OK, Status::code);
            entry
                .write(server.clock.now(), code, failure.as_ref())
                .await;
        }))
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.begin();
    }
}

/// A panic of a handler fails its request, and does not end the connection.
async fn unharmed(answer: impl Future<Output = Response>) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind();
    answer.await.unwrap_or_else(|_| panicked())
}

fn panicked() -> Response {
    Status::internal("this request made the server panic; its log says how").into_response()
}

/// Its other end is dropped when the client no longer waits for the answer. If there is no sender,
/// the request itself is dropped then.
type Gone = Option<oneshot::Sender<Infallible>>;

async fn is_gone(gone: Gone) {
    match gone {
        Some(mut gone) => gone.closed().await,
        None => future::pending().await,
    }
}

/// Serves what the user may do. The question to a cluster about that may take long, and a request
/// that waits for it holds no place.
async fn allowed(
    server: &Arc<ApiServer>,
    info: &RequestInfo,
    user: &User,
    mut request: Request,
    next: Next,
    (began, gone): (Instant, Gone),
) -> Response {
    if let Some(followed) = &server.followed {
        if info.changes_events() {
            return Status::read_only(&followed.name).into_response();
        }
        if let Some(way) = &followed.pass_through
            && passed::is_for_cluster(info)
        {
            // The cluster itself decides what the caller may do there.
            let head = passed::head(&followed.name, info, &request);
            let passed = passed::pass(server, (followed, way), info, head, began);
            match Box::pin(passed).await {
                Ok(response) => return response,
                // What this server says of itself is better than nothing.
                Err(_) if passed::is_served_here(info) => {}
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
    // A probe is answered however much there is to do.
    if info.is_probe() {
        return next.run(request).await;
    }
    if info.may_create_by_name() {
        Box::pin(access::foresee_create(server, info, user, &mut request)).await;
    }
    let limits = &server.limits;
    match limits
        .admit(&server.metrics, info, began, is_gone(gone))
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
            let served = async {
                let response = serve(request, next).await;
                compress::compress(compressed, response).await
            };
            limit.hold(Box::pin(served)).await
        }
    }
}

/// Resources are not asked for by HEAD.
async fn serve(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let resource = path.starts_with("/api/") || path == "/api" || path.starts_with("/apis/");
    if resource && request.method() == Method::HEAD {
        return Status::method_not_allowed().into_response();
    }
    next.run(request).await
}

/// What every answer has in common, of the request what it takes to give it.
struct Common {
    audit_id: Option<HeaderValue>,
    /// What decides about the form of a [`Status`].
    asked: HeaderMap,
    info: Arc<RequestInfo>,
}

impl Common {
    /// Gives the request an Audit-Id, too.
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
            // There is room: HEADERS_MAX is far below what a map holds.
            _ = headers.try_insert(AUDIT_ID.clone(), audit_id.clone());
        }
        // Both are shared, not copied.
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
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-cache, private"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_of_many_parameters_counts_for_what_they_take() {
        let head = |uri: String| {
            let (head, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
            let info = RequestInfo::of(&head.method, &head.uri, &head.headers);
            head_bytes(&head, &info)
        };
        let (many, one) = (
            head(format!("/?{}", "a&".repeat(1000))),
            head(format!("/?{}", "a".repeat(2000))),
        );
        assert_eq!(many - one, 999 * PARAMETER_OVERHEAD);
    }
}
