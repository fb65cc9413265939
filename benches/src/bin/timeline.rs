//! Measures the timeline, one part at a time: see [`tidings_bench::showing`]. `cargo xtask bench
//! timeline` runs all parts.

use std::process::ExitCode;

use clap::Parser;
use tidings_bench::ended;
use tidings_bench::showing::{self, Part};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures one part, and prints figures as lines of JSON.
#[derive(Parser)]
struct Arguments {
    /// Number of events of the cluster.
    #[arg(long, global = true, default_value_t = 1_000_000)]
    events: u64,
    /// Days over which they happened.
    #[arg(long, global = true, default_value_t = 30)]
    days: i64,
    #[command(subcommand)]
    part: Part,
}

// One thread, so that the requests use as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { events, days, part } = Arguments::parse();
    ended(
        env!("CARGO_BIN_NAME"),
        showing::run(part, events, days).await,
    )
}
