//! Strategic merge patch (`k8s.io/apimachinery/pkg/util/strategicpatch`) for an event's schema.
//!
//! Maps merge key by key and `null` deletes, as in a merge patch. Two lists merge instead of being
//! replaced: `metadata.ownerReferences` by `uid`, and `metadata.finalizers` as a set. The
//! directives `$patch`, `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…` apply
//! where the target has a value to merge with. New values are added unchanged, except for maps with
//! a `$patch`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tidings_core::fields::{Kind, core_v1, events_v1};
use tidings_core::validate::{Quoted, bounded_text};

use super::error::PatchError;
use super::operations::size;
use crate::go::{GoList, GoMap, GoValue, go_type};

/// Maximum bytes of the text about a refused patch.
const REFUSAL_BYTES_MAX: usize = 32 * 1024;
/// Maximum bytes of lists to process, as a multiple of the size of patch and target. Each list is
/// processed a few times. Only patches that name one owner many times exceed this.
const WORK_FACTOR: usize = 16;

const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_ORDER: &str = "invalid patch format of setElementOrder list";
const BAD_DELETION: &str = "invalid patch format of primitive list";

const ORDER: &str = "$setElementOrder";
const DELETION: &str = "$deleteFromPrimitiveList";

/// Applies a patch to an event's JSON.
///
/// # Errors
///
/// The invalid directive or list.
pub(super) fn apply(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), PatchError> {
    let sizes = target.iter().chain(patch).map(|(_, value)| size(value));
    let mut place = Place {
        path: Vec::new(),
        work: sizes.sum::<usize>().saturating_mul(WORK_FACTOR),
    };
    merge(target, patch.clone(), &mut place)
}

/// The current path of a merge, and its remaining work in bytes of lists.
struct Place {
    path: Vec<String>,
    work: usize,
}

impl Place {
    fn spend(&mut self, lists: [&[Value]; 2]) -> Result<(), PatchError> {
        let bytes: usize = lists.into_iter().flatten().map(size).sum();
        let left = self.work.checked_sub(bytes);
        self.work = left.ok_or(PatchError::Unprocessable)?;
        Ok(())
    }
}

/// The error of a patch that is not well formed.
fn malformed(why: &str) -> PatchError {
    PatchError::Malformed(why.to_owned())
}

/// An error that kube-apiserver does not expect, in its words.
fn unexpected(why: impl std::fmt::Display) -> PatchError {
    PatchError::Unexpected(bounded_text(why, REFUSAL_BYTES_MAX))
}

/// The kind of the field at a path, in an event of either version.
fn kind_at(path: &[String]) -> Option<Kind> {
    let field = core_v1::EVENT.at(path);
    let field = field.or_else(|| events_v1::EVENT.at(path));
    field.map(|field| field.kind)
}

/// The member by which the items of a list merge. `None` for a list that is a set or is replaced.
fn merge_key(path: &[String]) -> Option<&'static str> {
    match kind_at(path)? {
        Kind::List(_, key) => key,
        _ => None,
    }
}

fn merge(
    target: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    place: &mut Place,
) -> Result<(), PatchError> {
    match patch.get("$patch").map(Value::as_str) {
        None => {}
        Some(Some("replace")) => {
            patch.remove("$patch");
            *target = patch;
            return Ok(());
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(_) => return Err(unknown_directive(&patch)),
    }
    if let Some(retained) = patch.remove("$retainKeys") {
        retain(target, &patch, &retained)?;
    }
    let ordered = patch.keys().filter(|key| key.starts_with(ORDER));
    for directive in ordered.cloned().collect::<Vec<_>>() {
        merge_in_order(target, &mut patch, &directive, place)?;
    }
    for (key, value) in patch {
        let deletion = key.strip_prefix(DELETION);
        let name = match deletion.map(|rest| rest.strip_prefix('/')) {
            None | Some(Some("")) => key.clone(),
            Some(Some(name)) => name.to_owned(),
            Some(None) => return Err(malformed(BAD_DELETION)),
        };
        place.path.push(name.clone());
        match (value, target.get_mut(&name)) {
            (Value::Null, _) => {
                target.remove(&name);
            }
            (Value::Object(patch), Some(Value::Object(inner))) => merge(inner, patch, place)?,
            (Value::Array(patch), Some(Value::Array(items))) => {
                let kind = kind_at(&place.path);
                let merges = matches!(kind, Some(Kind::Set | Kind::List(_, Some(_))));
                *items = if deletion.is_some() || merges {
                    merge_lists(std::mem::take(items), patch, place, deletion.is_some())?
                } else {
                    patch
                };
            }
            _ if deletion.is_some() => {}
            (mut value, _) => {
                discard_nulls(&mut value);
                match without_directives(value) {
                    Some(value) => target.insert(name, value),
                    None => target.remove(&name),
                };
            }
        }
        place.path.pop();
    }
    Ok(())
}

/// Removes the members that `$retainKeys` does not name.
fn retain(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    retained: &Value,
) -> Result<(), PatchError> {
    let retained: HashSet<&str> = match retained {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Err(malformed(BAD_RETAIN_KEYS)),
    };
    let mut sent = patch.iter().filter(|(key, value)| {
        !value.is_null() && !key.starts_with(DELETION) && !key.starts_with(ORDER)
    });
    if sent.any(|(key, _)| !retained.contains(key.as_str())) {
        return Err(malformed(BAD_RETAIN_KEYS));
    }
    target.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// Merges and orders the list that an ordering directive names.
fn merge_in_order(
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    directive: &str,
    place: &mut Place,
) -> Result<(), PatchError> {
    let order = list(patch.remove(directive).unwrap_or_default())?;
    let name = directive
        .strip_prefix(ORDER)
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| malformed(BAD_ORDER))?;
    let before = target.get(name).cloned().map(list).transpose()?;
    let sent = patch.get(name).cloned().map(list).transpose()?;
    place.path.push(name.to_owned());
    let path = &place.path;
    let key = merge_key(path);
    if !matches!(kind_at(path), Some(Kind::Set | Kind::List(..))) {
        let known = before.is_some() || target.contains_key(name);
        return Err(no_list(path, known));
    }
    check_order(sent.as_deref().unwrap_or_default(), &order, key)?;
    let merged = match (before.clone(), sent.clone()) {
        (Some(before), None) => before,
        (None, Some(sent)) => sent.into_iter().filter_map(without_directives).collect(),
        (Some(before), Some(sent)) => merge_lists(before, sent, place, false)?,
        (None, None) => {
            place.path.pop();
            return Ok(());
        }
    };
    place.path.pop();
    let before = before.unwrap_or_default();
    kind_of_items(&[&before, sent.as_deref().unwrap_or_default()])?;
    let merged = put_together(merged, &order, &before, key)?;
    target.insert(name.to_owned(), merged.into());
    patch.remove(name);
    Ok(())
}

/// Checks that the items of a patch are in the order of its directive.
fn check_order(sent: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in sent.iter().filter(|item| item.get("$patch").is_none()) {
        let own = identity(item, key)?;
        loop {
            let Some(other) = wanted.next() else {
                let [sent, order] = [sent, order].map(GoList);
                return Err(unexpected(format_args!(
                    "The order in patch list:\n{sent}\n doesn't match {ORDER} list:\n{order}\n"
                )));
            };
            if identity(other, key)? == own {
                break;
            }
        }
    }
    Ok(())
}

/// Merges the list of a patch into the target's list (`mergeSlice`).
fn merge_lists(
    mut items: Vec<Value>,
    patch: Vec<Value>,
    place: &mut Place,
    deletion: bool,
) -> Result<Vec<Value>, PatchError> {
    if items.is_empty() && patch.is_empty() {
        return Ok(items);
    }
    place.spend([&items, &patch])?;
    if kind_of_items(&[&items, &patch])? != MAP {
        let mut sent = HashSet::new();
        if deletion {
            sent.extend(patch.iter().map(Value::to_string));
            items.retain(|item| !sent.contains(&item.to_string()));
            return Ok(items);
        }
        let before = items.clone();
        items.retain(|item| sent.insert(item.to_string()));
        let new = patch.iter().filter(|item| sent.insert(item.to_string()));
        items.extend(new.cloned());
        return put_together(items, &patch, &before, None);
    }
    let key = merge_key(&place.path)
        .ok_or_else(|| unexpected("cannot merge lists without merge key for struct"))?;
    let (mut replaces, mut gone, mut sent) = (false, HashSet::new(), Vec::new());
    for item in patch {
        match item.get("$patch").map(Value::as_str) {
            None => sent.push(item),
            Some(Some("delete")) => {
                gone.insert(identity(&item, Some(key))?.to_string());
            }
            Some(Some("replace")) => replaces = true,
            Some(Some("merge")) => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(unexpected(why));
            }
            Some(_) => {
                return Err(unknown_directive(item.as_object().unwrap_or(&Map::new())));
            }
        }
    }
    if replaces {
        return put_together(sent, &[], &[], Some(key));
    }
    let own_of = |item: &Value| item.get(key).map(Value::to_string);
    items.retain(|item| own_of(item).is_none_or(|own| !gone.contains(&own)));
    let before = items.clone();
    // A map, because both lists may be as long as a body. Of items with the same key it has the
    // first.
    let places = items.iter().enumerate().rev();
    let places = places.filter_map(|(place, item)| Some((own_of(item)?, place)));
    let mut places: HashMap<String, usize> = places.collect();
    for item in &sent {
        let own = identity(item, Some(key))?.to_string();
        let same = places.get(&own).and_then(|place| items.get_mut(*place));
        if let (Some(Value::Object(existing)), Value::Object(fields)) = (same, item) {
            place.path.push(String::new());
            merge(existing, fields.clone(), place)?;
            place.path.pop();
        } else {
            places.entry(own).or_insert(items.len());
            items.push(item.clone());
        }
    }
    put_together(items, &sent, &before, Some(key))
}

/// Orders a merged list (`mergeSortedSlice`). Items of the patch are in the patch's order, other
/// items in the order of `before`. Both kinds are relative to each other as in `before`; where that
/// does not say, items of the patch come first.
fn put_together(
    merged: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let places = |list: &[Value]| -> Result<HashMap<String, usize>, PatchError> {
        let mut places = HashMap::new();
        for (place, item) in list.iter().enumerate() {
            places
                .entry(identity(item, key)?.to_string())
                .or_insert(place);
        }
        Ok(places)
    };
    if key.is_some()
        && !merged.is_empty()
        && let Some(place) = order.iter().position(|item| !item.is_object())
    {
        let why = format!("value for key {place} is not a map");
        return Err(unexpected(why));
    }
    let (wanted, known) = (places(order)?, places(before)?);
    let (mut sent, mut left_alone) = (Vec::new(), Vec::new());
    for item in merged {
        let own = identity(&item, key)?.to_string();
        let place = known.get(&own).copied();
        match wanted.get(&own) {
            Some(wanted) => sent.push((*wanted, place, item)),
            None => left_alone.push((place, item)),
        }
    }
    sent.sort_by_key(|(wanted, ..)| *wanted);
    let mut left_alone = left_alone.into_iter().peekable();
    let mut together = Vec::new();
    for (_, own, item) in sent {
        let comes_before = |(other, _): &(Option<usize>, Value)| other.is_some() && *other < own;
        while let Some((_, other)) =
            left_alone.next_if(|other| own.is_some() && comes_before(other))
        {
            together.push(other);
        }
        together.push(item);
    }
    together.extend(left_alone.map(|(_, item)| item));
    Ok(together)
}

/// The identity of an item: the item itself, or its key.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, PatchError> {
    let Some(key) = key else {
        return Ok(item);
    };
    if !item.is_object() {
        return Err(other_type(MAP, item));
    }
    item.get(key).ok_or_else(|| {
        let item = GoValue(item);
        unexpected(format_args!(
            "map: {item} does not contain declared merge key: {key}"
        ))
    })
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(other_type(LIST, &other)),
    }
}

/// The error of an ordering directive that does not name a list.
fn no_list(path: &[String], known: bool) -> PatchError {
    let (name, around) = path
        .split_last()
        .map_or(("", path), |(name, around)| (name.as_str(), around));
    let of = match kind_at(around) {
        _ if around.is_empty() => core_v1::EVENT.name,
        Some(Kind::Object(of)) => of.name,
        _ => {
            let why = "merging an object in json but data type is not struct, instead is: map";
            return unexpected(why);
        }
    };
    PatchError::Unexpected(if known {
        "expected slice or array type, but got: struct".to_owned()
    } else {
        let name = bounded_text(Quoted(name), REFUSAL_BYTES_MAX);
        format!("unable to find api field in struct {of} for the json field {name}")
    })
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A value without the maps in it that have a `$patch`; `None` if it is such a map itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(members) if members.contains_key("$patch") => return None,
        Value::Object(members) => members
            .into_iter()
            .filter_map(|(key, value)| Some((key, without_directives(value)?)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items
            .into_iter()
            .filter_map(without_directives)
            .collect::<Vec<_>>()
            .into(),
        other => other,
    })
}

const MAP: &str = "map[string]interface {}";
const LIST: &str = "[]interface {}";
/// A nil as Go's `%s` prints it.
const NIL: &str = "%!s(<nil>)";

fn other_type(expected: &str, found: &Value) -> PatchError {
    let found = match found {
        Value::Null => NIL,
        found => go_type(found),
    };
    PatchError::Unexpected(format!("expected a {expected}, but received a {found}"))
}

/// The type of all items of the lists, which must be the same.
fn kind_of_items(lists: &[&[Value]]) -> Result<&'static str, PatchError> {
    let mut kinds = lists.iter().copied().flatten().map(go_type);
    match kinds.next() {
        None => Err(unexpected("no elements in any of the given slices")),
        Some(LIST) => Err(PatchError::Unprocessable),
        Some(kind) if kinds.all(|other| other == kind) => Ok(kind),
        Some(_) => {
            let shown: Vec<String> = lists
                .iter()
                .map(|list| bounded_text(GoList(list), REFUSAL_BYTES_MAX))
                .collect();
            Err(unexpected(format_args!(
                "list element types are not identical: [{}]",
                shown.join(" ")
            )))
        }
    }
}

fn unknown_directive(patch: &Map<String, Value>) -> PatchError {
    let directive = patch.get("$patch").map(go_text).unwrap_or_default();
    let patch = GoMap(patch);
    unexpected(format_args!(
        "unknown patch type: {directive} in map: {patch}"
    ))
}

/// A value as Go's `%s` prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => NIL.to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={value})", go_type(value)),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
    }
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
        let owners = "/metadata/ownerReferences";
        #[rustfmt::skip]
        let table = [
            ("scalars are replaced", json!({"count": 2}), "/count", json!(2)),
            ("null deletes", json!({"metadata": {"labels": {"a": null}}}),
                "/metadata/labels", json!({"b": "2"})),
            ("nulls in new maps vanish", json!({"series": {"count": 2, "x": null}}),
                "/series", json!({"count": 2})),
            ("sets unite", json!({"metadata": {"finalizers": ["y", "z"]}}),
                "/metadata/finalizers", json!(["x", "y", "z"])),
            ("items leave a set",
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
                "/metadata/finalizers", json!(["y"])),
            ("sets are ordered",
                json!({"metadata": {
                    "$setElementOrder/finalizers": ["z", "y", "x"], "finalizers": ["z"],
                }}),
                "/metadata/finalizers", json!(["z", "y", "x"])),
            ("owners merge by uid",
                json!({"metadata": {"ownerReferences": [
                    {"uid": "2", "name": "zwei"}, {"uid": "3"},
                ]}}),
                owners,
                json!([{"uid": "1", "name": "one"}, {"uid": "2", "name": "zwei"}, {"uid": "3"}])),
            ("what is new comes first",
                json!({"metadata": {"ownerReferences": [{"uid": "3"}], "finalizers": ["z"]}}),
                "/metadata", json!({
                    "labels": {"a": "1", "b": "2"},
                    "finalizers": ["z", "x", "y"],
                    "ownerReferences": [
                        {"uid": "3"}, {"uid": "1", "name": "one"}, {"uid": "2", "name": "two"},
                    ],
                })),
            ("owners sent twice are one",
                json!({"metadata": {"ownerReferences": [
                    {"uid": "3", "name": "three"}, {"name": "drei", "uid": "3"},
                ]}}),
                owners,
                json!([
                    {"uid": "3", "name": "drei"},
                    {"uid": "1", "name": "one"}, {"uid": "2", "name": "two"},
                ])),
            ("owners leave by uid",
                json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}]}}),
                owners, json!([{"uid": "2", "name": "two"}])),
            ("a list can be replaced",
                json!({"metadata": {"ownerReferences": [{"uid": "9"}, {"$patch": "replace"}]}}),
                owners, json!([{"uid": "9"}])),
            ("a map can be replaced",
                json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
                "/metadata/labels", json!({"c": "3"})),
            ("a map can be emptied", json!({"metadata": {"labels": {"$patch": "delete"}}}),
                "/metadata/labels", json!({})),
            ("keys can be retained",
                json!({"metadata": {"labels": {"$retainKeys": ["b", "c"], "c": "3"}}}),
                "/metadata/labels", json!({"b": "2", "c": "3"})),
        ];
        for (what, patch, pointer, expected) in table {
            let patched = applied(target(), &patch).unwrap();
            assert_eq!(patched.pointer(pointer), Some(&expected), "{what}");
        }
    }

    fn applied(mut target: Value, patch: &Value) -> Result<Value, PatchError> {
        if let (Some(target), Some(patch)) = (target.as_object_mut(), patch.as_object()) {
            apply(target, patch)?;
        }
        Ok(target)
    }

    /// These are answers of kube-apiserver 1.36.
    #[test]
    fn what_is_not_accepted() {
        let unexpected = |why: &str| PatchError::Unexpected(why.to_owned());
        let target = json!({
            "metadata": {"ownerReferences": [{"uid": "1"}], "finalizers": ["a"]},
            "source": {"host": "h"},
        });
        #[rustfmt::skip]
        let table = [
            (json!({"source": {"$patch": "explode"}}),
                unexpected("unknown patch type: explode in map: map[$patch:explode]")),
            (json!({"source": {"$retainKeys": "a"}}), malformed(BAD_RETAIN_KEYS)),
            (json!({"source": {"$retainKeys": ["host"], "component": "c"}}),
                malformed(BAD_RETAIN_KEYS)),
            (json!({"metadata": {"ownerReferences": [{"name": "p"}]}}),
                unexpected("map: map[name:p] does not contain declared merge key: uid")),
            (json!({"source": {"$patch": 1}}),
                unexpected("unknown patch type: %!s(int64=1) in map: map[$patch:1]")),
            (json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "merge"}]}}),
                unexpected("merging lists cannot yet be specified in the patch")),
            (json!({"metadata": {"finalizers": [1]}}),
                unexpected("list element types are not identical: [[a] [1]]")),
            (json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": null}}),
                unexpected("expected a []interface {}, but received a %!s(<nil>)")),
            (json!({"metadata": {"$setElementOrder/labels": []}}),
                unexpected("unable to find api field in struct ObjectMeta \
                    for the json field \"labels\"")),
            (json!({"metadata": {"$deleteFromPrimitiveList": []}}), malformed(BAD_DELETION)),
            (json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}}),
                unexpected("The order in patch list:\n[b]\n \
                    doesn't match $setElementOrder list:\n[a]\n")),
        ];
        for (patch, expected) in table {
            assert_eq!(applied(target.clone(), &patch), Err(expected), "{patch}");
        }
    }

    #[test]
    fn what_was_not_there_is_taken_without_what_has_directives() {
        let patch = json!({
            "source": {"$retainKeys": [], "host": "h", "component": null},
            "series": {"$patch": "replace", "count": 2},
        });
        assert_eq!(
            applied(json!({}), &patch).unwrap(),
            json!({"source": {"$retainKeys": [], "host": "h"}})
        );
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
