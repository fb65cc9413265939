//! Records of a capture: the events that were found, and where.

use std::fmt;
use std::sync::Arc;

use super::event::Event;
use super::note::Note;
use super::unreadable::Unreadable;

/// Maximum size of an event, in bytes of its JSON text: well above the 3 MiB that kube-apiserver
/// accepts.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// Maximum size of a YAML document, in bytes.
pub const YAML_DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Maximum nesting of brackets: the depth of JSON at which an event is found.
pub const DEPTH_MAX: usize = 256;

/// A place in a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path of a file in a folder or archive, as the archive writes it.
    pub member: Option<Arc<str>>,
    /// The line on which the event begins, from 1.
    pub line: u64,
    /// The event's number among those on this line, from 1.
    pub nth: u64,
}

/// `path/of/member:line`, and the event's number on the line if it is not the first.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(member) = &self.member {
            write!(formatter, "{member}:")?;
        }
        write!(formatter, "{}", self.line)?;
        if self.nth > 1 {
            write!(formatter, " event {}", self.nth)?;
        }
        Ok(())
    }
}

/// One event, or the error of an unreadable one.
#[derive(Debug)]
pub struct Record {
    /// The event's place in the capture.
    pub place: Place,
    /// The length of the event's JSON text, in bytes.
    pub length: usize,
    /// The event, ready to be created as core/v1.
    pub event: Result<Event, Unreadable>,
    /// The changes that were made to the event.
    pub notes: Vec<Note>,
}

/// A result of reading a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// An event.
    Record(Record),
    /// A capture, or a member of it, that could not be read to its end.
    Failed {
        /// Where reading stopped.
        place: Place,
        /// The reason.
        why: String,
    },
    /// The capture has no events.
    Nothing {
        /// A description of its content.
        what: String,
    },
}

impl Found {
    /// The result for a capture that cannot be opened.
    pub fn failed(error: &std::io::Error) -> Self {
        Self::Failed {
            place: Place {
                member: None,
                line: 1,
                nth: 1,
            },
            why: error.to_string(),
        }
    }
}
