//! Tables of fields, and what follows from them.

use super::Object;
use crate::managed::{Changes, PathElement};

/// States the JSON form of a type: `"name": field always`, `omitted` (when empty) or, for Go's
/// pointers to numbers, `pointer` (omitted when nil). An `atomic` type is written and owned as a
/// whole.
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
pub fn compare_objects<View, T: Object<View>>(
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
