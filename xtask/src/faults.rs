//! `cargo xtask faults`: runs every case of the tests of archives on object storage in which
//! requests fail or a writer is killed, one after the other. `cargo xtask test` runs only a sample
//! of them.

use std::path::Path;

use crate::command::{self, Result, cargo};

pub(crate) fn run(root: &Path) -> Result {
    // The whole workspace is built, as for the other tests, so that nothing is compiled again.
    let words = ["test", "--workspace", "--test", "objects", "--"];
    let suites = ["faults::", "killed::", "erased::"];
    let mut command = cargo(root, &words);
    command::run(command.args(suites).env("TIDINGS_ALL_FAULTS", "1"))
}
