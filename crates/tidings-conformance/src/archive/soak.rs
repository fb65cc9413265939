//! One archive follows several sources for a long time: its memory stays flat, seconds since
//! progress are correct, even for a source that is frozen for a while, and every version is kept
//! once.

use std::io::Write;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval};

use super::archived;
use super::source::{Followed, Programs, Source};
use super::stage::Archive;
use super::writer::Writers;
use crate::clock;
use crate::error::Result;

/// How many events and sources there are, and for how long.
pub(super) struct Plan {
    pub(super) time: Duration,
    pub(super) sources: usize,
    /// Events per second, written to all sources together.
    pub(super) per_second: u64,
}

const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// Maximum time for which a source is frozen.
const FROZEN_MAX: Duration = Duration::from_secs(120);
/// Maximum error of the reported seconds since progress: the last events were read a little before
/// the source stopped, and the measurement takes time.
const TOLERANCE: f64 = 5.0;
/// A source is asked for its version every 30 seconds, so there is progress within a minute.
const PROGRESS_MAX: f64 = 60.0;
/// Memory counts as flat if its maximum in the last quarter exceeds that of the second quarter by
/// at most this factor and this number of bytes.
const GROWTH_MAX: (f64, f64) = (1.1, 4e6);

/// What the archive reported during the run.
struct Seen {
    /// Resident memory in bytes, each with its time as a part of the whole run.
    memory: Vec<(f64, f64)>,
    /// Maximum seconds since progress of the sources that were not frozen.
    well: f64,
    /// Maximum error of the reported seconds since progress of the frozen source.
    wrong: f64,
    /// Maximum reported seconds since progress of the frozen source.
    frozen: f64,
}

impl Seen {
    /// Maximum memory between two times, which are parts of the whole run.
    fn most(&self, from: f64, to: f64) -> f64 {
        let within = self
            .memory
            .iter()
            .filter(|(at, _)| (from..=to).contains(at));
        within.map(|(_, bytes)| *bytes).fold(0.0, f64::max)
    }
}

/// Runs the plan. Returns whether the archive kept every version once, with flat memory and correct
/// metrics.
pub(super) async fn run(
    programs: &Programs,
    plan: &Plan,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    let mut sources: Vec<(String, Source, TempDir)> = Vec::new();
    for number in 0..plan.sources.max(1) {
        let folder = tempfile::tempdir()?;
        let source = Source::start(programs, folder.path(), &[]).await?;
        sources.push((format!("source-{number}"), source, folder));
    }
    let folder = tempfile::tempdir()?;
    let followed: Vec<Followed<'_>> = sources
        .iter()
        .map(|(name, source, _)| source.followed(name))
        .collect();
    let mut archive = Archive::start(&programs.tidings, folder.path(), &followed, &[]).await?;
    let each = plan.per_second / sources.len() as u64;
    let writers: Vec<Writers> = sources
        .iter()
        .map(|(_, source, _)| Writers::start(&source.server.client, each, random))
        .collect();

    let names: Vec<&str> = sources.iter().map(|(name, ..)| &**name).collect();
    let watched = watch(&mut archive, &names, &sources[0].1, plan, out).await;
    // Even after an error, no source stays frozen.
    sources[0].1.server.program.signal("-CONT").await?;
    let seen = watched?;

    let mut is_right = true;
    for (name, writers) in names.iter().zip(writers) {
        let ledger = writers.end().await?;
        let coverage = archive.level(name, ledger.latest()).await?;
        let kept = archived::versions(&archive.server.client, name).await?;
        let verdict = ledger.judge(&kept, &coverage);
        writeln!(out, "{name}: {verdict}")?;
        is_right &= verdict.is_right() && coverage.gaps.is_empty();
    }
    let (early, late) = (seen.most(0.25, 0.5), seen.most(0.75, 1.0));
    let mut judge = |is_so: bool, what: String| {
        is_right &= is_so;
        let word = if is_so { "ok" } else { "wrong" };
        writeln!(out, "{word}: {what}")
    };
    let (mib, (part, bytes)) = (f64::from(1 << 20), GROWTH_MAX);
    judge(
        late <= early * part + bytes,
        format!(
            "resident at most {:.1} MiB in the second quarter, {:.1} MiB in the last",
            early / mib,
            late / mib
        ),
    )?;
    judge(
        seen.well <= PROGRESS_MAX,
        format!("at most {:.1} s without progress", seen.well),
    )?;
    judge(
        seen.wrong <= TOLERANCE && seen.frozen > 0.0,
        format!(
            "the frozen source was {:.1} s without progress, wrong by at most {:.1} s",
            seen.frozen, seen.wrong
        ),
    )?;
    Ok(is_right)
}

/// Reads the metrics of the archive during the whole run. The first source is frozen for a while in
/// the middle.
async fn watch(
    archive: &mut Archive,
    names: &[&str],
    first: &Source,
    plan: &Plan,
    out: &mut impl Write,
) -> Result<Seen> {
    let process = archive.server.program.process();
    let begun = clock::steady();
    let freeze_at = begun + plan.time / 2;
    let thaw_at = freeze_at + FROZEN_MAX.min(plan.time / 4);
    let mut frozen_since: Option<Instant> = None;
    let mut was_thawed = false;
    let mut seen = Seen {
        memory: Vec::new(),
        well: 0.0,
        wrong: 0.0,
        frozen: 0.0,
    };
    let mut ticks = interval(BETWEEN_LOOKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minutes = 0;
    while begun.elapsed() < plan.time {
        ticks.tick().await;
        archive.server.program.check()?;
        let now = clock::steady();
        if frozen_since.is_none() && !was_thawed && now >= freeze_at {
            first.server.program.signal("-STOP").await?;
            frozen_since = Some(clock::steady());
        }
        if frozen_since.is_some() && now >= thaw_at {
            first.server.program.signal("-CONT").await?;
            (frozen_since, was_thawed) = (None, true);
            // The archive makes progress by the second observation after the source is let go on.
            ticks.tick().await;
            continue;
        }
        for (number, name) in names.iter().enumerate() {
            let said = archived::health(&mut archive.caller, name).await?;
            match frozen_since.filter(|_| number == 0) {
                Some(since) => {
                    let truth = since.elapsed().as_secs_f64();
                    seen.frozen = seen.frozen.max(said.since_progress);
                    seen.wrong = seen.wrong.max((said.since_progress - truth).abs());
                }
                // A missing number means that there was no progress at all.
                None => seen.well = seen.well.max(not_a_number_is_much(said.since_progress)),
            }
        }
        let (resident, _) = process.memory()?;
        let at = begun.elapsed().as_secs_f64() / plan.time.as_secs_f64();
        seen.memory.push((at, resident as f64));
        if begun.elapsed().as_secs() / 60 > minutes {
            minutes += 1;
            let mib = resident as f64 / f64::from(1 << 20);
            writeln!(out, "minute {minutes}: {mib:.1} MiB resident")?;
            out.flush()?;
        }
    }
    Ok(seen)
}

fn not_a_number_is_much(seconds: f64) -> f64 {
    if seconds.is_nan() {
        f64::INFINITY
    } else {
        seconds
    }
}
