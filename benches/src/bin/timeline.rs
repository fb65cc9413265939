//! Measures the timeline, one part at a time: see [`tidings_bench::showing`]. `cargo xtask bench
//! timeline` runs all parts.

use std::process::ExitCode;

use clap::Parser;
use tidings_bench::{ended, showing};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// One thread, so that the requests use as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = showing::Arguments::parse();
    ended(env!("CARGO_BIN_NAME"), showing::run(arguments).await)
}
