//! Any bytes as a Parquet file of versions and as a rollup, read in all ways in which a reader, a
//! merge, a check and a purge do: no panic, and no more memory than a file may take.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: tidings_objects::fuzzing::ignore_caught_panics(), |input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(tidings_objects::fuzzing::file(input));
});
