//! The verbs of the command, a file each.

mod demo;
mod import;
mod serve;

use std::process::ExitCode;

/// Kubernetes Events: serve them, import them, look at them.
#[derive(Debug, clap::Parser)]
#[command(name = "tidings", version)]
pub(crate) struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Demo(demo::Args),
    Import(import::Args),
    Serve(serve::Args),
}

/// Does what was asked; the exit codes are each verb's own.
pub(crate) async fn run(command: Command) -> ExitCode {
    match command.verb {
        Verb::Demo(args) => demo::run(args).await,
        Verb::Import(args) => import::run(args).await,
        Verb::Serve(args) => serve::run(args).await,
    }
}
