//! Reads YAML of clients, with bounded aliases.
//!
//! An alias may name a value as long as the whole body, so the length of the body bounds what all
//! aliases may repeat.
//!
//! Most YAML from clients is JSON, which takes a tenth of the time to read as JSON. [`plain_json`]
//! does that where both readings are the same.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

/// Minimum of the bound on parser events that aliases may repeat, for short bodies.
const EVENTS_MIN: usize = 10_000;
/// Maximum of that bound, which is the parser's own.
const EVENTS_MAX: usize = 1_000_000;
/// Minimum of the bound on bytes of text, for short bodies.
const TEXT_BYTES_MIN: usize = 64 * 1024;

/// Reads one document.
///
/// # Errors
///
/// The reason why the body is no YAML, or not of the wanted form; a duplicate key, unless the last
/// is to count.
pub fn read<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<T, Error> {
    serde_saphyr::from_slice_with_options(body, options(body.len(), duplicate_keys))
}

/// Whether YAML is refused because of a duplicate key. With [`DuplicateKeyPolicy::LastWins`] it may
/// be read.
pub fn has_key_twice(error: &Error) -> bool {
    match error {
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => has_key_twice(error),
        error => matches!(error, Error::DuplicateMappingKey { .. }),
    }
}

/// The object that a body is both as JSON and as YAML. `None` if the body is no JSON object, or one
/// that the two may read differently: a key is a duplicate or merges another object, or a number
/// has a fraction, an exponent, or more than 63 bits.
pub fn plain_json(body: &[u8]) -> Option<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Plain.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(value).filter(Value::is_object)
}

/// Reads a value for [`plain_json`].
#[derive(Clone, Copy)]
struct Plain;

/// The key with which YAML merges another object into this one.
const MERGE: &str = "<<";

impl<'de> DeserializeSeed<'de> for Plain {
    type Value = Value;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what JSON and YAML have in common")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::from).map_err(E::custom)
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(array.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if key == MERGE {
                return Err(de::Error::custom("a key of another meaning"));
            }
            let value = members.next_value_seed(self)?;
            if object.insert(key, value).is_some() {
                return Err(de::Error::custom("a key is given twice"));
            }
        }
        Ok(object.into())
    }
}

/// The part of a YAML body before a second document.
pub fn first_document(body: &[u8]) -> &[u8] {
    let mut at = 0;
    let mut begun = false;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if text == b"---" || text == b"..." {
            if begun {
                return body.get(..at).unwrap_or(body);
            }
        } else {
            begun |= !text.is_empty() && !text.starts_with(b"#") && !text.starts_with(b"%");
        }
        at += line.len();
    }
    body
}

fn options(len: usize, duplicate_keys: DuplicateKeyPolicy) -> Options {
    let repeated = len.clamp(EVENTS_MIN, EVENTS_MAX);
    // No escape stands for more than twice its own length.
    let text = len.saturating_mul(2).max(TEXT_BYTES_MIN);
    serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: repeated },
        budget: serde_saphyr::budget! {
            max_recorded_anchor_events: repeated,
            max_recorded_anchor_bytes: text,
            max_total_scalar_bytes: text,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_read(yaml: &str) -> bool {
        read::<Value>(yaml.as_bytes(), DuplicateKeyPolicy::Error).is_ok()
    }

    #[test]
    fn aliases_multiply_nothing_beyond_the_length_of_a_body() {
        assert!(is_read("a: &a {b: [1, 2]}\nc: *a\nd: *a\n"));
        let long = |aliases: usize| {
            let aliases = "*a, ".repeat(aliases);
            format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(30_000))
        };
        assert!(is_read(&long(1)));
        assert!(!is_read(&long(5)));
        let many = |aliases: usize| {
            let aliases = "*a, ".repeat(aliases);
            format!("a: &a [{}]\nb: [{aliases}]\n", "1, ".repeat(500))
        };
        assert!(is_read(&many(10)));
        assert!(!is_read(&many(50)));
        let escapes = "\\L".repeat(100_000);
        assert!(is_read(&format!("\"{escapes}\"")));
    }

    /// Generates some of these texts, which commas separate.
    fn one_of(texts: &'static str) -> impl Strategy<Value = String> + Clone {
        let texts: Vec<&str> = texts.split(',').collect();
        prop::sample::select(texts).prop_map(str::to_owned)
    }

    /// Generates JSON text, or nearly JSON. It has duplicate keys, numbers of all kinds, escapes
    /// that YAML does not have, and all kinds of space.
    fn nearly_json() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            4 => "[ -~]",
            1 => any::<char>().prop_map(String::from),
            1 => prop::sample::select(&[
                "\\n", "\\t", "\\/", "\\\\", "\\\"", "\\b", "\\f", "\\r", "\\u0000", "\\u0041", "\\u0085",
                "\\u2028", "\\ufeff", "\\ud83d\\ude00", "\\ud800", "\\x41", "\\N", "\u{7f}", "\u{85}", "\u{a0}",
                "\u{2028}", "\u{2029}", "\u{feff}", "\u{fffe}", "\u{ffff}", ": ", " #", "- ", "---", "...", "\n", "\t",
            ]).prop_map(str::to_owned),
        ];
        let words = ",~,null,true,no,0,-1,1.5,0x1f,1e3,.inf,2020-01-01,<<,=,a,b,*a,&a,\
                     !!int 1,? a,|,>,%,@,`";
        let string = prop_oneof![
            one_of(words),
            prop::collection::vec(character, 0..8).prop_map(|all| all.concat()),
            Just("k".repeat(1100)),
        ]
        .prop_map(|text| {
            let quoted = text.replace('"', "\\\"").replace("\\\\\"", "\\\"");
            format!("\"{quoted}\"")
        });
        let number = prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            any::<u64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number}")),
            any::<f64>().prop_map(|number| format!("{number:e}")),
            one_of("0,-0,01,+1,1.,.5,1E2,99999999999999999999,0b1,0o7,1_0"),
        ];
        let leaf = prop_oneof![
            3 => string.clone(),
            2 => number,
            1 => one_of("null,true,false,~,a,Null,*a"),
        ];
        let space = || prop::sample::select(&["", "", "", " ", "\n", "\t", "\r\n", "  \n "]);
        let value = leaf.prop_recursive(5, 40, 5, move |value| {
            let item = (space(), value.clone(), space()).prop_map(|(a, b, c)| [a, &b, c].concat());
            let items = prop::collection::vec(item.clone(), 0..5);
            let member = (space(), string.clone(), space(), item)
                .prop_map(|(a, key, b, value)| format!("{a}{key}{b}:{value}"));
            let members = prop::collection::vec(member, 0..5);
            prop_oneof![
                1 => items.prop_map(|items| format!("[{}]", items.join(","))),
                2 => members.prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        });
        (space(), value, space()).prop_map(|(a, b, c)| [a, &b, c].concat())
    }

    proptest! {
        #[test]
        fn plain_json_is_what_yaml_makes_of_it(text in nearly_json()) {
            let Some(read) = plain_json(text.as_bytes()) else {
                return Ok(());
            };
            match super::read::<Value>(text.as_bytes(), DuplicateKeyPolicy::Error) {
                Ok(yaml) => prop_assert_eq!(yaml, read),
                Err(error) => prop_assert!(!has_key_twice(&error), "{}", error),
            }
        }
    }

    #[test]
    fn what_yaml_may_read_in_another_way_is_not_plain() {
        for (text, expected) in [
            (r#"{"a": {"b": [1, -2, true, null, "c\n"]}}"#, true),
            ("{}", true),
            (r#"{"a": 1, "a": 1}"#, false),
            (r#"{"<<": {"a": 1}}"#, false),
            (r#"{"a": 1.0}"#, false),
            (r#"{"a": 1e3}"#, false),
            (r#"{"a": -0}"#, false),
            (r#"{"a": 9223372036854775807}"#, true),
            (r#"{"a": 9223372036854775808}"#, false),
            ("[1]", false),
            ("{a: 1}", false),
            ("{} {}", false),
        ] {
            assert_eq!(plain_json(text.as_bytes()).is_some(), expected, "{text}");
        }
    }

    /// Repetition by aliases is counted, and JSON must not count as repetition.
    #[test]
    fn deep_and_long_json_is_plain() {
        let deep = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
        assert!(plain_json(deep.as_bytes()).is_some());
        let too_deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        assert!(plain_json(too_deep.as_bytes()).is_none());
        let long: Value = (0..1001).map(|n| (format!("k{n}"), n)).collect();
        assert_eq!(plain_json(long.to_string().as_bytes()), Some(long));
    }
}
