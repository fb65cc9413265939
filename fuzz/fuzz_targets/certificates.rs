//! Any bytes as the PEM files of an operator and as the certificate of a client: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_server::fuzzing::certificates(input));
