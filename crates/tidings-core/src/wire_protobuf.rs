//! An Event as Kubernetes protobuf: what `wire_json` writes as JSON, as the message of
//! `k8s.io/api`'s `generated.proto`, in the envelope that every API server takes (four magic bytes,
//! then `runtime.Unknown`).
//!
//! Invariant: a reader finds the same event as in the JSON. Go's encoder also writes fields that
//! are empty; here they are left out, which reads the same. Where Go tells absent from empty
//! (`series`, `related`, and what is optional in metadata), so does this.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};

use crate::wire_json::{Precision, set};

/// What every enveloped message starts with.
const MAGIC: &[u8] = b"k8s\0";

/// `event` as a message of core/v1.
pub(crate) fn event(event: &Event) -> Vec<u8> {
    envelope("v1", |m| {
        m.message(1, |m| metadata(m, &event.metadata));
        m.message(2, |m| reference(m, &event.involved_object));
        m.optional(3, event.reason.as_deref());
        m.optional(4, event.message.as_deref());
        if let Some(EventSource { component, host }) = &event.source {
            m.message(5, |m| {
                m.optional(1, component.as_deref());
                m.optional(2, host.as_deref());
            });
        }
        let first = event.first_timestamp.as_ref().map(|time| time.0);
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        m.time(6, first, Precision::Seconds);
        m.time(7, last, Precision::Seconds);
        m.number(8, event.count.unwrap_or(0).into());
        m.optional(9, event.type_.as_deref());
        let event_time = event.event_time.as_ref().map(|time| time.0);
        m.time(10, event_time, Precision::Micros);
        series(m, 11, event.series.as_ref());
        m.optional(12, event.action.as_deref());
        if let Some(related) = &event.related {
            m.message(13, |m| reference(m, related));
        }
        m.optional(14, event.reporting_component.as_deref());
        m.optional(15, event.reporting_instance.as_deref());
    })
}

/// `event` as a message of events.k8s.io/v1, without what is deprecated there.
pub(crate) fn events_v1(event: &Event) -> Vec<u8> {
    envelope("events.k8s.io/v1", |m| {
        m.message(1, |m| metadata(m, &event.metadata));
        let event_time = event.event_time.as_ref().map(|time| time.0);
        m.time(2, event_time, Precision::Micros);
        series(m, 3, event.series.as_ref());
        m.optional(4, event.reporting_component.as_deref());
        m.optional(5, event.reporting_instance.as_deref());
        m.optional(6, event.action.as_deref());
        m.optional(7, event.reason.as_deref());
        m.message(8, |m| reference(m, &event.involved_object));
        if let Some(related) = &event.related {
            m.message(9, |m| reference(m, related));
        }
        m.optional(10, event.message.as_deref());
        m.optional(11, event.type_.as_deref());
    })
}

fn envelope(api_version: &str, message: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    let mut unknown = Message { out };
    unknown.message(1, |m| {
        m.text(1, api_version);
        m.text(2, "Event");
    });
    unknown.message(2, message);
    unknown.out
}

fn series(m: &mut Message, field: u32, series: Option<&EventSeries>) {
    if let Some(series) = series {
        m.message(field, |m| {
            m.number(1, series.count.unwrap_or(0).into());
            let last = series.last_observed_time.as_ref().map(|time| time.0);
            m.time(2, last, Precision::Micros);
        });
    }
}

fn reference(m: &mut Message, reference: &ObjectReference) {
    m.optional(1, reference.kind.as_deref());
    m.optional(2, reference.namespace.as_deref());
    m.optional(3, reference.name.as_deref());
    m.optional(4, reference.uid.as_deref());
    m.optional(5, reference.api_version.as_deref());
    m.optional(6, reference.resource_version.as_deref());
    m.optional(7, reference.field_path.as_deref());
}

fn metadata(m: &mut Message, meta: &ObjectMeta) {
    m.optional(1, meta.name.as_deref());
    m.optional(2, meta.generate_name.as_deref());
    m.optional(3, meta.namespace.as_deref());
    m.optional(4, meta.self_link.as_deref());
    m.optional(5, meta.uid.as_deref());
    m.optional(6, meta.resource_version.as_deref());
    m.number(7, meta.generation.unwrap_or(0));
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    m.time(8, created, Precision::Seconds);
    if let Some(deleted) = &meta.deletion_timestamp {
        m.time(9, Some(deleted.0), Precision::Seconds);
    }
    if let Some(seconds) = meta.deletion_grace_period_seconds {
        m.varint(10, seconds);
    }
    m.map(11, meta.labels.as_ref());
    m.map(12, meta.annotations.as_ref());
    for owner in meta.owner_references.iter().flatten() {
        m.message(13, |m| owner_reference(m, owner));
    }
    for finalizer in meta.finalizers.iter().flatten() {
        m.text(14, finalizer);
    }
    for entry in meta.managed_fields.iter().flatten() {
        m.message(17, |m| managed_fields(m, entry));
    }
}

fn owner_reference(m: &mut Message, owner: &OwnerReference) {
    m.optional(1, Some(&owner.kind));
    m.optional(3, Some(&owner.name));
    m.optional(4, Some(&owner.uid));
    m.optional(5, Some(&owner.api_version));
    if let Some(controller) = owner.controller {
        m.varint(6, controller.into());
    }
    if let Some(block) = owner.block_owner_deletion {
        m.varint(7, block.into());
    }
}

fn managed_fields(m: &mut Message, entry: &ManagedFieldsEntry) {
    m.optional(1, entry.manager.as_deref());
    m.optional(2, entry.operation.as_deref());
    m.optional(3, entry.api_version.as_deref());
    if let Some(time) = &entry.time {
        m.time(4, Some(time.0), Precision::Seconds);
    }
    m.optional(6, entry.fields_type.as_deref());
    if let Some(fields) = &entry.fields_v1 {
        m.message(7, |m| m.text(1, &fields.0.to_string()));
    }
    m.optional(8, entry.subresource.as_deref());
}

/// The types of fields in use, as the wire knows them.
const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// A message being written.
struct Message {
    out: Vec<u8>,
}

impl Message {
    fn key(&mut self, field: u32, wire_type: u32) {
        put_varint(&mut self.out, (field << 3 | wire_type).into());
    }

    /// A string, empty or not.
    fn text(&mut self, field: u32, text: &str) {
        self.key(field, LENGTH_DELIMITED);
        put_varint(&mut self.out, text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A string, unless empty.
    fn optional(&mut self, field: u32, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text(field, text);
        }
    }

    /// A number, 0 or not.
    fn varint(&mut self, field: u32, number: i64) {
        self.key(field, VARINT);
        // Negative ones as ten bytes, whatever their type.
        put_varint(&mut self.out, number.cast_unsigned());
    }

    /// A number, unless 0.
    fn number(&mut self, field: u32, number: i64) {
        if number != 0 {
            self.varint(field, number);
        }
    }

    /// A time, unless it is missing.
    fn time(&mut self, field: u32, time: Option<Timestamp>, precision: Precision) {
        let Some(time) = time.and_then(set) else {
            return;
        };
        // jiff counts the fraction from zero, the wire from below.
        let nanos = time.as_nanosecond();
        let (second, nanos) = (
            nanos.div_euclid(1_000_000_000),
            nanos.rem_euclid(1_000_000_000),
        );
        let nanos = match precision {
            Precision::Seconds => 0,
            Precision::Micros => nanos - nanos % 1000,
        };
        self.message(field, |m| {
            // Within the years that a Timestamp can be in.
            m.varint(1, i64::try_from(second).unwrap_or_default());
            m.varint(2, i64::try_from(nanos).unwrap_or_default());
        });
    }

    /// A map of strings.
    fn map(&mut self, field: u32, map: Option<&BTreeMap<String, String>>) {
        for (key, value) in map.into_iter().flatten() {
            self.message(field, |m| {
                m.text(1, key);
                m.text(2, value);
            });
        }
    }

    /// A message, empty or not.
    fn message(&mut self, field: u32, members: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH_DELIMITED);
        let start = self.out.len();
        members(self);
        // Its length stands before it and is only known now: what is written moves, by a byte or
        // two.
        let mut length = Vec::with_capacity(5);
        put_varint(&mut length, (self.out.len() - start) as u64);
        self.out.splice(start..start, length);
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        // The low seven bits, and that more follow.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// What `Marshal` of k8s.io/api 0.36 makes of the event below as core/v1, and of the same as
    /// events.k8s.io/v1.
    const METADATA: &str = concat!(
        "0a99010a016e1201671a026e732201732a017532013138034208088081c8ac0610004a08088181c8ac06100050005a060a016c12013162060a016112",
        "013162050a016212006a130a03506f641a01702201712a027631300138007201667201658a01390a016d12065570646174651a0276312208088281c8",
        "ac06100032084669656c647356313a0c0a0a7b22663a61223a7b7d7d4206737461747573",
    );
    const CORE: &str = concat!(
        "121c0a03506f6412026e731a01702201712a0276313201373a04737065631a017222016d2a060a0163120168320d08ffffffffffffffffff0110003a",
        "08088481c8ac06100040feffffffffffffffff014a064e6f726d616c5209088581c8ac0610f02e5a150802121108ffffffffffffffffff011080cab5",
        "ee0162036163746a190a044e6f64651201781a017922017a2a0276313201383a0177720272637a027269",
    );
    const EVENTS: &str = concat!(
        "1209088581c8ac0610f02e1a150802121108ffffffffffffffffff011080cab5ee01220272632a02726932036163743a0172421c0a03506f6412026e",
        "731a01702201712a0276313201373a04737065634a190a044e6f64651201781a017922017a2a0276313201383a017752016d5a064e6f726d616c6204",
        "0a0012006a0072007800",
    );
    /// What is deprecated: an empty source, empty times and 0, which are equivalent to absent.
    const DEPRECATED: &str = "62040a0012006a0072007800";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    #[test]
    fn a_whole_event_has_the_bytes_of_go() {
        let whole = concat!(
            r#"{"metadata":{"name":"n","generateName":"g","namespace":"ns","selfLink":"s","uid":"u","resourceVersion":"1","#,
            r#""generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-01T00:00:01Z","deletionGracePeriodSeconds":0,"#,
            r#""labels":{"l":"1"},"annotations":{"a":"1","b":""},"#,
            r#""ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"q","controller":true,"blockOwnerDeletion":false}],"#,
            r#""finalizers":["f","e"],"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2024-01-01T00:00:02Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}},"subresource":"status"}]},"#,
            r#""involvedObject":{"kind":"Pod","namespace":"ns","name":"p","uid":"q","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec"},"reason":"r","message":"m","#,
            r#""source":{"component":"c","host":"h"},"firstTimestamp":"1969-12-31T23:59:59.9Z","lastTimestamp":"2024-01-01T00:00:04.9Z","count":-2,"type":"Normal","#,
            r#""eventTime":"2024-01-01T00:00:05.000006789Z","series":{"count":2,"lastObservedTime":"1969-12-31T23:59:59.500000Z"},"action":"act","#,
            r#""related":{"kind":"Node","namespace":"x","name":"y","uid":"z","apiVersion":"v1","resourceVersion":"8","fieldPath":"w"},"reportingComponent":"rc","reportingInstance":"ri"}"#,
        );
        let given: Event = serde_json::from_str(whole).unwrap();
        let type_meta = "0a0b0a02763112054576656e74";
        let message = format!("{METADATA}{CORE}");
        assert_eq!(
            hex(&event(&given)),
            format!("6b387300{type_meta}12{}{message}", length(&message))
        );
        let type_meta = "0a190a106576656e74732e6b38732e696f2f763112054576656e74";
        let message = format!("{METADATA}{EVENTS}");
        let message = message.strip_suffix(DEPRECATED).unwrap();
        assert_eq!(
            hex(&events_v1(&given)),
            format!("6b387300{type_meta}12{}{message}", length(message))
        );
    }

    fn length(hexadecimal: &str) -> String {
        let mut out = Vec::new();
        put_varint(&mut out, hexadecimal.len() as u64 / 2);
        hex(&out)
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let emptied = r#"{"metadata":{"name":"","labels":{},"generation":0},"reason":"","count":0,"firstTimestamp":"0001-01-01T00:00:00Z"}"#;
        let given: Event = serde_json::from_str(emptied).unwrap();
        // The envelope, the metadata and the object, which have nothing in them.
        assert_eq!(
            hex(&event(&given)),
            "6b3873000a0b0a02763112054576656e7412040a001200"
        );
        let given: Event =
            serde_json::from_str(r#"{"metadata":{},"involvedObject":{},"series":{},"related":{}}"#)
                .unwrap();
        assert_eq!(
            hex(&event(&given)),
            "6b3873000a0b0a02763112054576656e7412080a0012005a006a00"
        );
    }
}
