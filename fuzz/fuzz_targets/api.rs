//! A server that gets many inputs one after the other, since making one takes longer than most
//! answers.

use std::cell::RefCell;

use axum::Router;
use axum::body::Body;
use http::Request;
use tidings_testing::requests;
use tokio::runtime::{Builder, Runtime};

/// Number of inputs after which the server is replaced: what earlier inputs wrote by chance must
/// not make later ones slow, and what an input finds must not depend on too many others.
const INPUTS: usize = 200;

struct Api {
    runtime: Runtime,
    router: Option<Router>,
    inputs: usize,
}

thread_local! {
    static API: RefCell<Api> = RefCell::new(Api {
        runtime: Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be made"),
        router: None,
        inputs: 0,
    });
}

/// Sends a request: no panic, and no answer that blames the server.
pub fn answer(request: Request<Body>) {
    API.with_borrow_mut(|api| {
        if api.inputs % INPUTS == 0 {
            api.router = Some(api.runtime.block_on(requests::server()));
        }
        api.inputs += 1;
        let router = api.router.as_ref().expect("it was just made");
        let (status, body) = api.runtime.block_on(requests::send(router, request));
        assert!(requests::is_fair(status, &body), "{status} {}", String::from_utf8_lossy(&body));
    });
}
