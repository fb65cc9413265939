//! The differences of two JSON values, member by member.

use serde_json::Value;

/// Every place where `theirs` and `ours` differ, each with its path and both values.
pub(crate) fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(theirs), Some(ours), &mut found);
    found
}

fn compare(path: &str, theirs: Option<&Value>, ours: Option<&Value>, found: &mut Vec<String>) {
    if let (Some(Value::Object(theirs)), Some(Value::Object(ours))) = (theirs, ours) {
        for (key, value) in theirs {
            compare(&format!("{path}.{key}"), Some(value), ours.get(key), found);
        }
        for (key, value) in ours {
            if !theirs.contains_key(key) {
                compare(&format!("{path}.{key}"), None, Some(value), found);
            }
        }
    } else if theirs != ours {
        let shown = |value: Option<&Value>| value.map_or("(absent)".to_owned(), Value::to_string);
        found.push(format!(
            "body{path}: client-go {}, tidings {}",
            shown(theirs),
            shown(ours)
        ));
    }
}
