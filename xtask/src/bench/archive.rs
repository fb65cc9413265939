//! `cargo xtask bench archive`: the cost of following a source, for the archive and for an
//! OpenTelemetry collector, one after the other.

use std::path::Path;

use super::figure::{Output, PROFILE, machine};
use crate::command::{Result, run_lines};
use crate::judge::{beside_collector, suite};

/// Events at the source when it is first listed, versions written per second, and for how long.
const LOAD: &str = "--footprint 1000,25000,100000 --per-second 5000 --seconds 10";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// The profile of the programs that are measured: release is built faster than dist, and takes
    /// more memory
    #[arg(long, default_value = PROFILE, value_parser = [PROFILE, "release"])]
    profile: String,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "following")?;
    let mut measure = suite(root, &args.profile, "archive")?;
    let is_beside = beside_collector(root, &mut measure);
    let mut rows = format!(
        "{}\nBuilt with the profile `{}`.\n",
        machine(true),
        args.profile
    );
    run_lines(measure.args(LOAD.split(' ')), |line| {
        println!("{line}");
        if line.starts_with('|') {
            rows.extend(["\n", line]);
        }
    })?;
    let skipped = (!is_beside).then(|| "the OpenTelemetry collector".to_owned());
    args.output
        .put(root, "following", &rows, skipped.as_slice())
}
