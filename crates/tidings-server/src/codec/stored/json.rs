//! JSON straight from stored bytes, with no tree between: the same text as [`codec::write_event`](crate::codec) writes.
//!
//! The tables are those of [`super::super::objects`] with protobuf's field numbers; a test holds the two to each other.

use super::wire::{Message, Value};
use crate::codec::json::{write_integer, write_string};
use crate::codec::time::{write_micro_time, write_time};

/// A JSON member and the protobuf field it comes from.
pub(super) struct Entry(
    pub(super) &'static str,
    pub(super) usize,
    pub(super) Kind,
    pub(super) Rule,
);

pub(super) type Table = &'static [Entry];

pub(super) enum Kind {
    Text,
    Int32,
    Int64,
    Bool,
    Time,
    MicroTime,
    Object(Table),
    Objects(Table),
    Texts,
    Map,
    /// `resourceVersion`, which is not in the bytes.
    Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Always,
    /// Left out when empty.
    Omitted,
    /// Go's pointer: left out when unset.
    Pointer,
}

use Kind::{Bool, Int32, Int64, Map, MicroTime, Object, Objects, Text, Texts, Time, Version};
use Rule::{Always, Omitted, Pointer};

pub(super) const CORE_EVENT: Table = &[
    Entry("metadata", 1, Object(OBJECT_META), Always),
    Entry("involvedObject", 2, Object(REFERENCE), Always),
    Entry("reason", 3, Text, Omitted),
    Entry("message", 4, Text, Omitted),
    Entry("source", 5, Object(SOURCE), Always),
    Entry("firstTimestamp", 6, Time, Always),
    Entry("lastTimestamp", 7, Time, Always),
    Entry("count", 8, Int32, Omitted),
    Entry("type", 9, Text, Omitted),
    Entry("eventTime", 10, MicroTime, Always),
    Entry("series", 11, Object(CORE_SERIES), Omitted),
    Entry("action", 12, Text, Omitted),
    Entry("related", 13, Object(REFERENCE), Omitted),
    Entry("reportingComponent", 14, Text, Always),
    Entry("reportingInstance", 15, Text, Always),
];

/// The members of `events.k8s.io/v1`, from the fields of the stored core/v1 message.
pub(super) const EVENTS_EVENT: Table = &[
    Entry("metadata", 1, Object(OBJECT_META), Always),
    Entry("eventTime", 10, MicroTime, Always),
    Entry("series", 11, Object(EVENTS_SERIES), Omitted),
    Entry("reportingController", 14, Text, Omitted),
    Entry("reportingInstance", 15, Text, Omitted),
    Entry("action", 12, Text, Omitted),
    Entry("reason", 3, Text, Omitted),
    Entry("regarding", 2, Object(REFERENCE), Always),
    Entry("related", 13, Object(REFERENCE), Omitted),
    Entry("note", 4, Text, Omitted),
    Entry("type", 9, Text, Omitted),
    Entry("deprecatedSource", 5, Object(SOURCE), Always),
    Entry("deprecatedFirstTimestamp", 6, Time, Always),
    Entry("deprecatedLastTimestamp", 7, Time, Always),
    Entry("deprecatedCount", 8, Int32, Omitted),
];

const CORE_SERIES: Table = &[
    Entry("count", 1, Int32, Omitted),
    Entry("lastObservedTime", 2, MicroTime, Always),
];

const EVENTS_SERIES: Table = &[
    Entry("count", 1, Int32, Always),
    Entry("lastObservedTime", 2, MicroTime, Always),
];

const SOURCE: Table = &[
    Entry("component", 1, Text, Omitted),
    Entry("host", 2, Text, Omitted),
];

const REFERENCE: Table = &[
    Entry("kind", 1, Text, Omitted),
    Entry("namespace", 2, Text, Omitted),
    Entry("name", 3, Text, Omitted),
    Entry("uid", 4, Text, Omitted),
    Entry("apiVersion", 5, Text, Omitted),
    Entry("resourceVersion", 6, Text, Omitted),
    Entry("fieldPath", 7, Text, Omitted),
];

pub(super) const OBJECT_META: Table = &[
    Entry("name", 1, Text, Omitted),
    Entry("generateName", 2, Text, Omitted),
    Entry("namespace", 3, Text, Omitted),
    Entry("selfLink", 4, Text, Omitted),
    Entry("uid", 5, Text, Omitted),
    Entry("resourceVersion", 6, Version, Always),
    Entry("generation", 7, Int64, Omitted),
    Entry("creationTimestamp", 8, Time, Omitted),
    Entry("deletionTimestamp", 9, Time, Omitted),
    Entry("deletionGracePeriodSeconds", 10, Int64, Pointer),
    Entry("labels", 11, Map, Omitted),
    Entry("annotations", 12, Map, Omitted),
    Entry("ownerReferences", 13, Objects(OWNER_REFERENCE), Omitted),
    Entry("finalizers", 14, Texts, Omitted),
];

const OWNER_REFERENCE: Table = &[
    Entry("apiVersion", 5, Text, Always),
    Entry("kind", 1, Text, Always),
    Entry("name", 3, Text, Always),
    Entry("uid", 4, Text, Always),
    Entry("controller", 6, Bool, Omitted),
    Entry("blockOwnerDeletion", 7, Bool, Omitted),
];

/// Appends a message's members, each with a comma before it unless nothing is there yet.
pub(super) fn write_fields(
    table: Table,
    message: &Message<'_>,
    revision: u64,
    out: &mut Vec<u8>,
) -> Option<()> {
    for Entry(name, number, kind, rule) in table {
        let before = out.len();
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        if !write_value(kind, *number, *rule, message, revision, out)? {
            out.truncate(before);
        }
    }
    Some(())
}

/// Appends a value; false if it is one to be left out, and what was appended is to be taken back.
fn write_value(
    kind: &Kind,
    number: usize,
    rule: Rule,
    message: &Message<'_>,
    revision: u64,
    out: &mut Vec<u8>,
) -> Option<bool> {
    let always = rule == Always;
    let kept = match kind {
        Text => {
            let text = message.text(number)?;
            write_string(text, out);
            always || !text.is_empty()
        }
        Int32 | Int64 => {
            let value = message.get(number)?;
            let bits = value.map_or(Some(0), Value::number)?;
            let integer = match kind {
                Int32 => i64::from(bits as i32),
                _ => bits.cast_signed(),
            };
            write_integer(integer, out);
            always || integer != 0 || rule == Pointer && value.is_some()
        }
        Bool => {
            let value = message.get(number)?;
            let set = value.map_or(Some(0), Value::number)? != 0;
            out.extend_from_slice(if set { b"true" } else { b"false" });
            always || value.is_some()
        }
        Time | MicroTime => {
            let moment = message.time(number)?;
            match (moment, kind) {
                (None, _) => out.extend_from_slice(b"null"),
                (Some(moment), Time) => write_time(moment, out),
                (Some(moment), _) => write_micro_time(moment, out),
            }
            always || moment.is_some()
        }
        Object(table) => {
            let inner = message.message(number)?;
            if always || inner.is_some() {
                write_object(table, &inner.unwrap_or(Message::EMPTY), revision, out)?;
            }
            always || inner.is_some()
        }
        Objects(table) => {
            write_each(message, number, out, |bytes, out| {
                write_object(table, &Message::read(bytes)?, revision, out)
            })?;
            always || message.has(number)
        }
        Texts => {
            write_each(message, number, out, |bytes, out| {
                write_string(std::str::from_utf8(bytes).ok()?, out);
                Some(())
            })?;
            always || message.has(number)
        }
        Map => {
            write_map(message, number, out)?;
            always || message.has(number)
        }
        Version => {
            out.push(b'"');
            write_integer(i64::try_from(revision).ok()?, out);
            out.push(b'"');
            true
        }
    };
    Some(kept)
}

pub(super) fn write_object(
    table: Table,
    message: &Message<'_>,
    revision: u64,
    out: &mut Vec<u8>,
) -> Option<()> {
    out.push(b'{');
    write_fields(table, message, revision, out)?;
    out.push(b'}');
    Some(())
}

fn write_each(
    message: &Message<'_>,
    number: usize,
    out: &mut Vec<u8>,
    write: impl Fn(&[u8], &mut Vec<u8>) -> Option<()>,
) -> Option<()> {
    out.push(b'[');
    for (index, bytes) in message.each(number).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(bytes?, out)?;
    }
    out.push(b']');
    Some(())
}

/// Maps are written sorted by every API server; one that is not has to be sorted by the full decoder.
fn write_map(message: &Message<'_>, number: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut last = None;
    out.push(b'{');
    for entry in message.each(number) {
        let entry = Message::read(entry?)?;
        let (key, value) = (entry.text(1)?, entry.text(2)?);
        match last {
            None => {}
            Some(last) if last < key => out.push(b','),
            Some(_) => return None,
        }
        last = Some(key);
        write_string(key, out);
        out.push(b':');
        write_string(value, out);
    }
    out.push(b'}');
    Some(())
}
