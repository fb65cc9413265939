//! The archive and its source are killed repeatedly, and their connections cut and held, while
//! events are written. In the end every acknowledged version is in the archive once.
//!
//! A collector can follow the same source through the same proxy. It is killed as often as the
//! archive.

use std::io::Write;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::archived::{CLUSTER, Coverage};
use super::args::Args;
use super::collector::Collector;
use super::ledger::{Ledger, Verdict};
use super::proxy::Proxy;
use super::source::Source;
use super::stage::{Archive, Stage};
use super::writer::Writers;
use crate::clock;
use crate::error::Result;
use crate::servers::Followed;

/// Maximum time for which the source is down after a kill.
const AWAY_MAX: Duration = Duration::from_secs(5);
/// Maximum time between two faults of the connections.
const QUIET_MAX: Duration = Duration::from_secs(20);

/// Random times between kills, such that all kills happen within the run.
pub(super) struct Pauses {
    end: Instant,
    left: u32,
    pub(super) random: fastrand::Rng,
}

impl Pauses {
    pub(super) fn new(end: Instant, kills: u32, random: fastrand::Rng) -> Self {
        Self {
            end,
            left: kills,
            random,
        }
    }

    /// Time until the next kill; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let time = self.end.saturating_duration_since(clock::steady());
        let mean = time.checked_div(self.left)?;
        self.left -= 1;
        Some(mean.mul_f64(0.1 + 1.8 * self.random.f64()))
    }
}

/// Kills as the arguments say. Returns whether nothing was lost or duplicated.
pub(super) async fn run(
    args: &Args,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    let Stage {
        mut source,
        proxy,
        mut archive,
        folder,
    } = Stage::start(args, &[]).await?;
    let mut ledger = Ledger::default();
    let mut collector = None;
    if let Some(program) = &args.collector {
        let followed = Followed {
            address: &proxy.address,
            ..source.followed(CLUSTER)
        };
        let (place, client) = (folder.path(), &source.server.client);
        let started = Collector::start(program, place, followed, client, random, &mut ledger);
        collector = Some(started.await?);
    }
    let writers = Writers::named("w", &source.server.client, args.per_second, random);
    let begun = clock::steady();
    let mut pauses = |kills| Pauses::new(begun + args.time(), kills, random.fork());
    let to_archive = pauses(args.kills);
    let to_collector = pauses(args.kills);
    let to_source = pauses(args.source_kills);
    let mut opened = Vec::new();
    let troubles = async {
        tokio::try_join!(
            kill_archive(&mut archive, to_archive, &mut opened),
            kill_collector(collector.as_mut(), to_collector),
            kill_source(&mut source, to_source),
            disturb(&proxy, Duration::from_secs(args.hold), random.fork())
        )
    };
    let ended = tokio::time::timeout(args.time(), troubles).await;
    // From here on there are no more faults.
    if let Ok(Err(error)) = ended {
        return Err(error);
    }
    proxy.hold(false);
    source.be_ready().await?;
    archive.be_ready(CLUSTER).await?;
    if let Some(collector) = &mut collector {
        collector.program.be_started().await?;
    }
    ledger.add(writers.end().await?);
    let took = begun.elapsed();
    let kills = (archive.server.program.kills, source.kills());
    tell_writes(took, &ledger, kills, out)?;
    tell_openings(opened, out)?;
    out.flush()?;
    let waited = clock::steady();
    archive.level(CLUSTER, ledger.latest()).await?;
    writeln!(out, "level after {:.1} s", waited.elapsed().as_secs_f64())?;
    let (verdict, coverage) = archive.judge(CLUSTER, &ledger).await?;
    tell(&verdict, &coverage, out)?;
    if !coverage.gaps.is_empty() {
        let why = "gaps are stated, though every watch could be resumed";
        writeln!(out, "wrong: {why}")?;
    }
    if let Some(mut collector) = collector {
        let collected = collector.judge(&ledger).await?;
        let kills = (archive.server.program.kills, collector.program.kills);
        compare((&verdict, kills.0), (&collected, kills.1), out)?;
        if collector.ends > 0 {
            let ends = collector.ends;
            writeln!(out, "the collector ended by itself {ends} times")?;
        }
    }
    drop(folder);
    Ok(verdict.is_right() && coverage.gaps.is_empty())
}

/// Prints how many changes were made, and how many kills there were.
fn tell_writes(
    took: Duration,
    ledger: &Ledger,
    (archive, source): (u64, u64),
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{} s: {} creates ({} of a name used before), {} patches, {} deletes; {} changes not acknowledged; killed: archive {}, source {}",
        took.as_secs(),
        ledger.creates,
        ledger.reused,
        ledger.patches,
        ledger.deletes,
        ledger.unsure.len() + ledger.unsure_names.len(),
        archive,
        source,
    )
}

/// Prints how soon after its kills the archive served the cluster.
fn tell_openings(mut opened: Vec<Duration>, out: &mut impl Write) -> std::io::Result<()> {
    opened.sort();
    if let (Some(middle), Some(most)) = (opened.get(opened.len() / 2), opened.last()) {
        let (middle, most) = (middle.as_secs_f64(), most.as_secs_f64());
        writeln!(
            out,
            "after a kill it served the cluster within {middle:.1} s (median), {most:.1} s (most)"
        )?;
    }
    Ok(())
}

/// Prints the comparison with the ledger.
pub(super) fn tell(
    verdict: &Verdict,
    coverage: &Coverage,
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(out, "{verdict}")?;
    for example in &verdict.examples {
        writeln!(out, "  {example}")?;
    }
    for gap in &coverage.gaps {
        let seconds = (gap.to - gap.from) as f64 / 1000.0;
        writeln!(out, "  gap of {seconds:.1} s: {}", gap.cause)?;
    }
    Ok(())
}

/// Prints the results of the archive and of the collector, with the number of kills of each.
fn compare(
    archive: (&Verdict, u64),
    collector: (&Verdict, u64),
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(out, "\n| | killed | versions | kept once | lost | twice |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|")?;
    for (name, (verdict, kills)) in [
        ("`tidings archive`", archive),
        ("OpenTelemetry collector", collector),
    ] {
        let written = verdict.written - verdict.before;
        let (once, lost, twice) = (verdict.once, verdict.missing, verdict.doubled);
        writeln!(
            out,
            "| {name} | {kills} | {written} | {once} | {lost} | {twice} |"
        )?;
    }
    writeln!(out)
}

/// Kills the archive and starts it again. About every second time it may start completely, however
/// long that takes: a program that is always killed before that never makes progress.
async fn kill_archive(
    archive: &mut Archive,
    mut pauses: Pauses,
    opened: &mut Vec<Duration>,
) -> Result<()> {
    while let Some(pause) = pauses.next() {
        sleep(pause).await;
        archive.server.program.kill().await?;
        archive.server.program.start()?;
        if pauses.random.bool() {
            let started = clock::steady();
            archive.be_ready(CLUSTER).await?;
            opened.push(started.elapsed());
        }
    }
    std::future::pending().await
}

pub(super) async fn kill_collector(
    collector: Option<&mut Collector>,
    mut pauses: Pauses,
) -> Result<()> {
    if let Some(collector) = collector {
        while let Some(pause) = pauses.next() {
            collector.look_after(pause).await?;
            collector.program.kill().await?;
            collector.program.start()?;
        }
        loop {
            collector.look_after(QUIET_MAX).await?;
        }
    }
    std::future::pending().await
}

async fn kill_source(source: &mut Source, mut pauses: Pauses) -> Result<()> {
    while let Some(pause) = pauses.next() {
        sleep(pause).await;
        source.kill(&mut pauses.random).await?;
        sleep(AWAY_MAX.mul_f64(pauses.random.f64())).await;
        source.be_ready().await?;
    }
    std::future::pending().await
}

/// Repeatedly cuts the connections to the source, or holds them for a while.
async fn disturb(proxy: &Proxy, hold: Duration, mut random: fastrand::Rng) -> Result<()> {
    loop {
        sleep(QUIET_MAX.mul_f64(random.f64())).await;
        if random.bool() {
            proxy.cut();
        } else {
            proxy.hold(true);
            sleep(hold.mul_f64(random.f64())).await;
            proxy.hold(false);
        }
    }
}
