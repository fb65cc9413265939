//! Values as Go prints them, where an error has to show what was refused.

use serde_json::Value;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_by_go() {
        let value = json!({"b": [1, "x", null], "a": {"c": true}});
        assert_eq!(go_value(&value), "map[a:map[c:true] b:[1 x <nil>]]");
    }
}
