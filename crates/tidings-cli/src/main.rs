//! The `tidings` command.

mod commands;
mod table;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let args = std::env::args_os().collect();
    commands::run(commands::parse(args)).await
}
