//! A spill whose files have valid checksums, and any positions, marks and ends in them: it opens
//! and is read to the end, without a panic.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // In a folder in memory, if there is one: every input makes several files.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("a folder can be made");
    tidings::fuzzing::recover(folder.path(), input).expect("files can be written");
});
