//! kubectl's habits: kubectl and the command give the same answers to the same arguments.

use std::process::{Command, Output};

use serde_json::json;

use super::super::support::lines_of;
use super::kubectl::{Server, event};

fn succeeded(output: &Output) -> (bool, String) {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), stdout)
}

/// Starts a server with events that differ in labels, counts, reasons, types and objects.
fn server() -> Option<Server> {
    let server = Server::start()?;
    let events = [
        (
            "web-2.1",
            "BackOff",
            "Warning",
            7,
            json!({"app": "web", "tier": "front", "n": "9"}),
        ),
        ("web-10.1", "Pulled", "Normal", 12, json!({"app": "web"})),
        (
            "db-1.1",
            "Failed",
            "Warning",
            1,
            json!({"app": "db", "tier": "back"}),
        ),
        ("plain", "Pulled", "Normal", 3, json!(null)),
    ];
    let events = events.map(|(name, reason, event_type, count, labels)| {
        let mut event = event(name);
        event["reason"] = reason.into();
        event["type"] = event_type.into();
        event["count"] = count.into();
        event["metadata"]["labels"] = labels;
        event["involvedObject"]["name"] = name.split('.').next().unwrap_or_default().into();
        event
    });
    let file = server.folder.path().join("events.jsonl");
    std::fs::write(&file, lines_of(&events)).unwrap();
    let (is_imported, _) = succeeded(&ours(&server, &["import", file.to_str().unwrap()]));
    assert!(is_imported);
    Some(server)
}

fn ours(server: &Server, arguments: &[&str]) -> Output {
    let (verb, rest) = arguments.split_first().unwrap();
    let kubeconfig = server.folder.path().join("data/kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    let command = command.arg(verb).arg("--kubeconfig").arg(kubeconfig);
    command.args(rest).output().unwrap()
}

#[test]
fn selectors_orders_and_templates_are_those_of_kubectl() {
    let Some(server) = server() else { return };
    let by_name = "--sort-by=.metadata.name";
    for arguments in [
        &["-n", "shop", by_name, "-o", "name"] as &[&str],
        &["-A=true", by_name, "-o", "name"],
        &["-A", "--watch=false", by_name, "-o", "name"],
        &["-n", "", by_name, "-o", "name"],
        &["-A", "-l", "app=web", by_name, "-o", "name"],
        &[
            "-A",
            "--selector=tier in (front,back)",
            by_name,
            "-o",
            "name",
        ],
        &["-A", "-l", "app,!tier", by_name, "-o", "name"],
        &["-A", "-l", "app!=web", by_name, "-o", "name"],
        &["-A", "-l", "no=such", "-o", "name"],
        &["-A", "-l", "a b", "-o", "name"],
        &[
            "-A",
            "--field-selector=type!=Warning,reason=Pulled",
            by_name,
            "-o",
            "name",
        ],
        &[
            "-A",
            "--field-selector",
            "involvedObject.name=db-1",
            "-o",
            "name",
        ],
        &["-A", "--field-selector", "x=y", "-o", "name"],
        &[
            "-A",
            "-l",
            "app=web",
            "--field-selector",
            "reason=Pulled",
            "-o",
            "name",
        ],
        &["-A", "--sort-by=.count", "-o", "name"],
        &["-A", "--sort-by={.involvedObject.name}", "-o", "name"],
        &[
            "-A",
            "--sort-by=.metadata.labels.n",
            "--field-selector=metadata.name!=plain,metadata.name!=db-1.1",
            "-o",
            "name",
        ],
        &["-A", "--sort-by=.nothing", "-o", "name"],
        &["-A", "--watch=maybe", "-o", "name"],
        &["-A", by_name, "-o", "jsonpath={.items[*].reason}"],
        &["-A", by_name, "-o", "jsonpath={.items[-1].metadata.name}"],
        &["-A", by_name, "-o", "jsonpath={.items[1:3].metadata.name}"],
        &["-A", by_name, "-o", "jsonpath={.items[0].nothing[3]}"],
        &["-A", "-o", "jsonpath={.items[4].metadata.name}"],
        &["-A", "-o", "jsonpath={.items[-5].metadata.name}"],
        &["-A", "-o", "jsonpath={.items[0:9].metadata.name}"],
        &["-A", "-o", "jsonpath={.items[2:1].metadata.name}"],
        &["-A", "-o", "jsonpath={.items[0].reason[0]}"],
        &[
            "-A",
            "-o",
            "jsonpath={range .items[*]}{.metadata.name[0]}{end}",
        ],
        &["-A", "-o", "custom-columns=N:.metadata.name[0]"],
        &[
            "-A",
            by_name,
            "-o",
            "custom-columns=N:.metadata.name,L:.metadata.labels.tier,X:.a[0]",
        ],
        // Null, an empty text, and nothing.
        &[
            "-A",
            by_name,
            "-o",
            "custom-columns=TIME:.eventTime,WHO:.reportingInstance,S:.series,N:.metadata.name",
        ],
    ] {
        let theirs = server.command(&[&["get", "events"], arguments].concat());
        let (is_well, theirs) = succeeded(&{ theirs }.output().unwrap());
        let ran = ours(&server, &[&["events"], arguments].concat());
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        // Output before an error is not compared.
        let expected = (is_well, if is_well { theirs } else { String::new() });
        assert_eq!(succeeded(&ran), expected, "{arguments:?}: {said}");
    }
    let theirs = server.kubectl(&["get", "events", "-A", "--show-labels", by_name]);
    let (_, labelled) = succeeded(&ours(&server, &["events", "-A", "--show-labels", by_name]));
    let ends = |text: &str| -> Vec<String> {
        let lines = text.lines();
        let ends = lines.map(|line| line.split_whitespace().next_back().unwrap_or_default());
        ends.map(str::to_owned).collect()
    };
    assert_eq!(ends(&labelled), ends(&theirs));
    // kubectl's error contains the template and all events.
    let failed = ours(&server, &["events", "-A", "-o", "jsonpath={.items[4]}"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(
        said.contains("array index out of bounds: index 4, length 4"),
        "{said}"
    );
    assert_eq!(failed.status.code(), Some(1));
}

#[test]
fn objects_are_named_as_in_kubectl() {
    let Some(server) = server() else { return };
    let describe = |words: &[&str]| {
        let (is_well, text) = succeeded(&ours(
            &server,
            &[&["describe", "-n", "shop"], words].concat(),
        ));
        assert!(is_well, "{words:?}");
        text
    };
    let one = describe(&["pod/web-2"]);
    assert!(
        one.starts_with("Events:\n") && one.contains("BackOff"),
        "{one}"
    );
    assert_eq!(describe(&["pod", "web-2"]), one);
    assert_eq!(describe(&["Pods", "web-2"]), one);
    let other = describe(&["pod/db-1"]);
    let both = format!("pod/web-2\n{one}\npod/db-1\n{other}");
    assert_eq!(describe(&["pod", "web-2", "db-1"]), both);
    assert_eq!(describe(&["pod/web-2", "pod/db-1"]), both);
    for words in [
        &["pod"] as &[&str],
        &["pod", "pod/web-2"],
        &["pod/web-2", "db-1"],
    ] {
        let theirs = server.kubectl_fails(&[&["describe"], words].concat());
        let ran = ours(&server, &[&["describe"], words].concat());
        assert_eq!(ran.status.code(), Some(2), "{words:?}: {theirs}");
        assert!(
            String::from_utf8_lossy(&ran.stderr).contains("expected"),
            "{ran:?}"
        );
    }
    let record = ["record", "--reason=Done", "-m=x", "-n", "shop"];
    let ran = ours(&server, &[&record, &["job", "backup"] as &[&str]].concat());
    assert_eq!(
        succeeded(&ran),
        (true, "recorded Done about job/backup\n".to_owned())
    );
    let (_, found) = succeeded(&ours(
        &server,
        &[
            "events",
            "-A",
            "--for=job/backup",
            "-o=jsonpath={.items[0].reason}",
        ],
    ));
    assert_eq!(found, "Done");
    let ran = ours(&server, &[&record, &["job", "a", "b"] as &[&str]].concat());
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}
