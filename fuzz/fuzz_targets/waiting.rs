//! Any bytes as an archive's answer about the versions that wait to be sealed: no panic, and an
//! event that is shown can also be sent to watchers.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: tidings_objects::fuzzing::ignore_caught_panics(), |input: &[u8]| {
    tidings_objects::fuzzing::waiting(input);
});
