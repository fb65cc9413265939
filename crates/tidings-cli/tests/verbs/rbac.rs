//! `tidings rbac`: its permissions are sufficient for their purpose, and all are necessary.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidings::advanced::SeriesOptions;
use tidings::{
    Acknowledgement, Broadcaster, BroadcasterOptions, EventSource, EventType, KubeSink, Reference,
    ReferenceFields, SinkOptions,
};
use tidings_server::{AuthorizationMode, SecurityOptions, StartOptions};

use super::kube_apiserver::documents;
use super::support::{event, lines_of, run, tidings};

struct Guarded {
    folder: tempfile::TempDir,
    _server: tidings_server::Running,
}

/// Starts a server on which `ann` has these roles.
async fn guarded(roles: &str) -> Guarded {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("roles.yaml"), roles).unwrap();
    std::fs::write(
        folder.path().join("tokens.csv"),
        "t-ann,ann,2\nt-admin,admin,1,\"system:masters\"\n",
    )
    .unwrap();
    let mut security = SecurityOptions::default();
    security.authorization_mode = AuthorizationMode::Rbac;
    security.authorization_rbac_file = Some(folder.path().join("roles.yaml"));
    let mut options = StartOptions::new(folder.path().join("data"));
    options.secure_port = 0;
    options.token_auth_file = Some(folder.path().join("tokens.csv"));
    options.security = security;
    let server = tidings_server::start(options).await.unwrap();
    Guarded {
        folder,
        _server: server,
    }
}

impl Guarded {
    /// A command of the program with this token.
    fn command(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = tidings(arguments);
        command
            .arg("--kubeconfig")
            .arg(self.folder.path().join("data/kubeconfig"))
            .args(["--token", token])
            .current_dir(self.folder.path());
        command
    }

    /// Whether ann succeeds, and the messages of the run.
    fn can(&self, arguments: &[&str]) -> (bool, String) {
        let ran = self.command("t-ann", arguments).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{said}");
        (ran.status.success(), said)
    }

    fn import(&self, name: &str) {
        std::fs::write(self.folder.path().join("b.jsonl"), lines_of(&[named(name)])).unwrap();
        let ran = self.command("t-admin", &["import", "b.jsonl"]).output();
        assert!(ran.unwrap().status.success());
    }

    /// Whether ann's watch shows existing and new events.
    fn can_watch(&self) -> bool {
        let mut process = self
            .command("t-ann", &["events", "-n=shop", "-w", "-o=name"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        self.import("first");
        let can = lines.next().is_some() && {
            self.import("second");
            lines.next().is_some()
        };
        // The process may have ended already.
        let _ = process.kill();
        let _ = process.wait();
        can
    }

    /// Whether the library, as ann, can write an event and its repetition.
    async fn can_record_twice(&self, options: SinkOptions) -> bool {
        let kubeconfig = self.folder.path().join("data/kubeconfig");
        let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
        let context = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &context);
        let mut config = config.await.unwrap();
        config.auth_info = kube::config::AuthInfo {
            token: Some("t-ann".to_owned().into()),
            ..Default::default()
        };
        let broadcaster =
            Broadcaster::with_options(BroadcasterOptions::default().sink(options)).unwrap();
        broadcaster.start_recording_to_sink(KubeSink::from_config(config).unwrap());
        let recorder = broadcaster.recorder(EventSource::component("test"));
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            api_version: "v1",
            namespace: "shop",
            name: "web",
            ..ReferenceFields::default()
        });
        for _ in 0..2 {
            let what = recorder.record_and_wait(&pod, EventType::Normal, "Pulled", "x");
            if let Acknowledgement::Dropped { .. } = what.await.unwrap() {
                return false;
            }
        }
        true
    }

    async fn can_do(&self, uses: &str) -> bool {
        match uses {
            "events" => self.can(&["events", "-n=shop"]).0 && self.can_watch(),
            "export" => self.can(&["export", "-n=shop", "-q"]).0,
            "import" => {
                let mut newer = named("a");
                newer["count"] = 1_000.into();
                [named("a"), newer].into_iter().all(|version| {
                    let line = lines_of(&[version]);
                    std::fs::write(self.folder.path().join("a.jsonl"), line).unwrap();
                    self.can(&["import", "a.jsonl"]).0
                })
            }
            "record" => self.can_record_twice(SinkOptions::default()).await,
            _ => {
                let options = SinkOptions::default().events_v1(SeriesOptions::default());
                self.can_record_twice(options).await
            }
        }
    }
}

fn named(name: &str) -> Value {
    event(name, ("Pod", "web"), "Pulled", 5)
}

/// The printed roles for ann, and for each verb the same roles without that verb.
fn roles(uses: &str, scope: &[&str]) -> (String, Vec<String>) {
    let ran = run(&[&["rbac", uses, "--user", "ann"], scope].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roles.yaml");
    std::fs::write(&file, &ran.stdout).unwrap();
    let whole = documents(&file);
    let mut without = Vec::new();
    let rules = whole[0]["rules"].as_array().unwrap();
    for (rule, verbs) in rules.iter().map(|rule| &rule["verbs"]).enumerate() {
        for verb in 0..verbs.as_array().unwrap().len() {
            let mut less = whole.clone();
            let rules = less[0]["rules"].as_array_mut().unwrap();
            rules[rule]["verbs"].as_array_mut().unwrap().remove(verb);
            // A rule without verbs is invalid.
            rules.retain(|rule| rule["verbs"] != json!([]));
            let less: Vec<String> = less.iter().map(Value::to_string).collect();
            without.push(less.join("\n---\n"));
        }
    }
    (ran.stdout, without)
}

/// `objects.rs` compares the additional permissions of `tree` with its requests; `access.rs` those
/// of `serve`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_use_needs_exactly_what_is_printed_for_it() {
    for uses in ["events", "export", "import", "record", "record-events-v1"] {
        let (whole, _) = roles(uses, &[]);
        assert!(guarded(&whole).await.can_do(uses).await, "{uses}");
        let (whole, without) = roles(uses, &["-n=shop"]);
        assert!(guarded(&whole).await.can_do(uses).await, "{uses} in shop");
        assert!(!without.is_empty());
        for less in without {
            let can = guarded(&less).await.can_do(uses).await;
            assert!(!can, "{uses} does not need all of it: {less} is enough");
        }
        // Without a binding no user may do it.
        let unbound = run(&["rbac", uses]).stdout;
        assert!(
            !guarded(&unbound).await.can_do(uses).await,
            "{uses} unbound"
        );
    }
}

/// Without permission to read the object, the event has no uid, which is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_record_records_without_the_uid() {
    let guarded = guarded(&roles("record", &["-n=shop"]).0).await;
    let event = ["--reason=A", "-m=x", "--wait=10s"];
    let (can, said) = guarded.can(&[&["record", "pod/web", "-n=shop"], event.as_slice()].concat());
    assert!(can, "{said}");
    assert!(
        said.contains("cannot get pod/web: ") && said.contains("kubectl describe will not show"),
        "{said}"
    );
}

/// A refusal says which permission is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_is_not_allowed_says_what_is_needed() {
    let guarded = guarded(&roles("export", &[]).0).await;
    std::fs::write(
        guarded.folder.path().join("a.jsonl"),
        lines_of(&[named("a")]),
    )
    .unwrap();
    let (can, said) = guarded.can(&["import", "a.jsonl"]);
    assert!(!can);
    assert!(said.contains("hint: tidings rbac import prints"), "{said}");
}

/// What is applied for one subject must not replace what was applied for another.
#[test]
fn no_two_subjects_share_a_binding() {
    let subjects = [
        ["--service-account", "tidings:reader"],
        ["--service-account", "a-b:c"],
        ["--service-account", "a:b-c"],
        ["--service-account", "user:ann"],
        ["--service-account", "user-ann:x"],
        ["--user", "ann"],
        ["--user", "tidings-reader"],
        ["--user", "https://login.example.org/ann"],
        ["--user", "https:~2f~2flogin.example.org~2fann"],
        ["--user", "100%"],
        ["--group", "ann"],
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roles.yaml");
    let printed = |arguments: &[&str]| {
        let ran = run(&[&["rbac", "events"], arguments].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        std::fs::write(&file, &ran.stdout).unwrap();
        documents(&file)
    };
    let name = |binding: &Value| binding["metadata"]["name"].as_str().unwrap().to_owned();

    let all = printed(subjects.as_flattened());
    assert_eq!(all.len(), 1 + subjects.len());
    let names: BTreeSet<String> = all[1..].iter().map(name).collect();
    assert_eq!(names.len(), subjects.len(), "{names:?}");
    assert!(names.contains("tidings-events-tidings-reader"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains(['/', '%'])));
    // Alone, each has the same role and binding.
    for (number, subject) in subjects.iter().enumerate() {
        assert_eq!(printed(subject), [all[0].clone(), all[number + 1].clone()]);
    }
}

#[test]
fn roles_and_bindings() {
    let ran = run(&[
        "rbac",
        "record",
        "-n",
        "shop",
        "--service-account",
        "shop:web",
        "--group",
        "developers",
    ]);
    assert_eq!(
        ran.stdout,
        "---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: Role\n\
         metadata:\n  name: tidings-record\n  namespace: shop\n\
         rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - events\n  verbs:\n  - create\n  - patch\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: RoleBinding\n\
         metadata:\n  name: tidings-record-shop-web\n  namespace: shop\n\
         roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: tidings-record\n\
         subjects:\n- kind: ServiceAccount\n  name: web\n  namespace: shop\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: RoleBinding\n\
         metadata:\n  name: tidings-record-group:developers\n  namespace: shop\n\
         roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: tidings-record\n\
         subjects:\n- apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: developers\n"
    );
    for (arguments, said) in [
        (
            &["rbac", "everything"] as &[&str],
            "possible values: record",
        ),
        (
            &["rbac", "record", "--service-account", "web"],
            "expected NAMESPACE:NAME",
        ),
        (
            &["rbac", "serve", "-n", "shop"],
            "reviews belong to no namespace",
        ),
        (
            &["rbac", "events", "--name", "a/b"],
            "expected the name of a role",
        ),
        (
            &["rbac", "events", "--name", ".."],
            "expected the name of a role",
        ),
        (&["rbac", "events", "--user="], "a value is required"),
        (
            &["rbac", "events", "--name="],
            "expected the name of a role",
        ),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}
