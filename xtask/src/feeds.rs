//! `cargo xtask feeds`: sends what feeds send to real receivers, and compares what they have:
//! VictoriaLogs, which is built from its Go module, an OpenTelemetry collector, and chDB. Then an
//! archive delivers to them while it and they are killed, and each version is accounted for.

use std::path::{Path, PathBuf};

use crate::command::{self, Result, cargo, is_executable};
use crate::tools::Tools;
use crate::{archive, collector, engines};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A minute and a half with twelve kills instead of ten minutes with a hundred
    #[arg(long)]
    short: bool,
    /// The seed of random numbers, to repeat a run [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
}

/// The Go module that only names VictoriaLogs.
const MODULE: &str = "crates/tidings-conformance/victorialogs";
const PACKAGE: &str = "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs";
/// The release to build, which the Go module pins.
const VERSION: &str = "v1.52.1";
/// The environment variable with a VictoriaLogs to use instead of building one.
const VARIABLE: &str = "VICTORIA_LOGS";

/// Runs the tests with the receivers that are available or can be built. Without any, it prints why
/// and does not fail. The ledger needs all of them.
pub(crate) fn run(root: &Path, args: &Args) -> Result {
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
    let mut receivers = Vec::new();
    for (variable, found) in found {
        match found {
            Ok(file) => {
                println!("{variable}: {}", file.display());
                tests.env(variable, &file);
                receivers.push(file);
            }
            Err(reason) => println!("skipped what needs {variable}: {reason}"),
        }
    }
    command::run(&mut tests)?;
    let [victoria_logs, collector, python] = &receivers[..] else {
        println!("skipped: the ledger, which needs all receivers");
        return Ok(());
    };
    let mut judge = archive::suite(root, if args.short { "debug" } else { "release" })?;
    Tools::find(root, true).tell(&mut judge);
    let programs = [
        ("--victoria-logs", victoria_logs),
        ("--collector", collector),
        ("--python", python),
    ];
    for (option, program) in programs {
        judge.arg(option).arg(program);
    }
    judge.arg("--feeds");
    judge.args(if args.short {
        ["--seconds", "90", "--kills", "12"]
    } else {
        ["--seconds", "600", "--kills", "100"]
    });
    if !args.short {
        judge.arg("--beside");
    }
    if let Some(seed) = args.seed {
        judge.args(["--seed", &seed.to_string()]);
    }
    command::run(&mut judge)
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
