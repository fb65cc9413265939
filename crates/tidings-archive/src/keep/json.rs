//! The archive's own records, which are JSON of plain values.

use tidings_store::Fault;

/// The JSON of a plain value. Writing it cannot fail.
pub(crate) fn json<T: serde::Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Reads a record of the archive's own.
pub(crate) fn parse<T: for<'a> serde::Deserialize<'a>>(value: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(value).map_err(|error| Fault::Corrupt(error.to_string()))
}
