//! `tidings archive` as a process of its own, and the verbs that read what it kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tidings_testing::process::Process;

use super::support::{Cluster, Ran, event, metrics, run, tidings};

/// What a slow machine may need for anything here.
const PATIENCE: Duration = Duration::from_secs(120);

/// An archive that runs.
pub(crate) struct Archive {
    folder: TempDir,
    process: Process,
    kubeconfig: PathBuf,
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Archive {
    /// An archive of these clusters, by their names.
    pub(crate) fn start(clusters: &[(&str, &Cluster)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clusters = clusters.iter().map(|(name, cluster)| {
            let kubeconfig = cluster.kubeconfig();
            format!("- name: {name}\n  kubeconfig: {}\n", kubeconfig.display())
        });
        let file = format!("clusters:\n{}", clusters.collect::<String>());
        let path = folder.path().join("clusters.yaml");
        std::fs::write(&path, file).unwrap();
        let data = folder.path().join("data");
        let mut command = tidings(&["archive", "--secure-port=0", "--clusters", text(&path)]);
        command
            .args(["--data-dir", text(&data)])
            .stderr(Stdio::piped());
        let (process, kubeconfig) = Process::start_and_hear(&mut command).unwrap();
        Self {
            folder,
            process,
            kubeconfig: kubeconfig.into(),
        }
    }

    /// What `/metrics` says, which is at the root and not below a cluster's name.
    pub(crate) async fn metrics(&self, cluster: &str) -> String {
        let below = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let root = self.folder.path().join("root");
        std::fs::write(&root, below.replace(&format!("/clusters/{cluster}"), "")).unwrap();
        metrics(&root).await
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().unwrap();
        let mut command = tidings(&[verb, "--kubeconfig", text(&self.kubeconfig)]);
        command.args(rest).output().unwrap().into()
    }

    /// What a verb prints once it is as it should be.
    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "it is waited for what another program does"
    )]
    fn until(&self, arguments: &[&str], is_right: impl Fn(&Ran) -> bool) -> String {
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

    fn until_lines(&self, arguments: &[&str], number: usize) -> Vec<String> {
        let printed = self.until(arguments, |ran| ran.stdout.lines().count() == number);
        printed.lines().map(str::to_owned).collect()
    }

    /// Ends it, and gives back its folder.
    fn end(mut self) -> TempDir {
        self.process.signal("TERM");
        let said = self.process.errors();
        assert_eq!(self.process.wait().code(), Some(0), "{said}");
        self.folder
    }
}

/// What an export has, by key, without what is the server's own.
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

    // One of them, by the names of the kubeconfig.
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

    let coverage = archive.until(&["coverage"], |ran| ran.code == Some(0));
    assert!(coverage.contains("No gaps"), "{coverage}");
    for name in ["prod", "staging"] {
        let line = coverage
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells[4..6], ["1", "1"], "{coverage}");
    }
    // An open archive keeps its folder.
    let data = archive.folder.path().join("data");
    let forget = |name: &str| run(&["archive", "--data-dir", text(&data), "--forget", name]);
    let refused = forget("prod");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("another archive running"),
        "{refused:?}"
    );
    let folder = archive.end();
    assert_eq!(forget("prod").code, Some(0));
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
    // It is the archive's to tell, not a server's that keeps the last version.
    let elsewhere = cluster.run(&["events", "-n", "shop", "--history", "web.1"]);
    assert_eq!(elsewhere.code, Some(1), "{elsewhere:?}");
    let elsewhere = cluster.run(&["coverage"]);
    assert!(
        elsewhere.stderr.contains("the server is no archive"),
        "{elsewhere:?}"
    );
    archive.end();
}

/// Real events, where there are any beside the project; otherwise those of the tests.
fn real_events(cluster: &Cluster) -> usize {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/events");
    let files = std::fs::read_dir(&data).into_iter().flatten();
    let mut imported = 0;
    for file in files {
        let ran = cluster.run(&["import", text(&file.unwrap().path())]);
        imported += usize::from(ran.code == Some(0) || ran.code == Some(1));
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
    imported
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_keeps_every_field_of_what_it_follows() {
    let cluster = Cluster::start().await;
    real_events(&cluster);
    let archive = Archive::start(&[("prod", &cluster)]);
    let at_source = cluster.run(&["export", "-A"]);
    let at_source = exported(&at_source.stdout);
    assert!(!at_source.is_empty());
    let export = ["export", "-A", "--cluster", "prod"];
    let here = archive.until(&export, |ran| ran.stdout.lines().count() >= at_source.len());
    let here = exported(&here);
    for (key, event) in &at_source {
        assert_eq!(here.get(key), Some(event), "{key}");
    }
    assert_eq!(here.len(), at_source.len());
    archive.end();
}

#[test]
fn wrong_arguments_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clusters.yaml");
    std::fs::write(&file, "clusters:\n- name: Prod\n").unwrap();
    let data = folder.path().join("data");
    for (arguments, why) in [
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
        (vec!["--event-ttl", "forever"], "90d, 36h or 1d12h"),
    ] {
        let ran = run(&[&["archive", "--data-dir", text(&data)], &arguments[..]].concat());
        assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
        assert!(ran.stderr.contains(why), "{why}: {ran:?}");
    }
}
