//! JSON patch as in kube-apiserver's library, `evanphx/json-patch`.
//!
//! It extends the standard: a missing value is null, a missing member can be replaced and copied
//! (as null), and negative indexes count from the end of a list. The index of an addition counts
//! from the end of the resulting list.

use serde_json::Value;

use crate::go::{Notes, cannot_unmarshal, kind};

/// Maximum depth of a pointer; an event has five levels.
const POINTER_DEPTH_MAX: usize = 64;

/// Maximum values that all operations of a patch together may visit or move. An event has a few
/// dozen.
const WORK_MAX: usize = 4 * 1024 * 1024;

/// Maximum operations of a patch.
pub(super) const OPERATIONS_MAX: usize = 10_000;

/// Maximum bytes that all copies of a patch together may add. kube-apiserver reads as many bytes of
/// a body.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The error of an operation that cannot be applied. Clients get no reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Impossible;

/// An operation of a JSON patch. Its path is required.
#[derive(Debug, Default)]
pub(super) struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Reads a list of operations, and notes unknown members.
///
/// # Errors
///
/// Go's words for a value of the wrong type.
pub(super) fn read(patch: Value) -> Result<(Vec<Operation>, Vec<String>), String> {
    let mut notes = Notes::default();
    let items = match patch {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        other => return Err(mismatch(&other, "value of type []handlers.jsonPatchOp")),
    };
    let mut operations = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let mut operation = Operation::default();
        let members = match item {
            Value::Null => serde_json::Map::new(),
            Value::Object(members) => members,
            other => return Err(mismatch(&other, "value of type handlers.jsonPatchOp")),
        };
        for (name, value) in members {
            let text = match name.as_str() {
                "value" => {
                    operation.value = value;
                    continue;
                }
                "op" => &mut operation.op,
                "path" => &mut operation.path,
                "from" => &mut operation.from,
                _ => {
                    notes.note("unknown", &format!("[{place}].{name}"));
                    continue;
                }
            };
            match value {
                Value::String(given) => *text = Some(given),
                Value::Null => {}
                other => {
                    let place = format!("struct field jsonPatchOp.{name} of type string");
                    return Err(mismatch(&other, &place));
                }
            }
        }
        operations.push(operation);
    }
    Ok((operations, notes.texts))
}

fn mismatch(found: &Value, place: &str) -> String {
    cannot_unmarshal(kind(found), place)
}

/// The work that is left, in values. A short operation may walk a list as long as a body.
struct Work(usize);

impl Work {
    fn spend(&mut self, values: usize) -> Result<(), Impossible> {
        self.0 = self.0.checked_sub(values).ok_or(Impossible)?;
        Ok(())
    }
}

/// Applies operations one by one, within the limits of copied bytes and of work.
pub(super) fn apply(target: &mut Value, operations: &[Operation]) -> Result<(), Impossible> {
    let mut copied = 0;
    let mut work = Work(WORK_MAX);
    for operation in operations {
        let path = operation.path.as_deref().ok_or(Impossible)?;
        let op = operation.op.as_deref().unwrap_or_default();
        let from = operation.from.as_deref().unwrap_or_default();
        if path.is_empty() && op == "replace" {
            *target = operation.value.clone();
            continue;
        }
        let to = Place::parse(path)?;
        match op {
            "add" => to.add(target, operation.value.clone(), &mut work)?,
            "remove" => drop(to.remove(target, &mut work)?),
            "replace" => to.replace(target, operation.value.clone())?,
            "move" => {
                let moved = Place::parse(from)?.remove(target, &mut work)?;
                to.bounded(&moved, &mut work)?;
                to.add(target, moved, &mut work)?;
            }
            "copy" => {
                let from = Place::parse(from)?;
                let value = from.get(target)?.unwrap_or(&Value::Null);
                to.bounded(value, &mut work)?;
                copied += size(value);
                if copied > COPIED_BYTES_MAX {
                    return Err(Impossible);
                }
                let value = value.clone();
                to.add(target, value, &mut work)?;
            }
            "test" => {
                let found = to.get(target)?.unwrap_or(&Value::Null);
                if *found != operation.value {
                    return Err(Impossible);
                }
            }
            _ => return Err(Impossible),
        }
    }
    Ok(())
}

/// A parsed pointer: the steps to the parent, and the last step.
struct Place {
    around: Vec<String>,
    last: String,
}

impl Place {
    fn parse(pointer: &str) -> Result<Self, Impossible> {
        let mut steps = pointer.split('/');
        steps.next();
        let decode = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let mut around: Vec<String> = steps.map(decode).collect();
        let last = around.pop().ok_or(Impossible)?;
        if around.len() >= POINTER_DEPTH_MAX {
            return Err(Impossible);
        }
        Ok(Self { around, last })
    }

    /// Refuses a value that would be too deep at this place. Repeated moves could otherwise nest
    /// values deeper than recursion allows.
    fn bounded(&self, value: &Value, work: &mut Work) -> Result<(), Impossible> {
        let levels = POINTER_DEPTH_MAX.saturating_sub(self.around.len() + 1);
        check_depth(value, levels, work)
    }

    fn container<'a>(&self, target: &'a mut Value) -> Result<&'a mut Value, Impossible> {
        let mut found = target;
        for step in &self.around {
            found = part(found, step)?.ok_or(Impossible)?;
        }
        Ok(found)
    }

    /// The value at this place, if any. An index outside of a list is an error.
    fn get<'a>(&self, target: &'a mut Value) -> Result<Option<&'a Value>, Impossible> {
        let found = part(self.container(target)?, &self.last)?;
        Ok(found.map(|found| &*found))
    }

    fn add(&self, target: &mut Value, value: Value, work: &mut Work) -> Result<(), Impossible> {
        match self.container(target)? {
            Value::Array(items) if self.last == "-" => items.push(value),
            Value::Array(items) => {
                // The index counts in the resulting list, so -1 is after the last item.
                let place = index(&self.last, items.len() + 1)?;
                work.spend(items.len().checked_sub(place).ok_or(Impossible)?)?;
                items.insert(place, value);
            }
            Value::Object(members) => {
                members.insert(self.last.clone(), value);
            }
            _ => return Err(Impossible),
        }
        Ok(())
    }

    fn replace(&self, target: &mut Value, value: Value) -> Result<(), Impossible> {
        match self.container(target)? {
            Value::Object(members) => {
                members.insert(self.last.clone(), value);
            }
            other => *part(other, &self.last)?.ok_or(Impossible)? = value,
        }
        Ok(())
    }

    fn remove(&self, target: &mut Value, work: &mut Work) -> Result<Value, Impossible> {
        match self.container(target)? {
            Value::Array(items) => {
                let place = index(&self.last, items.len())?;
                if place >= items.len() {
                    return Err(Impossible);
                }
                work.spend(items.len() - place)?;
                Ok(items.remove(place))
            }
            Value::Object(members) => members.remove(&self.last).ok_or(Impossible),
            _ => Err(Impossible),
        }
    }
}

/// The part of a value that a step leads to, if any. An index outside of a list is an error.
fn part<'a>(value: &'a mut Value, step: &str) -> Result<Option<&'a mut Value>, Impossible> {
    match value {
        Value::Object(members) => Ok(members.get_mut(step)),
        Value::Array(items) => {
            let place = index(step, items.len())?;
            items.get_mut(place).map(Some).ok_or(Impossible)
        }
        _ => Err(Impossible),
    }
}

/// Reads an index into a list, which counts from the end if negative. It may be one past the last
/// item.
fn index(step: &str, len: usize) -> Result<usize, Impossible> {
    let place: i64 = step.parse().map_err(|_| Impossible)?;
    let place = if place < 0 {
        place + i64::try_from(len).map_err(|_| Impossible)?
    } else {
        place
    };
    usize::try_from(place).map_err(|_| Impossible)
}

/// Refuses a value with more than `levels` levels.
fn check_depth(value: &Value, levels: usize, work: &mut Work) -> Result<(), Impossible> {
    work.spend(1)?;
    let own = usize::from(value.is_array() || value.is_object());
    let levels = levels.checked_sub(own).ok_or(Impossible)?;
    let check = |inner: &Value| check_depth(inner, levels, work);
    match value {
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(members) => members.values().try_for_each(check),
        _ => Ok(()),
    }
}

/// About the length of a value as JSON, in bytes.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            let size = |(key, value): (&String, &Value)| key.len() + 4 + size(value);
            members.iter().map(size).sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(patch: Value) -> Option<Value> {
        let mut target = json!({"a": {"b": [1, 2]}, "c/d": "x"});
        let (operations, _) = read(patch).unwrap();
        apply(&mut target, &operations).ok().map(|()| target)
    }

    /// These are answers of kube-apiserver 1.36.
    #[test]
    fn operations_are_applied_as_upstream_applies_them() {
        let whole = |a: Value| Some(json!({"a": a, "c/d": "x"}));
        #[rustfmt::skip]
        let table = [
            (json!([]), whole(json!({"b": [1, 2]}))),
            (json!(null), whole(json!({"b": [1, 2]}))),
            (json!([{"op": "add", "path": "/a/b/-", "value": 3}]), whole(json!({"b": [1, 2, 3]}))),
            (json!([{"op": "add", "path": "/a/b/0", "value": 3}]), whole(json!({"b": [3, 1, 2]}))),
            (json!([{"op": "add", "path": "/a/b/3", "value": 3}]), None),
            (json!([{"op": "add", "path": "/a/b/-1", "value": 3}]), whole(json!({"b": [1, 2, 3]}))),
            (json!([{"op": "add", "path": "/a/b/-3", "value": 3}]), whole(json!({"b": [3, 1, 2]}))),
            (json!([{"op": "add", "path": "/a/b/-4", "value": 3}]), None),
            (
                json!([{"op": "replace", "path": "/a/b/-1", "value": 3}]),
                whole(json!({"b": [1, 3]})),
            ),
            (
                json!([{"op": "replace", "path": "/a/e", "value": 3}]),
                whole(json!({"b": [1, 2], "e": 3})),
            ),
            (json!([{"op": "replace", "path": "/a/b"}]), whole(json!({"b": null}))),
            (json!([{"op": "remove", "path": "/a/b/0"}]), whole(json!({"b": [2]}))),
            (json!([{"op": "remove", "path": "/a/e"}]), None),
            (json!([{"op": "move", "from": "/c~1d", "path": "/a"}]), Some(json!({"a": "x"}))),
            (json!([{"op": "copy", "from": "/nothing", "path": "/a"}]), whole(json!(null))),
            (json!([{"op": "test", "path": "/c~1d", "value": "x"}]), whole(json!({"b": [1, 2]}))),
            (json!([{"op": "test", "path": "/nothing"}]), whole(json!({"b": [1, 2]}))),
            (json!([{"op": "test", "path": "/a"}]), None),
            (json!([{"op": "fly", "path": "/a"}]), None),
            (json!([{"path": "/a"}]), None),
            (json!([{"op": "replace", "path": "", "value": {"a": 1}}]), Some(json!({"a": 1}))),
            (json!([{"op": "replace", "value": {"a": 1}}]), None),
            (json!([{"op": "add", "value": 1}]), None),
            (json!([{"op": "add", "path": "a", "value": 1}]), None),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
        ];
        for (patch, expected) in table {
            assert_eq!(applied(patch.clone()), expected, "{patch}");
        }
    }

    #[test]
    fn what_is_no_patch_is_told_in_the_words_of_go() {
        #[rustfmt::skip]
        let table = [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!([3]), "number into Go value of type handlers.jsonPatchOp"),
            (json!([{"op": 3}]), "number into Go struct field jsonPatchOp.op of type string"),
        ];
        for (patch, expected) in table {
            let expected = format!("json: cannot unmarshal {expected}");
            assert_eq!(read(patch).unwrap_err(), expected);
        }
        let (_, notes) = read(json!([{"op": "test", "x": 1}])).unwrap();
        assert_eq!(notes, ["unknown field \"[0].x\""]);
    }
}
