//! `cargo xtask archive`: `tidings archive` follows a source through a proxy while both are killed
//! and their connections cut and held; a ledger of the acknowledged versions is compared with the
//! kept ones, and with the output of a collector. Or one fault at a time, with the state that the
//! archive reports; or ten sources for ten minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::collector;
use crate::command::{self, Result, cargo};
use crate::kube_apiserver;
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Two minutes instead of half an hour; for a soak, one instead of ten
    #[arg(long)]
    short: bool,
    /// The kind of source
    #[arg(long, value_enum, default_value_t = Source::Tidings)]
    source: Source,
    /// One fault at a time instead: a frozen source, a full disk, etcd compacted and restored
    #[arg(long, conflicts_with = "short")]
    faults: bool,
    /// Only faults with this in their name
    #[arg(long, value_name = "TEXT", requires = "faults")]
    only: Option<String>,
    /// Without faults: ten sources, memory, and seconds since progress of a frozen one
    #[arg(long, conflicts_with = "faults")]
    soak: bool,
    /// In memory instead: this number of seeded histories in which folders are restored, clocks
    /// are wrong, buckets forged, one namespace writes more than its quota, and clusters come,
    /// refuse, hang and go
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["short", "faults", "soak"])]
    seeds: Option<u64>,
    /// Events written per second
    #[arg(long, default_value_t = 200, conflicts_with = "faults")]
    per_second: u64,
    /// The seed of random numbers, to repeat a run [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
}

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Source {
    /// `tidings serve`
    Tidings,
    /// kube-apiserver with an etcd; building one takes ten minutes the first time
    KubeApiserver,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    if let Some(seeds) = args.seeds {
        return histories(root, seeds);
    }
    // A long run needs an optimised build.
    let is_long = !args.short && !args.faults;
    let mut judge = suite(root, if is_long { "release" } else { "debug" })?;
    judge.args(["--per-second", &args.per_second.to_string()]);
    if args.source == Source::KubeApiserver {
        let Some(server) = kube_apiserver_and_etcd(root, &mut judge) else {
            return Ok(());
        };
        judge.args(["--source", "kube-apiserver", "--kube-apiserver"]);
        judge.arg(server);
    }
    if args.soak {
        judge.args(["--soak", "10"]);
        judge.args(["--seconds", if args.short { "60" } else { "600" }]);
    } else if args.short {
        judge.args(["--seconds", "100", "--kills", "14"]);
        judge.args(["--source-kills", "3", "--hold", "8"]);
    } else if args.faults {
        let tools = Tools::find(root, true);
        for line in &tools.missing {
            eprintln!("{line}");
        }
        tools.tell(&mut judge).arg("--faults");
    } else {
        beside_collector(root, &mut judge);
    }
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    if let Some(seed) = args.seed {
        judge.args(["--seed", &seed.to_string()]);
    }
    command::run(&mut judge)
}

/// Runs the tests of random histories with this number of seeds.
fn histories(root: &Path, seeds: u64) -> Result {
    for test in [["--lib", "simulation::"], ["--test=objects", "ledger::"]] {
        // Built like the other tests. No other crate has tests of these names.
        let mut tests = cargo(root, &["test", "--workspace"]);
        tests.args(test);
        command::run(tests.env("TIDINGS_ARCHIVE_RUNS", seeds.to_string()))?;
    }
    Ok(())
}

/// Builds the suite and `tidings`. Returns the command that runs the suite.
pub(crate) fn suite(root: &Path, folder: &str) -> Result<Command> {
    let profile = if folder == "debug" { "dev" } else { folder };
    let tidings = command::build(root, profile, "tidings-cli", "tidings")?;
    let suite = command::build(root, profile, "tidings-conformance", "tidings-conformance")?;
    let mut suite = Command::new(suite);
    // The suite runs a collector only if its path is an argument.
    suite.env_remove(collector::VARIABLE);
    suite.arg("archive").arg("--tidings").arg(tidings);
    Ok(suite)
}

/// Adds a collector to the arguments if one can be found or built. Returns whether it was added.
pub(crate) fn beside_collector(root: &Path, judge: &mut Command) -> bool {
    match collector::find_or_build(root) {
        Ok(program) => {
            judge.arg("--collector").arg(program);
            true
        }
        Err(reason) => {
            println!("skipped: the OpenTelemetry collector ({reason})");
            false
        }
    }
}

/// Finds kube-apiserver, if it is to be followed, and gives the suite the path of its etcd.
fn kube_apiserver_and_etcd(root: &Path, judge: &mut Command) -> Option<PathBuf> {
    let tools = Tools::find(root, true);
    let server = match kube_apiserver::find_or_build(root, true) {
        Ok(server) => server,
        Err(reason) => {
            println!("skipped: no kube-apiserver to follow ({reason})");
            return None;
        }
    };
    if tools.program("ETCD").is_none() {
        println!("skipped: kube-apiserver needs an etcd");
        return None;
    }
    tools.tell(judge);
    Some(server)
}
