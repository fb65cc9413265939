//! Reading captures: the events that other programs wrote down, wherever they lie. No network, no
//! clock.
//!
//! [`read`] takes a stream and [`read_path`] a file or a folder. Bytes become text: gzip, zstd, tar
//! and zip are unpacked, UTF-16 is decoded. In the text, events are found as JSON or YAML objects
//! of core/v1, events.k8s.io or Kubernetes' internal types: single ones, in lists under any key, in
//! watch events, in the lines of an event router or of a logger, after each other, with other text
//! before, between and behind. Each event is found once, with its place, or with the reason why it
//! cannot be read.
//!
//! Invariants:
//! - an event keeps every field and value it came with, apart from what the notes say, the
//!   metadata the server owns ([`SERVER_OWNED_METADATA`]) and, for other forms than core/v1, the
//!   names of the fields;
//! - memory is bounded by [`RECORD_BYTES_MAX`] for JSON, however long a list, a file or an archive
//!   is, and by [`YAML_DOCUMENT_BYTES_MAX`] for YAML, whose documents are read as a whole;
//! - cost is linear in the bytes, and bounds hold for what compressed bytes become.

mod bundle;
mod event;
mod internal;
mod mend;
mod note;
mod object;
mod record;
pub mod report;
mod scan;
mod seen;
mod shape;
mod sink;
#[cfg(test)]
mod tests;
mod text;
mod times;
mod unreadable;
mod window;
mod yaml;

pub use bundle::{
    ARCHIVES_MAX, COPIED_ZIP_BYTES_MAX, EXPANDED_BYTES_FREE, MEMBERS_MAX, RATIO_MAX, read,
    read_path,
};
pub use event::{Event, OTHER_CLUSTERS_METADATA, SERVER_OWNED_METADATA};
pub use note::Note;
pub use record::{DEPTH_MAX, Found, Place, RECORD_BYTES_MAX, Record, YAML_DOCUMENT_BYTES_MAX};
pub use unreadable::Unreadable;
