//! Writes an object as the JSON that Go's encoder makes of it.
//!
//! It has the same fields in the same order, present or left out by the same rules.

use std::collections::BTreeMap;

use super::{
    Moment, Nothing, Sink, Source, write_integer, write_micro_time, write_string, write_time,
};
use crate::fields::{Field, Kind, Rule, Type};

/// Appends an object.
pub fn write_object<S: Source>(of: &Type, source: &S, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'{');
    write_fields(of, source, out)?;
    out.push(b'}');
    Some(())
}

/// Appends an object's members, with a comma before the first one if another member precedes it.
pub fn write_fields<S: Source>(of: &Type, source: &S, out: &mut Vec<u8>) -> Option<()> {
    for field in of.fields {
        let mut member = Member {
            field,
            out,
            items: 0,
        };
        source.give(field, &mut member)?;
        member.close();
    }
    Some(())
}

/// A member of an object, which is appended if its rule requires it.
struct Member<'a> {
    field: &'a Field,
    out: &'a mut Vec<u8>,
    /// Number of items of a list or a map so far.
    items: usize,
}

impl Member<'_> {
    /// Appends the member's name if its value, empty or not, must be written. Returns whether it
    /// must.
    #[inline]
    fn opens(&mut self, is_empty: bool) -> bool {
        let written = !is_empty || self.field.is_always_there();
        if written {
            self.open();
        }
        written
    }

    #[inline]
    fn open(&mut self) {
        let first = self.out.last() == Some(&b'{');
        let member = self.field.member().as_bytes();
        let member = member.get(usize::from(first)..).unwrap_or_default();
        self.out.extend_from_slice(member);
    }

    /// Appends the text that precedes an item of a list or a map.
    #[inline]
    fn next(&mut self, bracket: u8) {
        if self.items == 0 {
            self.open();
            self.out.push(bracket);
        } else {
            self.out.push(b',');
        }
        self.items += 1;
    }

    #[inline]
    fn close(self) {
        if self.items > 0 {
            let is_map = matches!(self.field.kind, Kind::Map);
            self.out.push(if is_map { b'}' } else { b']' });
        }
    }
}

impl Sink for Member<'_> {
    #[inline]
    fn text(&mut self, text: &str) {
        if self.opens(text.is_empty()) {
            write_string(text, self.out);
        }
    }

    #[inline]
    fn integer(&mut self, integer: Option<i64>) {
        let is_empty = match self.field.rule {
            Rule::Pointer => integer.is_none(),
            _ => integer.unwrap_or_default() == 0,
        };
        if self.opens(is_empty) {
            write_integer(integer.unwrap_or_default(), self.out);
        }
    }

    #[inline]
    fn boolean(&mut self, boolean: Option<bool>) {
        if self.opens(boolean.is_none()) {
            let set = boolean.unwrap_or_default();
            self.out
                .extend_from_slice(if set { b"true" } else { b"false" });
        }
    }

    #[inline]
    fn time(&mut self, time: Option<Moment>) {
        let set = time.filter(|time| !time.is_zero());
        let is_empty = match self.field.rule {
            Rule::Pointer => time.is_none(),
            _ => set.is_none(),
        };
        if self.opens(is_empty) {
            match set {
                None => self.out.extend_from_slice(b"null"),
                Some(time) if matches!(self.field.kind, Kind::MicroTime) => {
                    write_micro_time(time, self.out);
                }
                Some(time) => write_time(time, self.out),
            }
        }
    }

    #[inline]
    fn object<S: Source>(&mut self, object: Option<&S>) -> Option<()> {
        let Kind::Object(of) = self.field.kind else {
            return None;
        };
        if self.opens(object.is_none()) {
            match object {
                Some(object) => write_object(of, object, self.out)?,
                None => write_object(of, &Nothing, self.out)?,
            }
        }
        Some(())
    }

    #[inline]
    fn item<S: Source>(&mut self, item: &S) -> Option<()> {
        let Kind::List(of, _) = self.field.kind else {
            return None;
        };
        self.next(b'[');
        write_object(of, item, self.out)
    }

    #[inline]
    fn text_item(&mut self, item: &str) {
        self.next(b'[');
        write_string(item, self.out);
    }

    #[inline]
    fn entry(&mut self, key: &str, value: &str) {
        self.next(b'{');
        write_string(key, self.out);
        self.out.push(b':');
        write_string(value, self.out);
    }

    #[inline]
    fn json(&mut self, json: Option<&[u8]>) {
        if self.opens(json.is_none()) {
            self.out.extend_from_slice(json.unwrap_or(b"null"));
        }
    }
}

/// Writes the members of an object one by one, without a table.
#[derive(Debug)]
pub struct Members<'a> {
    out: &'a mut Vec<u8>,
}

/// Appends `{…}` with the members that `fill` adds.
pub fn write_members(out: &mut Vec<u8>, fill: impl FnOnce(&mut Members<'_>)) {
    out.push(b'{');
    fill(&mut Members { out });
    out.push(b'}');
}

impl Members<'_> {
    /// Appends a member whose value `write` appends.
    pub fn raw(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        write_string(name, self.out);
        self.out.push(b':');
        write(self.out);
    }

    /// Appends the members that `write` appends, with a comma before the first one if necessary.
    pub fn rest(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.out);
    }

    /// Appends a string, empty or not.
    pub fn text(&mut self, name: &str, text: &str) {
        self.raw(name, |out| write_string(text, out));
    }

    /// Appends a string, unless it is empty.
    pub(crate) fn optional(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    /// Appends an integer, unless it is 0.
    pub(crate) fn integer(&mut self, name: &str, integer: i64) {
        if integer != 0 {
            self.raw(name, |out| write_integer(integer, out));
        }
    }

    /// Appends a time in whole seconds, or `null`.
    pub(crate) fn time(&mut self, name: &str, time: Option<Moment>) {
        self.raw(name, |out| match time {
            Some(time) => write_time(time, out),
            None => out.extend_from_slice(b"null"),
        });
    }

    /// Appends a time in microseconds, or `null`.
    pub(crate) fn micro_time(&mut self, name: &str, time: Option<Moment>) {
        self.raw(name, |out| match time {
            Some(time) => write_micro_time(time, out),
            None => out.extend_from_slice(b"null"),
        });
    }

    /// Appends an object, empty or not.
    pub(crate) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Members<'_>)) {
        self.raw(name, |out| write_members(out, fill));
    }

    /// Appends a map of strings, unless it is empty.
    pub(crate) fn map(&mut self, name: &str, map: Option<&BTreeMap<String, String>>) {
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            self.object(name, |members| {
                for (key, value) in map {
                    members.text(key, value);
                }
            });
        }
    }
}
