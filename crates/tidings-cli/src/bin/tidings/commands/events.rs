//! `tidings events`: shows events in the order in which they happened.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use tidings_cli::event::{self, Event};
use tidings_cli::filter::Filter;
use tidings_cli::format::{FORMATS, Format, Rows};
use tidings_cli::printer::Printer;
use tidings_cli::sort_key::SortKey;
use tidings_cli::table::Screen;
use tidings_cli::time_form::TimeForm;
use tidings_cli::{times, values};
use tidings_history::{ENDED_AFTER, ENDED_AT};

use super::all_clusters;
use super::archived;
use super::capture::CaptureFlags;
use super::cluster::{
    ClusterFlags, CommandError, DONE, EXIT_CODES_WITH_CAPTURES, NamespaceFlags, finish, tell,
};
use super::gaps;
use super::past::{self, PastFlags};
use super::reader::{EVENTS_MAX, Listed, Notice, Reader, Watched};
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use super::timestamps::TimestampsFlag;
use crate::clock;

/// Show the events of any cluster, the most recent last.
///
/// Works with every Kubernetes API server, with kubectl's kubeconfig and flags; installed as
/// kubectl-tidings, also as the plugin "kubectl tidings". Objects are found through their events,
/// so that deleted ones are found, too.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "ev", after_help = EXIT_CODES_WITH_CAPTURES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES_WITH_CAPTURES}"))]
#[command(group = ArgGroup::new("watching").args(["watch", "watch_only"]).multiple(true))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct Args {
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    past: PastFlags,
    /// Show only the last N events. Any server other than tidings serve must send all events for it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// All versions of this event, from an archive; the earliest first
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["watching", "selector", "field_selector"], value_parser = event_name)]
    history: Option<String>,
    /// Maximum number of events held in memory, at about 5 KB each. Sorting needs all of them; with
    /// --limit only twice as many as are shown
    #[arg(long, value_name = "N", default_value_t = EVENTS_MAX, allow_negative_numbers = true, value_parser = values::positive)]
    max_events: usize,
    /// Continue with new events, across restarts of the server and network failures
    #[arg(long, short, conflicts_with = "files", help_heading = "Output")]
    watch: bool,
    /// As --watch, but without the events that exist already
    #[arg(long, conflicts_with_all = ["limit", "files"], help_heading = "Output")]
    watch_only: bool,
    /// With --watch: end when N events were shown. Those that exist already are shown and counted
    /// first, the earliest first; an event that repeats counts each time. With --watch-only only
    /// new ones count
    #[arg(long, value_name = "N", requires = "watching", allow_negative_numbers = true, value_parser = values::positive, help_heading = "Output")]
    until_count: Option<usize>,
    /// With --watch: end after this time, such as 30s or 5m. If --until-count was not reached then,
    /// the exit code is 1, as that of kubectl wait; without --until-count it is 0
    #[arg(long, value_name = "DURATION", requires = "watching", value_parser = times::positive_duration, help_heading = "Output")]
    timeout: Option<Duration>,
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
    /// Sort by this field instead of by when an event was last seen, as kubectl get does:
    /// .metadata.name; .firstTimestamp is when it was first seen, whatever its API version
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    sort_by: Option<SortKey>,
    /// Show the events' labels in a column
    #[arg(long, help_heading = "Output")]
    show_labels: bool,
    /// Print no header line
    #[arg(long, help_heading = "Output")]
    no_headers: bool,
    #[command(flatten)]
    timestamps: TimestampsFlag,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    capture: CaptureFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

const EXAMPLES: &str = "Examples:
  # The last twenty warnings of all namespaces, then new ones
  tidings events -A --types=Warning --limit 20 -w

  # In a script: waits until a pod is stopped, five minutes at most
  tidings events --for pod/web-0 --filter reason:Killing -w --until-count 1 --timeout 5m

  # A deployment, its replica sets and pods, in the last two hours
  tidings events --for deploy/web --tree --since 2h

  # Pods that were not scheduled on 4 March
  tidings events -A --filter reason:FailedScheduling --since 2026-03-04 --until 2026-03-05

  # Failures of a node that mention a volume, but not those of probes, as JSON Lines
  tidings events -A --filter 'reason:Failed* node:worker-1 volume -probe' -o jsonl

  # The warnings of a month, from every cluster of an archive
  tidings events -A --cluster all --since 30d --types Warning --kubeconfig ./archive/kubeconfig

  # Every version of one event that an archive has
  tidings events -n shop --history web-0.17a3f0c1d2e3f405 --kubeconfig ./archive/kubeconfig

  # The warnings of a support bundle, as it was sent
  tidings events --file support-bundle.tar.gz --types=Warning

  # Custom columns
  tidings events -o custom-columns=WHEN:.lastTimestamp,WHO:.source.component,WHAT:.message";

/// Parses an event's name, also in the form of -o name and kubectl's output.
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

impl Args {
    fn is_watch(&self) -> bool {
        self.watch || self.watch_only
    }
}

/// Shows events.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(mut args: Args) -> Result<u8, CommandError> {
    let loaded = args.capture.load(&mut args.cluster, &mut args.namespaces);
    let loaded = loaded.await?;
    let is_watching = Cell::new(false);
    let shown = Box::pin(show_all(&args, loaded.now, &is_watching));
    let Some(timeout) = args.timeout else {
        shown.await?;
        return Ok(loaded.exit_code());
    };
    let shown = tokio::time::timeout(timeout, shown).await;
    shown.unwrap_or_else(|_| timed_out(timeout, args.until_count, is_watching.get()))
}

/// The result when the given time is over. A watch that counts no events has then succeeded.
fn timed_out(
    timeout: Duration,
    until_count: Option<usize>,
    is_watching: bool,
) -> Result<u8, CommandError> {
    let what = match until_count {
        None if is_watching => return Ok(DONE),
        None => "read the events".to_owned(),
        Some(1) => "see an event that is wanted".to_owned(),
        Some(count) => format!("see {count} events that are wanted"),
    };
    let late = format!("{what} within {timeout:?} (--timeout)");
    Err(CommandError::Failed(late))
}

/// `now` is the time from which the ages of events that exist already count.
async fn show_all(
    args: &Args,
    now: Timestamp,
    is_watching: &Cell<bool>,
) -> Result<u8, CommandError> {
    let (screen, out) = args.color.output();
    let (sources, archive) = sources(args, now).await?;
    let namespace = sources
        .first()
        .map(|source| source.reader.namespace.clone());
    let namespace = namespace.unwrap_or_default();
    let printer = printer(args, screen, namespace.is_empty());
    let limit = args
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let past = match &archive {
        Some(archive) => past::list(archive, limit).await?,
        None => Vec::new(),
    };
    let Existing {
        mut events,
        revisions,
    } = list(args, &sources, limit).await?;
    past::add(past, &mut events);
    event::sort(&mut events);
    events.drain(..events.len().saturating_sub(limit.unwrap_or(usize::MAX)));
    if let Some(key) = &args.sort_by {
        if args.is_watch() {
            tell("a watch shows events in the order of time: --sort-by sorts only existing events");
        }
        let sorted = key.sort(&mut events);
        sorted.map_err(|why| CommandError::Failed(why.to_string()))?;
    }

    if args.is_watch() {
        let mut watched = Output {
            printer,
            out,
            left: args.until_count,
        };
        if watched.print(&events)?.is_break() {
            return Ok(DONE);
        }
        drop(events);
        is_watching.set(true);
        return watch(&sources, &revisions, watched).await;
    }
    if events.is_empty() && !printer.says_nothing_found() {
        tell_nothing_found(args, &sources, archive.as_ref(), &namespace).await?;
        return Ok(DONE);
    }
    print(args, events, now, printer, out)?;
    tell_gaps(args, &sources, archive.as_ref()).await;
    Ok(DONE)
}

/// The clusters to read, and the archive of their earlier events, if there is one beside them.
async fn sources(
    args: &Args,
    now: Timestamp,
) -> Result<(Vec<Source>, Option<Reader>), CommandError> {
    let clusters = all_clusters::sources(&args.cluster, &args.namespaces).await?;
    let mut sources = Vec::with_capacity(clusters.len());
    let mut archive = None;
    for (name, flags) in clusters {
        let mut reader = args.selection.reader(&flags, &args.namespaces).await?;
        if args.capture.is_some() {
            args.selection.as_of(now, &mut reader)?;
        }
        reader.events_max = args.max_events;
        let mut is_archive = false;
        let is_asked = args.history.is_some() || args.selection.is_of_times();
        let past = args
            .past
            .reader(&flags, &reader, is_asked && !args.watch_only);
        match past.await? {
            // Only an archive has versions.
            Some(past) if args.past.is_archive_alone() || args.history.is_some() => {
                past::tell_alone();
                reader = past;
                is_archive = true;
            }
            past => archive = past,
        }
        sources.push(Source {
            name,
            reader,
            is_archive,
        });
    }
    Ok((sources, archive))
}

/// The printer that the flags ask for.
fn printer(args: &Args, screen: Screen, is_of_all_namespaces: bool) -> Printer {
    let mut printer = Printer::new(args.output.clone(), screen, is_of_all_namespaces)
        .with_time_form(args.timestamps.form())
        .with_wanted(&args.selection.texts());
    if args.no_headers {
        printer = printer.without_headings();
    }
    if args.show_labels {
        printer = printer.with_labels();
    }
    if args.cluster.is_of_all() {
        printer = printer.with_clusters();
    }
    if args.history.is_some() {
        printer = printer.with_versions();
    }
    printer
}

/// Events that exist, and the revision of each source's list.
#[derive(Default)]
struct Existing {
    events: Vec<Event>,
    revisions: Vec<String>,
}

async fn list(
    args: &Args,
    sources: &[Source],
    limit: Option<usize>,
) -> Result<Existing, CommandError> {
    let mut all = Existing::default();
    let mut missing = None;
    for source in sources {
        let mut listed = match &args.history {
            Some(name) => match source.versions(name).await {
                // The event may be in another cluster of the archive.
                Err(error) if error.is_not_found() => {
                    missing.get_or_insert(error);
                    continue;
                }
                listed => listed?,
            },
            None if args.watch_only => source.reader.list_nothing().await?,
            None => source.reader.list(limit).await?,
        };
        if args.is_watch() {
            listed.leave_to_watch();
        }
        source.name(&mut listed.events);
        all.events.extend(listed.events);
        all.revisions.push(listed.revision);
    }
    match missing {
        Some(error) if all.revisions.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// Says that there are no events, in kubectl's words, and where there may be some.
async fn tell_nothing_found(
    args: &Args,
    sources: &[Source],
    archive: Option<&Reader>,
    namespace: &str,
) -> Result<(), CommandError> {
    tell(&match namespace {
        "" => "No events found.".to_owned(),
        namespace => format!("No events found in {namespace} namespace."),
    });
    if args.capture.is_some() {
        for source in sources {
            tell_span(&source.reader).await?;
        }
    }
    if tell_gaps(args, sources, archive).await {
        let of = match namespace {
            "" => String::new(),
            namespace => format!(" -n {namespace}"),
        };
        tell(&format!(
            "hint: tidings coverage{of} says from when to when the archive has events, and what is sealed before"
        ));
    }
    Ok(())
}

/// Prints events that exist, and the end of the one whose versions they are.
fn print(
    args: &Args,
    mut events: Vec<Event>,
    now: Timestamp,
    mut printer: Printer,
    mut out: impl Write,
) -> Result<(), CommandError> {
    let is_for_people = matches!(args.output, Format::Rows(Rows::Table | Rows::Wide));
    let is_of_one = args.history.is_some() && is_for_people;
    let end = is_of_one.then(|| end(&events)).flatten();
    if args.capture.is_some() {
        // The server in this process numbered them.
        events.iter_mut().for_each(Event::remove_revision);
        if is_for_people {
            let form = args.timestamps.form();
            let form =
                form.unwrap_or_else(|| TimeForm::of(events.iter().map(Event::last_seen), now));
            args.capture.tell_form(&form, now);
            printer = printer.with_time_form(Some(form));
        }
    }
    printer.list(events, now, &mut out)?;
    if let Some(end) = end {
        writeln!(out, "{end}")?;
    }
    out.flush()?;
    Ok(())
}

/// Prints the period in which the captures have events, if none is selected.
async fn tell_span(reader: &Reader) -> Result<(), CommandError> {
    let mut all = reader.clone();
    all.filter = Filter::default();
    let (mut number, mut span) = (0, None);
    let scan = all.scan(None, |page| {
        number += page.events.len();
        for seen in page.events.iter().filter_map(Event::last_seen) {
            let (from, to) = span.unwrap_or((seen, seen));
            span = Some((seen.min(from), seen.max(to)));
        }
        Ok(())
    });
    scan.await?;
    if let Some((from, to)) = span {
        tell(&format!(
            "hint: {number} events are there, last seen from {from:.0} to {to:.0}"
        ));
    }
    Ok(())
}

/// Prints gaps within the selected time. Returns whether a source is an archive.
async fn tell_gaps(args: &Args, sources: &[Source], archive: Option<&Reader>) -> bool {
    let mut is_archive = false;
    let sources = sources
        .iter()
        .map(|source| (&source.name, &source.reader, source.is_archive));
    let archive = archive.map(|reader| (&None, reader, true));
    for (name, reader, is_known) in sources.chain(archive) {
        let (server, namespace) = (&reader.server, &reader.namespace);
        let coverage = if is_known {
            archived::coverage_of(server, namespace).await.ok()
        } else {
            archived::coverage_if_archive(&args.cluster, server, namespace).await
        };
        let Some(coverage) = coverage else {
            continue;
        };
        is_archive = true;
        let time = (reader.filter.since, reader.filter.until);
        let begun = gaps::beginning(&coverage, time.0);
        for line in begun.into_iter().chain(gaps::line(&coverage.gaps, time)) {
            match name {
                Some(name) => tell(&format!("{name}: {line}")),
                None => tell(&line),
            }
        }
    }
    is_archive
}

/// The final line about an event that has ended at its source.
fn end(versions: &[Event]) -> Option<String> {
    let annotation = |name: &str| {
        let found = versions.iter();
        let found = found.map(|version| &version.value()["metadata"]["annotations"][name]);
        let found = found.filter_map(|time| time.as_str()?.parse::<Timestamp>().ok());
        found.max()
    };
    let ended = annotation(ENDED_AT)?;
    Some(match annotation(ENDED_AFTER) {
        Some(after) => format!(
            "ended between {}",
            gaps::period(after, ended).replace(" to ", " and ")
        ),
        None => format!("ended {}", gaps::moment(ended)),
    })
}

/// Watches all sources until enough events were shown.
async fn watch(
    sources: &[Source],
    revisions: &[String],
    output: Output<impl Write>,
) -> Result<u8, CommandError> {
    // All watches run in this task, so only one prints at a time.
    let output = &RefCell::new(output);
    let watches = sources.iter().zip(revisions).map(|(source, revision)| {
        source.reader.watch(revision, |watched| match watched {
            Watched::Event(event) => {
                let mut events = [event];
                source.name(&mut events);
                output.borrow_mut().print(&events)
            }
            Watched::Notice(notice) => {
                match &source.name {
                    Some(name) => tell(&format!("{name}: {}", words(&notice))),
                    None => tell(&words(&notice)),
                }
                Ok(ControlFlow::Continue(()))
            }
        })
    });
    // The first watch that ends, because enough was shown or it cannot continue, ends the others.
    // try_join_all would notice it only after all watches before it have ended.
    let mut watches: FuturesUnordered<_> = watches.collect();
    match watches.next().await {
        Some(ended) => ended.map(|()| DONE),
        None => Err(CommandError::Failed(
            "watch the events: the archive has no cluster".to_owned(),
        )),
    }
}

/// The output of a watch.
struct Output<W> {
    printer: Printer,
    out: W,
    /// Events still to be shown, if they are counted.
    left: Option<usize>,
}

impl<W: Write> Output<W> {
    /// Prints events, up to the remaining number; breaks when it is reached.
    fn print(&mut self, events: &[Event]) -> Result<ControlFlow<()>, CommandError> {
        let wanted = self.left.unwrap_or(usize::MAX).min(events.len());
        let events = &events[..wanted];
        self.printer.some(events, clock::now(), &mut self.out)?;
        self.out.flush()?;
        self.left = self.left.map(|left| left - wanted);
        Ok(match self.left {
            Some(0) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    }
}

/// A source of events: a cluster and its reader.
struct Source {
    /// The name of the cluster, if the archive has several.
    name: Option<String>,
    reader: Reader,
    /// Whether it is the archive of the selected cluster, in place of the cluster.
    is_archive: bool,
}

impl Source {
    /// Records the source's cluster in the events.
    fn name(&self, events: &mut [Event]) {
        for event in events {
            if let Some(name) = &self.name {
                event.set_cluster(name);
            }
        }
    }

    /// Requests all versions of an event.
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
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::super::reader::tests::reader;
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

    /// Only a watch that counts no events succeeds when its time is over.
    #[test]
    fn what_was_not_seen_in_time_is_a_failure() {
        let timeout = Duration::from_secs(300);
        for (until_count, is_watching, said) in [
            (None, true, None),
            (None, false, Some("read the events within 300s (--timeout)")),
            (Some(1), true, Some("see an event that is wanted within")),
            (Some(3), true, Some("see 3 events that are wanted within")),
            (Some(3), false, Some("see 3 events that are wanted within")),
        ] {
            let ended = timed_out(timeout, until_count, is_watching);
            match (ended, said) {
                (Ok(code), None) => assert_eq!(code, DONE),
                (Err(error), Some(said)) => {
                    assert_eq!(error.exit_code(), 1);
                    assert!(error.to_string().starts_with(said), "{error}");
                }
                (ended, said) => panic!("{ended:?}, and not {said:?}"),
            }
        }
    }

    /// A cluster that gives this answer to a watch, or none.
    fn cluster(answer: Option<(u16, Value)>) -> Source {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let answer = answer.clone();
            async move {
                let Some((code, body)) = answer else {
                    return std::future::pending::<http::Result<http::Response<Body>>>().await;
                };
                let body = Body::from(format!("{body}\n").into_bytes());
                http::Response::builder().status(code).body(body)
            }
        });
        let reader = reader(service);
        Source {
            name: None,
            reader,
            is_archive: false,
        }
    }

    /// The annotations are shown in no column.
    #[test]
    fn the_history_of_an_event_that_ended_ends_with_its_end() {
        let version =
            |annotations: Value| Event::new(json!({"metadata": {"annotations": annotations}}));
        let (at, after) = ("2026-11-28T14:37:40.123Z", "2026-11-28T14:27:35Z");
        for (newest, expected) in [
            (json!({}), None),
            (json!({"tidings/ended-at": "then"}), None),
            (
                json!({"tidings/ended-at": at}),
                Some("ended 2026-11-28 14:37:40 UTC"),
            ),
            (
                json!({"tidings/ended-at": at, "tidings/ended-after": after}),
                Some("ended between 2026-11-28 14:27:35 and 14:37:40 UTC"),
            ),
        ] {
            let versions = [
                version(json!({"tidings/observed-at": after})),
                version(newest),
            ];
            assert_eq!(end(&versions).as_deref(), expected);
        }
    }

    /// The watch ends however many silent watches are before it.
    #[tokio::test(start_paused = true)]
    async fn the_first_watch_that_ends_ends_all() {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "resourceVersion": "6"}});
        let change = json!({"type": "ADDED", "object": object});
        let refusal = json!({"kind": "Status", "status": "Failure", "code": 422, "message": "no"});
        for (answer, code) in [((200, change), Some(DONE)), ((422, refusal), None)] {
            for silent in [0, 1, 99] {
                let mut sources: Vec<_> = (0..silent).map(|_| cluster(None)).collect();
                sources.push(cluster(Some(answer.clone())));
                let revisions = vec!["5".to_owned(); sources.len()];
                let mut out = Vec::<u8>::new();
                let output = Output {
                    printer: Printer::new("name".parse().unwrap(), Screen::default(), true),
                    out: &mut out,
                    left: Some(1),
                };
                let ended = watch(&sources, &revisions, output);
                let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
                assert_eq!(ended.unwrap().ok(), code, "{silent}");
                assert_eq!(out.is_empty(), code.is_none(), "{silent}");
            }
        }
        let output = Output {
            printer: Printer::new("name".parse().unwrap(), Screen::default(), true),
            out: Vec::<u8>::new(),
            left: Some(1),
        };
        // With no clusters nothing can be watched.
        assert!(watch(&[], &[], output).await.is_err());
    }
}
