//! Values as Go prints them, where an error has to show what was refused.

use serde_json::Value;
use tidings_core::validate::go_quote;

/// A JSON value as `%v` prints what Go decodes it to: `map[count:x]`.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<String> = members
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", go_value(value)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// What `%T` prints of a JSON value that Go decoded.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A JSON value as `%#v` prints what Go decodes it to: `map[string]interface {}{"count":"x"}`.
pub(crate) fn go_syntax(value: &Value) -> String {
    let inside = match value {
        Value::Null => return "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => return value.to_string(),
        Value::String(text) => return go_quote(text),
        Value::Array(items) => items.iter().map(go_syntax).collect::<Vec<_>>(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| format!("{}:{}", go_quote(key), go_syntax(value)))
            .collect(),
    };
    format!("{}{{{}}}", go_type(value), inside.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_by_go() {
        let value = json!({"b": [1, "x", null], "a": {"c": true}});
        assert_eq!(go_value(&value), "map[a:map[c:true] b:[1 x <nil>]]");
        assert_eq!(
            go_syntax(&value),
            "map[string]interface {}{\"a\":map[string]interface {}{\"c\":true}, \
             \"b\":[]interface {}{1, \"x\", interface {}(nil)}}"
        );
    }
}
