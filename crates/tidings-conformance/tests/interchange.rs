//! Runs a real kube-apiserver and our server on one etcd. Without `KUBE_APISERVER` and `ETCD`, or
//! if the command was not built beside this test, the test says so and passes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of the suite, or why they are missing.
fn programs() -> Result<[PathBuf; 3], String> {
    let named = |variable: &str| {
        let file = std::env::var_os(variable).map(PathBuf::from);
        file.ok_or_else(|| format!("{variable} is not set"))
    };
    // A build of all tests of the workspace puts the command here. One of this crate alone does
    // not.
    let tidings = Path::new(env!("CARGO_BIN_EXE_tidings-conformance"))
        .with_file_name(format!("tidings{}", std::env::consts::EXE_SUFFIX));
    if !tidings.is_file() {
        return Err(format!("{} is not built", tidings.display()));
    }
    Ok([tidings, named("KUBE_APISERVER")?, named("ETCD")?])
}

#[test]
fn what_one_writes_the_other_reads_changes_and_deletes() {
    let [tidings, kube_apiserver, etcd] = match programs() {
        Ok(programs) => programs,
        Err(why) => {
            // Written past the test's capture, so that it is seen although the test passes.
            let _ = writeln!(std::io::stderr(), "skipped: interchange: {why}");
            return;
        }
    };
    let output = Command::new(env!("CARGO_BIN_EXE_tidings-conformance"))
        .arg("interchange")
        .arg("--tidings")
        .arg(tidings)
        .arg("--kube-apiserver")
        .arg(kube_apiserver)
        .arg("--etcd")
        .arg(etcd)
        .output()
        .expect("the runner starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.lines().count() == 7,
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
