//! `tidings record`: the event exists, and the exit code says whether it arrived.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::{Cluster, run};

fn events(cluster: &Cluster) -> Vec<Value> {
    cluster
        .lines(&["events", "-A", "-o", "jsonl"])
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_all_it_can_have() {
    let cluster = Cluster::start().await;
    let ran = cluster.run(&[
        "record",
        "deploy/web",
        "-n",
        "shop",
        "--reason=RolloutFailed",
        "-m",
        "exit code 3",
        "--type=Warning",
        "--action=Rollout",
        "--related=node/worker-1",
        "--component=ci",
        "--host=runner-7",
        "--annotation=example.com/run=42",
        "--field-path=spec.template",
    ]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "recorded RolloutFailed about deploy/web\n"),
        "{ran:?}"
    );
    assert!(
        ran.stderr
            .contains("deploy/web does not exist: recording without its uid"),
        "{ran:?}"
    );
    let events = events(&cluster);
    assert_eq!(events.len(), 1);
    let event = &events[0];
    for (pointer, expected) in [
        ("/metadata/namespace", json!("shop")),
        ("/metadata/annotations/example.com~1run", json!("42")),
        ("/involvedObject/kind", json!("Deployment")),
        ("/involvedObject/apiVersion", json!("apps/v1")),
        ("/involvedObject/name", json!("web")),
        ("/involvedObject/fieldPath", json!("spec.template")),
        ("/related/kind", json!("Node")),
        ("/related/name", json!("worker-1")),
        ("/reason", json!("RolloutFailed")),
        ("/message", json!("exit code 3")),
        ("/type", json!("Warning")),
        ("/action", json!("Rollout")),
        ("/source/component", json!("ci")),
        ("/source/host", json!("runner-7")),
        ("/count", json!(1)),
    ] {
        assert_eq!(
            event.pointer(pointer),
            Some(&expected),
            "{pointer} of {event}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_without_a_namespace_and_of_any_kind() {
    let cluster = Cluster::start().await;
    for arguments in [
        &["record", "node/worker-1", "--reason=A", "-m=x"] as &[&str],
        &[
            "record",
            "Widget/left",
            "--api-version=example.com/v1",
            "--reason=B",
            "-m=x",
        ],
        // A repeated run records another event.
        &["record", "node/worker-1", "--reason=A", "-m=x"],
    ] {
        let ran = cluster.run(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let about: Vec<_> = events(&cluster)
        .iter()
        .map(|event| {
            let object = &event["involvedObject"];
            format!(
                "{} {} {}",
                event["metadata"]["namespace"], object["apiVersion"], object["name"]
            )
        })
        .collect();
    assert_eq!(about.len(), 3);
    assert!(
        about.contains(&r#""default" "v1" "worker-1""#.to_owned()),
        "{about:?}"
    );
    assert!(
        about.contains(&r#""default" "example.com/v1" "left""#.to_owned()),
        "{about:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_says_what_became_of_it() {
    let cluster = Cluster::start().await;
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let event = ["--reason=A", "-m=x", "--wait=1s"];
    for (arguments, code, said) in [
        (
            vec!["pod/web", "--as", "ann"],
            1,
            "hint: tidings rbac record",
        ),
        (vec!["pod/web", "--token", "wrong"], 3, "failed to"),
        (
            vec!["pod/web", "--server", "https://127.0.0.1:1"],
            3,
            "failed to",
        ),
        (
            vec!["widget/web"],
            1,
            "the cluster has no such kind; give its --api-version",
        ),
        (vec!["pod/web", "--type", "Error"], 2, "Error"),
        (vec!["web"], 2, "expected KIND/NAME"),
        (
            vec!["pod/web", "-n", "UPPER"],
            1,
            "failed to record A about pod/web",
        ),
    ] {
        let all = [
            &["record", "--kubeconfig", kubeconfig],
            event.as_slice(),
            &arguments,
        ]
        .concat();
        let ran = run(&all);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(events(&cluster), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_waited_for() {
    let mut cluster = Cluster::start().await;
    for (object, code, said) in [
        ("pod/web", 0, "pod/web does not exist"),
        // The kind of a related object is looked up, too.
        ("widget/left", 1, "has no such kind"),
    ] {
        let port = cluster.stop().await;
        let mut recording = cluster
            .command(&["record", object, "--reason=A", "-m=x", "--wait=1m"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(recording.stderr.take().unwrap());
        let mut first = String::new();
        stderr.read_line(&mut first).unwrap();
        assert!(first.starts_with("cannot reach the server"), "{first}");
        cluster.go_on(port).await;
        let code_of_it = recording.wait().unwrap().code();
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(code_of_it, Some(code), "{object}: {rest}");
        assert!(rest.contains(said), "{object}: {rest}");
    }
    assert_eq!(events(&cluster).len(), 1);
}
