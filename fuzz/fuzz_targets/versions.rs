//! Any bytes as what an archive keeps of an event's versions, and of how far it followed: no panic,
//! and what can be read is read again from what is written of it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidings_archive::fuzzing::kept(input));
