//! JSON between bytes and Kubernetes' protobuf types, as Go's encoder writes it and the API server's decoder reads it.
//!
//! Fields keep Go's order. A field is either always present (a Go struct or a string without `omitempty`: empty prints
//! as `{}`, `""` or `null`) or left out when empty. Which is which, per type and per API version, is stated once, in the
//! tables of [`super::objects`]; this file knows how to write, read and bring to canonical form any such table.
//! Reading `null` leaves the zero value, an unknown or repeated field is noted rather than refused (the last one wins),
//! and every error names the field's path.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use k8s_pb::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference, Time};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::time::{self, Moment};

/// The value of one JSON field.
pub(crate) trait Field<View>: Default {
    /// Whether `omitempty` leaves it out.
    fn is_empty(&self) -> bool;
    /// Appends the value; the zero value when unset.
    fn write(&self, out: &mut Vec<u8>);
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error>;
    /// Brings equal values to equal bytes: empty is unset, and a struct that is always present is set.
    fn canonicalize(&mut self, always_present: bool);
}

/// An object whose fields are stated by a table. `View` is the API version whose JSON it is.
pub(crate) trait Object<View>: Default + Clone + PartialEq {
    /// Every JSON name it knows.
    const NAMES: &'static [&'static str];
    fn write_fields(&self, members: &mut Members<'_>);
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
        reading: &mut Reading,
    ) -> Result<(), A::Error>;
    fn canonicalize(&mut self);
}

/// States the JSON form of a type: `"name": field always`, `omitted` (when empty) or, for Go's pointers to numbers,
/// `pointer` (omitted when nil); then the names that are `ignored`.
macro_rules! object {
    (impl<V> for $type:ty { $($table:tt)* }) => {
        impl<V> $crate::codec::json::Object<V> for $type { object!(@body V, $($table)*); }
        impl<V> $crate::codec::json::Field<V> for Option<$type> { object!(@field V); }
    };
    (impl $view:ty => $type:ty { $($table:tt)* }) => {
        impl $crate::codec::json::Object<$view> for $type { object!(@body $view, $($table)*); }
        impl $crate::codec::json::Field<$view> for Option<$type> { object!(@field $view); }
    };
    (@body $view:ty, $($name:literal : $field:ident $rule:ident,)* $(ignored $ignored:literal,)*) => {
        const NAMES: &'static [&'static str] = &[$($name,)* $($ignored,)*];
        fn write_fields(&self, members: &mut $crate::codec::json::Members<'_>) {
            $(members.member::<$view, _>($name, &self.$field, object!(@always $rule self.$field));)*
        }
        fn read_field<'de, A: serde::de::MapAccess<'de>>(
            &mut self,
            name: &'static str,
            map: &mut A,
            reading: &mut $crate::codec::json::Reading,
        ) -> Result<(), A::Error> {
            match name {
                $($name => self.$field = $crate::codec::json::next_value::<$view, _, _>(map, reading)?,)*
                _ => { map.next_value::<serde::de::IgnoredAny>()?; }
            }
            Ok(())
        }
        fn canonicalize(&mut self) {
            $($crate::codec::json::Field::<$view>::canonicalize(&mut self.$field, object!(@kept $rule));)*
        }
    };
    (@field $view:ty) => {
        fn is_empty(&self) -> bool {
            self.is_none()
        }
        fn write(&self, out: &mut Vec<u8>) {
            $crate::codec::json::write_object::<$view, _>(self.as_ref(), out);
        }
        fn read<'de, D: serde::Deserializer<'de>>(
            value: D,
            reading: &mut $crate::codec::json::Reading,
        ) -> Result<Self, D::Error> {
            $crate::codec::json::read_object::<$view, _, D>(value, reading)
        }
        fn canonicalize(&mut self, always_present: bool) {
            if always_present && self.is_none() {
                *self = Some(Default::default());
            }
            if let Some(object) = self {
                $crate::codec::json::Object::<$view>::canonicalize(object);
            }
        }
    };
    (@always always $value:expr) => { true };
    (@always omitted $value:expr) => { false };
    (@always pointer $value:expr) => { $value.is_some() };
    (@kept always) => { true };
    (@kept omitted) => { false };
    (@kept pointer) => { true };
}
pub(crate) use object;

// --- writing

/// The members of an object being written.
pub(crate) struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Members<'_> {
    pub(crate) fn member<View, F: Field<View>>(
        &mut self,
        name: &'static str,
        value: &F,
        always: bool,
    ) {
        if always || !value.is_empty() {
            self.name(name);
            value.write(self.out);
        }
    }

    pub(crate) fn string(&mut self, name: &'static str, value: &str) {
        self.name(name);
        write_string(value, self.out);
    }

    /// A member whose value `write` appends.
    pub(crate) fn raw(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        self.name(name);
        write(self.out);
    }

    fn name(&mut self, name: &'static str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Appends `{…}` with the members that `fill` adds.
pub(crate) fn write_members(out: &mut Vec<u8>, fill: impl FnOnce(&mut Members<'_>)) {
    out.push(b'{');
    fill(&mut Members { out, first: true });
    out.push(b'}');
}

/// Appends a string as Go's encoder does, with `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            0..=0x1f | b'<' | b'>' | b'&' => b"\\u",
            // U+2028 and U+2029 are E2 80 A8 and E2 80 A9.
            0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => b"\\u",
            _ => continue,
        };
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        out.extend_from_slice(short);
        from = at + 1;
        if byte == 0xe2 {
            let last = bytes
                .get(at + 2)
                .map_or(b'8', |third| if *third == 0xa8 { b'8' } else { b'9' });
            out.extend_from_slice(b"202");
            out.push(last);
            from = at + 3;
        } else if short == b"\\u" {
            out.extend_from_slice(b"00");
            out.extend([byte >> 4, byte & 15].map(|nibble| HEX[usize::from(nibble)]));
        }
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out.push(b'"');
}

fn write_integer(value: impl Into<i64>, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{}", value.into());
}

// --- reading

/// What a decoder notes besides the value: where it is, and which fields were unknown or given twice.
#[derive(Default, Debug)]
pub(crate) struct Reading {
    path: Vec<Step>,
    /// Complaints in Go's words, e.g. `unknown field "metadata.foo"`; at most [`NOTES_MAX`].
    pub(crate) notes: Vec<String>,
}

/// So many unknown or repeated fields of one body are noted; the API server's own bound.
const NOTES_MAX: usize = 100;

#[derive(Debug, Clone, Copy)]
enum Step {
    Field(&'static str),
    Index(usize),
}

impl Reading {
    fn path(&self, last: Option<&str>) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(index) => {
                    text.push('[');
                    text.push_str(&index.to_string());
                    text.push(']');
                }
            }
        }
        if let Some(last) = last {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(last);
        }
        text
    }

    fn note(&mut self, what: &str, name: &str) {
        if self.notes.len() < NOTES_MAX {
            self.notes
                .push(format!("{what} field {:?}", self.path(Some(name))));
        }
    }

    fn error<E: Error>(&self, message: impl fmt::Display) -> E {
        E::custom(format_args!("{}: {message}", self.path(None)))
    }
}

/// `apiVersion` and `kind`, as far as they were given.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: Option<String>,
    pub(crate) kind: Option<String>,
}

/// Reads a top-level object: its fields, `apiVersion` and `kind`.
pub(crate) fn read_document<'de, View, T: Object<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<(TypeMeta, T), D::Error> {
    let mut type_meta = TypeMeta::default();
    let object = value.deserialize_any(ObjectVisitor {
        reading,
        type_meta: Some(&mut type_meta),
        of: PhantomData::<(View, T)>,
    })?;
    Ok((type_meta, object.unwrap_or_default()))
}

struct ObjectVisitor<'a, View, T> {
    reading: &'a mut Reading,
    type_meta: Option<&'a mut TypeMeta>,
    of: PhantomData<(View, T)>,
}

impl<'de, View, T: Object<View>> Visitor<'de> for ObjectVisitor<'_, View, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self {
            reading,
            mut type_meta,
            ..
        } = self;
        let mut object = T::default();
        let mut seen = 0_u64;
        while let Some(key) = map.next_key_seed(KeySeed(T::NAMES, type_meta.is_some()))? {
            match key {
                Key::Known(index, name) => {
                    let bit = 1_u64
                        .checked_shl(u32::try_from(index).unwrap_or(u32::MAX))
                        .unwrap_or(0);
                    if seen & bit != 0 {
                        reading.note("duplicate", name);
                    }
                    seen |= bit;
                    reading.path.push(Step::Field(name));
                    object.read_field(name, &mut map, reading)?;
                    reading.path.pop();
                }
                Key::TypeMeta(name) => {
                    reading.path.push(Step::Field(name));
                    let value = next_value::<View, Option<String>, _>(&mut map, reading)?;
                    reading.path.pop();
                    if let Some(type_meta) = type_meta.as_deref_mut() {
                        let place = if name == "kind" {
                            &mut type_meta.kind
                        } else {
                            &mut type_meta.api_version
                        };
                        if place.is_some() {
                            reading.note("duplicate", name);
                        }
                        *place = value;
                    }
                }
                Key::Unknown(name) => {
                    reading.note("unknown", &name);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(object))
    }
}

enum Key {
    Known(usize, &'static str),
    TypeMeta(&'static str),
    Unknown(String),
}

struct KeySeed(&'static [&'static str], bool);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;
    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Key, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(match key {
            "kind" if self.1 => Key::TypeMeta("kind"),
            "apiVersion" if self.1 => Key::TypeMeta("apiVersion"),
            _ => match self.0.iter().enumerate().find(|(_, name)| **name == key) {
                Some((index, name)) => Key::Known(index, name),
                None => Key::Unknown(key.to_owned()),
            },
        })
    }
}

struct FieldSeed<'a, View, F>(&'a mut Reading, PhantomData<(View, F)>);

impl<'de, View, F: Field<View>> DeserializeSeed<'de> for FieldSeed<'_, View, F> {
    type Value = F;
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<F, D::Error> {
        F::read(value, self.0)
    }
}

/// Reads the value that belongs to the key just read.
pub(crate) fn next_value<'de, View, F: Field<View>, A: MapAccess<'de>>(
    map: &mut A,
    reading: &mut Reading,
) -> Result<F, A::Error> {
    map.next_value_seed(FieldSeed(reading, PhantomData::<(View, F)>))
}

// --- the kinds of values

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
}

fn write_list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Appends an object; the zero value when unset.
pub(crate) fn write_object<View, T: Object<View>>(object: Option<&T>, out: &mut Vec<u8>) {
    write_members(out, |members| match object {
        Some(object) => object.write_fields(members),
        None => T::default().write_fields(members),
    });
}

/// Reads an object; `null` is none.
pub(crate) fn read_object<'de, View, T: Object<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<Option<T>, D::Error> {
    value.deserialize_any(ObjectVisitor {
        reading,
        type_meta: None,
        of: PhantomData::<(View, T)>,
    })
}

impl<V> Field<V> for Vec<OwnerReference> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
    fn write(&self, out: &mut Vec<u8>) {
        write_list(self, out, |item, out| write_object::<V, _>(Some(item), out));
    }
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error> {
        value.deserialize_any(ListVisitor(reading, PhantomData::<(V, OwnerReference)>))
    }
    fn canonicalize(&mut self, _always_present: bool) {
        for item in self {
            Object::<V>::canonicalize(item);
        }
    }
}

struct ListVisitor<'a, View, T>(&'a mut Reading, PhantomData<(View, T)>);

impl<'de, View, T: Object<View>> Visitor<'de> for ListVisitor<'_, View, T>
where
    Option<T>: Field<View>,
{
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Self(reading, _) = self;
        let mut items = Vec::new();
        loop {
            reading.path.push(Step::Index(items.len()));
            let item =
                seq.next_element_seed(FieldSeed(reading, PhantomData::<(View, Option<T>)>))?;
            reading.path.pop();
            match item {
                Some(item) => items.push(item.unwrap_or_default()),
                None => return Ok(items),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::write_string;

    /// Answers of Go 1.26's encoding/json.
    #[test]
    fn strings_are_escaped_as_by_go() {
        for (text, json) in [
            ("plain ünïcode 🦀", "\"plain ünïcode 🦀\""),
            (
                "a\"b\\c\nd\re\tf\u{8}g\u{c}h",
                r#""a\"b\\c\nd\re\tf\bg\fh""#,
            ),
            ("\u{1}\u{1f}\u{7f}", "\"\\u0001\\u001f\u{7f}\""),
            ("<&>", r#""\u003c\u0026\u003e""#),
            (
                "x\u{2028}y\u{2029}z\u{2027}",
                "\"x\\u2028y\\u2029z\u{2027}\"",
            ),
            ("", "\"\""),
        ] {
            let mut out = Vec::new();
            write_string(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), json);
        }
    }
}
