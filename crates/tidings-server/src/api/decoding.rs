//! Decoding of bodies, as far as the readers of events, of options and of configurations have it in
//! common. Each of them has upstream's words for what it refuses.

use bytes::Bytes;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};
use tidings_api::codec::json::{TypeMeta, complaint};
use tidings_api::codec::protobuf;
use tidings_api::yaml;

/// Why a body is not JSON, where its kind would be read first; `None` if it is.
pub(super) fn not_json(body: &[u8]) -> Option<String> {
    let why = complaint(body)?;
    let why = format!("couldn't get version/kind; json parse error: {why}");
    Some(why)
}

/// The type that an envelope of protobuf names, and the bytes of the object in it.
///
/// # Errors
/// Why it is not an envelope.
pub(super) fn enveloped(body: &Bytes) -> Result<(TypeMeta, Bytes), String> {
    let opened = protobuf::open(body)?;
    let type_meta = TypeMeta {
        api_version: Some(opened.api_version),
        kind: Some(opened.kind),
    };
    Ok((type_meta, opened.raw))
}

/// Why a document is not YAML.
pub(super) struct NotYaml {
    /// To a reader that refuses a duplicate key.
    pub(super) strict: Error,
    /// If that was the reason: to one that uses the last value.
    lenient: Option<Error>,
}

/// A document of YAML, and the error of a duplicate key, whose last value is used.
///
/// # Errors
/// Why it is not YAML.
pub(super) fn lenient_yaml(document: &[u8]) -> Result<(Value, Option<Error>), Box<NotYaml>> {
    let strict = match yaml::read(document, DuplicateKeyPolicy::Error) {
        Ok(value) => return Ok((value, None)),
        Err(strict) => strict,
    };
    if !yaml::has_key_twice(&strict) {
        let lenient = None;
        return Err(Box::new(NotYaml { strict, lenient }));
    }
    match yaml::read(document, DuplicateKeyPolicy::LastWins) {
        Ok(value) => Ok((value, Some(strict))),
        Err(error) => {
            let lenient = Some(error);
            Err(Box::new(NotYaml { strict, lenient }))
        }
    }
}

/// The first document of YAML, and a note on a duplicate key, whose last value is used.
///
/// # Errors
/// Why it is not YAML.
pub(super) fn yaml_value(body: &[u8]) -> Result<(Value, Option<String>), String> {
    let document = yaml::first_document(body);
    if document.trim_ascii().is_empty() {
        return Ok((Value::Null, None));
    }
    match lenient_yaml(document) {
        Ok((value, repeated)) => Ok((value, repeated.as_ref().map(one_line))),
        Err(why) => {
            let NotYaml { strict, lenient } = *why;
            let error = lenient.unwrap_or(strict);
            Err(format!("yaml: {}", one_line(&error)))
        }
    }
}

/// The message of an error, without the excerpt of the document below it.
fn one_line(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_key_given_twice_the_last_value_is_used_and_the_first_is_noted() {
        let (value, note) = yaml_value(b"a: 1\na: 2\n---\na: 3\n").unwrap();
        assert_eq!(value, json!({"a": 2}));
        let note = note.unwrap();
        assert!(note.contains("duplicate") && !note.contains('\n'), "{note}");
        assert_eq!(yaml_value(b" \n").unwrap(), (Value::Null, None));
        // What is not YAML in any other way is refused, whatever else is given twice.
        for body in [&b"a: b: c"[..], b"a: 1\na: 2\nb: [\n"] {
            let why = yaml_value(body).unwrap_err();
            assert!(why.starts_with("yaml: "), "{why}");
        }
    }
}
