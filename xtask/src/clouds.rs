//! `cargo xtask clouds`: tests archives in Azure's and in Google's object storage on emulators of
//! both: Azurite, an npm package, and fake-gcs-server, which is built from its Go modules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::command::{self, Result, cargo, find, is_executable};
use crate::npm;

/// The Go module that builds fake-gcs-server, with pinned components.
const MODULE: &str = "crates/tidings-testing/gcs";
/// The version of fake-gcs-server, and a number of our build. With another one it is built again.
const VERSION: &str = "v1.56.1-1";
/// The environment variable with the path of fake-gcs-server, for tests.
const VARIABLE: &str = "FAKE_GCS";
/// The groups of tests that use the emulators. Each must run.
const TESTS: [&str; 4] = ["emulated::", "erased::", "reading::", "sealing::"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not fetch or build what is missing
    #[arg(long)]
    offline: bool,
}

/// Runs the tests on the emulators that are available. Without any, it prints why and does not
/// fail.
pub(crate) fn run(root: &Path, args: &Args) -> Result {
    let found = [
        (npm::AZURITE.variable, azurite(root, !args.offline)),
        (VARIABLE, find_or_build(root, !args.offline)),
    ];
    // Built like all tests, so that nothing is compiled again.
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
    // cargo succeeds even if no test has the name.
    match TESTS.into_iter().find(|name| !ran.contains(name)) {
        Some(name) => Err(format!("no test of {name} ran")),
        None => Ok(()),
    }
}

/// The group of tests that a line of the output belongs to.
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

/// Finds fake-gcs-server, or builds it if that is allowed.
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
