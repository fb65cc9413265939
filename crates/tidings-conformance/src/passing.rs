//! Runs kubectl with an archive that passes everything except events to a real kube-apiserver: it
//! describes a pod of the cluster with the events of the archive, and the cluster itself refuses
//! users without permission.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::sleep;

use crate::error::Result;

const NAMESPACE: &str = "passed-on";
const MESSAGE: &str = "Back-off restarting failed container";
/// The objects that kubectl describes.
const OBJECTS: &str = include_str!("passing.yaml");
/// Requests that a user without permissions must be refused.
const REFUSED: [&[&str]; 4] = [
    &["get", "pods"],
    &["get", "pod", "web"],
    &["describe", "pod", "web"],
    &["get", "events"],
];
/// Maximum attempts to find an event in the archive.
const TRIES: usize = 300;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// A kubectl with a kubeconfig and a folder for its caches.
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) home: PathBuf,
}

impl Kubectl {
    async fn run(
        &self,
        kubeconfig: &Path,
        token: &str,
        words: &[&str],
        input: &str,
    ) -> Result<Output> {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--token", token, "--namespace", NAMESPACE])
            .args(words)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        Ok(child.wait_with_output().await?)
    }
}

/// Runs the requests. Returns what was wrong.
pub(crate) async fn judge(
    kubectl: &Kubectl,
    source: &Path,
    archive: &Path,
) -> Result<Option<String>> {
    let admin = "admin-token";
    let create = ["create", "-f", "-"];
    let made = kubectl.run(source, admin, &create, OBJECTS).await?;
    if !made.status.success() {
        return Ok(Some(said("the pod cannot be created", &made)));
    }
    let words = ["get", "pod", "web", "-o", "jsonpath={.metadata.uid}"];
    let uid = kubectl.run(source, admin, &words, "").await?;
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: web.1, namespace: {NAMESPACE}}}\n\
         involvedObject: {{apiVersion: v1, kind: Pod, name: web, namespace: {NAMESPACE}, uid: {}}}\n\
         reason: BackOff\ntype: Warning\ncount: 1\nmessage: {MESSAGE}\n\
         lastTimestamp: '2026-01-01T00:00:00Z'\n",
        String::from_utf8_lossy(&uid.stdout)
    );
    let made = kubectl.run(source, admin, &create, &event).await?;
    if !made.status.success() {
        return Ok(Some(said("the event cannot be created", &made)));
    }
    let describe = ["describe", "pod", "web"];
    let mut tries = 0;
    loop {
        let described = kubectl.run(archive, admin, &describe, "").await?;
        let text = String::from_utf8_lossy(&described.stdout);
        if text.contains("example.com/web:1.2.3") && text.contains(MESSAGE) {
            break;
        }
        tries += 1;
        if tries == TRIES {
            return Ok(Some(said("pod and event are not described", &described)));
        }
        sleep(BETWEEN_TRIES).await;
    }
    for words in REFUSED {
        let theirs = kubectl.run(source, "ann-token", words, "").await?;
        let ours = kubectl.run(archive, "ann-token", words, "").await?;
        let is_refused = String::from_utf8_lossy(&ours.stderr).contains("is forbidden: User");
        if !is_refused || ours.stderr != theirs.stderr || ours.status != theirs.status {
            let words = words.join(" ");
            return Ok(Some(format!(
                "{}\n{}",
                said(&format!("kubectl {words} at the cluster"), &theirs),
                said("at the archive", &ours)
            )));
        }
    }
    Ok(None)
}

fn said(what: &str, output: &Output) -> String {
    format!(
        "{what}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
