//! Loads an Event API server with creates, patches, reads among many events, and watchers, and
//! prints how long they took.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidings_bench::serving::{self, Part, Target};
use tidings_bench::{Failure, ended};

/// Loads an Event API server, and prints figures as lines of JSON.
#[derive(Parser)]
struct Arguments {
    /// Kubeconfig of the server, of which the authority and a token are used
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Name of the server in the figures
    #[arg(long, default_value = "tidings")]
    peer: String,
    #[command(subcommand)]
    part: Part,
}

// One thread, so that the load uses as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ended(env!("CARGO_BIN_NAME"), run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let target = Target::from_kubeconfig(&arguments.kubeconfig).await?;
    serving::run(&target, &arguments.peer, arguments.part).await
}
