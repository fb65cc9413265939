//! Test that walks the table of fields: each field alone, in every form and both versions.

use serde_json::{Value, json};
use tidings_core::fields::{Field, Kind, Type};

use super::stored::StoredEvent;
use super::*;
use crate::managed::compare::compare;
use crate::managed::declares;

/// A sample value for a field that holds no objects.
fn sample(kind: Kind) -> Value {
    match kind {
        Kind::Text => json!("x"),
        Kind::Int32 | Kind::Int64 => json!(7),
        Kind::Bool => json!(true),
        Kind::Time => json!("2024-05-01T10:00:00Z"),
        Kind::MicroTime => json!("2024-05-01T10:00:00.000001Z"),
        Kind::Map => json!({"k": "v"}),
        Kind::Set => json!(["x"]),
        Kind::Json => json!({"f:a": {}}),
        Kind::Object(_) | Kind::List(..) => json!({}),
    }
}

/// Calls `each` for each field that holds no objects. It gets a pointer to the field, its value,
/// and the JSON of an event with nothing else.
fn walk(
    of: &Type,
    pointer: &str,
    around: &dyn Fn(Value) -> Value,
    each: &mut dyn FnMut(&Field, &str, Value, Value),
) {
    for field in of.fields {
        let name = field.name();
        let place = format!("{pointer}/{name}");
        match field.kind {
            Kind::Object(inner) => {
                walk(inner, &place, &|value| around(json!({name: value})), each);
            }
            Kind::List(inner, _) => {
                let around = |value| around(json!({name: [value]}));
                walk(inner, &format!("{place}/0"), &around, each);
            }
            kind => {
                let value = sample(kind);
                each(field, &place, value.clone(), around(json!({name: value})));
            }
        }
    }
}

fn read(api: Api, document: &Value) -> Event {
    let mut reading = Reading::default();
    let (_, event) = read_event(api, document.clone(), &mut reading).unwrap();
    assert_eq!(reading.notes.texts, [""; 0], "{document}");
    assert_eq!(reading.complaint(), None, "{document}");
    event
}

#[test]
fn every_field_survives_every_form() {
    let mut fields = 0;
    for api in [Api::Core, Api::Events] {
        walk(
            api.event(),
            "",
            &|event| event,
            &mut |_, pointer, value, document| {
                fields += 1;
                let event = read(api, &document);
                assert_ne!(event, read(api, &json!({})), "{pointer}");

                let mut text = Vec::new();
                write_event(api, &event, false, &mut text);
                let written: Value = serde_json::from_slice(&text).unwrap();
                assert_eq!(written.pointer(pointer), Some(&value), "{pointer}");

                let enveloped = protobuf::open(&protobuf_event(api, event.clone()).into()).unwrap();
                let opened = read_protobuf_event(api, enveloped.raw).unwrap();
                assert_eq!(opened, event, "{pointer}");

                let mut kept = event.clone();
                let bytes = encode_stored(&mut kept);
                let mut stored = decode_stored(&bytes, 7).unwrap();
                if pointer.starts_with("/metadata/managedFields") {
                    assert!(StoredEvent::open(&bytes, 7).is_none());
                } else {
                    let in_place = StoredEvent::open(&bytes, 7).unwrap();
                    let (mut short, mut long) = (Vec::new(), Vec::new());
                    let written = in_place.write_json(api, true, &mut short);
                    assert_eq!(written, Some(()), "{pointer}");
                    write_event(api, &stored, true, &mut long);
                    assert_eq!(short, long, "{pointer}");
                    let mut message = Vec::new();
                    in_place.write_protobuf(api, &mut message).unwrap();
                    assert_eq!(read_protobuf_event(api, message.into()).unwrap(), stored);
                }
                stored.metadata.get_or_insert_default().resource_version = None;
                assert_eq!(stored, kept, "{pointer}");

                let unmanaged = pointer.starts_with("/metadata/managedFields/");
                assert_eq!(declares(api, pointer), !unmanaged, "{pointer}");
                assert!(!compare(api, &Event::default(), &event).written.is_empty() || unmanaged);
            },
        );
    }
    assert_eq!(fields, 2 * 54);
}
