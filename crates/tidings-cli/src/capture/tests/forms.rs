//! Forms of captures, and the changes made to their events: a table for each topic.

use std::io;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::super::{Found, RECORD_BYTES_MAX, YAML_DOCUMENT_BYTES_MAX, read};
use super::{check, event, found, line, list, pretty, summary, value, yaml};

#[test]
fn every_form_is_told_by_its_content() {
    let (a, b) = (line("a"), line("b"));
    let two = list(&["a", "b"]);
    let both = ["1: n/a", "1 event 2: n/b"];
    check(&a, &["1: n/a"]);
    check(format!("\u{feff}\n\n{a}\n"), &["3: n/a"]);
    check(format!("{a}\n\r\n{b}\r\n"), &["1: n/a", "3: n/b"]);
    check(format!("{a}{b}"), &both);
    check(format!("[{a},{b}]"), &both);
    check(
        format!("[\n{a},\n{b}\n]\n{b}"),
        &["2: n/a", "3: n/b", "5: n/b"],
    );
    check(two.to_string(), &both);
    check(json!({"items": [two], "kind": "List"}).to_string(), &both);
    check(
        json!({"description": "sample", "events": [value("a"), value("b")]}).to_string(),
        &both,
    );
    check(
        json!({"shop": {"events": two}, "other": [1, {}]}).to_string(),
        &both,
    );
    check(
        format!("{}\n{}", pretty(&value("a")), line("b")),
        &["1: n/a", "17: n/b"],
    );
    check(yaml(&value("a")), &["1: n/a"]);
    check(
        format!("{}---\n# next\n{}", yaml(&value("a")), yaml(&value("b"))),
        &["1: n/a", "15: n/b"],
    );
    check(
        format!("{}{}", yaml(&value("a")), yaml(&value("b"))),
        &["1: n/a", "13: n/b"],
    );
    check(yaml(&two), &["3: n/a", "15: n/b"]);
    check(
        yaml(&json!({"kind": "List", "items": [two]})),
        &both
            .map(|it| it.replace('1', "2"))
            .each_ref()
            .map(|it| &**it),
    );
    check(format!("---\n{a}\n---\n{b}"), &["2: n/a", "4: n/b"]);
    // YAML in flow style.
    check(
        format!("kind: List\nitems:\n- {a}\n- {b}\n"),
        &["3: n/a", "4: n/b"],
    );
    check(format!("kind: List\nitems: [{a},{b}]\n"), &both);
    check(
        format!("{}- {b}\n", yaml(&json!({"items": [value("a")]}))),
        &["2: n/a", "14: n/b"],
    );
    check(
        "items:\n- {kind: Event, metadata: {name: a, namespace: n},\n  involvedObject: {kind: Pod}}\n- kind: Event\n  metadata: {name: b}\n- {kind: Event, regarding: {name: p},\n  metadata: {name: c}}\n",
        &[
            "2: n/a NoTime",
            "4: default/b NoTime",
            "6: default/c NoTime",
        ],
    );
    // In colours.
    for text in [pretty(&two), yaml(&two)] {
        let expected = summary(text.as_bytes());
        let (before, behind) = ("\u{1b}[1;39m", "\u{1b}[0m\u{1b}]8;;x\u{7}\n");
        let coloured = before.to_owned() + &text.replace('\n', &(behind.to_owned() + before));
        assert_eq!(summary(coloured.as_bytes()), expected, "from {coloured}");
    }
    check(
        "items:\n  - involvedObject: {kind: Pod}\n    lastTimestamp: \"2026-01-01T00:00:00Z\"\n    metadata: {name: a}\n",
        &["2: default/a"],
    );
}

#[test]
fn what_is_put_around_events_is_seen_through() {
    let (a, b) = (value("a"), value("b"));
    for (around, names) in [
        (json!({"type": "ADDED", "object": a}), &["1: n/a"][..]),
        (json!({"type": "DELETED", "object": a}), &["1: n/a"]),
        (json!({"object": a, "type": "MODIFIED"}), &["1: n/a"]),
        (json!({"verb": "ADDED", "event": a}), &["1: n/a"]),
        (
            json!({"verb": "UPDATED", "event": a, "old_event": b}),
            &["1: n/a"],
        ),
        (json!({"old_event": b, "event": a}), &["1: n/a"]),
        (
            json!({"body": {"type": "ADDED", "object": a}, "attributes": []}),
            &["1: n/a"],
        ),
        // As container runtimes and loggers wrap the lines of other programs.
        (
            json!({"log": format!("{}\n", json!({"verb": "ADDED", "event": a})), "stream": "stdout"}),
            &["1: n/a"],
        ),
        (
            json!({"message": format!("I0101 router.go:1] {a}")}),
            &["1: n/a"],
        ),
        (
            json!({"type": "BOOKMARK", "object": {"kind": "Event", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "creationTimestamp": null}, "involvedObject": {}, "source": {}, "reason": ""}}),
            &["= JSON of something else"],
        ),
        (
            json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 410}}),
            &["= other objects: Status (1)"],
        ),
    ] {
        check(around.to_string(), names);
        check(
            pretty(&around),
            &[names[0]
                .replace("1:", &format!("{}:", line_of(&pretty(&around))))
                .as_str()],
        );
    }
    check(
        format!("2026-01-01T00:00:00.1Z stdout F {a}\n[pod/router] {b}\ndata: {a}\n"),
        &["1: n/a", "2: n/b", "3: n/a"],
    );
}

/// `kubectl -v=9` writes answers so.
#[test]
fn events_that_klog_quoted_are_read() {
    let body = |text: &str| {
        // Go quotes as JSON does, but for characters that this text has not.
        let quoted = Value::from(text).to_string();
        format!("I0216 11:02:03.1 410 round_trippers.go:1] \"Response Body\" body={quoted}")
    };
    let events =
        json!({"kind": "EventList", "apiVersion": "v1", "items": [value("a"), value("b")]})
            .to_string();
    let both = ["1: n/a", "1 event 2: n/b"];
    check(body(&events), &both);
    check(body(&format!("{events}\n")) + " status=200\n", &both);
    check(
        format!("{}\n{}", body(&events), line("c")),
        &["1: n/a", "1 event 2: n/b", "2: n/c"],
    );
    // Two of them on a line, and an answer without events.
    let more = body("{\"kind\":\"APIGroupList\",\"groups\":[]}") + " " + &body(&line("a"));
    check(more, &["1: n/a"]);
    let event = event(body(&line("a")).as_bytes());
    assert_eq!(event, value("a"));
    // Cut off by the end of the file.
    let lost = "1 event 2! not JSON: ";
    let text = &body(&events)[..body(&events).find("name\\\":\\\"b").expect("a name")];
    let found = summary(text.as_bytes());
    assert!(
        found.len() == 2 && found[0] == "1: n/a" && found[1].starts_with(lost),
        "{found:?} from {text}"
    );
    // Quoted text in quoted text is no event.
    check(body(&body(&line("a"))), &["= text of something else"]);
}

/// `kubectl -v=8` writes the first 1,024 characters of an answer, in klog's quotes or, before
/// Kubernetes 1.32, as it is.
#[test]
fn what_kubectl_cut_is_said_to_be_cut() {
    // kube-apiserver writes kind and apiVersion first.
    let list = |kind: &str, items: &[String]| {
        let items = items.join(",");
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"v1\",\"items\":[{items}]}}")
    };
    let all = list("EventList", &[line("a"), line("b")]);
    let pods = list("PodList", &[json!({"metadata": {"name": "x"}}).to_string()]);
    let first = all.find("},{").expect("two events") + 1;
    for plain in [true, false] {
        let cut_at = |text: &str, cut: usize| {
            let text = format!("{} [truncated 12 chars]", &text[..cut]);
            let klog = "I0216 11:02:03.1 410 request.go:1]";
            if plain {
                format!("{klog} Response Body: {text}\n")
            } else {
                format!("{klog} \"Response Body\" body={}\n", Value::from(text))
            }
        };
        for cut in 1..all.len() {
            let found = summary(cut_at(&all, cut).as_bytes());
            let (read, said) = match cut {
                // Less than kubectl leaves: it may be anything.
                _ if cut <= "{\"kind\":\"EventList\"".len() => continue,
                _ if cut < first => (&[][..], "no event"),
                _ if cut < all.len() - 2 => (&["1: n/a"][..], "1 event"),
                _ => (&["1: n/a", "1 event 2: n/b"][..], "2 events"),
            };
            let (end, events) = found.split_last().expect("something is said");
            assert_eq!(events, read, "{found:?} from {}", &all[..cut]);
            let said = format!("cut by kubectl, {said} read: ");
            assert!(end.contains(&said), "{found:?} from {}", &all[..cut]);
        }
        for cut in 1..pods.len() {
            let found = summary(cut_at(&pods, cut).as_bytes());
            assert!(!found.concat().contains("cut by kubectl"), "{found:?}");
        }
    }
}

/// The line of the first event of a printed object, or of the string that has it.
fn line_of(text: &str) -> usize {
    let is_string = |line: &str| line.starts_with("  \"log\":") || line.contains("router.go");
    let is_object = |line: &str| line.ends_with("\"object\": {") || line.ends_with("\"event\": {");
    let is_event = |line: &str| is_string(line) || is_object(line);
    text.lines().position(is_event).map_or(1, |line| line + 1)
}

#[test]
fn other_text_costs_nothing() {
    let stderr = "E0216 11:02:03.123456     410 memcache.go:287] couldn't get resource list: x\n";
    let texts = [
        stderr,
        "Warning: v1 ComponentStatus is deprecated in v1.19+\n",
        "error: the server doesn't have a resource type \"x\"\n",
        "$ kubectl get events -A -o json | tee {file}\n",
        "PS C:\\> kubectl get events\n",
        "## Events of *today* {now}\n\n- a point\n",
        "```json\n",
        "~~~\n",
        "LAST SEEN   TYPE     REASON   OBJECT\n5m  Normal  Pulled  pod/web: a: b\n",
        "{\"level\":\"info\",\"msg\":\"starting\"}\n{\"level\":\"info\",\"msg\":\"cut",
        "map[a:{b c}] {{ .Values.x }} {\"x\"} [[[ }}} \"\n",
        "Name: web\nStatus: {\n",
    ];
    for text in texts {
        for form in [
            pretty(&list(&["a", "b"])),
            format!("{}\n{}", line("a"), line("b")),
            yaml(&list(&["a", "b"])),
        ] {
            for input in [
                format!("{text}{form}"),
                format!("{form}\n{text}"),
                format!("{text}\n{form}\n{text}"),
            ] {
                let found = summary(input.as_bytes());
                let names: Vec<_> = found.iter().map(|it| it.split(": ").nth(1)).collect();
                assert_eq!(names, [Some("n/a"), Some("n/b")], "{found:?} from {input}");
            }
        }
    }
}

#[test]
fn lines_of_other_programs_within_an_event_are_cut_out() {
    let (json, block) = (pretty(&list(&["a", "b"])), yaml(&list(&["a", "b"])));
    for (stderr, forms) in [
        (
            "E0216 11:02:03.123456     410 memcache.go:287] couldn't get it\n",
            &[&json, &block][..],
        ),
        ("WARN: client-side throttling\n", &[&json, &block]),
        ("note: slow\n\nweb-1: Pulling\n", &[&json, &block]),
        ("{\"level\":\"warn\",\"msg\":\"x\"}\n", &[&json]),
        ("[W] slow\n", &[&json]),
    ] {
        for form in forms {
            let lines: Vec<_> = form.split_inclusive('\n').collect();
            for at in 1..lines.len() {
                let input = [
                    lines[..at].concat(),
                    stderr.to_owned(),
                    lines[at..].concat(),
                ]
                .concat();
                let events: Vec<_> = found(input.as_bytes())
                    .into_iter()
                    .map(|found| match found {
                        Found::Record(record) => record.event.map(|it| Value::Object(it.body)),
                        other => panic!("{other:?} from {input}"),
                    })
                    .collect();
                assert_eq!(events, [Ok(value("a")), Ok(value("b"))], "from {input}");
            }
        }
    }
    // Behind a text, as a program prints one event; and on any line of it.
    let (text, next) = (format!("router: {}\n", pretty(&value("a"))), line("b"));
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    for other in [
        "W0101 x.go:1] \"y\" {\"a\": 1}\n",
        "router: {\"level\":\"warn\"}\n",
        "{\"level\":\"warn\"}\n",
    ] {
        for at in 1..lines.len() {
            let (before, behind) = (lines[..at].concat(), lines[at..].concat());
            let last = format!("{}: n/b", lines.len() + 2);
            check(
                format!("{before}{other}{behind}{next}"),
                &["1: n/a Repaired", &last],
            );
        }
    }
    let input = pretty(&value("a")).replace(
        "    \"namespace\"",
        "W0101 x.go:1] \"y\" {\n    \"namespace\"",
    );
    check(input, &["1: n/a Repaired"]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table of damages")]
fn a_damaged_event_costs_itself_alone() {
    let (a, c) = (line("a"), line("c"));
    let cut = |length: usize| line("b")[..length].to_owned();
    for length in 8..line("b").len() {
        for broken in [
            format!("{a}\n{}\n{c}\n", cut(length)),
            format!("{a}\n{}{c}\n", cut(length)),
        ] {
            let found = summary(broken.as_bytes());
            let read = |name: &str| found.iter().filter(|it| it.contains(name)).count();
            assert_eq!(
                (read("n/a"), read("n/c"), found.len()),
                (1, 1, 3),
                "{found:?} from {broken}"
            );
            assert!(
                found[1].contains("! not JSON: ") || found[2].contains("! not JSON: "),
                "{found:?} from {broken}"
            );
        }
    }
    // Behind what container runtimes and kubectl put before the lines of a log.
    let logs = [
        "2026-01-01T00:00:00.1Z stdout F ",
        "2026-01-01T00:00:00.1Z ",
        "[pod/router] ",
        "router-1  | ",
        "router ",
    ];
    for log in logs {
        for length in 15..line("b").len() {
            for between in ["", "starting\n", "{\"level\":\"info\"}\n"] {
                let between = format!("{}{between}", if between.is_empty() { "" } else { log });
                let broken = format!("{log}{a}\n{log}{}\n{between}{log}{c}\n", cut(length));
                let found = summary(broken.as_bytes());
                let read = |name: &str| found.iter().filter(|it| it.contains(name)).count();
                let lost = read("2! not JSON: ");
                assert_eq!(
                    (read("n/a"), lost, read("n/c"), found.len()),
                    (1, 1, 1, 3),
                    "{found:?} from {broken}"
                );
            }
        }
    }
    check(
        format!("{{\"kind\":\"Event\",\n[router] {a}"),
        &["1! not JSON: '[' was not expected", "2: n/a"],
    );
    check(
        format!("{a}\n{{\"cut"),
        &["1: n/a", "2! not JSON: it ends within the event"],
    );
    check(
        format!("{{\"cut\n{a}"),
        &["1! not JSON: a line ends within a text", "2: n/a"],
    );
    check(format!("{a} x\n{c}"), &["1: n/a", "2: n/c"]);
    let text = list(&["a", "b", "c"]).to_string();
    check(
        text.replace("\"name\":\"b\"", "\"name\":\"b"),
        &[
            "1: n/a",
            "1 event 2! not JSON: 'n' was not expected",
            "1 event 3: n/c",
        ],
    );
    check(
        &text[..text.find("\"name\":\"c").expect("a name")],
        &[
            "1: n/a",
            "1 event 2: n/b",
            "1 event 3! not JSON: it ends within the event",
        ],
    );
    check(
        &text[..text.len() - 2],
        &[
            "1: n/a",
            "1 event 2: n/b",
            "1 event 3: n/c",
            "1!! it ends within a list: what followed is missing",
        ],
    );
    check(
        "{\n \"kind\": \"List\", \"items\": [",
        &["2!! it ends within a list: what followed is missing"],
    );
    let text = yaml(&list(&["a", "b", "c"]));
    let broken = text.replace("    name: \"b\"", "    name: \"b");
    let found = summary(broken.as_bytes());
    assert_eq!(
        (found.len(), &*found[0], &*found[2]),
        (3, "3: n/a", "27: n/c"),
        "{found:?}"
    );
    assert!(found[1].starts_with("15! not YAML: "), "{found:?}");
    // A tab is no indentation.
    let found = summary(text.replace("  reason", "\treason").as_bytes());
    assert!(
        found.len() == 3 && found.iter().all(|it| it.contains("! not YAML: ")),
        "{found:?}"
    );
    // The beginning is missing, as in the last lines of a log.
    for text in [pretty(&list(&["a", "b"])), yaml(&list(&["a", "b"]))] {
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        let of = |part| {
            lines
                .iter()
                .position(|line| line.contains(part))
                .expect(part)
        };
        for from in of("involvedObject")..=of("reason") {
            let found = summary(lines[from..].concat().as_bytes());
            assert!(
                found.len() == 2
                    && found[0].ends_with("! its beginning is missing")
                    && found[1].ends_with(": n/b"),
                "{found:?} from {}",
                lines[from..].concat()
            );
        }
    }
    // A damaged object of another kind is not reported.
    check(
        format!("{{\"kind\":\"PodList\",\"items\":[{{\"metadata\":{{\"name\"\n{a}"),
        &["2: n/a"],
    );
}

#[test]
fn damaged_characters_are_repaired_and_said() {
    for (damage, repaired) in [
        (&b"\xff\xc3"[..], "\u{fffd}\u{fffd}"),
        (b"\\ud83d", "\u{fffd}"),
        (b"\\udc00\\ud83d\\ude00", "\u{fffd}\u{1f600}"),
        (b"\x01", "\u{fffd}"),
        (b"\\q", "\u{fffd}q"),
    ] {
        for (text, notes) in [
            (line("a"), "1: n/a Repaired"),
            (yaml(&list(&["a"])), "3: n/a Repaired"),
        ] {
            if text.contains("kind: ") && damage == b"\\q" {
                continue;
            }
            let at = text.find("quoted").expect("the message");
            let input = [&text.as_bytes()[..at], damage, &text.as_bytes()[at..]].concat();
            check(&input, &[notes]);
            assert_eq!(
                event(&input)["message"],
                format!("a \"{repaired}quoted\" {{text}}: [1]")
            );
        }
    }
    // Wherever the damaged byte is, the event is counted.
    for text in [line("a"), yaml(&list(&["a"]))] {
        let begin = text
            .find("metadata")
            .unwrap_or_default()
            .min(text.find("involved").unwrap_or_default());
        for at in begin..text.len() - 1 {
            let mut input = text.clone().into_bytes();
            input[at] = 0xff;
            let found = summary(&input);
            assert!(
                found.len() == 1 && !found[0].starts_with('='),
                "{found:?} from {:?}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}

#[test]
fn what_is_no_event_is_said_to_be_what_it_is() {
    let audit = json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "objectRef": {}, "requestObject": value("a")});
    for (input, what) in [
        (audit.to_string(), "an audit log, which says who asked the API server for what"),
        (json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [audit]}).to_string(), "an audit log, which says who asked the API server for what"),
        (json!({"kind": "Version", "namespace": "n", "name": "a", "object": value("a")}).to_string(), "an export with versions, which tidings archive --import puts into an archive"),
        (json!({"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {}}]}).to_string(), "other objects: PodList (1)"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n".to_owned(), "other objects: Pod (1)"),
        ("LAST SEEN   TYPE     REASON   OBJECT\n5m   Normal   Pulled   pod/web\n".to_owned(), "a table, as printed for people; -o json and -o yaml print events"),
        ("<!doctype html><html>".to_owned(), "a page of HTML"),
        ("7z\u{bc}".to_owned(), "text of something else"),
        ("Rar!".to_owned(), "a RAR archive: unpack it first"),
        ("7".to_owned(), "text of something else"),
        ("\n\n<!-- saved -->\n<html>".to_owned(), "a page of HTML"),
        ("LASTSEEN   FIRSTSEEN   COUNT   NAME\n1m   2m   3   a\n".to_owned(), "a table, as printed for people; -o json and -o yaml print events"),
        ("event/web-0.1\nevent/web-0.2\n".to_owned(), "names of events; -o json and -o yaml print events"),
        ("No resources found in default namespace.\n".to_owned(), "kubectl's word that it found none"),
        ("Error from server (Forbidden): events is forbidden\n".to_owned(), "kubectl's word that the server refused"),
        ("Name:   web-0\nLabels:  app=web\nEvents:\n  Type   Reason\n".to_owned(), "a description, as printed for people; -o json and -o yaml print events"),
        ("apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n".to_owned(), "YAML or text of something else"),
        ("{\"a\": 1}".to_owned(), "JSON of something else"),
        // A JSON schema of events.
        (json!({"properties": {"involvedObject": {"$ref": "#/x", "description": "y"}, "message": {"type": "string"}}}).to_string(), "JSON of something else"),
    ] {
        check(input, &[&format!("= {what}")]);
    }
    for empty in [
        "",
        " \n\n",
        "{\"kind\": \"EventList\", \"apiVersion\": \"v1\", \"items\": []}",
        "{\"items\": null}",
        "kind: EventList\nitems: []\n",
    ] {
        check(empty, &[]);
    }
}

#[test]
fn both_groups_become_core_v1_and_lose_only_what_is_not_theirs() {
    let metadata = json!({
        "name": "a", "namespace": "n", "labels": {"l": "1"}, "annotations": {"a": "2"}, "other": {"x": null},
        "uid": "u", "resourceVersion": "1", "creationTimestamp": "t", "managedFields": [{}], "selfLink": "/",
        "generation": 3, "generateName": "a.",
    });
    let sent_metadata = json!({
        "name": "a", "namespace": "n", "labels": {"l": "1"}, "annotations": {"a": "2"}, "other": {"x": null},
    });
    let time = "2026-01-01T00:00:00Z";
    let core = json!({"metadata": metadata, "involvedObject": {"kind": "Pod"}, "message": "m", "count": 7, "eventTime": null, "firstTimestamp": time, "more": [1.5]});
    let sent = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": sent_metadata, "involvedObject": {"kind": "Pod"}, "message": "m",
        "count": 7, "eventTime": null, "firstTimestamp": time, "more": [1.5],
    });
    let events = json!({"metadata": metadata, "regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 7, "eventTime": null, "deprecatedFirstTimestamp": time, "more": [1.5]});
    let internal = json!({
        "name": "a", "namespace": "n", "labels": {"l": "1"}, "annotations": {"a": "2"}, "uid": "u", "creationTimestamp": "t",
        "InvolvedObject": {"Kind": "Pod", "UID": "u", "APIVersion": "v1", "FieldPath": ""}, "Message": "m", "Count": 7,
        "EventTime": null, "FirstTimestamp": time, "ReportingController": "c",
    });
    let with = |object: &Value, api_version: &str| {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = "Event".into();
        object
    };
    for input in [
        core.clone(),
        with(&core, "v1"),
        json!({"kind": "EventList", "apiVersion": "v1", "items": [core]}),
        json!({"kind": "List", "apiVersion": "v1", "items": [events]}),
        events.clone(),
        with(&events, "events.k8s.io/v1"),
        with(&events, "events.k8s.io/v1beta1"),
        json!({"kind": "List", "apiVersion": "v1", "items": [with(&events, "events.k8s.io/v1")]}),
        json!({"apiVersion": "events.k8s.io/v1", "kind": "EventList", "items": [events]}),
    ] {
        for text in [input.to_string(), pretty(&input), yaml(&input)] {
            assert_eq!(event(text.as_bytes()), sent, "from {text}");
        }
    }
    let mut external = sent.clone();
    external["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("other");
    external["involvedObject"] =
        json!({"kind": "Pod", "uid": "u", "apiVersion": "v1", "fieldPath": ""});
    external["reportingComponent"] = "c".into();
    external.as_object_mut().expect("an object").remove("more");
    for input in [json!({"selfLink": "/", "Items": [internal]}), internal] {
        for text in [input.to_string(), pretty(&input)] {
            assert_eq!(event(text.as_bytes()), external, "from {text}");
        }
    }
    check(
        r#"{"kind": "Event", "metadata": 7}"#,
        &["1! metadata is not an object"],
    );
    check(
        r#"{"kind": "Event", "metadata": {"namespace": "../../pods"}}"#,
        &["1! \"../../pods\" is not a namespace name"],
    );
}

#[test]
fn owners_are_left_out_and_said() {
    let mut owned = value("a");
    for (field, given) in [
        ("ownerReferences", json!([{"kind": "Widget", "uid": "u"}])),
        ("finalizers", json!(["example.com/keep"])),
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(0)),
    ] {
        let mut one = value("a");
        one["metadata"][field] = given.clone();
        check(one.to_string(), &["1: n/a Owners"]);
        assert_eq!(event(one.to_string().as_bytes()), value("a"));
        owned["metadata"][field] = given;
    }
    check(owned.to_string(), &["1: n/a Owners"]);
    owned["metadata"] =
        json!({"name": "a", "namespace": "n", "ownerReferences": [], "finalizers": null});
    check(owned.to_string(), &["1: n/a"]);
}

#[test]
fn an_event_without_a_name_always_gets_the_same() {
    let mut one = value("a");
    let mut names = Vec::new();
    for (object, begin) in [("web-0", "web-0.x"), ("Web:0", "event.x"), ("", "event.x")] {
        one["metadata"] = json!({"namespace": "n", "generateName": "x-"});
        one["involvedObject"]["name"] = object.into();
        let name = event(one.to_string().as_bytes())["metadata"]["name"].clone();
        assert_eq!(event(yaml(&one).as_bytes())["metadata"]["name"], name);
        let name = name.as_str().expect("a name").to_owned();
        assert!(
            name.starts_with(begin) && name.len() == begin.len() + 16,
            "{name}"
        );
        // client-go's names have a clock in this place.
        assert_eq!(tidings_core::reading::name_clock(&name), None);
        names.push(name);
        one["metadata"]["uid"] = "another".into();
        names.push(event(one.to_string().as_bytes())["metadata"]["name"].to_string());
        check(
            one.to_string(),
            &[&format!(
                "1: n/{} Unnamed",
                names[names.len() - 1].trim_matches('"')
            )],
        );
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn yaml_scalars_are_what_kubectl_wrote_them_for() {
    let text = r#"
involvedObject: {name: 0123, resourceVersion: "690371"}
message: |
  a line
  ---not a separator
  {"a": "text"}
reason: "yes"
action: no
metadata: {name: a}
firstTimestamp: 2024-01-17T11:14:56Z
eventTime: null
reportingInstance: 1_000
count: 12
type: on
"#;
    assert_eq!(
        event(text.as_bytes()),
        json!({
            "apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "0123", "resourceVersion": "690371"},
            "message": "a line\n---not a separator\n{\"a\": \"text\"}\n", "reason": "yes", "action": "no", "count": 12,
            "firstTimestamp": "2024-01-17T11:14:56Z", "eventTime": null, "reportingInstance": "1_000", "type": "on",
            "metadata": {"name": "a"},
        })
    );
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let mut expected = value("a");
    expected["reason"] = "Killing".into();
    let (json, block) = (line("a"), yaml(&list(&["a"])));
    for text in [
        json.replacen('{', "{\"reason\":\"first\",", 1),
        block.replace("  reason:", "  reason: first\n  reason:"),
    ] {
        let text = text.replace("Pulled", "Killing");
        assert_eq!(event(text.as_bytes()), expected, "from {text}");
    }
}

#[test]
fn a_list_is_not_bounded_but_what_is_in_it_is() {
    let filler = "x".repeat(RECORD_BYTES_MAX / 8);
    let mut item = value("a");
    item["message"] = filler.into();
    let items = vec![item.clone(); 20];
    let text = json!({"items": items}).to_string();
    assert!(text.len() > 2 * RECORD_BYTES_MAX);
    let found = summary(text.as_bytes());
    assert_eq!((found.len(), &*found[19]), (20, "1 event 20: n/a"));

    item["message"] = "x".repeat(RECORD_BYTES_MAX).into();
    check(
        format!("{item}\n{}", line("b")),
        &[
            &format!("1! longer than {RECORD_BYTES_MAX} bytes"),
            "2: n/b",
        ],
    );
    let long = yaml(&value("a")).replace("quoted", &"x".repeat(YAML_DOCUMENT_BYTES_MAX));
    check(
        format!("{long}---\n{}", yaml(&value("b"))),
        &[
            &format!("1! longer than {YAML_DOCUMENT_BYTES_MAX} bytes"),
            "14: n/b",
        ],
    );
}

/// An input that ends with an error.
struct Fails;

impl io::Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the end"))
    }
}

/// Wherever a list of YAML is cut, each event before the cut is read, and no event that is cut
/// passes for a whole one.
#[test]
fn of_a_cut_list_of_yaml_what_is_whole_is_read() {
    let bodies = |input: &mut dyn io::Read| {
        let mut all = Vec::new();
        read(input, &|_| {}, &mut |found| {
            if let Found::Record(record) = found {
                all.extend(record.event.map(|event| event.body));
            }
            ControlFlow::Continue(())
        });
        all
    };
    // What a text is told by is read at once.
    let text = "\n".repeat(8 << 10) + &yaml(&list(&["a", "b", "c"]));
    let whole = bodies(&mut text.as_bytes());
    assert_eq!(whole.len(), 3);
    let begins: Vec<usize> = text
        .match_indices("- apiVersion")
        .map(|(at, _)| at)
        .collect();
    for cut in begins[1]..text.len() {
        let before = begins.iter().filter(|begin| **begin + 3 < cut).count() - 1;
        let part = &text.as_bytes()[..cut];
        let ended = bodies(&mut &*part);
        let failed = bodies(&mut io::Read::chain(part, Fails));
        for found in [ended, failed] {
            let end = &text[cut.saturating_sub(40)..cut];
            assert!(found.len() >= before, "{end:?}: {found:?}");
            assert_eq!(found, whole[..found.len()], "{end:?}");
        }
    }
}
