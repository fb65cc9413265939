//! Loads an Event API server with creates, patches, reads among many events, and watchers, and
//! prints how long they took.

use std::process::ExitCode;

use clap::Parser;
use tidings_bench::{ended, serving};

// One thread, so that the load uses as little of the measured machine as possible.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = serving::Arguments::parse();
    ended(env!("CARGO_BIN_NAME"), serving::run(arguments).await)
}
