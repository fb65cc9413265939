//! `tidings events`: what happened, in the order it happened.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::ExitCode;

use tidings_cli::event::{Event, by_last_seen};
use tidings_cli::format::{FORMATS, Format};
use tidings_cli::printer::Printer;

use super::archived;
use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish, tell};
use super::reader::{EVENTS_MAX, Listed, Notice, Reader, Watched};
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
    /// All versions of this event, from an archive; the earliest first
    #[arg(long, value_name = "EVENT", conflicts_with = "watch", value_parser = event_name)]
    history: Option<String>,
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

  # The warnings of a month, from every cluster of an archive
  tidings events -A --cluster all --since 30d --types Warning --kubeconfig ./archive/kubeconfig

  # Every version of one event that an archive has
  tidings events -n shop --history web-0.17a3f0c1d2e3f405 --kubeconfig ./archive/kubeconfig

  # Custom columns
  tidings events -o custom-columns=WHEN:.lastTimestamp,WHO:.source.component,WHAT:.message";

/// An event's name, also as -o name and kubectl print it.
fn event_name(text: &str) -> Result<String, String> {
    let prefixes = ["event/", "events/", "event.events.k8s.io/"];
    let mut names = prefixes
        .iter()
        .filter_map(|prefix| text.strip_prefix(*prefix));
    let name = names.next().unwrap_or(text);
    if name.is_empty() || name.contains('/') {
        return Err("expected the name of an event, as -o name prints it".to_owned());
    }
    Ok(name.to_owned())
}

/// Shows events.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(args: Args) -> Result<u8, CommandError> {
    let screen = args.color.screen();
    let clusters = archived::sources(&args.cluster).await?;
    let mut sources = Vec::with_capacity(clusters.len());
    for (name, flags) in clusters {
        let mut reader = args.selection.reader(&flags, &args.namespaces).await?;
        reader.events_max = args.max_events;
        sources.push(Source { name, reader });
    }
    let namespace = sources
        .first()
        .map(|source| source.reader.namespace.clone());
    let namespace = namespace.unwrap_or_default();
    let mut printer = Printer::new(args.output, screen, namespace.is_empty());
    if args.no_headers {
        printer = printer.without_headings();
    }
    if args.cluster.is_of_all() {
        printer = printer.with_clusters();
    }
    if args.history.is_some() {
        printer = printer.with_versions();
    }
    let limit = args
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut events = Vec::new();
    let mut revisions = Vec::with_capacity(sources.len());
    let mut missing = None;
    for source in &sources {
        let mut listed = match &args.history {
            Some(name) => match source.versions(name).await {
                // Another cluster of the archive may have it.
                Err(error) if error.is_not_found() => {
                    missing.get_or_insert(error);
                    continue;
                }
                listed => listed?,
            },
            None => source.reader.list(limit).await?,
        };
        if args.watch {
            listed.leave_to_watch();
        }
        source.name(&mut listed.events);
        events.extend(listed.events);
        revisions.push(listed.revision);
    }
    if let Some(error) = missing.filter(|_| revisions.is_empty()) {
        return Err(error);
    }
    events.sort_by(by_last_seen);
    events.drain(..events.len().saturating_sub(limit.unwrap_or(usize::MAX)));

    let mut out = io::BufWriter::new(io::stdout());
    if args.watch {
        printer.some(&events, clock::now(), &mut out)?;
        out.flush()?;
        drop(events);
        // All watches run in this task, so only one prints at a time.
        let printed = RefCell::new((printer, out));
        let watches = sources.iter().zip(&revisions).map(|(source, revision)| {
            source.reader.watch(revision, |watched| match watched {
                Watched::Event(event) => {
                    let mut events = [event];
                    source.name(&mut events);
                    let (printer, out) = &mut *printed.borrow_mut();
                    printer.some(&events, clock::now(), out)?;
                    Ok(out.flush()?)
                }
                Watched::Notice(notice) => {
                    match &source.name {
                        Some(name) => tell(&format!("{name}: {}", words(&notice))),
                        None => tell(&words(&notice)),
                    }
                    Ok(())
                }
            })
        });
        futures::future::try_join_all(watches).await?;
        return Ok(DONE);
    }
    if events.is_empty() && !printer.says_nothing_found() {
        // kubectl's own words.
        tell(&match namespace.as_str() {
            "" => "No events found.".to_owned(),
            namespace => format!("No events found in {namespace} namespace."),
        });
        return Ok(DONE);
    }
    printer.list(events, clock::now(), &mut out)?;
    out.flush()?;
    Ok(DONE)
}

/// A source of events.
struct Source {
    /// The cluster of an archive, if there are several.
    name: Option<String>,
    reader: Reader,
}

impl Source {
    /// Sets the cluster of events.
    fn name(&self, events: &mut [Event]) {
        for event in events {
            if let Some(name) = &self.name {
                event.set_cluster(name);
            }
        }
    }

    /// The event whose versions to show.
    async fn versions(&self, name: &str) -> Result<Listed, CommandError> {
        let namespace = match self.reader.namespace.as_str() {
            "" => {
                let why = "name the event's namespace with -n: --history is of one event";
                return Err(CommandError::Usage(why.to_owned()));
            }
            namespace => namespace,
        };
        let mut events = archived::versions(&self.reader.server, namespace, name).await?;
        events.retain(|event| self.reader.filter.selects(event));
        Ok(Listed {
            events,
            revision: String::new(),
            is_sealed: true,
        })
    }
}

fn words(notice: &Notice) -> String {
    match notice {
        Notice::Interrupted(why) => format!("the watch was interrupted and is retried: {why}"),
        Notice::Resumed => "the watch continues without a gap".to_owned(),
        Notice::Relisted => {
            "the server had forgotten changes: the last state of each event is shown".to_owned()
        }
        Notice::NewHistory => {
            "which changes were shown cannot be told: another server answers, or one that counts \
             anew, or more was sealed; all events are shown again"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_as_it_is_printed() {
        for printed in [
            "web.1",
            "event/web.1",
            "events/web.1",
            "event.events.k8s.io/web.1",
        ] {
            assert_eq!(event_name(printed).as_deref(), Ok("web.1"), "{printed}");
        }
        for other in ["", "event/", "shop/web.1", "event/shop/web.1"] {
            assert!(event_name(other).is_err(), "{other}");
        }
    }
}
