//! Servers, the program, and events for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_server::Running;
use tidings_testing::serving::{client, start};

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A command of the program in an isolated environment: without a kubeconfig, a cluster or a
/// terminal.
pub(crate) fn tidings(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("NO_COLOR")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

/// Runs the program until it ends.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    tidings(arguments).output().unwrap().into()
}

/// A server of ours and its folder, both removed with the test.
pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    server: Option<Running>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = start(&folder.path().join("data"), 0).await;
        Self {
            folder,
            server: Some(server),
        }
    }

    /// Starts a server with these events.
    pub(crate) async fn with(events: &[Value]) -> Self {
        let cluster = Self::start().await;
        cluster.import(events);
        cluster
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }

    /// Runs a verb against the server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (verb, rest) = arguments.split_first().unwrap();
        let mut command = tidings(&[verb]);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(rest);
        command
    }

    /// The output lines of a verb, which must succeed.
    #[track_caller]
    pub(crate) fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout.lines().map(str::to_owned).collect()
    }

    pub(crate) fn import(&self, events: &[Value]) {
        let text = lines_of(events);
        let file = self.folder.path().join("events.jsonl");
        std::fs::write(&file, text).unwrap();
        let ran = self.run(&["import", file.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// The text of `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        metrics(&self.kubeconfig()).await
    }

    /// Ends the server, and returns its port; its folder stays.
    pub(crate) async fn stop(&mut self) -> u16 {
        let server = self.server.take().unwrap();
        let port = server.address().port();
        server.shutdown().await;
        port
    }

    pub(crate) async fn go_on(&mut self, port: u16) {
        self.server = Some(start(&self.folder.path().join("data"), port).await);
    }
}

/// The text of a server's `/metrics`.
pub(crate) async fn metrics(kubeconfig: &Path) -> String {
    page(kubeconfig, "/metrics").await
}

async fn page(kubeconfig: &Path, path: &str) -> String {
    let client = client(kubeconfig).await;
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap()
}

/// The text of an archive's `/metrics`, which is at the root and not below a cluster's name.
pub(crate) async fn metrics_of_archive(kubeconfig: &Path, cluster: &str) -> String {
    page_of_archive(kubeconfig, cluster, "/metrics").await
}

/// The text of a page of metrics at the root of an archive.
pub(crate) async fn page_of_archive(kubeconfig: &Path, cluster: &str, path: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let below = std::fs::read_to_string(kubeconfig).unwrap();
    let root = folder.path().join("root");
    std::fs::write(&root, below.replace(&format!("/clusters/{cluster}"), "")).unwrap();
    page(&root, path).await
}

/// A tar, compressed with gzip, of files with these names.
pub(crate) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        builder
            .append_data(&mut header, name, text.as_bytes())
            .unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Events as JSON Lines.
pub(crate) fn lines_of(events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    lines.join("\n")
}

/// The time this number of seconds ago, as events write it.
#[expect(
    clippy::disallowed_methods,
    reason = "what the program prints depends on the time it is"
)]
pub(crate) fn ago(seconds: i64) -> String {
    let then = Timestamp::now()
        .checked_sub(SignedDuration::from_secs(seconds))
        .unwrap();
    format!("{then:.0}")
}

/// An event of a pod, seen once.
pub(crate) fn event(name: &str, object: (&str, &str), reason: &str, seconds: i64) -> Value {
    let (kind, object_name) = object;
    let event_type = if reason.starts_with('F') || reason == "BackOff" {
        "Warning"
    } else {
        "Normal"
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "involvedObject": {"kind": kind, "namespace": "shop", "name": object_name, "uid": format!("u-{object_name}")},
        "reason": reason, "message": format!("{reason} of {object_name}"), "type": event_type,
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": ago(seconds), "lastTimestamp": ago(seconds), "count": 1,
    })
}

/// A rollout: a deployment, its replica set and its pods, all deleted by now, and an unrelated
/// object. Ages are half a minute from a full minute, so that a slow test prints the same.
pub(crate) fn rollout() -> Vec<Value> {
    let mut back_off = event(
        "web-5d4f8c7b9-x7k2p.1",
        ("Pod", "web-5d4f8c7b9-x7k2p"),
        "BackOff",
        1230,
    );
    back_off["count"] = json!(7);
    back_off["firstTimestamp"] = json!(ago(1530));
    back_off["involvedObject"]["fieldPath"] = json!("spec.containers{nginx}");
    vec![
        event("web.1", ("Deployment", "web"), "ScalingReplicaSet", 3000),
        event(
            "web-5d4f8c7b9.1",
            ("ReplicaSet", "web-5d4f8c7b9"),
            "SuccessfulCreate",
            2900,
        ),
        back_off,
        event(
            "web-5d4f8c7b9-x7k2p.2",
            ("Pod", "web-5d4f8c7b9-x7k2p"),
            "Pulled",
            1530,
        ),
        event("api.1", ("Pod", "web-api-0"), "FailedMount", 930),
    ]
}
