//! Measures the store, one part at a time: see [`tidings_bench::storing`]. `cargo xtask bench
//! store` runs all parts.

use std::process::ExitCode;

use clap::Parser;
use tidings_bench::{ended, storing};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // `tidings` itself does the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let arguments = storing::Arguments::parse();
    ended(env!("CARGO_BIN_NAME"), storing::run(arguments).await)
}
