//! Go's errors for values of the wrong type.
//!
//! They are those of `encoding/json` and `runtime.DefaultUnstructuredConverter`.

use serde_json::Value;

/// Go's name for the type of a JSON value.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go's error for JSON of the wrong type, in a place such as `value of type []string`.
pub(crate) fn cannot_unmarshal(found: &str, into: &str) -> String {
    format!("json: cannot unmarshal {found} into Go {into}")
}

/// Returns Go's error for a field of the wrong type in an object that is already decoded to a map.
pub(crate) fn unstructured_mismatch(found: &str, expected: &str) -> String {
    let (kind, number) = found.split_once(' ').unwrap_or((found, ""));
    let kind = match kind {
        "array" => "slice",
        "object" => "map",
        "number" if number.contains(['.', 'e']) => "float64",
        "number" => "int64",
        other => other,
    };
    if expected.starts_with("[]") {
        format!("cannot restore slice from {kind}")
    } else if expected.starts_with("map[") {
        format!("cannot restore map from {kind}")
    } else if expected.starts_with("v1.") {
        format!("cannot restore struct from: {kind}")
    } else if matches!(kind, "int64" | "float64") {
        format!("cannot convert {kind} to {expected}")
    } else {
        format!("unrecognized type: {expected}")
    }
}
