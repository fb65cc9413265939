//! Attributes of OpenTelemetry's JSON (OTLP), in which a collector's k8sobjects receiver writes
//! objects: `{"kvlistValue":{"values":[{"key":"kind","value":{"stringValue":"Event"}}]}}`.

use serde_json::{Map, Number, Value};

/// Numbers below this one are whole numbers in a double.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The value that an attribute's value (`AnyValue`) stands for. The parser has bounded its depth.
pub(super) fn plain(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return Value::Null;
    };
    let mut known = fields.into_iter().filter_map(|(kind, value)| {
        Some(match (kind.as_str(), value) {
            ("stringValue" | "boolValue" | "bytesValue", value) => value,
            ("intValue" | "doubleValue", Value::String(number)) => {
                number.parse().map_or(Value::String(number), Value::Number)
            }
            ("intValue" | "doubleValue", Value::Number(number)) => Value::Number(whole(number)),
            ("arrayValue", list) => values(list).map(plain).collect(),
            ("kvlistValue", list) => {
                let fields = values(list).filter_map(field);
                Value::Object(fields.collect::<Map<_, _>>())
            }
            _ => return None,
        })
    });
    known.next().unwrap_or_default()
}

/// The values of a list.
fn values(list: Value) -> impl Iterator<Item = Value> {
    let values = match list {
        Value::Object(mut list) => list.remove("values"),
        _ => None,
    };
    let values = match values {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    };
    values.into_iter()
}

/// The key and the value of an attribute.
fn field(attribute: Value) -> Option<(String, Value)> {
    let Value::Object(mut attribute) = attribute else {
        return None;
    };
    let Some(Value::String(key)) = attribute.remove("key") else {
        return None;
    };
    let value = attribute.remove("value").unwrap_or_default();
    Some((key, plain(value)))
}

/// A whole number without its fraction, because some programs write all numbers as doubles.
fn whole(number: Number) -> Number {
    let double = number.as_f64().filter(|_| number.is_f64());
    let is_whole = |double: &f64| double.fract() == 0.0 && double.abs() < WHOLE_MAX;
    match double.filter(is_whole) {
        Some(double) => Number::from(double as i64),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_value_is_the_value_it_stands_for() {
        let list = |key: &str, value: Value| json!({"kvlistValue": {"values": [{"key": key, "value": value}]}});
        for (value, expected) in [
            (json!({"stringValue": "a"}), json!("a")),
            (json!({"boolValue": true}), json!(true)),
            (json!({"intValue": "7"}), json!(7)),
            (json!({"intValue": -7}), json!(-7)),
            (json!({"intValue": "x"}), json!("x")),
            (json!({"doubleValue": 1.5}), json!(1.5)),
            (json!({"doubleValue": 7.0}), json!(7)),
            (json!({"doubleValue": "NaN"}), json!("NaN")),
            (json!({"bytesValue": "YQ=="}), json!("YQ==")),
            (json!({}), Value::Null),
            (json!({"other": 1}), Value::Null),
            (json!(7), Value::Null),
            (
                json!({"arrayValue": {"values": [{"intValue": 1}, {}]}}),
                json!([1, null]),
            ),
            (json!({"arrayValue": {}}), json!([])),
            (
                list("a", list("b", json!({"stringValue": ""}))),
                json!({"a": {"b": ""}}),
            ),
            (
                json!({"kvlistValue": {"values": [{"key": "a"}, {"value": {}}, 7]}}),
                json!({"a": null}),
            ),
            (json!({"kvlistValue": null}), json!({})),
        ] {
            assert_eq!(plain(value.clone()), expected, "{value}");
        }
    }
}
