//! `tidings serve` as a separate process: its settings, its end, and its store on etcd.

#[cfg(unix)]
mod access;
mod habits;
mod kubectl;
mod watchers;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::Value;
use tidings_testing::etcd::Cluster;
use tidings_testing::process::Process;
use tidings_testing::serving::{client, event};

use super::support::run;

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Server {
    process: Process,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        Self::try_start(args, &[]).unwrap_or_else(|said| panic!("it did not start: {said}"))
    }

    /// Starts a server with variables of the environment.
    ///
    /// # Errors
    /// Returns the output of a server that does not start.
    fn try_start(args: &[&str], variables: &[(&str, &str)]) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        let command = command.arg("serve").args(args);
        let command = command
            .envs(variables.iter().copied())
            .stderr(Stdio::piped());
        let (mut process, line) = Process::start_and_hear(command).unwrap();
        if line.is_empty() {
            return Err(process.errors());
        }
        Ok(Self {
            process,
            kubeconfig: line.into(),
        })
    }

    async fn events(&self) -> Api<Event> {
        Api::namespaced(client(&self.kubeconfig).await, "shop")
    }

    fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// Waits for the server's end, and returns its log.
    fn end(mut self) -> String {
        self.terminate();
        let said = self.process.errors();
        assert_eq!(self.process.wait().code(), Some(0), "{said}");
        said
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server reads several files; an error names the flag of the missing one.
#[test]
fn a_file_that_is_not_there_is_named_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let missing = folder.path().join("missing");
    let missing = text(&missing);
    let url = format!("file://{missing}");
    for (flag, value) in [
        ("--token-auth-file", missing),
        ("--client-ca-file", missing),
        ("--authorization-rbac-file", missing),
        ("--archive", &url),
    ] {
        let all = ["serve", "--secure-port=0", "--data-dir", text(&data)];
        let ran = run(&[&all[..], &[flag, value]].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let said = format!("error: cannot serve: {flag}: {missing}: ");
        assert!(ran.stderr.contains(&said), "{ran:?}");
    }
}

#[tokio::test]
async fn settings_come_from_a_file_and_flags_win() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidings.yaml");
    let retention = folder.path().join("retention.yaml");
    std::fs::write(&retention, "rules: [{type: Warning, ttl: 14d}]").unwrap();
    let settings = format!(
        "data-dir: {}
secure-port: 1
namespaces: [shop, bank]
retention-file: {}
log-format: json
audit-log-path: {}
",
        folder.path().join("data").display(),
        retention.display(),
        folder.path().join("audit.log").display()
    );
    std::fs::write(&file, settings).unwrap();
    let server = Server::start(&["--config", text(&file), "--secure-port=0"]);
    let events = server.events().await;
    events
        .create(&PostParams::default(), &event("a"))
        .await
        .unwrap();
    let elsewhere: Api<Event> = Api::namespaced(events.into_client(), "elsewhere");
    let mut foreign = event("a");
    foreign.involved_object.namespace = Some("elsewhere".into());
    let refused = elsewhere.create(&PostParams::default(), &foreign).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.is_not_found()),
        "{refused:?}"
    );
    let said = server.end();
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }

    let audit = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let audit: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (audit.len(), &audit[0]["objectRef"]["name"]),
        (2, &Value::from("a"))
    );
    assert_eq!(audit[0]["sourceIPs"][0], "127.0.0.1");

    std::fs::write(&file, "secure-port: 0\nretenton-file: x\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["serve", "--config", text(&file)])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(
            "line 2: there is no setting \"retenton-file\"; the nearest is \"retention-file\""
        ),
        "{said}"
    );
    assert!(said.contains("Usage: tidings serve "), "{said}");
}

/// An acknowledged event exists after a clean end, even under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_clean_end_under_load_loses_no_acknowledged_write() {
    const WRITERS: usize = 8;
    const ENOUGH: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["--secure-port=0", "--data-dir", text(&data)];
    let server = Server::start(&args);
    let events = server.events().await;
    let watched = events
        .watch(&WatchParams::default().timeout(200), "0")
        .await
        .unwrap();

    let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (events, sender, over) = (events.clone(), sender.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut number = 0;
                while !over.load(Ordering::Acquire) {
                    let name = format!("e{writer}.{number}");
                    number += 1;
                    if events
                        .create(&PostParams::default(), &event(&name))
                        .await
                        .is_ok()
                    {
                        sender.send(name).unwrap();
                    } else {
                        break;
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let mut names = Vec::new();
    while names.len() < ENOUGH {
        let name = tokio::time::timeout(PATIENCE, acknowledged.recv()).await;
        names.push(name.unwrap().unwrap());
    }
    let ended = tokio::task::spawn_blocking(move || server.end());
    // All writers notice the server's end.
    for writer in writers {
        tokio::time::timeout(PATIENCE, writer)
            .await
            .unwrap()
            .unwrap();
    }
    over.store(true, Ordering::Release);
    ended.await.unwrap();
    while let Some(name) = acknowledged.recv().await {
        names.push(name);
    }
    // The watch ended without an error.
    let changes: Vec<_> = tokio::time::timeout(PATIENCE, watched.collect::<Vec<_>>())
        .await
        .unwrap();
    assert!(
        changes
            .iter()
            .all(|change| matches!(change, Ok(WatchEvent::Added(_) | WatchEvent::Bookmark(_)))),
        "{:?}",
        changes.iter().find(|change| change.is_err())
    );

    let server = Server::start(&args);
    let list = server
        .events()
        .await
        .list(&ListParams::default())
        .await
        .unwrap();
    let stored: Vec<_> = list
        .items
        .iter()
        .map(|event| event.metadata.name.as_deref().unwrap())
        .collect();
    let lost: Vec<_> = names
        .iter()
        .filter(|name| !stored.contains(&name.as_str()))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {}: {lost:?}",
        lost.len(),
        names.len()
    );
    server.end();
}

#[tokio::test]
async fn two_servers_share_one_etcd() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let endpoints = format!("--etcd-servers={}", cluster.endpoints().join(","));
    let start = |name: &str| {
        let data = folder.path().join(name);
        Server::start(&["--secure-port=0", "--data-dir", text(&data), &endpoints])
    };
    let (one, other) = (start("one"), start("other"));
    let (here, there) = (one.events().await, other.events().await);
    let created = here
        .create(&PostParams::default(), &event("a"))
        .await
        .unwrap();
    assert_eq!(there.get("a").await.unwrap(), created);
    there.delete("a", &DeleteParams::default()).await.unwrap();
    let gone = here.get("a").await.unwrap_err();
    assert!(matches!(gone, kube::Error::Api(status) if status.is_not_found()));
    one.end();
    other.end();
    assert!(!folder.path().join("one/store").exists());
}

#[tokio::test]
async fn etcd_is_trusted_where_the_system_trusts_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| text(&folder.path().join(name)).to_owned();
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(file("etcd.pem"), signed.cert.pem()).unwrap();
    std::fs::write(file("etcd.key"), signed.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (file("etcd.pem"), file("etcd.key"));
    let arguments = ["--cert-file", &certificate, "--key-file", &key];
    let Some(cluster) = Cluster::start(1, &arguments) else {
        return;
    };
    let (data, endpoints) = (file("data"), cluster.endpoints().join(","));
    let args = [
        "--secure-port=0",
        "--data-dir",
        &data,
        "--etcd-servers",
        &endpoints,
    ];
    let refused = Server::try_start(&args, &[]).err();
    let refused = refused.expect("nobody vouches for it");
    assert!(refused.contains("etcd cannot be used"), "{refused}");

    let server = Server::try_start(&args, &[("SSL_CERT_FILE", &certificate)]).unwrap();
    let events = server.events().await;
    let event = event("a");
    events.create(&PostParams::default(), &event).await.unwrap();
    server.end();
}
