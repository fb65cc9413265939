//! Decoding of bodies, shared by the readers of events, options and configurations. Each reader has
//! its own error messages, which are upstream's.

use bytes::Bytes;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};
use tidings_api::codec::json::{TypeMeta, complaint};
use tidings_api::codec::protobuf;
use tidings_api::yaml;

/// The error of a body that is not JSON, if its kind were read first; `None` if it is JSON.
pub(in crate::api) fn not_json(body: &[u8]) -> Option<String> {
    let why = complaint(body)?;
    let why = format!("couldn't get version/kind; json parse error: {why}");
    Some(why)
}

/// The type that a protobuf envelope names, and the bytes of the object in it.
///
/// # Errors
/// Why the bytes are not an envelope.
pub(in crate::api) fn enveloped(body: &Bytes) -> Result<(TypeMeta, Bytes), String> {
    let opened = protobuf::open(body)?;
    let type_meta = TypeMeta {
        api_version: Some(opened.api_version),
        kind: Some(opened.kind),
    };
    Ok((type_meta, opened.raw))
}

/// The error of a document that is not YAML.
pub(in crate::api) struct NotYaml {
    /// The error of a reader that refuses duplicate keys.
    pub(in crate::api) strict: Error,
    /// If that was a duplicate key: the error of a reader that uses the last value.
    lenient: Option<Error>,
}

/// Parses a YAML document. Also returns the error of a duplicate key, whose last value is used.
///
/// # Errors
/// Why the document is not YAML.
pub(in crate::api) fn lenient_yaml(
    document: &[u8],
) -> Result<(Value, Option<Error>), Box<NotYaml>> {
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

/// Parses the first YAML document. Also returns a warning about a duplicate key, whose last value
/// is used.
///
/// # Errors
/// Why the body is not YAML.
pub(in crate::api) fn yaml_value(body: &[u8]) -> Result<(Value, Option<String>), String> {
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
        // A document that is invalid in another way is refused, even if it also has duplicate keys.
        for body in [&b"a: b: c"[..], b"a: 1\na: 2\nb: [\n"] {
            let why = yaml_value(body).unwrap_err();
            assert!(why.starts_with("yaml: "), "{why}");
        }
    }
}
