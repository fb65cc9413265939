//! The schema of an event for apply: which objects are owned as a whole, which lists are sets or
//! maps.
//!
//! It follows from the table of an event's fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tidings_core::fields::{Kind, Type};

use super::changes::Changes;
use super::set::{Atom, FieldSet, PathElement, Shown};
use crate::bounded::BoundedList;
use crate::codec::Api;
use crate::go::{GoSyntax, GoValue, go_type};

/// Maximum bytes of the errors about one configuration.
const UNFIT_BYTES_MAX: usize = 16 * 1024;

/// The schema of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Schema {
    Text,
    Number,
    Bool,
    /// A scalar of any type, such as a time.
    Any,
    /// An object with the members of this type.
    Struct(&'static Type),
    /// An object with the members of this type that is owned as a whole.
    Atomic(&'static Type),
    /// An object whose values are texts.
    Texts,
    /// A list of texts without order or repetition.
    Set,
    /// A list of objects identified by this key field, each owned as a whole.
    Keyed(&'static str, &'static Type),
}

use Schema::{Any, Atomic, Bool, Keyed, Number, Set, Struct, Text, Texts};

impl From<Kind> for Schema {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Text => Text,
            Kind::Int32 | Kind::Int64 => Number,
            Kind::Bool => Bool,
            Kind::Time | Kind::MicroTime | Kind::Json | Kind::List(_, None) => Any,
            Kind::Map => Texts,
            Kind::Set => Set,
            Kind::Object(of) if of.atomic => Atomic(of),
            Kind::Object(of) => Struct(of),
            Kind::List(of, Some(key)) => Keyed(key, of),
        }
    }
}

impl Schema {
    pub(super) fn of(api: Api) -> Self {
        Struct(api.event())
    }

    /// The schema of a member that the type declares.
    pub(super) fn declared(self, name: &str) -> Option<Self> {
        match self {
            Struct(of) if of.name == "Event" && matches!(name, "apiVersion" | "kind") => Some(Text),
            Struct(of) | Atomic(of) => of.field(name).map(|field| field.kind.into()),
            _ => None,
        }
    }

    /// The schema of any member of an object.
    pub(super) fn member(self, name: &str) -> Self {
        self.declared(name)
            .unwrap_or(if matches!(self, Texts) { Text } else { Any })
    }

    /// The schema of the items of a list.
    pub(super) fn item(self) -> Self {
        match self {
            Keyed(_, of) => Atomic(of),
            _ => Text,
        }
    }

    /// The path element that identifies an item of a list.
    pub(super) fn item_element(self, item: &Value) -> Result<PathElement, String> {
        match self {
            Keyed(key, _) => match item {
                // The schema's default for a missing key is the empty text.
                Value::Object(fields) => Ok(PathElement::keyed(
                    key,
                    fields
                        .get(key)
                        .map_or(Atom::Text(String::new()), Atom::from_json),
                )),
                Value::Null => Err("associative list with keys may not have a null element".into()),
                _ => Err("associative list with keys may not have non-map elements".into()),
            },
            _ => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".into())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null".into(),
                ),
                scalar => Ok(PathElement::Value(Atom::from_json(scalar))),
            },
        }
    }
}

/// Checks a value against the schema; `null` is always valid.
///
/// # Errors
///
/// All mistakes, in one text.
pub(super) fn check(schema: Schema, value: &Value) -> Result<(), String> {
    let mut errors = BoundedList::new("\n  ", UNFIT_BYTES_MAX);
    check_at(schema, value, &mut Vec::new(), &mut errors);
    match errors.items() {
        0 => Ok(()),
        1 => Err(errors.finish()),
        _ => Err(format!("errors:\n  {}", errors.finish())),
    }
}

fn check_at(schema: Schema, value: &Value, path: &mut Vec<PathElement>, errors: &mut BoundedList) {
    let mut expected = |expected: &str| {
        let place = format_args!("{}: expected {expected}, got ", Shown(path));
        // Upstream prints each with another format, including the type that wraps the value.
        match schema {
            Text => errors.push(format_args!(
                "{place}&value.valueUnstructured{{Value:{}}}",
                GoSyntax(value)
            )),
            Number => errors.push(format_args!("{place}{}", go_type(value))),
            _ => errors.push(format_args!("{place}&{{{}}}", GoValue(value))),
        }
    };
    match (schema, value) {
        (_, Value::Null)
        | (Text, Value::String(_))
        | (Number, Value::Number(_))
        | (Bool, Value::Bool(_))
        | (Any, _) => {}
        (Text, _) => expected("string"),
        (Number, _) => expected("numeric (int or float)"),
        (Bool, _) => expected("boolean"),
        (Struct(_) | Atomic(_) | Texts, Value::Object(members)) => {
            for (name, value) in members {
                path.push(PathElement::named(name.as_str()));
                let known = matches!(schema, Texts) || schema.declared(name).is_some();
                if known {
                    check_at(schema.member(name), value, path, errors);
                } else {
                    errors.push(format_args!(
                        "{}: field not declared in schema",
                        Shown(path)
                    ));
                }
                path.pop();
                if !known {
                    // Only the first undeclared field is reported, as upstream does it.
                    break;
                }
            }
        }
        (Struct(_) | Atomic(_) | Texts, _) => expected("map"),
        (Set | Keyed(..), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = match schema.item_element(item) {
                    Ok(element) => element,
                    Err(why) => {
                        let place = Shown(path);
                        errors.push(format_args!("{place}: element {index}: {why}"));
                        continue;
                    }
                };
                if seen.contains(&element) {
                    let place = Shown(path);
                    errors.push(format_args!("{place}: duplicate entries for key {element}"));
                    continue;
                }
                path.push(element.clone());
                seen.insert(element);
                check_at(schema.item(), item, path, errors);
                path.pop();
            }
        }
        (Set | Keyed(..), _) => expected("list"),
    }
}

/// The fields of a value (`TypedValue.ToFieldSet`).
pub(super) fn field_set(schema: Schema, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(schema, value, &mut Vec::new(), &mut set);
    set
}

fn collect(schema: Schema, value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match schema {
        Struct(_) | Texts => {
            for (name, value) in value.as_object().into_iter().flatten() {
                path.push(PathElement::named(name.as_str()));
                collect(schema.member(name), value, path, set);
                if value.is_null() || value.as_object().is_some_and(Map::is_empty) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Set | Keyed(..) => {
            for item in value.as_array().into_iter().flatten() {
                if let Ok(element) = schema.item_element(item) {
                    path.push(element);
                    set.insert(path);
                    path.pop();
                }
            }
        }
        Text | Number | Bool | Any | Atomic(_) => set.insert(path),
    }
}

/// The fields that differ between two values (`TypedValue.Compare`).
pub(super) fn compare(schema: Schema, old: &Value, new: &Value) -> Changes {
    let mut changes = Changes::default();
    if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
        compare_members(schema, old, new, &mut changes);
    }
    changes
}

fn compare_members(
    schema: Schema,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    changes: &mut Changes,
) {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let element = PathElement::named(name.as_str());
        let (old, new) = (old.get(name), new.get(name));
        compare_at(schema.member(name), element, old, new, changes);
    }
}

fn compare_at(
    schema: Schema,
    element: PathElement,
    old: Option<&Value>,
    new: Option<&Value>,
    changes: &mut Changes,
) {
    let is_whole = matches!(schema, Text | Number | Bool | Any | Atomic(_));
    if is_whole || (is_nothing(old) && is_nothing(new)) {
        return changes.leaf(element, old, new);
    }
    changes.inside(element, old.is_some(), new.is_some(), |changes| {
        if let Set | Keyed(..) = schema {
            let (old, new) = (items(schema, old), items(schema, new));
            let (known, wanted) = (by_element(&old), by_element(&new));
            for (element, item) in &old {
                let same = wanted.get(element).copied();
                changes.leaf(element.clone(), Some(*item), same);
            }
            for (element, item) in &new {
                if !known.contains_key(element) {
                    changes.leaf(element.clone(), None, Some(*item));
                }
            }
        } else {
            let none = Map::new();
            let old = old.and_then(Value::as_object).unwrap_or(&none);
            let new = new.and_then(Value::as_object).unwrap_or(&none);
            compare_members(schema, old, new, changes);
        }
    });
}

/// Whether there is no value, or one without any parts.
pub(super) fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// The items of a list, each with its path element.
pub(super) fn items(schema: Schema, list: Option<&Value>) -> Vec<(PathElement, &Value)> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items
        .filter_map(|item| Some((schema.item_element(item).ok()?, item)))
        .collect()
}

/// Items by path element; of duplicates the first.
fn by_element<'a, 'b>(
    items: &'b [(PathElement, &'a Value)],
) -> BTreeMap<&'b PathElement, &'a Value> {
    let items = items.iter().rev();
    items.map(|(element, item)| (element, *item)).collect()
}
