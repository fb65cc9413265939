//! Runs the tests of what is stored over etcd, too. Each test has its own etcd, so that revisions
//! are the same as in memory. Without an etcd on the PATH (or in `ETCD`) they are skipped with a
//! message.
//!
//! `TIDINGS_API_STORE=etcd cargo test --workspace --test api` runs every test over etcd.

use std::process::Command;

use tidings_testing::programs;

use crate::backend;

/// The beginnings of the names of the tests that run over etcd. The other tests of this program,
/// such as those of audit lines or of the timeline's pictures, depend only on what the store's
/// contract promises, which its own suite tests on etcd.
const TESTS: [&str; 13] = [
    "apply::",
    "behind::",
    "collections::",
    "fanout::",
    "lists::",
    "newest::",
    "policies::rules_say_how_long_events_are_kept",
    "slow::",
    "streams::",
    "timeline::changes_are_sent_as_they_happen",
    "watch_forms::",
    "watches::",
    "writes::",
];

#[test]
fn the_tests_of_what_is_stored() {
    if programs::etcd().is_none() || backend::is_etcd() {
        return;
    }
    // A separate process with visible output.
    let mut tests = Command::new(std::env::current_exe().unwrap());
    let tests = tests.args(TESTS).env(backend::VARIABLE, "etcd");
    assert!(tests.status().unwrap().success());
    // A name that no test has is no error for it.
    let listed = tests.arg("--list").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in TESTS {
        let mut lines = listed.lines();
        assert!(lines.any(|line| line.starts_with(name)), "{name}");
    }
}
