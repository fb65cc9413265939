//! `tidings top`: shows which objects and reasons have the most events.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tidings_cli::event::Event;
use tidings_cli::noise::{Noise, Span};
use tidings_cli::table::{Cell, Column, Look, Screen, Table};
use tidings_cli::time_form::TimeForm;
use tidings_cli::times;
use tidings_history::{Counted, timestamp};

use super::archived;
use super::capture::CaptureFlags;
use super::cluster::{
    ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish, one_line, tell,
};
use super::reader::Reader;
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use super::timestamps::TimestampsFlag;
use crate::clock;

/// Bars in a chart.
const PARTS: usize = 24;
/// Default length of the counted span.
const WINDOW: Duration = Duration::from_secs(3600);
/// Spans longer than this are answered from an archive's counts by hour.
const READ_MAX: Duration = Duration::from_secs(24 * 3600);
/// Events read of each cluster where an archive has no counts.
const OBJECTS_MAX: usize = 5000;

/// Show the reasons and objects with the most events, and when they occurred.
///
/// Counts occurrences, not events: an event seen a thousand times counts a thousand. An event does
/// not record when each occurrence was, so they are assumed to be evenly spread between the first
/// and the last. Events are read page by page; memory grows only with the number of names counted.
///
/// An archive answers for more than a day from its counts by hour and reason, in which each event
/// counts once, in the hour it was last seen. Objects are then counted in the 5,000 events of each
/// cluster that were seen last in that time. Events chosen by anything but time are read in any
/// case.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings top -A
  tidings top -A --types=Warning --window 6h --by reason,source
  tidings top --file must-gather.tar.gz
  tidings top -A --cluster all --since 30d --kubeconfig ./archive/kubeconfig

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// How far to look back from --until, or from now [default: to --since, or 1h; with --file to
    /// the first event]
    #[arg(long, value_name = "DURATION", value_parser = times::positive_duration, conflicts_with = "since")]
    window: Option<Duration>,
    /// What to count by, with one table each
    #[arg(
        long,
        value_name = "WHAT,…",
        value_delimiter = ',',
        default_value = "reason,object"
    )]
    by: Vec<By>,
    /// Rows of each table; 0 means all
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows: usize,
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    timestamps: TimestampsFlag,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    capture: CaptureFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// BackOff, FailedScheduling, …
    Reason,
    /// Pod/web-0, …
    Object,
    /// kubelet, …
    Source,
    /// default, …
    Namespace,
    /// worker-1, …
    Host,
}

impl By {
    fn heading(self) -> &'static str {
        match self {
            Self::Reason => "REASON",
            Self::Object => "OBJECT",
            Self::Source => "SOURCE",
            Self::Namespace => "NAMESPACE",
            Self::Host => "HOST",
        }
    }

    fn name(self, event: &Event, namespaces: bool) -> String {
        let or_none = |text: &str| {
            let text = if text.is_empty() { "<none>" } else { text };
            text.to_owned()
        };
        match self {
            Self::Reason => or_none(event.reason()),
            Self::Object => match event.object_namespace() {
                namespace if namespaces && !namespace.is_empty() => {
                    format!("{namespace}  {}", event.object())
                }
                _ => event.object(),
            },
            Self::Source => or_none(event.component()),
            Self::Namespace => or_none(event.namespace()),
            Self::Host => or_none(event.host()),
        }
    }
}

/// Shows the counts.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

/// The counts, and the span they cover.
struct Top {
    span: Span,
    noises: Vec<(By, Noise)>,
    /// Notes about what the counts contain.
    notes: Vec<String>,
    /// The unit of an archive's counts, if they were used.
    counted: Counted,
}

async fn show(mut args: Args) -> Result<u8, CommandError> {
    let loaded = args.capture.load(&mut args.cluster, &mut args.namespaces);
    loaded.await?;
    let now = clock::now();
    let (since, until) = args.selection.times(now)?;
    let span = if args.capture.is_some() && args.window.is_none() && since.is_none() {
        let reader = args.selection.reader(&args.cluster, &args.namespaces);
        whole(&reader.await?).await?
    } else {
        span(args.window, (since, until), now)?
    };
    let mut top = Top {
        span,
        noises: args.by.iter().map(|by| (*by, Noise::new(span))).collect(),
        notes: Vec::new(),
        counted: Counted::default(),
    };
    for (name, flags) in archived::sources(&args.cluster, &args.namespaces).await? {
        let reader = args.selection.reader(&flags, &args.namespaces).await?;
        let is_counted = args.selection.is_of_times_alone()
            && reader.namespace.is_empty()
            && span.to.duration_since(span.from).unsigned_abs() > READ_MAX
            && args
                .by
                .iter()
                .all(|by| matches!(by, By::Reason | By::Object));
        if !(is_counted && top.count(name.as_deref(), &reader).await?) {
            top.read(name.as_deref(), &reader).await?;
        }
    }
    let (screen, mut out) = args.color.output();
    let rows = if args.rows == 0 {
        usize::MAX
    } else {
        args.rows
    };
    if let Some((_, noise)) = top.noises.first() {
        summary(noise, top.counted, (span, now), &mut out)?;
    }
    for note in &top.notes {
        writeln!(out, "{}", one_line(note))?;
    }
    for (by, noise) in &top.noises {
        let time_form = args.timestamps.form();
        table(*by, noise, rows, (span, now), (time_form, screen), &mut out)?;
    }
    out.flush()?;
    let mut noises = top.noises.iter();
    if noises.all(|(_, noise)| noise.events == 0) {
        tell("no event was seen in this time: --since, --until and --window choose another");
    }
    Ok(DONE)
}

/// The span to count: of a given length or from a given time, up to a given time or now.
fn span(
    window: Option<Duration>,
    (since, until): (Option<Timestamp>, Option<Timestamp>),
    now: Timestamp,
) -> Result<Span, CommandError> {
    let to = until.map_or(now, |until| until.min(now));
    let from = match since {
        Some(since) => since.min(to),
        None => to.checked_sub(window.unwrap_or(WINDOW)).map_err(|_| {
            CommandError::Usage(
                "look back further than there are dates: shorten --window".to_owned(),
            )
        })?,
    };
    Ok(Span {
        from,
        to,
        is_until_now: until.is_none_or(|until| until >= now),
        parts: PARTS,
    })
}

/// The span from the first to the last selected event.
async fn whole(reader: &Reader) -> Result<Span, CommandError> {
    let (mut from, mut last) = (None, None);
    let scan = reader.scan(None, |page| {
        for event in &page.events {
            let seen = event.last_seen();
            last = last.max(seen);
            for time in [event.first_seen(), seen].into_iter().flatten() {
                from = Some(from.map_or(time, |from: Timestamp| from.min(time)));
            }
        }
        Ok(())
    });
    scan.await?;
    let to = last.unwrap_or_default();
    // The end is exclusive, so it is moved past the last event.
    let to = to.checked_add(Duration::from_secs(1)).unwrap_or(to);
    Ok(Span {
        from: from.unwrap_or(to),
        to,
        is_until_now: false,
        parts: PARTS,
    })
}

impl Top {
    /// Reads and counts the events of a cluster.
    async fn read(&mut self, cluster: Option<&str>, reader: &Reader) -> Result<(), CommandError> {
        let namespaces = reader.namespace.is_empty();
        let scan = reader.scan(None, |page| {
            for event in &page.events {
                self.add(event, cluster, namespaces, |_| true);
            }
            Ok(())
        });
        scan.await
    }

    fn add(
        &mut self,
        event: &Event,
        cluster: Option<&str>,
        namespaces: bool,
        is_wanted: impl Fn(By) -> bool,
    ) {
        for (by, noise) in self.noises.iter_mut().filter(|(by, _)| is_wanted(*by)) {
            let name = by.name(event, namespaces);
            let uid = match by {
                By::Object => event.told_apart_by(),
                _ => "",
            };
            noise.add(event, &named(*by, cluster, name), uid);
        }
    }

    /// Adds the counts of an archive, and counts objects in its last seen events. Returns false if
    /// it has no counts.
    async fn count(
        &mut self,
        cluster: Option<&str>,
        reader: &Reader,
    ) -> Result<bool, CommandError> {
        let span = self.span;
        let noises = &mut self.noises;
        let counted = archived::counts(&reader.server, (span.from, span.to), |count| {
            for (_, noise) in noises.iter_mut().filter(|(by, _)| *by == By::Reason) {
                noise.count(&count.reason, timestamp(count.hour), count.events);
            }
        });
        let Some(counted) = counted.await? else {
            return Ok(false);
        };
        self.counted = counted;
        let each = match counted {
            Counted::Events => "each event once, when it was last seen",
            Counted::Versions => "each version of an event once, when it was last seen then",
        };
        let of = cluster.map(|name| format!("{name}: ")).unwrap_or_default();
        let note = format!("{of}reasons are counted by hour, {each}");
        self.notes.push(note);
        if self.noises.iter().all(|(by, _)| *by != By::Object) {
            return Ok(true);
        }
        let mut reader = reader.clone();
        reader.filter.since = Some(span.from);
        // An event that was seen again later counts in that later hour.
        reader.seen_before = reader.filter.until.is_some().then_some(span.to);
        reader.filter.until = Some(span.to);
        let events = reader.list(Some(OBJECTS_MAX)).await?.events;
        for event in &events {
            self.add(event, cluster, true, |by| by == By::Object);
        }
        let oldest = events.iter().filter_map(Event::last_seen).min();
        if let Some(oldest) = oldest.filter(|_| events.len() >= OBJECTS_MAX) {
            let number = events.len();
            self.notes.push(format!(
                "{of}objects are of the {number} events seen last, since {oldest:.0}"
            ));
        }
        Ok(true)
    }
}

/// An object's name, with its cluster if there are several.
fn named(by: By, cluster: Option<&str>, name: String) -> String {
    match (by, cluster) {
        (By::Object | By::Namespace | By::Host, Some(cluster)) => format!("{cluster}  {name}"),
        _ => name,
    }
}

fn summary(
    noise: &Noise,
    counted: Counted,
    (span, now): (Span, Timestamp),
    out: &mut impl Write,
) -> io::Result<()> {
    let (total, events) = (&noise.total, noise.events);
    let when = if span.to == now {
        let window = span.to.duration_since(span.from).as_millis();
        format!("last {}", tidings_server::human_duration(window))
    } else {
        format!("{:.0} to {:.0}", span.from, span.to)
    };
    let per_minute = total.per_minute(span);
    if noise.is_read {
        writeln!(
            out,
            "{when}: {:.0} occurrences of {events} events, {:.0} of them warnings, {per_minute:.1} a minute",
            total.occurrences, total.warnings,
        )
    } else {
        let what = match counted {
            Counted::Events => "events",
            Counted::Versions => "versions of events",
        };
        writeln!(out, "{when}: {events} {what}, {per_minute:.1} a minute")
    }
}

fn table(
    by: By,
    noise: &Noise,
    rows: usize,
    (span, now): (Span, Timestamp),
    (time_form, screen): (Option<TimeForm>, Screen),
    out: &mut impl Write,
) -> io::Result<()> {
    let columns = vec![
        Column::new("COUNT"),
        Column::new("PER MINUTE"),
        Column::new("LAST SEEN"),
        Column::new("OVER TIME"),
        Column::of_names(by.heading()),
    ];
    let groups = noise.groups();
    let shown = groups.get(..rows).unwrap_or(&groups);
    let last_seen = shown.iter().map(|group| group.last_seen);
    let time_form = time_form.unwrap_or_else(|| TimeForm::of(last_seen, now));
    let cells = shown.iter().map(|group| {
        let look = if group.warnings > group.occurrences / 2. {
            Look::Warning
        } else {
            Look::Plain
        };
        vec![
            Cell::new(&format!("{:.0}", group.occurrences)),
            Cell::new(&format!("{:.1}", group.per_minute(span))),
            Cell::new(&time_form.text(group.last_seen, now)).look(Look::Dim),
            Cell::new(&group.chart()).look(look),
            Cell::new(&group.name).look(look),
        ]
    });
    writeln!(out)?;
    let mut table = Table::new(columns, screen);
    table.print(cells, out)?;
    let left = groups.len().saturating_sub(rows);
    if left > 0 {
        writeln!(out, "… and {left} more")?;
    }
    if let Some(cut) = table.cut("a wider terminal shows all") {
        writeln!(out, "{cut}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tidings_cli::filter::Filter;

    use super::super::cluster::Server;
    use super::super::reader::{EVENTS_MAX, Group};
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_ends_where_the_time_that_is_asked_for_does() {
        let now = at("2026-03-04T12:00:00Z");
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let ago = |number: u64| now.checked_sub(hours(number)).unwrap();
        for (window, since, until, (from, to)) in [
            (None, None, None, (1, 0)),
            (Some(2), None, None, (2, 0)),
            (None, None, Some(4), (5, 4)),
            (Some(2), None, Some(4), (6, 4)),
            (None, Some(6), Some(4), (6, 4)),
            (None, Some(6), None, (6, 0)),
            // Nothing is between them.
            (None, Some(3), Some(4), (4, 4)),
        ] {
            let times = (since.map(ago), until.map(ago));
            let found = span(window.map(hours), times, now).unwrap();
            assert_eq!((found.from, found.to), (ago(from), ago(to)), "{times:?}");
        }
        let later = now.checked_add(hours(1)).unwrap();
        assert_eq!(span(None, (None, Some(later)), now).unwrap().to, now);
    }

    /// A page of events. February has more of them than are read.
    fn page(query: &HashMap<String, String>) -> Value {
        const LATER: usize = OBJECTS_MAX + 500;
        let number = |name: &str| -> Option<usize> { query.get(name)?.parse().ok() };
        let from = number("continue").unwrap_or(0);
        let to = (LATER + 1).min(from + number("limit").unwrap_or(1));
        let items = (from..to).map(|index| {
            let month = if index < LATER { 2 } else { 1 };
            let seen = format!("2026-0{month}-15T00:00:00Z");
            json!({
                "metadata": {"name": format!("web.{index}"), "resourceVersion": "5"},
                "involvedObject": {"kind": "Pod", "name": "web"},
                "firstTimestamp": seen, "lastTimestamp": seen,
            })
        });
        let items: Vec<Value> = items.collect();
        let more = if to <= LATER {
            to.to_string()
        } else {
            String::new()
        };
        json!({"kind": "EventList", "metadata": {"resourceVersion": "9", "continue": more}, "items": items})
    }

    /// A reader of all namespaces of a server, until a time.
    fn reader(client: Client, until: Timestamp) -> Reader {
        Reader {
            server: Server {
                client,
                timeout: None,
            },
            group: Group::default(),
            namespace: String::new(),
            filter: Filter {
                until: Some(until),
                ..Filter::default()
            },
            seen_before: None,
            events_max: EVENTS_MAX,
            rbac: "events",
        }
    }

    /// In a sealed archive, an event that repeats counts each time.
    #[tokio::test]
    async fn that_a_sealed_archive_counts_versions_is_said() {
        for (counted, total, note) in [
            ("events", "3 events, ", "each event once"),
            ("versions", "3 versions of events, ", "each version"),
        ] {
            let answer = json!({"counted": counted, "counts": [
                {"hour": "2026-01-01T00:00:00Z", "reason": "BackOff", "events": 3},
            ]});
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let answer = answer.to_string().into_bytes();
                std::future::ready(Ok::<_, Infallible>(http::Response::new(Body::from(answer))))
            });
            let span = Span {
                from: at("2026-01-01T00:00:00Z"),
                to: at("2026-02-01T00:00:00Z"),
                is_until_now: false,
                parts: PARTS,
            };
            let mut top = Top {
                span,
                noises: vec![(By::Reason, Noise::new(span))],
                notes: Vec::new(),
                counted: Counted::default(),
            };
            let reader = reader(Client::new(service, "default"), span.to);
            assert!(top.count(None, &reader).await.unwrap());
            assert!(top.notes[0].contains(note), "{:?}", top.notes);
            let mut out = Vec::new();
            summary(&top.noises[0].1, top.counted, (span, span.to), &mut out).unwrap();
            let said = String::from_utf8(out).unwrap();
            assert!(said.contains(total), "{said}");
        }
    }

    #[tokio::test]
    async fn objects_are_counted_in_the_time_that_is_asked_for() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let query = form_urlencoded::parse(query.as_bytes()).into_owned();
            let query: HashMap<String, String> = query.collect();
            let answer = if request.uri().path() == "/counts" {
                json!({"counts": []})
            } else {
                log.lock().unwrap().push(query.get("until").cloned());
                page(&query)
            };
            let answer = http::Response::builder()
                .header("tidings-newest-first", "true")
                .body(Body::from(answer.to_string().into_bytes()));
            std::future::ready(answer)
        });
        let span = Span {
            from: at("2026-01-01T00:00:00Z"),
            to: at("2026-02-01T00:00:00Z"),
            is_until_now: false,
            parts: PARTS,
        };
        let reader = reader(Client::new(service, "default"), span.to);
        let mut top = Top {
            span,
            noises: vec![(By::Object, Noise::new(span))],
            notes: Vec::new(),
            counted: Counted::default(),
        };
        assert!(top.count(None, &reader).await.unwrap());
        assert_eq!(top.noises[0].1.events, 1);
        // A server that supports it leaves out the later events.
        let until = Some("2026-02-01T00:00:00Z".to_owned());
        assert!(asked.lock().unwrap().iter().all(|asked| *asked == until));
    }
}
