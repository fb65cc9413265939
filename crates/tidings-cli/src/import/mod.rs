//! Reading the events other programs printed: bytes in, records out. No network, no clock, no files.
//!
//! [`read`] takes what `kubectl get events -o json` or `-o yaml` prints (a `List`, an `EventList`), single events, an
//! array of events, several documents one after the other, and JSON Lines, of core/v1 and of events.k8s.io, told apart
//! by content alone. What cannot be read becomes a record too, so the records account for everything that was there.
//!
//! Invariants:
//! - an event keeps every field and value it came with, apart from the metadata the server owns
//!   ([`SERVER_OWNED_METADATA`]) and, for events.k8s.io, the names [`tidings_core::convert`] changes;
//! - memory is bounded by [`RECORD_BYTES_MAX`] for JSON, however long a list or file is, and by
//!   [`YAML_DOCUMENT_BYTES_MAX`] for YAML, whose documents are read as a whole.

mod document;
mod event;
mod json;
pub mod report;
mod source;
#[cfg(test)]
mod tests;
mod yaml;

use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;

pub use event::{Event, SERVER_OWNED_METADATA};

/// The largest event that is read, in bytes of its JSON text: well above the 3 MiB a kube-apiserver accepts.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// The largest YAML document that is read, in bytes.
pub const YAML_DOCUMENT_BYTES_MAX: usize = 256 << 20;

/// Where a record stood in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line the record began on, from 1. For an item of a YAML list, the line its document began on.
    pub line: u64,
    /// Which item of a list the record was, from 1.
    pub item: Option<u64>,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.line)?;
        self.item
            .map_or(Ok(()), |item| write!(formatter, " item {item}"))
    }
}

/// One event, or one thing where an event should have been.
#[derive(Debug)]
pub struct Record {
    /// Where it stood.
    pub position: Position,
    /// The event, ready to be created as core/v1.
    pub event: Result<Event, Unreadable>,
}

/// Why a record is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Neither JSON nor YAML, or of a shape no event has. What follows may have been skipped; the message says so.
    #[error("{0}")]
    Syntax(String),
    /// An object of another kind.
    #[error("{kind} of {api_version}, expected an Event of v1 or events.k8s.io/v1")]
    OtherKind {
        /// What it said its kind was.
        kind: String,
        /// What it said its apiVersion was.
        api_version: String,
    },
    /// An object that says no kind and does not look like an event either.
    #[error("no kind, and neither involvedObject nor regarding: not an event")]
    NoKind,
    /// `metadata` is something else than an object.
    #[error("metadata is not an object")]
    Metadata,
    /// A namespace that no namespace can be called.
    #[error("{0:?} is no name of a namespace")]
    Namespace(String),
    /// An events.k8s.io event that has no core/v1 form.
    #[error(transparent)]
    Convert(#[from] tidings_core::convert::ConvertError),
    /// Longer than this program reads.
    #[error("longer than {limit} bytes")]
    TooLarge {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
}

/// Reads all records of `input` and hands each to `take`, in order, until it answers [`ControlFlow::Break`].
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
