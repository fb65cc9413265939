//! The kinds of values a field can have, and what each is in JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, MicroTime, OwnerReference, Time,
};
use serde::de::{Deserializer, Error, Visitor};

use super::read::{ListVisitor, Reading};
use super::write::{write_integer, write_list, write_object, write_string};
use super::{Field, Object};
use crate::codec::time::{self, Moment};
use crate::managed::{Atom, Changes, PathElement};

struct Scalar<'a, T>(&'a Reading, &'static str, PhantomData<T>);

impl Visitor<'_> for Scalar<'_, String> {
    type Value = Option<String>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(value.to_owned()))
    }
    fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
        Ok(Some(value))
    }
}

impl Visitor<'_> for Scalar<'_, i64> {
    type Value = Option<i64>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        i64::try_from(value)
            .map(Some)
            .map_err(|_| self.0.error(format_args!("{value} does not fit 64 bits")))
    }
}

impl Visitor<'_> for Scalar<'_, bool> {
    type Value = Option<bool>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value))
    }
}

fn scalar<'de, T, D>(
    value: D,
    reading: &Reading,
    expected: &'static str,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    for<'a> Scalar<'a, T>: Visitor<'de, Value = Option<T>>,
{
    value
        .deserialize_any(Scalar(reading, expected, PhantomData::<T>))
        .map_err(|error| reading.error(error))
}

impl<V> Field<V> for Option<String> {
    fn is_empty(&self) -> bool {
        self.as_ref().is_none_or(String::is_empty)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self.as_deref().unwrap_or_default(), out);
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        scalar(value, reading, "a string")
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
        scalar(value, reading, "an integer")
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
        let Some(value) = scalar::<i64, D>(value, reading, "an integer")? else {
            return Ok(None);
        };
        i32::try_from(value)
            .map(Some)
            .map_err(|_| reading.error(format_args!("{value} does not fit 32 bits")))
    }
    fn canonicalize(&mut self, _always_present: bool) {
        if *self == Some(0) {
            *self = None;
        }
    }
}

/// Go's `*bool`: false is a value, absent is none.
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
        scalar(value, reading, "a boolean")
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
                let Some(text) = scalar::<String, D>(value, reading, "a time")? else {
                    return Ok(None);
                };
                let moment = $parse(&text).map_err(|error| reading.error::<D::Error>(error))?;
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

/// The moment of a protobuf time; a message without seconds is Go's zero time, which is unset.
pub(crate) fn moment(time: Option<(Option<i64>, Option<i32>)>) -> Option<Moment> {
    let (seconds, nanos) = time?;
    Moment::new(seconds?, nanos.unwrap_or(0))
        .filter(|moment| moment.seconds != ZERO_TIME_SECONDS || moment.nanos != 0)
}

/// 0001-01-01T00:00:00Z, which Go prints as `null`.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

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
        let map: Option<BTreeMap<String, Option<String>>> = serde::Deserialize::deserialize(value)
            .map_err(|error| reading.error::<D::Error>(error))?;
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
        let list: Option<Vec<Option<String>>> = serde::Deserialize::deserialize(value)
            .map_err(|error| reading.error::<D::Error>(error))?;
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
        let visitor = ListVisitor(reading, PhantomData::<(V, OwnerReference)>);
        Ok(value.deserialize_any(visitor)?.unwrap_or_default())
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

/// Entries of managedFields. An empty list is a request to forget them, as is one empty entry: it becomes that.
impl<V> Field<V> for Vec<ManagedFieldsEntry> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out, |item, out| write_object::<V, _>(Some(item), out));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        let visitor = ListVisitor(reading, PhantomData::<(V, ManagedFieldsEntry)>);
        Ok(match value.deserialize_any(visitor)? {
            Some(entries) if entries.is_empty() => vec![ManagedFieldsEntry::default()],
            entries => entries.unwrap_or_default(),
        })
    }
    fn canonicalize(&mut self, _always_present: bool) {
        for item in self {
            Object::<V>::canonicalize(item);
        }
    }
    /// Nobody manages these.
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
            .map_err(|error| reading.error::<D::Error>(error))?;
        Ok(fields.map(|fields| FieldsV1 {
            raw: Some(fields.to_string().into_bytes()),
        }))
    }
    fn canonicalize(&mut self, _always_present: bool) {}
}
