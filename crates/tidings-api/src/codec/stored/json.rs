//! JSON straight from stored bytes, with no tree between: the same text as
//! [`codec::write_event`](crate::codec) writes.
//!
//! The tables are those of [`super::super::objects`] with protobuf's field numbers; a test holds
//! the two to each other.

use super::wire::Message;
use crate::codec::json::{write_integer, write_string};
use crate::codec::time::{write_micro_time, write_time};

/// A JSON member, as `member!` writes its name, and the protobuf field it comes from.
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

/// A name as it stands in an object, behind another member.
macro_rules! member {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

pub(super) const CORE_EVENT: Table = &[
    Entry(member!("metadata"), 1, Object(OBJECT_META), Always),
    Entry(member!("involvedObject"), 2, Object(REFERENCE), Always),
    Entry(member!("reason"), 3, Text, Omitted),
    Entry(member!("message"), 4, Text, Omitted),
    Entry(member!("source"), 5, Object(SOURCE), Always),
    Entry(member!("firstTimestamp"), 6, Time, Always),
    Entry(member!("lastTimestamp"), 7, Time, Always),
    Entry(member!("count"), 8, Int32, Omitted),
    Entry(member!("type"), 9, Text, Omitted),
    Entry(member!("eventTime"), 10, MicroTime, Always),
    Entry(member!("series"), 11, Object(CORE_SERIES), Omitted),
    Entry(member!("action"), 12, Text, Omitted),
    Entry(member!("related"), 13, Object(REFERENCE), Omitted),
    Entry(member!("reportingComponent"), 14, Text, Always),
    Entry(member!("reportingInstance"), 15, Text, Always),
];

/// The members of `events.k8s.io/v1`, from the fields of the stored core/v1 message.
pub(super) const EVENTS_EVENT: Table = &[
    Entry(member!("metadata"), 1, Object(OBJECT_META), Always),
    Entry(member!("eventTime"), 10, MicroTime, Always),
    Entry(member!("series"), 11, Object(EVENTS_SERIES), Omitted),
    Entry(member!("reportingController"), 14, Text, Omitted),
    Entry(member!("reportingInstance"), 15, Text, Omitted),
    Entry(member!("action"), 12, Text, Omitted),
    Entry(member!("reason"), 3, Text, Omitted),
    Entry(member!("regarding"), 2, Object(REFERENCE), Always),
    Entry(member!("related"), 13, Object(REFERENCE), Omitted),
    Entry(member!("note"), 4, Text, Omitted),
    Entry(member!("type"), 9, Text, Omitted),
    Entry(member!("deprecatedSource"), 5, Object(SOURCE), Always),
    Entry(member!("deprecatedFirstTimestamp"), 6, Time, Always),
    Entry(member!("deprecatedLastTimestamp"), 7, Time, Always),
    Entry(member!("deprecatedCount"), 8, Int32, Omitted),
];

const CORE_SERIES: Table = &[
    Entry(member!("count"), 1, Int32, Omitted),
    Entry(member!("lastObservedTime"), 2, MicroTime, Always),
];

const EVENTS_SERIES: Table = &[
    Entry(member!("count"), 1, Int32, Always),
    Entry(member!("lastObservedTime"), 2, MicroTime, Always),
];

const SOURCE: Table = &[
    Entry(member!("component"), 1, Text, Omitted),
    Entry(member!("host"), 2, Text, Omitted),
];

const REFERENCE: Table = &[
    Entry(member!("kind"), 1, Text, Omitted),
    Entry(member!("namespace"), 2, Text, Omitted),
    Entry(member!("name"), 3, Text, Omitted),
    Entry(member!("uid"), 4, Text, Omitted),
    Entry(member!("apiVersion"), 5, Text, Omitted),
    Entry(member!("resourceVersion"), 6, Text, Omitted),
    Entry(member!("fieldPath"), 7, Text, Omitted),
];

pub(super) const OBJECT_META: Table = &[
    Entry(member!("name"), 1, Text, Omitted),
    Entry(member!("generateName"), 2, Text, Omitted),
    Entry(member!("namespace"), 3, Text, Omitted),
    Entry(member!("selfLink"), 4, Text, Omitted),
    Entry(member!("uid"), 5, Text, Omitted),
    Entry(member!("resourceVersion"), 6, Version, Always),
    Entry(member!("generation"), 7, Int64, Omitted),
    Entry(member!("creationTimestamp"), 8, Time, Omitted),
    Entry(member!("deletionTimestamp"), 9, Time, Omitted),
    Entry(member!("deletionGracePeriodSeconds"), 10, Int64, Pointer),
    Entry(member!("labels"), 11, Map, Omitted),
    Entry(member!("annotations"), 12, Map, Omitted),
    Entry(
        member!("ownerReferences"),
        13,
        Objects(OWNER_REFERENCE),
        Omitted,
    ),
    Entry(member!("finalizers"), 14, Texts, Omitted),
];

const OWNER_REFERENCE: Table = &[
    Entry(member!("apiVersion"), 5, Text, Always),
    Entry(member!("kind"), 1, Text, Always),
    Entry(member!("name"), 3, Text, Always),
    Entry(member!("uid"), 4, Text, Always),
    Entry(member!("controller"), 6, Bool, Omitted),
    Entry(member!("blockOwnerDeletion"), 7, Bool, Omitted),
];

/// Appends a message's members, each with a comma before it unless nothing is there yet.
pub(super) fn write_fields(
    table: Table,
    message: &Message<'_>,
    revision: u64,
    out: &mut Vec<u8>,
) -> Option<()> {
    for Entry(name, number, kind, rule) in table {
        if *rule != Always && !message.has(*number) {
            continue;
        }
        let before = out.len();
        let first = out.last() == Some(&b'{');
        out.extend_from_slice(name.get(usize::from(first)..).unwrap_or(name).as_bytes());
        if !write_value(kind, *number, *rule, message, revision, out)? {
            out.truncate(before);
        }
    }
    Some(())
}

/// Appends the value of a field that is there, or is always written; false if it is empty and to be
/// left out, so that what was appended is to be taken back.
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
            let bits = message.number(number)?;
            let integer = match kind {
                Int32 => i64::from(bits as i32),
                _ => bits.cast_signed(),
            };
            write_integer(integer, out);
            always || integer != 0 || rule == Pointer
        }
        Bool => {
            let set = message.number(number)? != 0;
            out.extend_from_slice(if set { b"true" } else { b"false" });
            true
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
            let inner = message.message(number)?.unwrap_or(Message::EMPTY);
            write_object(table, &inner, revision, out)?;
            true
        }
        Objects(table) => {
            write_each(message, number, out, |bytes, out| {
                write_object(table, &Message::read(bytes)?, revision, out)
            })?;
            true
        }
        Texts => {
            write_each(message, number, out, |bytes, out| {
                write_string(std::str::from_utf8(bytes).ok()?, out);
                Some(())
            })?;
            true
        }
        Map => {
            write_map(message, number, out)?;
            true
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

/// Maps are written sorted by every API server; one that is not has to be sorted by the full
/// decoder.
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
