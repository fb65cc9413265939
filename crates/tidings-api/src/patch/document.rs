//! Parses a patch: JSON whose duplicate keys are noted, as Go does.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::go::{Notes, complaint, replace_what_is_no_text};

/// Reads a patch and notes duplicate keys, such as `duplicate field "a[0].b"`. The last value of a
/// duplicate counts.
///
/// # Errors
///
/// Go's words for a syntax error.
pub(super) fn read(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    match parse(body) {
        Ok(read) => Ok(read),
        Err(error) => match complaint(body) {
            Some(why) => Err(why),
            None => parse(&replace_what_is_no_text(body)).map_err(|_| error.to_string()),
        },
    }
}

fn parse(body: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    let mut reader = Reader::default();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = (&mut reader).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, reader.notes.texts))
}

/// The state of the reader. The path may be as long as the patch, so the state also has a digest of
/// it. Short members below a long path then do not cost the path's length.
#[derive(Default)]
struct Reader {
    path: String,
    digest: DefaultHasher,
    notes: Notes,
}

impl Reader {
    /// Reads a value one step deeper.
    fn within<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let (len, digest) = (self.path.len(), self.digest.clone());
        if !self.path.is_empty() && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let added = self.path.get(len..).unwrap_or_default();
        self.digest.write(added.as_bytes());
        let read = read(self);
        self.path.truncate(len);
        self.digest = digest;
        read
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let step = format!("[{}]", items.len());
            match self.within(&step, |reader| seq.next_element_seed(reader))? {
                Some(item) => items.push(item),
                None => return Ok(items.into()),
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = self.within(&key, |reader| {
                if members.contains_key(&key) {
                    let digest = reader.digest.clone();
                    let Reader { path, notes, .. } = reader;
                    notes.note_digested("duplicate", digest, path);
                }
                map.next_value_seed(reader)
            })?;
            members.insert(key, value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_twice_is_noted_and_the_last_counts() {
        let (value, notes) = read(br#"{"a":{"b":1,"b":2},"c":[{"d":1,"d":3}],"a":4}"#).unwrap();
        assert_eq!(value.to_string(), r#"{"a":4,"c":[{"d":3}]}"#);
        let noted = ["a.b", "c[0].d", "a"].map(|path| format!("duplicate field \"{path}\""));
        assert_eq!(notes, noted);
    }

    #[test]
    fn what_is_no_json_is_told_in_the_words_of_go() {
        assert_eq!(read(b"{").unwrap_err(), "unexpected end of JSON input");
        assert!(read(br#""\ud800""#).is_ok());
    }
}
