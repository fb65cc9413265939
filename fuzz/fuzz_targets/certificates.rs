//! Any bytes as the PEM files an operator gives and as the certificate a client shows: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_server::fuzzing::certificates(input));
