//! `cargo xtask feeds`: sends what feeds send to real receivers, and compares what they have:
//! VictoriaLogs, which is built from its Go module, and an OpenTelemetry collector.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, cargo, is_executable};
use crate::{collector, engines};

/// The Go module that only names VictoriaLogs.
const MODULE: &str = "crates/tidings-conformance/victorialogs";
const PACKAGE: &str = "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs";
/// The release to build, which the Go module pins.
const VERSION: &str = "v1.52.1";
/// The environment variable with a VictoriaLogs to use instead of building one.
const VARIABLE: &str = "VICTORIA_LOGS";

/// Runs the tests with the receivers that are available or can be built. Without any, it prints why
/// and does not fail.
pub(crate) fn run(root: &Path) -> Result {
    let tools = command::target(root).join("tools");
    let found = [
        (VARIABLE, victoria_logs(root, &tools)),
        (collector::VARIABLE, collector::find_or_build(root)),
        (
            engines::VARIABLE,
            engines::find_or_install(&tools.join("engines"), true),
        ),
    ];
    // Built like all tests, so that nothing is compiled again.
    let words = [
        "test",
        "--workspace",
        "--test",
        "encoders",
        "--",
        "receivers::",
    ];
    let mut tests = cargo(root, &words);
    for (variable, found) in found {
        match found {
            Ok(file) => {
                println!("{variable}: {}", file.display());
                tests.env(variable, file);
            }
            Err(reason) => println!("skipped what needs {variable}: {reason}"),
        }
    }
    command::run(&mut tests)
}

fn victoria_logs(root: &Path, tools: &Path) -> Result<PathBuf> {
    if let Some(named) = command::named(VARIABLE) {
        return named;
    }
    let built = tools.join(format!("victoria-logs-{VERSION}"));
    if !is_executable(&built) {
        command::go_build(&root.join(MODULE), PACKAGE, "", &built)?;
    }
    Ok(built)
}
