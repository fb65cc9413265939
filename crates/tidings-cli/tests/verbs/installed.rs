//! The chart, installed with Helm into a real kube-apiserver that enforces the restricted Pod
//! Security Standard (`KUBE_APISERVER`, `ETCD`, `KUBECTL`, `HELM`). No kubelet starts its pods: the
//! archive is started beside, with the pod's arguments and files, and is the endpoint of its
//! Service.

use std::fs::File;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_server::{PAST_API_SERVICE, PAST_VERSION};
use tidings_testing::process::Process;
use tidings_testing::{free_port, programs};

use super::aggregated::{World, front_proxy, signed};
use super::support::{Ran, tidings};

/// The release, its namespace and the objects' name.
const RELEASE: &str = "tidings";
const NAME: &str = "tidings-archive";
/// Where a pod has its service account's token.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A cluster with the chart, and the programs.
pub(crate) struct Installed {
    pub(crate) world: World,
    helm: PathBuf,
    /// The archive's port.
    pub(crate) port: u16,
}

impl Installed {
    /// Starts a kube-apiserver with two namespaces of users and a restricted one for the chart, and
    /// installs the chart.
    pub(crate) fn start() -> Option<Self> {
        let helm = programs::helm()?;
        let address = own_address()?;
        let world = World::start_with(|folder| {
            let [authority, ..] = signed(folder, "users", "cert");
            let mut flags = front_proxy(folder);
            flags.push(format!("--client-ca-file={authority}"));
            // The API server asks a Service's endpoints, as there is nobody who routes its address.
            flags.push("--enable-aggregator-routing=true".to_owned());
            flags
        })?;
        for name in ["shop", "other", RELEASE] {
            let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
            let metadata = json!({"name": name, "labels": labels});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            world.apply(&namespace.to_string());
        }
        let kubeconfig = world.cluster.folder().join("helm-kubeconfig");
        std::fs::write(&kubeconfig, world.cluster.kubeconfig().to_string()).unwrap();
        let installed = Self {
            world,
            helm,
            port: free_port(),
        };
        let ran = installed.helm(&["install", RELEASE, "helm/tidings"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("kubectl get pastevents -A"), "{ran:?}");
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": NAME, "namespace": RELEASE, "labels": {"kubernetes.io/service-name": NAME},
            },
            "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": installed.port, "protocol": "TCP"}],
        });
        installed.world.apply(&slice.to_string());
        Some(installed)
    }

    /// Runs Helm in the release's namespace.
    fn helm(&self, arguments: &[&str]) -> Ran {
        let folder = self.world.cluster.folder();
        Command::new(&self.helm)
            .args(arguments)
            .arg(format!("--namespace={RELEASE}"))
            .arg("--kubeconfig")
            .arg(folder.join("helm-kubeconfig"))
            .env("HOME", folder)
            .env_remove("KUBECONFIG")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .into()
    }

    fn get(&self, arguments: &[&str]) -> Value {
        let all = [&["get", "-n", RELEASE, "-o=json"], arguments].concat();
        let ran = self.world.run_as("t-admin", &all);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// A new token of a service account.
    fn account(&self, namespace: &str, name: &str) -> String {
        let ran = self
            .world
            .run_as("t-admin", &["create", "token", "-n", namespace, name]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout.trim().to_owned()
    }

    /// The archive's program: that of `TIDINGS_PROGRAM`, or the tested one.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = tidings(arguments);
        if let Some(given) = std::env::var_os("TIDINGS_PROGRAM") {
            command = Command::new(given);
            command.args(arguments).stdin(Stdio::null());
        }
        // Nothing of this process's environment leads to another cluster.
        command
            .env("HOME", self.world.cluster.folder())
            .env_remove("KUBECONFIG");
        command
    }

    /// Starts the archive as the StatefulSet's pod would be: with its arguments, the files of its
    /// ConfigMap, and its service account.
    pub(crate) fn archive(&self) -> Process {
        let place = self.world.cluster.folder().join("pod");
        std::fs::create_dir_all(&place).unwrap();
        let moved = |text: &str| {
            text.replace(ACCOUNT, place.to_str().unwrap())
                .replace("/etc/tidings/", &format!("{}/", place.display()))
                .replace("=/data", &format!("={}/data", place.display()))
                .replace(
                    "--secure-port=6443",
                    &format!("--secure-port={}", self.port),
                )
                .replace(
                    "https://kubernetes.default.svc",
                    self.world.cluster.server(),
                )
        };
        let files = self.get(&["configmap", NAME]);
        for (name, text) in files["data"].as_object().unwrap() {
            std::fs::write(place.join(name), moved(text.as_str().unwrap())).unwrap();
        }
        std::fs::copy(self.world.cluster.certificate(), place.join("ca.crt")).unwrap();
        std::fs::write(place.join("token"), self.account(RELEASE, NAME)).unwrap();
        let workload = self.get(&["statefulset", NAME]);
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap().iter();
        let arguments = arguments.map(|word| moved(word.as_str().unwrap()));
        let mut command = self.program(&[]);
        command
            .args(arguments)
            // In a pod, the cluster is found by the pod's environment.
            .arg("--kubeconfig")
            .arg(place.join("kubeconfig"))
            .stderr(File::create(place.join("log")).unwrap());
        Process::start_and_hear(&mut command).unwrap().0
    }

    fn record(&self, namespace: &str, reason: &str) -> Ran {
        self.world.cluster.run(&[
            "record", "pod/web", "-n", namespace, "--reason", reason, "-m", "said so",
        ])
    }

    /// Runs the command lines of the how-to, as far as no pod has to run.
    fn follow_the_page(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = root.join("docs/how-to/keep-a-clusters-events-for-a-quarter.md");
        let page = std::fs::read_to_string(page).unwrap();
        let lines = page
            .split("```")
            .filter_map(|block| block.strip_prefix("sh\n"));
        let lines: Vec<&str> = lines.flat_map(str::lines).collect();
        assert!(
            (8..=10).contains(&lines.len()),
            "ten commands at most: {lines:?}"
        );
        let needs_a_pod = [
            "podman ",
            "cargo ",
            "helm test",
            "kubectl -n tidings rollout",
        ];
        let runs = |line: &&&str| !needs_a_pod.iter().any(|start| line.starts_with(start));
        let programs = [
            Path::new(env!("CARGO_BIN_EXE_tidings")),
            &self.helm,
            &self.world.kubectl,
        ];
        let place = self.world.cluster.folder().join("programs");
        std::fs::create_dir_all(&place).unwrap();
        for (program, name) in programs.iter().zip(["tidings", "helm", "kubectl"]) {
            std::os::unix::fs::symlink(program, place.join(name)).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let mut ran = 0;
        for line in lines.iter().filter(runs) {
            // It is installed already.
            let line = line.replace("helm install", "helm upgrade --install");
            let folder = self.world.cluster.folder();
            let output = Command::new("bash")
                .args(["-c", &line])
                .current_dir(&root)
                .env("PATH", format!("{}:{path}", place.display()))
                .env("HOME", folder)
                .env("KUBECONFIG", folder.join("helm-kubeconfig"))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            ran += 1;
        }
        assert!(ran > 5, "{lines:?}");
    }

    /// Lets users read events of `shop`, and what is past of them. (The controller that joins
    /// labelled roles into `view` does not run here.)
    fn bind(&self, subjects: &Value) {
        let role = |name: &str, rule: Value| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": [rule],
            })
        };
        let binding = |name: &str, namespace: Option<&str>| {
            let kind = if namespace.is_some() {
                "RoleBinding"
            } else {
                "ClusterRoleBinding"
            };
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": name, "namespace": namespace}, "subjects": subjects,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
                },
            })
        };
        let reads = ["get", "list", "watch"];
        let (group, _) = PAST_VERSION.split_once('/').unwrap();
        for object in [
            role(
                "events",
                json!({"apiGroups": [""], "resources": ["events"], "verbs": reads}),
            ),
            role(
                "home",
                json!({
                    "apiGroups": [group], "resources": ["clusters/proxy"],
                    "resourceNames": ["home"], "verbs": ["get"],
                }),
            ),
            binding("events", Some("shop")),
            binding("tidings-archive-past-events", Some("shop")),
            binding("home", None),
        ] {
            self.world.apply(&object.to_string());
        }
    }
}

/// An address of this machine that endpoints may have: none of its loopback.
#[expect(clippy::print_stderr, reason = "what a test skips is told")]
fn own_address() -> Option<IpAddr> {
    // Nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let routed = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr());
    let address = routed.ok().map(|address| address.ip());
    let address = address.filter(|address| !address.is_loopback());
    if address.is_none() {
        eprintln!("skipped: this machine has no address but its loopback");
    }
    address
}

/// Asserts that a created object has everything of the rendered one.
#[track_caller]
fn assert_has(live: &Value, rendered: &Value, path: &str) {
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => {
            for (name, value) in rendered.iter().filter(|(_, value)| !value.is_null()) {
                let found = live.get(name).unwrap_or(&Value::Null);
                assert_has(found, value, &format!("{path}.{name}"));
            }
        }
        (Value::Array(live), Value::Array(rendered)) => {
            assert_eq!(live.len(), rendered.len(), "{path}");
            for (found, value) in live.iter().zip(rendered) {
                assert_has(found, value, path);
            }
        }
        _ => assert_eq!(live, rendered, "{path}"),
    }
}

/// The objects of a stream of YAML.
fn objects(text: &str) -> Vec<Value> {
    let documents = text
        .split("\n---\n")
        .map(|it| it.trim_start_matches("---\n"));
    let documents = documents.map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    documents.filter(Value::is_object).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "a time that is told")]
async fn the_chart_is_installed_and_shows_what_is_past() {
    let began = Instant::now();
    let Some(installed) = Installed::start() else {
        return;
    };
    let world = &installed.world;
    println!("kube-apiserver and helm install: {:?}", began.elapsed());
    let lint = installed.helm(&["lint", "helm/tidings", "--strict"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");

    // What was created is what was rendered.
    let manifest = objects(&installed.helm(&["get", "manifest", RELEASE]).stdout);
    assert!(manifest.len() > 10, "{manifest:?}");
    for object in &manifest {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(RELEASE);
        let named = format!("{}/{}", kind.as_str().unwrap(), name.as_str().unwrap());
        let live = installed.get(&["-n", namespace, &named]);
        assert_has(&live, object, &named);
    }

    // Pod Security admits the pods, and refuses them without what makes them restricted.
    let workload = installed.get(&["statefulset", NAME]);
    let mut pod = workload["spec"]["template"].clone();
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    pod["spec"]["volumes"].as_array_mut().unwrap().push(claim);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "pod".into();
    let create = |object: &Value| {
        let arguments = ["create", "-n", RELEASE, "--dry-run=server", "-f", "-"];
        world
            .cluster
            .kubectl(&world.kubectl, &arguments, &object.to_string())
    };
    let ran = create(&pod);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    pod["spec"]["containers"][0]["securityContext"] = json!({});
    let ran = create(&pod);
    assert!(ran.stderr.contains("violates PodSecurity"), "{ran:?}");

    for (namespace, reason) in [("shop", "Pulled"), (RELEASE, "Started")] {
        let ran = installed.record(namespace, reason);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let began = Instant::now();
    let mut archive = installed.archive();
    let all = ["get", "pastevents", "-A", "--no-headers"];
    let is_whole = |ran: &Ran| ran.stdout.lines().count() == 2;
    world.until("t-admin", &all, is_whole);
    println!(
        "from the archive's start to the first line: {:?}",
        began.elapsed()
    );
    let available = ["get", "apiservice", PAST_API_SERVICE, "--no-headers"];
    world.until("t-admin", &available, |ran| ran.stdout.contains("True"));

    // What helm test would run: its account and its binding, and its pod's arguments.
    let hooks = objects(&installed.helm(&["get", "hooks", RELEASE]).stdout);
    let (pods, others): (Vec<_>, Vec<_>) = hooks.iter().partition(|hook| hook["kind"] == "Pod");
    for hook in others {
        world.apply(&hook.to_string());
    }
    let ran = create(pods[0]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let arguments = pods[0]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let account = pods[0]["spec"]["serviceAccountName"].as_str().unwrap();
    let token = installed.account(RELEASE, account);
    let flags = world.cluster.flags_of(&token);
    let tested = || -> Ran { tidings(&arguments).args(&flags).output().unwrap().into() };
    let ran = tested();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("Started"), "{ran:?}");

    installed.follow_the_page();

    // An upgrade changes what was changed, and the archive goes on with its volume.
    let claims = workload["spec"]["volumeClaimTemplates"].clone();
    let set = ["--reset-then-reuse-values", "--set=retention.ttl=30d"];
    let ran = installed.helm(&[&["upgrade", RELEASE, "helm/tidings"], &set[..]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let upgraded = installed.get(&["statefulset", NAME]);
    assert_eq!(upgraded["spec"]["volumeClaimTemplates"], claims);
    let arguments = upgraded.pointer("/spec/template/spec/containers/0/args");
    assert!(arguments.unwrap().to_string().contains("--event-ttl=30d"));
    // The authority that the archive wrote stays.
    let service = installed.get(&["apiservice", PAST_API_SERVICE]);
    assert!(service["spec"]["caBundle"].is_string(), "{service}");
    archive.signal("TERM");
    assert!(archive.wait().success());
    let ran = tested();
    assert!(ran.code != Some(0), "{ran:?}");
    let _archive = installed.archive();
    world.until("t-admin", &all, is_whole);

    // Nothing of it is left but what the cluster's administrator made.
    let ran = installed.helm(&["uninstall", RELEASE]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for object in &manifest {
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(RELEASE);
        let arguments = ["get", "-n", namespace, kind.unwrap(), name.unwrap()];
        let ran = world.run_as("t-admin", &arguments);
        assert!(ran.stderr.contains("NotFound"), "{arguments:?}: {ran:?}");
    }
}

/// Users by certificate, token and service account see one namespace, in whichever way they ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_view_one_namespace_sees_its_past_and_no_other() {
    let Some(installed) = Installed::start() else {
        return;
    };
    let (world, cluster) = (&installed.world, &installed.world.cluster);
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "viewer", "namespace": "shop"},
    });
    world.apply(&account.to_string());
    installed.bind(&json!([
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "cert"},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "group-4999"},
        {"kind": "ServiceAccount", "name": "viewer", "namespace": "shop"},
    ]));
    for (namespace, reason) in [("shop", "Pulled"), ("other", "Secret")] {
        assert_eq!(installed.record(namespace, reason).code, Some(0));
    }
    let _archive = installed.archive();
    let names = [
        "get",
        "pastevents",
        "-A",
        "--no-headers",
        "-o=custom-columns=N:.metadata.name",
    ];
    let ran = world.until("t-admin", &names, |ran| ran.stdout.lines().count() == 2);
    let names: Vec<&str> = ran.stdout.lines().collect();
    // In order of namespaces.
    let [secret, shown] = names[..] else {
        panic!("{names:?}")
    };
    let file = |name: &str| cluster.folder().join(name).display().to_string();
    let mut certificate = cluster.flags_of_nobody();
    certificate.push(format!("--client-certificate={}", file("users-client.pem")));
    certificate.push(format!("--client-key={}", file("users-client.key")));
    let account = cluster.flags_of(&installed.account("shop", "viewer"));
    let past = |rest: &str| format!("--raw=/apis/{PAST_VERSION}{rest}");
    let proxied = |rest: &str| past(&format!("/clusters/home/proxy{rest}"));
    let versions = |namespace: &str, name: &str| {
        past(&format!(
            "/namespaces/{namespace}/pastevents/{name}/versions"
        ))
    };
    let table: &[(&[&str], bool)] = &[
        (&["pastevents", "-n=shop"], true),
        (&["pastevents", "-n=other"], false),
        (&["pastevents", "-A"], false),
        (
            &["pastevents", "-n=other", "--field-selector=reason=Secret"],
            false,
        ),
        (&[&versions("shop", shown)], true),
        (&[&versions("other", secret)], false),
        (&[&past("/namespaces/shop/coverage")], true),
        (&[&past("/namespaces/other/coverage")], false),
        (&[&past("/coverage")], false),
        (&[&past("/counts")], false),
        (&[&past("/clusters")], false),
        (&[&proxied("/api/v1/namespaces/shop/events")], true),
        (&[&proxied("/api/v1/namespaces/other/events")], false),
        (&[&proxied("/api/v1/events")], false),
        (&[&proxied("/coverage?namespace=shop")], true),
        (&[&proxied("/coverage?namespace=other")], false),
        (&[&proxied("/coverage")], false),
        (&[&proxied("/counts")], false),
        (
            &[&past("/clusters/other/proxy/api/v1/namespaces/shop/events")],
            false,
        ),
    ];
    for (who, flags) in [
        ("a certificate", &certificate),
        ("a token", &cluster.flags_of("t-ann")),
        ("a service account", &account),
    ] {
        for (arguments, allowed) in table {
            let arguments = [&["get"], *arguments].concat();
            let ran = cluster.kubectl_with(flags, &world.kubectl, &arguments, "");
            assert_eq!(
                ran.code == Some(0),
                *allowed,
                "{who} {arguments:?}: {ran:?}"
            );
            assert!(
                *allowed || ran.stderr.contains("orbidden"),
                "{who}: {ran:?}"
            );
            assert!(
                !ran.stdout.contains("Secret"),
                "{who} {arguments:?}: {ran:?}"
            );
        }
    }
    // A user of many groups: each is a header of the API server's request.
    let groups: Vec<String> = (0..5000)
        .map(|group| format!("--as-group=group-{group}"))
        .collect();
    let mut arguments = vec!["get", "pastevents", "-n=shop", "-o=name", "--as=many"];
    arguments.extend(groups.iter().map(String::as_str));
    let ran = world.run_as("t-admin", &arguments);
    assert!(
        ran.code == Some(0) && ran.stdout.contains(shown),
        "{:?}",
        ran.stderr
    );
}

/// A watch through the API server sees each event once, although the archive and kube-apiserver are
/// started anew meanwhile. `TIDINGS_WATCH_SECONDS` says how long all of it takes at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::disallowed_methods,
    reason = "a given time, and waiting for other programs"
)]
async fn a_watch_outlives_the_archive_and_the_api_server() {
    const EVENTS: u32 = 30;
    const PATIENCE: Duration = Duration::from_secs(180);
    let given = std::env::var("TIDINGS_WATCH_SECONDS").ok();
    let seconds = given.map_or(0, |seconds| seconds.parse().unwrap());
    let Some(mut installed) = Installed::start() else {
        return;
    };
    installed.bind(&json!([
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"},
    ]));
    let mut archive = installed.archive();
    let listed = ["get", "pastevents", "-n=shop"];
    installed
        .world
        .until("t-ann", &listed, |ran| ran.code == Some(0));
    let file = |installed: &Installed, name: &str| installed.world.cluster.folder().join(name);
    let (shown, said) = (file(&installed, "watch.out"), file(&installed, "watch.err"));
    let arguments = ["events", "-n=shop", "--archive", "--watch", "--no-headers"];
    let mut command = tidings(&arguments);
    command
        .arg("-o=custom-columns=R:.reason")
        .args(installed.world.cluster.flags_of("t-ann"))
        .stdout(File::create(&shown).unwrap())
        .stderr(File::create(&said).unwrap());
    let _watch = Process::start(&mut command).unwrap();
    let reasons: Vec<String> = (0..EVENTS).map(|number| format!("R{number:02}")).collect();
    for (reason, number) in reasons.iter().zip(0..) {
        let ran = installed.record("shop", reason);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        if number == EVENTS / 3 {
            archive.signal("KILL");
            archive.wait();
            archive = installed.archive();
        } else if number == 2 * EVENTS / 3 {
            installed.world.cluster.restart();
        }
        std::thread::sleep(Duration::from_secs(seconds) / EVENTS);
    }
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(&shown).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        if lines == reasons {
            break;
        }
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(began.elapsed() < PATIENCE, "{lines:?}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
