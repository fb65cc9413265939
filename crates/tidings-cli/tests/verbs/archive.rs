//! `tidings archive` as a separate process, and the verbs that read its events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tidings_testing::process::Process;

use super::support::{Cluster, Ran, event, metrics_of_archive, run, tidings};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Minimum number of real events that a server accepts, if a folder of them is named.
const REAL_EVENTS_MIN: usize = 10_000;

/// A running archive, as a separate process.
pub(crate) struct Archive {
    pub(crate) folder: TempDir,
    process: Process,
    kubeconfig: PathBuf,
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Archive {
    /// Starts an archive of these clusters, each with its name.
    pub(crate) fn start(clusters: &[(&str, &Cluster)]) -> Self {
        Self::start_with(clusters, &[])
    }

    /// Starts an archive of these clusters with further arguments.
    pub(crate) fn start_with(clusters: &[(&str, &Cluster)], further: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clusters = clusters.iter().map(|(name, cluster)| {
            let kubeconfig = cluster.kubeconfig();
            format!("- name: {name}\n  kubeconfig: {}\n", kubeconfig.display())
        });
        let file = format!("clusters:\n{}", clusters.collect::<String>());
        let path = folder.path().join("clusters.yaml");
        std::fs::write(&path, file).unwrap();
        let arguments = [&["--clusters", text(&path)], further].concat();
        Self::start_in(folder, "data", &arguments)
    }

    /// Starts an archive with these arguments, which keeps its events in a subfolder.
    pub(crate) fn start_in(folder: TempDir, name: &str, arguments: &[&str]) -> Self {
        let data = folder.path().join(name);
        let mut command = tidings(&["archive", "--secure-port=0", "--data-dir", text(&data)]);
        command.args(arguments).stderr(Stdio::piped());
        let (process, kubeconfig) = Process::start_and_hear(&mut command).unwrap();
        Self {
            folder,
            process,
            kubeconfig: kubeconfig.into(),
        }
    }

    /// The text of `/metrics`.
    pub(crate) async fn metrics(&self, cluster: &str) -> String {
        metrics_of_archive(&self.kubeconfig, cluster).await
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().unwrap();
        let mut command = tidings(&[verb, "--kubeconfig", text(&self.kubeconfig)]);
        command.args(rest).output().unwrap().into()
    }

    /// Runs a verb until its output meets a condition; returns the output.
    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "it is waited for what another program does"
    )]
    pub(crate) fn until(&self, arguments: &[&str], is_right: impl Fn(&Ran) -> bool) -> String {
        let began = Instant::now();
        loop {
            let ran = self.run(arguments);
            if is_right(&ran) {
                return ran.stdout;
            }
            assert!(began.elapsed() < PATIENCE, "{arguments:?}: {ran:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn until_lines(&self, arguments: &[&str], number: usize) -> Vec<String> {
        let printed = self.until(arguments, |ran| ran.stdout.lines().count() == number);
        printed.lines().map(str::to_owned).collect()
    }

    /// Ends the archive, and returns its folder.
    pub(crate) fn end(mut self) -> TempDir {
        self.process.signal("TERM");
        let said = self.process.errors();
        assert_eq!(self.process.wait().code(), Some(0), "{said}");
        self.folder
    }
}

/// The token in a kubeconfig's text.
fn token(kubeconfig: &str) -> &str {
    let behind = kubeconfig.split("token: ").nth(1).unwrap();
    behind.lines().next().unwrap()
}

/// Replaces a file atomically, so that no reader sees a part of it.
pub(crate) fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// The events of an export by key, without the fields that the server sets.
fn exported(printed: &str) -> BTreeMap<String, Value> {
    let events = printed.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let metadata = event["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        let key = format!("{}/{}", metadata["namespace"], metadata["name"]);
        (key, event)
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_followed_and_read_together_and_one_can_be_forgotten() {
    let prod = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let staging = Cluster::with(&[event("api.1", ("Pod", "api"), "Pulled", 200)]).await;
    let archive = Archive::start(&[("prod", &prod), ("staging", &staging)]);
    let all = ["events", "-n", "shop", "--cluster", "all", "--no-headers"];
    let lines = archive.until_lines(&all, 2);
    assert!(
        lines[0].starts_with("staging") && lines[0].contains("Pod/api"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("prod") && lines[1].contains("Pod/web"),
        "{lines:?}"
    );
    let json = archive.until(&[&all[..], &["-o", "jsonl"]].concat(), |ran| {
        ran.code == Some(0)
    });
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        first["metadata"]["annotations"]["tidings/cluster"],
        "staging"
    );

    // The versions of one event, which only one of the clusters has.
    let history = [&all[..], &["--history", "web.1"]].concat();
    let found = archive.run(&history);
    assert_eq!(found.code, Some(0), "{found:?}");
    assert!(found.stdout.starts_with("prod"), "{found:?}");

    // One of the clusters, by its name in the kubeconfig.
    let one = [
        "events",
        "-n",
        "shop",
        "--cluster",
        "staging",
        "--no-headers",
    ];
    let lines = archive.until_lines(&one, 1);
    assert!(lines[0].contains("Pod/api"), "{lines:?}");

    // A cluster that was never reached has no events either.
    for cluster in ["prod", "all"] {
        let nothing = archive.run(&["events", "-n", "bank", "--cluster", cluster]);
        assert_eq!(
            nothing.stderr,
            "No events found in bank namespace.\n\
             hint: tidings coverage -n bank says from when to when the archive has events, and what is sealed before\n"
        );
    }

    let coverage = archive.until(&["coverage"], |ran| ran.code == Some(0));
    assert!(coverage.contains("No gaps"), "{coverage}");
    for name in ["prod", "staging"] {
        let line = coverage
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells[5..7], ["1", "1"], "{coverage}");
        let lasts = ": 90d after an event was last observed; ";
        let mut retention = coverage.lines().filter(|line| line.contains(lasts));
        assert!(retention.any(|line| line.contains(name)), "{coverage}");
    }
    // A running archive locks its folder.
    let data = archive.folder.path().join("data");
    let forget = |name: &str| run(&["archive", "--data-dir", text(&data), "--forget", name]);
    let refused = forget("prod");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("another archive running"),
        "{refused:?}"
    );
    let folder = archive.end();
    let done = forget("prod");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("are removed"), "{done:?}");
    // Nothing is written into the removed folder.
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    let clusters = folder.path().join("data/clusters");
    assert!(!clusters.join("prod").exists() && clusters.join("staging").exists());
    let again = forget("prod");
    assert_eq!(again.code, Some(1), "{again:?}");
    let outside = forget("../data");
    assert!(
        outside.stderr.contains("cannot be a cluster's name"),
        "{outside:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_of_an_event_is_read_back() {
    let cluster = Cluster::start().await;
    let archive = Archive::start(&[("prod", &cluster)]);
    let none = ["events", "-A", "--cluster", "prod"];
    archive.until(&none, |ran| ran.stderr.contains("No events"));
    cluster.import(&[event("web.1", ("Pod", "web"), "BackOff", 100)]);
    let client = tidings_testing::serving::client(&cluster.kubeconfig()).await;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(client, "shop");
    for count in 2..5 {
        let patch = kube::api::Patch::Merge(serde_json::json!({"count": count}));
        events
            .patch("web.1", &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    let history = ["events", "-n", "shop", "--history", "web.1", "--no-headers"];
    let lines = archive.until_lines(&history, 4);
    for (line, count) in lines.iter().zip(1..) {
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells[1], count.to_string(), "{lines:?}");
    }
    let missing = archive.run(&["events", "-n", "shop", "--history", "web.2"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let missing = ["events", "-n", "shop", "--cluster", "all", "--history"];
    let missing = archive.run(&[&missing[..], &["web.2"]].concat());
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let printed = archive.run(&["events", "-n", "shop", "--history", "event/web.1"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    // A text that no event can have as its name is not found, and is not taken for another path.
    for name in ["web 1", "web.1?limit=1"] {
        let missing = archive.run(&["events", "-n", "shop", "--history", name]);
        assert_eq!(missing.code, Some(1), "{missing:?}");
        assert!(missing.stderr.contains("not found"), "{missing:?}");
    }
    let written = archive.run(&["record", "pod/web", "--reason=A", "-m=x"]);
    assert_eq!(written.code, Some(1), "{written:?}");
    let said = "failed to record A about pod/web: refused: ";
    assert!(written.stderr.contains(said), "{written:?}");
    // Only an archive has versions; a server keeps only the last one.
    let file = archive.folder.path().join("versions.jsonl");
    for arguments in [
        &["events", "-n", "shop", "--history", "web.1"][..],
        &["coverage"],
        &["export", "--versions", text(&file)],
    ] {
        let elsewhere = cluster.run(arguments);
        assert_eq!(elsewhere.code, Some(1), "{elsewhere:?}");
        assert!(
            elsewhere.stderr.contains("the server is no archive"),
            "{elsewhere:?}"
        );
    }
    assert!(!file.with_extension("jsonl.part").exists());
    archive.end();
}

/// An archive and a server each write a kubeconfig and tokens, and would overwrite those of the
/// other.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_an_archives_or_a_servers() {
    let cluster = Cluster::start().await;
    let archive = Archive::start(&[("prod", &cluster)]);
    let way = std::fs::read_to_string(&archive.kubeconfig).unwrap();
    let data = archive.folder.path().join("data");
    let kubeconfig = cluster.kubeconfig();
    let of_the_server = kubeconfig.parent().unwrap();
    let any_port = ["--secure-port=0"];
    let follow = [
        "--secure-port=0",
        "--name=other",
        "--kubeconfig",
        text(&kubeconfig),
    ];
    for (verb, folder, flags, said) in [
        (
            "serve",
            data.as_path(),
            &any_port[..],
            "is the folder of an archive",
        ),
        (
            "archive",
            of_the_server,
            &follow[..],
            "is the folder of tidings serve",
        ),
        (
            "archive",
            data.as_path(),
            &follow[..],
            "another archive running",
        ),
    ] {
        let mut command = tidings(&[verb, "--data-dir", text(folder)]);
        command.args(flags).stderr(Stdio::piped());
        // A process that starts prints a path.
        let (mut process, printed) = Process::start_and_hear(&mut command).unwrap();
        assert_eq!(printed, "", "{verb}");
        let error = process.errors();
        assert_eq!(process.wait().code(), Some(1), "{error}");
        assert!(error.contains(said), "{error}");
    }
    let now = std::fs::read_to_string(&archive.kubeconfig).unwrap();
    assert_eq!(now, way);
    archive.end();
}

/// Imports a file of events, of which a server refuses only invalid ones. Returns the number of
/// events that the server has now and had not before.
fn import_valid(cluster: &Cluster, file: &Path) -> usize {
    let ran = cluster.run(&["import", text(file)]);
    let numbers = ran.stdout.split(|letter: char| !letter.is_ascii_digit());
    let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
    // Further lines are about events that were not sent.
    let [read, created, there, refused, unreadable] = numbers[..] else {
        panic!("{ran:?}");
    };
    let events = std::fs::read_to_string(file).unwrap().lines().count();
    assert_eq!((read, unreadable), (events, 0), "{ran:?}");
    assert_eq!(created + there + refused, read, "{ran:?}");
    assert_eq!(ran.code, Some(i32::from(refused > 0)), "{ran:?}");
    // Besides refused events, the output mentions events whose time was taken from their metadata.
    let mut said = ran.stderr.lines();
    let known = ["422 Invalid", " events with no time but metadata."];
    let is_known = |line: &str| known.iter().any(|text| line.contains(text));
    assert!(said.all(is_known), "{ran:?}");
    created
}

/// Imports real events, if `TIDINGS_CAPTURES` names a folder of them, and one of the test with
/// every field. Returns the number of events.
fn real_events(cluster: &Cluster) -> usize {
    let mut valid = 0;
    if let Some(folder) = std::env::var_os("TIDINGS_CAPTURES") {
        for file in std::fs::read_dir(folder).unwrap() {
            valid += import_valid(cluster, &file.unwrap().path());
        }
        assert!(valid >= REAL_EVENTS_MIN, "{valid}");
    }
    let mut whole = event("whole.1", ("Pod", "web"), "BackOff", 5000);
    whole["metadata"]["labels"] = serde_json::json!({"app": "web"});
    whole["metadata"]["annotations"] = serde_json::json!({"note": "ünïcode\n\u{7}"});
    whole["related"] = serde_json::json!({"kind": "Node", "name": "node-1"});
    whole["series"] =
        serde_json::json!({"count": 4, "lastObservedTime": "2026-01-01T00:00:00.000001Z"});
    whole["eventTime"] = "2026-01-01T00:00:00.000001Z".into();
    whole["reportingComponent"] = "example.com/controller".into();
    whole["reportingInstance"] = "controller-0".into();
    whole["action"] = "Restart".into();
    cluster.import(&[whole]);
    valid + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_keeps_every_field_of_what_it_follows() {
    let cluster = Cluster::start().await;
    let valid = real_events(&cluster);
    let archive = Archive::start(&[("prod", &cluster)]);
    let printed = cluster.run(&["export", "-A"]).stdout;
    let at_source = exported(&printed);
    assert_eq!(at_source.len(), valid);
    let export = ["export", "-A", "--cluster", "prod"];
    let here = archive.until(&export, |ran| ran.stdout.lines().count() >= at_source.len());
    let here = exported(&here);
    for (key, event) in &at_source {
        // These events are among those compared.
        for given in ["uid", "creationTimestamp"] {
            assert!(event["metadata"][given].is_string(), "{key}: {given}");
        }
        assert_eq!(here.get(key), Some(event), "{key}");
    }
    assert_eq!(here.len(), at_source.len());
    // The version's resourceVersion at its source is a separate field.
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let mut events = printed.lines().map(read);
    let whole = events.find(|event| event["metadata"]["name"] == "whole.1");
    let history = ["events", "-n=shop", "--history=whole.1", "-o=jsonl"];
    let version = read(&archive.run(&history).stdout);
    let number = |event: &Value| event["metadata"]["resourceVersion"].clone();
    assert_eq!(number(&version), number(&whole.unwrap()));
    archive.end();
}

/// An export of a cluster, imported into another archive, is equal there.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_with_versions_is_imported_and_served_without_its_cluster() {
    let events = ["web.1", "web.2"].map(|name| event(name, ("Pod", "web"), "BackOff", 100));
    let cluster = Cluster::with(&events).await;
    let archive = Archive::start(&[("prod", &cluster)]);
    let all = ["events", "-A", "--cluster", "prod", "--no-headers"];
    archive.until_lines(&all, 2);
    let client = tidings_testing::serving::client(&cluster.kubeconfig()).await;
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::namespaced(client, "shop");
    for count in 2..6 {
        let patch = kube::api::Patch::Merge(serde_json::json!({"count": count}));
        let params = kube::api::PatchParams::default();
        events.patch("web.1", &params, &patch).await.unwrap();
    }
    let history = ["events", "-n", "shop", "--history", "web.1", "-o", "json"];
    let is_whole = |ran: &Ran| ran.stdout.matches("observed-at").count() == 5;
    let versions = archive.until(&history, is_whole);
    let file = archive.folder.path().join("prod.jsonl.gz");
    let export = archive.run(&["export", "--versions", text(&file)]);
    assert_eq!(export.code, Some(0), "{export:?}");
    assert!(
        export.stderr.contains("6 versions and ends exported"),
        "{export:?}"
    );
    let printed = archive.run(&["export", "--versions", "-q"]);
    let lines: Vec<Value> = printed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    let mut expected = vec!["Coverage"];
    expected.extend(["Version"; 6]);
    expected.push("Complete");
    assert_eq!(kinds, expected);
    let coverage = archive
        .run(&["coverage", "--cluster", "prod", "-o", "json"])
        .stdout;
    let folder = archive.end();

    let other = folder.path().join("other");
    let import = [
        "archive",
        "--data-dir",
        text(&other),
        "--name",
        "old",
        "--import",
    ];
    let import = |file: &Path| run(&[&import[..], &[text(file)]].concat());
    let first = import(&file);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(
        first.stderr.contains("6 versions and 0 ends imported"),
        "{first:?}"
    );
    let again = import(&file);
    assert!(
        again.stderr.contains("0 ends imported, 6 were there"),
        "{again:?}"
    );
    let served = Archive::start_in(folder, "other", &["--no-follow"]);
    assert_eq!(served.run(&history).stdout, versions);
    let read: Value = serde_json::from_str(&coverage).unwrap();
    let found = served.run(&["coverage", "--cluster", "old", "-o", "json"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    for name in ["followed", "gaps", "events", "keptSince", "overQuota"] {
        assert_eq!(found[name], read[name], "{name}");
    }
    assert_eq!(found["cluster"], "old");
    // An archive that follows nothing applies no retention rules.
    assert_eq!(read["retention"]["longestSeconds"], 90 * 86_400);
    assert!(found["retention"].is_null());
    served.end();
}

/// For more than a day, reasons are counted from an archive's hourly counts, and objects in the
/// latest events.
#[tokio::test(flavor = "multi_thread")]
async fn the_noise_of_months_is_counted_by_hours() {
    let events = [
        event("web.1", ("Pod", "web"), "BackOff", 100),
        event("web.2", ("Pod", "web"), "BackOff", 200),
        event("api.1", ("Pod", "api"), "Pulled", 200),
    ];
    let prod = Cluster::with(&events).await;
    let edge = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let archive = Archive::start(&[("prod", &prod), ("edge", &edge)]);
    let all = ["events", "-A", "--cluster", "all", "--no-headers"];
    archive.until_lines(&all, 4);
    let top = ["top", "-A", "--cluster", "all", "--window", "90000h"];
    let printed = archive.until(&top, |ran| ran.code == Some(0));
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |name: &str| {
        let found = rows.iter().find(|row| row.last() == Some(&name));
        found.unwrap_or_else(|| panic!("{name}: {printed}"))[0]
    };
    assert_eq!((row("BackOff"), row("Pulled")), ("3", "1"), "{printed}");
    assert!(
        printed.contains("prod: reasons are counted by hour"),
        "{printed}"
    );
    // Counts by hour have neither types nor repeats.
    assert!(
        printed.contains(": 4 events, ") && !printed.contains("warnings"),
        "{printed}"
    );
    let web = rows.iter().filter(|row| row.last() == Some(&"Pod/web"));
    assert_eq!(web.count(), 2, "{printed}");
    // If a type is selected, events are read, and the note is not printed.
    let chosen = archive.run(&[&top[..], &["--types", "Warning"]].concat());
    assert!(!chosen.stdout.contains("counted by hour"), "{chosen:?}");
    archive.end();
}

/// Credentials, such as this token, are replaced while the archive runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_changes_is_read_again() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let right = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    replace(&kubeconfig, &right.replace(token(&right), "expired"));
    let arguments = ["--name=prod", "--kubeconfig", text(&kubeconfig)];
    let archive = Archive::start_in(folder, "data", &arguments);
    let all = ["events", "-A", "--no-headers"];
    archive.until(&all, |ran| ran.code == Some(0));
    replace(&kubeconfig, &right);
    archive.until_lines(&all, 1);
    archive.end();
}

/// Of several entries with one name, client-go uses the first.
#[tokio::test(flavor = "multi_thread")]
async fn behind_the_kubeconfig_of_its_cluster_an_archive_has_a_context_of_its_own() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    // The archive's cluster has the name of the cluster's own context and entry.
    let archive = Archive::start(&[("tidings", &cluster)]);
    let events = ["events", "-A", "--no-headers"];
    archive.until_lines(&events, 1);
    let files = [cluster.kubeconfig(), archive.kubeconfig.clone()];
    let files = std::env::join_paths(files).unwrap();
    let run = |arguments: &[&str]| -> Ran {
        let mut command = tidings(arguments);
        command.env("KUBECONFIG", &files).output().unwrap().into()
    };
    let found = run(&["coverage", "--context", "archive-tidings"]);
    assert_eq!(found.code, Some(0), "{found:?}");
    for arguments in [&["coverage"][..], &["coverage", "--context", "tidings"]] {
        let elsewhere = run(arguments);
        let is_cluster = elsewhere.stderr.contains("the server is no archive");
        assert!(is_cluster, "{elsewhere:?}");
    }
    // The archive's kubeconfig alone has both names.
    for context in ["tidings", "archive-tidings"] {
        let found = archive.run(&["coverage", "--context", context]);
        assert_eq!(found.code, Some(0), "{found:?}");
    }
    archive.end();
}

/// A credential program may return a token without its expiry.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_asked_again_when_its_credentials_are_not_known_any_more() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let folder = tempfile::tempdir().unwrap();
    let [kubeconfig, given] = ["kubeconfig", "given"].map(|name| folder.path().join(name));
    let right = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let known = token(&right);
    let program = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: [{}], \
         interactiveMode: Never}}",
        given.display()
    );
    let of_program = right.replace(&format!("token: {known}"), &program);
    std::fs::write(&kubeconfig, of_program).unwrap();
    let give = |token: &str| {
        let credential = serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token},
        });
        replace(&given, &credential.to_string());
    };
    give("expired");
    let arguments = ["--name=prod", "--kubeconfig", text(&kubeconfig)];
    let archive = Archive::start_in(folder, "data", &arguments);
    let all = ["events", "-A", "--no-headers"];
    archive.until(&all, |ran| ran.code == Some(0));
    give(known.trim_matches(['"', '\'']));
    archive.until_lines(&all, 1);
    archive.end();
}

/// A cluster that fails, at the start or later, does not stop the following of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_connected_to_keeps_none_from_being_followed() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let folder = tempfile::tempdir().unwrap();
    let [file, late] = ["clusters.yaml", "late.yaml"].map(|name| folder.path().join(name));
    let right = cluster.kubeconfig();
    let set = |prod: &str, more: &str| {
        let prod = format!("{{name: prod, kubeconfig: {}{prod}}}", right.display());
        let text = format!("clusters:\n- {{name: late, kubeconfig: late.yaml}}\n- {prod}\n{more}");
        replace(&file, &text);
    };
    set("", "");
    let archive = Archive::start_in(folder, "data", &["--clusters", text(&file)]);
    let of = |name| ["events", "-A", "--no-headers", "--cluster", name];
    archive.until_lines(&of("prod"), 1);
    assert_ne!(archive.run(&of("late")).code, Some(0));
    assert_is_missing(&archive.metrics("prod").await, "late");
    let coverage = archive.run(&["coverage"]);
    assert!(coverage.stdout.contains("\nlate: "), "{coverage:?}");
    std::fs::copy(&right, &late).unwrap();
    archive.until_lines(&of("late"), 1);
    // A further cluster shows that the file was read.
    let edge = "- {name: edge, kubeconfig: late.yaml}\n";
    set(", context: missing", edge);
    archive.until_lines(&of("edge"), 1);
    let prod = archive.run(&of("prod"));
    assert_eq!(prod.stdout.lines().count(), 1, "{prod:?}");
    // The first cluster of the file is the current context, though it was connected to last.
    let written = std::fs::read_to_string(&archive.kubeconfig).unwrap();
    assert!(written.contains("current-context: \"late\"\n"), "{written}");
    archive.end();
}

/// The metrics show the cluster, so that alerts on its progress fire.
#[track_caller]
fn assert_is_missing(metrics: &str, cluster: &str) {
    for line in [
        format!("tidings_archive_following_well{{cluster=\"{cluster}\"}} 0\n"),
        format!("tidings_archive_state{{cluster=\"{cluster}\",state=\"not started\"}} 1\n"),
        format!("tidings_archive_seconds_since_progress{{cluster=\"{cluster}\"}} "),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

/// A hanging program delays only its own cluster, at the start and later.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_hangs_holds_up_only_its_own_cluster() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let folder = tempfile::tempdir().unwrap();
    let [file, hanging] = ["clusters.yaml", "hanging.yaml"].map(|name| folder.path().join(name));
    let kubeconfig = cluster.kubeconfig();
    let right = std::fs::read_to_string(&kubeconfig).unwrap();
    let program = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, \
                   args: ['600'], interactiveMode: Never}";
    let of_program = right.replace(&format!("token: {}", token(&right)), program);
    std::fs::write(&hanging, of_program).unwrap();
    let set = |more: &str| {
        let prod = format!("{{name: prod, kubeconfig: {}}}", kubeconfig.display());
        let hanging = "{name: hanging, kubeconfig: hanging.yaml}";
        replace(&file, &format!("clusters:\n- {prod}\n- {hanging}\n{more}"));
    };
    set("");
    let archive = Archive::start_in(folder, "data", &["--clusters", text(&file)]);
    let of = |name| ["events", "-A", "--no-headers", "--cluster", name];
    archive.until_lines(&of("prod"), 1);
    assert_is_missing(&archive.metrics("prod").await, "hanging");
    let edge = format!("- {{name: edge, kubeconfig: {}}}\n", kubeconfig.display());
    set(&edge);
    archive.until_lines(&of("edge"), 1);
    // A new kubeconfig is used at once, without waiting for the hanging program.
    replace(&hanging, &right);
    archive.until_lines(&of("hanging"), 1);
    let metrics = archive.metrics("prod").await;
    assert!(!metrics.contains("state=\"not started\""), "{metrics}");
    archive.end();
}

/// A retired cluster, whose server is gone, is read beside the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_followed_is_served_as_it_was_kept() {
    let prod = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let gone = Cluster::with(&[event("api.1", ("Pod", "api"), "BackOff", 200)]).await;
    let archive = Archive::start(&[("prod", &prod), ("gone", &gone)]);
    let all = ["events", "-A", "--cluster", "all", "--no-headers"];
    archive.until_lines(&all, 2);
    drop(gone);

    let file = archive.folder.path().join("clusters.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let (prods, _) = before.split_once("- name: gone").unwrap();
    let kubeconfig = prod.kubeconfig();
    let later = format!("- name: later\n  kubeconfig: {}\n", kubeconfig.display());
    let retired = "- name: gone\n  follow: false\n- name: misspelt\n  follow: false\n";
    replace(&file, &format!("{prods}{retired}{later}"));
    // A further cluster shows that the file was read.
    let lines = archive.until_lines(&all, 3);
    assert!(
        lines.iter().any(|line| line.contains("Pod/api")),
        "{lines:?}"
    );
    let metrics = archive.metrics("prod").await;
    let state = "tidings_archive_state{cluster=\"gone\",state=\"not followed\"} 1\n";
    assert!(metrics.contains(state), "{metrics}");
    assert_is_missing(&metrics, "misspelt");
    let coverage = archive.run(&["coverage"]);
    assert!(
        coverage.stdout.contains("nothing is kept of"),
        "{coverage:?}"
    );

    let folder = archive.end();
    let file = folder.path().join("clusters.yaml");
    let again = Archive::start_in(folder, "data", &["--clusters", text(&file)]);
    again.until_lines(&all, 3);
    again.end();
}

/// The cluster is served, even if the kubeconfig cannot be written.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_followed_also_if_the_kubeconfig_cannot_be_written() {
    let cluster = Cluster::with(&[event("web.1", ("Pod", "web"), "BackOff", 100)]).await;
    let archive = Archive::start(&[("prod", &cluster)]);
    // A folder is at the path where the kubeconfig is written first.
    std::fs::create_dir(archive.kubeconfig.with_file_name("kubeconfig.new")).unwrap();
    let file = archive.folder.path().join("clusters.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let kubeconfig = cluster.kubeconfig();
    let edge = format!("- name: edge\n  kubeconfig: {}\n", kubeconfig.display());
    replace(&file, &format!("{before}{edge}"));
    let all = ["events", "-A", "--cluster", "all", "--no-headers"];
    archive.until_lines(&all, 2);
    cluster.import(&[event("web.2", ("Pod", "web"), "BackOff", 200)]);
    archive.until_lines(&all, 4);
    archive.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_without_an_effect_is_told() {
    let prod = Cluster::start().await;
    let passing = Archive::start_with(&[("prod", &prod)], &["--pass-through"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clusters.yaml");
    std::fs::write(&file, "clusters: []\n").unwrap();
    let nothing = Archive::start_in(folder, "data", &["--clusters", text(&file)]);
    for (mut archive, told) in [
        (passing, "no request is passed to the cluster"),
        (nothing, "no cluster is followed"),
    ] {
        archive.process.signal("TERM");
        let said = archive.process.errors();
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_cluster_that_was_not_forgotten_completely_is_forgotten_again() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("clusters").join(".prod.forgotten");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("log"), "events").unwrap();
    let data = text(folder.path());
    let forget = || run(&["archive", "--data-dir", data, "--forget", "prod"]);
    let ran = forget();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!left.exists());
    assert_eq!(forget().code, Some(1));
}

#[test]
fn wrong_arguments_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clusters.yaml");
    std::fs::write(&file, "clusters:\n- name: Prod\n").unwrap();
    let cut = folder.path().join("cut.jsonl.gz");
    std::fs::write(&cut, b"\x1f\x8b\x08\0\0\0\0\0\0\xff").unwrap();
    let data = folder.path().join("data");
    for (arguments, why) in [
        (vec!["--no-follow"], "there is no cluster of an archive in"),
        (
            vec!["--clusters", text(&file)],
            "cannot be a cluster's name",
        ),
        (
            vec!["--kubeconfig", "/nonexistent"],
            "hint: name a context with --context",
        ),
        (
            vec!["--clusters", text(&file), "--context", "x"],
            "cannot be used with",
        ),
        (vec!["--event-ttl", "forever"], "90d, 1h30m or 30s"),
        (vec!["--quota", "40"], "expected at least 1Mi"),
        (
            vec!["--objects", "ftp://events"],
            "error: cannot archive: --objects: ",
        ),
        (vec!["--import", text(&file)], "--name <NAME>"),
        (
            vec!["--name", "prod", "--import", text(&file)],
            "line 1: not the beginning of an export",
        ),
        (
            vec!["--name", "prod", "--import", text(&file)],
            "hint: this reads what tidings export --versions wrote",
        ),
        (
            vec!["--name", "prod", "--import", text(&cut)],
            "hint: the export may be cut",
        ),
        (vec!["--no-follow", "--context", "x"], "cannot be used with"),
    ] {
        let ran = run(&[&["archive", "--data-dir", text(&data)], &arguments[..]].concat());
        assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
        assert!(ran.stderr.contains(why), "{why}: {ran:?}");
    }
}
