//! Measures the store, one part at a time: see [`tidings_bench::storing`]. `cargo xtask bench
//! store` runs all parts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidings_bench::{ended, storing};

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

#[derive(clap::Subcommand)]
enum Part {
    /// Creates and updates in the embedded store
    Writes,
    /// Creates of records with different lifetimes, while months pass, in the empty store and in
    /// the full one
    Archive,
    /// The creates between the first and last of `archive`, so that a run of it takes less time
    Fill,
    /// Reads of the store that `writes` or `archive` left in the folder
    Reads,
    /// Lists of everything, while nothing is written and beside writers
    Lists,
    /// Half of the events expire beside other writers
    Expiry,
    /// The ends of records with different lifetimes
    Mixture,
    /// A few records that are patched repeatedly
    Patches,
    /// Real events from a folder of JSON Lines
    Real {
        /// The folder
        captures: PathBuf,
    },
    /// The same writes to etcd
    Etcd {
        /// The program etcd
        program: PathBuf,
    },
    /// The same writes to a bare log
    Log,
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
    let result = match part {
        Part::Writes => storing::writes(&folder, events, updates, writers).await,
        Part::Archive => storing::archive(&folder, events).await,
        Part::Fill => storing::fill(&folder, events).await,
        Part::Reads => storing::reads(&folder, events).await,
        Part::Lists => storing::lists(&folder, events).await,
        Part::Expiry => storing::expiry(&folder, events).await,
        Part::Mixture => storing::mixture(&folder, events).await,
        Part::Patches => storing::patches(&folder, events).await,
        Part::Real { captures } => storing::real_events(&folder, &captures, events).await,
        Part::Etcd { program } => storing::etcd(&program, &folder, events, updates, writers).await,
        Part::Log => storing::log(&folder, events, updates, writers).await,
    };
    ended(env!("CARGO_BIN_NAME"), result)
}
