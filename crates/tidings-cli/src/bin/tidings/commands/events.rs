//! `tidings events`: what happened, in the order it happened.

use std::io::{self, Write};
use std::process::ExitCode;

use tidings_cli::event::by_last_seen;
use tidings_cli::format::{FORMATS, Format};
use tidings_cli::printer::Printer;

use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish, tell};
use super::reader::{EVENTS_MAX, Notice, Watched};
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use crate::clock;

/// Show the events of any cluster, the most recent last.
///
/// Works with every Kubernetes API server, with kubectl's kubeconfig and flags; installed as
/// kubectl-tidings, also as the plugin "kubectl tidings". Objects are found through their events,
/// so that deleted ones are found, too.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ev", after_help = EXIT_CODES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Args {
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Show only the last N events. Any server other than tidings serve must send all events for it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Maximum number of events held in memory, at about 5 KB each. Sorting needs all of them; with
    /// --limit only twice as many as are shown
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX)]
    max_events: usize,
    /// Continue with new events, across restarts of the server and network failures
    #[arg(long, short, help_heading = "Output")]
    watch: bool,
    #[arg(
        long,
        short,
        value_name = "FORM",
        default_value = "table",
        hide_default_value = true,
        help = FORMATS,
        help_heading = "Output"
    )]
    output: Format,
    /// Print no header line
    #[arg(long, help_heading = "Output")]
    no_headers: bool,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
}

const EXAMPLES: &str = "Examples:
  # The last twenty warnings of all namespaces, then new ones
  tidings events -A --types=Warning --limit 20 -w

  # A deployment, its replica sets and pods, in the last two hours
  tidings events --for deploy/web --tree --since 2h

  # Pods that were not scheduled on 4 March
  tidings events -A --reason FailedScheduling --since 2026-03-04 --until 2026-03-05

  # Warnings that mention a volume, as JSON Lines
  tidings events -A --types=Warning --grep volume -o jsonl

  # Custom columns
  tidings events -o custom-columns=WHEN:.lastTimestamp,WHO:.source.component,WHAT:.message";

/// Shows events.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(args: Args) -> Result<u8, CommandError> {
    let screen = args.color.screen();
    let mut reader = args
        .selection
        .reader(&args.cluster, &args.namespaces)
        .await?;
    reader.events_max = args.max_events;
    let mut printer = Printer::new(args.output, screen, reader.namespace.is_empty());
    if args.no_headers {
        printer = printer.without_headings();
    }
    let limit = args
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut listed = reader.list(limit).await?;
    listed.events.sort_by(by_last_seen);

    let mut out = io::BufWriter::new(io::stdout());
    if args.watch {
        printer.some(&listed.events, clock::now(), &mut out)?;
        out.flush()?;
        drop(listed.events);
        reader
            .watch(&listed.revision, |watched| match watched {
                Watched::Event(event) => {
                    printer.some(&[event], clock::now(), &mut out)?;
                    Ok(out.flush()?)
                }
                Watched::Notice(notice) => {
                    tell(&words(&notice));
                    Ok(())
                }
            })
            .await?;
        return Ok(DONE);
    }
    if listed.events.is_empty() && !printer.says_nothing_found() {
        // kubectl's own words.
        tell(&match reader.namespace.as_str() {
            "" => "No events found.".to_owned(),
            namespace => format!("No events found in {namespace} namespace."),
        });
        return Ok(DONE);
    }
    printer.list(listed.events, clock::now(), &mut out)?;
    out.flush()?;
    Ok(DONE)
}

fn words(notice: &Notice) -> String {
    match notice {
        Notice::Interrupted(why) => format!("the watch was interrupted and is retried: {why}"),
        Notice::Resumed => "the watch continues without a gap".to_owned(),
        Notice::NewHistory => {
            "the server's revisions started again: its events are shown again".to_owned()
        }
    }
}
