//! JSON as Go's encoder writes it, appended to a buffer.

use super::members::{Members, write_members};
use super::{Field, Object};

impl Members<'_> {
    /// Appends a member, or leaves it out if it is empty and not `always` there.
    pub fn member<View, F: Field<View>>(&mut self, name: &'static str, value: &F, always: bool) {
        if always || !value.is_empty() {
            self.raw(name, |out| value.write(out));
        }
    }
}

/// Appends an object; the zero value when unset.
pub fn write_object<View, T: Object<View>>(object: Option<&T>, out: &mut Vec<u8>) {
    write_members(out, |members| match object {
        Some(object) => object.write_fields(members),
        None => T::default().write_fields(members),
    });
}

pub(crate) fn write_list<T>(items: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}
