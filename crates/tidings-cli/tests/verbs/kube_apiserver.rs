//! The same verbs against a real kube-apiserver, if available (`KUBE_APISERVER`, `ETCD`), and
//! through a real kubectl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_testing::process::Process;
use tidings_testing::{etcd, free_port, programs};

use super::support::{Cluster, Ran, event, lines_of, rollout, tidings};

/// Maximum time to start a kube-apiserver on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A kube-apiserver with an etcd, ended with the test.
pub(crate) struct KubeApiserver {
    folder: TempDir,
    server: String,
    command: Command,
    // Declared first, so that the server ends before its store.
    process: Process,
    _etcd: etcd::Cluster,
}

impl KubeApiserver {
    /// Starts both programs, if they exist.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Starts both programs, with these limits of EventRateLimit.
    pub(crate) fn start_with(event_rate_limit: Option<&Value>) -> Option<Self> {
        Self::launch(event_rate_limit, |_| Vec::new())
    }

    /// Starts both programs; `further` returns more flags, for files that it writes into the
    /// folder.
    pub(crate) fn launch(
        event_rate_limit: Option<&Value>,
        further: impl FnOnce(&Path) -> Vec<String>,
    ) -> Option<Self> {
        let kube_apiserver = programs::kube_apiserver()?;
        let etcd = etcd::Cluster::start(1, &[])?;
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(place.join("accounts.key"), key.serialize_pem()).unwrap();
        std::fs::write(place.join("accounts.pub"), key.public_key_pem()).unwrap();
        std::fs::write(
            place.join("tokens.csv"),
            "t-admin,admin,1,\"system:masters\"\nt-ann,ann,2\nt-archive,archive,3\nt-live,live,4\n",
        )
        .unwrap();
        let port = free_port();
        let mut command = Command::new(kube_apiserver);
        command
            .args([
                "--etcd-servers",
                &etcd.endpoints()[0],
                "--secure-port",
                &port.to_string(),
                "--bind-address",
                "127.0.0.1",
            ])
            .args([
                "--cert-dir",
                "certificates",
                "--token-auth-file",
                "tokens.csv",
                "--authorization-mode",
                "RBAC",
            ])
            .args([
                "--service-account-issuer",
                "https://kubernetes.default.svc",
                "--service-cluster-ip-range",
                "10.0.0.0/24",
            ])
            .args([
                "--service-account-key-file",
                "accounts.pub",
                "--service-account-signing-key-file",
                "accounts.key",
            ])
            .current_dir(place)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.args(further(place));
        if let Some(limits) = event_rate_limit {
            let admission = json!({
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
                "plugins": [{"name": "EventRateLimit", "configuration": {
                    "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
                    "limits": limits,
                }}],
            });
            std::fs::write(place.join("admission.json"), admission.to_string()).unwrap();
            command
                .args(["--enable-admission-plugins", "EventRateLimit"])
                .args(["--admission-control-config-file", "admission.json"]);
        }
        let server = Self {
            server: format!("https://127.0.0.1:{port}"),
            process: Process::start(&mut command).unwrap(),
            command,
            _etcd: etcd,
            folder,
        };
        server.wait_until_ready();
        Some(server)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "waiting for a program of others to be ready"
    )]
    fn wait_until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready() {
            assert!(
                Instant::now() < deadline,
                "kube-apiserver is not ready after {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Ends kube-apiserver, and starts it again with its etcd.
    pub(crate) fn restart(&mut self) {
        self.process.signal("TERM");
        self.process.wait();
        self.process = Process::start(&mut self.command).unwrap();
        self.wait_until_ready();
    }

    fn is_ready(&self) -> bool {
        self.certificate().exists() && self.run(&["events", "-A"]).code == Some(0)
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificates/apiserver.crt")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn flags(&self) -> Vec<String> {
        self.flags_of("t-admin")
    }

    /// The flags of a client with this token.
    pub(crate) fn flags_of(&self, token: &str) -> Vec<String> {
        let mut flags = self.flags_of_nobody();
        flags.push(format!("--token={token}"));
        flags
    }

    /// The flags of a client without credentials.
    pub(crate) fn flags_of_nobody(&self) -> Vec<String> {
        vec![
            format!("--server={}", self.server),
            format!("--certificate-authority={}", self.certificate().display()),
        ]
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// A client's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> Value {
        self.kubeconfig_of("t-admin")
    }

    /// The kubeconfig of a client with this token.
    pub(crate) fn kubeconfig_of(&self, token: &str) -> Value {
        json!({
            "current-context": "kube",
            "clusters": [{"name": "kube", "cluster": {
                "server": self.server, "certificate-authority": self.certificate(),
            }}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "admin"}}],
        })
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        tidings(arguments)
            .args(self.flags())
            .output()
            .unwrap()
            .into()
    }

    #[track_caller]
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout.lines().map(str::to_owned).collect()
    }

    pub(crate) fn kubectl(&self, kubectl: &Path, arguments: &[&str], input: &str) -> Ran {
        self.kubectl_as("t-admin", kubectl, arguments, input)
    }

    /// Runs kubectl as the user of a token.
    pub(crate) fn kubectl_as(
        &self,
        token: &str,
        kubectl: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Ran {
        self.kubectl_with(&self.flags_of(token), kubectl, arguments, input)
    }

    /// Runs kubectl with the flags of a client.
    pub(crate) fn kubectl_with(
        &self,
        flags: &[String],
        kubectl: &Path,
        arguments: &[&str],
        input: &str,
    ) -> Ran {
        let mut child = Command::new(kubectl)
            .args(flags)
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .args(arguments)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap().into()
    }
}

fn object(
    kind: &str,
    api_version: &str,
    name: &str,
    owner: Option<(&str, &str, &str)>,
    spec: &Value,
) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
    });
    if let Some((kind, name, uid)) = owner {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}]);
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_on_a_cluster_that_is_not_ours() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let Some(cluster) = KubeApiserver::start() else {
        return;
    };
    let create = |object: &Value| {
        let ran = cluster.kubectl(
            &kubectl,
            &["create", "-o=jsonpath={.metadata.uid}", "-f", "-"],
            &object.to_string(),
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    // Admission requires a service account for pods, and no controller creates one here.
    create(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}),
    );
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment = create(&object("Deployment", "apps/v1", "web", None, &workload));
    let owner = Some(("Deployment", "web", deployment.as_str()));
    let replica_set = create(&object(
        "ReplicaSet",
        "apps/v1",
        "oddly-named",
        owner,
        &workload,
    ));
    let owner = Some(("ReplicaSet", "oddly-named", replica_set.as_str()));
    create(&object("Pod", "v1", "some-pod", owner, &template["spec"]));

    // Events are written, read and filtered, a family is followed, and objects are described as by
    // kubectl.
    for (object, reason) in [
        ("pod/some-pod", "Killing"),
        ("deploy/web", "Scaled"),
        ("rs/oddly-named", "Created"),
        ("pod/other", "Else"),
    ] {
        let ran = cluster.run(&[
            "record", object, "-n", "shop", "--reason", reason, "-m", "said so",
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let reasons = |arguments: &[&str]| {
        let mut lines = cluster.lines(
            &[
                &[
                    "events",
                    "-n",
                    "shop",
                    "-o=custom-columns=R:.reason",
                    "--no-headers",
                ],
                arguments,
            ]
            .concat(),
        );
        lines.sort();
        lines.join(" ")
    };
    assert_eq!(reasons(&[]), "Created Else Killing Scaled");
    assert_eq!(
        reasons(&["--for", "deploy/web", "--tree"]),
        "Created Killing Scaled"
    );
    assert_eq!(reasons(&["--for", "pods/some-pod"]), "Killing");
    assert_eq!(reasons(&["--limit", "2"]).split(' ').count(), 2);
    let uid = cluster
        .kubectl(
            &kubectl,
            &[
                "get",
                "pod",
                "-n=shop",
                "some-pod",
                "-o=jsonpath={.metadata.uid}",
            ],
            "",
        )
        .stdout;
    assert_eq!(
        cluster.lines(&[
            "events",
            "-n=shop",
            "--filter=reason:Killing",
            "-o=jsonpath={.items[0].involvedObject.uid}"
        ]),
        [uid]
    );
    // A kind that is known only from discovery.
    let ran = cluster.run(&["record", "flowschema/exempt", "--reason=Seen", "-m=x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        cluster.lines(&[
            "events",
            "--for=flowschemas/exempt",
            "-o=jsonpath={.items[*].involvedObject.apiVersion}"
        ]),
        ["flowcontrol.apiserver.k8s.io/v1"]
    );
    // The object is cluster-scoped, so its events are not in the usual namespaces.
    let kubeconfig = cluster.folder.path().join("kubeconfig");
    let context = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "c", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "shop"}}],
    });
    std::fs::write(&kubeconfig, context.to_string()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    assert_eq!(
        cluster
            .lines(&["events", &kubeconfig, "--for=flowschemas/exempt", "-o=name"])
            .len(),
        1
    );
    let described = cluster
        .kubectl(&kubectl, &["describe", "pod", "-n=shop", "some-pod"], "")
        .stdout;
    let at = described.find("Events:").unwrap();
    let without_ages = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| {
                line.split_whitespace()
                    .filter(|word| !word.ends_with('s') || *word == "Events:")
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect()
    };
    assert_eq!(
        without_ages(
            &cluster
                .lines(&["describe", "-n=shop", "pod/some-pod"])
                .join("\n")
        ),
        without_ages(&described[at..])
    );

    // An export from the cluster, and an import into it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.jsonl.gz");
    let file = file.to_str().unwrap();
    assert_eq!(cluster.run(&["export", "-n=shop", file]).code, Some(0));
    let archive = Cluster::start().await;
    assert_eq!(
        archive.run(&["import", file]).stdout,
        "4 read: 4 created, 0 already there, 0 refused, 0 unreadable\n"
    );
    let events = folder.path().join("rollout.jsonl");
    std::fs::write(&events, lines_of(&rollout())).unwrap();
    let ran = cluster.run(&["import", events.to_str().unwrap()]);
    assert_eq!(
        ran.stdout, "5 read: 5 created, 0 already there, 0 refused, 0 unreadable\n",
        "{ran:?}"
    );
    assert!(cluster.lines(&["top", "-n=shop"])[0].ends_with("a minute"));

    // The printed roles are valid.
    for uses in [
        "record",
        "record-events-v1",
        "events",
        "tree",
        "export",
        "import",
        "serve",
        "api-service",
        "past-events",
    ] {
        for scope in [
            &["--service-account=shop:web"] as &[&str],
            &["-n=shop", "--group=g"],
        ] {
            if matches!(uses, "serve" | "api-service") && scope.len() > 1 {
                continue;
            }
            let roles = tidings(&[&["rbac", uses], scope].concat())
                .output()
                .unwrap();
            let roles = String::from_utf8(roles.stdout).unwrap();
            let ran = cluster.kubectl(&kubectl, &["create", "--dry-run=server", "-f", "-"], &roles);
            assert_eq!(ran.code, Some(0), "{uses}: {ran:?}");
        }
    }
}

/// kubectl finds the plugin and runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_runs_it_as_a_plugin() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let cluster = Cluster::with(&[event("a", ("Pod", "web"), "Pulled", 5)]).await;
    let plugin = cluster.folder.path().join("kubectl-tidings");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tidings"), &plugin).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [cluster.folder.path().to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).unwrap();
    let run = |arguments: &[&str]| -> Ran {
        Command::new(&kubectl)
            .arg("tidings")
            .args(arguments)
            .env("PATH", &path)
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .unwrap()
            .into()
    };
    let ran = run(&["events", "-A", "-o", "name"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "event/a\n"),
        "{ran:?}"
    );
    let help = run(&["events", "--help"]);
    assert!(
        help.stdout.contains("Usage: kubectl tidings events"),
        "{help:?}"
    );
}

/// The documents of a manifest. Their structure is checked even without an API server.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split("\n---\n")
        .filter(|document| {
            document
                .lines()
                .any(|line| !line.is_empty() && !line.starts_with('#') && line != "---")
        })
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}
