//! `cargo xtask faults`: every case of the suites of archives on object storage that fail requests,
//! or kill a writer, one after the other. `cargo xtask test` tries a sample of them.

use std::path::Path;

use crate::command::{self, Result, cargo};

pub(crate) fn run(root: &Path) -> Result {
    // Of the workspace, so that what was built for the other tests is used.
    let words = ["test", "--workspace", "--test", "objects", "--"];
    let suites = ["faults::", "killed::", "erased::"];
    let mut command = cargo(root, &words);
    command::run(command.args(suites).env("TIDINGS_ALL_FAULTS", "1"))
}
