//! The archive judged from outside: `tidings archive` follows a source through a proxy while it,
//! the source and their connections are killed, cut, held and damaged. A ledger has every version
//! that the source acknowledged; each must be in the archive once, or in a reported gap.

mod archived;
mod args;
mod collector;
mod faults;
mod feeds;
mod footprint;
mod kills;
mod ledger;
mod proxy;
mod small_disk;
mod soak;
mod source;
mod stage;
mod writer;

use std::io::Write;

pub(crate) use args::Args;

use crate::error::Result;

/// Runs the suite as the arguments say. Returns whether the archive passed.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    writeln!(out, "seed {seed}")?;
    out.flush()?;
    let random = &mut fastrand::Rng::with_seed(seed);
    if args.faults {
        faults::run(args, random, out).await
    } else if let Some(sources) = args.soak {
        soak::run(args, sources, random, out).await
    } else if !args.footprint.is_empty() {
        footprint::run(args, random, out).await
    } else if args.feeds {
        feeds::run(args, random, out).await
    } else {
        kills::run(args, random, out).await
    }
}
