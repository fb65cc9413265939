//! `tidings completions`: completions for a shell, generated from the command.

use std::io::Write;
use std::process::ExitCode;

use clap_complete::Shell;

use super::cluster::{CommandError, DONE, finish};
use super::terminal::output;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  source <(tidings completions bash)
  tidings completions zsh > \"${fpath[1]}/_tidings\"
  tidings completions fish > ~/.config/fish/completions/tidings.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints completions.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tidings", &mut text);
    finish(
        output()
            .write_all(&text)
            .map(|()| DONE)
            .map_err(CommandError::from),
    )
}
