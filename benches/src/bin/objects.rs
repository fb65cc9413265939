//! Measures readers of an archive on object storage, one part at a time: see
//! [`tidings_bench::sealed`]. `cargo xtask bench objects` runs the parts.

use std::process::ExitCode;

use clap::Parser;
use tidings_bench::{ended, sealed};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// One thread, so that the questions use as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = sealed::Arguments::parse();
    ended(env!("CARGO_BIN_NAME"), sealed::run(arguments).await)
}
