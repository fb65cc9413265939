//! Tests that the bytes are those of Go's encoders.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::*;
use crate::fields::Kind;
use crate::wire::put_varint;

fn sent(given: &str) -> String {
    let given: Event = serde_json::from_str(given).unwrap();
    String::from_utf8(json(EventApi::Core, given)).unwrap()
}

/// Each row is the result of `json.Marshal` of k8s.io/api/core/v1.Event, with `kind` and
/// `apiVersion` set.
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

/// The result of `Marshal` of k8s.io/api 0.36 for the event below. The event is in core/v1, and the
/// same event in events.k8s.io/v1.
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
/// Deprecated fields: an empty source, empty times and 0, which mean the same as absent fields.
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
        hex(&protobuf(EventApi::Core, given.clone())),
        format!("6b387300{type_meta}12{}{message}", length(&message))
    );
    let type_meta = "0a190a106576656e74732e6b38732e696f2f763112054576656e74";
    let message = format!("{METADATA}{EVENTS}");
    let message = message.strip_suffix(DEPRECATED).unwrap();
    assert_eq!(
        hex(&protobuf(EventApi::Events, given)),
        format!("6b387300{type_meta}12{}{message}", length(message))
    );
}

fn length(hexadecimal: &str) -> String {
    let mut out = Vec::new();
    put_varint(hexadecimal.len() as u64 / 2, &mut out);
    hex(&out)
}

#[test]
fn what_is_empty_is_left_out() {
    let emptied = r#"{"metadata":{"name":"","labels":{},"generation":0},"reason":"","count":0,"firstTimestamp":"0001-01-01T00:00:00Z"}"#;
    let given: Event = serde_json::from_str(emptied).unwrap();
    // The envelope, with an empty metadata and an empty object.
    assert_eq!(
        hex(&protobuf(EventApi::Core, given.clone())),
        "6b3873000a0b0a02763112054576656e7412040a001200"
    );
    let given: Event =
        serde_json::from_str(r#"{"metadata":{},"involvedObject":{},"series":{},"related":{}}"#)
            .unwrap();
    assert_eq!(
        hex(&protobuf(EventApi::Core, given.clone())),
        "6b3873000a0b0a02763112054576656e7412080a0012005a006a00"
    );
}

/// Each field alone, in both forms and versions.
#[test]
fn every_field_of_the_table_is_written() {
    fn walk(of: &Type, around: &dyn Fn(Json) -> Json, each: &mut dyn FnMut(&Field, Json)) {
        for field in of.fields {
            let name = field.name();
            let value = match field.kind {
                Kind::Text => json!("x"),
                Kind::Int32 | Kind::Int64 => json!(7),
                Kind::Bool => json!(true),
                Kind::Time => json!("2024-05-01T10:00:00Z"),
                Kind::MicroTime => json!("2024-05-01T10:00:00.000001Z"),
                Kind::Map => json!({"k": "v"}),
                Kind::Set => json!(["x"]),
                Kind::Json => json!({"f:a": {}}),
                Kind::Object(inner) => {
                    walk(inner, &|value| around(json!({name: value})), each);
                    continue;
                }
                Kind::List(inner, _) => {
                    walk(inner, &|value| around(json!({name: [value]})), each);
                    continue;
                }
            };
            each(field, around(json!({name: value})));
        }
    }
    walk(&core_v1::EVENT, &|event| event, &mut |field, document| {
        let event: Event = serde_json::from_value(document.clone()).unwrap();
        for api in [EventApi::Core, EventApi::Events] {
            let [with, without] = [event.clone(), Event::default()];
            let top = document.as_object().unwrap().keys().next().unwrap();
            let written = table(api)
                .fields
                .iter()
                .find(|field| field.stored == core_v1::EVENT.number(top))
                .unwrap();
            let is_there = !written.name().starts_with("deprecated");
            let text: Json = serde_json::from_slice(&json(api, with.clone())).unwrap();
            let shown = text[written.name()].to_string();
            let expected = &document[top];
            // An owner has fields that are always written, so the field may be one of several in
            // the text.
            let same = *expected == text[written.name()] || shown.contains(field.name());
            assert_eq!(same, is_there, "{document} {text}");
            let longer = protobuf(api, with).len() > protobuf(api, without).len();
            assert_eq!(longer, is_there, "{document}");
        }
    });
}
