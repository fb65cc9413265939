//! The archive judged from outside: `tidings archive` follows a source through a proxy while it,
//! the source and their connections are killed, cut, held and damaged. A ledger beside has every
//! version as the source acknowledged it; each has to be in the archive once, or in a stated gap.

mod archived;
mod caller;
mod clock;
mod error;
mod faults;
mod kills;
mod ledger;
mod program;
mod proxy;
mod stage;
mod writer;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use error::ArchiveError;
use kills::Plan;
use stage::Stage;

/// What to judge.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// How long events are written, in seconds.
    #[arg(long, default_value_t = 1800)]
    seconds: u64,
    /// Events written per second.
    #[arg(long, default_value_t = 200)]
    per_second: u64,
    /// How often the archive is killed.
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// How often the source is killed.
    #[arg(long, default_value_t = 20)]
    source_kills: u32,
    /// Longest time that connections are held, in seconds.
    #[arg(long, default_value_t = 70)]
    hold: u64,
    /// One trouble at a time instead: what the archive says of it, and its gaps.
    #[arg(long)]
    faults: bool,
    /// The etcd of some of these troubles.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
    /// Only troubles with this in their name.
    #[arg(long, value_name = "TEXT", requires = "faults")]
    only: Option<String>,
    /// Where the random numbers begin, to repeat a run [default: another one each time].
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs it; whether all was as it should be.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool, ArchiveError> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    writeln!(out, "seed {seed}")?;
    out.flush()?;
    let mut random = fastrand::Rng::with_seed(seed);
    if args.faults {
        let (etcd, only) = (args.etcd.as_deref(), args.only.as_deref());
        return faults::run(&args.tidings, etcd, only, &mut random, out).await;
    }
    let plan = Plan {
        time: Duration::from_secs(args.seconds),
        per_second: args.per_second,
        archive_kills: args.kills,
        source_kills: args.source_kills,
        hold: Duration::from_secs(args.hold),
    };
    let stage = Stage::tidings(&args.tidings, &[]).await?;
    kills::run(stage, plan, &mut random, out).await
}
