//! `cargo xtask bench archive`: the cost of following, beside an OpenTelemetry collector's: one
//! after the other on the same source.

use std::path::Path;

use crate::archive::{beside_collector, suite};
use crate::command::{self, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    let mut measure = suite(root, super::figure::PROFILE)?;
    beside_collector(root, &mut measure);
    let live: Vec<String> = args.live.iter().map(u64::to_string).collect();
    measure.args(["--footprint", &live.join(",")]);
    measure.args(["--per-second", &args.per_second.to_string()]);
    measure.args(["--seconds", &args.seconds.to_string()]);
    command::run(&mut measure)
}
