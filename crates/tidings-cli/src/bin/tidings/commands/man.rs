//! `tidings man`: manual pages, generated from the command's definition.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::cluster::{CommandError, DONE, finish};
use super::terminal::output;

/// Print a manual page, or write all of them to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings man events | man -l -
  tidings man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Verb of the page; without it, the page of the whole command
    #[arg(value_name = "VERB")]
    verb: Option<String>,
    /// Folder to write all pages to
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    dir: Option<PathBuf>,
}

/// Prints or writes manual pages.
pub(crate) fn run(args: &Args, command: clap::Command) -> ExitCode {
    finish(pages(args, command))
}

fn pages(args: &Args, mut command: clap::Command) -> Result<u8, CommandError> {
    if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(command, dir)?;
        return Ok(DONE);
    }
    command.build();
    let page = match &args.verb {
        None => command,
        Some(verb) => command.find_subcommand(verb).cloned().ok_or_else(|| {
            CommandError::Usage(format!(
                "find a page of {verb:?}: tidings --help lists the verbs"
            ))
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    output().write_all(&text)?;
    Ok(DONE)
}
