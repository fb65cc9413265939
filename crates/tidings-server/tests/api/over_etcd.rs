//! Runs the tests of what is stored over etcd, too. Each test has its own etcd, so that revisions are
//! the same as in memory. Without an etcd on the PATH (or in `ETCD`) they are skipped with a message.
//!
//! `TIDINGS_API_STORE=etcd cargo test --workspace --test api` runs every test over etcd.

use std::process::Command;

use tidings_testing::programs;

use crate::backend;

/// The modules of these tests. Others, such as those of audit lines or of the timeline's rules, do
/// not depend on how a store does what its contract says.
const MODULES: [&str; 12] = [
    "apply::",
    "behind::",
    "collections::",
    "failures::",
    "lists::",
    "months::",
    "newest::",
    "slow::",
    "streams::",
    "watch_forms::",
    "watches::",
    "writes::",
];

#[test]
fn the_tests_of_what_is_stored() {
    if programs::etcd().is_none() {
        return;
    }
    // A separate process with visible output.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(MODULES)
        .env(backend::VARIABLE, "etcd")
        .status();
    assert!(status.unwrap().success());
}
