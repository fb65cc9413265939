//! JSON patch, merge patch and strategic merge patch.
//!
//! They are applied to an event's JSON in the version of the request
//! (`k8s.io/apiserver/pkg/endpoints/handlers/patch.go`).

mod document;
mod error;
mod operations;
mod strategic;

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::codec::json::Reading;
use crate::field_validation::FieldValidation;
use crate::go::{GoMap, cannot_unmarshal, kind};
pub use error::PatchError;
use operations::{OPERATIONS_MAX, Operation};

/// A parsed patch, with notes on unknown and duplicate keys.
#[derive(Debug)]
pub struct Patch {
    change: Change,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Change {
    Json(Vec<Operation>),
    Merge(Value),
    Strategic(Map<String, Value>),
}

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON patch (RFC 6902).
    Json,
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Kubernetes' strategic merge patch.
    Strategic,
    /// Server-side apply; see [`crate::managed`].
    Apply,
}

impl PatchKind {
    /// The kind of patch that a Content-Type names.
    pub fn of(content_type: Option<&str>) -> Option<Self> {
        let content_type = content_type.unwrap_or_default();
        match content_type.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    ///
    /// 400 for an invalid patch, 413 for too many operations, 415 for an apply. With `Ignore`, an
    /// invalid field of an operation is a 422.
    pub fn parse(
        kind: PatchKind,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, PatchError> {
        let unreadable = |why: String| match kind {
            PatchKind::Strategic => PatchError::Malformed(why),
            _ => PatchError::Malformed(format!("error decoding patch: {why}")),
        };
        let (patch, mut notes) = document::read(body).map_err(unreadable)?;
        let change = match kind {
            PatchKind::Json => {
                let listed =
                    matches!(&patch, Value::Array(items) if items.iter().all(Value::is_object));
                let (operations, unknown) = operations::read(patch).map_err(|why| {
                    if listed && validation == FieldValidation::Ignore {
                        PatchError::Unprocessable
                    } else {
                        unreadable(why)
                    }
                })?;
                if operations.len() > OPERATIONS_MAX {
                    return Err(PatchError::TooManyOperations(operations.len()));
                }
                notes.extend(unknown);
                for note in &mut notes {
                    note.insert_str(0, "json patch ");
                }
                Change::Json(operations)
            }
            PatchKind::Merge => match patch {
                object @ Value::Object(_) => Change::Merge(object),
                Value::Null => return Err(PatchError::Malformed("Invalid JSON Patch".into())),
                other => return Err(unreadable(no_object(&other))),
            },
            PatchKind::Strategic => match patch {
                Value::Object(members) => Change::Strategic(members),
                Value::Null => Change::Strategic(Map::new()),
                other => return Err(unreadable(no_object(&other))),
            },
            PatchKind::Apply => return Err(PatchError::NoPatch),
        };
        Ok(Self { change, notes })
    }

    /// Applies the patch to an event's JSON.
    ///
    /// # Errors
    ///
    /// 422 if the patch is well-formed but does not fit this object.
    pub fn apply(&self, target: &mut Value) -> Result<(), PatchError> {
        match &self.change {
            Change::Json(operations) => {
                operations::apply(target, operations).map_err(|_| PatchError::Unprocessable)
            }
            Change::Merge(patch) => {
                json_patch::merge(target, patch);
                Ok(())
            }
            Change::Strategic(patch) => {
                let Value::Object(target) = target else {
                    let why = "the patched event is no object";
                    return Err(PatchError::Unexpected(why.into()));
                };
                strategic::apply(target, patch)
            }
        }
    }

    /// The state for reading the patched event. kube-apiserver reads the result of a strategic
    /// merge patch from memory and other results from JSON, with different words.
    pub fn reading(&self) -> Reading {
        match self.change {
            Change::Strategic(_) => Reading::of_unstructured(),
            Change::Json(_) | Change::Merge(_) => Reading::default(),
        }
    }

    /// Whether the patched event may have another kind.
    pub fn may_rename(&self) -> bool {
        matches!(self.change, Change::Strategic(_))
    }

    /// The object that an error shows if the result is not an event. It is the patched object, or
    /// the strategic merge patch.
    pub fn shown<'a>(&'a self, patched: &'a Value) -> Box<dyn Display + 'a> {
        match &self.change {
            Change::Strategic(patch) => Box::new(GoMap(patch)),
            Change::Json(_) | Change::Merge(_) => Box::new(patched),
        }
    }

    /// Converts the notes on the patch and on the patched event to warnings.
    ///
    /// # Errors
    ///
    /// The error, if the fields refuse the write.
    pub fn heed(
        &self,
        reading: Reading,
        validation: FieldValidation,
    ) -> Result<Vec<String>, String> {
        let mut notes = self.notes.clone();
        notes.extend(reading.notes.texts);
        validation.heed(notes)
    }
}

fn no_object(found: &Value) -> String {
    cannot_unmarshal(kind(found), "value of type map[string]interface {}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(content_type: &str, body: &[u8]) -> Result<Patch, PatchError> {
        let kind = PatchKind::of(Some(content_type)).ok_or(PatchError::NoPatch)?;
        Patch::parse(kind, body, FieldValidation::Warn)
    }

    /// The reason why operations are not applied to an object.
    fn refusal(operations: &[Value], mut target: Value) -> PatchError {
        let body = serde_json::to_vec(operations).unwrap();
        let patch = parse("application/json-patch+json", &body).unwrap();
        patch.apply(&mut target).unwrap_err()
    }

    #[test]
    fn moving_makes_nothing_deeper_than_the_limit() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "k": inner }));
        let path = |top: &str| format!("/{top}{}", "/k".repeat(60));
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": nested(2)})];
        for (from, to) in [("a", "b"), ("b", "a")].repeat(500) {
            operations.push(json!({"op": "add", "path": format!("/{to}"), "value": nested(62)}));
            operations.push(json!({"op": "move", "from": format!("/{from}"), "path": path(to)}));
        }
        let error = refusal(&operations, json!({}));
        assert_eq!(error, PatchError::Unprocessable);
    }

    #[test]
    fn copies_cannot_blow_an_object_up() {
        let double = |n: u32| json!({"op": "copy", "from": "", "path": format!("/a{n}")});
        let operations: Vec<Value> = (0..64).map(double).collect();
        let error = refusal(&operations, json!({"text": "x".repeat(100)}));
        assert_eq!(error, PatchError::Unprocessable);
    }

    #[test]
    fn kinds_and_their_errors() {
        for (kind, body) in [
            ("json-patch+json", "{}"),
            ("json-patch+json", "[{\"op\":3}]"),
            ("merge-patch+json", "[]"),
            ("merge-patch+json", "{"),
            ("strategic-merge-patch+json; charset=utf-8", "1"),
        ] {
            let error = parse(&format!("application/{kind}"), body.as_bytes()).unwrap_err();
            assert!(matches!(error, PatchError::Malformed(_)), "{kind} {body}");
        }
        for kind in ["application/apply-patch+yaml", "application/json", ""] {
            assert_eq!(parse(kind, b"{}").unwrap_err(), PatchError::NoPatch);
        }
        let absent = json!({"op": "test", "path": "/a", "value": 1});
        let error = refusal(&[absent], json!({"a": 2}));
        assert_eq!(error, PatchError::Unprocessable);
    }

    /// Generates JSON of the shapes that patches have, with an event's names and directives as
    /// keys.
    fn patch() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            prop_oneof![Just("delete"), Just("replace"), Just("merge"), Just("u1")]
                .prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("metadata"),
            Just("ownerReferences"),
            Just("finalizers"),
            Just("uid"),
            Just("$patch"),
            Just("$retainKeys"),
            Just("$setElementOrder/finalizers"),
            Just("$setElementOrder/ownerReferences"),
            Just("$deleteFromPrimitiveList/finalizers"),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            let object = proptest::collection::btree_map(key.clone(), inner.clone(), 0..4)
                .prop_map(|members| members.into_iter().collect::<Value>());
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
                object
            ]
        })
    }

    proptest! {
        /// Any JSON that a client sends as a patch is applied or refused.
        #[test]
        fn any_patch_is_answered(target in patch(), patch in patch()) {
            let patch = patch.to_string();
            for kind in ["json-patch", "merge-patch", "strategic-merge-patch"] {
                let kind = format!("application/{kind}+json");
                if let Ok(patch) = parse(&kind, patch.as_bytes()) {
                    let _ = patch.apply(&mut target.clone());
                }
            }
        }
    }
}
