//! Reads captures: files in which other programs wrote events, in any form. Uses no network and no
//! clock.
//!
//! [`read`] takes a stream and [`read_path`] a file or a folder. First, bytes become text: gzip,
//! zstd, xz, bzip2, tar and zip are unpacked, UTF-16 is decoded, and what container runtimes and
//! kubectl put before the lines of a container is left out. Then events are found in the text as
//! JSON or YAML objects of core/v1, events.k8s.io or Kubernetes' internal types. They may be single
//! objects, in lists under any key, in watch events, in lines of an event router or a logger, in
//! attributes of OpenTelemetry's JSON, or quoted in klog's lines. There may be several, with other
//! text around them. Each event is found once, with its place or with the reason why it cannot be
//! read.
//!
//! Invariants:
//! - an event keeps every field and value, except for the changes in its notes, the metadata that
//!   the server sets ([`SERVER_OWNED_METADATA`]) and, in other forms than core/v1, the names of the
//!   fields;
//! - memory is bounded by [`RECORD_BYTES_MAX`] for JSON, however long a list, a file or an archive
//!   is, and by [`YAML_DOCUMENT_BYTES_MAX`] for YAML, whose documents are read as a whole;
//! - time is linear in the decompressed bytes, which are bounded, too.

mod attributes;
mod bundle;
mod escaped;
mod event;
mod frame;
mod internal;
mod line;
mod logs;
mod mend;
mod note;
mod object;
mod record;
mod remainder;
pub mod report;
mod scan;
mod seen;
mod shape;
mod sink;
mod strings;
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
