//! `cargo xtask clouds`: archives in a container of Azure and in a bucket of Google, on emulators
//! of both: Azurite, which npm has, and fake-gcs-server, which is built from its Go modules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::command::{self, Result, cargo, find, is_executable};
use crate::npm;

/// The Go module that builds it, with pinned components.
const MODULE: &str = "crates/tidings-testing/gcs";
/// Of its parts and of itself: what was built before a change has another one.
const VERSION: &str = "v1.56.1-1";
/// The environment variable with its path, for tests.
const VARIABLE: &str = "FAKE_GCS";
/// The tests that use each storage that is there.
const TESTS: [&str; 4] = ["emulated::", "erased::", "reading::", "sealing::"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not fetch or build what is missing
    #[arg(long)]
    offline: bool,
}

/// Runs the tests on the emulators that can be had. Without any it says why, and does not fail.
pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let found = [
        (npm::AZURITE.variable, azurite(root, !args.offline)),
        (VARIABLE, find_or_build(root, !args.offline)),
    ];
    // Built as for all tests.
    let words = ["test", "--workspace", "--test", "objects", "--"];
    let mut command = cargo(root, &words);
    command.args(TESTS);
    let mut has_one = false;
    for (variable, found) in found {
        match found {
            Ok(file) => {
                has_one = true;
                println!("{variable}: {}", file.display());
                command.env(variable, file);
            }
            Err(reason) => println!("skipped what needs {variable}: {reason}"),
        }
    }
    if !has_one {
        return Ok(());
    }
    let mut ran = BTreeSet::<&str>::new();
    command::run_lines(&mut command, |line| {
        println!("{line}");
        ran.extend(group(line));
    })?;
    // To cargo, a name without a test is a success.
    match TESTS.into_iter().find(|name| !ran.contains(name)) {
        Some(name) => Err(format!("no test of {name} ran")),
        None => Ok(()),
    }
}

/// Which of the tests a line of their output is about.
fn group(line: &str) -> Option<&'static str> {
    let test = line.strip_prefix("test ")?;
    TESTS.into_iter().find(|name| test.starts_with(name))
}

fn azurite(root: &Path, may_fetch: bool) -> Result<PathBuf> {
    if find("node").is_none() {
        return Err("no node on the PATH".to_owned());
    }
    npm::AZURITE.find(&root.join("target/tools/azurite"), may_fetch)
}

/// Finds the storage as Google's, or builds it if that is allowed.
fn find_or_build(root: &Path, may_build: bool) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    let built = root.join("target/tools").join(format!("gcs-{VERSION}"));
    if is_executable(&built) {
        return Ok(built);
    }
    if !may_build {
        return Err("not built yet".to_owned());
    }
    command::go_build(&root.join(MODULE), ".", "", &built)?;
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_ran_are_known_by_their_lines() {
        for (line, expected) in [
            ("test sealing::files_are_merged ... ok", Some("sealing::")),
            ("test emulated::a ... FAILED", Some("emulated::")),
            ("test others::sealing::a ... ok", None),
            ("test result: ok. 0 passed; 0 failed; 0 ignored", None),
            ("running 0 tests", None),
        ] {
            assert_eq!(group(line), expected, "{line}");
        }
    }
}
