//! Reads and writes Kubernetes protobuf. It is implemented again here from the published schema, so
//! that no server's own codec is used to judge it. A message becomes a document with the names of
//! its JSON; an unknown field keeps its number.

use super::tree::Tree;

/// The bytes before every object outside a watch.
const MAGIC: &[u8] = b"k8s\0";

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    /// A time, as seconds and nanoseconds.
    Time,
    Map,
    Message(&'static [Field]),
    /// Any object, in its envelope.
    Object,
}

/// A field of a message: its number, its name, whether it is repeated, and its type.
type Field = (u64, &'static str, bool, Kind);

const OWNER: &[Field] = &[
    (5, "apiVersion", false, Kind::Text),
    (1, "kind", false, Kind::Text),
    (3, "name", false, Kind::Text),
    (4, "uid", false, Kind::Text),
    (6, "controller", false, Kind::Flag),
    (7, "blockOwnerDeletion", false, Kind::Flag),
];

const FIELDS: &[Field] = &[(1, "raw", false, Kind::Text)];

const MANAGED: &[Field] = &[
    (1, "manager", false, Kind::Text),
    (2, "operation", false, Kind::Text),
    (3, "apiVersion", false, Kind::Text),
    (4, "time", false, Kind::Time),
    (6, "fieldsType", false, Kind::Text),
    (7, "fieldsV1", false, Kind::Message(FIELDS)),
    (8, "subresource", false, Kind::Text),
];

const OBJECT_META: &[Field] = &[
    (1, "name", false, Kind::Text),
    (2, "generateName", false, Kind::Text),
    (3, "namespace", false, Kind::Text),
    (4, "selfLink", false, Kind::Text),
    (5, "uid", false, Kind::Text),
    (6, "resourceVersion", false, Kind::Text),
    (7, "generation", false, Kind::Number),
    (8, "creationTimestamp", false, Kind::Time),
    (9, "deletionTimestamp", false, Kind::Time),
    (10, "deletionGracePeriodSeconds", false, Kind::Number),
    (11, "labels", true, Kind::Map),
    (12, "annotations", true, Kind::Map),
    (13, "ownerReferences", true, Kind::Message(OWNER)),
    (14, "finalizers", true, Kind::Text),
    (17, "managedFields", true, Kind::Message(MANAGED)),
];

const LIST_META: &[Field] = &[
    (1, "selfLink", false, Kind::Text),
    (2, "resourceVersion", false, Kind::Text),
    (3, "continue", false, Kind::Text),
    (4, "remainingItemCount", false, Kind::Number),
];

const REFERENCE: &[Field] = &[
    (1, "kind", false, Kind::Text),
    (2, "namespace", false, Kind::Text),
    (3, "name", false, Kind::Text),
    (4, "uid", false, Kind::Text),
    (5, "apiVersion", false, Kind::Text),
    (6, "resourceVersion", false, Kind::Text),
    (7, "fieldPath", false, Kind::Text),
];

const SOURCE: &[Field] = &[
    (1, "component", false, Kind::Text),
    (2, "host", false, Kind::Text),
];

const SERIES: &[Field] = &[
    (1, "count", false, Kind::Number),
    (2, "lastObservedTime", false, Kind::Time),
];

const CORE_EVENT: &[Field] = &[
    (1, "metadata", false, Kind::Message(OBJECT_META)),
    (2, "involvedObject", false, Kind::Message(REFERENCE)),
    (3, "reason", false, Kind::Text),
    (4, "message", false, Kind::Text),
    (5, "source", false, Kind::Message(SOURCE)),
    (6, "firstTimestamp", false, Kind::Time),
    (7, "lastTimestamp", false, Kind::Time),
    (8, "count", false, Kind::Number),
    (9, "type", false, Kind::Text),
    (10, "eventTime", false, Kind::Time),
    (11, "series", false, Kind::Message(SERIES)),
    (12, "action", false, Kind::Text),
    (13, "related", false, Kind::Message(REFERENCE)),
    (14, "reportingComponent", false, Kind::Text),
    (15, "reportingInstance", false, Kind::Text),
];

const CORE_LIST: &[Field] = &[
    (1, "metadata", false, Kind::Message(LIST_META)),
    (2, "items", true, Kind::Message(CORE_EVENT)),
];

const EVENT: &[Field] = &[
    (1, "metadata", false, Kind::Message(OBJECT_META)),
    (2, "eventTime", false, Kind::Time),
    (3, "series", false, Kind::Message(SERIES)),
    (4, "reportingController", false, Kind::Text),
    (5, "reportingInstance", false, Kind::Text),
    (6, "action", false, Kind::Text),
    (7, "reason", false, Kind::Text),
    (8, "regarding", false, Kind::Message(REFERENCE)),
    (9, "related", false, Kind::Message(REFERENCE)),
    (10, "note", false, Kind::Text),
    (11, "type", false, Kind::Text),
    (12, "deprecatedSource", false, Kind::Message(SOURCE)),
    (13, "deprecatedFirstTimestamp", false, Kind::Time),
    (14, "deprecatedLastTimestamp", false, Kind::Time),
    (15, "deprecatedCount", false, Kind::Number),
];

const EVENT_LIST: &[Field] = &[
    (1, "metadata", false, Kind::Message(LIST_META)),
    (2, "items", true, Kind::Message(EVENT)),
];

const PARTIAL: &[Field] = &[(1, "metadata", false, Kind::Message(OBJECT_META))];

const PARTIAL_LIST: &[Field] = &[
    (1, "metadata", false, Kind::Message(LIST_META)),
    (2, "items", true, Kind::Message(PARTIAL)),
];

const CAUSE: &[Field] = &[
    (1, "reason", false, Kind::Text),
    (2, "message", false, Kind::Text),
    (3, "field", false, Kind::Text),
];

const DETAILS: &[Field] = &[
    (1, "name", false, Kind::Text),
    (2, "group", false, Kind::Text),
    (3, "kind", false, Kind::Text),
    (6, "uid", false, Kind::Text),
    (4, "causes", true, Kind::Message(CAUSE)),
    (5, "retryAfterSeconds", false, Kind::Number),
];

const STATUS: &[Field] = &[
    (1, "metadata", false, Kind::Message(LIST_META)),
    (2, "status", false, Kind::Text),
    (3, "message", false, Kind::Text),
    (4, "reason", false, Kind::Text),
    (5, "details", false, Kind::Message(DETAILS)),
    (6, "code", false, Kind::Number),
];

const PRECONDITIONS: &[Field] = &[
    (1, "uid", false, Kind::Text),
    (2, "resourceVersion", false, Kind::Text),
];

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", false, Kind::Number),
    (2, "preconditions", false, Kind::Message(PRECONDITIONS)),
    (3, "orphanDependents", false, Kind::Flag),
    (4, "propagationPolicy", false, Kind::Text),
    (5, "dryRun", true, Kind::Text),
];

const WATCH_EVENT: &[Field] = &[
    (1, "type", false, Kind::Text),
    (2, "object", false, Kind::Message(RAW)),
];
const RAW: &[Field] = &[(1, "raw", false, Kind::Object)];

const TYPE_META: &[Field] = &[
    (1, "apiVersion", false, Kind::Text),
    (2, "kind", false, Kind::Text),
];

fn schema(api_version: &str, kind: &str) -> &'static [Field] {
    match (api_version, kind) {
        ("v1", "Event") => CORE_EVENT,
        ("v1", "EventList") => CORE_LIST,
        ("events.k8s.io/v1", "Event") => EVENT,
        ("events.k8s.io/v1", "EventList") => EVENT_LIST,
        (_, "Status") => STATUS,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        (_, "PartialObjectMetadata") => PARTIAL,
        (_, "PartialObjectMetadataList") => PARTIAL_LIST,
        _ => &[],
    }
}

/// Reads an object with its envelope.
pub(crate) fn read(bytes: &[u8]) -> Option<Tree> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let (mut kinds, mut raw, mut others) = (Vec::new(), &[][..], Vec::new());
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Wire::Bytes(bytes)) => kinds = message(bytes, TYPE_META)?,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // Usually these two are empty: the encoding and the type of the content.
            (_, Wire::Bytes([])) => {}
            (number, wire) => others.push((number.to_string(), wire.generic())),
        }
    }
    let kinds = Tree::Map(kinds);
    let text = |key: &str| kinds.get(key).and_then(Tree::text).unwrap_or_default();
    let mut entries = vec![
        ("kind".to_owned(), text("kind").into()),
        ("apiVersion".to_owned(), text("apiVersion").into()),
    ];
    entries.extend(message(raw, schema(text("apiVersion"), text("kind")))?);
    entries.extend(others);
    Some(Tree::Map(entries))
}

/// Reads a watch: frames, each of which begins with its length.
pub(crate) fn read_frames(mut bytes: &[u8]) -> Option<Tree> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (frame, rest) = rest.split_at_checked(length)?;
        frames.push(Tree::Map(message(frame, WATCH_EVENT)?));
        bytes = rest;
    }
    Some(Tree::List(frames))
}

/// Writes an object with its envelope. Unknown fields are left out.
pub(crate) fn write(object: &Tree) -> Vec<u8> {
    let text = |key: &str| object.get(key).and_then(Tree::text).unwrap_or_default();
    let mut kinds = Vec::new();
    put_bytes(1, text("apiVersion").as_bytes(), &mut kinds);
    put_bytes(2, text("kind").as_bytes(), &mut kinds);
    let mut bytes = MAGIC.to_vec();
    put_bytes(1, &kinds, &mut bytes);
    let raw = write_message(object, schema(text("apiVersion"), text("kind")));
    put_bytes(2, &raw, &mut bytes);
    bytes
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    /// The value of a field whose message has no schema here.
    fn generic(&self) -> Tree {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).as_ref().into(),
        }
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(rest)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (bytes, behind) = rest.split_at_checked(length)?;
            *rest = behind;
            Wire::Bytes(bytes)
        }
        // Kubernetes has no fixed-size fields in these messages.
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn message(mut rest: &[u8], schema: &[Field]) -> Option<Vec<(String, Tree)>> {
    let mut entries: Vec<(String, Tree)> = Vec::new();
    while !rest.is_empty() {
        let (number, wire) = field(&mut rest)?;
        let Some((_, name, several, kind)) = schema.iter().find(|field| field.0 == number) else {
            entries.push((number.to_string(), wire.generic()));
            continue;
        };
        let value = value(&wire, *kind)?;
        // A server may write empty fields or leave them out; the meaning is the same.
        if !several && is_empty(&value) {
            continue;
        }
        let known = entries.iter_mut().find(|(entry, _)| entry == name);
        match (known.map(|(_, value)| value), value) {
            (Some(Tree::Map(map)), Tree::Map(more)) if matches!(kind, Kind::Map) => {
                map.extend(more);
            }
            (Some(Tree::List(items)), value) if *several => items.push(value),
            (Some(known), value) => *known = value,
            (None, value) if *several && !matches!(kind, Kind::Map) => {
                entries.push(((*name).to_owned(), Tree::List(vec![value])));
            }
            (None, value) => entries.push(((*name).to_owned(), value)),
        }
    }
    Some(entries)
}

fn is_empty(value: &Tree) -> bool {
    match value {
        Tree::Null | Tree::Bool(false) => true,
        Tree::Number(number) => number == "0",
        Tree::Text(text) => text.is_empty(),
        _ => false,
    }
}

fn value(wire: &Wire<'_>, kind: Kind) -> Option<Tree> {
    Some(match (kind, wire) {
        (Kind::Text, Wire::Bytes(bytes)) => String::from_utf8_lossy(bytes).as_ref().into(),
        (Kind::Number, Wire::Number(number)) => Tree::Number(number.cast_signed().to_string()),
        (Kind::Flag, Wire::Number(number)) => Tree::Bool(*number != 0),
        (Kind::Time, Wire::Bytes([])) => Tree::Null,
        (Kind::Time, Wire::Bytes(bytes)) => {
            let (mut seconds, mut nanos) = (0, 0);
            let mut rest = *bytes;
            while !rest.is_empty() {
                match field(&mut rest)? {
                    (1, Wire::Number(number)) => seconds = number.cast_signed(),
                    (2, Wire::Number(number)) => nanos = number,
                    _ => return None,
                }
            }
            Tree::Text(format!("{seconds}s {nanos}ns"))
        }
        (Kind::Map, Wire::Bytes(bytes)) => {
            let (mut key, mut value) = (String::new(), Tree::from(""));
            let mut rest = *bytes;
            while !rest.is_empty() {
                match field(&mut rest)? {
                    (1, Wire::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
                    (2, wire) => value = wire.generic(),
                    _ => return None,
                }
            }
            Tree::Map(vec![(key, value)])
        }
        (Kind::Message(schema), Wire::Bytes(bytes)) => Tree::Map(message(bytes, schema)?),
        (Kind::Object, Wire::Bytes(bytes)) => read(bytes)?,
        _ => return None,
    })
}

fn write_message(object: &Tree, schema: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Tree::Map(entries) = object else {
        return bytes;
    };
    for (key, value) in entries {
        let Some((number, _, _, kind)) = schema.iter().find(|field| field.1 == key) else {
            continue;
        };
        match value {
            Tree::List(items) => items
                .iter()
                .for_each(|item| write_value(*number, item, *kind, &mut bytes)),
            value => write_value(*number, value, *kind, &mut bytes),
        }
    }
    bytes
}

fn write_value(number: u64, value: &Tree, kind: Kind, bytes: &mut Vec<u8>) {
    match (kind, value) {
        (Kind::Text, Tree::Text(text)) => put_bytes(number, text.as_bytes(), bytes),
        (Kind::Number, Tree::Number(value)) => {
            put_number(
                number,
                value.parse::<i64>().unwrap_or(0).cast_unsigned(),
                bytes,
            );
        }
        (Kind::Flag, Tree::Bool(flag)) => put_number(number, u64::from(*flag), bytes),
        (Kind::Time, Tree::Text(text)) => {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                let mut inner = Vec::new();
                put_number(1, time.as_second().cast_unsigned(), &mut inner);
                put_number(
                    2,
                    u64::from(time.subsec_nanosecond().unsigned_abs()),
                    &mut inner,
                );
                put_bytes(number, &inner, bytes);
            }
        }
        (Kind::Map, Tree::Map(entries)) => {
            for (key, value) in entries {
                let mut inner = Vec::new();
                put_bytes(1, key.as_bytes(), &mut inner);
                put_bytes(2, value.text().unwrap_or_default().as_bytes(), &mut inner);
                put_bytes(number, &inner, bytes);
            }
        }
        (Kind::Message(schema), value) => {
            put_bytes(number, &write_message(value, schema), bytes);
        }
        _ => {}
    }
}

fn put_bytes(number: u64, value: &[u8], bytes: &mut Vec<u8>) {
    put_varint(number << 3 | 2, bytes);
    put_varint(value.len() as u64, bytes);
    bytes.extend_from_slice(value);
}

fn put_number(number: u64, value: u64, bytes: &mut Vec<u8>) {
    put_varint(number << 3, bytes);
    put_varint(value, bytes);
}

fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let object: Tree = serde_json::from_str(
            r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"a","labels":{"b":"c","d":"e"},"finalizers":["x","y"]},
            "count":-3,"series":{"count":2},"source":{"component":"kubelet"}}"#,
        )
        .expect("valid JSON");
        assert_eq!(read(&write(&object)), Some(object));
    }

    #[test]
    fn what_is_broken_is_not_read() {
        let whole = write(
            &serde_json::from_str(r#"{"kind":"Event","apiVersion":"v1","reason":"abc"}"#)
                .expect("valid JSON"),
        );
        assert!(read(&whole).is_some());
        assert_eq!(read(&whole[..whole.len() - 1]), None);
        assert_eq!(read(b"{}"), None);
        assert_eq!(read_frames(&[0, 0, 0, 9, 1]), None);
    }
}
