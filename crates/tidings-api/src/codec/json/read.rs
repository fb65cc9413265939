//! Decodes objects from JSON, driven by the tables of their fields.

use std::collections::BTreeMap;
use std::fmt;

use k8s_pb::apimachinery::pkg::apis::meta::v1::FieldsV1;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidings_core::fields::{Field, Kind, Type};

use super::reading::{Reading, Step};
use crate::codec::objects::{List, Object, ObjectPlace, Place};
use crate::codec::time::{parse_micro_time, parse_time};

/// The `apiVersion` and `kind` of a document, if it has them.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct TypeMeta {
    /// The document's `apiVersion`.
    pub api_version: Option<String>,
    /// The document's `kind`.
    pub kind: Option<String>,
}

/// Reads a top-level object: its fields, `apiVersion` and `kind`.
pub(crate) fn read_document<'de, T: Object + Default, D: Deserializer<'de>>(
    of: &'static Type,
    value: D,
    reading: &mut Reading,
) -> Result<(TypeMeta, T), D::Error> {
    let (mut type_meta, mut object) = (TypeMeta::default(), T::default());
    value.deserialize_any(ObjectVisitor {
        of,
        target: Target::Object(&mut object),
        reading,
        type_meta: Some(&mut type_meta),
    })?;
    Ok((type_meta, object))
}

/// Reads the value of a field into its place; `null` is the zero value.
fn read_value<'de, D: Deserializer<'de>>(
    kind: Kind,
    place: Place<'_>,
    value: D,
    reading: &mut Reading,
) -> Result<(), D::Error> {
    match place {
        Place::Text(text) => *text = read_text(value, reading)?,
        Place::Int64(place) => *place = integer(value, reading, "int64")?,
        Place::Int32(place) => {
            *place = integer(value, reading, "int32")?.and_then(|value| {
                let fitting = i32::try_from(value);
                if fitting.is_err() {
                    reading.mismatch(&format!("number {value}"), "int32");
                }
                fitting.ok()
            });
        }
        // As for Go's `*bool`, false is a value and an absent field is none.
        Place::Bool(place) => {
            *place = match read_scalar(value)? {
                Scalar::Null => None,
                Scalar::Bool(value) => Some(value),
                other => {
                    reading.mismatch(other.kind(), "bool");
                    None
                }
            }
        }
        Place::Time(place) => {
            let text = match read_scalar(value)? {
                Scalar::Null => None,
                Scalar::Text(text) => Some(text),
                other => return Err(reading.fail_time(other.kind())),
            };
            let parse = match kind {
                Kind::MicroTime => parse_micro_time,
                _ => parse_time,
            };
            let moment = text.as_deref().map(parse).transpose();
            place.set(moment.map_err(|error| reading.fail::<D::Error>(error))?);
        }
        Place::Map(map) => *map = value.deserialize_any(MapVisitor(reading))?,
        Place::Set(texts) => {
            texts.clear();
            value.deserialize_any(ListVisitor(Items::Texts(texts), reading))?;
        }
        Place::Json(place) => {
            let fields: Option<serde_json::Value> = serde::Deserialize::deserialize(value)
                .map_err(|error: D::Error| reading.fail::<D::Error>(error.to_string()))?;
            *place = fields.map(|fields| FieldsV1 {
                raw: Some(fields.to_string().into_bytes()),
            });
        }
        Place::Object(place) => {
            place.clear();
            if let Kind::Object(of) = kind {
                value.deserialize_any(ObjectVisitor {
                    of,
                    target: Target::Place(place),
                    reading,
                    type_meta: None,
                })?;
            }
        }
        Place::List(list) => {
            list.clear();
            if let Kind::List(of, key) = kind {
                let items = Items::Objects(list, of);
                let given = value.deserialize_any(ListVisitor(items, reading))?;
                // Only managedFields has no key. An empty list, like one empty entry, asks to
                // forget all managers, so it is read as one empty entry.
                if given && key.is_none() && list.len() == 0 {
                    list.push();
                }
            }
        }
        Place::Nothing => {
            value.deserialize_ignored_any(IgnoredAny)?;
        }
    }
    Ok(())
}

fn read_text<'de, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<Option<String>, D::Error> {
    Ok(match read_scalar(value)? {
        Scalar::Null => None,
        Scalar::Text(text) => Some(text),
        other => {
            reading.mismatch(other.kind(), "string");
            None
        }
    })
}

/// Reads an integer of the Go type `expected`. The error for another number contains the number.
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

/// Reads the value that belongs to the key just read.
struct ValueSeed<'a, 'r>(Kind, Place<'a>, &'r mut Reading);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        read_value(self.0, self.1, value, self.2)
    }
}

/// The place that a decoded object is written to.
enum Target<'a> {
    Place(&'a mut dyn ObjectPlace),
    Object(&'a mut dyn Object),
}

struct ObjectVisitor<'a> {
    of: &'static Type,
    target: Target<'a>,
    reading: &'a mut Reading,
    type_meta: Option<&'a mut TypeMeta>,
}

/// Visitor methods for values of the wrong type: they record the mismatch and continue.
macro_rules! wrong_types {
    ($($kind:ident),*) => { $(wrong_types!(@$kind);)* };
    (@bool) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok(self.other("bool"))
        }
    };
    (@number) => {
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok(self.other("number"))
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok(self.other("number"))
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok(self.other("number"))
        }
    };
    (@string) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok(self.other("string"))
        }
    };
    (@array) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(self.other("array"))
        }
    };
    (@object) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(self.other("object"))
        }
    };
}

impl ObjectVisitor<'_> {
    fn other(self, found: &str) {
        let expected = format!("v1.{}", self.of.name);
        self.reading.mismatch(found, &expected);
    }
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    wrong_types!(bool, number, string, array);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self {
            of,
            reading,
            mut type_meta,
            target,
        } = self;
        let object = match target {
            Target::Place(place) => place.set_empty(),
            Target::Object(object) => object,
        };
        let mut seen = 0_u64;
        let (mut kind_seen, mut api_version_seen) = (false, false);
        while let Some(key) = map.next_key_seed(KeySeed(of.fields, type_meta.is_some()))? {
            match key {
                Key::Known(index, field) => {
                    let bit = 1_u64
                        .checked_shl(u32::try_from(index).unwrap_or(u32::MAX))
                        .unwrap_or(0);
                    if seen & bit != 0 {
                        reading.note("duplicate", field.name());
                    }
                    seen |= bit;
                    reading.path.push(Step::Field(of.name, field.name()));
                    let place = object.place(field.stored);
                    map.next_value_seed(ValueSeed(field.kind, place, reading))?;
                    reading.path.pop();
                }
                Key::TypeMeta(name) => {
                    reading.path.push(Step::Field(of.name, name));
                    let mut value = None;
                    let place = Place::Text(&mut value);
                    map.next_value_seed(ValueSeed(Kind::Text, place, reading))?;
                    reading.path.pop();
                    if let Some(type_meta) = type_meta.as_deref_mut() {
                        let (place, seen_place) = if name == "kind" {
                            (&mut type_meta.kind, &mut kind_seen)
                        } else {
                            (&mut type_meta.api_version, &mut api_version_seen)
                        };
                        if std::mem::replace(seen_place, true) {
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
        Ok(())
    }
}

enum Key {
    Known(usize, &'static Field),
    TypeMeta(&'static str),
    Unknown(String),
}

struct KeySeed(&'static [Field], bool);

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
        let mut fields = self.0.iter().enumerate();
        Ok(match key {
            "kind" if self.1 => Key::TypeMeta("kind"),
            "apiVersion" if self.1 => Key::TypeMeta("apiVersion"),
            _ => match fields.find(|(_, field)| field.name() == key) {
                Some((index, field)) => Key::Known(index, field),
                None => Key::Unknown(key.to_owned()),
            },
        })
    }
}

/// The list that items are appended to.
enum Items<'a> {
    Texts(&'a mut Vec<String>),
    Objects(&'a mut dyn List, &'static Type),
}

/// Reads a list, and returns whether the value was a list.
struct ListVisitor<'a>(Items<'a>, &'a mut Reading);

impl ListVisitor<'_> {
    fn other(self, found: &str) -> bool {
        let expected = match self.0 {
            Items::Texts(_) => "[]string",
            Items::Objects(_, of) => &format!("[]v1.{}", of.name),
        };
        self.1.mismatch(found, expected);
        false
    }
}

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    wrong_types!(bool, number, string, object);

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<bool, A::Error> {
        for index in 0.. {
            self.1.path.push(Step::Index(index));
            let item = seq.next_element_seed(ItemSeed(&mut self.0, self.1))?;
            self.1.path.pop();
            if item.is_none() {
                break;
            }
        }
        Ok(true)
    }
}

/// Reads an item and appends it to the list.
struct ItemSeed<'a, 'l>(&'a mut Items<'l>, &'a mut Reading);

impl<'de> DeserializeSeed<'de> for ItemSeed<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.0 {
            Items::Texts(texts) => texts.push(read_text(value, self.1)?.unwrap_or_default()),
            Items::Objects(list, of) => value.deserialize_any(ObjectVisitor {
                of,
                target: Target::Object(list.push()),
                reading: self.1,
                type_meta: None,
            })?,
        }
        Ok(())
    }
}

/// Reads an object whose values are strings.
struct MapVisitor<'a>(&'a mut Reading);

impl MapVisitor<'_> {
    fn other(self, found: &str) -> BTreeMap<String, String> {
        self.0.mismatch(found, "map[string]string");
        BTreeMap::new()
    }
}

impl<'de> Visitor<'de> for MapVisitor<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    wrong_types!(bool, number, string, array);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let mut value = None;
            let place = Place::Text(&mut value);
            map.next_value_seed(ValueSeed(Kind::Text, place, self.0))?;
            if members.contains_key(&key) {
                self.0.note("duplicate", &key);
            }
            members.insert(key, value.unwrap_or_default());
        }
        Ok(members)
    }
}

/// A scalar, or only the fact that the value is a list or an object.
enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no `i64`, as text.
    Number(String),
    Text(String),
    Array,
    Object,
}

impl Scalar {
    /// The value's type in Go's words.
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Integer(_) | Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// Reads a value that should be a scalar.
fn read_scalar<'de, D: Deserializer<'de>>(value: D) -> Result<Scalar, D::Error> {
    value.deserialize_any(ScalarVisitor)
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        Ok(
            i64::try_from(value)
                .map_or_else(|_| Scalar::Number(value.to_string()), Scalar::Integer),
        )
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        // The number as it was most likely written. Of a larger number it is unknown whether it had
        // a point.
        let shown = if value.abs() < 1e16 {
            format!("{value:?}")
        } else {
            value.to_string()
        };
        Ok(Scalar::Number(shown))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }
    fn visit_string<E: Error>(self, value: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Array)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}
