//! The verbs of the command, one file each.

mod account;
mod all_clusters;
mod archive;
mod archived;
mod capture;
mod cluster;
mod completions;
mod connection;
mod coverage;
mod data_dir;
mod demo;
mod describe;
mod events;
mod export;
mod feeds;
mod followed;
mod gaps;
mod habits;
mod hand_out;
mod import;
mod kubeconfig;
mod man;
mod mcp;
mod objects;
mod past;
mod rbac;
mod reader;
mod record;
mod removed;
#[cfg(feature = "objects")]
mod sealed;
mod selection;
mod serve;
mod terminal;
mod text;
mod timeline;
mod timestamps;
mod top;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

/// Kubernetes Events: read them, record them, store them, serve them.
///
/// The reading verbs work with every Kubernetes API server and use kubectl's kubeconfig. Installed
/// as kubectl-tidings, the command is a kubectl plugin: kubectl tidings events -A.
#[derive(Debug, Parser)]
#[command(
    name = "tidings",
    version = tidings_server::VERSION,
    after_help = "Examples:
  tidings events -A --types=Warning --limit 20 -w       # the last warnings, then new ones
  tidings events --for deploy/web --tree --since 2h     # a deployment and everything it owns
  tidings timeline                                      # what happens, in the browser
  tidings timeline --file must-gather.tar.gz            # what happened in a bundle that was sent
  tidings top -A                                        # the reasons and objects with the most events
  tidings record job/backup --reason Done -m '42 GiB'
  tidings demo                                          # a server, and the story of a failed rollout

tidings VERB --help shows all options, examples and exit codes."
)]
pub(crate) struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Archive(Box<archive::Args>),
    Coverage(Box<coverage::Args>),
    Demo(demo::Args),
    Describe(Box<describe::Args>),
    Events(Box<events::Args>),
    Export(Box<export::Args>),
    Feeds(Box<feeds::Args>),
    Import(Box<import::Args>),
    Kubeconfig(hand_out::Args),
    Mcp(Box<mcp::Args>),
    Rbac(rbac::Args),
    Record(Box<record::Args>),
    #[cfg(feature = "objects")]
    Sealed(sealed::Args),
    Timeline(Box<timeline::Args>),
    Top(Box<top::Args>),
    Completions(completions::Args),
    Man(man::Args),
    Serve(Box<serve::Args>),
}

/// Parses the command line and the settings file that it may name. Ends the program on a usage
/// error.
pub(crate) fn parse(args: Vec<OsString>) -> Command {
    let mut command = command(args.first());
    match serve::config::expand(&command, args) {
        Ok(args) => {
            let lenient = habits::with_values_of_switches(command.clone());
            let matches = lenient.try_get_matches_from(&args);
            let matches = matches.unwrap_or_else(|error| match error.kind() {
                // Help shows switches without a value.
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::DisplayVersion => command.clone().get_matches_from(args),
                _ => habits::with_advice(error).exit(),
            });
            Command::from_arg_matches(&matches)
                .unwrap_or_else(|error| error.format(&mut command).exit())
        }
        Err(error) => {
            // The error shows the usage of the verb.
            command.build();
            let verb = error.verb;
            let error = format!("--config: {error}");
            let kind = ErrorKind::InvalidValue;
            match command.find_subcommand_mut(verb) {
                Some(verb) => verb.error(kind, error).exit(),
                None => command.error(kind, error).exit(),
            }
        }
    }
}

/// The command under the name by which it was called. The file may be kubectl-tidings, but users
/// type kubectl tidings.
fn command(program: Option<&OsString>) -> clap::Command {
    let command = Command::command();
    let stem = program.and_then(|program| Path::new(program).file_stem());
    if stem.is_some_and(|stem| stem == "kubectl-tidings") {
        command.bin_name("kubectl tidings")
    } else {
        command
    }
}

/// Runs the verb; returns its exit code.
pub(crate) async fn run(command: Command) -> ExitCode {
    match command.verb {
        Verb::Archive(args) => Box::pin(archive::run(*args)).await,
        Verb::Coverage(args) => coverage::run(*args).await,
        Verb::Demo(args) => demo::run(args).await,
        Verb::Describe(args) => describe::run(*args).await,
        Verb::Events(args) => events::run(*args).await,
        Verb::Export(args) => export::run(*args).await,
        Verb::Feeds(args) => feeds::run(*args).await,
        Verb::Import(args) => import::run(*args).await,
        Verb::Kubeconfig(args) => hand_out::run(args).await,
        Verb::Mcp(args) => Box::pin(mcp::run(*args)).await,
        Verb::Rbac(args) => rbac::run(&args),
        Verb::Record(args) => record::run(*args).await,
        #[cfg(feature = "objects")]
        Verb::Sealed(args) => sealed::run(args).await,
        Verb::Timeline(args) => timeline::run(*args).await,
        Verb::Top(args) => top::run(*args).await,
        Verb::Completions(args) => completions::run(&args, Command::command()),
        Verb::Man(args) => man::run(&args, Command::command()),
        Verb::Serve(args) => serve::run(*args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the first `tidings` command in a line, split as a shell does.
    fn words(line: &str) -> Option<Vec<String>> {
        let start = line.find("tidings ")?;
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        for character in line.get(start..)?.chars() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, '|' | '>' | '&' | ')') => break,
                (None, '#') if word.is_none() => break,
                (None, ' ') => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        Some(words)
    }

    /// The command accepts the examples that its help shows.
    #[test]
    fn examples_are_understood() {
        let mut checked = 0;
        let command = Command::command();
        for verb in std::iter::once(&command).chain(command.get_subcommands()) {
            let help = verb.get_after_long_help().or(verb.get_after_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().skip_while(|line| *line != "Examples:");
            for line in examples.take_while(|line| !line.starts_with("Exit codes:")) {
                // Not a comment, a placeholder, or a command that is complete only with a settings
                // file.
                let is_whole = !line.trim_start().starts_with('#')
                    && !line.contains("VERB")
                    && !line.contains("--config");
                let Some(words) = words(line).filter(|_| is_whole) else {
                    continue;
                };
                let parsed = Command::try_parse_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                checked += 1;
            }
        }
        assert!(checked > 30, "only {checked} examples were found");
    }

    /// Every form of a duration that the command or a page prints is accepted by every flag for
    /// durations.
    #[test]
    fn every_flag_of_a_duration_takes_every_form_of_one() {
        let forms = [
            "2y11d", "14d", "2d3h", "47h", "7h59m", "2m1s", "119s", "1h30m", "1.5s", "1w2d12h",
        ];
        let mut checked = 0;
        for verb in Command::command().get_subcommands_mut() {
            let flags = verb.get_arguments();
            let flags = flags.filter(|flag| {
                flag.get_value_names()
                    .is_some_and(|names| names == ["DURATION"])
            });
            let flags: Vec<_> = flags
                .filter_map(|flag| flag.get_long())
                .map(str::to_owned)
                .collect();
            for flag in flags {
                for form in forms {
                    let name = verb.get_name().to_owned();
                    let parsed = verb.try_get_matches_from_mut([name, format!("--{flag}={form}")]);
                    // Other arguments may be missing.
                    let kind = parsed.err().map(|error| error.kind());
                    assert_ne!(kind, Some(ErrorKind::ValueValidation), "--{flag}={form}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 15 * forms.len(), "only {checked} were checked");
    }
}
