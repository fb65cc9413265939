//! The archive and its source are killed again and again, and their connections cut and held, while
//! events are written. At the end every version that was acknowledged is in the archive, once.

use std::io::Write;
use std::time::Duration;

use tokio::time::sleep;

use super::archived;
use super::clock;
use super::error::ArchiveError;
use super::ledger::Verdict;
use super::program::Program;
use super::proxy::Proxy;
use super::stage::{Source, Stage};
use super::writer::Writers;

/// How much, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) time: Duration,
    pub(super) per_second: u64,
    pub(super) archive_kills: u32,
    pub(super) source_kills: u32,
    /// Longest time that connections are held.
    pub(super) hold: Duration,
}

/// How long the source stays away.
const AWAY_MAX: Duration = Duration::from_secs(5);
/// Between two troubles of the connections, at most.
const QUIET_MAX: Duration = Duration::from_secs(20);

/// Times between kills that come to about this number in all.
struct Pauses {
    mean: Duration,
    random: fastrand::Rng,
}

impl Pauses {
    async fn wait(&mut self) {
        sleep(self.mean.mul_f64(0.1 + 1.8 * self.random.f64())).await;
    }
}

/// Runs it; whether nothing was lost or doubled.
pub(super) async fn run(
    stage: Stage,
    plan: Plan,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool, ArchiveError> {
    let Stage {
        mut source,
        proxy,
        mut archive,
        folder,
    } = stage;
    let writers = Writers::start(&source.client, plan.per_second, random);
    let begun = clock::steady();
    let mut pauses = |kills: u32| Pauses {
        mean: plan.time / kills.max(1),
        random: random.fork(),
    };
    let (to_archive, to_source) = (pauses(plan.archive_kills), pauses(plan.source_kills));
    let troubles = async {
        tokio::try_join!(
            kill_archive(&mut archive.program, to_archive),
            kill_source(&mut source, to_source),
            disturb(&proxy, plan.hold, random.fork())
        )
    };
    let ended = tokio::time::timeout(plan.time, troubles).await;
    // What was done to them ends wherever it was.
    if let Ok(Err(error)) = ended {
        return Err(error);
    }
    proxy.hold(false);
    source.program.be_started().await?;
    archive.program.be_started().await?;
    let ledger = writers.end().await?;
    let took = begun.elapsed();
    writeln!(
        out,
        "{} s: {} creates ({} of a name used before), {} patches, {} deletes; {} changes not acknowledged; killed: archive {}, source {}",
        took.as_secs(),
        ledger.creates,
        ledger.reused,
        ledger.patches,
        ledger.deletes,
        ledger.unsure.len() + ledger.unsure_names.len(),
        archive.program.kills,
        source.program.kills,
    )?;
    out.flush()?;
    let waited = clock::steady();
    let coverage = archive.level(ledger.latest()).await?;
    writeln!(out, "level after {:.1} s", waited.elapsed().as_secs_f64())?;
    let kept = archived::versions(&archive.client).await?;
    let verdict = ledger.judge(&kept, &coverage);
    drop(folder);
    tell(&verdict, &coverage, out)?;
    if !coverage.gaps.is_empty() {
        writeln!(
            out,
            "wrong: gaps are stated, though every watch could be resumed"
        )?;
    }
    Ok(verdict.is_right() && coverage.gaps.is_empty())
}

/// Prints the result.
pub(super) fn tell(
    verdict: &Verdict,
    coverage: &archived::Coverage,
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

async fn kill_archive(archive: &mut Program, mut pauses: Pauses) -> Result<(), ArchiveError> {
    loop {
        pauses.wait().await;
        archive.kill().await?;
        archive.start()?;
    }
}

async fn kill_source(source: &mut Source, mut pauses: Pauses) -> Result<(), ArchiveError> {
    loop {
        pauses.wait().await;
        source.program.kill().await?;
        sleep(AWAY_MAX.mul_f64(pauses.random.f64())).await;
        source.start().await?;
    }
}

/// Cuts connections, or holds them for a while.
async fn disturb(
    proxy: &Proxy,
    hold: Duration,
    mut random: fastrand::Rng,
) -> Result<(), ArchiveError> {
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
