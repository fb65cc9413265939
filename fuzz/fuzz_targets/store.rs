//! Any bytes, with a valid checksum, as a record of the embedded store: no panic, and a record that
//! was read is written as the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_store::embedded::fuzzing::decode(input));
