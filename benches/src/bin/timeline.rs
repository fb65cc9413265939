//! Measures the timeline, one part at a time: see [`tidings_bench::showing`]. `cargo xtask bench
//! timeline` runs all parts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use jiff::Timestamp;
use tidings_bench::serving::Target;
use tidings_bench::storing::Failure;
use tidings_bench::{ended, showing};

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

#[derive(clap::Subcommand)]
enum Part {
    /// Fill the data folder of a server
    Fill { folder: PathBuf },
    /// The answers of the server's timeline
    Answers {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 50)]
        rounds: u64,
    },
    /// The tools of the Model Context Protocol, beside the answers that they read
    Tools {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 200)]
        rounds: u64,
    },
    /// The page in a browser
    Page {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 10)]
        rounds: u64,
    },
    /// The memory of a tab that follows new events
    Live {
        kubeconfig: PathBuf,
        #[arg(long, default_value_t = 10)]
        minutes: u64,
        #[arg(long, default_value_t = 10)]
        per_second: u64,
    },
    /// vis-timeline, an npm package, with the latest events
    Peer { package: PathBuf },
}

// One thread, so that the requests use as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

#[expect(clippy::disallowed_methods, reason = "the events end now")]
fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

async fn run(Arguments { events, days, part }: Arguments) -> Result<(), Failure> {
    match part {
        Part::Fill { folder } => showing::fill(&folder, events, days, now()).await,
        Part::Answers { kubeconfig, rounds } => {
            let target = Target::from_kubeconfig(&kubeconfig).await?;
            Ok(showing::answers(&target, rounds).await?)
        }
        Part::Tools { kubeconfig, rounds } => {
            let target = Target::from_kubeconfig(&kubeconfig).await?;
            Ok(showing::tools(&target, rounds).await?)
        }
        Part::Page { kubeconfig, rounds } => showing::page(&kubeconfig, rounds),
        Part::Live {
            kubeconfig,
            minutes,
            per_second,
        } => showing::live(&kubeconfig, minutes, per_second, now).await,
        Part::Peer { package } => showing::peer(&package, events, days, now()),
    }
}
