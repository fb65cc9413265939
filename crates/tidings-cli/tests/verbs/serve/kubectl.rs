//! The command's server and an unmodified kubectl, as separate processes. Without a kubectl on the
//! PATH (or named by `KUBECTL`) these tests report it and pass.
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_testing::process::Process;
use tidings_testing::programs;

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process that ends with the test.
pub(super) struct Server {
    process: Process,
    pub(super) folder: TempDir,
    kubectl: PathBuf,
}

impl Server {
    pub(super) fn start() -> Option<Self> {
        let kubectl = programs::kubectl()?;
        Some(Self::start_in(tempfile::tempdir().unwrap(), kubectl))
    }

    fn start_in(folder: TempDir, kubectl: PathBuf) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command
            .args(["serve", "--secure-port", "0", "--data-dir"])
            .arg(folder.path().join("data"))
            .stderr(Stdio::null());
        let (process, line) = Process::start_and_hear(&mut command).unwrap();
        assert_eq!(
            line,
            folder.path().join("data/kubeconfig").to_str().unwrap()
        );
        Self {
            process,
            folder,
            kubectl,
        }
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(self.folder.path().join("data/kubeconfig"))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs kubectl, and returns its output.
    #[track_caller]
    pub(super) fn kubectl(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs kubectl, which must fail, and returns its error.
    #[track_caller]
    pub(super) fn kubectl_fails(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(!output.status.success(), "kubectl {args:?} did not fail");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Writes an object to a file for `-f`.
    fn file(&self, name: &str, object: &Value) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Ends the server cleanly, and returns its folder.
    fn end(mut self) -> (TempDir, PathBuf) {
        self.process.signal("TERM");
        assert_eq!(self.process.wait().code(), Some(0));
        (self.folder, self.kubectl)
    }
}

pub(super) fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "u-web", "apiVersion": "v1"},
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2026-03-04T05:00:00Z",
        "lastTimestamp": "2026-03-04T05:06:00Z",
        "count": 7,
        "type": "Warning",
    })
}

/// The words of each line without the first `skip` columns, which are ages.
fn words(text: &str, skip: usize) -> Vec<String> {
    text.lines()
        .map(|line| {
            line.split_whitespace()
                .skip(skip)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

#[test]
fn create_get_patch_delete() {
    let Some(server) = Server::start() else {
        return;
    };
    let file = server.file("event.json", &event("web.1"));
    assert_eq!(
        server.kubectl(&["create", "-f", &file]),
        "event/web.1 created\n"
    );
    assert!(
        server
            .kubectl_fails(&["create", "-f", &file])
            .contains("events \"web.1\" already exists")
    );

    assert_eq!(
        words(&server.kubectl(&["get", "events", "-A", "--no-headers"]), 2),
        ["Warning BackOff pod/web Back-off restarting failed container"]
    );
    let header = server.kubectl(&["get", "events", "-n", "shop"]);
    assert!(
        header.starts_with("LAST SEEN   TYPE      REASON    OBJECT    MESSAGE\n"),
        "{header}"
    );
    let wide = server.kubectl(&["get", "events", "-n", "shop", "-o", "wide", "--no-headers"]);
    assert!(
        wide.contains("kubelet, node-1") && wide.trim_end().ends_with("web.1"),
        "{wide}"
    );
    let listed = server.kubectl(&["events", "-n", "shop", "--no-headers"]);
    assert!(
        listed.contains("(x7 over ") && listed.contains("Pod/web"),
        "{listed}"
    );
    for object in ["pod/web", "po/web"] {
        assert!(
            server
                .kubectl(&["events", "-n", "shop", "--for", object])
                .contains("Pod/web")
        );
    }
    assert_eq!(
        server.kubectl(&["events", "-n", "shop", "--for", "deploy/web"]),
        ""
    );
    // The request that `kubectl describe pod` makes.
    let selector = "involvedObject.name=web,involvedObject.namespace=shop,involvedObject.uid=u-web";
    assert!(
        server
            .kubectl(&[
                "get",
                "events",
                "-A",
                "--field-selector",
                selector,
                "-o",
                "name"
            ])
            .contains("event/web.1")
    );
    assert_eq!(
        server.kubectl(&[
            "get",
            "events",
            "-A",
            "--field-selector",
            "type=Normal",
            "-o",
            "name"
        ]),
        ""
    );

    for kind in ["merge", "strategic"] {
        let patch = json!({"message": kind}).to_string();
        server.kubectl(&[
            "patch", "event", "web.1", "-n", "shop", "--type", kind, "-p", &patch,
        ]);
        assert_eq!(
            server.kubectl(&[
                "get",
                "event",
                "web.1",
                "-n",
                "shop",
                "-o",
                "jsonpath={.message}"
            ]),
            kind
        );
    }
    server.kubectl(&[
        "patch",
        "event",
        "web.1",
        "-n",
        "shop",
        "--type",
        "json",
        "-p",
        r#"[{"op":"replace","path":"/count","value":8}]"#,
    ]);
    server.kubectl(&["label", "event", "web.1", "-n", "shop", "tier=web"]);
    assert_eq!(
        server.kubectl(&[
            "get",
            "events",
            "-A",
            "-l",
            "tier in (web)",
            "-o",
            "jsonpath={.items[*].count}"
        ]),
        "8"
    );
    let other = server.kubectl(&[
        "get",
        "events.events.k8s.io",
        "web.1",
        "-n",
        "shop",
        "-o",
        "jsonpath={.note}",
    ]);
    assert_eq!(other, "strategic");

    let mut changed = event("web.1");
    changed["count"] = json!(9);
    let file = server.file("changed.json", &changed);
    assert_eq!(
        server.kubectl(&["apply", "-f", &file]),
        "event/web.1 configured\n"
    );
    assert_eq!(
        server.kubectl(&["replace", "-f", &file]),
        "event/web.1 replaced\n"
    );

    assert_eq!(
        server
            .kubectl(&["delete", "event", "web.1", "-n", "shop"])
            .trim(),
        "event \"web.1\" deleted"
    );
    let gone = server.kubectl_fails(&["get", "event", "web.1", "-n", "shop"]);
    assert!(
        gone.contains("Error from server (NotFound): events \"web.1\" not found"),
        "{gone}"
    );
}

/// Server-side apply, as `kubectl apply --server-side` works with a kube-apiserver.
#[test]
fn server_side_apply() {
    let Some(server) = Server::start() else {
        return;
    };
    let mut ours = event("web.1");
    let file = server.file("event.json", &ours);
    let apply = ["apply", "--server-side", "-f", &file];
    let applied = "event/web.1 serverside-applied\n";
    assert_eq!(server.kubectl(&apply), applied);
    assert_eq!(server.kubectl(&apply), applied);
    let shown = server.kubectl(&[
        "get",
        "event",
        "web.1",
        "-n",
        "shop",
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager} {.metadata.managedFields[*].operation}",
    ]);
    assert_eq!(shown, "kubectl Apply");

    // Another manager takes over a field.
    let patch = ["patch", "event", "web.1", "-n", "shop", "--type=merge"];
    let change = ["--field-manager=other", "-p", r#"{"count":99}"#];
    server.kubectl(&[&patch[..], &change].concat());
    ours["count"] = json!(3);
    server.file("event.json", &ours);
    let complaint = server.kubectl_fails(&apply);
    assert!(
        complaint
            .contains(r#"Apply failed with 1 conflict: conflict with "other" using v1: .count"#),
        "{complaint}"
    );
    let dry = [&apply[..], &["--force-conflicts", "--dry-run=server"]].concat();
    assert_eq!(
        server.kubectl(&dry),
        "event/web.1 serverside-applied (server dry run)\n"
    );
    assert_eq!(
        server.kubectl(&[&apply[..], &["--force-conflicts"]].concat()),
        applied
    );
    let count = [
        "get",
        "event",
        "web.1",
        "-n",
        "shop",
        "-o",
        "jsonpath={.count}",
    ];
    assert_eq!(server.kubectl(&count), "3");

    // From client-side to server-side apply: fields applied before do not conflict, and are taken
    // over.
    let mut second = event("web.2");
    let file = server.file("second.json", &second);
    server.kubectl(&["apply", "-f", &file]);
    second["message"] = json!("moved");
    second.as_object_mut().unwrap().remove("type");
    server.file("second.json", &second);
    assert_eq!(
        server.kubectl(&["apply", "--server-side", "-f", &file]),
        "event/web.2 serverside-applied\n"
    );
    let last = server.kubectl(&[
        "apply",
        "view-last-applied",
        "event/web.2",
        "-n",
        "shop",
        "-o",
        "json",
    ]);
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["message"], "moved");
    let managers = [
        "get",
        "event",
        "web.2",
        "-n",
        "shop",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ];
    let managers = server.kubectl(&[&managers[..], &["--show-managed-fields"]].concat());
    assert!(managers.starts_with("kubectl"), "{managers}");
    let annotate = ["annotate", "event", "web.2", "-n", "shop", "seen=yes"];
    assert_eq!(server.kubectl(&annotate), "event/web.2 annotated\n");
}

/// `kubectl get -o yaml` prints a `kind: List`, whose objects kubectl validates itself.
#[test]
fn files_of_lists() {
    let Some(server) = Server::start() else {
        return;
    };
    let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let said = |of: &str| format!("event/web.1 {of}\nevent/web.2 {of}\n");
    let delete = || server.kubectl(&["delete", "events", "--all", "-n", "shop"]);
    let file = server.file("list.json", &list(&[event("web.1"), event("web.2")]));
    let dry_run = ["apply", "--dry-run=client", "-f", &file];
    assert_eq!(server.kubectl(&dry_run), said("created (dry run)"));
    assert_eq!(server.kubectl(&["create", "-f", &file]), said("created"));
    assert_eq!(server.kubectl(&["replace", "-f", &file]), said("replaced"));
    assert_eq!(server.kubectl(&dry_run), said("configured (dry run)"));
    assert_eq!(server.kubectl(&["diff", "-f", &file]), "");

    let printed = server.kubectl(&["get", "events", "-n", "shop", "-o", "yaml"]);
    assert!(printed.contains("\nkind: List\n"), "{printed}");
    let raw = server.kubectl(&["get", "--raw", "/api/v1/namespaces/shop/events"]);
    assert!(raw.contains("\"EventList\""), "{raw}");
    for (name, text, verb) in [
        ("printed.yaml", &printed, "create"),
        ("printed.yaml", &printed, "apply"),
        ("raw.json", &raw, "create"),
    ] {
        delete();
        let path = server.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let created = server.kubectl(&[verb, "-f", path.to_str().unwrap()]);
        assert_eq!(created, said("created"), "{verb} {name}");
    }

    let mut misspelt = event("web.3");
    misspelt["mesage"] = json!("x");
    let file = server.file("misspelt.json", &list(&[misspelt]));
    let complaint = server.kubectl_fails(&["create", "-f", &file]);
    let expected = r#"unknown field "mesage" in io.k8s.api.core.v1.Event"#;
    assert!(complaint.contains(expected), "{complaint}");
}

#[test]
fn what_is_wrong_is_said() {
    let Some(server) = Server::start() else {
        return;
    };
    let mut misspelt = event("web.1");
    misspelt["mesage"] = json!("x");
    let file = server.file("misspelt.json", &misspelt);
    let complaint = server.kubectl_fails(&["create", "-f", &file]);
    assert!(
        complaint.contains("strict decoding error: unknown field \"mesage\""),
        "{complaint}"
    );
    let mut elsewhere = event("web.1");
    elsewhere["involvedObject"]["namespace"] = json!("bank");
    let file = server.file("elsewhere.json", &elsewhere);
    let complaint = server.kubectl_fails(&["create", "-f", &file]);
    assert!(
        complaint.contains("does not match event.namespace"),
        "{complaint}"
    );
    let complaint = server.kubectl_fails(&["--token", "wrong", "get", "events"]);
    assert!(
        complaint.contains("Unauthorized") || complaint.contains("must be logged in"),
        "{complaint}"
    );
}

#[test]
fn discovery() {
    let Some(server) = Server::start() else {
        return;
    };
    let resources = server.kubectl(&["api-resources", "--no-headers"]);
    assert_eq!(
        words(&resources, 0),
        [
            "events ev v1 true Event",
            "namespaces ns v1 false Namespace",
            "events ev events.k8s.io/v1 true Event"
        ]
    );
    assert!(
        server
            .kubectl(&["explain", "event.involvedObject"])
            .contains("fieldPath\t<string>")
    );
    assert!(
        server
            .kubectl(&["explain", "event", "--api-version", "events.k8s.io/v1"])
            .contains("regarding")
    );
    assert_eq!(
        server.kubectl(&["auth", "can-i", "create", "events"]),
        "yes\n"
    );
    assert!(
        server
            .kubectl(&["auth", "whoami"])
            .contains("system:masters")
    );
    assert!(
        server
            .kubectl(&["get", "namespaces", "-o", "name"])
            .contains("namespace/default")
    );
    assert_eq!(server.kubectl(&["get", "--raw", "/readyz"]), "ok");
}

#[test]
fn watch_and_wait() {
    let Some(server) = Server::start() else {
        return;
    };
    let file = server.file("event.json", &event("web.1"));
    server.kubectl(&["create", "-f", &file]);
    let mut watching = server
        .command(&[
            "get",
            "events",
            "-n",
            "shop",
            "-w",
            "--no-headers",
            "--output-watch-events",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, seen) = mpsc::channel();
    let stdout = watching.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    // The kind of the change and the end of the message.
    let next = || {
        let line = seen.recv_timeout(PATIENCE).unwrap();
        let (first, last) = (
            line.split_whitespace().next(),
            line.split_whitespace().last(),
        );
        format!("{} {}", first.unwrap_or_default(), last.unwrap_or_default())
    };
    assert_eq!(next(), "ADDED container");
    server.kubectl(&[
        "patch",
        "event",
        "web.1",
        "-n",
        "shop",
        "-p",
        r#"{"count":8,"message":"changed"}"#,
    ]);
    assert_eq!(next(), "MODIFIED changed");

    let mut waiting = server
        .command(&[
            "wait",
            "--for=delete",
            "event/web.1",
            "-n",
            "shop",
            "--timeout=60s",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.kubectl(&[
        "wait",
        "--for=jsonpath={.count}=8",
        "event/web.1",
        "-n",
        "shop",
        "--timeout=60s",
    ]);
    server.kubectl(&["delete", "events", "--all", "-n", "shop"]);
    assert_eq!(next(), "DELETED changed");
    let mut said = String::new();
    waiting
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(waiting.wait().unwrap().success());
    assert_eq!(said, "event/web.1 condition met\n");
    watching.kill().unwrap();
    watching.wait().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_restart_keeps_events_tokens_and_trust() {
    let Some(server) = Server::start() else {
        return;
    };
    let file = server.file("event.json", &event("web.1"));
    server.kubectl(&["create", "-f", &file]);
    let kubeconfig = server.folder.path().join("data/kubeconfig");
    let trusted = |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains("token:") || line.contains("authority-data"))
            .map(str::to_owned)
            .collect()
    };
    let before = trusted(std::fs::read_to_string(&kubeconfig).unwrap());
    let (folder, kubectl) = server.end();
    let server = Server::start_in(folder, kubectl);
    assert_eq!(
        trusted(std::fs::read_to_string(&kubeconfig).unwrap()),
        before
    );
    let stored = server.kubectl(&[
        "get",
        "events",
        "-A",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    assert_eq!(stored, "web.1");
}

#[test]
fn secrets_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let Some(server) = Server::start() else {
        return;
    };
    for name in ["kubeconfig", "tokens.csv", "pki/ca.key"] {
        let mode = std::fs::metadata(server.folder.path().join("data").join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidings"))
            .args(["serve", "--data-dir", folder.path().to_str().unwrap()])
            .args(args)
            .output()
            .unwrap();
        assert!(output.stdout.is_empty());
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "secret-token,ann\n").unwrap();
    let (code, errors) = run(&[
        "--secure-port",
        "0",
        "--token-auth-file",
        tokens.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("line 1: expected at least 3 columns") && !errors.contains("secret-token"),
        "{errors}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, errors) = run(&[
        "--secure-port",
        &taken.local_addr().unwrap().port().to_string(),
    ]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("cannot listen on") && errors.contains("hint: "),
        "{errors}"
    );
    assert_eq!(run(&["--event-ttl", "soon"]).0, Some(2));
}
