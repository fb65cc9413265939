//! Go's formatting of values, for errors that show them.

use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value};
use tidings_core::validate::Quoted;

/// A JSON value as Go's `%v` prints it: `map[count:x]`.
pub(crate) struct GoValue<'a>(pub(crate) &'a Value);

impl Display for GoValue<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::String(text) => f.write_str(text),
            Value::Array(items) => write!(f, "{}", GoList(items)),
            Value::Object(members) => write!(f, "{}", GoMap(members)),
        }
    }
}

/// A list as Go's `%v` prints it.
pub(crate) struct GoList<'a>(pub(crate) &'a [Value]);

impl Display for GoList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, item) in self.0.iter().enumerate() {
            let before = if place == 0 { "" } else { " " };
            write!(f, "{before}{}", GoValue(item))?;
        }
        f.write_str("]")
    }
}

/// A map as Go's `%v` prints it.
pub(crate) struct GoMap<'a>(pub(crate) &'a Map<String, Value>);

impl Display for GoMap<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut members: Vec<(&String, &Value)> = self.0.iter().collect();
        members.sort_by_key(|(key, _)| *key);
        f.write_str("map[")?;
        for (place, (key, value)) in members.into_iter().enumerate() {
            let before = if place == 0 { "" } else { " " };
            write!(f, "{before}{key}:{}", GoValue(value))?;
        }
        f.write_str("]")
    }
}

/// The type of a JSON value as Go's `%T` prints it.
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

/// A JSON value as Go's `%#v` prints it: `map[string]interface {}{"count":"x"}`.
pub(crate) struct GoSyntax<'a>(pub(crate) &'a Value);

impl Display for GoSyntax<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let between = |place: usize| if place == 0 { "" } else { ", " };
        match self.0 {
            Value::Null => return f.write_str("interface {}(nil)"),
            Value::Bool(_) | Value::Number(_) => return write!(f, "{}", self.0),
            Value::String(text) => return write!(f, "{}", Quoted(text)),
            Value::Array(items) => {
                write!(f, "{}{{", go_type(self.0))?;
                for (place, item) in items.iter().enumerate() {
                    write!(f, "{}{}", between(place), GoSyntax(item))?;
                }
            }
            Value::Object(members) => {
                write!(f, "{}{{", go_type(self.0))?;
                for (place, (key, value)) in members.iter().enumerate() {
                    write!(f, "{}{}:{}", between(place), Quoted(key), GoSyntax(value))?;
                }
            }
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_by_go() {
        let value = json!({"b": [1, "x", null], "a": {"c": true}});
        assert_eq!(
            GoValue(&value).to_string(),
            "map[a:map[c:true] b:[1 x <nil>]]"
        );
        assert_eq!(
            GoSyntax(&value).to_string(),
            "map[string]interface {}{\"a\":map[string]interface {}{\"c\":true}, \
             \"b\":[]interface {}{1, \"x\", interface {}(nil)}}"
        );
    }
}
