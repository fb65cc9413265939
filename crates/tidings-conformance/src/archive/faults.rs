//! One trouble at a time: what the archive says of it meanwhile, and what the gaps say of it
//! afterwards, compared with the ledger.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tidings_testing::{copy_folder, free_port};
use tokio::process::Command;
use tokio::time::{interval, sleep};

use super::archived;
use super::caller::Caller;
use super::clock;
use super::error::ArchiveError;
use super::kills::tell;
use super::ledger::Ledger;
use super::program::Program;
use super::stage::{Archive, Source, Stage};
use super::writer::Writers;
use crate::http::send_plainly;

const PER_SECOND: u64 = 50;
/// Before a trouble, and after it.
const WELL: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// What tells clusters apart.
const IDENTITY: &str = "/api/v1/namespaces/kube-system";
/// Of a disk that is soon full.
const SMALL_DISK: &str = "size=192m";

/// What is asked of the archive in a trouble.
struct Expected {
    /// A state that it is in meanwhile.
    state: Option<&'static str>,
    /// What its gaps are called; empty if nothing was missed for good.
    causes: &'static [&'static str],
    /// The least seconds without progress that it says.
    silence: f64,
}

/// What it said meanwhile: each state, and the most seconds without progress.
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

/// A story that is being told.
struct Story<'a, W> {
    name: &'static str,
    expected: Expected,
    out: &'a mut W,
    is_right: &'a mut bool,
}

impl<W: Write> Story<'_, W> {
    /// Waits until the archive is level, and compares what it has with what was written.
    async fn end(
        self,
        archive: &mut Archive,
        ledger: &Ledger,
        said: &Said,
    ) -> Result<(), ArchiveError> {
        let latest = ledger.latest();
        self.end_at(archive, (0, latest), ledger, said).await
    }

    /// The same, level with a version after the source went back so often.
    async fn end_at(
        self,
        archive: &mut Archive,
        (epoch, version): (u64, u64),
        ledger: &Ledger,
        said: &Said,
    ) -> Result<(), ArchiveError> {
        let waited = clock::steady();
        let level = archive.level_in(epoch, version).await;
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
        let kept = archived::versions(&archive.client).await?;
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

/// Looks at the archive for so long.
async fn look(archive: &mut Archive, time: Duration, said: &mut Said) -> Result<(), ArchiveError> {
    let mut ticks = interval(BETWEEN_LOOKS);
    let until = clock::steady() + time;
    while clock::steady() < until {
        ticks.tick().await;
        let health = archived::health(&mut archive.caller).await;
        archive.program.check()?;
        said.add(health?);
    }
    Ok(())
}

/// All of them, or those with this in their name; whether the archive was right in each.
pub(super) async fn run(
    tidings: &Path,
    etcd: Option<&Path>,
    only: Option<&str>,
    random: &mut fastrand::Rng,
    out: &mut impl Write,
) -> Result<bool, ArchiveError> {
    let mut is_right = true;
    let is_wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    macro_rules! story {
        ($name:expr, $state:expr, $causes:expr, $silence:expr, $run:ident($($more:expr),*)) => {
            if is_wanted($name) {
                let story = Story {
                    name: $name,
                    expected: Expected { state: $state, causes: $causes, silence: $silence },
                    out,
                    is_right: &mut is_right,
                };
                $run(tidings, $($more,)* random, story).await?;
            }
        };
    }
    story!(
        "the source is frozen",
        Some("unreachable"),
        &[],
        55.0,
        frozen()
    );
    story!(
        "the permission is taken and given back",
        Some("forbidden"),
        &[],
        15.0,
        forbidden()
    );
    story!(
        "another cluster answers",
        Some("other cluster"),
        &[],
        15.0,
        other_cluster()
    );
    story!(
        "the archive's disk is full",
        Some("storage failed"),
        &[],
        10.0,
        full_disk()
    );
    match etcd {
        Some(etcd) => {
            story!(
                "etcd is compacted under a stopped archive",
                None,
                &["absent"],
                0.0,
                compacted(etcd)
            );
            story!(
                "etcd is restored from a backup",
                None,
                &["rewound"],
                0.0,
                restored(etcd)
            );
        }
        None => writeln!(
            out,
            "skipped: etcd compacted, etcd restored: there is no etcd"
        )?,
    }
    Ok(is_right)
}

async fn signal(program: &Program, name: &str) -> Result<(), ArchiveError> {
    let id = program.id().unwrap_or_default().to_string();
    Command::new("kill").args([name, &id]).status().await?;
    Ok(())
}

async fn frozen<W: Write>(
    tidings: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let mut stage = Stage::tidings(tidings, &[]).await?;
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

/// Who follows may read events and namespaces, or nothing.
fn roles(may_read: bool) -> String {
    let verbs = if may_read {
        "get, list, watch"
    } else {
        "create"
    };
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: follower}}\n\
         rules:\n- {{apiGroups: ['', events.k8s.io], resources: [events, namespaces], verbs: [{verbs}]}}\n\
         ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n\
         metadata: {{name: follower}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: follower}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: follower}}]\n"
    )
}

async fn forbidden<W: Write>(
    tidings: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("roles.yaml");
    let set = |may_read: bool| {
        let new = file.with_extension("new");
        std::fs::write(&new, roles(may_read)).and_then(|()| std::fs::rename(&new, &file))
    };
    set(true)?;
    let flag = file.to_string_lossy().into_owned();
    let arguments = ["--authorization-rbac-file", &flag];
    let source = Source::tidings(tidings, folder.path(), &arguments).await?;
    let mut stage = Stage::with(tidings, source, tempfile::tempdir()?, "follower-token").await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    set(false)?;
    // The server looks for replaced files every ten seconds; an open watch is not asked again.
    look(&mut stage.archive, Duration::from_secs(15), &mut said).await?;
    stage.proxy.cut();
    look(&mut stage.archive, Duration::from_secs(30), &mut said).await?;
    set(true)?;
    sleep(WELL).await;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

async fn other_cluster<W: Write>(
    tidings: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    // Both show the same certificate, as clusters behind one load balancer do.
    let folder = tempfile::tempdir()?;
    let first = Source::tidings(tidings, folder.path(), &[]).await?;
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
    let pki = place.path().join("data/pki");
    copy_folder(&folder.path().join("data/pki"), &pki);
    let mut second = Source::tidings(tidings, place.path(), &[]).await?;
    let mut stage = Stage::of(tidings, first, folder).await?;
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
    tidings: &Path,
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
    let told = on_small_disk(tidings, folder, &place, random, story).await;
    Command::new("umount")
        .arg("--lazy")
        .arg(&place)
        .status()
        .await?;
    told
}

async fn on_small_disk<W: Write>(
    tidings: &Path,
    folder: tempfile::TempDir,
    place: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let source = Source::tidings(tidings, folder.path(), &[]).await?;
    let mut stage = Stage::of(tidings, source, folder).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    let ballast = place.join("ballast");
    // It is full whatever size was asked for: the end of the disk ends the writing.
    let mut fill = Command::new("dd");
    let to = format!("of={}", ballast.display());
    fill.args(["if=/dev/zero", "bs=64k", &to]).output().await?;
    look(&mut stage.archive, Duration::from_secs(20), &mut said).await?;
    std::fs::remove_file(&ballast)?;
    sleep(WELL).await;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

/// An etcd on one port and one folder for all its lives.
struct Etcd {
    program: Program,
    address: String,
    data: PathBuf,
}

impl Etcd {
    async fn start(etcd: &Path, folder: &Path) -> Result<Self, ArchiveError> {
        let data = folder.join("etcd");
        let address = format!("127.0.0.1:{}", free_port());
        let (url, peers) = (
            format!("http://{address}"),
            format!("http://127.0.0.1:{}", free_port()),
        );
        let arguments = [
            "--data-dir",
            &data.to_string_lossy(),
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &format!("default={peers}"),
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        let mut etcd = Self {
            program: Program::new(etcd, arguments, folder, "etcd"),
            address,
            data,
        };
        etcd.start_again().await?;
        Ok(etcd)
    }

    async fn start_again(&mut self) -> Result<(), ArchiveError> {
        self.program.start()?;
        for _ in 0..600 {
            self.program.check()?;
            if self.ask("/v3/maintenance/status", &json!({})).await.is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(ArchiveError::Etcd("it did not become ready".into()))
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, ArchiveError> {
        let body = Bytes::from(body.to_string());
        let request = Request::post(path).body(Full::new(body));
        let request = request.map_err(crate::http::HttpError::from)?;
        let answer = send_plainly(&self.address, request).await?;
        Ok(serde_json::from_slice(&answer.body().await?).unwrap_or_default())
    }

    /// Forgets what was before now.
    async fn compact(&self) -> Result<(), ArchiveError> {
        let status = self.ask("/v3/maintenance/status", &json!({})).await?;
        let revision = &status["header"]["revision"];
        let body = json!({"revision": revision, "physical": true});
        let answer = self.ask("/v3/kv/compaction", &body).await?;
        match answer["error"].as_str() {
            None => Ok(()),
            Some(error) => Err(ArchiveError::Etcd(error.to_owned())),
        }
    }
}

/// `tidings serve` over an etcd, followed.
async fn over_etcd(tidings: &Path, etcd: &Path) -> Result<(Etcd, Stage), ArchiveError> {
    let folder = tempfile::tempdir()?;
    let etcd = Etcd::start(etcd, folder.path()).await?;
    let url = format!("http://{}", etcd.address);
    let source = Source::tidings(tidings, folder.path(), &["--etcd-servers", &url]).await?;
    Ok((etcd, Stage::of(tidings, source, folder).await?))
}

async fn compacted<W: Write>(
    tidings: &Path,
    etcd: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let (etcd, mut stage) = over_etcd(tidings, etcd).await?;
    let writers = Writers::start(&stage.source.client, PER_SECOND, random);
    let mut said = Said::default();
    look(&mut stage.archive, WELL, &mut said).await?;
    stage.archive.program.kill().await?;
    sleep(WELL).await;
    etcd.compact().await?;
    // It has some of what etcd forgot in its memory.
    stage.source.program.kill().await?;
    stage.source.start().await?;
    sleep(WELL).await;
    stage.archive.start_again().await?;
    look(&mut stage.archive, WELL, &mut said).await?;
    let ledger = writers.end().await?;
    story.end(&mut stage.archive, &ledger, &said).await
}

async fn restored<W: Write>(
    tidings: &Path,
    etcd: &Path,
    random: &mut fastrand::Rng,
    story: Story<'_, W>,
) -> Result<(), ArchiveError> {
    let (mut etcd, mut stage) = over_etcd(tidings, etcd).await?;
    let mut said = Said::default();
    let before = Writers::start(&stage.source.client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let mut ledger = before.end().await?;
    // A backup of the stopped server is one that nothing was written beside.
    etcd.program.kill().await?;
    let backup = etcd.data.with_extension("backup");
    copy_folder(&etcd.data, &backup);
    etcd.start_again().await?;
    // What is written now is lost at the source, and kept here.
    let client = stage.source.client.clone();
    let lost = Writers::named("lost", &client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let lost = lost.end().await?;
    stage.archive.level(lost.latest()).await?;
    ledger.add(lost);
    etcd.program.kill().await?;
    stage.source.program.kill().await?;
    std::fs::remove_dir_all(&etcd.data)?;
    copy_folder(&backup, &etcd.data);
    etcd.start_again().await?;
    stage.source.start().await?;
    // A source that has caught up with what it was is not known to have gone back.
    stage.archive.level_in(1, 0).await?;
    // The same resourceVersions come again, of other events.
    let after = Writers::named("again", &client, PER_SECOND, random);
    look(&mut stage.archive, WELL, &mut said).await?;
    let after = after.end().await?;
    let reached = after.latest();
    ledger.add(after);
    story
        .end_at(&mut stage.archive, (1, reached), &ledger, &said)
        .await
}
