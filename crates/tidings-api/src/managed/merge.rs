//! Merges an applied configuration into an event, and removes fields that are no longer applied.
//!
//! It follows `typed/merge.go`, `typed/remove.go`, and `prune` in `merge/update.go` of
//! structured-merge-diff. All values are JSON in one API version.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schema::{Schema, field_set, is_nothing, items};
use super::set::{FieldSet, PathElement};

/// The live value, overwritten by the applied one.
pub(super) fn merge(schema: Schema, live: &Value, applied: &Value) -> Value {
    merge_at(schema, Some(live), Some(applied)).unwrap_or(Value::Null)
}

fn merge_at(schema: Schema, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let whole = || applied.or(live).cloned();
    match schema {
        Schema::Struct(_) | Schema::Texts => {
            let none = Map::new();
            let old = live.and_then(Value::as_object).unwrap_or(&none);
            let new = applied.and_then(Value::as_object).unwrap_or(&none);
            if old.is_empty() && new.is_empty() {
                return whole();
            }
            let added = new.keys().filter(|name| !old.contains_key(*name));
            let merged = old.keys().chain(added).filter_map(|name| {
                let value = merge_at(schema.member(name), old.get(name), new.get(name))?;
                Some((name.clone(), value))
            });
            Some(Value::Object(merged.collect()))
        }
        Schema::Set | Schema::Keyed(..) => {
            let (old, new) = (items(schema, live), items(schema, applied));
            if old.is_empty() && new.is_empty() {
                return whole();
            }
            Some(Value::Array(merge_items(&old, &new)))
        }
        _ => whole(),
    }
}

/// The items of both lists. Shared items are in the applied order. Items only in the live list keep
/// their place between the shared ones.
fn merge_items(live: &[(PathElement, &Value)], applied: &[(PathElement, &Value)]) -> Vec<Value> {
    let in_live: BTreeSet<_> = elements(live).collect();
    let in_applied: BTreeSet<_> = elements(applied).collect();
    let mut shared = elements(applied).filter(|element| in_live.contains(element));
    let mut next_shared = shared.next();
    let (mut live, mut applied) = (live.iter().peekable(), applied.iter().peekable());
    let mut merged = Vec::new();
    loop {
        match (live.peek(), applied.peek()) {
            (None, None) => return merged,
            // Only in the live list: the item keeps its place.
            (Some((element, item)), _) if !in_applied.contains(element) => {
                merged.push((*item).clone());
                live.next();
            }
            // In both lists, but not the next shared item: skip it here.
            (Some((element, _)), _) if next_shared != Some(element) => {
                live.next();
            }
            (_, Some((element, item))) => {
                merged.push((*item).clone());
                if live.peek().is_some_and(|(other, _)| other == element) {
                    live.next();
                }
                if next_shared == Some(element) {
                    next_shared = shared.next();
                }
                applied.next();
            }
            (Some(_), None) => {
                live.next();
            }
        }
    }
}

fn elements<'a>(list: &'a [(PathElement, &Value)]) -> impl Iterator<Item = &'a PathElement> {
    list.iter().map(|(element, _)| element)
}

/// A value without the fields of a set; `null` if nothing is left of it.
fn remove(schema: Schema, value: &Value, set: &FieldSet) -> Value {
    let kept = match (schema, value) {
        (Schema::Struct(_) | Schema::Texts, Value::Object(members)) => {
            let kept = members.iter().filter_map(|(name, value)| {
                let element = PathElement::named(name.as_str());
                if set.has(&element) {
                    return None;
                }
                let value = match set.below(&element) {
                    Some(below) => remove(schema.member(name), value, below),
                    None => value.clone(),
                };
                Some((name.clone(), value))
            });
            Value::Object(kept.collect())
        }
        (Schema::Set | Schema::Keyed(..), Value::Array(items)) => {
            let kept = items.iter().filter(|item| {
                let element = schema.item_element(item);
                element.is_ok_and(|element| !set.has(&element))
            });
            Value::Array(kept.cloned().collect())
        }
        // No part of an atomic value can be removed.
        (Schema::Text | Schema::Number | Schema::Bool | Schema::Any, _) => return value.clone(),
        _ => Value::Null,
    };
    if is_nothing(Some(&kept)) {
        Value::Null
    } else {
        kept
    }
}

/// Removes fields that the applier applied `last` time and that no manager has now. `managed` is
/// the fields of all managers, including the applier's new ones.
pub(super) fn prune(schema: Schema, merged: Value, last: &FieldSet, managed: &FieldSet) -> Value {
    if last.is_empty() {
        return merged;
    }
    let named = |set: &FieldSet| with_named(schema, set);
    let last = named(last);
    let of_merged = named(&field_set(schema, &merged));

    // Fields that are still managed stay.
    let pruned = remove(schema, &merged, &last);
    let mut gone = of_merged.clone();
    gone.subtract(&named(&field_set(schema, &pruned)));
    gone.subtract(&named(managed));
    let pruned = remove(schema, &merged, &gone);

    // Fields that were removed with them but never applied stay as well.
    let mut gone = of_merged;
    gone.subtract(&named(&field_set(schema, &pruned)));
    remove(schema, &merged, &gone.intersection(&last))
}

/// Adds the named parents of a set's fields to the set (`EnsureNamedFieldsAreMembers`). So
/// `source.host` brings `source`. Keys inside a map such as `labels` are no named fields.
fn with_named(schema: Schema, set: &FieldSet) -> FieldSet {
    let named = |schema: Schema, element: &PathElement| match element {
        PathElement::Field(name) => schema.declared(name),
        _ => None,
    };
    set.with_members(schema, Schema::Any, &named)
}
