//! The `tidings` command.

mod commands;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    commands::run(commands::Command::parse()).await
}
