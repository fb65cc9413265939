//! The tests of this program, every one of them, over etcd: each has an etcd of its own, so that
//! revisions are what they are in memory. Without one on the PATH (or in `ETCD`) that is said, and
//! they are skipped.

use std::process::Command;

use tidings_testing::programs;

use crate::backend;

#[test]
fn every_test_over_etcd() {
    if programs::etcd().is_none() {
        return;
    }
    // A process of its own, whose output is seen. This test it passes over.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", module_path!().rsplit("::").next().unwrap()])
        .env(backend::VARIABLE, "etcd")
        .status();
    assert!(status.unwrap().success());
}
