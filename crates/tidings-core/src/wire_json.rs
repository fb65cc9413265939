//! A core/v1 Event as the JSON that Go's encoder makes of it: the same fields in the same order,
//! present or left out by the same rules, the same characters escaped.
//!
//! Go's types leave a field out when it is empty (`omitempty`), except where they cannot:
//! `metadata`, `involvedObject`, `source`, `reportingComponent` and `reportingInstance` are always
//! there, and times that are not set are `null`. A time at Go's zero, the first instant of the year
//! 1, is a time that is not set.

use std::collections::BTreeMap;
use std::io::Write;

use jiff::Timestamp;
use jiff::tz::Offset;
use k8s_openapi::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};

/// The first instant of the year 1, in seconds since the Unix epoch: Go's zero time.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;

/// How many digits of a second's fraction are written.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    /// None: `metav1.Time`.
    Seconds,
    /// Six: `metav1.MicroTime`.
    Micros,
}

/// `event` as client-go sends it.
pub(crate) fn event(event: &Event) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    object(&mut out, |o| {
        o.text("kind", "Event");
        o.text("apiVersion", "v1");
        o.object("metadata", |o| metadata(o, &event.metadata));
        o.object("involvedObject", |o| reference(o, &event.involved_object));
        o.optional("reason", event.reason.as_deref());
        o.optional("message", event.message.as_deref());
        o.object("source", |o| {
            if let Some(EventSource { component, host }) = &event.source {
                o.optional("component", component.as_deref());
                o.optional("host", host.as_deref());
            }
        });
        let first = event.first_timestamp.as_ref().map(|time| time.0);
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        o.time("firstTimestamp", first, Precision::Seconds);
        o.time("lastTimestamp", last, Precision::Seconds);
        o.number("count", event.count.unwrap_or(0).into());
        o.optional("type", event.type_.as_deref());
        let event_time = event.event_time.as_ref().map(|time| time.0);
        o.time("eventTime", event_time, Precision::Micros);
        series(o, event.series.as_ref());
        o.optional("action", event.action.as_deref());
        if let Some(related) = &event.related {
            o.object("related", |o| reference(o, related));
        }
        let reporter = event.reporting_component.as_deref();
        o.text("reportingComponent", reporter.unwrap_or_default());
        let instance = event.reporting_instance.as_deref();
        o.text("reportingInstance", instance.unwrap_or_default());
    });
    out
}

/// `event` in the shape of events.k8s.io/v1, as client-go sends it. What is deprecated there is
/// left out, or empty where Go cannot leave it out.
pub(crate) fn events_v1(event: &Event) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    object(&mut out, |o| {
        o.text("kind", "Event");
        o.text("apiVersion", "events.k8s.io/v1");
        o.object("metadata", |o| metadata(o, &event.metadata));
        let event_time = event.event_time.as_ref().map(|time| time.0);
        o.time("eventTime", event_time, Precision::Micros);
        series(o, event.series.as_ref());
        o.optional("reportingController", event.reporting_component.as_deref());
        o.optional("reportingInstance", event.reporting_instance.as_deref());
        o.optional("action", event.action.as_deref());
        o.optional("reason", event.reason.as_deref());
        o.object("regarding", |o| reference(o, &event.involved_object));
        if let Some(related) = &event.related {
            o.object("related", |o| reference(o, related));
        }
        o.optional("note", event.message.as_deref());
        o.optional("type", event.type_.as_deref());
        o.object("deprecatedSource", |_| {});
        o.time("deprecatedFirstTimestamp", None, Precision::Seconds);
        o.time("deprecatedLastTimestamp", None, Precision::Seconds);
    });
    out
}

fn series(o: &mut Object<'_>, series: Option<&EventSeries>) {
    if let Some(EventSeries {
        count,
        last_observed_time,
    }) = series
    {
        o.object("series", |o| {
            o.number("count", count.unwrap_or(0).into());
            let last = last_observed_time.as_ref().map(|time| time.0);
            o.time("lastObservedTime", last, Precision::Micros);
        });
    }
}

fn reference(o: &mut Object<'_>, reference: &ObjectReference) {
    o.optional("kind", reference.kind.as_deref());
    o.optional("namespace", reference.namespace.as_deref());
    o.optional("name", reference.name.as_deref());
    o.optional("uid", reference.uid.as_deref());
    o.optional("apiVersion", reference.api_version.as_deref());
    o.optional("resourceVersion", reference.resource_version.as_deref());
    o.optional("fieldPath", reference.field_path.as_deref());
}

fn metadata(o: &mut Object<'_>, meta: &ObjectMeta) {
    o.optional("name", meta.name.as_deref());
    o.optional("generateName", meta.generate_name.as_deref());
    o.optional("namespace", meta.namespace.as_deref());
    o.optional("selfLink", meta.self_link.as_deref());
    o.optional("uid", meta.uid.as_deref());
    o.optional("resourceVersion", meta.resource_version.as_deref());
    o.number("generation", meta.generation.unwrap_or(0));
    if let Some(created) = meta
        .creation_timestamp
        .as_ref()
        .and_then(|time| set(time.0))
    {
        o.time("creationTimestamp", Some(created), Precision::Seconds);
    }
    if let Some(deleted) = &meta.deletion_timestamp {
        o.time("deletionTimestamp", Some(deleted.0), Precision::Seconds);
    }
    if let Some(seconds) = meta.deletion_grace_period_seconds {
        o.value("deletionGracePeriodSeconds", &seconds.into());
    }
    o.map("labels", meta.labels.as_ref());
    o.map("annotations", meta.annotations.as_ref());
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    o.list("ownerReferences", owners, |out, owner: &OwnerReference| {
        object(out, |o| {
            o.text("apiVersion", &owner.api_version);
            o.text("kind", &owner.kind);
            o.text("name", &owner.name);
            o.text("uid", &owner.uid);
            if let Some(controller) = owner.controller {
                o.value("controller", &controller.into());
            }
            if let Some(block) = owner.block_owner_deletion {
                o.value("blockOwnerDeletion", &block.into());
            }
        });
    });
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    o.strings("finalizers", finalizers);
    let managed = meta.managed_fields.as_deref().unwrap_or_default();
    o.list(
        "managedFields",
        managed,
        |out, entry: &ManagedFieldsEntry| {
            object(out, |o| {
                o.optional("manager", entry.manager.as_deref());
                o.optional("operation", entry.operation.as_deref());
                o.optional("apiVersion", entry.api_version.as_deref());
                if let Some(time) = &entry.time {
                    o.time("time", Some(time.0), Precision::Seconds);
                }
                o.optional("fieldsType", entry.fields_type.as_deref());
                if let Some(fields) = &entry.fields_v1 {
                    o.value("fieldsV1", &fields.0);
                }
                o.optional("subresource", entry.subresource.as_deref());
            });
        },
    );
}

/// Writes an object, its members by `members`.
pub(crate) fn object(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    members(&mut Object { out, empty: true });
    out.push(b'}');
}

/// A JSON object being written.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl Object<'_> {
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        string(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// A string, empty or not.
    pub(crate) fn text(&mut self, key: &str, text: &str) {
        string(self.key(key), text);
    }

    /// A string, unless empty.
    pub(crate) fn optional(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text(key, text);
        }
    }

    /// A number, unless 0.
    pub(crate) fn number(&mut self, key: &str, number: i64) {
        if number != 0 {
            self.value(key, &number.into());
        }
    }

    /// A time, or `null`.
    pub(crate) fn time(&mut self, key: &str, time: Option<Timestamp>, precision: Precision) {
        let out = self.key(key);
        match time.and_then(set) {
            Some(time) => write_time(out, time, precision),
            None => out.extend_from_slice(b"null"),
        }
    }

    /// Strings by name, unless there are none.
    pub(crate) fn map(&mut self, key: &str, map: Option<&BTreeMap<String, String>>) {
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            self.object(key, |o| {
                for (key, value) in map {
                    o.text(key, value);
                }
            });
        }
    }

    /// An object, empty or not.
    pub(crate) fn object(&mut self, key: &str, members: impl FnOnce(&mut Object<'_>)) {
        object(self.key(key), members);
    }

    /// A list of strings, unless empty.
    pub(crate) fn strings(&mut self, key: &str, strings: &[String]) {
        self.list(key, strings, |out, text| string(out, text));
    }

    fn list<T>(&mut self, key: &str, items: &[T], mut item: impl FnMut(&mut Vec<u8>, &T)) {
        if items.is_empty() {
            return;
        }
        let out = self.key(key);
        out.push(b'[');
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item(out, value);
        }
        out.push(b']');
    }

    fn value(&mut self, key: &str, value: &serde_json::Value) {
        let out = self.key(key);
        // Writing a value to memory does not fail.
        let _ = serde_json::to_writer(out, value);
    }
}

/// `time`, unless it is Go's zero.
pub(crate) fn set(time: Timestamp) -> Option<Timestamp> {
    let zero = time.as_second() == GO_ZERO_SECONDS && time.subsec_nanosecond() == 0;
    (!zero).then_some(time)
}

/// RFC 3339 in UTC, cut (not rounded) to `precision`.
fn write_time(out: &mut Vec<u8>, time: Timestamp, precision: Precision) {
    let at = Offset::UTC.to_datetime(time);
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    if let Precision::Micros = precision {
        let _ = write!(out, ".{:06}", at.subsec_nanosecond() / 1000);
    }
    out.extend_from_slice(b"Z\"");
}

/// A JSON string with Go's escapes: also `<`, `>`, `&` and the two separators that JavaScript takes
/// for line ends.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.find(escaped) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = special.chars();
        if let Some(character) = characters.next() {
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\u{8}' => out.extend_from_slice(b"\\b"),
                '\u{c}' => out.extend_from_slice(b"\\f"),
                // Writing to memory does not fail.
                other => drop(write!(out, "\\u{:04x}", u32::from(other))),
            }
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

fn escaped(character: char) -> bool {
    matches!(
        character,
        '\0'..='\x1f' | '"' | '\\' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(given: &str) -> String {
        let given: Event = serde_json::from_str(given).unwrap();
        String::from_utf8(event(&given)).unwrap()
    }

    /// Each is what `json.Marshal` of k8s.io/api/core/v1.Event makes of it, `kind` and `apiVersion`
    /// set.
    #[test]
    fn fields_are_there_in_the_order_of_go() {
        let empty = r#"{"kind":"Event","apiVersion":"v1","metadata":{},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#;
        assert_eq!(sent("{}"), empty);
        let emptied = r#"{"metadata":{"name":"","labels":{},"annotations":{},"finalizers":[],"generation":0},"reason":"","message":"","action":"","count":0,
            "type":"","firstTimestamp":"0001-01-01T00:00:00Z","eventTime":"0001-01-01T00:00:00.000000Z","source":{"component":"","host":""}}"#;
        assert_eq!(sent(emptied), empty);

        let whole = concat!(
            r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"n","generateName":"g","namespace":"ns","selfLink":"s","uid":"u","resourceVersion":"1","#,
            r#""generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-01T00:00:01Z","deletionGracePeriodSeconds":0,"#,
            r#""labels":{"l":"1"},"annotations":{"a":"1","b":""},"#,
            r#""ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"q","controller":true,"blockOwnerDeletion":false},{"apiVersion":"","kind":"","name":"","uid":""}],"#,
            r#""finalizers":["f","e"],"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:02Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}},"subresource":"status"}]},"#,
            r#""involvedObject":{"kind":"Pod","namespace":"ns","name":"p","uid":"q","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec"},"reason":"r","message":"m","#,
            r#""source":{"component":"c","host":"h"},"firstTimestamp":"2024-01-01T00:00:03Z","lastTimestamp":"2024-01-01T00:00:04Z","count":-2,"type":"Normal","#,
            r#""eventTime":"2024-01-01T00:00:05.000006Z","series":{"count":2,"lastObservedTime":"2024-01-01T00:00:06.700000Z"},"action":"act","related":{},"reportingComponent":"rc","reportingInstance":"ri"}"#,
        );
        assert_eq!(sent(whole), whole);
    }

    #[test]
    fn characters_are_escaped_as_in_go() {
        let mut out = Vec::new();
        string(
            &mut out,
            "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/<>&\u{7f}\u{2028}\u{2029}\u{202a}é\u{1F433}",
        );
        let expected = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\\u003c\\u003e\\u0026\u{7f}\\u2028\\u2029\u{202a}é\u{1F433}\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// apimachinery's TestTimeMarshalJSON and TestMicroTimeMarshalJSON, and times before 1970: cut
    /// down, never up.
    #[test]
    fn times_are_cut_to_their_precision() {
        let rows = [
            (
                "1998-05-05T05:05:05.000000050Z",
                "1998-05-05T05:05:05Z",
                "1998-05-05T05:05:05.000000Z",
            ),
            (
                "1998-05-05T05:05:05.9999999+02:30",
                "1998-05-05T02:35:05Z",
                "1998-05-05T02:35:05.999999Z",
            ),
            (
                "1969-12-31T23:59:59.5Z",
                "1969-12-31T23:59:59Z",
                "1969-12-31T23:59:59.500000Z",
            ),
            (
                "0001-01-01T00:00:00.000000001Z",
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00.000000Z",
            ),
        ];
        for (given, seconds, micros) in rows {
            for (precision, expected) in
                [(Precision::Seconds, seconds), (Precision::Micros, micros)]
            {
                let mut out = Vec::new();
                write_time(&mut out, given.parse().unwrap(), precision);
                assert_eq!(String::from_utf8(out).unwrap(), format!("{expected:?}"));
            }
        }
    }
}
