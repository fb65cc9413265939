//! The three kinds of patch that change what they are applied to as it is, applied to an event's JSON in the version of the request
//! (`k8s.io/apiserver/pkg/endpoints/handlers/patch.go`).

mod document;
mod operations;
mod strategic;

use http::StatusCode;
use serde_json::{Map, Value};

use crate::codec::json::Reading;
use crate::error::Status;
use crate::query::FieldValidation;
use crate::quote::GoMap;
use document::kind;
use operations::Operation;
use strategic::Refused;

/// So many operations of a JSON patch are accepted.
const OPERATIONS_MAX: usize = 10_000;

/// A parsed patch, and what is to say about keys that are unknown or given twice.
#[derive(Debug)]
pub(crate) struct Patch {
    change: Change,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Change {
    Json(Vec<Operation>),
    Merge(Value),
    Strategic(Map<String, Value>),
}

/// What kind of patch a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// Server-side apply, which is [`crate::managed`]'s.
    Apply,
}

impl PatchKind {
    /// The kind a Content-Type names.
    ///
    /// # Errors
    /// 415 for another one.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, Status> {
        let content_type = content_type.unwrap_or_default();
        match content_type.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Status::unsupported_patch()),
        }
    }
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// 400 for what is not such a patch, 413 for too many operations, 415 for an apply, which is none. Whoever ignores what is
    /// wrong with fields is told 422 of those of an operation.
    pub(crate) fn parse(
        kind: PatchKind,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        let unreadable = |why: String| match kind {
            PatchKind::Strategic => Status::bad_request(why),
            _ => Status::bad_request(format!("error decoding patch: {why}")),
        };
        let (patch, mut notes) = document::read(body).map_err(unreadable)?;
        let change = match kind {
            PatchKind::Json => {
                let listed =
                    matches!(&patch, Value::Array(items) if items.iter().all(Value::is_object));
                let (operations, unknown) = operations::read(patch).map_err(|why| {
                    if listed && validation == FieldValidation::Ignore {
                        Status::unprocessable()
                    } else {
                        unreadable(why)
                    }
                })?;
                if operations.len() > OPERATIONS_MAX {
                    return Err(Status::of(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "RequestEntityTooLarge",
                        format!(
                            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                            operations.len()
                        ),
                    ));
                }
                notes.extend(unknown);
                for note in &mut notes {
                    note.insert_str(0, "json patch ");
                }
                Change::Json(operations)
            }
            PatchKind::Merge => match patch {
                object @ Value::Object(_) => Change::Merge(object),
                Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
                other => return Err(unreadable(no_object(&other))),
            },
            PatchKind::Strategic => match patch {
                Value::Object(members) => Change::Strategic(members),
                Value::Null => Change::Strategic(Map::new()),
                other => return Err(unreadable(no_object(&other))),
            },
            PatchKind::Apply => return Err(Status::unsupported_patch()),
        };
        Ok(Self { change, notes })
    }

    /// Applies the patch.
    ///
    /// # Errors
    /// 422 if it is well-formed but does not fit this object.
    pub(crate) fn apply(&self, target: &mut Value) -> Result<(), Status> {
        match &self.change {
            Change::Json(operations) => {
                operations::apply(target, operations).map_err(|_| Status::unprocessable())
            }
            Change::Merge(patch) => {
                json_patch::merge(target, patch);
                Ok(())
            }
            Change::Strategic(patch) => {
                let Value::Object(target) = target else {
                    return Err(Status::internal("the patched event is no object"));
                };
                strategic::apply(target, patch).map_err(|refused| match refused {
                    Refused::BadRequest(why) => Status::bad_request(why),
                    Refused::ListOfLists | Refused::TooMuchWork => Status::unprocessable(),
                    Refused::Unexpected(why) => Status::internal(why),
                })
            }
        }
    }

    /// With what to read the patched event: kube-apiserver reads what a strategic merge patch made from memory, all else from
    /// JSON, and speaks of both differently.
    pub(crate) fn reading(&self) -> Reading {
        match self.change {
            Change::Strategic(_) => Reading::of_unstructured(),
            Change::Json(_) | Change::Merge(_) => Reading::default(),
        }
    }

    /// Whether the patched event may say to be of another kind.
    pub(crate) fn may_rename(&self) -> bool {
        matches!(self.change, Change::Strategic(_))
    }

    /// The answer to a patch that leaves behind what is no event: it shows the patched object, or the strategic merge patch.
    pub(crate) fn unfit(&self, patched: &Value, why: &str) -> Status {
        match &self.change {
            Change::Strategic(patch) => Status::unfit_patch(GoMap(patch), why),
            Change::Json(_) | Change::Merge(_) => Status::unfit_patch(patched, why),
        }
    }

    /// The warnings about the patch and what came of it.
    ///
    /// # Errors
    /// The complaint, if they are not accepted.
    pub(crate) fn heed(
        &self,
        reading: Reading,
        validation: FieldValidation,
    ) -> Result<Vec<String>, String> {
        let mut notes = self.notes.clone();
        notes.extend(reading.notes.texts);
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Strict if !notes.is_empty() => {
                Err(format!("strict decoding error: {}", notes.join(", ")))
            }
            FieldValidation::Warn | FieldValidation::Strict => Ok(notes),
        }
    }
}

fn no_object(found: &Value) -> String {
    let found = kind(found);
    format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(content_type: &str, body: &[u8]) -> Result<Patch, Status> {
        let kind = PatchKind::of(Some(content_type))?;
        Patch::parse(kind, body, FieldValidation::Warn)
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
        let body = serde_json::to_vec(&operations).unwrap();
        let patch = parse("application/json-patch+json", &body).unwrap();
        let status = patch.apply(&mut json!({})).unwrap_err();
        assert_eq!(status.code(), StatusCode::UNPROCESSABLE_ENTITY);
    }

    #[test]
    fn copies_cannot_blow_an_object_up() {
        let double = |n: u32| json!({"op": "copy", "from": "", "path": format!("/a{n}")});
        let operations = serde_json::to_vec(&(0..64).map(double).collect::<Vec<_>>()).unwrap();
        let patch = parse("application/json-patch+json", &operations).unwrap();
        let mut target = json!({"text": "x".repeat(100)});
        assert_eq!(
            patch.apply(&mut target).unwrap_err().code(),
            StatusCode::UNPROCESSABLE_ENTITY
        );
    }

    #[test]
    fn kinds_and_their_errors() {
        for (kind, body, code) in [
            ("application/json-patch+json", "{}", 400),
            ("application/json-patch+json", "[{\"op\":3}]", 400),
            ("application/merge-patch+json", "[]", 400),
            ("application/merge-patch+json", "{", 400),
            (
                "application/strategic-merge-patch+json; charset=utf-8",
                "1",
                400,
            ),
            ("application/apply-patch+yaml", "{}", 415),
            ("application/json", "{}", 415),
            ("", "{}", 415),
        ] {
            assert_eq!(
                parse(kind, body.as_bytes()).unwrap_err().code().as_u16(),
                code,
                "{kind} {body}"
            );
        }
        let absent = br#"[{"op":"test","path":"/a","value":1}]"#;
        let patch = parse("application/json-patch+json", absent).unwrap();
        assert_eq!(
            patch
                .apply(&mut json!({"a": 2}))
                .unwrap_err()
                .code()
                .as_u16(),
            422
        );
    }

    /// JSON of the shapes patches have, with an event's names and the directives among its keys.
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
                .prop_map(|members| {
                    members
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v))
                        .collect::<Value>()
                });
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
                object
            ]
        })
    }

    proptest! {
        /// Whatever a client sends as a patch is applied or refused.
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
