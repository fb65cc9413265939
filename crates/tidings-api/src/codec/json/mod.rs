//! JSON between bytes and Kubernetes' protobuf types, as Go's encoder writes it and the API
//! server's decoder reads it.
//!
//! Fields keep Go's order. A field is either always present (a Go struct or a string without
//! `omitempty`: empty prints as `{}`, `""` or `null`) or left out when empty. Which is which, per
//! type and per API version, is stated once, in the tables of [`super::objects`]; this file knows
//! how to write, read and bring to canonical form any such table. Reading `null` leaves the zero
//! value, an unknown or repeated field is noted rather than refused (the last one wins), and what
//! is of another kind than it has to be is told in Go's words.

mod members;
mod notes;
mod read;
mod reading;
mod syntax;
mod table;
mod text;
mod values;
mod write;

use serde::de::{Deserializer, MapAccess};

use crate::managed::{Changes, PathElement};

pub use members::{Members, write_members};
pub use notes::Notes;
pub use read::{TypeMeta, next_value, read_document, read_object};
pub use reading::Reading;
pub use syntax::{complaint, replace_what_is_no_text};
pub use table::compare_objects;
pub(crate) use table::object;
pub use text::{write_integer, write_string};
pub use write::write_object;

/// The value of one JSON field.
pub trait Field<View>: Default + PartialEq {
    /// Whether `omitempty` leaves it out.
    fn is_empty(&self) -> bool;
    /// Appends the value; the zero value when unset.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the value; `null` is the zero value.
    fn read<'de, D: Deserializer<'de>>(value: D, reading: &mut Reading) -> Result<Self, D::Error>;
    /// Brings equal values to equal bytes: empty is unset, and a struct that is always present is
    /// set.
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
pub trait Object<View>: Default + Clone + PartialEq {
    /// What Go's struct is called.
    const GO_NAME: &'static str;
    /// Every JSON name it knows.
    const NAMES: &'static [&'static str];
    /// Whether it is owned as a whole (`x-kubernetes-map-type: atomic`), not field by field.
    const ATOMIC: bool;
    /// Appends the members, in Go's order.
    fn write_fields(&self, members: &mut Members<'_>);
    /// Reads the member `name`.
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
        reading: &mut Reading,
    ) -> Result<(), A::Error>;
    /// Brings equal objects to equal bytes; see [`Field::canonicalize`].
    fn canonicalize(&mut self);
    /// Notes which of its fields differ.
    fn compare(old: Option<&Self>, new: Option<&Self>, changes: &mut Changes);
}
