//! Measures the store, one part at a time: see [`tidings_bench::storing`]. `cargo xtask bench
//! store` runs all parts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidings_bench::ended;
use tidings_bench::storing::{self, Part};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures one part, and prints figures as lines of JSON.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// A folder for the files, on the disk to measure
    #[arg(long, global = true, default_value = ".")]
    folder: PathBuf,
    /// Number of events
    #[arg(long, global = true, default_value_t = 50_000)]
    events: u64,
    /// Number of events that are updated
    #[arg(long, global = true, default_value_t = 20_000)]
    updates: u64,
    /// Number of writers at the same time
    #[arg(long, global = true, default_value_t = 64)]
    writers: u64,
}

fn main() -> ExitCode {
    // `tidings` itself does the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let Arguments {
        part,
        folder,
        events,
        updates,
        writers,
    } = Arguments::parse();
    let result = storing::run(part, &folder, events, updates, writers).await;
    ended(env!("CARGO_BIN_NAME"), result)
}
