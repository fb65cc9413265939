//! Any bytes as the newest manifest of an archive on object storage: no panic, and a manifest that
//! was read is written as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(tidings_objects::fuzzing::manifest(input));
});
