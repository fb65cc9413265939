//! Writes an object as Kubernetes protobuf, in the envelope that every API server accepts.
//!
//! The envelope is four magic bytes, then `runtime.Unknown`.
//!
//! Invariant: a reader finds the same event as in the JSON. Go's encoder also writes fields that
//! are empty; here they are left out, which reads the same. Where Go distinguishes absent from
//! empty (`series`, `related`, and optional fields of metadata), so does this.

use super::{Moment, Sink, Source};
use crate::fields::{Field, Kind, Rule, Type};

/// The first bytes of every enveloped message.
pub const MAGIC: &[u8] = b"k8s\0";

/// The wire types in use.
const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// The object of an API version, in an envelope.
pub(crate) fn envelope<S: Source>(api_version: &str, of: &Type, source: &S) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(MAGIC);
    put_message(1, &mut out, |out| {
        put_bytes(1, api_version.as_bytes(), out);
        put_bytes(2, of.name.as_bytes(), out);
        Some(())
    })?;
    put_message(2, &mut out, |out| put_fields(of, source, out))?;
    Some(out)
}

fn put_fields<S: Source>(of: &Type, source: &S, out: &mut Vec<u8>) -> Option<()> {
    of.by_number
        .iter()
        .try_for_each(|field| source.give(field, &mut Message { field, out }))
}

/// The message that a field is written to.
struct Message<'a> {
    field: &'a Field,
    out: &'a mut Vec<u8>,
}

impl Message<'_> {
    fn put_integer(&mut self, integer: i64) {
        put_integer(self.field.number, integer, self.out);
    }
}

impl Sink for Message<'_> {
    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            put_bytes(self.field.number, text.as_bytes(), self.out);
        }
    }

    fn integer(&mut self, integer: Option<i64>) {
        let omitted = self.field.rule != Rule::Pointer;
        if let Some(integer) = integer.filter(|integer| !omitted || *integer != 0) {
            self.put_integer(integer);
        }
    }

    fn boolean(&mut self, boolean: Option<bool>) {
        if let Some(boolean) = boolean {
            self.put_integer(boolean.into());
        }
    }

    fn time(&mut self, time: Option<Moment>) {
        let Some(time) = time.filter(|time| !time.is_zero()) else {
            return;
        };
        let nanos = match self.field.kind {
            Kind::MicroTime => time.truncated_to_micros().nanos,
            _ => 0,
        };
        put_message(self.field.number, self.out, |out| {
            put_integer(1, time.seconds, out);
            put_integer(2, nanos.into(), out);
            Some(())
        });
    }

    fn object<S: Source>(&mut self, object: Option<&S>) -> Option<()> {
        match object {
            Some(object) => self.item(object),
            None => Some(()),
        }
    }

    fn item<S: Source>(&mut self, item: &S) -> Option<()> {
        let (Kind::Object(of) | Kind::List(of, _)) = self.field.kind else {
            return None;
        };
        put_message(self.field.number, self.out, |out| put_fields(of, item, out))
    }

    fn text_item(&mut self, item: &str) {
        put_bytes(self.field.number, item.as_bytes(), self.out);
    }

    fn entry(&mut self, key: &str, value: &str) {
        put_message(self.field.number, self.out, |out| {
            put_bytes(1, key.as_bytes(), out);
            put_bytes(2, value.as_bytes(), out);
            Some(())
        });
    }

    fn json(&mut self, json: Option<&[u8]>) {
        if let Some(json) = json {
            put_message(self.field.number, self.out, |out| {
                put_bytes(1, json, out);
                Some(())
            });
        }
    }
}

fn put_key(number: u32, wire_type: u32, out: &mut Vec<u8>) {
    put_varint((number << 3 | wire_type).into(), out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_key(number, LENGTH_DELIMITED, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_integer(number: u32, integer: i64, out: &mut Vec<u8>) {
    put_key(number, VARINT, out);
    // Negative integers take ten bytes, whatever their type.
    put_varint(integer.cast_unsigned(), out);
}

fn put_message(
    number: u32,
    out: &mut Vec<u8>,
    fill: impl FnOnce(&mut Vec<u8>) -> Option<()>,
) -> Option<()> {
    put_key(number, LENGTH_DELIMITED, out);
    let start = out.len();
    fill(out)?;
    // The length precedes the message and is known only now, so the written bytes move by a byte or
    // two.
    let mut length = Vec::with_capacity(5);
    put_varint((out.len() - start) as u64, &mut length);
    out.splice(start..start, length);
    Some(())
}

/// Appends a number in protobuf's variable width.
#[inline]
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        // The low seven bits, with the mark that more follow.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`put_varint`] appends.
pub fn varint_len(value: u64) -> usize {
    usize::try_from((u64::BITS - (value | 1).leading_zeros()).div_ceil(7)).unwrap_or(10)
}

/// Reads a varint from the front of the bytes, which it removes. `None` if there is none of at most
/// 64 bits.
#[inline]
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        // The tenth byte has room for one bit.
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
