//! Any bytes as what an archive stores of an event's versions and of its position: no panic, and
//! what was read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_archive::fuzzing::kept(input));
