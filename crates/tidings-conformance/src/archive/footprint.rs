//! The cost of following: memory with a number of events at the source, the time of the first list,
//! processor time per followed version, the lag, and how fast versions are caught up with that were
//! written while it was stopped. Afterwards another archive follows the same source, which seals
//! what it observes into files, and then a collector, each alone.

use std::io::Write;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::archived::CLUSTER;
use super::args::Args;
use super::collector::Collector;
use super::ledger::Ledger;
use super::source::Source;
use super::stage::Archive;
use super::writer::{Writer, Writers};
use crate::clock;
use crate::error::{Result, fail};
use crate::http::Client;
use crate::process::{Program, Spent};

/// Concurrent writers that create the source's events.
const FILLERS: u64 = 16;
/// Time between the first list and the measurement of memory at rest.
const REST: Duration = Duration::from_secs(5);

/// Maximum time for which versions wait to be sealed.
const SEAL_AFTER: &str = "2s";

/// What it cost one program to follow the source.
#[derive(Default)]
struct Figures {
    name: &'static str,
    /// Time until the program had the events that existed. `None` for a collector, which does not
    /// read them.
    first: Option<Duration>,
    /// Maximum resident memory in bytes: after the first list, and after the versions were
    /// followed.
    peak: u64,
    after: u64,
    /// Processor time for each followed version.
    processor: Duration,
    /// Versions per second that were written.
    rate: f64,
    /// Time from the write of the last version until the program had it.
    behind: Option<Duration>,
    /// Versions per second that the program follows when it has been stopped, and nothing more is
    /// written.
    caught_up: Option<f64>,
}

/// Measures the archive and the collector, and prints a table.
pub(super) async fn run(
    args: &Args,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    writeln!(
        out,
        "| live events | | first list | MiB at most, meanwhile | MiB, following | versions/s | µs each | behind | caught up, versions/s |"
    )?;
    writeln!(out, "|---:|---|---:|---:|---:|---:|---:|---:|---:|")?;
    for live in &args.footprint {
        let folder = tempfile::tempdir()?;
        let source = Source::start(args, folder.path(), &[]).await?;
        fill(&source.server.client, *live, random).await?;
        // These events exist before the archive lists the source.
        let mut last = Writer::new(&source.server.client, "filled", random.fork());
        last.create().await;

        let filled = last.ledger.latest();
        let plain = archived(&source, args, filled, false, random).await?;
        let sealing = archived(&source, args, filled, true, random).await?;

        let mut collected = None;
        if let Some(program) = &args.collector {
            let (place, followed) = (folder.path(), source.followed(CLUSTER));
            let (client, probes) = (&source.server.client, &mut Ledger::default());
            let started = Collector::start(program, place, followed, client, random, probes);
            let mut collector = started.await?;
            let mut figures = Figures::begun("OpenTelemetry collector", &collector.program)?;
            sleep(REST).await;
            let before = collector.program.process().spent()?;
            let writers = Writers::named("collector", client, args.per_second, random);
            sleep(args.time()).await;
            let ledger = writers.end().await?;
            collector.settle().await?;
            figures.end(&collector.program, &before, &ledger, args)?;
            collected = Some(figures);
        }
        plain.write(*live, out)?;
        sealing.write(*live, out)?;
        if let Some(collected) = collected {
            collected.write(*live, out)?;
            plain.beside(&collected, *live, out)?;
        }
        out.flush()?;
    }
    Ok(true)
}

/// Measures an archive that follows the source, and seals what it observes if it has a folder for
/// that. The last event of the source has the version `filled`.
async fn archived(
    source: &Source,
    args: &Args,
    filled: u64,
    seals: bool,
    random: &mut fastrand::Rng,
) -> Result<Figures> {
    let folder = tempfile::tempdir()?;
    let url = format!("file://{}", folder.path().join("objects").display());
    let (name, writers, more) = if seals {
        let more = ["--objects", &url, "--seal-after", SEAL_AFTER];
        let writers = ["sealing", "sealing-behind"];
        ("`tidings archive --objects`", writers, more.to_vec())
    } else {
        let writers = ["archive", "archive-behind"];
        ("`tidings archive`", writers, Vec::new())
    };
    let begun = clock::steady();
    let (tidings, followed) = (&args.tidings, [source.followed(CLUSTER)]);
    let mut archive = Archive::start(tidings, folder.path(), &followed, &more).await?;
    archive.level(CLUSTER, filled).await?;
    let first = begun.elapsed();
    if seals {
        archive.sealed(CLUSTER).await?;
    }
    let mut figures = Figures::begun(name, &archive.server.program)?;
    figures.first = Some(first);
    sleep(REST).await;
    let before = archive.server.program.process().spent()?;
    let written = Writers::named(writers[0], &source.server.client, args.per_second, random);
    sleep(args.time()).await;
    let ledger = written.end().await?;
    let written = clock::steady();
    archive.level(CLUSTER, ledger.latest()).await?;
    figures.behind = Some(written.elapsed());
    if seals {
        archive.sealed(CLUSTER).await?;
    }
    figures.end(&archive.server.program, &before, &ledger, args)?;

    archive.server.program.signal("-STOP").await?;
    let written = Writers::named(writers[1], &source.server.client, args.per_second, random);
    sleep(args.time()).await;
    let ledger = written.end().await?;
    archive.server.program.signal("-CONT").await?;
    let begun = clock::steady();
    archive.level(CLUSTER, ledger.latest()).await?;
    figures.caught_up = Some(ledger.entries.len() as f64 / begun.elapsed().as_secs_f64());
    archive.server.program.kill().await?;
    Ok(figures)
}

impl Figures {
    fn begun(name: &'static str, program: &Program) -> Result<Self> {
        Ok(Self {
            name,
            peak: program.process().memory()?.1,
            ..Self::default()
        })
    }

    fn end(
        &mut self,
        program: &Program,
        before: &Spent,
        ledger: &Ledger,
        args: &Args,
    ) -> Result<()> {
        let (process, versions) = (program.process(), ledger.entries.len());
        let spent = process.spent()?.since(before);
        self.processor = spent / u32::try_from(versions.max(1)).unwrap_or(u32::MAX);
        self.rate = versions as f64 / args.time().as_secs_f64();
        self.after = process.memory()?.0;
        Ok(())
    }

    fn write(&self, live: u64, out: &mut impl Write) -> std::io::Result<()> {
        let seconds = |time: Option<Duration>| {
            time.map_or_else(|| "–".into(), |time| format!("{:.2} s", time.as_secs_f64()))
        };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            out,
            "| {live} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {} | {} |",
            self.name,
            seconds(self.first),
            mib(self.peak),
            mib(self.after),
            self.rate,
            self.processor.as_secs_f64() * 1e6,
            seconds(self.behind),
            self.caught_up
                .map_or_else(|| "–".into(), |rate| format!("{rate:.0}"))
        )
    }

    /// The collector's memory and time as multiples of the archive's.
    fn beside(&self, other: &Self, live: u64, out: &mut impl Write) -> std::io::Result<()> {
        let ratio = |theirs: f64, ours: f64| theirs / ours.max(f64::EPSILON);
        writeln!(
            out,
            "| {live} | collector ÷ archive | | {:.1} | {:.1} | | {:.1} | | |",
            ratio(other.peak as f64, self.peak as f64),
            ratio(other.after as f64, self.after as f64),
            ratio(other.processor.as_secs_f64(), self.processor.as_secs_f64()),
        )
    }
}

/// Creates a number of events.
async fn fill(client: &Client, events: u64, random: &mut fastrand::Rng) -> Result<()> {
    let mut fillers = JoinSet::new();
    for filler in 0..FILLERS {
        let mut writer = Writer::new(client, &format!("live{filler}"), random.fork());
        let count = events / FILLERS + u64::from(filler < events % FILLERS);
        fillers.spawn(async move {
            for _ in 0..count {
                writer.create().await;
            }
            writer.ledger.creates == count
        });
    }
    while let Some(is_filled) = fillers.join_next().await {
        if !is_filled? {
            return fail("an event could not be written");
        }
    }
    Ok(())
}
