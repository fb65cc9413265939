//! Objects from JSON, and what is noted on the way: where the reader is, which fields were unknown or given twice.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Field, Object};

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

    pub(crate) fn error<E: Error>(&self, message: impl fmt::Display) -> E {
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

pub(crate) struct ListVisitor<'a, View, T>(
    pub(crate) &'a mut Reading,
    pub(crate) PhantomData<(View, T)>,
);

impl<'de, View, T: Object<View>> Visitor<'de> for ListVisitor<'_, View, T>
where
    Option<T>: Field<View>,
{
    /// `null` is none.
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
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
                None => return Ok(Some(items)),
            }
        }
    }
}
