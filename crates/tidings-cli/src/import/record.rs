//! Records that were read, and their places in the input.

use std::fmt;

use super::event::Event;
use super::unreadable::Unreadable;

/// The largest event that is read, in bytes of its JSON text: well above the 3 MiB a kube-apiserver
/// accepts.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// The largest YAML document that is read, in bytes.
pub const YAML_DOCUMENT_BYTES_MAX: usize = 256 << 20;

/// Where a record stood in its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line the record began on, from 1. For an item of a YAML list, the line its document
    /// began on.
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
