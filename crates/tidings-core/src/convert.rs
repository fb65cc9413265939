//! Converts an event's JSON between core/v1 and events.k8s.io/v1.
//!
//! Both versions have the same values under different names (Kubernetes'
//! `pkg/apis/events/v1/conversion.go`). So conversion only renames top-level members: every value,
//! known to this library or not, is unchanged. events.k8s.io/v1beta1 has the names of
//! events.k8s.io/v1.

use serde_json::{Map, Value};

use crate::fields::{Field, core_v1, events_v1};

/// The fields whose names differ: each name in core/v1, then in events.k8s.io/v1.
pub fn renamed_fields() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    let of_core =
        |field: &Field| (core_v1::EVENT.fields.iter()).find(|core| core.number == field.stored);
    let pairs = events_v1::EVENT
        .fields
        .iter()
        .filter_map(move |field| Some((of_core(field)?.name(), field.name())));
    pairs.filter(|(core, events)| core != events)
}

/// The reason why an event's JSON could not be converted. The event is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A field is present under both names, and only one value could be kept.
    #[error("has both {from} and {to}, which are the same field in events.k8s.io/v1 and core/v1")]
    BothNames {
        /// The field's name in the version converted from.
        from: &'static str,
        /// The field's name in the version converted to.
        to: &'static str,
    },
}

/// Renames the fields of an events.k8s.io event to those of core/v1 and sets `apiVersion` and
/// `kind`.
///
/// ```
/// # use serde_json::{Value, json};
/// let Value::Object(mut event) = json!({"regarding": {"kind": "Pod"}, "note": "Created", "reason": "Created"}) else { unreachable!() };
/// tidings_core::convert::to_core_v1(&mut event)?;
/// assert_eq!(event["involvedObject"]["kind"], "Pod");
/// assert_eq!(event["message"], "Created");
/// assert_eq!(event["apiVersion"], "v1");
/// # Ok::<(), tidings_core::convert::ConvertError>(())
/// ```
///
/// # Errors
///
/// [`ConvertError::BothNames`] if a field is present under both names.
pub fn to_core_v1(event: &mut Map<String, Value>) -> Result<(), ConvertError> {
    rename(event, renamed_fields().map(|(core, events)| (events, core)))?;
    event.insert("apiVersion".to_owned(), "v1".into());
    event.insert("kind".to_owned(), "Event".into());
    Ok(())
}

/// Renames the fields of a core/v1 event to those of events.k8s.io/v1. Also sets `apiVersion` and
/// `kind`.
///
/// # Errors
///
/// [`ConvertError::BothNames`] if a field is present under both names.
pub fn to_events_v1(event: &mut Map<String, Value>) -> Result<(), ConvertError> {
    rename(event, renamed_fields())?;
    event.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
    event.insert("kind".to_owned(), "Event".into());
    Ok(())
}

fn rename(
    event: &mut Map<String, Value>,
    names: impl Iterator<Item = (&'static str, &'static str)> + Clone,
) -> Result<(), ConvertError> {
    // All fields are checked first, so that a refused event is unchanged.
    for (from, to) in names.clone() {
        if event.contains_key(from) && event.contains_key(to) {
            return Err(ConvertError::BothNames { from, to });
        }
    }
    for (from, to) in names {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is not an object"),
        }
    }

    #[test]
    fn every_field_of_events_v1_has_its_place_in_core_v1() {
        let mut event = object(json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "web.1"},
            "regarding": {"kind": "Pod"}, "related": {"kind": "Node"}, "note": "n", "reason": "r", "type": "Normal",
            "action": "a", "eventTime": null, "series": {"count": 2, "lastObservedTime": null},
            "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "1", "deprecatedLastTimestamp": "2",
            "deprecatedCount": 3, "reportingController": "rc", "reportingInstance": "ri", "unknown": [1.5],
        }));
        let mut back = event.clone();
        to_core_v1(&mut event).expect("no field has two names");
        let mut core = event.clone();
        to_events_v1(&mut core).expect("no field has two names");
        back.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
        assert_eq!(core, back);
        assert_eq!(
            Value::Object(event),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1"},
                "involvedObject": {"kind": "Pod"}, "related": {"kind": "Node"}, "message": "n", "reason": "r",
                "type": "Normal", "action": "a", "eventTime": null, "series": {"count": 2, "lastObservedTime": null},
                "source": {"component": "c"}, "firstTimestamp": "1", "lastTimestamp": "2", "count": 3,
                "reportingComponent": "rc", "reportingInstance": "ri", "unknown": [1.5],
            })
        );
    }

    #[test]
    fn a_field_under_both_names_is_refused_and_nothing_changes() {
        let mut event = object(json!({"note": "a", "message": "b", "regarding": {}}));
        let before = event.clone();
        assert_eq!(
            to_core_v1(&mut event),
            Err(ConvertError::BothNames {
                from: "note",
                to: "message"
            })
        );
        assert_eq!(event, before);
        let error = to_events_v1(&mut event).unwrap_err();
        assert_eq!(
            error.to_string(),
            "has both message and note, which are the same field in events.k8s.io/v1 and core/v1"
        );
        assert_eq!(event, before);
    }

    proptest! {
        #[test]
        fn there_and_back_changes_nothing(names in proptest::collection::btree_set("[a-z]{1,3}|message|source|count|reason|involvedObject", 0..8)) {
            let mut event: Map<String, Value> =
                names.into_iter().enumerate().map(|(n, name)| (name, n.into())).collect();
            event.insert("apiVersion".to_owned(), "v1".into());
            event.insert("kind".to_owned(), "Event".into());
            let before = event.clone();
            to_events_v1(&mut event).expect("only names of core/v1");
            to_core_v1(&mut event).expect("only names of events.k8s.io/v1");
            prop_assert_eq!(event, before);
        }
    }
}
