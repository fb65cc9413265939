//! `tidings rbac`: what it prints is enough for the use it is printed for, and nothing less is.

use std::path::Path;

use tidings_server::{AuthorizationMode, SecurityOptions, StartOptions};

use super::support::{event, run, tidings};

struct Guarded {
    folder: tempfile::TempDir,
    _server: tidings_server::Running,
}

/// A server that lets `ann` do what these roles say.
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

fn code(guarded: &Guarded, arguments: &[&str]) -> Option<i32> {
    let kubeconfig = guarded.folder.path().join("data/kubeconfig");
    let ran = tidings(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--token", "t-ann"])
        .current_dir(guarded.folder.path())
        .output()
        .unwrap();
    ran.status.code()
}

fn write(folder: &Path) {
    let line = event("a", ("Pod", "web"), "Pulled", 5).to_string();
    std::fs::write(folder.join("a.jsonl"), line).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_use_needs_exactly_what_is_printed_for_it() {
    let uses: [(&str, &[&str]); 4] = [
        ("events", &["events", "-n", "shop"]),
        ("export", &["export", "-n", "shop", "-q"]),
        (
            "record",
            &[
                "record",
                "pod/web",
                "-n",
                "shop",
                "--reason=A",
                "-m=x",
                "--wait=10s",
            ],
        ),
        ("import", &["import", "a.jsonl"]),
    ];
    for (name, verb) in uses {
        for scope in [&["-n", "shop"] as &[&str], &[]] {
            let ran = run(&[&["rbac", name, "--user", "ann"], scope].concat());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            let guarded = guarded(&ran.stdout).await;
            write(guarded.folder.path());
            assert_eq!(code(&guarded, verb), Some(0), "{name} {scope:?}");
        }
        // Without a binding nobody may do it.
        let guarded = guarded(&run(&["rbac", name]).stdout).await;
        write(guarded.folder.path());
        assert_eq!(code(&guarded, verb), Some(1), "{name}");
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
         metadata:\n  name: tidings-record\n  namespace: shop\n\
         roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: tidings-record\n\
         subjects:\n- kind: ServiceAccount\n  name: web\n  namespace: shop\n\
         - apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: developers\n"
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
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}
