//! Measures readers of an archive on object storage, one part at a time: see
//! [`tidings_bench::sealed`]. `cargo xtask bench objects` runs the parts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidings_bench::sealed::{self, Asked, Extent};
use tidings_bench::{ended, storing::Failure};

/// The allocator of `tidings` itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures one part, and prints figures as lines of JSON.
#[derive(Parser)]
struct Arguments {
    /// Number of clusters.
    #[arg(long, global = true, default_value_t = 30)]
    clusters: u64,
    /// Days over which their events happened.
    #[arg(long, global = true, default_value_t = 90)]
    days: i64,
    /// Number of events of all clusters.
    #[arg(long, global = true, default_value_t = 3_000_000)]
    events: u64,
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Fill the folder of an S3 server with an archive
    Fill { folder: PathBuf },
    /// Ask readers of the archive
    Ask {
        folder: PathBuf,
        /// The program `tidings` that reads it
        #[arg(long)]
        tidings: PathBuf,
        /// Time for which each request to the storage takes longer, in milliseconds
        #[arg(long, default_value_t = 20)]
        delay: u64,
        /// Readers that are started for each question
        #[arg(long, default_value_t = 20)]
        rounds: u64,
    },
    /// Make an archive of real events, and print its size
    Real {
        /// A folder of real events as JSON Lines
        captures: PathBuf,
    },
}

// One thread, so that the questions use as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let extent = Extent {
        clusters: arguments.clusters,
        days: arguments.days,
        events: arguments.events,
    };
    match arguments.part {
        Part::Fill { folder } => sealed::fill(&folder, extent).await,
        Part::Ask {
            folder,
            tidings,
            delay,
            rounds,
        } => {
            let delay = Duration::from_millis(delay);
            let asked = Asked {
                tidings,
                folder,
                delay,
                rounds,
            };
            sealed::ask(&asked, extent).await
        }
        Part::Real { captures } => sealed::real(&captures, arguments.events).await,
    }
}
