//! Tests of the size of events, and of the fields that derived events keep.

use serde_json::json;

use super::*;
use crate::ReferenceFields;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time of this age")
}

/// A wire event with every field set, including finalizers.
fn whole() -> v1::Event {
    let wire = json!({
        "metadata": {
            "name": "web.1", "namespace": "kube-system", "finalizers": ["a.com/x"],
            "annotations": {"a": "1", "bc": "23"}, "labels": {"def": "4"},
        },
        "involvedObject": {"kind": "Node", "name": "n"}, "related": {"kind": "Pod", "name": "web"},
        "type": "Warning", "reason": "R", "message": "m", "action": "A",
        "source": {"component": "c", "host": "h"},
        "reportingComponent": "rc", "reportingInstance": "ri", "count": 3,
        "firstTimestamp": "1970-01-01T00:00:01Z", "lastTimestamp": "1970-01-01T00:00:02Z",
        "eventTime": "1970-01-01T00:00:03.000000Z",
    });
    serde_json::from_value(wire).expect("an event")
}

#[test]
fn an_event_weighs_what_it_keeps_in_memory() {
    let event = Event::from_wire(whole());
    // Besides their own bytes, names and values of annotations and labels take a node of a map.
    let maps = "a1bc23def4".len() + 3 * 64;
    let related = event.related().expect("one").heap_size();
    let texts = "web.1kube-systemNodenWarningRmAchrcri".len();
    let packed = size_of::<Packed<7>>() + size_of::<Packed<4>>();
    let own = size_of::<Fields>() + size_of::<Extras>() + packed + texts + related + maps;
    // The wire form repeats everything, and has some fields of its own.
    let finalizers = size_of::<String>() + "a.com/x".len();
    let wire = size_of::<v1::Event>() + texts + "Podweb".len() + maps + finalizers;
    assert_eq!(event.size(), own + wire);
    // A usual event has only texts: no related object, labels or annotations.
    let pod = Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "shop",
        name: "web",
        ..ReferenceFields::default()
    });
    let plain = |message: &str| {
        let new = NewEvent {
            source: &EventSource::component("c"),
            regarding: &pod,
            related: None,
            event_type: EventType::Normal,
            reason: "R",
            action: "",
            message: &message,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        Event::new(&new, &NameStamps::new(1), at(0)).size()
    };
    let least = size_of::<Fields>() + pod.heap_size() + "NormalR".len();
    let (small, large) = (plain(""), plain(&"x".repeat(10_000)));
    assert!((least..least + 100).contains(&small), "{small}, {least}");
    assert!((least + 10_000..least + 10_100).contains(&large), "{large}");
}

/// Bounds apply to memory, so every part of a wire event counts.
#[test]
fn what_only_the_wire_form_has_weighs_too() {
    let large = "x".repeat(100_000);
    let weight = |metadata: serde_json::Value| {
        let wire = serde_json::from_value(json!({"metadata": metadata})).expect("an event");
        Event::from_wire(wire).size()
    };
    let least = weight(json!({}));
    for (metadata, times) in [
        (json!({"annotations": {"a": large}}), 2),
        (json!({"labels": {"a": large}}), 2),
        (json!({"finalizers": [large]}), 1),
        (json!({"ownerReferences": [{"name": large}]}), 1),
        (json!({"managedFields": [{"manager": large}]}), 1),
        (json!({"managedFields": [{"fieldsV1": {"f": [large]}}]}), 1),
    ] {
        let weight = weight(metadata) - least;
        let texts = times * large.len();
        assert!((texts..texts + 1000).contains(&weight), "{weight}, {times}");
    }
}

/// A combined event keeps all of the first event's fields, or those that client-go keeps. It keeps
/// no field that only the wire form had.
#[test]
fn a_combined_event_is_made_of_the_one_it_begins_with() {
    let event = Event::from_wire(whole());
    let name = EventName::Given("combined".into());
    for keep_metadata in [true, false] {
        let mut expected = v1::Event {
            message: Some("new".to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(at(7))),
            last_timestamp: Some(Time(at(7))),
            event_time: Some(MicroTime(at(7))),
            ..whole()
        };
        expected.metadata.name = Some("combined".to_owned());
        expected.metadata.finalizers = None;
        if !keep_metadata {
            (expected.metadata.annotations, expected.metadata.labels) = (None, None);
            (expected.related, expected.action, expected.event_time) = (None, None, None);
            expected.reporting_component = Some(String::new());
            expected.reporting_instance = Some(String::new());
        }
        let combined = event.combined(name.clone(), "new", at(7), keep_metadata);
        assert_eq!(combined.to_wire(), expected);
        assert_eq!(combined.finalizers(), <[String; 0]>::default());
        assert_eq!(combined.labels().is_some(), keep_metadata);
    }
    assert_eq!(event.finalizers(), ["a.com/x"]);
}

#[test]
fn a_message_is_cut_where_the_strict_rules_hold() {
    let long = "x".repeat(validate::MESSAGE_BYTES_MAX + 1);
    let strict = Event::from_wire(whole());
    let lenient = Event::from_wire(v1::Event {
        event_time: None,
        ..whole()
    });
    for (event, keep_metadata, cut) in [
        (&strict, true, true),
        (&strict, false, false),
        (&lenient, true, false),
    ] {
        let name = event.event_name().clone();
        let combined = event.combined(name, &long, at(7), keep_metadata);
        assert_eq!(combined.message() != long, cut);
        assert_eq!(combined.message().ends_with(TRUNCATION_MARKER), cut);
    }
}

/// A count of zero is not written. The strict rules require a time, and the event's first one is
/// used.
#[test]
fn the_strict_form_keeps_what_was_there() {
    let event = Event::from_wire(v1::Event {
        count: None,
        ..whole()
    });
    let mut expected = v1::Event {
        count: None,
        ..whole()
    };
    expected.metadata.finalizers = None;
    expected.reporting_instance = Some("ri".to_owned());
    assert_eq!(event.strict(at(9)).to_wire(), expected);
    for (event_time, first_timestamp, expected) in
        [(Some(3), Some(1), 3), (None, Some(1), 1), (None, None, 9)]
    {
        let event = Event::from_wire(v1::Event {
            event_time: event_time.map(|second| MicroTime(at(second))),
            first_timestamp: first_timestamp.map(|second| Time(at(second))),
            ..whole()
        });
        assert_eq!(event.strict(at(9)).event_time(), Some(at(expected)));
    }
}

struct Awaited(bool);

impl EventContext for Awaited {
    fn is_awaited(&self) -> bool {
        self.0
    }

    fn unawaited(&self) -> Option<Arc<dyn EventContext>> {
        Some(Arc::new(Self(false)))
    }
}

#[test]
fn those_who_only_look_get_an_event_that_is_not_waited_for() {
    let event = Event::from_wire(whole());
    assert!(event.clone().unawaited().context().is_none());
    for awaited in [true, false] {
        let context: Arc<dyn EventContext> = Arc::new(Awaited(awaited));
        let event = event.clone().with_context(Arc::clone(&context));
        let given = event.context().expect("what was sent along");
        assert!(Arc::ptr_eq(given, &context));
        let looked_at = event.unawaited();
        let context_there = looked_at.context().expect("what it gives");
        assert!(!context_there.is_awaited());
        assert_eq!(Arc::ptr_eq(context_there, &context), !awaited);
        assert_eq!(looked_at.to_wire(), whole());
    }
}

#[test]
fn types_are_spelled_as_kubernetes_does() {
    for event_type in [EventType::Normal, EventType::Warning] {
        assert_eq!(event_type.to_string().parse(), Ok(event_type));
    }
    assert_eq!(format!("[{:>8}]", EventType::Normal), "[  Normal]");
    assert!("normal".parse::<EventType>().is_err());
}
