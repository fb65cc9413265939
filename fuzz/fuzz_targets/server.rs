//! Any bytes, read as an HTTP request to the server: no panic, and no answer that blames the server.

#![no_main]

#[path = "../../crates/tidings-server/tests/hostile/request.rs"]
mod request;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Builder;

fuzz_target!(|input: &[u8]| {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        if let Some(request) = request::parse(input) {
            let api = request::server().await;
            let (status, body) = request::send(&api, request).await;
            assert!(request::is_fair(status, &body), "{status} {}", String::from_utf8_lossy(&body));
        }
    });
});
