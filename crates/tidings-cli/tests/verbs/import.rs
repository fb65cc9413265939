//! `tidings import` into the Event API server: the events of the files are in the cluster, and all
//! others are counted.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_server::Running;
use tidings_testing::serving::{client, start};

use super::support::{Ran, archive, run};

/// Runs `tidings import` in `folder`, with `input` on its standard input.
fn import(folder: &TempDir, kubeconfig: &Path, arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .arg("import")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidings runs");
    let mut stdin = child.stdin.take().expect("it has a standard input");
    // The program may end without reading its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

async fn server(folder: &TempDir) -> Running {
    start(&folder.path().join("server"), 0).await
}

/// Every event of the cluster, without the fields that the server sets, in the order of names.
async fn stored(kubeconfig: &Path) -> Vec<Value> {
    let client = client(kubeconfig).await;
    let request = http::Request::get("/api/v1/events")
        .body(Vec::new())
        .expect("a request");
    let mut list: Value = client.request(request).await.expect("a list");
    let mut events = list["items"]
        .as_array_mut()
        .map(std::mem::take)
        .expect("items");
    for event in &mut events {
        let metadata = event["metadata"].as_object_mut().expect("metadata");
        for field in tidings_cli::capture::SERVER_OWNED_METADATA {
            metadata.remove(field);
        }
    }
    events
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).expect("a file is written");
}

/// A core/v1 event with all fields, as a list contains it.
fn event(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"a": "b"}, "annotations": {"c": "d\n"}},
        "involvedObject": {
            "kind": "Pod", "namespace": "shop", "name": "web", "uid": "0a74c463-f0e4-441e-8410-3f135b1ac812",
            "apiVersion": "v1", "resourceVersion": "571564", "fieldPath": "spec.containers{web}",
        },
        "reason": "BackOff", "message": "ünïcode \u{2028} <&> \"quoted\"", "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2024-01-17T11:14:56Z", "lastTimestamp": "2024-01-17T12:14:56Z", "count": 7, "type": "Warning",
        "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "n1",
    })
}

/// An events.k8s.io/v1 event, and its core/v1 form.
fn event_of_events_v1(name: &str) -> (Value, Value) {
    let metadata = json!({"name": name, "namespace": "shop"});
    let about = json!({"kind": "Pod", "namespace": "shop", "name": "web"});
    let series = json!({"count": 3, "lastObservedTime": "2024-01-17T11:15:56.642676Z"});
    let events = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, "regarding": about, "note": "assigned",
        "eventTime": "2024-01-17T11:14:56.642676Z", "reportingController": "default-scheduler", "reportingInstance": "s-1",
        "action": "Binding", "reason": "Scheduled", "type": "Normal", "series": series, "related": {"kind": "Node", "name": "n1"},
        "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
    });
    let core = json!({
        "metadata": metadata, "involvedObject": about, "message": "assigned",
        "eventTime": "2024-01-17T11:14:56.642676Z", "reportingComponent": "default-scheduler", "reportingInstance": "s-1",
        "action": "Binding", "reason": "Scheduled", "type": "Normal", "series": series, "related": {"kind": "Node", "name": "n1"},
        "source": {}, "firstTimestamp": null, "lastTimestamp": null,
    });
    (events, core)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kubectl_printed_is_in_the_cluster_afterwards() {
    let folder = TempDir::new().expect("a folder");
    let server = server(&folder).await;

    let (events, core) = event_of_events_v1("f");
    let mut printed = event("a");
    let owned = json!({
        "uid": "u", "resourceVersion": "7", "creationTimestamp": "2024-01-17T11:14:56Z", "selfLink": "/a",
        "managedFields": [{"manager": "kubelet", "operation": "Update"}],
    });
    let metadata = printed["metadata"].as_object_mut().expect("metadata");
    metadata.extend(owned.as_object().expect("an object").clone());
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [printed, event("b")], "metadata": {}});
    write(
        &folder,
        "list.json",
        &serde_json::to_string_pretty(&list).expect("JSON"),
    );
    write(
        &folder,
        "lines",
        &format!("{}\n\n{}\n", event("c"), event("d")),
    );
    let yaml = serde_saphyr::to_string(&json!({"items": [event("e")], "kind": "EventList"}))
        .expect("YAML");
    write(&folder, "list.yaml", &format!("{yaml}---\n{events}\n"));

    let files = ["list.json", "lines", "list.yaml", "-"];
    let ran = import(
        &folder,
        server.kubeconfig(),
        &files,
        &event("g").to_string(),
    );
    assert_eq!(
        ran.stdout, "7 read: 7 created, 0 already there, 0 refused, 0 unreadable\n",
        "{}",
        ran.stderr
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let mut expected: Vec<Value> = ["a", "b", "c", "d", "e", "g"].map(event).into();
    expected.insert(5, core);
    assert_eq!(stored(server.kubeconfig()).await, expected);

    let again = import(&folder, server.kubeconfig(), &files[..3], "");
    assert_eq!(
        again.stdout,
        "6 read: 0 created, 6 already there, 0 refused, 0 unreadable\n"
    );
    assert_eq!(again.code, Some(0));

    // A later capture of the cluster has newer versions, and an earlier one older versions.
    let (mut newer, mut older, mut often) = (event("a"), event("b"), event("c"));
    newer["lastTimestamp"] = "2024-01-17T13:14:56Z".into();
    newer["message"] = "newer".into();
    older["lastTimestamp"] = "2024-01-17T11:20:00Z".into();
    often["count"] = 8.into();
    let later = format!("{newer}\n{older}\n{often}\n{}", event("h"));
    let ran = import(&folder, server.kubeconfig(), &["-"], &later);
    assert_eq!(
        ran.stdout,
        "4 read: 1 created, 2 updated, 1 already there, 0 refused, 0 unreadable\n"
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expected[0] = newer;
    expected[2] = often;
    expected.push(event("h"));
    assert_eq!(stored(server.kubeconfig()).await, expected);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_not_in_the_cluster_is_named() {
    let folder = TempDir::new().expect("a folder");
    let server = server(&folder).await;

    let misplaced = |name: usize| {
        let mut event = event(&format!("m{name}"));
        event["involvedObject"]["namespace"] = "elsewhere".into();
        event.to_string()
    };
    let mut lines: Vec<String> = (0..12).map(misplaced).collect();
    lines.push(event("good").to_string());
    lines.push(json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}).to_string());
    lines.push("{\"cut".to_owned());
    write(&folder, "lines", &lines.join("\n"));

    let ran = import(&folder, server.kubeconfig(), &["lines"], "");
    assert_eq!(
        ran.stdout, "14 read: 1 created, 0 already there, 12 refused, 1 unreadable\n",
        "{}",
        ran.stderr
    );
    assert_eq!(ran.code, Some(1));
    let said: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(said.len(), 12, "{said:#?}");
    let refused: Vec<&&str> = said
        .iter()
        .filter(|line| line.contains(" refused: 422 Invalid: Event \"m"))
        .collect();
    assert_eq!(refused.len(), 10, "{said:#?}");
    assert!(
        refused
            .iter()
            .all(|line| line.contains("does not match event.namespace")),
        "{said:#?}"
    );
    assert!(
        said.iter()
            .any(|line| line.starts_with("… and 2 more: 422 Invalid involvedObject.namespace")),
        "{said:#?}"
    );
    assert!(
        said.iter()
            .any(|line| line.starts_with("lines:15 unreadable: not JSON")),
        "{said:#?}"
    );

    let verbose = import(&folder, server.kubeconfig(), &["--verbose", "lines"], "");
    assert_eq!(verbose.stderr.lines().count(), 13, "{}", verbose.stderr);
    assert!(
        verbose.stdout.contains("0 created, 1 already there"),
        "{}",
        verbose.stdout
    );
    assert_eq!(stored(server.kubeconfig()).await.len(), 1);
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_tell_a_wrong_command_from_a_server_that_is_not_there() {
    let folder = TempDir::new().expect("a folder");
    let server = server(&folder).await;
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    write(&folder, "good", &event("good").to_string());

    let here = server.kubeconfig();
    for (arguments, message) in [
        (&["good", "missing"][..], "failed to read missing: "),
        (&["-", "-"], "standard input twice"),
        (&["--context", "nowhere", "good"], "nowhere"),
        (&[], "<FILE|DIR>"),
    ] {
        let ran = import(&folder, here, arguments, "");
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(message),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let ran = import(&folder, &folder.path().join("none"), &["good"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(
        stored(here).await,
        Vec::<Value>::new(),
        "a wrong command sent something"
    );

    let token = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "))
        .expect("a token");
    write(
        &folder,
        "stranger",
        &kubeconfig.replace(token, "not-the-token"),
    );
    let ran = import(&folder, &folder.path().join("stranger"), &["good"], "");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("failed to authenticate to the server"),
        "{}",
        ran.stderr
    );

    let kubeconfig = here.to_path_buf();
    server.shutdown().await;
    let ran = import(&folder, &kubeconfig, &["good"], "");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("failed to reach the server"),
        "{}",
        ran.stderr
    );
}

/// Sixteen events are created at a time, and still those of one object in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_an_object_keep_their_order() {
    let folder = TempDir::new().expect("a folder");
    let server = server(&folder).await;
    let mut lines = Vec::new();
    for number in 0..40 {
        for pod in 0..5 {
            let mut event = event(&format!("pod-{pod}.{number:02}"));
            event["involvedObject"]["name"] = format!("pod-{pod}").into();
            lines.push(event.to_string());
        }
    }
    write(&folder, "lines", &lines.join("\n"));
    let ran = import(&folder, server.kubeconfig(), &["lines"], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let client = client(server.kubeconfig()).await;
    let request = http::Request::get("/api/v1/events");
    let request = request.body(Vec::new()).expect("a request");
    let list: Value = client.request(request).await.expect("a list");
    let items = list["items"].as_array().expect("items");
    assert_eq!(items.len(), 200);
    // The list is in the order of names, which for each object is the order of the file.
    let revision = |event: &Value| -> u64 {
        let text = event["metadata"]["resourceVersion"].as_str();
        text.and_then(|text| text.parse().ok()).expect("a number")
    };
    let mut last = ("", 0);
    for event in items {
        let pod = event["involvedObject"]["name"].as_str().expect("a name");
        let next = (pod, revision(event));
        assert!(last.0 != pod || last.1 < next.1, "{last:?} {next:?}");
        last = next;
    }
    server.shutdown().await;
}

/// A support bundle with all kinds of content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_or_is_missing_is_said() {
    let folder = TempDir::new().expect("a folder");
    let server = server(&folder).await;
    let mut created = event("created");
    created["metadata"]["creationTimestamp"] = "2024-10-24T09:12:31Z".into();
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        created[field] = Value::Null;
    }
    let mut owned = event("owned");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Widget", "name": "w", "uid": "dddddddd-0000-4000-8000-000000000001"
    }]);
    owned["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let mut unnamed = event("");
    unnamed["metadata"] = json!({"namespace": "shop"});
    let watched = json!({"type": "ADDED", "object": event("watched")});
    let surrogate = event("repaired").to_string().replace("quoted", "\\ud83d");
    let lines =
        format!("W0101 x.go:1] y\n{created}\n{owned}\n{unnamed}\n{watched}\n{surrogate}\n{{\"cut");
    let tar = archive(&[
        ("bundle/events/shop.jsonl", &lines),
        ("bundle/pods.json", "{}"),
    ]);
    std::fs::write(folder.path().join("bundle.tgz"), tar).expect("a file");
    write(
        &folder,
        "audit.log",
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1"}"#,
    );

    let ran = import(
        &folder,
        server.kubeconfig(),
        &["bundle.tgz", "audit.log"],
        "",
    );
    assert_eq!(
        ran.stdout,
        "6 read: 5 created, 0 already there, 0 refused, 1 unreadable; 1 of these repaired\n",
        "{}",
        ran.stderr
    );
    assert_eq!(ran.code, Some(1));
    let place = "bundle.tgz:bundle/events/shop.jsonl";
    for said in [
        format!("{place}:7 unreadable: not JSON: it ends within the event"),
        "audit.log has no events in it: it is an audit log".to_owned(),
        "1 event repaired, as damaged characters became U+FFFD".to_owned(),
        "1 event with no time but metadata.creationTimestamp".to_owned(),
        "1 event without a name, which got one made of the content: ".to_owned()
            + place
            + ":4 shop/web.",
        "1 event with owners, finalizers or a deletion of another cluster".to_owned(),
    ] {
        assert!(
            ran.stderr.contains(&said),
            "{said:?} is not in {}",
            ran.stderr
        );
    }
    let stored = stored(server.kubeconfig()).await;
    assert_eq!(stored.len(), 5);
    let times = |event: &Value| {
        (
            event["firstTimestamp"].clone(),
            event["lastTimestamp"].clone(),
        )
    };
    let created = stored
        .iter()
        .find(|event| event["metadata"]["name"] == "created");
    let time = json!("2024-10-24T09:12:31Z");
    assert_eq!(created.map(times), Some((time.clone(), time)));
    let owned = stored
        .iter()
        .find(|event| event["metadata"]["name"] == "owned");
    assert_eq!(owned, Some(&event("owned")));

    let again = import(&folder, server.kubeconfig(), &["bundle.tgz"], "");
    assert!(
        again.stdout.contains("0 created, 5 already there"),
        "{}",
        again.stdout
    );
    server.shutdown().await;
}

/// Captures are read without a cluster.
#[test]
fn captures_are_read_without_a_server() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let tar = archive(&[("a/b.jsonl", &format!("{}\n{}", event("a"), event("b")))]);
    std::fs::write(folder.path().join("bundle.tgz"), tar).expect("a file");
    std::fs::create_dir(folder.path().join("more")).expect("a folder");
    let mut other = event("c");
    other["metadata"]["namespace"] = "other".into();
    other["involvedObject"]["namespace"] = "other".into();
    write(&folder, "more/c.json", &other.to_string());
    write(&folder, "notes.txt", "nothing");
    let (bundle, more) = (path("bundle.tgz"), path("more"));

    let names = |arguments: &[&str]| {
        let arguments = [arguments, &["-o", "name"]].concat();
        let ran = run(&arguments);
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{arguments:?}");
        let mut names: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let all = ["event/a", "event/b", "event/c"];
    assert_eq!(names(&["events", "--file", &bundle, "--file", &more]), all);
    assert_eq!(
        names(&["events", "--file", &bundle, "--file", &more, "-n", "other"]),
        ["event/c"]
    );
    assert_eq!(
        names(&[
            "events",
            "--file",
            &bundle,
            "--for",
            "pod/web",
            "--since",
            "2024-01-01"
        ]),
        all[..2]
    );
    let ran = run(&["describe", "pod/web", "--file", &bundle]);
    assert_eq!(
        (ran.code, ran.stdout.matches("BackOff").count()),
        (Some(0), 2),
        "{ran:?}"
    );
    // Ages count from the newest event, 2024-01-17T12:14:56Z.
    let said = "ages count from 2024-01-17T12:14:56Z, when the newest event was seen";
    assert!(
        ran.stdout.contains(" 0s (x7 over 60m) ") && ran.stderr.contains(said),
        "{ran:?}"
    );
    let ran = run(&["events", "--file", &bundle]);
    assert!(
        ran.stdout.contains(" 0s ") && ran.stderr.contains(said),
        "{ran:?}"
    );
    // uid and creation time are those of the capture, if it has them.
    let mut whole = event("whole");
    whole["metadata"]["uid"] = "6b3b0a2e-0000-4000-8000-000000000001".into();
    whole["metadata"]["creationTimestamp"] = "2024-01-17T11:14:56Z".into();
    let both = [whole, event("without")];
    write(
        &folder,
        "both",
        &both.each_ref().map(Value::to_string).join("\n"),
    );
    let ran = run(&["events", "--file", &path("both"), "-o", "json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    for (shown, event) in shown["items"].as_array().expect("items").iter().zip(both) {
        assert_eq!(shown["metadata"], event["metadata"]);
    }
    // The report of what is shown does not say that something was created.
    write(
        &folder,
        "cut",
        &format!("{}\n{{\"kind\":\"Event\",\"reason\":", event("a")),
    );
    let (cut, said) = (
        path("cut"),
        "not everything is shown: 4 read: 2 shown, 1 further versions of these, 0 refused, 1 unreadable",
    );
    for verb in [&["events"][..], &["top"], &["describe", "pod/web"]] {
        let ran = run(&[verb, &["--file", &cut, "--file", &bundle]].concat());
        assert!(
            ran.stderr.contains(said)
                && ran
                    .stderr
                    .contains("cut:2 unreadable: not JSON: it ends within the event")
                && ran.stdout.contains("BackOff"),
            "{ran:?}"
        );
        // What was read is shown, and the exit code says that something was not.
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }

    // The whole capture is counted, whatever its times.
    let ran = run(&["top", "--file", &bundle, "--file", &more]);
    assert!(
        ran.code == Some(0) && ran.stdout.contains("3 events"),
        "{ran:?}"
    );
    // Its ages, too, count from the newest event.
    let row = ran.stdout.lines().find(|line| line.ends_with(" BackOff"));
    let words: Vec<_> = row.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words[1..3], ["60m", "0s"], "{ran:?}");
    let said = "ages count from 2024-01-17T12:14:56Z, when the newest event was seen\n";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{ran:?}");

    // Of events in one second without clocks in their names, the resourceVersions of the capture
    // decide, and without these the order of the file.
    for (versions, told) in [
        (&["9", "5", "10", "7"][..], [1, 3, 0, 2]),
        (&["", "", "", ""], [0, 1, 2, 3]),
        (&["7", "", "3", "x"], [2, 3, 0, 1]),
    ] {
        let file = path("second.jsonl");
        let lines = (0..40).map(|number| {
            let mut event = event(&format!("s-{number}"));
            event["metadata"]["resourceVersion"] = versions[number % 4].into();
            event["involvedObject"]["name"] = format!("of-{}", number / 4).into();
            event.to_string()
        });
        std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).expect("a file");
        let ran = run(&[
            "events",
            "--file",
            &file,
            "-o=custom-columns=O:.involvedObject.name,N:.metadata.name",
        ]);
        for object in 0..10 {
            let about = format!("of-{object} ");
            let shown = ran.stdout.lines().filter(|line| line.starts_with(&about));
            let names: Vec<_> = shown
                .filter_map(|line| line.split_whitespace().nth(1))
                .collect();
            let told = told.map(|at| format!("s-{}", object * 4 + at));
            assert_eq!(names, told, "{versions:?}: {ran:?}");
        }
    }

    // Of several versions of an event the newest is shown, whatever their order.
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
        let versions = order.map(|count| {
            let mut version = event("v");
            version["count"] = count.into();
            version["lastTimestamp"] = format!("2024-01-01T00:0{count}:00Z").into();
            json!({"type": "MODIFIED", "object": version}).to_string()
        });
        write(&folder, "versions.jsonl", &versions.join("\n"));
        let ran = run(&["events", "--file", &path("versions.jsonl"), "-o", "json"]);
        let shown: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(shown["items"][0]["count"], 3, "{order:?}: {ran:?}");
        let said = "2 events of which another version was read before";
        assert!(ran.stderr.contains(said), "{ran:?}");
    }

    let ran = run(&["events", "--file", &path("notes.txt")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .contains("notes.txt has no events in it: it is text of something else"),
        "{ran:?}"
    );
    for (arguments, said) in [
        (
            &["events", "--file", "/nowhere"][..],
            "failed to read /nowhere",
        ),
        (
            &["events", "--file", &bundle, "--context", "c"],
            "cannot be used with",
        ),
        (&["events", "--file", &bundle, "-w"], "cannot be used with"),
        (
            &["timeline", "--file", &bundle, "--context", "c"],
            "cannot be used with",
        ),
    ] {
        let ran = run(arguments);
        assert!(
            ran.code == Some(2) && ran.stderr.contains(said),
            "{arguments:?}: {ran:?}"
        );
    }
}
