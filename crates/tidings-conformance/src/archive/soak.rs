//! One archive follows several sources for a long time: its memory stays flat, seconds since
//! progress are correct, even for a source that is frozen for a while, and every version is kept
//! once.

use std::io::Write;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval};

use super::archived;
use super::args::Args;
use super::source::Source;
use super::stage::Archive;
use super::writer::Writers;
use crate::clock;
use crate::error::Result;

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
#[derive(Default)]
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
        let within = self.memory.iter();
        let within = within.filter(|(at, _)| (from..=to).contains(at));
        within.map(|(_, bytes)| *bytes).fold(0.0, f64::max)
    }
}

/// Follows this number of sources. Returns whether the archive kept every version once, with flat
/// memory and correct metrics.
pub(super) async fn run(
    args: &Args,
    sources: usize,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    let count = sources.max(1);
    let mut sources: Vec<(String, Source, TempDir)> = Vec::new();
    for number in 0..count {
        let folder = tempfile::tempdir()?;
        let source = Source::start(args, folder.path(), &[]).await?;
        sources.push((format!("source-{number}"), source, folder));
    }
    let folder = tempfile::tempdir()?;
    let followed = sources
        .iter()
        .map(|(name, source, _)| source.followed(name));
    let followed: Vec<_> = followed.collect();
    let mut archive = Archive::start(&args.tidings, folder.path(), &followed, &[]).await?;
    let each = args.per_second / sources.len() as u64;
    let clients = sources.iter().map(|(_, source, _)| &source.server.client);
    let writers: Vec<Writers> = clients
        .map(|client| Writers::named("w", client, each, random))
        .collect();

    let names: Vec<&str> = sources.iter().map(|(name, ..)| &**name).collect();
    let watched = watch(&mut archive, &names, &sources[0].1, args.time(), out).await;
    // Even after an error, no source stays frozen.
    sources[0].1.server.program.signal("-CONT").await?;
    let seen = watched?;

    let mut is_right = true;
    for (name, writers) in names.iter().zip(writers) {
        let ledger = writers.end().await?;
        let (verdict, coverage) = archive.judge(name, &ledger).await?;
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
    let (early_mib, late_mib) = (early / mib, late / mib);
    let quarters = "MiB in the second quarter";
    judge(
        late <= early * part + bytes,
        format!("resident at most {early_mib:.1} {quarters}, {late_mib:.1} MiB in the last"),
    )?;
    let Seen {
        well,
        wrong,
        frozen,
        ..
    } = seen;
    let what = format!("at most {well:.1} s without progress");
    judge(well <= PROGRESS_MAX, what)?;
    let is_told = wrong <= TOLERANCE && frozen > 0.0;
    let what = format!("{frozen:.1} s without progress, wrong by at most {wrong:.1} s");
    judge(is_told, format!("the frozen source was {what}"))?;
    Ok(is_right)
}

/// Reads the metrics of the archive during the whole run. The first source is frozen for a while in
/// the middle.
async fn watch(
    archive: &mut Archive,
    names: &[&str],
    first: &Source,
    time: Duration,
    out: &mut impl Write,
) -> Result<Seen> {
    let process = archive.server.program.process();
    let begun = clock::steady();
    let freeze_at = begun + time / 2;
    let thaw_at = freeze_at + FROZEN_MAX.min(time / 4);
    let mut frozen_since: Option<Instant> = None;
    let mut was_thawed = false;
    let mut seen = Seen::default();
    let mut ticks = interval(BETWEEN_LOOKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut minutes = 0;
    while begun.elapsed() < time {
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
                None if said.since_progress.is_nan() => seen.well = f64::INFINITY,
                None => seen.well = seen.well.max(said.since_progress),
            }
        }
        let (resident, _) = process.memory()?;
        let at = begun.elapsed().as_secs_f64() / time.as_secs_f64();
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
