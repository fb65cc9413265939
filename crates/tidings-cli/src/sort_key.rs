//! `--sort-by`: sorts events by a field, as `kubectl get` does.
//!
//! Events of events.k8s.io/v1 have no firstTimestamp and no lastTimestamp. A sort by one of these
//! uses when an event was first or last seen, whichever fields say it.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;

use crate::event::Event;
use crate::jsonpath::{EvaluationError, Path};

/// The field to sort by.
///
/// ```
/// use serde_json::json;
/// use tidings_cli::event::Event;
/// use tidings_cli::sort_key::SortKey;
///
/// let events = [12, 7].map(|count| Event::new(json!({"count": count})));
/// let mut events = Vec::from(events);
/// let key: SortKey = ".count".parse()?;
/// key.sort(&mut events).unwrap();
/// assert_eq!(events[0].count(), 7);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    text: String,
    path: Path,
}

/// The reason why events cannot be sorted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// No event has the field.
    #[error("sort the events: none of them has a field {0}")]
    NoField(String),
    /// The field cannot be looked up.
    #[error("sort the events: {0}")]
    Evaluation(#[from] EvaluationError),
}

impl std::str::FromStr for SortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            path: text.parse()?,
        })
    }
}

impl SortKey {
    /// The time of an event by which is sorted, if the field is one of its times.
    fn seen(&self) -> Option<fn(&Event) -> Option<Timestamp>> {
        let text = self.text.trim_start_matches('{').trim_end_matches('}');
        match text.trim_start_matches('.') {
            "firstTimestamp" => Some(Event::first_seen),
            "lastTimestamp" => Some(Event::last_seen),
            _ => None,
        }
    }

    /// Sorts events by the field. Events without it come first. Numbers are sorted as numbers, even
    /// if all are texts, and other texts alphabetically. The sort is stable.
    ///
    /// # Errors
    /// No event has the field, or it cannot be looked up.
    pub fn sort(&self, events: &mut Vec<Event>) -> Result<(), SortError> {
        let mut keys = Vec::with_capacity(events.len());
        let seen = self.seen();
        for event in events.iter() {
            if let Some(seen) = seen {
                let at = seen(event).map(Timestamp::as_microsecond);
                keys.push(at.map_or(Value::Null, Value::from));
                continue;
            }
            let value = event.value();
            let found = self.path.find(value, value)?.into_iter().next();
            keys.push(found.cloned().unwrap_or_default());
        }
        if !events.is_empty() && keys.iter().all(Value::is_null) {
            return Err(SortError::NoField(self.text.clone()));
        }
        let number = |key: &Value| key.as_str().and_then(|text| text.parse::<f64>().ok());
        if keys
            .iter()
            .all(|key| key.is_null() || number(key).is_some())
        {
            for key in &mut keys {
                *key = number(key).map_or(Value::Null, Value::from);
            }
        }
        let mut keyed: Vec<_> = keys.into_iter().zip(std::mem::take(events)).collect();
        keyed.sort_by(|(one, _), (other, _)| compare(one, other));
        *events = keyed.into_iter().map(|(_, event)| event).collect();
        Ok(())
    }
}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Number(one), Value::Number(other)) => {
            let number = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
            number(one).total_cmp(&number(other))
        }
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (one, other) => one.to_string().cmp(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(path: &str, values: &[Value]) -> Result<Vec<Value>, String> {
        let events = values
            .iter()
            .map(|value| Event::new(json!({"metadata": {"labels": {"x": value}}})));
        let mut events: Vec<_> = events.collect();
        let key: SortKey = path.parse()?;
        key.sort(&mut events).map_err(|error| error.to_string())?;
        let found = events
            .iter()
            .map(|event| event.value()["metadata"]["labels"]["x"].clone());
        Ok(found.collect())
    }

    #[test]
    fn fields_are_in_the_order_that_kubectl_has() {
        let in_order: [&[Value]; 5] = [
            &[Value::Null, json!(-1), json!(2), json!(2.5), json!(10)],
            &[
                json!(""),
                json!("db"),
                json!("web-10"),
                json!("web-2"),
                json!("web-9"),
            ],
            &[json!("2"), json!("9.5"), json!("10"), json!("1e3")],
            // Some texts are no numbers.
            &[json!("10"), json!("1x"), json!("2")],
            &[
                json!("2026-03-04T05:06:07Z"),
                json!("2026-03-04T05:06:10Z"),
                json!("2026-03-14T05:06:00Z"),
            ],
        ];
        for values in in_order {
            let reversed: Vec<_> = values.iter().rev().cloned().collect();
            assert_eq!(sorted(".metadata.labels.x", &reversed).unwrap(), values);
            assert_eq!(sorted("{.metadata.labels.x}", &reversed).unwrap(), values);
        }
    }

    #[test]
    fn first_and_last_seen_are_times_of_either_api_version() {
        let events = [
            json!({"firstTimestamp": "2026-03-04T05:06:07Z", "lastTimestamp": "2026-03-04T05:06:10Z"}),
            json!({"eventTime": "2026-03-04T05:06:08.5Z", "firstTimestamp": null, "lastTimestamp": null}),
            json!({"eventTime": "2026-03-04T05:06:07.5Z", "series": {"count": 2, "lastObservedTime": "2026-03-04T05:06:11Z"}}),
            json!({"metadata": {"creationTimestamp": "2026-03-04T05:06:09Z"}}),
        ];
        for (path, order) in [
            (".firstTimestamp", [0, 2, 1, 3]),
            ("{.firstTimestamp}", [0, 2, 1, 3]),
            ("firstTimestamp", [0, 2, 1, 3]),
            (".lastTimestamp", [1, 3, 0, 2]),
        ] {
            let Ok(key) = path.parse::<SortKey>() else {
                panic!("{path} is a path");
            };
            let mut sorted = events.clone().map(Event::new).to_vec();
            key.sort(&mut sorted).unwrap();
            let expected = order.map(|index| Event::new(events[index].clone()));
            assert_eq!(sorted, expected, "{path}");
        }
    }

    #[test]
    fn a_field_that_no_event_has_is_an_error() {
        let error = sorted(".nope", &[json!(1)]).unwrap_err();
        assert_eq!(error, "sort the events: none of them has a field .nope");
        assert_eq!(sorted(".nope", &[]), Ok(Vec::new()));
        assert!(sorted("{.a", &[]).is_err());
        assert!(sorted(".metadata.labels.x[1]", &[json!([0])]).is_err());
    }
}
