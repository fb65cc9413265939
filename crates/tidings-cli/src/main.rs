//! The `tidings` command.

mod commands;
mod table;

use std::process::ExitCode;

use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    commands::run(commands::Command::parse()).await
}
