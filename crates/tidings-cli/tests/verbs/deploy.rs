//! The files of `deploy/`: the API accepts the manifests, the program accepts their flags, and the
//! server has every metric that they name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tidings_testing::process::Process;
use tidings_testing::programs;

use super::archive::Archive;
use super::kube_apiserver::{KubeApiserver, documents};
use super::support::{Cluster, event, run, tidings};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

/// All YAML files below a folder.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(manifests(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(path);
        }
    }
    found
}

/// The flags in the arguments of a manifest.
fn flags(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let words = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"));
    words
        .map(|word| {
            let (flag, _) = word.split_once('=').unwrap_or((word, ""));
            format!("--{flag}")
        })
        .collect()
}

#[test]
fn every_flag_is_one_of_the_program() {
    let mut flags_of_serve = BTreeSet::new();
    let mut flags_of_archive = flags(&folder().join("install.yaml"));
    for file in manifests(&folder().join("kubernetes")) {
        flags_of_serve.extend(flags(&file));
    }
    for word in [read("tidings.service"), read("Containerfile")]
        .join(" ")
        .split([' ', '"', ',', '\n'])
    {
        if let Some(flag) = word.strip_prefix("--").filter(|_| {
            word.contains("=/data")
                || word.contains("=127")
                || word.contains("=0.0")
                || word.contains("=6443")
                || word.contains("=/var")
        }) {
            flags_of_serve.insert(format!("--{}", flag.split('=').next().unwrap()));
        }
    }
    let unit = read("tidings-archive.service");
    let started = unit.lines().find(|line| line.starts_with("ExecStart="));
    let words = started.unwrap().split(' ');
    let words = words.filter(|word| word.starts_with("--"));
    flags_of_archive.extend(words.map(|word| word.split('=').next().unwrap().to_owned()));
    // Settings of the file are flags, too.
    let config = &documents(&folder().join("kubernetes/base/config.yaml"))[0];
    let settings: Value =
        serde_saphyr::from_str(config["data"]["tidings.yaml"].as_str().unwrap()).unwrap();
    flags_of_serve.extend(
        settings
            .as_object()
            .unwrap()
            .keys()
            .map(|setting| format!("--{setting}")),
    );
    for (verb, flags) in [("serve", flags_of_serve), ("archive", flags_of_archive)] {
        assert!(flags.len() > 12, "{flags:?}");
        let help = run(&[verb, "--help"]).stdout;
        for flag in flags {
            assert!(
                help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                "tidings {verb} has no {flag}"
            );
        }
    }
}

#[test]
fn the_roles_are_those_the_program_asks_for() {
    for (file, name, uses) in [
        ("kubernetes/base/access.yaml", "tidings-serve", "serve"),
        ("install.yaml", "tidings-archive", "archive"),
        ("install.yaml", "tidings-archive", "serve"),
        ("install.yaml", "tidings-archive", "api-service"),
        ("install.yaml", "tidings-archive-past-events", "past-events"),
    ] {
        let printed = run(&["rbac", uses]).stdout;
        let printed: Value = serde_saphyr::from_str(printed.trim_start_matches("---\n")).unwrap();
        let access = documents(&folder().join(file));
        let role = access
            .iter()
            .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name);
        let rules = role.unwrap()["rules"].as_array().unwrap();
        for rule in printed["rules"].as_array().unwrap() {
            assert!(rules.contains(rule), "{rule} is not in {rules:?}");
        }
        for (label, value) in printed["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
        {
            assert_eq!(role.unwrap()["metadata"]["labels"][label], *value);
        }
        // The archive reads the uid of one namespace, by which it recognises the cluster.
        let printed = printed["rules"].as_array().unwrap();
        let is_of_namespaces = |rule: &&Value| {
            let resources = rule["resources"].as_array().into_iter().flatten();
            let mut resources = resources.filter_map(Value::as_str);
            resources.any(|resource| matches!(resource, "namespaces" | "*"))
        };
        for rule in printed.iter().chain(rules).filter(is_of_namespaces) {
            assert_eq!(rule["resourceNames"], serde_json::json!(["kube-system"]));
            assert_eq!(rule["verbs"], serde_json::json!(["get"]));
        }
    }
}

/// Pods meet the restricted Pod Security Standard, write only to their volumes, and have probes.
#[test]
fn pods_are_restricted() {
    for file in [
        "install.yaml",
        "kubernetes/embedded/stateful-set.yaml",
        "kubernetes/etcd/deployment.yaml",
    ] {
        let objects = documents(&folder().join(file));
        let is_workload = |object: &&Value| {
            let kind = object["kind"].as_str();
            matches!(kind, Some("StatefulSet" | "Deployment"))
        };
        let workload = objects.iter().find(is_workload).unwrap();
        let pod = &workload["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"][0], "ALL");
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            assert_eq!(
                container[probe]["httpGet"]["scheme"], "HTTPS",
                "{file} {probe}"
            );
        }
        assert!(container["resources"]["limits"]["memory"].is_string());
        let volumes: BTreeSet<&str> = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .chain(
                workload["spec"]["volumeClaimTemplates"]
                    .as_array()
                    .into_iter()
                    .flatten(),
            )
            .map(|volume| {
                volume["name"]
                    .as_str()
                    .or(volume["metadata"]["name"].as_str())
                    .unwrap()
            })
            .collect();
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(volumes.contains(mount["name"].as_str().unwrap()), "{mount}");
        }
    }
    let image = read("Containerfile");
    assert!(image.contains("FROM scratch") && image.contains("USER 65532:65532"));
    // The image's build has the features that the manifests use.
    let toolchain = format!("/rust:{}-alpine ", env!("CARGO_PKG_RUST_VERSION"));
    assert!(image.contains(&toolchain), "no {toolchain}");
}

/// Every rule of every network policy states its peers and ports.
#[test]
fn network_policies_name_their_peers() {
    let kubernetes = folder().join("kubernetes");
    let mut policies = 0;
    for file in manifests(&kubernetes) {
        for policy in documents(&file) {
            if policy["kind"] != "NetworkPolicy" {
                continue;
            }
            policies += 1;
            let spec = &policy["spec"];
            // An empty selector would isolate other pods of the namespace.
            assert_eq!(
                spec["podSelector"]["matchLabels"]["app.kubernetes.io/name"],
                "tidings"
            );
            for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
                for rule in spec[rules].as_array().into_iter().flatten() {
                    assert!(!rule["ports"].as_array().unwrap().is_empty(), "{rule}");
                    let peers = rule[peers].as_array().expect("no peers");
                    assert!(!peers.is_empty(), "{rule}");
                    for peer in peers {
                        let everybody = serde_json::json!({});
                        assert!(
                            peer["namespaceSelector"] != everybody
                                && peer["podSelector"] != everybody
                                && peer["ipBlock"]["cidr"] != "0.0.0.0/0"
                                && peer["ipBlock"]["cidr"] != "::/0",
                            "{peer}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(policies, 2);
}

/// Every client is authenticated by the cluster, and the server has no token of its own.
#[test]
fn in_a_cluster_there_is_no_token_of_the_servers_own() {
    let config = &documents(&folder().join("kubernetes/base/config.yaml"))[0];
    let settings: Value =
        serde_saphyr::from_str(config["data"]["tidings.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(settings["no-admin-token"], true);
    assert!(settings["authentication-kubeconfig"].is_string());

    let archive = flags(&folder().join("install.yaml"));
    for flag in [
        "--no-admin-token",
        "--cluster-access",
        "--authentication-kubeconfig",
    ] {
        assert!(archive.contains(flag), "{archive:?}");
    }
}

/// The archive accepts the files of its manifest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_archive_takes_its_files() {
    let objects = documents(&folder().join("install.yaml"));
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap");
    let config = config.unwrap();
    let cluster = Cluster::start().await;
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let text = config["data"][name].as_str().unwrap();
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let clusters = file("clusters.yaml");
    let rules = file("retention.yaml");
    let data = place.path().join("data");
    let mut command = tidings(&["archive", "--secure-port=0", "--event-ttl=90d"]);
    command
        .args(["--clusters", &clusters, "--retention-file", &rules])
        .args(["--data-dir", data.to_str().unwrap()])
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig());
    let (_archive, kubeconfig) = Process::start_and_hear(&mut command).unwrap();
    let kubeconfig = std::fs::read_to_string(kubeconfig).unwrap();
    assert!(kubeconfig.contains("/clusters/home"), "{kubeconfig}");
}

/// The metrics in an expression.
fn metrics(expression: &str) -> Vec<String> {
    expression
        .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .filter(|word| {
            let prefixes = [
                "apiserver_",
                "tidings_",
                "process_",
                "authentication_",
                "authorization_",
                "kubernetes_",
            ];
            prefixes.iter().any(|prefix| word.starts_with(prefix))
        })
        .map(|word| {
            let word = word.strip_suffix("_bucket").unwrap_or(word);
            word.to_owned()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_metric_of_the_dashboard_and_the_alerts_is_one_of_the_server() {
    let mut named = BTreeSet::new();
    for file in ["grafana/tidings.json", "grafana/tidings-archive.json"] {
        let dashboard: Value = serde_json::from_str(&read(file)).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let found = metrics(target["expr"].as_str().unwrap());
                assert!(!found.is_empty(), "{target}");
                named.extend(found);
            }
        }
    }
    let alerts: Value = serde_saphyr::from_str(&read("prometheus/alerts.yaml")).unwrap();
    let operator = documents(&folder().join("kubernetes/monitoring/prometheus-rule.yaml"));
    assert_eq!(
        operator[0]["spec"], alerts,
        "the rules for the operator are others"
    );
    for rule in alerts["groups"][0]["rules"].as_array().unwrap() {
        named.extend(metrics(rule["expr"].as_str().unwrap()));
        assert!(
            rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string(),
            "{rule}"
        );
    }
    assert!(named.len() > 12, "{named:?}");
    let losses = alerts["groups"][0]["rules"].as_array().unwrap().iter();
    let mut losses = losses.filter(|rule| rule["alert"] == "FeedLosesVersions");
    let losses = metrics(losses.next().unwrap()["expr"].as_str().unwrap());
    let expected = ["skipped", "gone", "dead"].map(|name| format!("tidings_feed_{name}_total"));
    assert_eq!(losses, expected);
    // Server-side apply is a write, too.
    for file in ["grafana/tidings.json", "prometheus/alerts.yaml"] {
        let text = read(file);
        let writes = text.matches("POST|PUT|PATCH").count();
        assert!(writes > 0, "{file}");
        assert_eq!(
            text.matches("POST|PUT|PATCH|APPLY").count(),
            writes,
            "{file}"
        );
    }

    let cluster = Cluster::with(&[event("a", ("Pod", "web"), "Pulled", 5)]).await;
    cluster.lines(&["events", "-A"]);
    let sealed = tempfile::tempdir().unwrap();
    let url = format!("file://{}", sealed.path().display());
    let has_objects = cfg!(feature = "objects");
    let feeds = sealed.path().join("feeds.yaml");
    let lines = "feeds: [{name: lines, file: {path: lines.jsonl}}]";
    std::fs::write(&feeds, lines).unwrap();
    let mut further = vec!["--feeds", feeds.to_str().unwrap()];
    if has_objects {
        further.extend(["--objects", url.as_str()]);
    }
    let archive = Archive::start_with(&[("prod", &cluster)], &further);
    let text = cluster.metrics().await + &archive.metrics("prod").await;
    let known: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let is_there = |name: &&String| has_objects || !name.starts_with("tidings_objects_");
    for name in named.iter().filter(is_there) {
        assert!(
            known.contains(name.as_str()),
            "/metrics has no {name}; it has {known:?}"
        );
    }
    assert!(
        text.contains("tidings_archive_seconds_since_progress{cluster=\"prod\"}"),
        "{text}"
    );
    // The rules use the server's labels.
    assert!(
        text.lines()
            .any(|line| line.starts_with("apiserver_request_total{")
                && line.contains("verb=\"POST\"")
                && line.contains("code=\"201\"")),
        "{text}"
    );
    assert!(text.contains("verb=\"LIST\""), "{text}");
}

#[test]
fn systemd_takes_the_units() {
    for (name, own) in [
        ("tidings.service", &["StateDirectory=tidings"][..]),
        (
            "tidings-archive.service",
            &[
                "StateDirectory=tidings-archive",
                "LoadCredential=kubeconfig:/etc/tidings-archive/kubeconfig",
            ],
        ),
    ] {
        let unit = read(name);
        let all = [
            "DynamicUser=yes",
            "ProtectSystem=strict",
            "NoNewPrivileges=yes",
        ];
        for setting in all.iter().chain(own) {
            assert!(
                unit.lines().any(|line| line == *setting),
                "{name}: {setting}"
            );
        }
        verify_unit(name, &unit);
    }
    // The units differ only in the command and its folders.
    let same = |name: &str| {
        let unit = read(name);
        let (_, rest) = unit.split_once("Restart=").unwrap();
        rest.replace("tidings-archive", "tidings")
    };
    assert_eq!(same("tidings.service"), same("tidings-archive.service"));
}

#[expect(clippy::print_stderr, reason = "what a test skips is told")]
#[track_caller]
fn verify_unit(name: &str, unit: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    // The program is not installed on the test's machine.
    std::fs::write(
        &file,
        unit.replace("/usr/local/bin/tidings", env!("CARGO_BIN_EXE_tidings")),
    )
    .unwrap();
    match Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
    {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains(&format!("{name}:")), "{said}");
        }
        Err(error) => eprintln!("skipped: systemd-analyze cannot be run ({error})"),
    }
}

/// Clients refuse an authority's certificate as a serving certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_accept_the_certificate_the_document_makes() {
    let document = read("README.md");
    let line = document
        .lines()
        .find(|line| line.starts_with("openssl req"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder.path())
        .output()
        .unwrap();
    if made.status.code() == Some(127) {
        println!("skipped: there is no openssl");
        return;
    }
    assert!(made.status.success(), "{made:?}");
    let file = |name: &str| folder.path().join(name);
    let mut options = tidings_server::StartOptions::new(file("data"));
    options.secure_port = 0;
    options.security.tls_files = Some((file("tls.crt"), file("tls.key")));
    let server = tidings_server::start(options).await.unwrap();
    let ran = run(&[
        "events",
        "-A",
        "--kubeconfig",
        file("data/kubeconfig").to_str().unwrap(),
        "--server",
        &format!("https://127.0.0.1:{}", server.address().port()),
        "--tls-server-name=tidings.tidings.svc",
        "--certificate-authority",
        file("tls.crt").to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    server.shutdown().await;
}

/// kubectl renders the folders, and the API accepts the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_takes_the_manifests() {
    let Some(kubectl) = programs::kubectl() else {
        return;
    };
    let built = |name: &str| {
        let output = Command::new(&kubectl)
            .arg("kustomize")
            .arg(folder().join("kubernetes").join(name))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let [embedded, etcd, monitoring] = ["embedded", "etcd", "monitoring"].map(built);
    assert!(monitoring.contains("kind: ServiceMonitor"));
    // Kustomize adds the common label to pod selectors. The peers of a policy are still those of
    // its file.
    for (objects, policies) in [(&embedded, 1), (&etcd, 2)] {
        let objects: Vec<Value> = objects
            .split("\n---\n")
            .map(|object| serde_saphyr::from_str(object).unwrap())
            .collect();
        let mut found = 0;
        for (name, file) in [
            ("tidings", "base/network-policy.yaml"),
            ("tidings-etcd", "etcd/network-policy.yaml"),
        ] {
            let written = &documents(&folder().join("kubernetes").join(file))[0];
            let policy = objects.iter().find(|object| {
                object["kind"] == "NetworkPolicy" && object["metadata"]["name"] == name
            });
            if let Some(policy) = policy {
                assert_eq!(policy["spec"], written["spec"], "{name}");
                found += 1;
            }
        }
        assert_eq!(found, policies);
    }
    let Some(cluster) = KubeApiserver::start() else {
        return;
    };
    // A dry run does not create the namespace that later objects need.
    let made = cluster.kubectl(&kubectl, &["create", "namespace", "tidings"], "");
    assert_eq!(made.code, Some(0), "{made:?}");
    let archive = read("install.yaml");
    for (name, objects) in [("archive", archive), ("embedded", embedded), ("etcd", etcd)] {
        let ran = cluster.kubectl(
            &kubectl,
            &["apply", "--dry-run=server", "--validate=strict", "-f", "-"],
            &objects,
        );
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        assert!(ran.stdout.lines().count() > 8, "{ran:?}");
    }
}

/// Renders the chart; `None` without Helm.
fn rendered(arguments: &[&str]) -> Option<Result<String, String>> {
    let helm = programs::helm()?;
    let output = Command::new(helm)
        .args(["template", "tidings", "helm/tidings", "--namespace=tidings"])
        // A Helm that was built from its module knows no version of Kubernetes.
        .args(["--kube-version=1.36.0", "--skip-tests"])
        .args(arguments)
        .current_dir(folder())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    })
}

/// `UPDATE_SNAPSHOTS=1` writes the file.
#[test]
fn the_objects_for_kubectl_are_those_of_the_chart() {
    let Some(rendered) = rendered(&["--set=createNamespace=true"]) else {
        return;
    };
    let head = "# The chart helm/tidings with its default values, for kubectl apply. A test writes this file.\n";
    let expected = format!("{head}{}", rendered.unwrap());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(folder().join("install.yaml"), &expected).unwrap();
    }
    assert!(
        read("install.yaml") == expected,
        "deploy/install.yaml is out of date"
    );
}

/// A chart can read only files in its own folder. `UPDATE_SNAPSHOTS=1` writes them.
#[test]
fn the_chart_has_the_alerts_and_the_dashboard_of_the_folders() {
    for (file, copy) in [
        ("prometheus/alerts.yaml", "alerts.yaml"),
        ("prometheus/events.yaml", "events.yaml"),
        ("grafana/tidings-archive.json", "tidings-archive.json"),
    ] {
        let copy = format!("helm/tidings/files/{copy}");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::copy(folder().join(file), folder().join(&copy)).unwrap();
        }
        assert!(read(file) == read(&copy), "deploy/{copy} is out of date");
    }
    let values = "prometheusRule.enabled=true,prometheusRule.labels.release=p,\
                  dashboards.enabled=true,serviceMonitor.enabled=true,tls.existingSecret=s,\
                  tls.caBundle=x";
    let feeds = r#"feeds=[{"name":"lines","stdout":{}},{"name":"metrics","metrics":{}}]"#;
    let Some(rendered) = rendered(&["--set", values, "--set-json", feeds]) else {
        return;
    };
    let objects = parsed(&rendered.unwrap());
    let of_kind = |kind: &str, name: &str| {
        let is_it = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        objects.iter().find(is_it).unwrap()
    };
    let rule = of_kind("PrometheusRule", "tidings-archive");
    assert_eq!(rule["metadata"]["labels"]["release"], "p");
    let alerts: Value = serde_saphyr::from_str(&read("prometheus/alerts.yaml")).unwrap();
    let all = alerts["groups"][0]["rules"].as_array().unwrap().iter();
    let of_archives = all.filter(|rule| {
        let name = rule["alert"].as_str().unwrap();
        name.starts_with("Archive") || name.starts_with("Feed")
    });
    let of_archives: Vec<&Value> = of_archives.collect();
    let found: Vec<&Value> = rule["spec"]["groups"][0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(found, of_archives);
    assert!(found.iter().any(|rule| rule["alert"] == "FeedRefused"));
    // A feed counts events.
    let events: Value = serde_saphyr::from_str(&read("prometheus/events.yaml")).unwrap();
    assert_eq!(rule["spec"]["groups"][1], events["groups"][0]);
    let monitor = of_kind("ServiceMonitor", "tidings-archive");
    let endpoints = monitor["spec"]["endpoints"].as_array().unwrap().iter();
    let endpoints: Vec<_> = endpoints
        .map(|it| (it["path"].as_str().unwrap(), it["honorLabels"] == true))
        .collect();
    assert_eq!(endpoints, [("/metrics", false), ("/metrics/events", true)]);
    let dashboards = of_kind("ConfigMap", "tidings-archive-dashboards");
    assert_eq!(dashboards["metadata"]["labels"]["grafana_dashboard"], "1");
    let shown = dashboards["data"]["tidings-archive.json"].as_str().unwrap();
    assert_eq!(
        shown.trim_end(),
        read("grafana/tidings-archive.json").trim_end()
    );
}

/// The objects of rendered text.
fn parsed(text: &str) -> Vec<Value> {
    let objects = text.split("\n---\n");
    objects
        .map(|object| serde_saphyr::from_str(object).unwrap())
        .collect()
}

#[test]
fn the_chart_takes_its_values_and_no_others() {
    for (values, said) in [
        ("image.repositori=a", "repositori"),
        ("retention.ttl=forever", "ttl"),
        ("home=Home", "home"),
        ("clusters.Edge.quota=1Gi", "Edge"),
        ("clusters.edge.readers=team", "readers"),
        ("replicas=many", "replicas"),
        ("tls.existingSecret=a", "tls.caBundle"),
        ("serviceMonitor.enabled=true", "tls.existingSecret"),
        ("timeline.ingress.enabled=true", "host"),
    ] {
        let Some(rendered) = rendered(&["--set", values]) else {
            return;
        };
        let error = rendered.unwrap_err();
        assert!(error.contains(said), "{values}: {error}");
    }
    let all = "replicas=2,networkPolicy.enabled=true,timeline.ingress.enabled=true,\
               timeline.ingress.host=a.example,tls.existingSecret=x,tls.caBundle=y,\
               serviceMonitor.enabled=true,serviceMonitor.labels.release=p,\
               serviceMonitor.tokenSecret=scraper,objects.url=s3://a/b,objects.secret=s,\
               clusters.edge.quota=10Gi,clusters.edge.readers[0]=team,rbac=x,\
               clusters.gone.follow=false,timeline.enabled=false,\
               feeds[0].name=hook,feeds[0].webhook.url=https://a.example,\
               objects.continue=2026-03-04T08:00:00Z,\
               apiService.aggregateToView=false,extraArgs[0]=--memory=24Mi";
    let text = rendered(&["--set", all]).unwrap().unwrap();
    let objects = parsed(&text);
    let kinds: BTreeSet<&str> = objects
        .iter()
        .filter_map(|it| it["kind"].as_str())
        .collect();
    for kind in [
        "APIService",
        "Ingress",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ServiceMonitor",
    ] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    for part in [
        "--no-timeline",
        "--objects=s3://a/b",
        "--objects-continue=2026-03-04T08:00:00Z",
        "nginx.ingress.kubernetes.io/backend-protocol: HTTPS",
        "--tls-cert-file=",
        "    quota: 40Gi\n    clusters:\n    - name: home\n",
        "quota: 10Gi",
        "name: scraper",
        "--feeds=/etc/tidings/feeds.yaml",
        "url: https://a.example",
    ] {
        assert!(text.contains(part), "no {part}");
    }
    assert!(!text.contains("aggregate-to-view"), "{text}");
    // The archive's files are as it reads them.
    let config = objects.iter().find(|it| it["kind"] == "ConfigMap").unwrap();
    let file = |name: &str| config["data"][name].as_str().unwrap().to_owned();
    let clusters: Value = serde_saphyr::from_str(&file("clusters.yaml")).unwrap();
    let expected = serde_json::json!([
        {"name": "home"},
        {"name": "edge", "kubeconfig": "/etc/tidings-clusters/edge.yaml", "quota": "10Gi"},
        {"name": "gone", "follow": false},
    ]);
    assert_eq!(clusters["clusters"], expected);
    let permissions = file("rbac.yaml");
    let (bindings, given) = permissions.split_once("\n---\n").unwrap();
    assert_eq!(given.trim(), "x");
    let bindings = tidings_server::RbacPolicy::parse(bindings);
    assert!(bindings.is_ok(), "{permissions}");
    assert!(
        permissions.contains("archive.tidings.internal/cluster: edge"),
        "{permissions}"
    );
    // Readers reach the cluster by the API server.
    let named = |kind: &str| {
        let name = "tidings-archive-readers-of-edge";
        let is_it = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        objects.iter().find(is_it).unwrap()
    };
    let rules = &named("ClusterRole")["rules"];
    assert_eq!(rules[1]["resourceNames"], serde_json::json!(["edge"]));
    assert_eq!(named("ClusterRoleBinding")["subjects"][0]["name"], "team");
    // The API server asks the first of several archives, if its certificate has that name.
    assert!(!text.contains("tidings-archive-first"), "{text}");
    let several = rendered(&["--set=replicas=2"]).unwrap().unwrap();
    for part in [
        "    name: tidings-archive-first\n    port: 443",
        "    statefulset.kubernetes.io/pod-name: tidings-archive-0",
        "--api-service=tidings/tidings-archive-first",
        "--tls-san=tidings-archive.tidings.svc\n",
    ] {
        assert!(several.contains(part), "no {part}");
    }
    // A file that tidings coverage --check-retention has looked at is taken as it is.
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, "rules:\n- type: Normal\n  ttl: 2d\n").unwrap();
    let given = format!("--set-file=retention.rules={}", rules.display());
    let given = rendered(&[&given]).unwrap().unwrap();
    let part = "  retention.yaml: |\n    rules:\n    - type: Normal\n      ttl: 2d\n";
    assert!(given.contains(part), "{given}");
    // On OpenShift, the security context constraint restricted-v2 chooses uid and fsGroup.
    let openshift = ["--api-versions=security.openshift.io/v1"];
    let text = rendered(&openshift).unwrap().unwrap();
    for forbidden in ["runAsUser", "runAsGroup", "fsGroup"] {
        assert!(!text.contains(forbidden), "{text}");
    }
    assert!(text.contains("runAsNonRoot: true"), "{text}");
}
