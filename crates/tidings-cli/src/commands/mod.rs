//! The verbs of the command, a file each.

mod demo;
mod import;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

/// Kubernetes Events: serve them, import them, look at them.
#[derive(Debug, Parser)]
#[command(name = "tidings", version)]
pub(crate) struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Demo(demo::Args),
    Import(import::Args),
    Serve(Box<serve::Args>),
}

/// What was asked for on the command line, and in the file of settings it may name. Ends the program if it makes no sense.
pub(crate) fn parse(args: Vec<OsString>) -> Command {
    let mut command = Command::command();
    match serve::config::expand(&command, args) {
        Ok(args) => Command::parse_from(args),
        Err(error) => command
            .error(clap::error::ErrorKind::InvalidValue, error)
            .exit(),
    }
}

/// Does what was asked; the exit codes are each verb's own.
pub(crate) async fn run(command: Command) -> ExitCode {
    match command.verb {
        Verb::Demo(args) => demo::run(args).await,
        Verb::Import(args) => import::run(args).await,
        Verb::Serve(args) => serve::run(*args).await,
    }
}
