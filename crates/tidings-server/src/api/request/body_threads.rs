//! Handles requests with a long body on separate threads. Other requests then do not wait while
//! such a body is parsed, validated and encoded.
//!
//! The runtime's workers are shared by all connections, and no request on them can be interrupted.
//! So a long body is handled on one of a few threads of its own. A request that finds none free
//! keeps its place in flight and waits for its turn, as requests wait for those places.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::future::{Either, select};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinError, spawn_blocking};

use super::call::Call;
use crate::api::server::ApiServer;
use crate::api::server::limits::too_many_requests;
use crate::http::status::Status;

/// Maximum bytes of a body that is handled on a worker. The slowest to parse takes 20 ms.
pub(in crate::api) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Answers a call, on a separate thread if its body is long.
pub(in crate::api) async fn apart<A>(
    State(server): State<Arc<ApiServer>>,
    call: Call,
    answer: impl FnOnce(State<Arc<ApiServer>>, Call) -> A + Send + 'static,
) -> Response
where
    A: Future<Output = Result<Response, Status>> + Send + 'static,
{
    if call.body.len() <= BODY_BYTES_MAX {
        return answer(State(server), call).await.into_response();
    }
    let Ok(place) = server.limits.apart().await else {
        server.metrics.terminated(call.info.labels, 429);
        return too_many_requests();
    };
    // This is dropped with the future, when the client no longer waits for the answer.
    let (_waited_for, left) = oneshot::channel::<Infallible>();
    let runtime = Handle::current();
    let answered = spawn_blocking(move || {
        let _place = place;
        let answer = Box::pin(answer(State(server), call));
        match runtime.block_on(select(left, answer)) {
            Either::Right((answer, _)) => answer.into_response(),
            // The client has disconnected.
            Either::Left(_) => Status::timeout().into_response(),
        }
    });
    match answered.await.map_err(JoinError::try_into_panic) {
        Ok(response) => response,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is shutting down.
        Err(Err(_)) => Status::timeout().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, ThreadId};

    use axum::body::Body;
    use axum::extract::{FromRequest, Request};
    use futures::FutureExt;
    use http::StatusCode;
    use tidings_store::memory::MemoryStore;

    use super::*;
    use crate::auth::{Authenticator, User};
    use crate::clock::SystemClock;
    use crate::http::request::RequestInfo;

    fn server() -> Arc<ApiServer> {
        Arc::new(ApiServer::new(
            Arc::new(MemoryStore::default()),
            Arc::new(SystemClock),
            Authenticator::new(Vec::new()),
            crate::ApiOptions::default(),
        ))
    }

    async fn call(server: &Arc<ApiServer>, body_len: usize) -> Call {
        let mut request = Request::post("/api/v1/namespaces/shop/events")
            .body(Body::from(vec![b' '; body_len]))
            .unwrap();
        let info = RequestInfo::of(request.method(), request.uri(), request.headers());
        request.extensions_mut().insert(Arc::new(info));
        request.extensions_mut().insert(User::new("ann", "7", []));
        let call = Call::from_request(request, server).await;
        call.unwrap_or_else(|status| panic!("{status:?}"))
    }

    fn answered() -> Response {
        Response::new(Body::empty())
    }

    const LONG: usize = BODY_BYTES_MAX + 1;

    #[tokio::test]
    async fn only_a_long_body_is_dealt_with_on_a_thread_of_its_own() {
        let server = server();
        for (len, is_apart) in [(0, false), (BODY_BYTES_MAX, false), (LONG, true)] {
            let seen = Arc::new(std::sync::Mutex::new(None::<ThreadId>));
            let see = Arc::clone(&seen);
            let answer = move |_, call: Call| async move {
                assert_eq!(call.body.len(), len);
                // An answer may wait for other tasks, such as the store's committer.
                tokio::task::yield_now().await;
                *see.lock().unwrap() = Some(thread::current().id());
                Ok(answered())
            };
            let call = call(&server, len).await;
            let response = apart(State(Arc::clone(&server)), call, answer).await;
            assert_eq!(response.status(), StatusCode::OK);
            let here = *seen.lock().unwrap() == Some(thread::current().id());
            assert_eq!(here, !is_apart, "{len} bytes");
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_is_given_up_and_gives_its_place_to_the_next() {
        /// A future that records whether it was dropped.
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let server = server();
        let mut abandoned = Vec::new();
        // One for each thread, and two that wait.
        for _ in 0..thread::available_parallelism().unwrap().get() + 2 {
            let is_dropped = Arc::new(AtomicBool::new(false));
            let dropped = Dropped(Arc::clone(&is_dropped));
            let call = call(&server, LONG).await;
            let never = |_, _| async move {
                let _dropped = dropped;
                futures::future::pending().await
            };
            let mut answer = Box::pin(apart(State(Arc::clone(&server)), call, never));
            assert!((&mut answer).now_or_never().is_none());
            abandoned.push((answer, is_dropped));
        }
        let is_dropped: Vec<_> = abandoned.into_iter().map(|(_, dropped)| dropped).collect();
        let call = call(&server, LONG).await;
        let answer = apart(State(Arc::clone(&server)), call, |_, _| async {
            Ok(answered())
        });
        assert_eq!(answer.await.status(), StatusCode::OK);
        for dropped in is_dropped {
            while !dropped.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_is_told_to_come_back_in_time() {
        let server = server();
        let mut places = Vec::new();
        while let Some(place) = server.limits.apart().now_or_never() {
            places.push(place.unwrap());
        }
        let call = call(&server, LONG).await;
        let answer = apart(State(Arc::clone(&server)), call, |_, _| async {
            Ok(answered())
        });
        assert_eq!(answer.await.status(), StatusCode::TOO_MANY_REQUESTS);
    }

    #[tokio::test]
    #[should_panic(expected = "as it is")]
    async fn a_panic_is_that_of_the_request() {
        let server = server();
        let call = call(&server, LONG).await;
        let answer = |_, _: Call| async { panic!("as it is") };
        apart(State(Arc::clone(&server)), call, answer).await;
    }
}
