//! The fields of records in templates.

use std::sync::{Arc, LazyLock};

use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minijinja::value::{Enumerator, Object};
use minijinja::{Value, context};
use serde_json::{Map, Value as Json, json};
use tidings_api::codec::{self, Api};
use tidings_history::{Cause, Gap, Skip, Version, timestamp};
use tidings_store::UnixMillis;

use crate::encode::facts::{EventFacts, Facts, Notice};
use crate::record::{Record, RecordBody, Source};

/// Every field, with the value that it has where a record has none. A map without members has any.
static FIELDS: LazyLock<Json> = LazyLock::new(|| {
    let object = json!({
        "apiVersion": "", "kind": "", "name": "", "namespace": "", "uid": "",
        "resourceVersion": "", "fieldPath": "",
    });
    json!({
        "kind": "", "id": "", "cluster": "", "clusterUid": "", "namespace": "", "reason": "",
        "type": "", "message": "", "count": 0, "occurrences": 0, "firstSeen": "",
        "firstSeenMs": 0, "lastSeen": "", "lastSeenMs": 0, "observed": "",
        "event": {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": "", "namespace": "", "uid": "", "resourceVersion": "",
                "creationTimestamp": null, "generateName": "", "labels": {}, "annotations": {},
            },
            "involvedObject": object, "related": object, "reason": "", "message": "", "type": "",
            "action": "", "count": 0, "eventTime": null, "firstTimestamp": null,
            "lastTimestamp": null, "reportingComponent": "", "reportingInstance": "",
            "series": {"count": 0, "lastObservedTime": null},
            "source": {"component": "", "host": ""},
        },
    })
});

/// Checks that a name such as `event.source.host` is a field. Otherwise, returns those beside it.
pub(super) fn check(name: &str) -> Result<(), String> {
    let mut at = &*FIELDS;
    for part in name.split('.') {
        match at {
            Json::Object(fields) if fields.is_empty() => return Ok(()),
            Json::Object(fields) => {
                let names = || fields.keys().map(String::as_str).collect::<Vec<_>>();
                let found = fields.get(part);
                at = found.ok_or_else(|| format!("expected {}", names().join(", ")))?;
            }
            _ => return Err(format!("what is before {part:?} has no fields")),
        }
    }
    Ok(())
}

/// A part of an event: what it has, and what it may have.
#[derive(Debug)]
struct Part {
    found: Map<String, Json>,
    fields: &'static Json,
}

impl Object for Part {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        let found = self.found.get(key).filter(|found| !found.is_null());
        let field = self.fields.get(key);
        let found = found.or(field)?.clone();
        Some(part(found, field.unwrap_or(&Json::Null)))
    }

    /// Names what the event has, so that it is written as it is.
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(
            self.found
                .keys()
                .map(|key| Value::from(key.as_str()))
                .collect(),
        )
    }
}

fn part(found: Json, fields: &'static Json) -> Value {
    match found {
        Json::Null => Value::from(()),
        Json::Bool(is) => Value::from(is),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(integer),
            (None, float) => Value::from(float.unwrap_or_default()),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => items.into_iter().map(|it| part(it, &Json::Null)).collect(),
        Json::Object(found) => Value::from_object(Part { found, fields }),
    }
}

/// Returns the fields of a record.
pub(super) fn of(source: &Source, record: &Record) -> Value {
    let kind = match &record.body {
        RecordBody::Version(_) => "event",
        RecordBody::Gap(_) => "gap",
        RecordBody::Skip(_) => "skip",
        RecordBody::Test { .. } => "test",
    };
    let (event, namespace, first, occurrences, count) = match record.facts() {
        Facts::Event(facts) => (
            event_of(&facts),
            facts.object.namespace(),
            codec::times(facts.event()).first_seen(),
            facts.record.occurrences,
            facts.record.count(),
        ),
        Facts::Notice(notice) => (
            event_of_notice(&record.id, &notice),
            notice.namespace,
            None,
            0,
            0,
        ),
    };
    let text = |name: &str| event.get(name).and_then(Json::as_str).unwrap_or_default();
    let (first, last) = (first.unwrap_or_else(|| record.observed()), record.at());
    context! {
        kind, namespace, count, occurrences,
        id => &record.id, cluster => &source.cluster, clusterUid => &source.uid,
        reason => text("reason"), type => text("type"), message => text("message"),
        firstSeen => first.to_string(), firstSeenMs => first.as_millisecond(),
        lastSeen => last.to_string(), lastSeenMs => last.as_millisecond(),
        observed => record.observed().to_string(),
        event => part(event, FIELDS.get("event").unwrap_or(&Json::Null)),
    }
}

fn event_of(facts: &EventFacts<'_>) -> Json {
    let mut json = Vec::new();
    codec::write_event(Api::Core, facts.event(), true, &mut json);
    // What was just written is JSON.
    serde_json::from_slice(&json).unwrap_or_default()
}

/// Returns a notice in the form of an event, so that a template needs no case for it.
fn event_of_notice(id: &str, notice: &Notice<'_>) -> Json {
    let at = timestamp(notice.at).to_string();
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": id, "namespace": notice.namespace},
        "involvedObject": {"namespace": notice.namespace},
        "reason": notice.reason, "type": notice.event_type, "message": notice.message,
        "source": {"component": "tidings"}, "reportingComponent": "tidings",
        "firstTimestamp": at, "lastTimestamp": at,
    })
}

/// Returns a record of each kind, and an event without any field.
pub(super) fn samples() -> Vec<(&'static str, Record)> {
    let version = |mut event: Event| {
        let version = Version {
            uid: "sample".into(),
            epoch: 0,
            number: 1,
            observed_at: UnixMillis(0),
            event: codec::encode_stored(&mut event),
        };
        // What was just written is an event.
        Record::version(version, 1).ok()
    };
    let text = |text: &str| Some(text.to_owned());
    let whole = Event {
        metadata: Some(ObjectMeta {
            namespace: text("shop"),
            name: text("web-0.1"),
            ..ObjectMeta::default()
        }),
        involved_object: Some(ObjectReference {
            kind: text("Pod"),
            namespace: text("shop"),
            name: text("web-0"),
            ..ObjectReference::default()
        }),
        reason: text("Failed"),
        message: text("Error: \"a\\b\"\n{{ c }}"),
        r#type: text("Warning"),
        source: Some(EventSource {
            component: text("kubelet"),
            host: text("worker-1"),
        }),
        count: Some(7),
        ..Event::default()
    };
    let (from, to) = (UnixMillis(0), UnixMillis(1000));
    let mut samples = Vec::new();
    samples.extend(version(whole).map(|record| ("an event", record)));
    samples.extend(version(Event::default()).map(|record| ("an event without fields", record)));
    let skip = Skip {
        from,
        to,
        versions: 1,
    };
    samples.extend([
        ("a gap", Record::gap(Gap::new(from, to, Cause::Compacted))),
        ("a skip", Record::skip("sample", skip)),
        ("a test record", Record::test(to, "a test".to_owned())),
    ]);
    samples
}
