//! Loki: streams, lines and metadata of real events, and what its answers reject.

use std::collections::{BTreeMap, BTreeSet};

use http::header::DATE;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};
use tidings_feeds::Record;
use tidings_feeds::encode::loki::{Label, LabelError, Labels, Line, Loki, LokiOptions};
use tidings_feeds::encode::{Answer, Encoder, Outcome, Verdict};

use crate::events::{BACK_OFF, NODE, SERIES, answer, hostile, kind, record, records, source};

fn pushed(options: LokiOptions, records: &[Record]) -> Vec<Value> {
    let encoded = Loki::new(options).encode(&source(), records);
    assert!(encoded.unencodable.is_empty());
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    body["streams"].as_array().unwrap().clone()
}

fn with(labels: Labels, line: Line) -> LokiOptions {
    LokiOptions {
        labels,
        line,
        ..LokiOptions::default()
    }
}

/// The lines are those that Alloy's `parseEvent` writes for these events, with its blank at the
/// end; only the series has its count in addition.
#[test]
fn lines_are_those_of_alloy() {
    for (event, logfmt, object) in [
        (
            BACK_OFF,
            "name=storage-provisioner kind=Pod objectAPIversion=v1 objectRV=488 eventRV=1179 \
             sourcecomponent=kubelet sourcehost=minikube reason=BackOff type=Warning count=7 \
             msg=\"Back-off restarting \\\"failed\\\" container\" ",
            r#"{"count":7,"eventRV":"1179","kind":"Pod","msg":"Back-off restarting \"failed\" container","name":"storage-provisioner","objectAPIversion":"v1","objectRV":"488","reason":"BackOff","sourcecomponent":"kubelet","sourcehost":"minikube","type":"Warning"}"#,
        ),
        (
            SERIES,
            "name=coredns-789f8477df-knmwr kind=Pod action=Scheduling objectAPIversion=v1 \
             objectRV=537 eventRV=2375 \
             reportinginstance=default-scheduler-ip-172-16-123-141.ec2.internal \
             reportingcontroller=default-scheduler reason=FailedScheduling type=Warning count=26 \
             msg=\"no nodes available to schedule pods\" ",
            r#"{"action":"Scheduling","count":26,"eventRV":"2375","kind":"Pod","msg":"no nodes available to schedule pods","name":"coredns-789f8477df-knmwr","objectAPIversion":"v1","objectRV":"537","reason":"FailedScheduling","reportingcontroller":"default-scheduler","reportinginstance":"default-scheduler-ip-172-16-123-141.ec2.internal","type":"Warning"}"#,
        ),
        (
            r#"{"message":"a\tb\n\u0007\u0001é\u00a0\u200b\ud83d\ude00<&>"}"#,
            "eventRV=1 msg=\"a\\tb\\n\\a\\x01é\\u00a0\\u200b😀<&>\" ",
            "{\"eventRV\":\"1\",\"msg\":\"a\\tb\\n\\u0007\\u0001é\u{a0}\u{200b}😀\\u003c\\u0026\\u003e\"}",
        ),
    ] {
        for (form, expected) in [(Line::Logfmt, logfmt), (Line::Json, object)] {
            let streams = pushed(with(Labels::Alloy, form), &[record(event)]);
            let line = streams[0]["values"][0][1].as_str().unwrap();
            assert_eq!(line, expected);
        }
    }
}

#[test]
fn presets_have_the_labels_of_their_collectors() {
    let job = "integrations/kubernetes/eventhandler";
    let k8s_monitoring = |level: &str, reason: &str, further: Value| {
        let mut labels = json!({
            "cluster": "prod", "k8s_cluster_name": "prod", "job": job, "service_name": job,
            "source": "kubernetes-events", "level": level, "reason": reason,
        });
        let further = further.as_object().unwrap().clone();
        labels.as_object_mut().unwrap().extend(further);
        labels
    };
    let list = BTreeMap::from([
        ("ns".to_owned(), Label::Namespace),
        ("by".to_owned(), Label::Controller),
        ("env".to_owned(), Label::Text("production".into())),
    ]);
    for (labels, event, expected) in [
        (
            Labels::K8sMonitoring,
            BACK_OFF,
            k8s_monitoring("Warning", "BackOff", json!({"namespace": "kube-system"})),
        ),
        (
            Labels::K8sMonitoring,
            NODE,
            k8s_monitoring("Info", "NodeReady", json!({"node": "worker-1"})),
        ),
        (
            Labels::Alloy,
            BACK_OFF,
            json!({"cluster": "prod", "namespace": "kube-system", "job": "loki.source.kubernetes_events",
                "instance": "loki.source.kubernetes_events.tidings"}),
        ),
        (
            Labels::Kee,
            BACK_OFF,
            json!({"cluster": "prod", "source": "kubernetes-event-exporter", "container": "kubernetes-event-exporter"}),
        ),
        (
            Labels::list(list).unwrap(),
            SERIES,
            json!({"cluster": "prod", "ns": "kube-system", "by": "default-scheduler", "env": "production"}),
        ),
        (
            Labels::list(BTreeMap::from([("node".to_owned(), Label::Node)])).unwrap(),
            SERIES,
            json!({"cluster": "prod"}),
        ),
    ] {
        let streams = pushed(with(labels, Line::Logfmt), &[record(event)]);
        assert_eq!(streams[0]["stream"], expected);
    }
}

#[test]
fn records_of_each_kind_are_lines_with_time_level_and_key() {
    let streams = pushed(LokiOptions::default(), &records());
    let mut lines = Vec::new();
    for stream in &streams {
        for value in stream["values"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let of = (&stream["stream"]["level"], &stream["stream"]["reason"]);
            lines.push((
                text(&value[0]),
                text(of.0),
                text(of.1),
                text(&value[2]["id"]),
            ));
        }
    }
    lines.sort();
    let of = |at: &str, level: &str, reason: &str, id: &str| {
        (
            at.to_owned(),
            level.to_owned(),
            reason.to_owned(),
            id.to_owned(),
        )
    };
    let gap = "gap//1767384000000/1767384600000/compacted";
    let expected = [
        of(
            "1624242683000000000",
            "Warning",
            "BackOff",
            "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa/0/1179",
        ),
        of(
            "1767383910000000000",
            "Info",
            "NodeReady",
            "0b1c2d3e-0000-4000-8000-000000000001/0/90",
        ),
        of(
            "1767384140396050000",
            "Warning",
            "FailedScheduling",
            "45e43204-21e0-414c-b55a-a850e3045809/0/2375",
        ),
        of(
            "1767384600000000000",
            "Info",
            "TestRecord",
            "test/1767384600000",
        ),
        of(
            "1767384600000000000",
            "Warning",
            "VersionsMayBeMissing",
            gap,
        ),
        of(
            "1767384600000000000",
            "Warning",
            "VersionsNotDelivered",
            "skip/shop/1767384000000/1767384600000/47",
        ),
    ];
    assert_eq!(lines, expected);
    let skip = streams
        .iter()
        .find(|stream| stream["stream"]["reason"] == "VersionsNotDelivered");
    let line = skip.unwrap()["values"][0][1].as_str().unwrap();
    assert!(
        line.contains("msg=\"47 versions were not delivered"),
        "{line}"
    );
}

#[test]
fn names_of_objects_are_metadata() {
    // The label has another name than the metadata.
    let by_cluster = BTreeMap::from([("k8s_cluster".to_owned(), Label::Cluster)]);
    let streams = pushed(
        with(Labels::list(by_cluster).unwrap(), Line::Logfmt),
        &[record(BACK_OFF)],
    );
    let expected = json!({
        "id": "e7ea77f9-1e5c-41eb-94e3-fceebd328bfa/0/1179", "name": "storage-provisioner",
        "uid": "8f8dc8fe-b5ff-45c7-a36b-b012b8a1fc52", "node": "minikube", "count": "7",
        "occurrences": "2", "cluster": "prod", "namespace": "kube-system",
    });
    assert_eq!(streams[0]["values"][0][2], expected);
    let streams = pushed(with(Labels::Kee, Line::Logfmt), &[record(BACK_OFF)]);
    let metadata = &streams[0]["values"][0][2];
    assert_eq!(
        (&metadata["namespace"], &metadata["cluster"]),
        (&json!("kube-system"), &Value::Null)
    );
    let streams = pushed(with(Labels::Alloy, Line::Logfmt), &[record(BACK_OFF)]);
    assert_eq!(streams[0]["values"][0][2]["namespace"], Value::Null);
    // A name is a label or metadata, never both.
    let streams = pushed(LokiOptions::default(), &[record(NODE)]);
    assert_eq!(streams[0]["values"][0][2]["node"], Value::Null);
}

/// The texts are those of Loki's distributor and of its ingester. BACK_OFF was observed in 2021,
/// NODE in 2026.
#[test]
fn entries_that_are_too_old_are_rejected_and_no_others() {
    let loki = Loki::new(LokiOptions::default());
    let too_old = |oldest: &str| {
        format!(
            "2 errors like: entry for stream '{{job=\"x\"}}' has timestamp too old: \
             2021-06-21T02:31:23Z, oldest acceptable timestamp is: {oldest}"
        )
    };
    let forged = too_old("2025-12-26T20:00:00Z").replace('"', "\\\"");
    let forged = format!(
        "entry for stream '{{reason=\"{forged}\"}}' has timestamp too new: 2099-01-01T00:00:00Z"
    );
    let behind = "entry with timestamp 2026-01-02 19:58:30 +0000 UTC ignored, reason: 'entry too far \
        behind, entry timestamp is: 2026-01-02T19:58:30Z, oldest acceptable timestamp is: \
        2026-01-02T20:58:30Z',\nuser 'fake', total ignored: 1 out of 2 for stream: {job=\"x\"}";
    let date = Some("Fri, 02 Jan 2026 20:00:00 GMT");
    let both = [record(BACK_OFF), record(NODE)];
    for (text, date, expected) in [
        (too_old("2025-12-26T20:00:00Z\n"), None, "items"),
        (
            too_old("2025-12-26T20:00:00Z; stream '{zone=\"Z\"}'"),
            date,
            "items",
        ),
        (too_old("2025-12-26T21:00:00+01:00"), None, "items"),
        // An answer that names only newer entries makes no progress by being repeated.
        (too_old("2001-01-01T00:00:00Z"), None, "rejected"),
        // No receiver accepts only what is yet to come.
        (too_old("9999-12-30T00:00:00Z"), None, "rejected"),
        (too_old("2026-01-02T20:00:01Z"), date, "rejected"),
        (too_old("soon"), None, "rejected"),
        (forged, None, "rejected"),
        (behind.to_owned(), None, "rejected"),
    ] {
        let mut headers = HeaderMap::new();
        headers.extend(date.map(|date| (DATE, HeaderValue::from_static(date))));
        let answer = Answer {
            headers: &headers,
            ..answer(400, &text)
        };
        let verdict = loki.judge(&answer, &both);
        assert_eq!(kind(&verdict), expected, "{text}");
        if let Verdict::Items(outcomes) = verdict {
            assert!(
                matches!(outcomes[..], [Outcome::Rejected(_), Outcome::Retry(_)]),
                "{text}"
            );
        }
    }
}

/// Anyone who may write events chooses reasons, kinds and names of nodes. Loki refuses a tenant
/// with more than 5,000 streams.
#[test]
fn one_writer_cannot_end_a_tenant() {
    let event = |namespace: &str, reason: &str, kind: &str, name: &str| {
        let event = json!({
            "metadata": {"name": "x", "namespace": namespace, "uid": "u", "resourceVersion": "5"},
            "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
            "reason": reason, "type": "Warning", "message": "m",
        });
        record(&event.to_string())
    };
    let loki = Loki::new(LokiOptions::default());
    let mut streams = BTreeSet::new();
    let mut push = |records: &[Record]| {
        let body: Value = serde_json::from_slice(&loki.encode(&source(), records).body).unwrap();
        let found = body["streams"].as_array().unwrap().clone();
        streams.extend(found.iter().map(|found| found["stream"].to_string()));
        (found, streams.len())
    };
    let shop = [event("shop", "BackOff", "Pod", "web-0")];
    let (before, _) = push(&shop);
    let flood = |namespace: &str| -> Vec<Record> {
        let flood = (0..2000).map(|number| {
            let text = format!("R{number}");
            event(
                namespace,
                &text,
                if number % 2 == 0 { "Pod" } else { "Node" },
                &text,
            )
        });
        flood.collect()
    };
    let (_, number) = push(&flood("evil"));
    assert!((900..=1003).contains(&number), "{number}");
    // A request that is repeated is the same, and others have their share.
    assert_eq!(push(&flood("evil")).1, number);
    assert_eq!(push(&shop).0, before);
    let (fresh, _) = push(&[event("fresh", "BackOff", "Pod", "web-0")]);
    assert_eq!(fresh[0]["stream"]["reason"], "BackOff");
    // The values are metadata.
    let (other, _) = push(&[event("evil", "Late", "Pod", "web-0")]);
    assert_eq!(other[0]["stream"]["reason"], "other");
    assert_eq!(other[0]["stream"]["namespace"], "evil");
    assert_eq!(other[0]["values"][0][2]["event_reason"], "Late");
    for number in 0..4 {
        push(&flood(&format!("evil-{number}")));
    }
    let many: Vec<_> = (0..500)
        .map(|number| event(&format!("n-{number}"), "BackOff", "Pod", "web-0"))
        .collect();
    push(&many);
    let (other, number) = push(&[event("late", "Late", "Node", "n")]);
    assert!(number < 4000, "{number}");
    let stream = &other[0]["stream"];
    assert_eq!(
        (&stream["namespace"], &stream["node"]),
        (&json!("other"), &json!("other"))
    );
    assert_eq!(other[0]["values"][0][2]["event_namespace"], "late");
}

#[test]
fn a_refused_stream_stays_refused_whatever_other_namespaces_have() {
    let event = |namespace: &str, reason: &str| {
        let event = json!({
            "metadata": {"name": "x", "namespace": namespace, "uid": "u", "resourceVersion": "5"},
            "involvedObject": {"kind": "Pod", "name": "web-0", "namespace": namespace},
            "reason": reason, "type": "Warning", "message": "m",
        });
        record(&event.to_string())
    };
    let labels = BTreeMap::from([("reason".to_owned(), Label::Reason)]);
    let loki = Loki::new(with(Labels::list(labels).unwrap(), Line::Logfmt));
    let reason = |namespace: &str, reason: &str| {
        let encoded = loki.encode(&source(), &[event(namespace, reason)]);
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        body["streams"][0]["stream"]["reason"].clone()
    };
    // Namespaces that have the same streams do not use up the bound of the feed.
    for number in 0..500 {
        for of in [
            "Pulled",
            "Created",
            "Started",
            "Killing",
            "BackOff",
            "Unhealthy",
            "Failed",
        ] {
            assert_eq!(reason(&format!("n-{number}"), of), of);
        }
    }
    for number in 0..1000 {
        reason("evil", &format!("R{number}"));
    }
    assert_eq!(reason("evil", "Late"), "other");
    assert_eq!(reason("shop", "Late"), "Late");
    assert_eq!(reason("evil", "Late"), "other", "as before");
    assert_eq!(reason("evil", "R5"), "R5");
    // However many namespaces there were, another one is admitted to the streams that exist.
    let many: Vec<_> = (0..101_000)
        .map(|number| event(&format!("e-{number}"), "Pulled"))
        .collect();
    loki.encode(&source(), &many);
    assert_eq!(reason("later", "Pulled"), "Pulled");
    assert_eq!(reason("later", "New"), "other");
    assert_eq!(reason("evil", "Late"), "other", "as before");
}

/// Loki rejects an entry that is an hour older than one before it in its stream.
#[test]
fn entries_of_a_stream_are_in_order_of_time() {
    let at = |time: &str, name: &str| {
        let event = NODE.replace("2026-01-02T19:58:30Z", time);
        record(&event.replace("is now: NodeReady", name))
    };
    let records = [
        at("2026-01-02T12:00:00Z", "third"),
        at("2026-01-02T10:30:00Z", "first"),
        at("2026-01-02T12:00:00Z", "fourth"),
        at("2026-01-02T10:30:00Z", "second"),
    ];
    let streams = pushed(LokiOptions::default(), &records);
    assert_eq!(streams.len(), 1);
    let values = streams[0]["values"].as_array().unwrap();
    for (value, name) in values.iter().zip(["first", "second", "third", "fourth"]) {
        assert!(value[1].as_str().unwrap().contains(name), "{value}");
    }
}

/// Fields other than the message are bare, as Alloy's, unless they would be several fields.
#[test]
fn no_text_forges_a_field() {
    let event = r#"{"action":"x type=Normal\nreason=Fine msg=\"\"","message":"a\ue000\u115f",
        "reason":"Failed","type":"Warning"}"#;
    let streams = pushed(with(Labels::Alloy, Line::Logfmt), &[record(event)]);
    assert_eq!(
        streams[0]["values"][0][1].as_str().unwrap(),
        "action=\"x type=Normal\\nreason=Fine msg=\\\"\\\"\" eventRV=1 reason=Failed type=Warning \
         msg=\"a\\ue000\u{115f}\" "
    );
}

#[test]
fn labels_that_loki_refuses_are_refused_here() {
    let named = |name: &str| Labels::list(BTreeMap::from([(name.to_owned(), Label::Kind)]));
    for name in ["", "1a", "a-b", "__name__", "ä", "id"] {
        assert_eq!(named(name), Err(LabelError::Name(name.to_owned())));
    }
    assert!(named("k8s_kind").is_ok());
    assert_eq!(Labels::list(BTreeMap::new()), Err(LabelError::Number(0)));
    let read = |text: &str| serde_json::from_str::<Labels>(text).map_err(|error| error.to_string());
    assert_eq!(read(r#""alloy""#), Ok(Labels::Alloy));
    assert_eq!(
        read(r#"{"a": "kind", "b": {"text": "x"}}"#),
        Labels::list(BTreeMap::from([
            ("a".to_owned(), Label::Kind),
            ("b".to_owned(), Label::Text("x".into())),
            ("cluster".to_owned(), Label::Cluster),
        ]))
        .map_err(|error| error.to_string())
    );
    for (text, words) in [
        (r#""grafana""#, "k8s-monitoring, alloy, kee"),
        (r#"{"a": "name"}"#, ""),
    ] {
        assert!(read(text).unwrap_err().contains(words), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_stays_data(record in hostile()) {
        for line in [Line::Logfmt, Line::Json] {
            let streams = pushed(LokiOptions { line, ..LokiOptions::default() }, std::slice::from_ref(&record));
            prop_assert_eq!(streams.len(), 1);
            for (_, label) in streams[0]["stream"].as_object().unwrap() {
                let label = label.as_str().unwrap();
                let is_name = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
                prop_assert!((1..=128).contains(&label.len()) && label.chars().all(is_name));
            }
            let values = streams[0]["values"].as_array().unwrap();
            prop_assert_eq!(values.len(), 1);
            if line == Line::Json {
                let fields: Value = serde_json::from_str(values[0][1].as_str().unwrap()).unwrap();
                let tidings_feeds::RecordBody::Version(version) = &record.body else { unreachable!() };
                prop_assert_eq!(fields["msg"].as_str().unwrap(), version.event.message());
            }
        }
    }
}
