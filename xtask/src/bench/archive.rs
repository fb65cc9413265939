//! `cargo xtask bench archive`: the cost of following a source, for the archive and for an
//! OpenTelemetry collector, one after the other.

use std::path::Path;

use super::figure::{PROFILE, machine};
use super::table;
use crate::archive::{beside_collector, suite};
use crate::command::{Result, run_lines};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// The profile of the programs that are measured: release is built faster than dist, and takes
    /// more memory
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
    /// Events at the source when it is first listed
    #[arg(long, value_delimiter = ',', default_value = "1000,25000,100000")]
    live: Vec<u64>,
    /// Versions written per second
    #[arg(long, default_value_t = 5_000)]
    per_second: u64,
    /// Time for which versions are written, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let mut measure = suite(root, &args.profile)?;
    let is_beside = beside_collector(root, &mut measure);
    let live: Vec<String> = args.live.iter().map(u64::to_string).collect();
    measure.args(["--footprint", &live.join(",")]);
    measure.args(["--per-second", &args.per_second.to_string()]);
    measure.args(["--seconds", &args.seconds.to_string()]);
    let mut rows = Vec::new();
    run_lines(&mut measure, |line| {
        println!("{line}");
        if line.starts_with('|') {
            rows.push(line.to_owned());
        }
    })?;
    if args.write {
        if !is_beside {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        let profile = &args.profile;
        let rows = rows.join("\n");
        let tables = format!(
            "{}\nBuilt with the profile `{profile}`.\n\n{rows}",
            machine(true)
        );
        table::write(&root.join("docs/benchmarks.md"), "following", &tables)?;
    }
    Ok(())
}
