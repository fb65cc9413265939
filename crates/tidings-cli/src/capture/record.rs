//! What was found in a capture, and where.

use std::fmt;
use std::sync::Arc;

use super::event::Event;
use super::note::Note;
use super::unreadable::Unreadable;

/// The largest event that is read, in bytes of its JSON text: well above the 3 MiB a kube-apiserver
/// accepts.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// The largest YAML document that is read, in bytes.
pub const YAML_DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// Brackets within each other, at most: the depth of JSON at which an event can lie.
pub const DEPTH_MAX: usize = 256;

/// A place in a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The path of a file in a folder or archive, as it is written there.
    pub member: Option<Arc<str>>,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// Which event of this line it is, from 1.
    pub nth: u64,
}

/// `path/of/member:line`, and which event of the line if it is not the first.
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

/// One event, or what is left of one.
#[derive(Debug)]
pub struct Record {
    /// Where it stood.
    pub place: Place,
    /// The length of its JSON text, in bytes.
    pub length: usize,
    /// The event, ready to be created as core/v1.
    pub event: Result<Event, Unreadable>,
    /// What was changed in the event.
    pub notes: Vec<Note>,
}

/// Something found in a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// An event.
    Record(Record),
    /// A capture, or a part of it, that could not be read to its end.
    Failed {
        /// How far it was read.
        place: Place,
        /// Why it was not read further.
        why: String,
    },
    /// There was no event in the capture.
    Nothing {
        /// What it is instead.
        what: String,
    },
}

impl Found {
    /// A capture that cannot be opened.
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
