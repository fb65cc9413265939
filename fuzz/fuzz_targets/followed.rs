//! Any bytes as the answer of a cluster that an archive follows: a page of a list, a watch, or an
//! error. No panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_archive::fuzzing::answers(input));
