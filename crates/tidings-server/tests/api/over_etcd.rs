//! Runs all tests of this program over etcd. Each test has its own etcd, so that revisions are the
//! same as in memory. Without an etcd on the PATH (or in `ETCD`) they are skipped with a message.

use std::process::Command;

use tidings_testing::programs;

use crate::backend;

#[test]
fn every_test_over_etcd() {
    if programs::etcd().is_none() {
        return;
    }
    // A separate process with visible output, which skips this test.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", module_path!().rsplit("::").next().unwrap()])
        .env(backend::VARIABLE, "etcd")
        .status();
    assert!(status.unwrap().success());
}
