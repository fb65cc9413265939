//! What is read from what: one table a topic, and properties over generated events in every layout.

use std::ops::ControlFlow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Position, RECORD_BYTES_MAX, Record, SERVER_OWNED_METADATA, read};

fn records(input: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    read(input, &mut |record| {
        records.push(record);
        ControlFlow::Continue(())
    })
    .expect("memory can be read");
    records
}

/// Every record as `line[ item n]: namespace/name` or `line[ item n]! reason`.
fn summary(input: &str) -> Vec<String> {
    records(input.as_bytes())
        .into_iter()
        .map(|Record { position, event }| match event {
            Ok(event) => format!("{position}: {}/{}", event.namespace, event.name),
            Err(reason) => format!("{position}! {reason}"),
        })
        .collect()
}

fn check(input: &str, expected: &[&str]) {
    assert_eq!(summary(input), expected, "from {input:?}");
}

fn line(name: &str) -> String {
    json!({"metadata": {"name": name, "namespace": "n"}, "involvedObject": {}}).to_string()
}

#[test]
fn every_layout_is_told_by_its_content() {
    let (a, b) = (line("a"), line("b"));
    check("", &[]);
    check(" \n\n", &[]);
    check("\u{feff}# nothing but a comment\n---\n", &[]);
    check(&a, &["1: n/a"]);
    check(&format!("\u{feff}\n\n{a}\n"), &["3: n/a"]);
    check(&format!("{a}\n\r\n{b}\r\n"), &["1: n/a", "3: n/b"]);
    check(&format!("{a}{b}"), &["1: n/a", "1: n/b"]);
    check(&format!("[{a},{b}]"), &["1 item 1: n/a", "1 item 2: n/b"]);
    check(
        &format!("[\n{a},\n{b}\n]\n{b}"),
        &["2 item 1: n/a", "3 item 2: n/b", "5: n/b"],
    );
    check(
        &format!("{{\"kind\":\"List\",\"items\":[\n{a},\n{b}]}}"),
        &["2 item 1: n/a", "3 item 2: n/b"],
    );
    check(
        r#"{"kind": "EventList", "apiVersion": "v1", "items": []}"#,
        &[],
    );
    check(
        r#"{"kind": "EventList", "apiVersion": "v1", "items": null}"#,
        &[],
    );
    check("{\n\"items\": null}", &[]);
    check("kind: EventList\nitems: []\n", &[]);
    check("kind: EventList\nitems:\n", &[]);
    check(
        "metadata: {name: a, namespace: n}\ninvolvedObject: {}\n---\n# second\nmetadata:\n  name: b\ninvolvedObject: {}\n",
        &["1: n/a", "3: default/b"],
    );
    check(
        "apiVersion: v1\nitems:\n- involvedObject: {namespace: o}\n- kind: Event\n  metadata: {name: b}\nkind: List\n",
        &["1 item 1: o/", "1 item 2: default/b"],
    );
    check(&format!("---\n{a}\n---\n{b}"), &["1: n/a", "3: n/b"]);
}

#[test]
fn pretty_documents_and_lines_may_follow_each_other() {
    let pretty = serde_json::to_string_pretty(&json!({"items": [
        {"metadata": {"name": "x"}, "involvedObject": {"namespace": "n"}},
        {"metadata": {"name": "y"}, "involvedObject": {}},
    ]}))
    .expect("JSON");
    check(
        &format!("{}\n{pretty}\n{}", line("a"), line("b")),
        &["1: n/a", "4 item 1: n/x", "12 item 2: default/y", "20: n/b"],
    );
}

#[test]
fn what_is_broken_is_said_and_costs_no_more_than_it_must() {
    let (a, b) = (line("a"), line("b"));
    let broken = r#"{"metadata": {"name": "cut"#;
    check(
        &format!("{a}\n{broken}\n{b}"),
        &[
            "1: n/a",
            "2! not JSON: EOF while parsing a string, at column 26",
            "3: n/b",
        ],
    );
    check(
        &format!("{broken}\n{b}"),
        &[
            "1! not JSON: EOF while parsing a string, at column 26",
            "2: n/b",
        ],
    );
    check(
        &format!("{a} x\n{b}"),
        &[
            "1: n/a",
            "1! not JSON: expected value, at column 2",
            "2: n/b",
        ],
    );
    check(
        &format!("[{a}, {{]\n{b}"),
        &[
            "1 item 1: n/a",
            "1! not JSON: key must be a string, at column 66",
            "2: n/b",
        ],
    );
    check(
        &format!("{{\n \"items\": [\n  {a},\n  oops\n ]\n}}\n{b}"),
        &[
            "3 item 1: n/a",
            "4 item 2! not JSON: expected value, at column 3; continued at line 7",
            "7: n/b",
        ],
    );
    check(
        "{\n \"items\": [",
        &["2! not JSON: EOF while parsing a list, at column 11; nothing after it was read"],
    );
    check(
        "7",
        &[
            "1! neither JSON nor YAML events: invalid type: integer `7`, expected an Event, an EventList or a List",
        ],
    );
    check(
        "{\"kind\": \"List\", \"items\": 7}",
        &["1! not JSON: invalid type: integer `7`, expected an array of events, at column 27"],
    );
    check(
        "[7, null]",
        &[
            "1 item 1! not an object, expected an Event",
            "1 item 2! not an object, expected an Event",
        ],
    );
    check(
        "{\"items\": [],\"items\": []}",
        &["1! not JSON: items is there twice, at column 20"],
    );
}

#[test]
fn yaml_errors_stay_within_their_document() {
    let found = summary("involvedObject: {}\n---\na: [\n---\ninvolvedObject: {}\n");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        (found[0].as_str(), found[2].as_str()),
        ("1: default/", "4: default/")
    );
    assert!(
        found[1].contains("! neither JSON nor YAML events: "),
        "{found:?}"
    );

    for (namespace, of) in [("", ""), ("NAMESPACE   ", "shop        ")] {
        let found = summary(&format!(
            "{namespace}LAST SEEN   TYPE     REASON   OBJECT\n{of}5m          Normal   Pulled   pod/web: a: b\n"
        ));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].ends_with(
                "! neither JSON nor YAML events: a table, as printed for people; -o json and -o yaml print events"
            ),
            "{found:?}"
        );
    }

    let not_text = records(b"a: \xff\xfe\n---\ninvolvedObject: {}\n");
    assert!(
        not_text[0].event.is_err() && not_text[1].event.is_ok(),
        "{not_text:?}"
    );
}

/// A parser may repeat all that it cannot use.
#[test]
fn a_message_does_not_grow_with_what_it_is_about() {
    let text = "words without an end ".repeat(500);
    let quoted = json!({"kind": "List", "items": text}).to_string();
    for (input, end) in [
        (text.as_str(), "expected an Event, an EventList or a List"),
        (quoted.as_str(), "expected an array of events, at column "),
    ] {
        let found = summary(input);
        assert_eq!(found.len(), 1, "{}", found.len());
        let said = &found[0];
        assert!(said.len() < 300, "{}", said.len());
        assert!(
            said.contains("words without an end") && said.contains(end),
            "{said}"
        );
    }
}

#[test]
fn other_kinds_are_not_taken_for_events() {
    check(
        r#"{"kind": "Version", "namespace": "n", "name": "a", "epoch": 0}"#,
        &[
            "1! Version of an export with versions, which tidings archive --import puts into an archive",
        ],
    );
    check(
        r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {}}"#,
        &["1! Pod of v1, expected an Event of v1 or events.k8s.io/v1"],
    );
    check(
        r#"{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "involvedObject": {}}"#,
        &["1! Event of audit.k8s.io/v1, expected an Event of v1 or events.k8s.io/v1"],
    );
    check(
        r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"involvedObject": {}}]}"#,
        &["1! PodList of v1, expected an Event of v1 or events.k8s.io/v1"],
    );
    check(
        r#"{"kind": "List", "items": [{"kind": "Pod"}, {"spec": {}}, {"involvedObject": {}}]}"#,
        &[
            "1 item 1! Pod of no apiVersion, expected an Event of v1 or events.k8s.io/v1",
            "1 item 2! no kind, and neither involvedObject nor regarding: not an event",
            "1 item 3: default/",
        ],
    );
    check(
        r#"{"kind": "Event", "metadata": 7}"#,
        &["1! metadata is not an object"],
    );
    check(
        r#"{"kind": "Event", "metadata": {"namespace": "../../pods"}}"#,
        &["1! \"../../pods\" is not a namespace name"],
    );
    check(
        r#"{"kind": "Event", "apiVersion": "events.k8s.io/v1", "note": "a", "message": "b"}"#,
        &["1! has both note and message, which are the same field in events.k8s.io/v1 and core/v1"],
    );
}

#[test]
fn both_groups_become_core_v1_and_lose_only_what_the_server_owns() {
    let metadata = json!({
        "name": "a", "namespace": "n", "labels": {"l": "1"}, "annotations": {"a": "2"}, "generation": 3, "other": {"x": null},
        "uid": "u", "resourceVersion": "1", "creationTimestamp": "t", "managedFields": [{}], "selfLink": "/",
    });
    let sent_metadata = json!({
        "name": "a", "namespace": "n", "labels": {"l": "1"}, "annotations": {"a": "2"}, "generation": 3, "other": {"x": null},
    });
    let core = json!({"metadata": metadata, "involvedObject": {"kind": "Pod"}, "message": "m", "count": 7, "eventTime": null, "more": [1.5]});
    let sent = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": sent_metadata, "involvedObject": {"kind": "Pod"}, "message": "m",
        "count": 7, "eventTime": null, "more": [1.5],
    });
    let events = json!({"metadata": metadata, "regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 7, "eventTime": null, "more": [1.5]});
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
        for text in layouts(&input) {
            let mut read = records(text.as_bytes());
            let event = read.pop().expect("one record").event.expect("an event");
            assert_eq!(Value::Object(event.body), sent, "from {text}");
        }
    }
}

#[test]
fn yaml_scalars_are_what_kubectl_wrote_them_for() {
    let text = r#"
involvedObject: {name: 0123, resourceVersion: "690371"}
message: |
  a line
  ---not a separator
reason: "yes"
action: no
firstTimestamp: 2024-01-17T11:14:56Z
eventTime: null
reportingInstance: 1_000
count: 12
type: on
"#;
    let event = records(text.as_bytes())
        .pop()
        .expect("one record")
        .event
        .expect("an event");
    assert_eq!(
        Value::Object(event.body),
        json!({
            "apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "0123", "resourceVersion": "690371"},
            "message": "a line\n---not a separator\n", "reason": "yes", "action": "no", "count": 12,
            "firstTimestamp": "2024-01-17T11:14:56Z", "eventTime": null, "reportingInstance": "1_000", "type": "on",
        })
    );
    assert!(
        records(b"involvedObject: {}\ncount: .nan\n")[0]
            .event
            .is_err()
    );
}

#[test]
fn a_list_is_not_bounded_but_what_is_in_it_is() {
    let filler = "x".repeat(RECORD_BYTES_MAX / 8);
    let item = format!(r#"{{"involvedObject": {{}}, "message": "{filler}"}}"#);
    let list = format!(r#"{{"items": [{}]}}"#, vec![item.as_str(); 20].join(","));
    assert!(list.len() > 2 * RECORD_BYTES_MAX);
    let read = records(list.as_bytes());
    assert_eq!(read.len(), 20);
    assert!(read.iter().all(|record| record.event.is_ok()));
    assert_eq!(
        read[19].position,
        Position {
            line: 1,
            item: Some(20)
        }
    );

    let long = format!(
        r#"{{"involvedObject": {{}}, "message": "{}"}}"#,
        "x".repeat(RECORD_BYTES_MAX)
    );
    check(
        &format!("{long}\n{}", line("b")),
        &[
            &format!("1! longer than {RECORD_BYTES_MAX} bytes; continued at line 2"),
            "2: n/b",
        ],
    );
}

#[test]
fn reading_stops_when_told_and_reports_what_the_input_answered() {
    for text in [
        format!("{}\n{}", line("a"), line("b")),
        format!("[\n{},\n{}]", line("a"), line("b")),
        format!("- {}\n- {}", line("a"), line("b")),
    ] {
        let mut count = 0;
        read(text.as_bytes(), &mut |_| {
            count += 1;
            ControlFlow::Break(())
        })
        .expect("memory can be read");
        assert_eq!(count, 1, "from {text}");
    }

    for beginning in ["", "{", "a: ", "[\n{},\n"] {
        struct Failing;
        impl std::io::Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk is gone"))
            }
        }
        let input = std::io::Read::chain(beginning.as_bytes(), Failing);
        let error = read(input, &mut |_| ControlFlow::Continue(())).expect_err("the input failed");
        assert_eq!(error.to_string(), "the disk is gone", "after {beginning:?}");
    }
}

/// One value as every text that should be read alike.
fn layouts(value: &Value) -> [String; 4] {
    let compact = value.to_string();
    [
        format!("{compact}\n"),
        serde_json::to_string_pretty(value).expect("JSON"),
        format!("---\n{compact}\n"),
        serde_saphyr::to_string(value).expect("YAML"),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9yYnNoOeExX_.:+~#&*!|>%@`'\"-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn an_event_is_the_same_in_every_layout(fields in proptest::collection::btree_map("[a-z]{1,6}", json_value(), 0..5), copies in 1_usize..4) {
        let mut event: serde_json::Map<String, Value> = fields.into_iter().collect();
        event.remove("metadata");
        event.remove("items");
        event.insert("involvedObject".to_owned(), json!({"namespace": "n"}));
        event.insert("apiVersion".to_owned(), "v1".into());
        event.insert("kind".to_owned(), "Event".into());
        let event = Value::Object(event);

        let list = json!({"apiVersion": "v1", "kind": "List", "items": vec![event.clone(); copies]});
        for (value, expected) in [(&event, 1), (&list, copies)] {
            for text in layouts(value).iter().take(3) {
                let read = records(text.as_bytes());
                prop_assert_eq!(read.len(), expected, "from {}", text);
                for record in read {
                    prop_assert_eq!(Value::Object(record.event.expect("an event").body), event.clone(), "from {}", text);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        records(&bytes);
    }

    #[test]
    fn any_damage_leaves_the_other_lines_alone(cut in 1_usize..60, at in 0_usize..5) {
        let mut lines: Vec<String> = (0..5).map(|n| line(&format!("e{n}"))).collect();
        let cut = cut.min(lines[at].len() - 1);
        lines[at].truncate(cut);
        // Where the cut leaves what could be the beginning of a document of many lines, more than
        // the line may be lost.
        prop_assume!(!lines[at].ends_with(['{', ',', ':', '[']));
        let read = records(lines.join("\n").as_bytes());
        prop_assert_eq!(read.iter().filter(|record| record.event.is_ok()).count(), 4);
        prop_assert_eq!(read.iter().filter(|record| record.event.is_err()).count(), 1);
    }

    #[test]
    fn what_is_read_can_be_sent(text in r#"(\{|\}|\[|\]|,|:|\n|"items"|"kind"|"Event"|"metadata"|"namespace"|"involvedObject"|"regarding"|"uid"|1|null| )*"#) {
        for record in records(text.as_bytes()) {
            if let Ok(event) = record.event {
                prop_assert!(!event.namespace.is_empty());
                let metadata = event.body.get("metadata").and_then(Value::as_object);
                for field in SERVER_OWNED_METADATA {
                    prop_assert!(metadata.is_none_or(|metadata| !metadata.contains_key(field)));
                }
            }
        }
    }
}
