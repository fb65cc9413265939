//! `tidings top`: shows which objects and reasons have the most events.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tidings_cli::event::Event;
use tidings_cli::table::{Cell, Column, Look, Screen, Table};
use tidings_cli::time_form::TimeForm;
use tidings_cli::times;
use tidings_core::occurrences::Occurrences;
use tidings_core::top::{Axis, Counted as CountedEvent, Row, Table as Counts};
use tidings_history::{Counted, timestamp};

use super::all_clusters;
use super::archived;
use super::capture::CaptureFlags;
use super::cluster::{
    ClusterFlags, CommandError, EXIT_CODES_WITH_CAPTURES, NamespaceFlags, finish, one_line, tell,
};
use super::past::PastFlags;
use super::reader::Reader;
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use super::timestamps::TimestampsFlag;

/// Bars in a chart.
const PARTS: usize = 16;
/// The bars, from lowest to highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The length of the hours in which an archive counts, in milliseconds.
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
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
/// and the last; what rests on this has a ≈. Something is still going if it was last seen within
/// three times its usual interval of the end. Only events seen since the range began are read, if
/// the server can list these, page by page; memory grows with the number of names and objects
/// counted, and by a few bytes for each event.
///
/// An archive answers for more than a day from its counts by hour and reason, in which each event
/// counts once, in the hour it was last seen; what is still going is not known then. Objects are
/// then counted in the 5,000 events of each cluster that were seen last in that time. Events chosen
/// by anything but time are read in any case.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings top -A
  tidings top -A --types=Warning --window 6h --by reason,source
  tidings top -A --against --window 30m              # what is new
  tidings top --file must-gather.tar.gz
  tidings top -A --cluster all --since 30d --kubeconfig ./archive/kubeconfig

{EXIT_CODES_WITH_CAPTURES}"))]
pub(crate) struct Args {
    /// How far to look back from --until, or from now [default: to --since, or 1h; with --file to
    /// the first event]
    #[arg(long, value_name = "DURATION", value_parser = times::positive_duration, conflicts_with = "since")]
    window: Option<Duration>,
    /// Compare with the range of the same length before: what is new comes first, then what is gone
    #[arg(long)]
    against: bool,
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
    past: PastFlags,
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
    #[value(alias = "node")]
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

/// The range of time that is counted.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Timestamp,
    to: Timestamp,
    is_until_now: bool,
}

impl Span {
    fn axis(self) -> Axis {
        Axis {
            from: self.from.as_millisecond(),
            // What happened at the end counts.
            to: self.to.as_millisecond().saturating_add(1),
            parts: PARTS,
            is_until_now: self.is_until_now,
        }
    }
}

/// A name, and the uid that distinguishes objects of one name.
type Key = (String, String);

/// The counts, and the span they cover.
struct Top {
    span: Span,
    is_compared: bool,
    tables: Vec<(By, Counts<Key>)>,
    /// Whether each cluster has events from before what is compared; `None` if that is not known of
    /// some.
    has_older: Option<bool>,
    /// Notes about what the counts contain.
    notes: Vec<String>,
    /// The unit of an archive's counts, if they were used.
    counted: Counted,
}

impl Top {
    fn new(span: Span, by: &[By], is_compared: bool) -> Self {
        let tables = by
            .iter()
            .map(|by| (*by, Counts::new(span.axis(), is_compared)));
        Self {
            span,
            is_compared,
            tables: tables.collect(),
            has_older: Some(true),
            notes: Vec::new(),
            counted: Counted::default(),
        }
    }

    /// The beginning of what is counted, which is in milliseconds.
    fn since(&self) -> Timestamp {
        let axis = self.span.axis();
        let from = if self.is_compared {
            axis.before().0
        } else {
            axis.from
        };
        Timestamp::from_millisecond(from).unwrap_or(Timestamp::MIN)
    }
}

async fn show(mut args: Args) -> Result<u8, CommandError> {
    let loaded = args.capture.load(&mut args.cluster, &mut args.namespaces);
    let loaded = loaded.await?;
    let now = loaded.now;
    let (since, until) = args.selection.times(now)?;
    let span = if args.capture.is_some() && args.window.is_none() && since.is_none() {
        let reader = args.selection.reader(&args.cluster, &args.namespaces);
        let mut reader = reader.await?;
        args.selection.as_of(now, &mut reader)?;
        whole(&reader).await?
    } else {
        span(args.window, (since, until), now)?
    };
    let mut top = Top::new(span, &args.by, args.against);
    for (name, flags) in all_clusters::sources(&args.cluster, &args.namespaces).await? {
        let mut reader = args.selection.reader(&flags, &args.namespaces).await?;
        if args.capture.is_some() {
            args.selection.as_of(now, &mut reader)?;
        }
        reader.filter.since = Some(top.since());
        let is_asked = args.window.is_some() || args.selection.is_of_times();
        if let Some(archive) = args.past.instead(&flags, &reader, is_asked).await? {
            reader = archive;
        }
        let is_counted = args.selection.is_of_times_alone()
            && reader.namespace.is_empty()
            && span.to.duration_since(span.from).unsigned_abs() > READ_MAX
            && args.by.iter().all(|by| match by {
                By::Reason => true,
                // Objects are counted in the last events only, which may all be of this range.
                By::Object => !args.against,
                _ => false,
            });
        let read = if is_counted && top.count(name.as_deref(), &reader).await? {
            None
        } else {
            top.read(name.as_deref(), &reader).await?
        };
        // Of selected events, none need be older although others are.
        let read = read.filter(|is_older| *is_older || args.selection.is_of_times_alone());
        let has_older = match read {
            None if args.against => reader.has_older(top.since()).await?,
            read => read,
        };
        let both = top.has_older.zip(has_older);
        top.has_older = both.map(|(one, other)| one && other);
    }
    let (screen, mut out) = args.color.output();
    let rows = if args.rows == 0 {
        usize::MAX
    } else {
        args.rows
    };
    // In captures, the last hour is not the last hour before now.
    let is_last = span.to == now && !args.capture.is_some();
    top.summary(is_last, &mut out)?;
    top.note_what_is_forgotten();
    for note in &top.notes {
        writeln!(out, "{}", one_line(note))?;
    }
    let time_form = args.timestamps.form();
    let is_empty = top
        .tables
        .iter()
        .all(|(_, counts)| counts.total.events == 0);
    let mut forms = Vec::new();
    for (by, counts) in top.tables {
        let what = (by, named_apart(counts).rows());
        forms.push(table(
            what,
            rows,
            (span, args.against, now),
            (time_form.clone(), screen),
            &mut out,
        )?);
    }
    out.flush()?;
    if let Some(form) = forms.iter().find(|form| **form == TimeForm::Age) {
        args.capture.tell_form(form, now);
    }
    if is_empty {
        tell("no event was seen in this time: --since, --until and --window choose another");
    }
    Ok(loaded.exit_code())
}

/// Objects of one name are shown with the beginning of their uid.
fn named_apart(counts: Counts<Key>) -> Counts<String> {
    let mut uids: HashMap<String, usize> = HashMap::new();
    for (name, uid) in counts.keys() {
        let number = uids.entry(name.clone()).or_default();
        *number += usize::from(!uid.is_empty());
    }
    counts.renamed(|(name, uid)| match uids.get(&name) {
        Some(2..) if !uid.is_empty() => {
            let begin = uid.get(..8).unwrap_or(&uid);
            format!("{name} (uid {begin}…)")
        }
        _ => name,
    })
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
    })
}

impl Top {
    /// Reads the events of a cluster and counts them. A server that lists events by time is asked
    /// for those since the range begins, and `None` is returned. From another server all events are
    /// read, and it is returned whether one of them was last seen before the range.
    async fn read(
        &mut self,
        cluster: Option<&str>,
        reader: &Reader,
    ) -> Result<Option<bool>, CommandError> {
        let namespaces = reader.namespace.is_empty();
        let since = self.since();
        let scan = reader.scan_since(since, |event| {
            self.add(event, cluster, namespaces, |_| true);
        });
        if scan.await? {
            return Ok(None);
        }
        let mut all = reader.clone();
        all.filter.since = None;
        let mut is_older = false;
        let scan = all.scan(None, |page| {
            for event in &page.events {
                is_older |= event.last_seen().is_some_and(|seen| seen < since);
                self.add(event, cluster, namespaces, |_| true);
            }
            Ok(())
        });
        scan.await?;
        Ok(Some(is_older))
    }

    fn add(
        &mut self,
        event: &Event,
        cluster: Option<&str>,
        namespaces: bool,
        is_wanted: impl Fn(By) -> bool,
    ) {
        let Some(last) = event.last_seen() else {
            return;
        };
        let first = event.first_seen().unwrap_or(last).min(last);
        let counted = CountedEvent {
            occurrences: Occurrences {
                first: first.as_millisecond(),
                last: last.as_millisecond(),
                count: event.count(),
            },
            is_warning: event.is_warning(),
            object: (
                cluster,
                event.object_namespace(),
                event.object(),
                event.told_apart_by(),
            ),
        };
        for (by, counts) in self.tables.iter_mut().filter(|(by, _)| is_wanted(*by)) {
            let name = named(*by, cluster, by.name(event, namespaces));
            let uid = match by {
                By::Object => event.told_apart_by(),
                _ => "",
            };
            counts.add((name, uid.to_owned()), &counted);
        }
    }

    /// Says if there are no events from so long ago as are compared.
    fn note_what_is_forgotten(&mut self) {
        if !self.is_compared {
            return;
        }
        let since = self.since();
        let note = match self.has_older {
            Some(true) => return,
            Some(false) => format!("no event older than {since:.0} is there"),
            None => format!("events older than {since:.0} were not looked for"),
        };
        self.notes.push(format!(
            "{note}: what is new may only have been forgotten before"
        ));
    }

    /// Adds the counts of an archive, and counts objects in its last seen events. Returns false if
    /// it has no counts.
    async fn count(
        &mut self,
        cluster: Option<&str>,
        reader: &Reader,
    ) -> Result<bool, CommandError> {
        let (span, since) = (self.span, self.since());
        let tables = &mut self.tables;
        let counted = archived::counts(&reader.server, (since, span.to), |count| {
            for (_, counts) in tables.iter_mut().filter(|(by, _)| *by == By::Reason) {
                let hour = timestamp(count.hour).as_millisecond();
                counts.count(
                    (count.reason.clone(), String::new()),
                    hour,
                    count.events,
                    false,
                );
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
        if self.tables.iter().all(|(by, _)| *by != By::Object) {
            return Ok(true);
        }
        let mut reader = reader.clone();
        reader.filter.since = Some(since);
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

impl Top {
    fn summary(&self, is_last: bool, out: &mut impl Write) -> io::Result<()> {
        let Some((_, counts)) = self.tables.first() else {
            return Ok(());
        };
        let (total, span) = (&counts.total, self.span);
        let length = span.to.duration_since(span.from);
        let when = if is_last {
            format!(
                "last {}",
                tidings_server::human_duration(length.as_millis())
            )
        } else {
            format!("{:.0} to {:.0}", span.from, span.to)
        };
        let minutes = length.as_secs_f64() / 60.;
        let per_minute = if minutes > 0. {
            total.occurrences as f64 / minutes
        } else {
            0.
        };
        let events = about(total.is_by_hour && total.is_estimated, &total.events);
        let per_minute = about(total.is_estimated, &format_args!("{per_minute:.1}"));
        if total.is_by_hour {
            let what = match self.counted {
                Counted::Events => "events",
                Counted::Versions => "versions of events",
            };
            write!(out, "{when}: {events} {what}, {per_minute} a minute")?;
        } else {
            write!(
                out,
                "{when}: {} occurrences of {events} events, {} of them warnings, {per_minute} a minute",
                about(total.is_estimated, &total.occurrences),
                about(total.is_estimated && total.warnings > 0, &total.warnings),
            )?;
        }
        if self.is_compared {
            let before = about(total.is_before_estimated, &total.before);
            write!(out, "; {before} in the range before")?;
        }
        writeln!(out)
    }
}

/// The bars of a row, the highest for the busiest part.
fn chart(parts: &[u64]) -> String {
    let most = parts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |part: &u64| {
        let level = (*part as f64 / most as f64 * (BARS.len() - 1) as f64).round() as usize;
        match part {
            0 => ' ',
            _ => BARS.get(level).copied().unwrap_or('█'),
        }
    };
    parts.iter().map(bar).collect()
}

/// When a row was seen. What is known only to the hour was seen at most so long ago.
fn seen(at: Option<i64>, is_by_hour: bool, time_form: &TimeForm, now: Timestamp) -> String {
    let moment = |at: i64| Timestamp::from_millisecond(at).ok();
    let Some(at) = at.filter(|_| is_by_hour) else {
        return time_form.text(at.and_then(moment), now);
    };
    let hour = at.saturating_sub(at.rem_euclid(HOUR));
    match time_form {
        TimeForm::Age => {
            let age = now.as_millisecond().saturating_sub(hour).max(1);
            match (
                age.saturating_add(HOUR - 1) / HOUR,
                age.saturating_add(DAY - 1) / DAY,
            ) {
                (hours @ ..48, _) => format!("<{hours}h"),
                (_, days) => format!("<{days}d"),
            }
        }
        TimeForm::Time(_) => format!("≈{}", time_form.text(moment(hour), now)),
    }
}

fn change(row: &Row) -> String {
    let difference = match row.occurrences.cmp(&row.before) {
        _ if row.is_new() => return "new".to_owned(),
        _ if row.is_gone() => return "gone".to_owned(),
        Ordering::Equal => "=".to_owned(),
        Ordering::Greater => format!("+{}", row.occurrences - row.before),
        Ordering::Less => format!("-{}", row.before - row.occurrences),
    };
    about(row.is_estimated || row.is_before_estimated, &difference)
}

/// Marks what rests on an assumption.
fn about(is_estimated: bool, what: &impl Display) -> String {
    format!("{}{what}", if is_estimated { "≈" } else { "" })
}

/// Prints a table, and returns the form of its times. Ages count from `now`.
fn table(
    (by, groups): (By, Vec<(String, Row)>),
    rows: usize,
    (span, is_compared, now): (Span, bool, Timestamp),
    (time_form, screen): (Option<TimeForm>, Screen),
    out: &mut impl Write,
) -> io::Result<TimeForm> {
    let mut columns = vec![Column::new("COUNT")];
    if is_compared {
        columns.extend([Column::new("BEFORE"), Column::new("CHANGE")]);
    }
    columns.extend([
        Column::new("FIRST SEEN"),
        Column::new("LAST SEEN"),
        Column::new("STILL GOING"),
        Column::new("OVER TIME"),
        Column::of_names(by.heading()),
    ]);
    let shown = groups.get(..rows).unwrap_or(&groups);
    let time_form = time_form.unwrap_or_else(|| {
        let times = |row: &Row| [row.first, row.last];
        let exact = shown.iter().filter(|(_, row)| !row.is_by_hour);
        let times = exact.flat_map(|(_, row)| times(row));
        let times = times.map(|at| at.and_then(|at| Timestamp::from_millisecond(at).ok()));
        TimeForm::of(times, now)
    });
    let cells = shown.iter().map(|(name, row)| {
        let look = if row.warnings > row.occurrences / 2 {
            Look::Warning
        } else {
            Look::Plain
        };
        let occurrences = about(row.is_estimated, &row.occurrences);
        let mut cells = vec![Cell::new(&occurrences)];
        if is_compared {
            let before = about(row.is_before_estimated, &row.before);
            cells.extend([Cell::new(&before), Cell::new(&change(row))]);
        }
        let going = if row.is_going_on(&span.axis()) {
            "yes"
        } else {
            ""
        };
        cells.extend([
            Cell::new(&seen(row.first, row.is_by_hour, &time_form, now)).look(Look::Dim),
            Cell::new(&seen(row.last, row.is_by_hour, &time_form, now)).look(Look::Dim),
            Cell::new(going).look(look),
            Cell::new(&about(row.are_parts_estimated, &chart(&row.parts))).look(look),
            Cell::new(name).look(look),
        ]);
        cells
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
    Ok(time_form)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use jiff::tz::TimeZone;
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

    #[test]
    fn what_is_known_to_the_hour_is_said_so() {
        let now = at("2026-03-04T12:40:00Z");
        for (seen_at, form, is_by_hour, expected) in [
            ("2026-03-04T12:39:59Z", TimeForm::Age, true, "<1h"),
            ("2026-03-04T11:59:59Z", TimeForm::Age, true, "<2h"),
            ("2026-02-04T11:59:59Z", TimeForm::Age, true, "<29d"),
            ("2026-03-04T12:39:59Z", TimeForm::Age, false, "1s"),
            (
                "2026-03-04T11:59:59Z",
                TimeForm::Time(TimeZone::UTC),
                true,
                "≈2026-03-04T11:00:00Z",
            ),
        ] {
            let seen_at = Some(at(seen_at).as_millisecond());
            assert_eq!(seen(seen_at, is_by_hour, &form, now), expected);
        }
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
            };
            let mut top = Top::new(span, &[By::Reason], false);
            let reader = reader(Client::new(service, "default"), span.to);
            assert!(top.count(None, &reader).await.unwrap());
            assert!(top.notes[0].contains(note), "{:?}", top.notes);
            let mut out = Vec::new();
            top.summary(true, &mut out).unwrap();
            let said = String::from_utf8(out).unwrap();
            assert!(said.contains(total), "{said}");
        }
    }

    /// A server that lists the last seen first is asked for the window only, and whether it has
    /// older events. Of another one, all events are read, which shows that, too.
    #[tokio::test]
    async fn only_the_window_is_read_where_that_is_possible() {
        let span = Span {
            from: at("2026-02-14T00:00:00Z"),
            to: at("2026-02-16T00:00:00Z"),
            is_until_now: false,
        };
        for is_newest_first in [true, false] {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let log = Arc::clone(&asked);
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let query = request.uri().query().unwrap_or_default();
                let query = form_urlencoded::parse(query.as_bytes()).into_owned();
                let query: HashMap<String, String> = query.collect();
                let of = |name: &str| query.get(name).cloned();
                log.lock().unwrap().push((of("since"), of("limit")));
                let answer = http::Response::builder();
                let answer = if is_newest_first {
                    answer.header("tidings-newest-first", "true")
                } else {
                    answer
                };
                let body = Body::from(page(&query).to_string().into_bytes());
                std::future::ready(answer.body(body))
            });
            let reader = reader(Client::new(service, "default"), span.to);
            let mut top = Top::new(span, &[By::Reason], false);
            let is_older = top.read(None, &reader).await.unwrap();
            assert_eq!(is_older, (!is_newest_first).then_some(true));
            let events = top.tables[0].1.total.events;
            assert_eq!(events, OBJECTS_MAX as u64 + 500);
            let since = Some("2026-02-14T00:00:00Z".to_owned());
            let asked = asked.lock().unwrap();
            let of_time = asked.iter().filter(|asked| asked.0 == since);
            assert_eq!(of_time.count() == asked.len(), is_newest_first);
            // The first page is small, because its events are dropped if they are in another order.
            let limits = asked.iter().map(|asked| asked.1.as_deref().unwrap());
            let limits: Vec<&str> = limits.collect();
            assert_eq!(limits[..2], ["50", "500"]);
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
        };
        let reader = reader(Client::new(service, "default"), span.to);
        let mut top = Top::new(span, &[By::Object], false);
        assert!(top.count(None, &reader).await.unwrap());
        assert_eq!(top.tables[0].1.total.events, 1);
        // A server that supports it leaves out the later events.
        let until = Some("2026-02-01T00:00:00Z".to_owned());
        assert!(asked.lock().unwrap().iter().all(|asked| *asked == until));
    }
}
