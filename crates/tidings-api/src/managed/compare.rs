//! Compares two events field by field, for managed fields. The table of fields drives it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_pb::api::core::v1::Event;
use tidings_core::fields::{Field, Kind, Type};

use super::changes::Changes;
use super::set::{Atom, PathElement};
use crate::codec::Api;
use crate::codec::objects::{Object, Skipped, Value};

/// The fields that a write changed, named as in the version `api`.
pub(crate) fn compare(api: Api, old: &Event, new: &Event) -> Changes {
    let mut changes = Changes::default();
    compare_objects(api.event(), Some(old), Some(new), &mut changes);
    changes
}

/// Records which fields of an object differ; `None` means that the object is not set.
fn compare_objects(
    of: &Type,
    old: Option<&dyn Object>,
    new: Option<&dyn Object>,
    changes: &mut Changes,
) {
    for field in of.fields {
        let [old, new] = [old, new].map(|side| side.map(|object| object.value(field.stored)));
        compare_fields(field, old, new, changes);
    }
}

fn compare_fields(
    field: &Field,
    old: Option<Value<'_>>,
    new: Option<Value<'_>>,
    changes: &mut Changes,
) {
    // The common case: nothing changed.
    if let (Some(old), Some(new)) = (&old, &new)
        && old == new
    {
        return;
    }
    let element = PathElement::known(field.name());
    let always = field.is_always_there();
    match field.kind {
        Kind::Object(of) => {
            let [old, new] = [old, new].map(|side| match side? {
                Value::Object(Some(object)) => Some(object),
                _ => always.then_some(&Skipped as &dyn Object),
            });
            if of.atomic {
                let [old, new] = [old, new].map(|side| side.map(|object| Whole(of, object)));
                changes.leaf(element, old.as_ref(), new.as_ref());
            } else {
                changes.inside(element, old.is_some(), new.is_some(), |changes| {
                    compare_objects(of, old, new, changes);
                });
            }
        }
        Kind::Map => {
            let part = |(key, value)| (PathElement::named(String::clone(key)), value);
            let [old, new] = [old, new].map(|side| match side {
                Some(Value::Map(map)) => map.iter().map(part).collect(),
                _ => BTreeMap::new(),
            });
            compare_parts(element, &old, &new, changes);
        }
        Kind::Set => {
            let item = |item| (PathElement::Value(Atom::Text(String::clone(item))), item);
            let [old, new] = [old, new].map(|side| match side {
                Some(Value::Set(texts)) => texts.iter().map(item).collect(),
                _ => BTreeMap::new(),
            });
            compare_parts(element, &old, &new, changes);
        }
        // Items are identified by a key, and each item is owned as a whole.
        Kind::List(of, Some(key)) => {
            let [old, new] = [old, new].map(|side| match side {
                Some(Value::List(list)) => {
                    let items = (0..list.len()).filter_map(|place| list.get(place));
                    let item = |item| (keyed(of, key, item), Whole(of, item));
                    items.map(item).collect()
                }
                _ => BTreeMap::new(),
            });
            compare_parts(element, &old, &new, changes);
        }
        // Only managedFields is a list without a key, and it has no managers itself.
        Kind::List(_, None) => {}
        _ => {
            let present = |value: &Value<'_>| always || !value.is_empty();
            let [old, new] = [old, new].map(|side| side.filter(present));
            changes.leaf(element, old.as_ref(), new.as_ref());
        }
    }
}

fn keyed(of: &Type, key: &str, item: &dyn Object) -> PathElement {
    let value = match item.value(of.number(key)) {
        Value::Text(text) => text,
        _ => "",
    };
    PathElement::keyed(key, Atom::Text(value.to_owned()))
}

/// Records changes of a field that has parts. The field counts as set if it has any part.
fn compare_parts<V: PartialEq>(
    element: PathElement,
    old: &BTreeMap<PathElement, V>,
    new: &BTreeMap<PathElement, V>,
    changes: &mut Changes,
) {
    changes.inside(element, !old.is_empty(), !new.is_empty(), |changes| {
        let parts: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for part in parts {
            changes.leaf(part.clone(), old.get(part), new.get(part));
        }
    });
}

/// An object that is compared as a whole, by the fields of its type.
struct Whole<'a>(&'a Type, &'a dyn Object);

impl PartialEq for Whole<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.fields.iter().all(|field| {
            let [own, other] = [self.1, other.1].map(|object| object.value(field.stored));
            own == other
        })
    }
}
