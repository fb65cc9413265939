//! One fault at a time: the state that the archive reports during the fault, and the gaps that it
//! reports afterwards, are compared with the ledger.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tidings_testing::copy_folder;
use tokio::process::Command;
use tokio::time::{interval, sleep};

use super::archived::{self, CLUSTER};
use super::caller::Caller;
use super::clock;
use super::error::ArchiveError;
use super::kills::tell;
use super::ledger::Ledger;
use super::program::Program;
use super::source::{Programs, Source};
use super::stage::{Archive, Stage};
use super::writer::{Writer, Writers};
use crate::http::Client;
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
/// The mount option for the size of a disk that is soon full.
const SMALL_DISK: &str = "size=192m";

/// What the archive must report about a fault.
struct Expected {
    /// A state that it must report during the fault.
    state: Option<&'static str>,
    /// The causes of the gaps that it must report afterwards; empty if nothing was missed.
    causes: &'static [&'static str],
    /// Minimum seconds without progress that it must report during the fault.
    silence: f64,
}

/// What the archive reported during a fault: each state, with the maximum seconds without progress.
#[derive(Default)]
struct Said(BTreeMap<String, f64>);

impl Said {
    fn silence(&self) -> f64 {
        self.0.values().copied().fold(0.0, f64::max)
    }

    fn add(&mut self, health: archived::Health) {
        let most = self.0.entry(health.state).or_default();
        *most = most.max(health.since_progress);
    }
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (state, most)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(out, "{comma}{state} (at most {most:.1} s without progress)")?;
        }
        Ok(())
    }
}

/// A fault with its name, its servers and its writers.
struct Story<'a, W> {
    name: &'static str,
    expected: Expected,
    out: &'a mut W,
    is_right: &'a mut bool,
}

impl<W: Write> Story<'_, W> {
    /// Stops the writers, waits until the archive has caught up, and compares its content with the
    /// ledger.
    async fn end(
        self,
        archive: &mut Archive,
        ledger: &Ledger,
        said: &Said,
    ) -> Result<(), ArchiveError> {
        let latest = ledger.latest();
        self.end_at(archive, (0, latest), ledger, said).await
    }

    /// Like `end`, but the archive must have caught up to a version after the source went back this
    /// number of times.
    async fn end_at(
        self,
        archive: &mut Archive,
        (epoch, version): (u64, u64),
        ledger: &Ledger,
        said: &Said,
    ) -> Result<(), ArchiveError> {
        let waited = clock::steady();
        let level = archive.level_in(CLUSTER, epoch, version).await;
        let Self { name, out, .. } = self;
        let coverage = match level {
            Ok(coverage) => coverage,
            Err(error @ ArchiveError::NotLevel { .. }) => {
                writeln!(out, "wrong: {name}: {error}")?;
                *self.is_right = false;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let kept = archived::versions(&archive.client, CLUSTER).await?;
        let verdict = ledger.judge(&kept, &coverage);
        let expected = self.expected;
        let mut causes: Vec<&str> = coverage.gaps.iter().map(|gap| &*gap.cause).collect();
        causes.dedup();
        let is_seen = expected
            .state
            .is_none_or(|state| said.0.contains_key(state));
        let is_right = verdict.is_right()
            && causes == expected.causes
            && is_seen
            && said.silence() >= expected.silence;
        let word = if is_right { "ok" } else { "wrong" };
        writeln!(
            out,
            "{word}: {name}: {said}; level {:.1} s after the end",
            waited.elapsed().as_secs_f64()
        )?;
        tell(&verdict, &coverage, out)?;
        out.flush()?;
        *self.is_right &= is_right;
        Ok(())
    }
}

/// For some time, notes the states that the archive reports.
async fn look(archive: &mut Archive, time: Duration, said: &mut Said) -> Result<(), ArchiveError> {
    let mut ticks = interval(BETWEEN_LOOKS);
    let until = clock::steady() + time;
    while clock::steady() < until {
        ticks.tick().await;
        let health = archived::health(&mut archive.caller, CLUSTER).await;
        archive.program.check()?;
        said.add(health?);
    }
    Ok(())
}

/// Runs all faults, or those with this text in their name. Returns whether the archive was right in
/// each.
pub(super) async fn run(
    programs: &Programs,
    only: Option<&str>,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool, ArchiveError> {
    let mut is_right = true;
    macro_rules! story {
        ($name:expr, $state:expr, $causes:expr, $silence:expr, $run:ident) => {
            if only.is_none_or(|only| $name.contains(only)) {
                let story = Story {
                    name: $name,
                    expected: Expected {
                        state: $state,
                        causes: $causes,
                        silence: $silence,
                    },
                    out,
                    is_right: &mut is_right,
                };
                $run(programs, random, story).await?;
            }
        };
    }
    let kept = "what ends at its source after a minute";
    story!(kept, None, &[], 0.0, short_lived);
    let unreachable = Some("unreachable");
    story!("the source is frozen", unreachable, &[], 55.0, frozen);
    let name = "the permission is taken and given back";
    story!(name, Some("forbidden"), &[], 15.0, forbidden);
    let name = "another cluster answers";
    story!(name, Some("other cluster"), &[], 15.0, other_cluster);
    let name = "the archive's disk is full";
    story!(name, Some("storage failed"), &[], 10.0, full_disk);
    if programs.etcd.is_some() {
        let name = "etcd is compacted under a stopped archive";
        story!(name, None, &["absent"], 0.0, compacted);
        let name = "etcd is restored from a backup";
        story!(name, None, &["rewound"], 0.0, restored);
    } else {
        writeln!(
            out,
            "skipped: etcd compacted, etcd restored: there is no etcd"
        )?;
    }
    Ok(is_right)
}

pub(super) async fn signal(program: &Program, name: &str) -> Result<(), ArchiveError> {
    let id = program.id().unwrap_or_default().to_string();
    Command::new("kill").args([name, &id]).status().await?;
    Ok(())
}

async fn frozen<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let mut stage = Stage::start(programs, &[]).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    signal(&stage.source.program, "-STOP").await?;
    let frozen = look(&mut stage.archive, Duration::from_secs(75), &mut said).await;
    signal(&stage.source.program, "-CONT").await?;
    frozen?;
    sleep(WELL).await;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

/// An event is created and ends at the source while the archive does not run. The archive must have
/// it nevertheless.
async fn short_lived<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let mut stage = Stage::start(programs, &["--event-ttl", "60s"]).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    stage.archive.program.kill().await?;
    let mut first = Writer::new(&stage.source.client, "first", random.fork());
    first.create().await;
    let mut caller = Caller::new(&stage.source.client);
    let until = clock::steady() + ENDS_WITHIN;
    loop {
        let found = caller
            .get("/api/v1/events?fieldSelector=metadata.name%3Dfirst.1")
            .await?;
        if found.json["items"].as_array().is_some_and(Vec::is_empty) {
            break;
        }
        if clock::steady() > until {
            return Err(ArchiveError::NotEnded);
        }
        sleep(BETWEEN_LOOKS).await;
    }
    stage.archive.be_ready(CLUSTER).await?;
    look(&mut stage.archive, WELL, &mut said).await?;
    let mut ledger = writers.end().await?;
    ledger.add(first.ledger);
    story.end(&mut stage.archive, &ledger, &said).await
}

/// Where the follower's permissions at the source are configured.
enum Permission {
    /// In a file of roles, which `tidings serve` reads again when it changes.
    File(PathBuf),
    /// In the roles of a kube-apiserver, which are changed through this caller.
    Served(Caller),
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

impl Permission {
    fn role(may_read: bool) -> Value {
        let verbs: &[&str] = if may_read {
            &["get", "list", "watch"]
        } else {
            &["create"]
        };
        let (groups, resources) = (["", "events.k8s.io"], ["events", "namespaces"]);
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "follower"},
            "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}],
        })
    }

    fn binding() -> Value {
        let group = "rbac.authorization.k8s.io";
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "follower"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "follower"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "follower"}],
        })
    }

    fn in_file(file: PathBuf) -> std::io::Result<Self> {
        let permission = Self::File(file);
        permission.write(true)?;
        Ok(permission)
    }

    async fn served(source: &Client) -> Result<Self, ArchiveError> {
        let mut caller = Caller::new(source);
        for (path, object) in [(ROLES, Self::role(true)), (BINDINGS, Self::binding())] {
            caller.change(Method::POST, path, &object).await?;
        }
        Ok(Self::Served(caller))
    }

    fn write(&self, may_read: bool) -> std::io::Result<()> {
        if let Self::File(file) = self {
            let text = format!("{}\n---\n{}\n", Self::role(may_read), Self::binding());
            let new = file.with_extension("new");
            std::fs::write(&new, text)?;
            std::fs::rename(&new, file)?;
        }
        Ok(())
    }

    async fn set(&mut self, may_read: bool) -> Result<(), ArchiveError> {
        self.write(may_read)?;
        if let Self::Served(caller) = self {
            let path = format!("{ROLES}/follower");
            let change = json!({"rules": Self::role(may_read)["rules"]});
            caller.change(Method::PATCH, &path, &change).await?;
        }
        Ok(())
    }
}

async fn forbidden<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let folder = tempfile::tempdir()?;
    let (source, mut permission);
    if programs.kube_apiserver.is_some() {
        source = Source::start_of(programs, folder.path(), &[]).await?;
        permission = Permission::served(&source.client).await?;
    } else {
        let file = folder.path().join("roles.yaml");
        let flag = file.to_string_lossy().into_owned();
        permission = Permission::in_file(file)?;
        let more = ["--authorization-rbac-file", &flag];
        source = Source::start_of(programs, folder.path(), &more).await?;
    }
    let place = tempfile::tempdir()?;
    let mut stage = Stage::with(programs, source, place, "follower-token").await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    permission.set(false).await?;
    // `tidings serve` notices a replaced file within ten seconds, and checks permissions only when
    // a watch begins. So the open watch is cut.
    look(&mut stage.archive, Duration::from_secs(15), &mut said).await?;
    stage.proxy.cut();
    look(&mut stage.archive, Duration::from_secs(30), &mut said).await?;
    permission.set(true).await?;
    sleep(WELL).await;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

async fn other_cluster<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    // Both sources have the same certificate, like two clusters behind one load balancer.
    let folder = tempfile::tempdir()?;
    let first = Source::start_of(programs, folder.path(), &[]).await?;
    let identity = Caller::new(&first.client).get(IDENTITY).await?;
    if !identity.json["metadata"]["uid"].is_string() {
        let name = story.name;
        writeln!(
            story.out,
            "skipped: {name}: the source's kube-system has no uid"
        )?;
        return Ok(());
    }
    let place = tempfile::tempdir()?;
    for keys in ["data/pki", KUBE_CERTIFICATES] {
        let from = folder.path().join(keys);
        if from.is_dir() {
            copy_folder(&from, &place.path().join(keys));
        }
    }
    let mut second = Source::start_of(programs, place.path(), &[]).await?;
    let mut stage = Stage::of(programs, first, folder).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let others = Writers::start(&second.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    stage.proxy.lead_to(&second.address);
    look(&mut stage.archive, Duration::from_secs(20), &mut said).await?;
    stage.proxy.lead_to(&stage.source.address);
    sleep(WELL).await;
    others.end().await?;
    second.program.kill().await?;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

async fn full_disk<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("archive");
    std::fs::create_dir(&place)?;
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", SMALL_DISK, "tmpfs"])
        .arg(&place);
    let mounted = mount.output().await;
    if !mounted.is_ok_and(|output| output.status.success()) {
        writeln!(
            story.out,
            "skipped: {}: no small disk can be mounted",
            story.name
        )?;
        return Ok(());
    }
    let told = on_small_disk(programs, folder, &place, random, story).await;
    Command::new("umount")
        .arg("--lazy")
        .arg(&place)
        .status()
        .await?;
    told
}

async fn on_small_disk<W: Write>(
    programs: &Programs,
    folder: tempfile::TempDir,
    place: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let source = Source::start_of(programs, folder.path(), &[]).await?;
    let mut stage = Stage::of(programs, source, folder).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    let ballast = place.join("ballast");
    // This fills the disk, whatever its size. `dd` ends by itself when no more can be written.
    let mut fill = Command::new("dd");
    let to = format!("of={}", ballast.display());
    fill.args(["if=/dev/zero", "bs=64k", &to]).output().await?;
    look(&mut stage.archive, Duration::from_secs(20), &mut said).await?;
    std::fs::remove_file(&ballast)?;
    sleep(WELL).await;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

/// Starts a source that stores its events in an etcd, and an archive that follows it.
async fn over_etcd(programs: &Programs) -> Result<Stage, ArchiveError> {
    let folder = tempfile::tempdir()?;
    let source = Source::over_etcd(programs, folder.path()).await?;
    Stage::of(programs, source, folder).await
}

async fn compacted<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let mut stage = over_etcd(programs).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    stage.archive.program.kill().await?;
    sleep(WELL).await;
    stage.source.etcd()?.compact().await?;
    // The source may still have some of the compacted history in memory. A restart removes that.
    stage.source.program.kill().await?;
    stage.source.be_ready().await?;
    sleep(WELL).await;
    stage.archive.be_ready(CLUSTER).await?;
    look(&mut stage.archive, WELL, &mut said).await?;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

async fn restored<W: Write>(
    programs: &Programs,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let mut stage = over_etcd(programs).await?;
    let mut said = Said::default();
    let before = Writers::start(&stage.source.client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let mut ledger = before.end().await?;
    // The backup is made while etcd is stopped, so that nothing is written meanwhile.
    let etcd = stage.source.etcd()?;
    etcd.program.kill().await?;
    let backup = etcd.data.with_extension("backup");
    copy_folder(&etcd.data, &backup);
    stage.source.be_ready().await?;
    // The restored source does not have the events that are written from here on. The archive keeps
    // them.
    let client = stage.source.client.clone();
    let lost = Writers::named("lost", &client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let lost = lost.end().await?;
    stage.archive.level(CLUSTER, lost.latest()).await?;
    ledger.add(lost);
    stage.source.program.kill().await?;
    let etcd = stage.source.etcd()?;
    etcd.program.kill().await?;
    std::fs::remove_dir_all(&etcd.data)?;
    copy_folder(&backup, &etcd.data);
    stage.source.be_ready().await?;
    // A source that has caught up does not look as if it went back.
    stage.archive.level_in(CLUSTER, 1, 0).await?;
    // The same resourceVersions are used again for other events.
    let after = Writers::named("again", &client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let after = after.end().await?;
    let reached = after.latest();
    ledger.add(after);
    story
        .end_at(&mut stage.archive, (1, reached), &ledger, &said)
        .await
}
