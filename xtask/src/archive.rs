//! `cargo xtask archive`: `tidings archive` follows a source through a proxy while both are killed
//! and their connections cut and held; a ledger of what the source acknowledged is compared with
//! what was kept. Or one trouble at a time, and what the archive says of it.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Result, cargo};
use crate::tools::Tools;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Two minutes instead of half an hour
    #[arg(long)]
    short: bool,
    /// One trouble at a time instead: the source frozen, a disk full, etcd compacted and restored
    #[arg(long, conflicts_with = "short")]
    faults: bool,
    /// Only troubles with this in their name
    #[arg(long, value_name = "TEXT", requires = "faults")]
    only: Option<String>,
    /// Events written per second
    #[arg(long, default_value_t = 200, conflicts_with = "faults")]
    per_second: u64,
    /// Where the random numbers begin, to repeat a run [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    for package in ["tidings-cli", "tidings-conformance"] {
        command::run(&mut cargo(root, &["build", "-q", "-p", package]))?;
    }
    let built = |name: &str| {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        command::target(root).join("debug").join(file)
    };
    let mut judge = Command::new(built("tidings-conformance"));
    judge
        .arg("archive")
        .arg("--tidings")
        .arg(built("tidings"))
        .args(["--per-second", &args.per_second.to_string()]);
    if args.short {
        judge.args(["--seconds", "100", "--kills", "14"]);
        judge.args(["--source-kills", "3", "--hold", "8"]);
    }
    if args.faults {
        let tools = Tools::find(root, true);
        for line in &tools.missing {
            eprintln!("{line}");
        }
        tools.tell(&mut judge).arg("--faults");
    }
    if let Some(only) = &args.only {
        judge.args(["--only", only]);
    }
    if let Some(seed) = args.seed {
        judge.args(["--seed", &seed.to_string()]);
    }
    command::run(&mut judge)
}
