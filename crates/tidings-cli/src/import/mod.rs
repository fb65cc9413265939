//! Reading the events other programs printed: bytes in, records out. No network, no clock, no
//! files.
//!
//! [`read`] takes what `kubectl get events -o json` or `-o yaml` prints (a `List`, an `EventList`),
//! single events, an array of events, several documents one after the other, and JSON Lines, of
//! core/v1 and of events.k8s.io, told apart by content alone. What cannot be read becomes a record
//! too, so the records account for everything that was there.
//!
//! Invariants:
//! - an event keeps every field and value it came with, apart from the metadata the server owns
//!   ([`SERVER_OWNED_METADATA`]) and, for events.k8s.io, the names [`tidings_core::convert`]
//!   changes;
//! - memory is bounded by [`RECORD_BYTES_MAX`] for JSON, however long a list or file is, and by
//!   [`YAML_DOCUMENT_BYTES_MAX`] for YAML, whose documents are read as a whole.

mod document;
mod event;
mod json;
mod record;
pub mod report;
mod source;
#[cfg(test)]
mod tests;
mod unreadable;
mod yaml;

use std::io::{self, Read};
use std::ops::ControlFlow;

pub use event::{Event, SERVER_OWNED_METADATA};
pub use record::{Position, RECORD_BYTES_MAX, Record, YAML_DOCUMENT_BYTES_MAX};
pub use unreadable::Unreadable;

/// Reads all records of `input` and hands each to `take`, in order, until it answers
/// [`ControlFlow::Break`].
///
/// ```
/// use std::ops::ControlFlow;
///
/// let printed = br#"{"kind":"List","apiVersion":"v1","items":[{"involvedObject":{"kind":"Pod","namespace":"web"},"message":"hi"}]}"#;
/// let mut namespaces = Vec::new();
/// tidings_cli::import::read(&printed[..], &mut |record| {
///     namespaces.push(record.event.map(|event| event.namespace));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(namespaces, [Ok("web".to_owned())]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Only what reading `input` itself answers; the records read until then were handed over.
pub fn read(input: impl Read, take: &mut dyn FnMut(Record) -> ControlFlow<()>) -> io::Result<()> {
    let mut source = source::Source::new(input);
    match source.first_byte()? {
        None => Ok(()),
        Some(b'{' | b'[') => json::read(source, take),
        Some(_) => yaml::read(source, take),
    }
}
