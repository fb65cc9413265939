//! Any bytes as what a store, above all an etcd that others write to, gives back for an event: no
//! panic, and the short way from bytes to JSON says what the long way says.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = tidings_server::describe(input);
    tidings_server::fuzzing::stored(input);
});
