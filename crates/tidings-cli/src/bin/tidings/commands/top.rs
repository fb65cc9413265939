//! `tidings top`: which objects and reasons make the noise.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tidings_cli::event::{Event, age};
use tidings_cli::noise::{Noise, Span};
use tidings_cli::text::{Cell, Layout, Look, Screen};
use tidings_cli::times;

use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, NamespaceFlags, finish};
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use crate::clock;

/// Bars in a chart.
const PARTS: usize = 24;

/// Show the reasons and objects with the most events, and when they occurred.
///
/// Counts occurrences, not events: an event seen a thousand times counts a thousand. An event does
/// not record when each occurrence was, so they are assumed to be evenly spread between the first
/// and the last. Events are read page by page; memory grows only with the number of names counted.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings top -A
  tidings top -A --types=Warning --window 6h --by reason,source

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// How far to look back
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = window)]
    window: Duration,
    /// What to count by, with one table each
    #[arg(
        long,
        value_name = "WHAT,…",
        value_delimiter = ',',
        default_value = "reason,object"
    )]
    by: Vec<By>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    rows: usize,
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
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
            Self::Object if namespaces => format!("{}  {}", event.namespace(), event.object()),
            Self::Object => event.object(),
            Self::Source => or_none(event.component()),
            Self::Namespace => or_none(event.namespace()),
            Self::Host => or_none(event.host()),
        }
    }
}

fn window(text: &str) -> Result<Duration, String> {
    times::duration(text).and_then(|window| {
        if window.is_zero() {
            Err("expected more than nothing".to_owned())
        } else {
            Ok(window)
        }
    })
}

/// Shows the noise.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(args: Args) -> Result<u8, CommandError> {
    let reader = args
        .selection
        .reader(&args.cluster, &args.namespaces)
        .await?;
    let now = clock::now();
    let from = now.checked_sub(args.window).map_err(|_| {
        CommandError::Usage("look back further than there are dates: shorten --window".to_owned())
    })?;
    let span = Span {
        from,
        to: now,
        parts: PARTS,
    };
    let namespaces = reader.namespace.is_empty();
    let mut noises: Vec<(By, Noise)> = args.by.iter().map(|by| (*by, Noise::new(span))).collect();
    let scan = reader.scan(None, |page| {
        for event in &page.events {
            for (by, noise) in &mut noises {
                noise.add(event, by.name(event, namespaces));
            }
        }
        Ok(())
    });
    scan.await?;
    let mut out = io::BufWriter::new(io::stdout());
    let screen = args.color.screen();
    if let Some((_, noise)) = noises.first() {
        summary(noise, args.window, span, &mut out)?;
    }
    for (by, noise) in &noises {
        table(*by, noise, args.rows, (span, now), screen, &mut out)?;
    }
    out.flush()?;
    Ok(DONE)
}

fn summary(noise: &Noise, window: Duration, span: Span, out: &mut impl Write) -> io::Result<()> {
    let (total, events) = (&noise.total, noise.events);
    let window = tidings_server::human_duration(i128::try_from(window.as_millis()).unwrap_or(0));
    writeln!(
        out,
        "last {window}: {:.0} occurrences of {events} events, {:.0} of them warnings, {:.1} a minute",
        total.occurrences,
        total.warnings,
        total.per_minute(span)
    )
}

fn table(
    by: By,
    noise: &Noise,
    rows: usize,
    (span, now): (Span, Timestamp),
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    let headings = [
        "COUNT",
        "PER MINUTE",
        "LAST SEEN",
        "OVER TIME",
        by.heading(),
    ];
    let mut table = vec![
        headings
            .map(|heading| Cell::new(heading).look(Look::Heading))
            .to_vec(),
    ];
    let groups = noise.groups();
    table.extend(groups.iter().take(rows).map(|group| {
        let look = if group.warnings > group.occurrences / 2. {
            Look::Warning
        } else {
            Look::Plain
        };
        vec![
            Cell::new(&format!("{:.0}", group.occurrences)),
            Cell::new(&format!("{:.1}", group.per_minute(span))),
            Cell::new(&age(group.last_seen, now)).look(Look::Dim),
            Cell::new(&group.chart()).look(look),
            Cell::new(&group.name).look(look),
        ]
    }));
    let mut layout = Layout::default();
    for row in &table {
        layout.grow(row);
    }
    writeln!(out)?;
    for row in &table {
        writeln!(out, "{}", layout.line(row, screen))?;
    }
    let left = groups.len().saturating_sub(rows);
    if left > 0 {
        writeln!(out, "… and {left} more")?;
    }
    Ok(())
}
