//! A JSON or YAML document that keeps the order of its keys, because clients print in that order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// One value of a document.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Tree {
    #[default]
    Null,
    Bool(bool),
    /// A number as its text, so that one of any size stays exact.
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// The value of a key, if this is a map with the key.
    pub(crate) fn get(&self, key: &str) -> Option<&Tree> {
        let Self::Map(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The value at a path of keys and positions, such as `items.0.metadata.name`.
    pub(crate) fn at(&self, path: &str) -> Option<&Tree> {
        path.split('.').try_fold(self, |tree, part| match tree {
            Self::List(items) => items.get(part.parse::<usize>().ok()?),
            _ => tree.get(part),
        })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Merges another document into this one as a JSON merge patch does: null removes a key.
    pub(crate) fn merge(&mut self, over: &Tree) {
        let (Self::Map(entries), Self::Map(changes)) = (&mut *self, over) else {
            *self = over.clone();
            return;
        };
        for (key, change) in changes {
            let place = entries.iter().position(|(name, _)| name == key);
            match (place, change) {
                (Some(place), Self::Null) => {
                    entries.remove(place);
                }
                (None, Self::Null) => {}
                (Some(place), change) => {
                    if let Some((_, value)) = entries.get_mut(place) {
                        value.merge(change);
                    }
                }
                (None, change) => entries.push((key.clone(), change.clone())),
            }
        }
    }

    /// Applies `change` to every text.
    pub(crate) fn map_text(&mut self, change: &mut impl FnMut(&str) -> Tree) {
        match self {
            Self::Text(text) => *self = change(text),
            Self::List(items) => items.iter_mut().for_each(|item| item.map_text(change)),
            Self::Map(entries) => entries
                .iter_mut()
                .for_each(|(_, value)| value.map_text(change)),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Self::Number(number.to_string())
    }
}

/// Prints the document as one line of JSON.
impl fmt::Display for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        formatter.write_str(&json)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => {
                if let Ok(whole) = number.parse::<i64>() {
                    serializer.serialize_i64(whole)
                } else if let Ok(whole) = number.parse::<u64>() {
                    serializer.serialize_u64(whole)
                } else {
                    serializer.serialize_f64(number.parse().unwrap_or(f64::NAN))
                }
            }
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Builder;
        impl<'de> Visitor<'de> for Builder {
            type Value = Tree;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
                Tree::deserialize(inner)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Number(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Number(value.to_string()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
                Ok(Tree::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Tree::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Tree::Map(map))
            }
        }
        deserializer.deserialize_any(Builder)
    }
}
