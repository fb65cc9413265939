//! Strategic merge patch (`k8s.io/apimachinery/pkg/util/strategicpatch`), as far as an event's schema reaches.
//!
//! Maps merge key by key and `null` deletes, as in a merge patch. Two lists merge instead of being replaced:
//! `metadata.ownerReferences` by `uid`, and `metadata.finalizers` as a set. The directives `$patch`, `$retainKeys`,
//! `$setElementOrder/…` and `$deleteFromPrimitiveList/…` are honoured.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::quote::go_value;

/// Why a patch is not applied, in kube-apiserver's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// 400: the patch is not well formed.
    BadRequest(&'static str),
    /// 500: so kube-apiserver answers where it does not expect an error.
    Unexpected(String),
}

const BAD_RETAIN_KEYS: Refused = Refused::BadRequest("invalid patch format of retainKeys");

/// Applies a patch to an event's JSON.
///
/// # Errors
/// The directive or list that is not accepted.
pub(super) fn apply(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), Refused> {
    merge(target, patch, &mut Vec::new()).map(|_| ())
}

/// Whether the map itself remains, or a directive deletes it.
#[derive(PartialEq)]
enum Fate {
    Remains,
    Deleted,
}

/// How a list merges, by its path.
fn is_set(path: &[&str]) -> bool {
    path == ["metadata", "finalizers"]
}

fn merge_key(path: &[&str]) -> Option<&'static str> {
    (path == ["metadata", "ownerReferences"]).then_some("uid")
}

fn merge<'a>(
    target: &mut Map<String, Value>,
    patch: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
) -> Result<Fate, Refused> {
    match patch.get("$patch").map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            *target = without_directives(patch);
            return Ok(Fate::Remains);
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(Fate::Deleted);
        }
        Some(_) => {
            let directive = patch.get("$patch").map(go_value).unwrap_or_default();
            let patch = go_value(&Value::Object(patch.clone()));
            return Err(Refused::Unexpected(format!(
                "unknown patch type: {directive} in map: {patch}"
            )));
        }
    }
    if let Some(retained) = patch.get("$retainKeys") {
        let retained = strings(retained).ok_or(BAD_RETAIN_KEYS)?;
        let mut keys = patch.keys().filter(|key| !key.starts_with('$'));
        if keys.any(|key| !retained.contains(&key.as_str())) {
            return Err(BAD_RETAIN_KEYS);
        }
        target.retain(|key, _| retained.contains(&key.as_str()));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            // What is no list of strings takes nothing away.
            let gone = strings(value).unwrap_or_default();
            if let Some(Value::Array(items)) = target.get_mut(list) {
                items.retain(|item| item.as_str().is_none_or(|item| !gone.contains(&item)));
            }
        } else if matches!(key.as_str(), "$patch" | "$retainKeys") {
            // Heeded above.
        } else if let Some(list) = key.strip_prefix("$setElementOrder/") {
            if let (Value::Array(order), Some(Value::Array(items))) = (value, patch.get(list)) {
                path.push(list);
                check_order(items, order, key, merge_key(path))?;
                path.pop();
            }
        } else {
            path.push(key);
            merge_member(target, key, value, path)?;
            path.pop();
        }
    }
    for (key, order) in patch {
        if let Some(list) = key.strip_prefix("$setElementOrder/") {
            path.push(list);
            if let (Some(Value::Array(items)), Value::Array(order)) = (target.get_mut(list), order)
            {
                reorder(items, order, merge_key(path));
            }
            path.pop();
        }
    }
    Ok(Fate::Remains)
}

fn merge_member<'a>(
    target: &mut Map<String, Value>,
    key: &'a str,
    value: &'a Value,
    path: &mut Vec<&'a str>,
) -> Result<(), Refused> {
    match (value, target.get_mut(key)) {
        (Value::Null, _) => {
            target.remove(key);
        }
        (Value::Object(patch), Some(Value::Object(inner))) => {
            if merge(inner, patch, path)? == Fate::Deleted {
                target.remove(key);
            }
        }
        (Value::Object(patch), _) => {
            let mut inner = Map::new();
            if merge(&mut inner, patch, path)? == Fate::Remains {
                target.insert(key.to_owned(), Value::Object(inner));
            }
        }
        (Value::Array(patch), existing) if is_set(path) => {
            let items = match existing {
                Some(Value::Array(items)) => std::mem::take(items),
                _ => Vec::new(),
            };
            let alike = items.iter().chain(patch).all(Value::is_string);
            if !alike && !items.is_empty() {
                let lists = go_value(&Value::from(vec![items, patch.clone()]));
                let why = format!("list element types are not identical: {lists}");
                return Err(Refused::Unexpected(why));
            }
            let mut seen = HashSet::new();
            let sent = patch
                .iter()
                .filter(|item| seen.insert(identity(item, None)));
            let sent: Vec<Value> = sent.cloned().collect();
            let left_alone = items
                .iter()
                .filter(|item| !seen.contains(&identity(item, None)));
            let left_alone: Vec<Value> = left_alone.cloned().collect();
            let merged = interleaved(&items, &left_alone, sent, None);
            target.insert(key.to_owned(), merged.into());
        }
        (Value::Array(patch), existing) if merge_key(path).is_some() => {
            let Some(Value::Array(items)) = existing else {
                target.insert(key.to_owned(), Value::Array(without_deleted(patch)));
                return Ok(());
            };
            let items = std::mem::take(items);
            let merged = merge_list(items, patch, merge_key(path).unwrap_or_default())?;
            target.insert(key.to_owned(), Value::Array(merged));
        }
        (other, _) => {
            target.insert(key.to_owned(), other.clone());
        }
    }
    Ok(())
}

fn merge_list(mut items: Vec<Value>, patch: &[Value], key: &str) -> Result<Vec<Value>, Refused> {
    let directive = |item: &Value| {
        item.get("$patch")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        let kept = patch.iter().filter(|item| directive(item).is_none());
        return Ok(kept
            .filter_map(Value::as_object)
            .map(|item| Value::Object(without_directives(item)))
            .collect());
    }
    let before = items.clone();
    let mut sent = Vec::new();
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(Refused::Unexpected("Invalid JSON document".to_owned()));
        };
        let Some(identity) = fields.get(key) else {
            return Err(Refused::Unexpected(format!(
                "map: {} does not contain declared merge key: {key}",
                go_value(item)
            )));
        };
        let at = items
            .iter()
            .position(|existing| existing.get(key) == Some(identity));
        match (directive(item).as_deref(), at) {
            (Some("delete"), Some(at)) => {
                items.remove(at);
            }
            (Some("delete"), None) => {}
            (_, at) => {
                let mut merged = match at.map(|at| items.remove(at)) {
                    Some(Value::Object(existing)) => existing,
                    _ => Map::new(),
                };
                let mut fields = fields.clone();
                fields.remove("$patch");
                merge(&mut merged, &fields, &mut Vec::new())?;
                sent.push(Value::Object(merged));
            }
        }
    }
    Ok(interleaved(&before, &items, sent, Some(key)))
}

/// What makes an item of a list the same as another.
fn identity(item: &Value, key: Option<&str>) -> String {
    match key {
        Some(key) => item.get(key).map(Value::to_string).unwrap_or_default(),
        None => item.to_string(),
    }
}

/// The items of a list that a patch sends, and those it leaves alone, as `mergeSortedSlice` puts them together: in the order
/// of `before` where both were there, otherwise what is sent first.
fn interleaved(
    before: &[Value],
    left_alone: &[Value],
    sent: Vec<Value>,
    key: Option<&str>,
) -> Vec<Value> {
    let before = before.iter().enumerate();
    let places: HashMap<String, usize> = before
        .map(|(place, item)| (identity(item, key), place))
        .collect();
    let place = |item: &Value| places.get(&identity(item, key));
    let mut left_alone = left_alone.iter().peekable();
    let mut merged = Vec::new();
    for item in sent {
        let own = place(&item);
        while let Some(other) = left_alone.peek()
            && let (Some(other), Some(own)) = (place(other), own)
            && other < own
        {
            merged.extend(left_alone.next().cloned());
        }
        merged.push(item);
    }
    merged.extend(left_alone.cloned());
    merged
}

/// A list where there was none: nothing is to be merged, and no item has to be known by its key.
fn without_deleted(patch: &[Value]) -> Vec<Value> {
    let kept = patch.iter().filter(|item| item.get("$patch").is_none());
    kept.map(|item| match item {
        Value::Object(fields) => Value::Object(without_directives(fields)),
        other => other.clone(),
    })
    .collect()
}

/// The items of a patch's list have to be in the order that the patch wants.
fn check_order(
    items: &[Value],
    order: &[Value],
    directive: &str,
    key: Option<&str>,
) -> Result<(), Refused> {
    let mut wanted = order.iter().map(|item| identity(item, key));
    let merged = items.iter().filter(|item| item.get("$patch").is_none());
    for item in merged.map(|item| identity(item, key)) {
        if !wanted.any(|wanted| wanted == item) {
            let [items, order] = [items, order].map(|list| go_value(&Value::from(list.to_vec())));
            return Err(Refused::Unexpected(format!(
                "The order in patch list:\n{items}\n doesn't match {} list:\n{order}\n",
                directive.split('/').next().unwrap_or_default()
            )));
        }
    }
    Ok(())
}

/// Puts the items into the given order; those it does not name keep their place behind.
fn reorder(items: &mut [Value], order: &[Value], key: Option<&str>) {
    let order = order.iter().enumerate().rev();
    let places: HashMap<String, usize> = order
        .map(|(place, item)| (identity(item, key), place))
        .collect();
    items.sort_by_cached_key(|item| {
        places
            .get(&identity(item, key))
            .copied()
            .unwrap_or(usize::MAX)
    });
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
        .map(|(key, value)| {
            let value = value.as_object().map_or_else(
                || value.clone(),
                |inner| Value::Object(without_directives(inner)),
            );
            (key.clone(), value)
        })
        .collect()
}

fn strings(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches() {
        let target = || {
            json!({
                "count": 1,
                "metadata": {
                    "labels": {"a": "1", "b": "2"},
                    "finalizers": ["x", "y"],
                    "ownerReferences": [{"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}],
                },
                "series": null,
            })
        };
        for (what, patch, pointer, expected) in [
            (
                "scalars are replaced",
                json!({"count": 2}),
                "/count",
                json!(2),
            ),
            (
                "null deletes",
                json!({"metadata": {"labels": {"a": null}}}),
                "/metadata/labels",
                json!({"b": "2"}),
            ),
            (
                "nulls in new maps vanish",
                json!({"series": {"count": 2, "x": null}}),
                "/series",
                json!({"count": 2}),
            ),
            (
                "sets unite",
                json!({"metadata": {"finalizers": ["y", "z"]}}),
                "/metadata/finalizers",
                json!(["x", "y", "z"]),
            ),
            (
                "items leave a set",
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
                "/metadata/finalizers",
                json!(["y"]),
            ),
            (
                "sets are ordered",
                json!({"metadata": {"$setElementOrder/finalizers": ["z", "y", "x"], "finalizers": ["z"]}}),
                "/metadata/finalizers",
                json!(["z", "y", "x"]),
            ),
            (
                "owners merge by uid",
                json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "zwei"}, {"uid": "3"}]}}),
                "/metadata/ownerReferences",
                json!([{"uid": "1", "name": "one"}, {"uid": "2", "name": "zwei"}, {"uid": "3"}]),
            ),
            (
                "what is new comes first",
                json!({"metadata": {"ownerReferences": [{"uid": "3"}], "finalizers": ["z"]}}),
                "/metadata",
                json!({
                    "labels": {"a": "1", "b": "2"},
                    "finalizers": ["z", "x", "y"],
                    "ownerReferences": [{"uid": "3"}, {"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}],
                }),
            ),
            (
                "owners leave by uid",
                json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}]}}),
                "/metadata/ownerReferences",
                json!([{"uid": "2", "name": "two"}]),
            ),
            (
                "a list can be replaced",
                json!({"metadata": {"ownerReferences": [{"uid": "9"}, {"$patch": "replace"}]}}),
                "/metadata/ownerReferences",
                json!([{"uid": "9"}]),
            ),
            (
                "a map can be replaced",
                json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
                "/metadata/labels",
                json!({"c": "3"}),
            ),
            (
                "keys can be retained",
                json!({"metadata": {"labels": {"$retainKeys": ["b", "c"], "c": "3"}}}),
                "/metadata/labels",
                json!({"b": "2", "c": "3"}),
            ),
        ] {
            let patched = applied(target(), &patch).unwrap();
            assert_eq!(patched.pointer(pointer), Some(&expected), "{what}");
        }
        let patch = json!({"metadata": {"labels": {"$patch": "delete"}}});
        let patched = applied(target(), &patch).unwrap();
        assert_eq!(patched.pointer("/metadata/labels"), None);
    }

    fn applied(mut target: Value, patch: &Value) -> Result<Value, Refused> {
        if let (Some(target), Some(patch)) = (target.as_object_mut(), patch.as_object()) {
            apply(target, patch)?;
        }
        Ok(target)
    }

    /// Answers of kube-apiserver 1.36.
    #[test]
    fn what_is_not_accepted() {
        let unexpected = |why: &str| Refused::Unexpected(why.to_owned());
        let owners = json!({"metadata": {"ownerReferences": [{"uid": "1"}]}});
        for (patch, expected) in [
            (
                json!({"source": {"$patch": "explode"}}),
                unexpected("unknown patch type: explode in map: map[$patch:explode]"),
            ),
            (json!({"source": {"$retainKeys": "a"}}), BAD_RETAIN_KEYS),
            (
                json!({"source": {"$retainKeys": ["host"], "component": "c"}}),
                BAD_RETAIN_KEYS,
            ),
            (
                json!({"metadata": {"ownerReferences": [{"name": "p"}]}}),
                unexpected("map: map[name:p] does not contain declared merge key: uid"),
            ),
            (
                json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}}),
                unexpected(
                    "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n",
                ),
            ),
        ] {
            assert_eq!(applied(owners.clone(), &patch), Err(expected), "{patch}");
        }
    }

    #[test]
    fn a_list_that_was_not_there_is_taken_as_it_is() {
        let patch = json!({"metadata": {"ownerReferences": [{"name": "p"}, {"$patch": "delete"}]}});
        assert_eq!(
            applied(json!({}), &patch).unwrap(),
            json!({"metadata": {"ownerReferences": [{"name": "p"}]}})
        );
    }
}
