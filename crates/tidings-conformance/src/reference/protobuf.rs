//! Reads and writes Kubernetes protobuf. It is implemented again here from the published schema, so
//! that no server's own codec is used to judge it. A message becomes a document with the names of
//! its JSON; an unknown field keeps its number.

use std::collections::HashMap;
use std::sync::LazyLock;

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
    /// Any object, in its envelope.
    Object,
    /// A message of this name.
    Message(&'static str),
}

struct Field {
    number: u64,
    name: &'static str,
    is_repeated: bool,
    kind: Kind,
}

/// The fields of each message. A line has a message, and the number, name and type of each field; a
/// text has no type, and a repeated field a star.
static SCHEMA: LazyLock<HashMap<&str, Vec<Field>>> = LazyLock::new(|| {
    let field = |text: &'static str| {
        let (number, rest) = text.split_once(' ')?;
        let (name, kind) = rest.split_once(' ').unwrap_or((rest, "text"));
        let once = kind.trim_end_matches('*');
        let number = number.parse().ok()?;
        Some(Field {
            number,
            name,
            is_repeated: once.len() < kind.len(),
            kind: match once {
                "text" => Kind::Text,
                "number" => Kind::Number,
                "flag" => Kind::Flag,
                "time" => Kind::Time,
                "map" => Kind::Map,
                "object" => Kind::Object,
                message => Kind::Message(message),
            },
        })
    };
    let messages = include_str!("schema.txt").lines().filter_map(|line| {
        let (message, fields) = line.split_once(": ")?;
        Some((message, fields.split(", ").filter_map(field).collect()))
    });
    messages.collect()
});

fn fields(message: &str) -> &'static [Field] {
    SCHEMA.get(message).map_or(&[], |fields| fields)
}

/// The fields of an object. Some kinds are the same in every group.
fn fields_of(api_version: &str, kind: &str) -> &'static [Field] {
    match fields(&format!("{api_version} {kind}")) {
        [] => fields(kind),
        fields => fields,
    }
}

/// Reads an object with its envelope.
pub(crate) fn read(bytes: &[u8]) -> Option<Tree> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let (mut kinds, mut raw, mut others) = (Vec::new(), &[][..], Vec::new());
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1, Wire::Bytes(bytes)) => kinds = message(bytes, fields("typeMeta"))?,
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
    entries.extend(message(raw, fields_of(text("apiVersion"), text("kind")))?);
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
        frames.push(Tree::Map(message(frame, fields("watch"))?));
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
    let raw = write_message(object, fields_of(text("apiVersion"), text("kind")));
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
        let Some(field) = schema.iter().find(|field| field.number == number) else {
            entries.push((number.to_string(), wire.generic()));
            continue;
        };
        let (name, several, kind) = (field.name, field.is_repeated, field.kind);
        let value = value(&wire, kind)?;
        // A server may write empty fields or leave them out; the meaning is the same.
        if !several && is_empty(&value) {
            continue;
        }
        let known = entries.iter_mut().find(|(entry, _)| entry == name);
        match (known.map(|(_, value)| value), value) {
            (Some(Tree::Map(map)), Tree::Map(more)) if matches!(kind, Kind::Map) => {
                map.extend(more);
            }
            (Some(Tree::List(items)), value) if several => items.push(value),
            (Some(known), value) => *known = value,
            (None, value) if several && !matches!(kind, Kind::Map) => {
                entries.push((name.to_owned(), Tree::List(vec![value])));
            }
            (None, value) => entries.push((name.to_owned(), value)),
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
        (Kind::Message(name), Wire::Bytes(bytes)) => Tree::Map(message(bytes, fields(name))?),
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
        let Some(field) = schema.iter().find(|field| field.name == key) else {
            continue;
        };
        let items = match value {
            Tree::List(items) => items,
            value => std::slice::from_ref(value),
        };
        for item in items {
            write_value(field.number, item, field.kind, &mut bytes);
        }
    }
    bytes
}

fn write_value(number: u64, value: &Tree, kind: Kind, bytes: &mut Vec<u8>) {
    match (kind, value) {
        (Kind::Text, Tree::Text(text)) => put_bytes(number, text.as_bytes(), bytes),
        (Kind::Number, Tree::Number(value)) => {
            let value = value.parse::<i64>().unwrap_or(0);
            put_number(number, value.cast_unsigned(), bytes);
        }
        (Kind::Flag, Tree::Bool(flag)) => put_number(number, u64::from(*flag), bytes),
        (Kind::Time, Tree::Text(text)) => {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                let mut inner = Vec::new();
                put_number(1, time.as_second().cast_unsigned(), &mut inner);
                let nanos = time.subsec_nanosecond().unsigned_abs();
                put_number(2, nanos.into(), &mut inner);
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
        (Kind::Message(name), value) => {
            put_bytes(number, &write_message(value, fields(name)), bytes);
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

    /// If a field of the schema were skipped, answers of the two servers that differ in it would
    /// count as equal.
    #[test]
    fn the_schema_is_read_whole() {
        let text = include_str!("schema.txt");
        assert_eq!(SCHEMA.len(), text.lines().count());
        let fields: usize = SCHEMA.values().map(Vec::len).sum();
        assert_eq!(fields, text.matches(", ").count() + text.lines().count());
        for field in SCHEMA.values().flatten() {
            if let Kind::Message(message) = field.kind {
                assert!(SCHEMA.contains_key(message), "{message}");
            }
        }
    }

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
