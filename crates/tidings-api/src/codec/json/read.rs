//! Objects from JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::reading::{Reading, Step};
use super::{Field, Object};

/// `apiVersion` and `kind`, as far as they were given.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`.
    pub api_version: Option<String>,
    /// `kind`.
    pub kind: Option<String>,
}

/// Reads a top-level object: its fields, `apiVersion` and `kind`.
pub fn read_document<'de, View, T: Object<View>, D: Deserializer<'de>>(
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

/// What a visitor does with values of kinds that are not its own: it notes them, and reads on.
macro_rules! others {
    ($($kind:ident),*) => { $(others!(@$kind);)* };
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

impl<View, T: Object<View>> ObjectVisitor<'_, View, T> {
    fn other(self, found: &str) -> Option<T> {
        let expected = format!("v1.{}", T::GO_NAME);
        self.reading.mismatch(found, &expected);
        None
    }
}

impl<'de, View, T: Object<View>> Visitor<'de> for ObjectVisitor<'_, View, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    others!(bool, number, string, array);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self {
            reading,
            mut type_meta,
            ..
        } = self;
        let mut object = T::default();
        let mut seen = 0_u64;
        let (mut kind_seen, mut api_version_seen) = (false, false);
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
                    reading.path.push(Step::Field(T::GO_NAME, name));
                    object.read_field(name, &mut map, reading)?;
                    reading.path.pop();
                }
                Key::TypeMeta(name) => {
                    reading.path.push(Step::Field(T::GO_NAME, name));
                    let value = next_value::<View, Option<String>, _>(&mut map, reading)?;
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
pub fn next_value<'de, View, F: Field<View>, A: MapAccess<'de>>(
    map: &mut A,
    reading: &mut Reading,
) -> Result<F, A::Error> {
    map.next_value_seed(FieldSeed(reading, PhantomData::<(View, F)>))
}

/// Reads an object; `null` means none.
pub fn read_object<'de, View, T: Object<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<Option<T>, D::Error> {
    value.deserialize_any(ObjectVisitor {
        reading,
        type_meta: None,
        of: PhantomData::<(View, T)>,
    })
}

/// Reads a list of objects; `null` means none.
pub(crate) fn read_list<'de, View, T: Object<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
) -> Result<Option<Vec<T>>, D::Error>
where
    Option<T>: Field<View>,
{
    let expected = format!("[]v1.{}", T::GO_NAME);
    let list = read_items::<View, Option<T>, D>(value, reading, &expected)?;
    Ok(list.map(|items| items.into_iter().map(Option::unwrap_or_default).collect()))
}

/// Reads a list of a Go type; `null` means none.
pub(crate) fn read_items<'de, View, F: Field<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
    expected: &str,
) -> Result<Option<Vec<F>>, D::Error> {
    value.deserialize_any(Items {
        reading,
        expected,
        of: PhantomData::<(View, F)>,
    })
}

struct Items<'a, View, F> {
    reading: &'a mut Reading,
    expected: &'a str,
    of: PhantomData<(View, F)>,
}

impl<View, F> Items<'_, View, F> {
    fn other(self, found: &str) -> Option<Vec<F>> {
        self.reading.mismatch(found, self.expected);
        None
    }
}

impl<'de, View, F: Field<View>> Visitor<'de> for Items<'_, View, F> {
    type Value = Option<Vec<F>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    others!(bool, number, string, object);

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.reading.path.push(Step::Index(items.len()));
            let item = seq.next_element_seed(FieldSeed(self.reading, self.of))?;
            self.reading.path.pop();
            match item {
                Some(item) => items.push(item),
                None => return Ok(Some(items)),
            }
        }
    }
}

/// Reads an object whose members are all of one kind; `null` means none.
pub(crate) fn read_map<'de, View, F: Field<View>, D: Deserializer<'de>>(
    value: D,
    reading: &mut Reading,
    expected: &str,
) -> Result<Option<BTreeMap<String, F>>, D::Error> {
    value.deserialize_any(Members {
        reading,
        expected,
        of: PhantomData::<(View, F)>,
    })
}

struct Members<'a, View, F> {
    reading: &'a mut Reading,
    expected: &'a str,
    of: PhantomData<(View, F)>,
}

impl<View, F> Members<'_, View, F> {
    fn other(self, found: &str) -> Option<BTreeMap<String, F>> {
        self.reading.mismatch(found, self.expected);
        None
    }
}

impl<'de, View, F: Field<View>> Visitor<'de> for Members<'_, View, F> {
    type Value = Option<BTreeMap<String, F>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    others!(bool, number, string, array);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(FieldSeed(&mut *self.reading, self.of))?;
            if members.contains_key(&key) {
                self.reading.note("duplicate", &key);
            }
            members.insert(key, value);
        }
        Ok(Some(members))
    }
}

/// A value that is neither list nor object, or which of them it is.
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    /// Any other number, as it is printed.
    Number(String),
    Text(String),
    Array,
    Object,
}

impl Scalar {
    /// What Go calls it.
    pub(crate) fn kind(&self) -> &'static str {
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

/// Reads a value that ought to be a scalar.
pub(crate) fn read_scalar<'de, D: Deserializer<'de>>(value: D) -> Result<Scalar, D::Error> {
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
        // As it was most likely written; of what is larger it cannot be told whether it had a
        // point.
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
