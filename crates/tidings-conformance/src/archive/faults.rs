//! One fault at a time: the state that the archive reports during the fault, and the gaps that it
//! reports afterwards, are compared with the ledger.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_testing::copy_folder;
use tokio::time::{interval, sleep};

use super::archived::{self, CLUSTER};
use super::args::{Args, SourceKind};
use super::kills::tell;
use super::ledger::Ledger;
use super::small_disk::SmallDisk;
use super::source::Source;
use super::stage::Stage;
use super::writer::{Writer, Writers};
use crate::clock;
use crate::error::{Result, fail};
use crate::http::Caller;
use crate::servers::KUBE_CERTIFICATES;

const PER_SECOND: u64 = 50;
/// Time in which events are written before and after each fault.
const WELL: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// The namespace by whose UID a cluster is recognized.
const IDENTITY: &str = "/api/v1/namespaces/kube-system";
/// Maximum time until an event with a TTL of a minute is gone: kube-apiserver keeps it longer,
/// because it shares leases between events.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// A fault, and what the archive must report about it.
struct Fault {
    name: &'static str,
    kind: Kind,
    /// A state that it must report during the fault.
    state: Option<&'static str>,
    /// The causes of the gaps that it must report afterwards; empty if nothing was missed.
    causes: &'static [&'static str],
    /// Minimum seconds without progress that it must report during the fault.
    silence: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    ShortLived,
    Frozen,
    Forbidden,
    OtherCluster,
    FullDisk,
    Compacted,
    Restored,
}

const FAULTS: [Fault; 7] = [
    fault("what ends at its source after a minute", Kind::ShortLived),
    fault("the source is frozen", Kind::Frozen).says("unreachable", 55.0),
    fault("the permission is taken and given back", Kind::Forbidden).says("forbidden", 15.0),
    fault("another cluster answers", Kind::OtherCluster).says("other cluster", 15.0),
    fault("the archive's disk is full", Kind::FullDisk).says("storage failed", 10.0),
    fault("etcd is compacted under a stopped archive", Kind::Compacted).leaves(&["absent"]),
    fault("etcd is restored from a backup", Kind::Restored).leaves(&["rewound"]),
];

const fn fault(name: &'static str, kind: Kind) -> Fault {
    Fault {
        name,
        kind,
        state: None,
        causes: &[],
        silence: 0.0,
    }
}

impl Fault {
    const fn says(self, state: &'static str, silence: f64) -> Self {
        Self {
            state: Some(state),
            silence,
            ..self
        }
    }

    const fn leaves(self, causes: &'static [&'static str]) -> Self {
        Self { causes, ..self }
    }
}

/// Runs all faults, or those with this text in their name. Returns whether the archive was right in
/// each.
pub(super) async fn run(
    args: &Args,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool> {
    let mut is_right = true;
    for fault in FAULTS {
        let name = fault.name;
        if args.only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let has_etcd = args.etcd.is_some();
        let trial = match fault.kind {
            Kind::ShortLived => short_lived(args, random).await?,
            Kind::Frozen => frozen(args, random).await?,
            Kind::Forbidden => forbidden(args, random).await?,
            Kind::OtherCluster => other_cluster(args, random).await?,
            Kind::FullDisk => full_disk(args, random).await?,
            Kind::Compacted if has_etcd => compacted(args, random).await?,
            Kind::Restored if has_etcd => restored(args, random).await?,
            Kind::Compacted | Kind::Restored => Err("there is no etcd"),
        };
        match trial {
            Ok(trial) => is_right &= fault.judge(trial, out).await?,
            Err(why) => writeln!(out, "skipped: {name}: {why}")?,
        }
        out.flush()?;
    }
    Ok(is_right)
}

impl Fault {
    /// Stops the writers, waits until the archive has caught up, and compares its content with the
    /// ledger.
    async fn judge(&self, mut trial: Trial, out: &mut impl Write) -> Result<bool> {
        let name = self.name;
        trial.end_writing().await?;
        let Trial { ledger, said, .. } = trial;
        let archive = &mut trial.stage.archive;
        let waited = clock::steady();
        let level = archive.level_in(CLUSTER, trial.epoch, trial.reached);
        let coverage = match level.await {
            Ok(coverage) => coverage,
            Err(error) => {
                writeln!(out, "wrong: {name}: {error}")?;
                return Ok(false);
            }
        };
        let kept = archived::versions(&archive.server.client, CLUSTER).await?;
        let verdict = ledger.judge(&kept, &coverage);
        let mut causes: Vec<&str> = coverage.gaps.iter().map(|gap| &*gap.cause).collect();
        causes.dedup();
        let silence = said.values().copied().fold(0.0, f64::max);
        let is_right = verdict.is_right()
            && causes == self.causes
            && self.state.is_none_or(|state| said.contains_key(state))
            && silence >= self.silence;
        let word = if is_right { "ok" } else { "wrong" };
        let waited = waited.elapsed().as_secs_f64();
        let said = said.iter();
        let said: Vec<_> = said
            .map(|(state, most)| format!("{state} (at most {most:.1} s without progress)"))
            .collect();
        let said = said.join(", ");
        writeln!(
            out,
            "{word}: {name}: {said}; level {waited:.1} s after the end"
        )?;
        tell(&verdict, &coverage, out)?;
        Ok(is_right)
    }
}

/// A source that is written to, and the archive that follows it.
struct Trial {
    // It is unmounted before its folder is removed.
    _disk: Option<SmallDisk>,
    stage: Stage,
    /// The folder of the source, if that of the archive is another.
    _folder: Option<TempDir>,
    writers: Option<Writers>,
    ledger: Ledger,
    /// Each state that the archive reported, with the maximum seconds without progress.
    said: BTreeMap<String, f64>,
    /// How often the source went back, and the version that it reached after that.
    epoch: u64,
    reached: u64,
}

/// A trial, or why there is none.
type Tried = Result<std::result::Result<Trial, &'static str>>;

impl Trial {
    /// Starts to write to a source, and waits while all is well.
    async fn begin(stage: Stage, random: &mut fastrand::Rng) -> Result<Self> {
        let mut trial = Self {
            _disk: None,
            stage,
            _folder: None,
            writers: None,
            ledger: Ledger::default(),
            said: BTreeMap::new(),
            epoch: 0,
            reached: 0,
        };
        trial.write("w", random).await?;
        Ok(trial)
    }

    /// Starts to write events of a new name, and waits while all is well.
    async fn write(&mut self, name: &'static str, random: &mut fastrand::Rng) -> Result<()> {
        self.end_writing().await?;
        let client = &self.stage.source.server.client;
        self.writers = Some(Writers::named(name, client, PER_SECOND, random));
        self.look(WELL).await
    }

    async fn end_writing(&mut self) -> Result<()> {
        if let Some(writers) = self.writers.take() {
            let written = writers.end().await?;
            self.reached = written.latest();
            self.ledger.add(written);
        }
        Ok(())
    }

    /// Reads for some time what the archive reports.
    async fn look(&mut self, time: Duration) -> Result<()> {
        let archive = &mut self.stage.archive;
        let mut ticks = interval(BETWEEN_LOOKS);
        let until = clock::steady() + time;
        while clock::steady() < until {
            ticks.tick().await;
            let health = archived::health(&mut archive.caller, CLUSTER).await;
            archive.server.program.check()?;
            let health = health?;
            let most = self.said.entry(health.state).or_default();
            *most = most.max(health.since_progress);
        }
        Ok(())
    }
}

async fn frozen(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let stage = Stage::start(args, &[]).await?;
    let mut trial = Trial::begin(stage, random).await?;
    trial.stage.source.server.program.signal("-STOP").await?;
    let frozen = trial.look(Duration::from_secs(75)).await;
    trial.stage.source.server.program.signal("-CONT").await?;
    frozen?;
    sleep(WELL).await;
    Ok(Ok(trial))
}

/// An event is created and ends at the source while the archive does not run. The archive must have
/// it nevertheless.
async fn short_lived(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let stage = Stage::start(args, &["--event-ttl", "60s"]).await?;
    let mut trial = Trial::begin(stage, random).await?;
    trial.stage.archive.server.program.kill().await?;
    let client = &trial.stage.source.server.client;
    let mut first = Writer::new(client, "first", random.fork());
    first.create().await;
    let mut caller = Caller::new(client);
    let until = clock::steady() + ENDS_WITHIN;
    loop {
        let found = caller
            .get("/api/v1/events?fieldSelector=metadata.name%3Dfirst.1")
            .await?;
        if found.json["items"].as_array().is_some_and(Vec::is_empty) {
            break;
        }
        if clock::steady() > until {
            return fail("an event with a TTL of a minute does not end");
        }
        sleep(BETWEEN_LOOKS).await;
    }
    trial.stage.archive.be_ready(CLUSTER).await?;
    trial.look(WELL).await?;
    trial.ledger.add(first.ledger);
    Ok(Ok(trial))
}

/// The follower's role and its binding.
const FOLLOWER: &str = include_str!("follower.yaml");

/// Where the follower's permissions at the source are configured.
enum Permission {
    /// In a file of roles, which `tidings serve` reads again when it changes.
    File(PathBuf),
    /// In this role of a kube-apiserver, which is changed through this caller.
    Served(Caller, Value),
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAY_READ: &str = "[get, list, watch]";

impl Permission {
    async fn set(&mut self, may_read: bool) -> Result<()> {
        match self {
            Self::File(file) => {
                let verbs = if may_read { MAY_READ } else { "[create]" };
                let new = file.with_extension("new");
                std::fs::write(&new, FOLLOWER.replace(MAY_READ, verbs))?;
                std::fs::rename(&new, file)?;
            }
            Self::Served(caller, role) => {
                let path = format!("{RBAC}/clusterroles/follower");
                let mut change = json!({"rules": role["rules"]});
                if !may_read {
                    change["rules"][0]["verbs"] = json!(["create"]);
                }
                let reply = caller.ask(Method::PATCH, &path, Some(&change)).await?;
                reply.success(&path)?;
            }
        }
        Ok(())
    }
}

async fn forbidden(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let folder = tempfile::tempdir()?;
    let (source, mut permission);
    if args.source == SourceKind::KubeApiserver {
        source = Source::start(args, folder.path(), &[]).await?;
        let mut caller = Caller::new(&source.server.client);
        let objects: Vec<Value> = serde_saphyr::from_multiple(FOLLOWER)?;
        for (kind, object) in ["clusterroles", "clusterrolebindings"].iter().zip(&objects) {
            let path = format!("{RBAC}/{kind}");
            let reply = caller.ask(Method::POST, &path, Some(object)).await?;
            reply.success(&path)?;
        }
        permission = Permission::Served(caller, objects[0].clone());
    } else {
        let file = folder.path().join("roles.yaml");
        let flag = file.to_string_lossy().into_owned();
        permission = Permission::File(file);
        permission.set(true).await?;
        let more = ["--authorization-rbac-file", &flag];
        source = Source::start(args, folder.path(), &more).await?;
    }
    let place = tempfile::tempdir()?;
    let stage = Stage::of(args, source, place, "follower-token").await?;
    let mut trial = Trial::begin(stage, random).await?;
    permission.set(false).await?;
    // `tidings serve` notices a replaced file within ten seconds, and checks permissions only when
    // a watch begins. So the open watch is cut.
    trial.look(Duration::from_secs(15)).await?;
    trial.stage.proxy.cut();
    trial.look(Duration::from_secs(30)).await?;
    permission.set(true).await?;
    sleep(WELL).await;
    Ok(Ok(Trial {
        _folder: Some(folder),
        ..trial
    }))
}

async fn other_cluster(args: &Args, random: &mut fastrand::Rng) -> Tried {
    // Both sources have the same certificate, like two clusters behind one load balancer.
    let folder = tempfile::tempdir()?;
    let first = Source::start(args, folder.path(), &[]).await?;
    let identity = Caller::new(&first.server.client).get(IDENTITY).await?;
    if !identity.json["metadata"]["uid"].is_string() {
        return Ok(Err("the source's kube-system has no uid"));
    }
    let place = tempfile::tempdir()?;
    for keys in ["serve/pki", KUBE_CERTIFICATES] {
        let from = folder.path().join(keys);
        if from.is_dir() {
            copy_folder(&from, &place.path().join(keys));
        }
    }
    let mut second = Source::start(args, place.path(), &[]).await?;
    let stage = Stage::of(args, first, folder, "admin-token").await?;
    let others = Writers::named("w", &second.server.client, PER_SECOND, random);
    let mut trial = Trial::begin(stage, random).await?;
    trial.stage.proxy.lead_to(&second.server.address);
    trial.look(Duration::from_secs(20)).await?;
    let first = &trial.stage.source.server.address;
    trial.stage.proxy.lead_to(first);
    sleep(WELL).await;
    others.end().await?;
    second.server.program.kill().await?;
    Ok(Ok(trial))
}

async fn full_disk(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("archive");
    let Ok(disk) = SmallDisk::mount(&place, "192m") else {
        return Ok(Err("no small disk can be mounted"));
    };
    let source = Source::start(args, folder.path(), &[]).await?;
    let stage = Stage::of(args, source, folder, "admin-token").await?;
    let mut trial = Trial {
        _disk: Some(disk),
        ..Trial::begin(stage, random).await?
    };
    let ballast = place.join("ballast");
    // This fills the disk, whatever its size. `dd` ends by itself when no more can be written.
    let mut fill = tokio::process::Command::new("dd");
    let to = format!("of={}", ballast.display());
    fill.args(["if=/dev/zero", "bs=64k", &to]).output().await?;
    trial.look(Duration::from_secs(20)).await?;
    std::fs::remove_file(&ballast)?;
    sleep(WELL).await;
    Ok(Ok(trial))
}

/// Starts a source that stores its events in an etcd, and an archive that follows it.
async fn over_etcd(args: &Args, random: &mut fastrand::Rng) -> Result<Trial> {
    let folder = tempfile::tempdir()?;
    let source = Source::over_etcd(args, folder.path()).await?;
    Trial::begin(
        Stage::of(args, source, folder, "admin-token").await?,
        random,
    )
    .await
}

async fn compacted(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let mut trial = over_etcd(args, random).await?;
    trial.stage.archive.server.program.kill().await?;
    sleep(WELL).await;
    let etcd = trial.stage.source.etcd()?;
    let status = etcd.call("maintenance/status", &json!({})).await?;
    etcd.compact(&status["header"]["revision"]).await?;
    // The source may still have some of the compacted history in memory. A restart removes that.
    trial.stage.source.server.program.kill().await?;
    trial.stage.source.be_ready().await?;
    sleep(WELL).await;
    trial.stage.archive.be_ready(CLUSTER).await?;
    trial.look(WELL).await?;
    Ok(Ok(trial))
}

async fn restored(args: &Args, random: &mut fastrand::Rng) -> Tried {
    let mut trial = over_etcd(args, random).await?;
    trial.end_writing().await?;
    trial.stage.source.etcd()?.back_up().await?;
    trial.stage.source.be_ready().await?;
    // The restored source does not have the events that are written from here on. The archive keeps
    // them.
    trial.write("lost", random).await?;
    trial.end_writing().await?;
    let lost = trial.reached;
    trial.stage.archive.level(CLUSTER, lost).await?;
    trial.stage.source.restore().await?;
    // A source that has caught up does not look as if it went back.
    trial.epoch = 1;
    trial.stage.archive.level_in(CLUSTER, 1, 0).await?;
    // The same resourceVersions are used again for other events.
    trial.write("again", random).await?;
    Ok(Ok(trial))
}
