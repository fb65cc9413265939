//! Where rows about an object are, in the order of rows.

/// Namespace, kind and name of an object.
pub(in crate::reader) type Place<T = String> = [T; 3];

/// Borrows a place, so that it can be compared.
pub(in crate::reader) fn borrowed(place: &Place) -> Place<&str> {
    place.each_ref().map(String::as_str)
}
