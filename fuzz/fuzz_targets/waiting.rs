//! Any bytes as an archive's answer about what waits to be sealed: no panic, and what is shown can
//! be told to those who watch.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_objects::fuzzing::waiting(input));
