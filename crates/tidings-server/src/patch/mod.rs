//! The three kinds of patch that change what they are applied to as it is, applied to an event's JSON in the version of the request
//! (`k8s.io/apiserver/pkg/endpoints/handlers/patch.go`).

mod strategic;

use http::StatusCode;
use json_patch::PatchOperation;
use serde_json::Value;

use crate::error::Status;
use crate::limits::BODY_BYTES_MAX;

/// So many operations of a JSON patch are accepted.
const OPERATIONS_MAX: usize = 10_000;

/// So deep may a JSON patch reach; an event has no more than five levels.
const POINTER_DEPTH_MAX: usize = 64;

/// A parsed patch.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(Vec<PatchOperation>),
    Merge(Value),
    Strategic(Value),
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
    /// 400 for what is not such a patch, 413 for too many operations, 415 for an apply, which is none.
    pub(crate) fn parse(kind: PatchKind, body: &[u8]) -> Result<Self, Status> {
        let unreadable = |error: serde_json::Error| {
            Status::bad_request(format!("error decoding patch: {error}"))
        };
        let object = || match serde_json::from_slice(body).map_err(unreadable)? {
            object @ Value::Object(_) => Ok(object),
            _ => Err(Status::bad_request(
                "error decoding patch: a JSON object is accepted",
            )),
        };
        match kind {
            PatchKind::Json => {
                let operations: Vec<PatchOperation> =
                    serde_json::from_slice(body).map_err(unreadable)?;
                if operations.len() > OPERATIONS_MAX {
                    return Err(Status::of(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "RequestEntityTooLarge",
                        format!(
                            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                            operations.len()
                        ),
                    ));
                }
                Ok(Self::Json(operations))
            }
            PatchKind::Merge => Ok(Self::Merge(object()?)),
            PatchKind::Strategic => Ok(Self::Strategic(object()?)),
            PatchKind::Apply => Err(Status::unsupported_patch()),
        }
    }

    /// Applies the patch.
    ///
    /// # Errors
    /// 422 if it is well-formed but does not fit this object.
    pub(crate) fn apply(&self, target: &mut Value) -> Result<(), Status> {
        match self {
            Self::Json(operations) => apply_operations(target, operations),
            Self::Merge(patch) => {
                json_patch::merge(target, patch);
                Ok(())
            }
            Self::Strategic(patch) => {
                strategic::apply(target, patch).map_err(Status::unprocessable)
            }
        }
    }
}

/// Applies operations one by one, keeping an eye on what copying may multiply.
fn apply_operations(target: &mut Value, operations: &[PatchOperation]) -> Result<(), Status> {
    let mut copied = 0;
    for operation in operations {
        if operation.path().count() > POINTER_DEPTH_MAX {
            return Err(Status::unprocessable(format!(
                "the path {:?} is too deep",
                operation.path().as_str()
            )));
        }
        let from = match operation {
            PatchOperation::Copy(copy) => Some(&copy.from),
            PatchOperation::Move(moved) => Some(&moved.from),
            _ => None,
        };
        // Moved again and again a value could grow deeper than any recursion over it can bear.
        let levels = POINTER_DEPTH_MAX.saturating_sub(operation.path().count());
        if let Some(from) = from
            && from
                .resolve(target)
                .is_ok_and(|value| is_deeper_than(value, levels))
        {
            return Err(Status::unprocessable(format!(
                "what stands at {:?} is too deep to go to {:?}",
                from.as_str(),
                operation.path().as_str()
            )));
        }
        if let PatchOperation::Copy(copy) = operation {
            copied += copy.from.resolve(target).map_or(0, size);
            if copied > BODY_BYTES_MAX {
                return Err(Status::unprocessable(
                    "the patch's copies add up to too large an object",
                ));
            }
        }
        json_patch::patch(target, std::slice::from_ref(operation)).map_err(|error| {
            Status::unprocessable(format!(
                "the server rejected our request due to an error in our request: {error}"
            ))
        })?;
    }
    Ok(())
}

/// Whether a value has more levels than that.
fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(rest) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, rest)),
        Value::Object(members) => members.values().any(|member| is_deeper_than(member, rest)),
        _ => false,
    }
}

/// About how many bytes a value takes as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members
                .iter()
                .map(|(key, value)| key.len() + 4 + size(value))
                .sum::<usize>()
                + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(content_type: &str, body: &[u8]) -> Result<Patch, Status> {
        Patch::parse(PatchKind::of(Some(content_type))?, body)
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
        assert!(format!("{status:?}").contains("too deep"), "{status:?}");
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
            ("application/json-patch+json", "[{\"op\":\"fly\"}]", 400),
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
