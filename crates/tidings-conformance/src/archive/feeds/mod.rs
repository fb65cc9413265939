//! Feeds judged at their receivers: an archive with seven feeds to real receivers is killed, at
//! random and at each step between a request and its commit, while receivers are killed, slow,
//! refuse and take half, the disk of the dead letters is full, feeds are changed, and the source
//! goes back to a backup.
//!
//! In the end each version that the archive keeps is at each receiver, or in the feed's account.

mod accounts;
mod gate;
mod receivers;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::archived::{self, CLUSTER, Kept as Version};
use super::args::Args;
use super::collector::Collector;
use super::kills::Pauses;
use super::ledger::Ledger;
use super::small_disk::SmallDisk;
use super::source::Source;
use super::stage::Archive;
use super::writer::Writers;
use crate::clock;
use crate::error::{Result, fail};
use accounts::{Account, Found, Kept, Said};
use gate::{Gate, Killer, Step};
use receivers::Receiver;

/// Maximum time until all feeds have delivered everything.
const SETTLED: Duration = Duration::from_secs(600);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Maximum time for which a step is awaited at which the archive is to be killed.
const STEP: Duration = Duration::from_secs(15);
/// Maximum time for which a receiver is away.
const AWAY_MAX: Duration = Duration::from_secs(4);
/// Mean time between the ends of receivers.
const BETWEEN_FALLS: Duration = Duration::from_secs(12);
/// The part of the run before the source's backup, and the part that is lost with it.
const BEFORE: f64 = 0.5;
const LOST: f64 = 0.1;
/// The name of the feed to whose receiver the gate refuses some versions for good, so that they
/// become dead letters.
const REJECTING: &str = "es";

/// Everything that runs.
struct World {
    folder: TempDir,
    source: Source,
    archive: Archive,
    killer: Arc<Killer>,
    is_faulty: Arc<AtomicBool>,
    gates: Vec<Gate>,
    receivers: Vec<Receiver>,
    /// Kills by step.
    at_steps: u64,
    falls: u64,
}

/// Delivers feeds. Returns whether every account is right.
pub(super) async fn run(
    args: &Args,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    let mut world = World::start(args, random).await?;
    let disk = world.fill_disk(out).await?;
    let mut collector = None;
    let mut ledger = Ledger::default();
    if let Some(program) = args.collector.as_ref().filter(|_| args.beside) {
        let (source, place) = (&world.source, world.folder.path());
        let (followed, client) = (source.followed(CLUSTER), &source.server.client);
        let started = Collector::start(program, place, followed, client, random, &mut ledger);
        collector = Some(started.await?);
    }
    world.is_faulty.store(true, Ordering::Relaxed);
    let kills = |part: f64| (f64::from(args.kills) * part).round() as u32;
    let parts = if args.etcd.is_some() {
        [BEFORE, LOST, 1.0 - BEFORE - LOST]
    } else {
        writeln!(out, "skipped: the source's backup (there is no etcd)")?;
        [1.0, 0.0, 0.0]
    };
    let mut epochs = 0;
    for (name, part) in ["before", "lost", "after"].into_iter().zip(parts) {
        if part == 0.0 {
            continue;
        }
        let time = args.time().mul_f64(part);
        let written = world.phase(name, (time, kills(part)), args, collector.as_mut(), random);
        let written = written.await?;
        let reached = written.latest();
        world.archive.level_in(CLUSTER, epochs, reached).await?;
        ledger.add(written);
        match name {
            "before" if parts[1] > 0.0 => {
                world.source.etcd()?.back_up().await?;
                world.source.be_ready().await?;
            }
            "lost" => {
                world.source.restore().await?;
                epochs = 1;
                world.archive.level_in(CLUSTER, epochs, 0).await?;
            }
            _ => {}
        }
        if name == "lost" || parts[1] == 0.0 {
            disk.as_ref().map_or(Ok(()), SmallDisk::grow)?;
        }
        out.flush()?;
    }
    world.is_faulty.store(false, Ordering::Relaxed);
    for receiver in &mut world.receivers {
        receiver.be_ready().await?;
    }
    let waited = clock::steady();
    let said = world.settled(out).await?;
    let faults: u64 = world.gates.iter().map(Gate::faults).sum();
    writeln!(
        out,
        "{} versions written; killed: archive {} ({} of them at a step), receivers {}; {faults} requests failed; all feeds idle after {:.1} s",
        ledger.entries.len(),
        world.archive.server.program.kills,
        world.at_steps,
        world.falls,
        waited.elapsed().as_secs_f64(),
    )?;
    if disk.is_some() {
        let log = std::fs::read_to_string(world.folder.path().join("archive.log"))?;
        let full = log.matches("dead letters cannot be stored").count();
        writeln!(out, "the disk of the dead letters was full {full} times")?;
    }
    let mut is_right = world.judge(args, &said, &ledger, out).await?;
    // A slow machine needs longer to start again after each kill.
    is_right &= world.archive.server.program.kills >= u64::from(args.kills) / 2;
    if let Some(mut collector) = collector {
        let verdict = collector.judge(&ledger).await?;
        writeln!(
            out,
            "beside it, OpenTelemetry's k8sobjects, killed {} times: {} written, {} lost, {} twice",
            collector.program.kills,
            verdict.written - verdict.before,
            verdict.missing,
            verdict.doubled
        )?;
    }
    drop(disk);
    if !is_right {
        writeln!(out, "what is left: {}", world.folder.path().display())?;
        world.folder.disable_cleanup(true);
    }
    Ok(is_right)
}

impl World {
    async fn start(args: &Args, random: &mut fastrand::Rng) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        let source = if args.etcd.is_some() {
            Source::over_etcd(args, path).await?
        } else {
            Source::start(args, path, &[]).await?
        };
        let (killer, is_faulty) = (Arc::default(), Arc::default());
        let [Some(victoria_logs), Some(collector), Some(python)] =
            [&args.victoria_logs, &args.collector, &args.python]
        else {
            return fail("--feeds needs --victoria-logs, --collector and --python");
        };
        let victoria_logs = Receiver::victoria_logs(victoria_logs, path).await?;
        let collector = Receiver::collector(collector, path).await?;
        let clickhouse = Receiver::clickhouse(python, path).await?;
        let logs = &*victoria_logs.address;
        let mut gates = Vec::new();
        for target in [
            (logs, false),
            (logs, true),
            (logs, false),
            (&collector.address, false),
            (&clickhouse.address, false),
        ] {
            gates.push(Gate::start(target, &killer, &is_faulty, random.fork()).await?);
        }
        let file = path.join("feeds.yaml");
        std::fs::write(&file, feeds(&gates, "10s"))?;
        let more = ["--feeds", &*file.to_string_lossy()];
        let followed = [source.followed(CLUSTER)];
        let archive = Archive::start(&args.tidings, path, &followed, &more).await?;
        let table = ["feeds", "template", "ch"];
        clickhouse
            .run(&run_tidings(&args.tidings, path, &table).await?)
            .await?;
        Ok(Self {
            source,
            archive,
            killer,
            is_faulty,
            gates,
            receivers: vec![victoria_logs, collector, clickhouse],
            at_steps: 0,
            falls: 0,
            folder,
        })
    }

    /// Puts the dead letters of a feed on a disk on which there is room for a few.
    async fn fill_disk(&mut self, out: &mut impl Write) -> Result<Option<SmallDisk>> {
        let folder = self.folder.path().join("archive/feeds").join(REJECTING);
        self.archive.server.program.kill().await?;
        let disk = match SmallDisk::mount(&folder, "24k") {
            Ok(disk) => Some(disk),
            Err(error) => {
                writeln!(out, "skipped: a full disk for dead letters ({error})")?;
                None
            }
        };
        self.archive.be_ready(CLUSTER).await?;
        Ok(disk)
    }

    /// Writes for some time while everything fails. Returns what was written.
    async fn phase(
        &mut self,
        name: &'static str,
        (time, kills): (Duration, u32),
        args: &Args,
        collector: Option<&mut Collector>,
        random: &mut fastrand::Rng,
    ) -> Result<Ledger> {
        let writers = Writers::named(name, &self.source.server.client, args.per_second, random);
        let end = clock::steady() + time;
        let pauses = |random: &mut fastrand::Rng| Pauses::new(end, kills, random.fork());
        let (to_archive, to_collector) = (pauses(random), pauses(random));
        let falls = random.fork();
        let feeds = feeds(&self.gates, if name == "before" { "9s" } else { "10s" });
        let file = self.folder.path().join("feeds.yaml");
        let troubles = async {
            tokio::try_join!(
                kill(
                    &mut self.archive,
                    &self.killer,
                    to_archive,
                    &mut self.at_steps
                ),
                super::kills::kill_collector(collector, to_collector),
                fall(&mut self.receivers, falls, &mut self.falls),
                change(&file, &feeds, time / 2),
            )
        };
        if let Ok(Err(error)) = timeout(time, troubles).await {
            return Err(error);
        }
        self.killer.disarm();
        sleep(BETWEEN_LOOKS).await;
        for receiver in &mut self.receivers {
            receiver.be_ready().await?;
        }
        if self.archive.server.program.check().is_err() {
            self.archive.server.program.note_kill().await?;
        }
        self.archive.be_ready(CLUSTER).await?;
        writers.end().await
    }

    /// Waits until every feed is idle. Returns what they say.
    async fn settled(&mut self, out: &mut impl Write) -> Result<Vec<Value>> {
        let until = clock::steady() + SETTLED;
        loop {
            let said = self.archive.caller.read("/feeds").await?;
            let all = said["feeds"].as_array().cloned().unwrap_or_default();
            let is_idle = |it: &Value| it["state"] == "idle" && it["backlogVersions"] == 0;
            if all.len() == NAMES.len() && all.iter().all(is_idle) {
                return Ok(all);
            }
            if clock::steady() > until {
                writeln!(out, "not idle: {said}")?;
                return Ok(all);
            }
            self.archive.server.program.check()?;
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Compares each receiver with the archive, and the archive with what was written.
    async fn judge(
        &mut self,
        args: &Args,
        said: &[Value],
        ledger: &Ledger,
        out: &mut impl Write,
    ) -> Result<bool> {
        let export = self.folder.path().join("export.jsonl");
        run_tidings(
            &args.tidings,
            self.folder.path(),
            &["export", "--versions", "-q", &export.to_string_lossy()],
        )
        .await?;
        let lines = receivers::lines(&export)?;
        let count = |line: &Value| line["event"]["count"].as_u64().unwrap_or(1);
        let kept: Kept = lines
            .iter()
            .map(|(key, line)| (key.clone(), count(line)))
            .collect();
        let versions: Vec<_> = kept
            .iter()
            .map(|(key, count)| version(key, *count))
            .collect();
        let coverage = archived::coverage(&mut self.archive.caller, CLUSTER).await?;
        // The same resourceVersion can be in two epochs, so only what is missing is counted.
        let missing = ledger.judge(&versions, &coverage).missing;
        writeln!(
            out,
            "the archive keeps {} versions, {missing} that were written are missing, {} gaps",
            kept.len(),
            coverage.gaps.len()
        )?;
        let mut is_right = missing == 0;
        writeln!(
            out,
            "\n| feed | receiver | missing | twice | sums wrong | occurrences | delivered | dead | skipped | gone | replaced | backlog | accounted for |"
        )?;
        writeln!(out, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
        let occurrences = self.occurrences()?;
        for (name, receiver, has_keys) in NAMES {
            let found = self.found(name).await?;
            let letters = format!("/feeds/{name}/dead-letters");
            let letters = self.archive.caller.read(&letters).await?;
            let letters = letters["deadLetters"].as_array().into_iter().flatten();
            let ids = letters.filter_map(|it| accounts::key(it["id"].as_str()?));
            let dead: BTreeMap<_, _> = ids
                .filter_map(|key| {
                    let number = *occurrences.get(&key)?;
                    Some((key, number))
                })
                .collect();
            let said = said.iter().find(|it| it["feed"] == name);
            let said = said.map(said_of).unwrap_or_default();
            let account = Account::new(&kept, &found, &dead, said);
            writeln!(out, "| {name} | {receiver} | {account}")?;
            for example in &account.examples {
                writeln!(out, "  {example}")?;
            }
            is_right &= account.is_right(has_keys);
        }
        writeln!(out)?;
        Ok(is_right)
    }

    /// The occurrences of each version, as the file has them.
    fn occurrences(&self) -> Result<BTreeMap<accounts::Key, u64>> {
        Ok(self.in_file("lines")?.into_iter().collect())
    }

    fn in_file(&self, name: &str) -> Result<Found> {
        let lines = receivers::lines(&self.folder.path().join(format!("{name}.jsonl")))?;
        let number = |line: &Value| line["occurrences"].as_u64().unwrap_or_default();
        Ok(lines
            .into_iter()
            .map(|(key, line)| (key, number(&line)))
            .collect())
    }

    async fn found(&self, name: &str) -> Result<Found> {
        let [logs, _, clickhouse] = &self.receivers[..] else {
            return Ok(Found::new());
        };
        match name {
            "loki" => logs.logs("1", ["id", "occurrences"]).await,
            "es" => logs.logs("2", ["event.id", "tidings.occurrences"]).await,
            "otlp" => {
                let fields = ["log.record.uid", "tidings.event.occurrences"];
                logs.logs("3", fields).await
            }
            "otel" => receivers::records(self.folder.path()),
            "ch" => clickhouse.rows().await,
            _ => self.in_file(name),
        }
    }
}

/// Kills the archive, every second time at a step of a request, and starts it again.
async fn kill(
    archive: &mut Archive,
    killer: &Killer,
    mut pauses: Pauses,
    at_steps: &mut u64,
) -> Result<()> {
    while let Some(pause) = pauses.next() {
        sleep(pause).await;
        let is_at_step = pauses.random.bool();
        let process = archive.server.program.id();
        if is_at_step && process > 0 {
            let step = Step::ALL[pauses.random.usize(..Step::ALL.len())];
            let fired = timeout(STEP, killer.arm(process, step)).await;
            if fired.is_ok() || !killer.disarm() {
                archive.server.program.note_kill().await?;
                *at_steps += 1;
            } else {
                archive.server.program.kill().await?;
            }
        } else {
            archive.server.program.kill().await?;
        }
        archive.server.program.start()?;
        // A program that is always killed before it is ready never makes progress.
        archive.be_ready(CLUSTER).await?;
    }
    std::future::pending().await
}

/// Ends receivers, and starts each again.
async fn fall(
    receivers: &mut [Receiver],
    mut random: fastrand::Rng,
    falls: &mut u64,
) -> Result<()> {
    loop {
        sleep(BETWEEN_FALLS.mul_f64(0.5 + random.f64())).await;
        let at = random.usize(..receivers.len());
        receivers[at].fall().await?;
        *falls += 1;
        sleep(AWAY_MAX.mul_f64(random.f64())).await;
        receivers[at].be_ready().await?;
    }
}

/// Changes the file of feeds after some time.
async fn change(file: &Path, feeds: &str, after: Duration) -> Result<()> {
    sleep(after).await;
    let next = file.with_extension("next");
    std::fs::write(&next, feeds)?;
    std::fs::rename(&next, file)?;
    std::future::pending().await
}

/// Runs a verb of `tidings` with the archive. Returns what it prints.
async fn run_tidings(tidings: &Path, folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = tokio::process::Command::new(std::path::absolute(tidings)?);
    command.args(arguments).arg("--kubeconfig");
    command.arg(folder.join("archive/kubeconfig"));
    let output = command.output().await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    fail(format!("tidings {}: {}", arguments.join(" "), said.trim()))
}

fn said_of(status: &Value) -> Said {
    accounts::COUNTS.map(|name| match &status[name] {
        Value::Object(causes) => causes.values().filter_map(Value::as_u64).sum(),
        count => count.as_u64().unwrap_or_default(),
    })
}

fn version((uid, _, number): &accounts::Key, count: u64) -> Version {
    Version {
        uid: uid.clone(),
        name: String::new(),
        version: *number,
        count: i64::try_from(count).unwrap_or(i64::MAX),
        is_in_order: true,
    }
}

/// The feeds, their receivers, and whether a receiver keeps each key once.
const NAMES: [(&str, &str, bool); 7] = [
    ("loki", "VictoriaLogs, Loki push", false),
    (REJECTING, "VictoriaLogs, Elasticsearch bulk", false),
    ("otlp", "VictoriaLogs, OTLP", false),
    ("otel", "OpenTelemetry collector, file exporter", false),
    ("ch", "chDB, ReplacingMergeTree with FINAL", true),
    ("lines", "file", false),
    ("thin", "file, `every: 5s`", false),
];

/// The file of feeds.
fn feeds(gates: &[Gate], timeout: &str) -> String {
    let text = include_str!("feeds.yaml").replace("{timeout}", timeout);
    let gates = gates.iter().enumerate();
    gates.fold(text, |text, (number, gate)| {
        text.replace(&format!("{{{number}}}"), &gate.address)
    })
}
