//! JSON between bytes and Kubernetes' protobuf types, as Go's encoder writes it and the API server's decoder reads it.
//!
//! Fields keep Go's order. A field is either always present (a Go struct or a string without `omitempty`: empty prints
//! as `{}`, `""` or `null`) or left out when empty. Which is which, per type and per API version, is stated once, in the
//! tables of [`super::objects`]; this file knows how to write, read and bring to canonical form any such table.
//! Reading `null` leaves the zero value, an unknown or repeated field is noted rather than refused (the last one wins),
//! and what is of another kind than it has to be is told in Go's words.

mod notes;
mod read;
mod syntax;
mod values;
mod write;

use serde::de::{Deserializer, MapAccess};

use crate::managed::{Changes, PathElement};

pub(crate) use notes::Notes;
pub(crate) use read::{Reading, TypeMeta, next_value, read_document, read_object};
pub(crate) use syntax::{complaint, replace_what_is_no_text};
pub(crate) use values::moment;
pub(crate) use write::{Members, write_integer, write_members, write_object, write_string};

/// The value of one JSON field.
pub(crate) trait Field<View>: Default + PartialEq {
    /// Whether `omitempty` leaves it out.
    fn is_empty(&self) -> bool;
    /// Appends the value; the zero value when unset.
    fn write(&self, out: &mut Vec<u8>);
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error>;
    /// Brings equal values to equal bytes: empty is unset, and a struct that is always present is set.
    fn canonicalize(&mut self, always_present: bool);
    /// Notes what a write did to this field; `None` is a side that lacks the object around it.
    fn compare(
        old: Option<&Self>,
        new: Option<&Self>,
        always: bool,
        name: &'static str,
        changes: &mut Changes,
    ) {
        let present = |side: &&Self| always || !side.is_empty();
        changes.leaf(
            PathElement::known(name),
            old.filter(present),
            new.filter(present),
        );
    }
}

/// An object whose fields are stated by a table. `View` is the API version whose JSON it is.
pub(crate) trait Object<View>: Default + Clone + PartialEq {
    /// What Go's struct is called.
    const GO_NAME: &'static str;
    /// Every JSON name it knows.
    const NAMES: &'static [&'static str];
    /// Whether it is owned as a whole (`x-kubernetes-map-type: atomic`), not field by field.
    const ATOMIC: bool;
    fn write_fields(&self, members: &mut Members<'_>);
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
        reading: &mut Reading,
    ) -> Result<(), A::Error>;
    fn canonicalize(&mut self);
    /// Notes which of its fields differ.
    fn compare(old: Option<&Self>, new: Option<&Self>, changes: &mut Changes);
}

/// States the JSON form of a type: `"name": field always`, `omitted` (when empty) or, for Go's pointers to numbers,
/// `pointer` (omitted when nil). An `atomic` type is written and owned as a whole.
macro_rules! object {
    (impl<V> for $type:ty { $($table:tt)* }) => {
        impl<V> $crate::codec::json::Object<V> for $type { object!(@body V, $type, false, $($table)*); }
        impl<V> $crate::codec::json::Field<V> for Option<$type> { object!(@field V, $type); }
    };
    (impl<V> for atomic $type:ty { $($table:tt)* }) => {
        impl<V> $crate::codec::json::Object<V> for $type { object!(@body V, $type, true, $($table)*); }
        impl<V> $crate::codec::json::Field<V> for Option<$type> { object!(@field V, $type); }
    };
    (impl $view:ty => $type:ty { $($table:tt)* }) => {
        impl $crate::codec::json::Object<$view> for $type { object!(@body $view, $type, false, $($table)*); }
        impl $crate::codec::json::Field<$view> for Option<$type> { object!(@field $view, $type); }
    };
    (@body $view:ty, $type:ty, $atomic:literal, $($name:literal : $field:ident $rule:ident,)*) => {
        const GO_NAME: &'static str = stringify!($type);
        const NAMES: &'static [&'static str] = &[$($name,)*];
        const ATOMIC: bool = $atomic;
        fn write_fields(&self, members: &mut $crate::codec::json::Members<'_>) {
            $(members.member::<$view, _>($name, &self.$field, object!(@always $rule self.$field));)*
        }
        fn read_field<'de, A: serde::de::MapAccess<'de>>(
            &mut self,
            name: &'static str,
            map: &mut A,
            reading: &mut $crate::codec::json::Reading,
        ) -> Result<(), A::Error> {
            match name {
                $($name => self.$field = $crate::codec::json::next_value::<$view, _, _>(map, reading)?,)*
                _ => { map.next_value::<serde::de::IgnoredAny>()?; }
            }
            Ok(())
        }
        fn canonicalize(&mut self) {
            $($crate::codec::json::Field::<$view>::canonicalize(&mut self.$field, object!(@kept $rule));)*
        }
        fn compare(old: Option<&Self>, new: Option<&Self>, changes: &mut $crate::managed::Changes) {
            $($crate::codec::json::Field::<$view>::compare(
                old.map(|object| &object.$field),
                new.map(|object| &object.$field),
                object!(@present $rule),
                $name,
                changes,
            );)*
        }
    };
    (@field $view:ty, $type:ty) => {
        fn is_empty(&self) -> bool {
            self.is_none()
        }
        fn write(&self, out: &mut Vec<u8>) {
            $crate::codec::json::write_object::<$view, _>(self.as_ref(), out);
        }
        fn read<'de, D: serde::Deserializer<'de>>(
            value: D,
            reading: &mut $crate::codec::json::Reading,
        ) -> Result<Self, D::Error> {
            $crate::codec::json::read_object::<$view, _, D>(value, reading)
        }
        fn canonicalize(&mut self, always_present: bool) {
            if always_present && self.is_none() {
                *self = Some(Default::default());
            }
            if let Some(object) = self {
                $crate::codec::json::Object::<$view>::canonicalize(object);
            }
        }
        fn compare(
            old: Option<&Self>,
            new: Option<&Self>,
            always: bool,
            name: &'static str,
            changes: &mut $crate::managed::Changes,
        ) {
            $crate::codec::json::compare_objects::<$view, $type>(old, new, always, name, changes);
        }
    };
    (@always always $value:expr) => { true };
    (@always omitted $value:expr) => { false };
    (@always pointer $value:expr) => { $value.is_some() };
    (@present always) => { true };
    (@present $other:ident) => { false };
    (@kept always) => { true };
    (@kept omitted) => { false };
    (@kept pointer) => { true };
}
pub(crate) use object;

/// Notes what a write did to a field that is an object.
pub(crate) fn compare_objects<View, T: Object<View>>(
    old: Option<&Option<T>>,
    new: Option<&Option<T>>,
    always: bool,
    name: &'static str,
    changes: &mut Changes,
) {
    if old == new {
        return;
    }
    let zero = T::default();
    let (old, new) = [old, new]
        .map(|side| side.and_then(|object| object.as_ref().or(always.then_some(&zero))))
        .into();
    let element = PathElement::known(name);
    if T::ATOMIC {
        changes.leaf(element, old, new);
    } else {
        changes.inside(element, old.is_some(), new.is_some(), |changes| {
            T::compare(old, new, changes);
        });
    }
}
