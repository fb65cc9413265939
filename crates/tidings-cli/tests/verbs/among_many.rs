//! What is past of an object, among many events, and many rows: through kube-apiserver's
//! aggregation layer, from the archive itself, and beside the events that kube-apiserver has.
//!
//! `TIDINGS_PAST_EVENTS` says how many events the archive has, and `TIDINGS_ROWS` how many rows are
//! listed and how many events kube-apiserver has. `cargo xtask install --measure` sets both.

use std::fmt::Write as _;
use std::ops::Range;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::installed::Installed;
use super::support::{Ran, tidings};

/// Events of each object.
const OF_OBJECT: usize = 50;

fn number(variable: &str, default: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.map_or(default, |number| number.parse().unwrap())
}

/// An event of an object in a namespace, as the cluster had it.
fn event(number: usize, namespace: &str, time: &str) -> Value {
    let pod = format!("web-{}", number / OF_OBJECT);
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": format!("{pod}.{number:x}"), "namespace": namespace,
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
            "resourceVersion": "1", "creationTimestamp": time,
        },
        "involvedObject": {
            "kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "v1",
        },
        "reason": "BackOff", "type": "Warning", "count": 1,
        "message": format!("Back-off restarting failed container app in pod {pod}, attempt {number}"),
        "source": {"component": "kubelet", "host": format!("node-{}", number % 100)},
        "firstTimestamp": time, "lastTimestamp": time,
    })
}

/// An export of an archive of a cluster, which has these events and their ends.
fn export(identity: &str, events: Range<usize>, time: &str) -> String {
    let followed = json!({
        "identity": identity, "epoch": 0, "namespace": "", "selection": "", "listing": false,
        "since": time, "completeUntil": time, "resourceVersion": "1",
        "latestResourceVersion": "1", "versions": events.len(),
    });
    let head = json!({
        "kind": "Coverage", "form": 1, "cluster": "home", "exportedAt": time,
        "store": "d490d89b99ba28a557fbfddde59d8503", "followed": [followed], "gaps": [],
        "keptSince": time,
    });
    let mut text = format!("{head}\n");
    for number in events {
        let event = event(number, "shop", time);
        let (name, uid) = (&event["metadata"]["name"], &event["metadata"]["uid"]);
        let version = json!({
            "kind": "Version", "namespace": "shop", "name": name, "epoch": 0,
            "observedAt": time, "event": event,
        });
        let end = json!({
            "kind": "End", "namespace": "shop", "name": name, "uid": uid,
            "resourceVersion": "1", "observedAt": time,
        });
        writeln!(text, "{version}\n{end}").unwrap();
    }
    text + "{\"kind\":\"Complete\"}\n"
}

/// The shortest of three runs with this number of lines, as other programs use the machine, too.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "times that are told"
)]
fn timed(what: &str, lines: usize, run: impl Fn() -> Ran) {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let ran = run();
        best = best.min(began.elapsed());
        assert_eq!(ran.stdout.lines().count(), lines, "{what}: {}", ran.stderr);
    }
    println!("{best:>12.0?}  {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_past_of_an_object_is_found_among_many() {
    let events = number("TIDINGS_PAST_EVENTS", 1000);
    let rows = number("TIDINGS_ROWS", 200);
    let Some(installed) = Installed::start() else {
        return;
    };
    let (world, cluster) = (&installed.world, &installed.world.cluster);
    let identity = [
        "get",
        "namespace",
        "kube-system",
        "-o=jsonpath={.metadata.uid}",
    ];
    let identity = world.run_as("t-admin", &identity).stdout;
    let now = tidings_server::clock::Clock::now(&tidings_server::clock::SystemClock);
    let yesterday = now - jiff::SignedDuration::from_hours(24);
    let file = cluster.folder().join("past.jsonl");
    let yesterday = format!("{yesterday:.0}");
    std::fs::write(&file, export(&identity, rows..events, &yesterday)).unwrap();
    let data = cluster.folder().join("pod/data");
    let mut import = installed.program(&["archive", "--name=home", "--event-ttl=90d"]);
    import
        .arg("--data-dir")
        .arg(&data)
        .arg("--import")
        .arg(&file);
    let ran: Ran = import.output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");

    // The rows are events that both have.
    world.apply(r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rows"}}"#);
    let present: Vec<Value> = (0..rows).map(|it| event(it, "rows", &yesterday)).collect();
    let present = present.iter().map(|event| format!("{event}\n"));
    std::fs::write(&file, present.collect::<String>()).unwrap();
    let mut import = tidings(&["import"]);
    import
        .arg(&file)
        .args(cluster.flags())
        .stdout(Stdio::null());
    assert!(import.status().unwrap().success());
    std::fs::remove_file(&file).unwrap();

    let _archive = installed.archive();
    let listed = ["get", "pastevents", "-n=rows", "-o=name"];
    world.until("t-admin", &listed, |ran| ran.stdout.lines().count() == rows);
    let get = |resource: &str, namespace: &str, further: &[&str]| {
        let namespace = format!("-n={namespace}");
        let all = [&["get", resource, &namespace, "--no-headers"], further].concat();
        world.run_as("t-admin", &all)
    };
    let one = |number: usize| format!("--field-selector=involvedObject.name=web-{number}");
    let (past, live) = (one(rows / OF_OBJECT + 3), one(1));
    println!("{events} events in the archive, {rows} in kube-apiserver:");
    timed("kubectl get pastevents, 50 of an object", OF_OBJECT, || {
        get("pastevents", "shop", &[&past])
    });
    timed("kubectl get events, 50 of an object", OF_OBJECT, || {
        get("events", "rows", &[&live])
    });
    timed("kubectl get pastevents, all rows", rows, || {
        get("pastevents", "rows", &[])
    });
    timed("kubectl get events, all rows", rows, || {
        get("events", "rows", &[])
    });
    let direct = [
        format!(
            "--server=https://127.0.0.1:{}/clusters/home",
            installed.port
        ),
        "--insecure-skip-tls-verify".to_owned(),
        "--token=t-admin".to_owned(),
    ];
    let arguments = ["get", "events", "-n=rows", "--no-headers"];
    timed(
        "kubectl get events of the archive itself, all rows",
        rows,
        || cluster.kubectl_with(&direct, &world.kubectl, &arguments, ""),
    );
}
