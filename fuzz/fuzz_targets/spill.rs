//! Any bytes as a record of a spill behind its checksum: no panic, and what is read is written as
//! it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings::fuzzing::decode(input));
