//! The kinds of values a field can have, and what each is in JSON.

use std::collections::BTreeMap;

use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, MicroTime, OwnerReference, Time,
};
use serde::de::Deserializer;

use super::read::{Scalar, read_items, read_list, read_map, read_scalar};
use super::reading::Reading;
use super::text::{write_integer, write_string};
use super::write::{write_list, write_object};
use super::{Field, Object};
use crate::codec::time::{self, Moment, moment};
use crate::managed::{Atom, Changes, PathElement};

/// An integer of a Go type; any other number is shown.
fn integer<'de, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
    expected: &str,
) -> Result<Option<i64>, D::Error> {
    let found = match read_scalar(value)? {
        Scalar::Null => return Ok(None),
        Scalar::Integer(value) => return Ok(Some(value)),
        Scalar::Number(number) => match reading.whole(&number) {
            Some(whole) => return Ok(Some(whole)),
            None => &format!("number {number}"),
        },
        other => other.kind(),
    };
    reading.mismatch(found, expected);
    Ok(None)
}

impl<V> Field<V> for Option<String> {
    fn is_empty(&self) -> bool {
        self.as_ref().is_none_or(String::is_empty)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self.as_deref().unwrap_or_default(), out);
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        Ok(match read_scalar(value)? {
            Scalar::Null => None,
            Scalar::Text(text) => Some(text),
            other => {
                reading.mismatch(other.kind(), "string");
                None
            }
        })
    }
    fn canonicalize(&mut self, _always_present: bool) {
        if self.as_ref().is_some_and(String::is_empty) {
            *self = None;
        }
    }
}

impl<V> Field<V> for Option<i64> {
    fn is_empty(&self) -> bool {
        self.is_none_or(|value| value == 0)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_integer(self.unwrap_or_default(), out);
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        integer(value, reading, "int64")
    }
    fn canonicalize(&mut self, always_present: bool) {
        if *self == Some(0) && !always_present {
            *self = None;
        }
    }
}

impl<V> Field<V> for Option<i32> {
    fn is_empty(&self) -> bool {
        self.is_none_or(|value| value == 0)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_integer(self.unwrap_or_default(), out);
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        let value = integer(value, reading, "int32")?;
        Ok(value.and_then(|value| {
            let fitting = i32::try_from(value);
            if fitting.is_err() {
                reading.mismatch(&format!("number {value}"), "int32");
            }
            fitting.ok()
        }))
    }
    fn canonicalize(&mut self, _always_present: bool) {
        if *self == Some(0) {
            *self = None;
        }
    }
}

/// Go's `*bool`: false is a value, absent means none.
impl<V> Field<V> for Option<bool> {
    fn is_empty(&self) -> bool {
        self.is_none()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.unwrap_or_default() {
            b"true"
        } else {
            b"false"
        });
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        Ok(match read_scalar(value)? {
            Scalar::Null => None,
            Scalar::Bool(value) => Some(value),
            other => {
                reading.mismatch(other.kind(), "bool");
                None
            }
        })
    }
    fn canonicalize(&mut self, _always_present: bool) {}
}

macro_rules! time_field {
    ($type:ident, $parse:path, $write:path, $precision:expr) => {
        impl<V> Field<V> for Option<$type> {
            fn is_empty(&self) -> bool {
                moment(self.map(|time| (time.seconds, time.nanos))).is_none()
            }
            fn write(&self, out: &mut Vec<u8>) {
                match moment(self.map(|time| (time.seconds, time.nanos))) {
                    Some(moment) => $write(moment, out),
                    None => out.extend_from_slice(b"null"),
                }
            }
            fn read<'de, D: Deserializer<'de>>(
                value: D,
                reading: &mut Reading,
            ) -> Result<Self, D::Error> {
                let text = match read_scalar(value)? {
                    Scalar::Null => return Ok(None),
                    Scalar::Text(text) => text,
                    other => return Err(reading.fail_time(other.kind())),
                };
                let moment = $parse(&text).map_err(|error| reading.fail::<D::Error>(error))?;
                Ok(Some($type {
                    seconds: Some(moment.seconds),
                    nanos: Some(moment.nanos),
                }))
            }
            fn canonicalize(&mut self, _always_present: bool) {
                *self = moment(self.map(|time| (time.seconds, time.nanos)))
                    .map($precision)
                    .map(|moment| $type {
                        seconds: Some(moment.seconds),
                        nanos: Some(moment.nanos),
                    });
            }
        }
    };
}
time_field!(
    Time,
    time::parse_time,
    time::write_time,
    |moment: Moment| Moment { nanos: 0, ..moment }
);
time_field!(
    MicroTime,
    time::parse_micro_time,
    time::write_micro_time,
    Moment::truncated_to_micros
);

impl<V> Field<V> for BTreeMap<String, String> {
    fn is_empty(&self) -> bool {
        BTreeMap::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (key, value)) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(key, out);
            out.push(b':');
            write_string(value, out);
        }
        out.push(b'}');
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        let map = read_map::<V, Option<String>, D>(value, reading, "map[string]string")?;
        Ok(map
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect())
    }
    fn canonicalize(&mut self, _always_present: bool) {}
    fn compare(
        old: Option<&Self>,
        new: Option<&Self>,
        _always: bool,
        name: &'static str,
        changes: &mut Changes,
    ) {
        compare_parts(
            name,
            old,
            new,
            |old, new, changes| {
                for key in keys(old, new) {
                    let element = PathElement::named(key.as_str());
                    changes.leaf(element, old.get(key), new.get(key));
                }
            },
            changes,
        );
    }
}

impl<V> Field<V> for Vec<String> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out, |item, out| write_string(item, out));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        let list = read_items::<V, Option<String>, D>(value, reading, "[]string")?;
        Ok(list
            .unwrap_or_default()
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect())
    }
    fn canonicalize(&mut self, _always_present: bool) {}
    /// A set: items are or are not there.
    fn compare(
        old: Option<&Self>,
        new: Option<&Self>,
        _always: bool,
        name: &'static str,
        changes: &mut Changes,
    ) {
        compare_parts(
            name,
            old,
            new,
            |old, new, changes| {
                let [old, new]: [BTreeMap<String, ()>; 2] =
                    [old, new].map(|list| list.iter().map(|item| (item.clone(), ())).collect());
                for item in keys(&old, &new) {
                    let element = PathElement::Value(Atom::Text(item.clone()));
                    changes.leaf(element, old.get(item), new.get(item));
                }
            },
            changes,
        );
    }
}

impl<V> Field<V> for Vec<OwnerReference> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out, |item, out| write_object::<V, _>(Some(item), out));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        Ok(read_list::<V, _, D>(value, reading)?.unwrap_or_default())
    }
    fn canonicalize(&mut self, _always_present: bool) {
        for item in self {
            Object::<V>::canonicalize(item);
        }
    }
    /// A map by uid, whose items are written as a whole.
    fn compare(
        old: Option<&Self>,
        new: Option<&Self>,
        _always: bool,
        name: &'static str,
        changes: &mut Changes,
    ) {
        compare_parts(
            name,
            old,
            new,
            |old, new, changes| {
                let [old, new] = [old, new].map(|list| {
                    let by_uid = list.iter().map(|owner| (owner.uid().to_owned(), owner));
                    by_uid.collect::<BTreeMap<_, _>>()
                });
                for uid in keys(&old, &new) {
                    let element = PathElement::keyed("uid", Atom::Text(uid.clone()));
                    changes.leaf(element, old.get(uid), new.get(uid));
                }
            },
            changes,
        );
    }
}

/// Notes what a write did to a field with parts of its own, which is there if it is not empty.
fn compare_parts<T: Default + PartialEq>(
    name: &'static str,
    old: Option<&T>,
    new: Option<&T>,
    parts: impl FnOnce(&T, &T, &mut Changes),
    changes: &mut Changes,
) {
    if old == new {
        return;
    }
    let empty = T::default();
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    changes.inside(
        PathElement::known(name),
        *old != empty,
        *new != empty,
        |changes| {
            parts(old, new, changes);
        },
    );
}

/// The keys of two maps, each once.
fn keys<'a, K: Ord, V>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let added = new.keys().filter(|key| !old.contains_key(*key));
    old.keys().chain(added)
}

/// Entries of managedFields. An empty list is a request to forget them, as is one empty entry: it
/// becomes that.
impl<V> Field<V> for Vec<ManagedFieldsEntry> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out, |item, out| write_object::<V, _>(Some(item), out));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        Ok(match read_list::<V, _, D>(value, reading)? {
            Some(entries) if entries.is_empty() => vec![ManagedFieldsEntry::default()],
            entries => entries.unwrap_or_default(),
        })
    }
    fn canonicalize(&mut self, _always_present: bool) {
        for item in self {
            Object::<V>::canonicalize(item);
        }
    }
    /// These have no manager.
    fn compare(
        _old: Option<&Self>,
        _new: Option<&Self>,
        _always: bool,
        _name: &'static str,
        _changes: &mut Changes,
    ) {
    }
}

impl<V> Field<V> for Option<FieldsV1> {
    fn is_empty(&self) -> bool {
        self.is_none()
    }
    fn write(&self, out: &mut Vec<u8>) {
        let raw = self.as_ref().and_then(|fields| fields.raw.as_deref());
        out.extend_from_slice(raw.filter(|raw| !raw.is_empty()).unwrap_or(b"null"));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        let fields: Option<serde_json::Value> = serde::Deserialize::deserialize(value)
            .map_err(|error: D::Error| reading.fail::<D::Error>(error.to_string()))?;
        Ok(fields.map(|fields| FieldsV1 {
            raw: Some(fields.to_string().into_bytes()),
        }))
    }
    fn canonicalize(&mut self, _always_present: bool) {}
}
