//! client-go's TestEventf, TestMultiSinkCache, TestEventfNoNamespace and TestUpdateExpiredEvent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::EventType::Normal;
use tidings::advanced::ClusterScopedNamespace;
use tidings::{BroadcasterOptions, MemorySink, Recorder, Reference, ReferenceFields, SinkVerb};

use super::{LONG, assert_adds_up, manual, pod};

struct Row {
    object: Reference,
    reason: &'static str,
    message: &'static str,
    log: &'static str,
    verb: SinkVerb,
    count: i32,
}

/// client-go's table: the same objects, reasons and messages, and what it expects of each.
fn table() -> Vec<Row> {
    use SinkVerb::{Create, Patch};
    let first = || pod("foo", "bar").with_field_path("spec.containers[2]");
    let second = || pod("foo", "differentUid").with_field_path("spec.containers[3]");
    let row = |object, reason, message, log, verb, count| Row {
        object,
        reason,
        message,
        log,
        verb,
        count,
    };
    let started = r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"bar", APIVersion:"v1", ResourceVersion:"", FieldPath:"spec.containers[2]"}): type: 'Normal' reason: 'Started' some verbose message: 1"#;
    let killed = r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"bar", APIVersion:"v1", ResourceVersion:"", FieldPath:""}): type: 'Normal' reason: 'Killed' some other verbose message: 1"#;
    let other_started = r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"differentUid", APIVersion:"v1", ResourceVersion:"", FieldPath:"spec.containers[3]"}): type: 'Normal' reason: 'Started' some verbose message: 1"#;
    let other_stopped = r#"Event(v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"differentUid", APIVersion:"v1", ResourceVersion:"", FieldPath:"spec.containers[3]"}): type: 'Normal' reason: 'Stopped' some verbose message: 1"#;
    let verbose = "some verbose message: 1";
    vec![
        row(first(), "Started", verbose, started, Create, 1),
        row(
            pod("foo", "bar"),
            "Killed",
            "some other verbose message: 1",
            killed,
            Create,
            1,
        ),
        row(first(), "Started", verbose, started, Patch, 2),
        row(second(), "Started", verbose, other_started, Create, 1),
        row(first(), "Started", verbose, started, Patch, 3),
        row(second(), "Stopped", verbose, other_stopped, Create, 1),
        row(second(), "Stopped", verbose, other_stopped, Patch, 2),
    ]
}

/// Records the table's rows one by one, each after the previous one is written, and checks the
/// sink's requests.
async fn record_and_check(recorder: &Recorder, sink: &MemorySink, step: impl Fn()) {
    for (index, row) in table().into_iter().enumerate() {
        step();
        recorder.event(&row.object, Normal, row.reason, row.message);
        while sink.calls().len() <= index {
            tokio::task::yield_now().await;
        }
        let call = sink.calls()[index].clone();
        assert_eq!(call.verb, row.verb, "row {index}");
        let event = loop {
            // The sink records the call before it serves it.
            let event = sink.event("baz", &call.name);
            match event {
                Some(event) if event.count == Some(row.count) => break event,
                _ => tokio::task::yield_now().await,
            }
        };
        assert!(call.name.starts_with("foo."), "row {index}");
        assert_eq!(event.involved_object, row.object.to_object_reference());
        assert_eq!(event.reason.as_deref(), Some(row.reason));
        assert_eq!(event.message.as_deref(), Some(row.message));
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        assert_eq!(event.reporting_component.as_deref(), Some("eventTest"));
        let source = event.source.unwrap_or_default();
        assert_eq!(source.component.as_deref(), Some("eventTest"));
        let seen_once = event.first_timestamp == event.last_timestamp;
        assert_eq!(seen_once, row.count == 1, "row {index}");
    }
}

#[tokio::test]
async fn test_eventf() {
    for options in [
        BroadcasterOptions::default(),
        BroadcasterOptions::client_go(),
    ] {
        let (broadcaster, recorder, hand) = manual(options);
        let sink = MemorySink::new();
        broadcaster.start_recording_to_sink(sink.clone());
        let lines = Arc::new(Mutex::new(Vec::new()));
        broadcaster.start_logging({
            let lines = Arc::clone(&lines);
            move |line| lines.lock().unwrap().push(line.to_string())
        });
        record_and_check(&recorder, &sink, || hand.advance(Duration::from_secs(1))).await;
        let report = broadcaster.shutdown(LONG).await;
        assert_eq!((report.delivered, report.handlers.delivered), (7, 7));
        assert_adds_up(&report);
        let expected: Vec<_> = table().iter().map(|row| row.log).collect();
        assert_eq!(*lines.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn test_multi_sink_cache() {
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let (first, second) = (MemorySink::new(), MemorySink::new());
    let watch = broadcaster.start_recording_to_sink(first.clone());
    record_and_check(&recorder, &first, || hand.advance(Duration::from_secs(1))).await;
    watch.stop();
    watch.ended().await;
    broadcaster.start_recording_to_sink(second.clone());
    record_and_check(&recorder, &second, || hand.advance(Duration::from_secs(1))).await;
    assert_eq!(first.calls().len(), 7, "the first sees nothing of it");
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!((report.offered, report.delivered), (14, 14));
}

#[tokio::test]
async fn test_eventf_no_namespace() {
    let policies = [
        (ClusterScopedNamespace::Default, "default", None),
        (ClusterScopedNamespace::KubeSystem, "kube-system", None),
        (
            ClusterScopedNamespace::fixed("nodes").unwrap(),
            "nodes",
            Some("nodes".to_owned()),
        ),
    ];
    for (policy, namespace, involved) in policies {
        let options = BroadcasterOptions::default().cluster_scoped_namespace(policy);
        let (broadcaster, recorder, _hand) = manual(options);
        let sink = MemorySink::new();
        broadcaster.start_recording_to_sink(sink.clone());
        let node = Reference::new(ReferenceFields {
            kind: "Node",
            api_version: "v1",
            name: "node-1",
            ..ReferenceFields::default()
        });
        recorder.event(&node, Normal, "Started", "some verbose message: 1");
        assert!(broadcaster.shutdown(LONG).await.is_complete());
        let event = sink.events().remove(0);
        assert_eq!(event.metadata.namespace.as_deref(), Some(namespace));
        assert_eq!(event.involved_object.namespace, involved);
    }
}

#[tokio::test]
async fn test_update_expired_event() {
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "again");
    while sink.events().is_empty() {
        tokio::task::yield_now().await;
    }
    sink.expire();
    hand.advance(Duration::from_secs(1));
    recorder.event(&pod("foo", "bar"), Normal, "Started", "again");
    assert!(broadcaster.shutdown(LONG).await.is_complete());
    let verbs: Vec<_> = sink.calls().iter().map(|call| call.verb).collect();
    assert_eq!(verbs, [SinkVerb::Create, SinkVerb::Patch, SinkVerb::Create]);
    let event = sink.events().remove(0);
    assert_eq!(event.count, Some(2));
    let sent = String::from_utf8(sink.calls().remove(2).body).unwrap();
    assert!(!sent.contains("resourceVersion"), "{sent}");
}
