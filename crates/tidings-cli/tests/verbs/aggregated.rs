//! An archive behind the aggregation layer of a real kube-apiserver, if available
//! (`KUBE_APISERVER`, `ETCD`, `KUBECTL`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::json;
use tidings_server::{PAST_API_SERVICE, PAST_GROUP, PAST_VERSION};
use tidings_testing::process::Process;
use tidings_testing::{free_port, programs};

use super::kube_apiserver::KubeApiserver;
use super::mcp::Agent;
use super::support::{Ran, tidings};

/// Maximum time until an answer is as expected, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Writes an authority and a client's certificate of it, and returns the names of the files: the
/// authority, the certificate and its key.
pub(crate) fn signed(folder: &Path, prefix: &str, name: &str) -> [String; 3] {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("{prefix}-ca"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    [
        ("ca.pem", authority),
        ("client.pem", certificate.pem()),
        ("client.key", key.serialize_pem()),
    ]
    .map(|(file, text)| {
        let file = format!("{prefix}-{file}");
        std::fs::write(folder.join(&file), text).unwrap();
        file
    })
}

/// Writes the authority of the front proxy, and the front proxy's own certificate, and returns the
/// flags that name them.
pub(crate) fn front_proxy(folder: &Path) -> Vec<String> {
    let [authority, certificate, key] = signed(folder, "front", "front-proxy-client");
    let mut flags = Vec::new();
    for (flag, value) in [
        ("requestheader-client-ca-file", authority),
        (
            "requestheader-allowed-names",
            "front-proxy-client".to_owned(),
        ),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        (
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra-".to_owned(),
        ),
        ("proxy-client-cert-file", certificate),
        ("proxy-client-key-file", key),
    ] {
        flags.push(format!("--{flag}={value}"));
    }
    flags
}

/// A kube-apiserver, and a kubectl.
pub(crate) struct World {
    pub(crate) cluster: KubeApiserver,
    pub(crate) kubectl: PathBuf,
}

impl World {
    fn start() -> Option<Self> {
        Self::start_with(front_proxy)
    }

    /// Starts kube-apiserver with the flags that `further` returns for its folder.
    pub(crate) fn start_with(further: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let kubectl = programs::kubectl()?;
        let cluster = KubeApiserver::launch(None, further)?;
        Some(Self { cluster, kubectl })
    }

    pub(crate) fn run_as(&self, token: &str, arguments: &[&str]) -> Ran {
        self.cluster.kubectl_as(token, &self.kubectl, arguments, "")
    }

    #[track_caller]
    pub(crate) fn apply(&self, text: &str) {
        let ran = self
            .cluster
            .kubectl(&self.kubectl, &["apply", "-f", "-"], text);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// Runs kubectl until its output meets a condition.
    #[track_caller]
    #[expect(
        clippy::disallowed_methods,
        reason = "it is waited for what other programs do"
    )]
    pub(crate) fn until(
        &self,
        token: &str,
        arguments: &[&str],
        is_right: impl Fn(&Ran) -> bool,
    ) -> Ran {
        let began = Instant::now();
        loop {
            let ran = self.run_as(token, arguments);
            if is_right(&ran) {
                return ran;
            }
            assert!(began.elapsed() < PATIENCE, "{arguments:?}: {ran:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The names that kubectl prints, in order.
    #[track_caller]
    fn reasons(&self, token: &str, arguments: &[&str]) -> Vec<String> {
        let columns = ["-o=custom-columns=R:.reason", "--no-headers"];
        let ran = self.run_as(token, &[arguments, &columns].concat());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        let mut lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn archive(&self, port: u16) -> Process {
        let folder = self.cluster.folder();
        let kubeconfig = folder.join("archive-kubeconfig");
        std::fs::write(
            &kubeconfig,
            self.cluster.kubeconfig_of("t-archive").to_string(),
        )
        .unwrap();
        let mut command = tidings(&["archive", "--name=home", "--api-service=tidings/archive"]);
        command
            .arg(format!("--secure-port={port}"))
            .arg("--data-dir")
            .arg(folder.join("archive"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stderr(Stdio::null());
        Process::start_and_hear(&mut command).unwrap().0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a time that is told")]
async fn what_is_past_is_read_through_the_clusters_own_api_server() {
    let Some(world) = World::start() else {
        return;
    };
    let namespace =
        |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for name in ["shop", "other", "tidings"] {
        world.apply(&namespace(name).to_string());
    }
    let port = free_port();
    // A Service of this type leads to this machine; in a cluster it selects the archive's pod.
    world.apply(
        &json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "archive", "namespace": "tidings"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        })
        .to_string(),
    );
    world.apply(
        &json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": PAST_API_SERVICE},
            "spec": {
                "group": PAST_GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"namespace": "tidings", "name": "archive", "port": port},
            },
        })
        .to_string(),
    );
    // The archive has exactly the printed permissions, and ann those of a viewer of one namespace.
    // (The controller that joins labelled roles into `view` does not run here.)
    for uses in [
        &["archive", "--user=archive"][..],
        &["serve", "--user=archive"],
        &["api-service", "--user=archive"],
        &["past-events", "--user=ann", "-n=shop"],
        &["events", "--user=ann", "-n=shop"],
        &["events", "--user=live", "-n=shop", "--name=live"],
        &["past-events"],
    ] {
        let roles = tidings(&[&["rbac"], uses].concat()).output().unwrap();
        world.apply(&String::from_utf8(roles.stdout).unwrap());
    }
    for (namespace, reason) in [("shop", "Pulled"), ("shop", "BackOff"), ("other", "Secret")] {
        let ran = world.cluster.run(&[
            "record", "pod/web", "-n", namespace, "--reason", reason, "-m", "said so",
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    let began = Instant::now();
    let mut archive = world.archive(port);
    let all = ["get", "pastevents", "-A", "-o=name"];
    let ran = world.until("t-admin", &all, |ran| ran.stdout.lines().count() == 3);
    println!("from the start to the first line: {:?}", began.elapsed());
    let name = format!("pastevent.{PAST_GROUP}/");
    assert!(
        ran.stdout.lines().all(|line| line.starts_with(&name)),
        "{ran:?}"
    );

    // The user of the API server is the user here, with the permissions there.
    let past = ["get", "pastevents", "-n=shop"];
    assert_eq!(world.reasons("t-ann", &past), ["BackOff", "Pulled"]);
    assert_eq!(
        world.reasons("t-ann", &["get", "pev", "-n=shop"]),
        ["BackOff", "Pulled"]
    );
    let selected = [&past[..], &["--field-selector=reason=BackOff"]].concat();
    assert_eq!(world.reasons("t-ann", &selected), ["BackOff"]);
    let table = world.run_as("t-ann", &past).stdout;
    for word in ["LAST SEEN", "REASON", "pod/web", "said so"] {
        assert!(table.contains(word), "{table}");
    }
    let yaml = world
        .run_as("t-ann", &[&past[..], &["-o=yaml"]].concat())
        .stdout;
    assert!(yaml.contains("kind: PastEvent\n"), "{yaml}");
    let coverage = format!("/apis/{PAST_VERSION}/namespaces/shop/coverage");
    let ran = world.run_as("t-ann", &["get", "--raw", &coverage]);
    assert!(
        ran.code == Some(0) && ran.stdout.contains("Coverage"),
        "{ran:?}"
    );
    let proxied = format!("/apis/{PAST_VERSION}/clusters/home/proxy/api/v1/namespaces/shop/events");
    let elsewhere = format!("/apis/{PAST_VERSION}/namespaces/other/coverage");
    for refused in [
        &["get", "pastevents", "-n=other"][..],
        &["get", "pastevents", "-A"],
        &["get", "--raw", &elsewhere],
        &["get", "--raw", &proxied],
    ] {
        let ran = world.run_as("t-ann", refused);
        assert!(
            ran.code != Some(0) && ran.stderr.contains("orbidden"),
            "{refused:?} {ran:?}"
        );
        assert!(!ran.stdout.contains("Secret"), "{ran:?}");
    }
    let ran = world.run_as("t-admin", &["get", "--raw", &proxied]);
    assert!(
        ran.stdout.contains("EventList") && ran.stdout.contains("BackOff"),
        "{ran:?}"
    );
    let can = |arguments: &[&str]| {
        world
            .run_as("t-ann", &[&["auth", "can-i"], arguments].concat())
            .stdout
    };
    let resource = format!("pastevents.{PAST_GROUP}");
    assert_eq!(can(&["list", &resource, "-n=shop"]), "yes\n");
    assert_eq!(can(&["list", &resource, "-n=other"]), "no\n");
    let resources = world
        .run_as(
            "t-ann",
            &["api-resources", "--api-group", PAST_GROUP, "--no-headers"],
        )
        .stdout;
    assert!(
        resources.contains("pev") && resources.contains("PastEvent"),
        "{resources}"
    );
    // The API server reads what the group says of itself every now and then.
    let explain = ["explain", "pastevents.involvedObject"];
    world.until("t-ann", &explain, |ran| {
        ran.code == Some(0) && ran.stdout.contains("fieldPath")
    });

    // The command finds the archive in the cluster, and joins what both have. One event is in the
    // archive alone by now.
    let deleted = [
        "delete",
        "events",
        "-n=shop",
        "--field-selector=reason=Pulled",
    ];
    assert_eq!(world.run_as("t-admin", &deleted).code, Some(0));
    let ours = |token: &str, arguments: &[&str]| -> Ran {
        let flags = world.cluster.flags_of(token);
        tidings(arguments).args(flags).output().unwrap().into()
    };
    let reasons = |token: &str, arguments: &[&str]| {
        let columns = ["-o=custom-columns=R:.reason", "--no-headers"];
        let ran = ours(
            token,
            &[&["events", "-n=shop"], arguments, &columns].concat(),
        );
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        let mut lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        (lines.join(" "), ran.stderr)
    };
    for (arguments, expected, said) in [
        (&[][..], "BackOff", ""),
        (&["--since=1h", "--live"], "BackOff", ""),
        (
            &["--since=1h"],
            "BackOff Pulled",
            "1 of the events are from the archive of this cluster\n",
        ),
        (
            &["--archive"],
            "BackOff Pulled",
            "these are from the archive of this cluster\n",
        ),
    ] {
        let (found, told) = reasons("t-ann", arguments);
        assert_eq!(found, expected, "{arguments:?}: {told}");
        assert!(
            told.contains(said) && told.is_empty() == said.is_empty(),
            "{arguments:?}: {told}"
        );
    }
    let ran = ours("t-ann", &["describe", "-n=shop", "pod/web"]);
    assert!(
        ran.stdout.contains("Pulled") && ran.stdout.contains("BackOff"),
        "{ran:?}"
    );
    let ran = ours("t-ann", &["top", "-n=shop", "--since=1h"]);
    assert!(ran.stdout.contains("Pulled"), "{ran:?}");
    let ran = ours("t-ann", &["export", "-n=shop", "--since=1h", "-q"]);
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    // All clusters of the archive are this one; ann may not know which there are.
    for (token, said) in [
        ("t-ann", "other clusters than this one are not shown"),
        ("t-admin", ""),
    ] {
        let ran = ours(
            token,
            &["events", "-n=shop", "--cluster=all", "--no-headers"],
        );
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
        assert!(
            ran.stdout.lines().all(|line| line.starts_with("home ")),
            "{ran:?}"
        );
        assert!(ran.stderr.contains(said), "{ran:?}");
        let ran = ours(token, &["coverage", "-n=shop", "--cluster=all"]);
        assert!(
            ran.code == Some(0) && ran.stdout.contains("home"),
            "{ran:?}"
        );
    }
    let ran = ours("t-admin", &["export", "--versions", "-n=shop", "-q", "-"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout.matches("\"kind\":\"Version\"").count(),
        2,
        "{ran:?}"
    );
    let names = ours(
        "t-ann",
        &[
            "events",
            "-n=shop",
            "--archive",
            "--filter=reason:Pulled",
            "-o=name",
        ],
    );
    let name = names.stdout.trim();
    let ran = ours("t-ann", &["events", "-n=shop", "--history", name]);
    assert!(
        ran.code == Some(0) && ran.stdout.contains("Pulled"),
        "{ran:?}"
    );
    for token in ["t-ann", "t-admin"] {
        let ran = ours(token, &["coverage", "-n=shop"]);
        assert!(
            ran.code == Some(0) && ran.stdout.contains("home"),
            "{ran:?}"
        );
    }
    // An agent reads the archive, with the permissions of the user who started it.
    for (token, further, expected, said) in [
        (
            "t-ann",
            &["-n=shop"][..],
            2,
            "events of namespace shop are read",
        ),
        ("t-admin", &[], 3, "events are read from the archive"),
        (
            "t-admin",
            &["-n=other"],
            1,
            "events of namespace other are read",
        ),
    ] {
        let kubeconfig = world.cluster.folder().join("agent-kubeconfig");
        let text = world.cluster.kubeconfig_of(token).to_string();
        std::fs::write(&kubeconfig, text).unwrap();
        let mut command = tidings(&[&["mcp"], further].concat());
        command.arg("--kubeconfig").arg(&kubeconfig);
        let mut agent = Agent::start(command.stderr(Stdio::piped()), true);
        let found = agent.tool("search", &json!({}));
        assert_eq!(found.matches(" id=home/").count(), expected, "{found}");
        assert!(
            found.starts_with("coverage: home: no gap in this time"),
            "{found}"
        );
        let found = agent.tool("top", &json!({"namespace": "shop"}));
        let is_allowed = !further.contains(&"-n=other");
        assert_eq!(found.contains("Pulled: 1"), is_allowed, "{found}");
        if !is_allowed {
            assert!(
                found.contains("instead: you may not list these events"),
                "{found}"
            );
        }
        // A namespace is never another path of the API server.
        let found = agent.tool(
            "search",
            &json!({"namespace": "../../../../api/v1/secrets"}),
        );
        assert!(found.starts_with("error: "), "{found}");
        let (code, told) = agent.end_and_hear();
        assert!(code == Some(0) && told.contains(said), "{told}");
    }
    // The causes of an event are found in all that the agent reads.
    for (namespace, name, object, reason, ago) in [
        ("kube-system", "dns.1", "coredns-0", "Unhealthy", 120),
        ("other", "web.1", "web", "BackOff", 60),
    ] {
        let seen = (jiff::Timestamp::now() - Duration::from_secs(ago)).to_string();
        world.apply(
            &json!({
                "apiVersion": "v1", "kind": "Event", "type": "Warning",
                "metadata": {"namespace": namespace, "name": name},
                "involvedObject": {"kind": "Pod", "namespace": namespace, "name": object},
                "reason": reason, "message": "said so", "source": {"component": "kubelet"},
                "firstTimestamp": seen, "lastTimestamp": seen, "count": 1,
            })
            .to_string(),
        );
        world.until(
            "t-admin",
            &["get", "pastevent", "-n", namespace, name],
            |ran| ran.code == Some(0),
        );
    }
    let kubeconfig = world.cluster.folder().join("agent-kubeconfig");
    std::fs::write(&kubeconfig, world.cluster.kubeconfig().to_string()).unwrap();
    for (further, expected) in [(&[][..], true), (&["-n=other"], false)] {
        let mut command = tidings(&[&["mcp"], further].concat());
        command.arg("--kubeconfig").arg(&kubeconfig);
        let mut agent = Agent::start(&mut command, true);
        let found = agent.tool("event", &json!({"id": "home/other/web.1"}));
        assert!(found.contains("BackOff"), "{found}");
        assert_eq!(
            found.contains("id=home/kube-system/dns.1"),
            expected,
            "{found}"
        );
        assert_eq!(agent.end_and_hear().0, Some(0));
    }
    // Whoever may read the cluster's events only is told that there is more.
    let ran = ours("t-live", &["events", "-n=shop", "--since=1h", "-o=name"]);
    assert!(
        ran.code == Some(0) && ran.stdout.lines().count() == 1,
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains("only what the cluster has is shown"),
        "{ran:?}"
    );

    // Without the archive, what the cluster has is shown.
    archive.signal("TERM");
    assert!(archive.wait().success());
    let ran = ours("t-ann", &["events", "-n=shop", "--since=1h", "-o=name"]);
    assert!(
        ran.code == Some(0) && ran.stdout.lines().count() == 1,
        "{ran:?}"
    );
    assert!(ran.stderr.contains("does not answer"), "{ran:?}");
    // After a restart it is read as before, without anything else to do.
    let _archive = world.archive(port);
    let ran = world.until("t-ann", &past, |ran| ran.stdout.lines().count() == 3);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let api_service = ["get", "apiservice", PAST_API_SERVICE];
    world.until("t-admin", &api_service, |ran| ran.stdout.contains("True"));
}
