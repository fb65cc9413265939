//! Any bytes, read as an HTTP request to the server: no panic, and no answer that blames the
//! server.

#![no_main]

mod api;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some(request) = tidings_testing::requests::parse(input) {
        api::answer(request);
    }
});
