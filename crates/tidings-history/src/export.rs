//! The lines of an export with versions: everything that is kept of a cluster, as JSON Lines.
//!
//! | kind | |
//! |---|---|
//! | `Coverage` | the first line: the cluster's coverage, the form, and the origin of the export. That of a part has no positions |
//! | `Deleted` | an event that was deleted in the archive, and until when it is not fetched again; before all versions |
//! | `Version` | a version; those of one event follow each other, oldest first |
//! | `End` | the end of an event at its source; after its versions |
//! | `Complete` | the last line: nothing is missing |
//! | `Continue` | the last line of a page that is not the last one |
//!
//! Each names the event by the namespace and name under which it is kept, which may differ from its
//! own name.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidings_store::UnixMillis;

use crate::coverage::Coverage;
use crate::wire;

/// The form of the lines that this crate writes and reads.
pub const EXPORT_FORM: u64 = 1;

/// The first line of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportHead {
    /// The form of the lines: [`EXPORT_FORM`].
    pub form: u64,
    /// The identity of the exported store.
    pub store: String,
    /// When the export began.
    #[serde(with = "wire::time")]
    pub exported_at: UnixMillis,
    /// The coverage of the exported cluster.
    #[serde(flatten)]
    pub coverage: Coverage,
}

/// A line of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum ExportLine {
    /// The first line.
    Coverage(Box<ExportHead>),
    /// An event that was deleted in the archive.
    Deleted {
        /// The event's namespace.
        namespace: String,
        /// The name under which it was kept.
        name: String,
        /// Its uid; empty if it has none.
        uid: String,
        /// Until when the archive does not keep it again, even if its source has it.
        #[serde(with = "wire::time")]
        until: UnixMillis,
    },
    /// A version of an event.
    Version {
        /// The event's namespace.
        namespace: String,
        /// The name under which it is kept.
        name: String,
        /// [`Version::epoch`](crate::Version::epoch).
        epoch: u64,
        /// [`Version::observed_at`](crate::Version::observed_at).
        #[serde(with = "wire::time")]
        observed_at: UnixMillis,
        /// The event in Kubernetes' JSON, with its resourceVersion at the source. Null is not
        /// written, so that a writer can append the event in its own way.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        event: Value,
    },
    /// The end of an event at its source.
    End {
        /// The event's namespace.
        namespace: String,
        /// The name under which it is kept.
        name: String,
        /// Its uid; empty if it has none.
        uid: String,
        /// The resourceVersion of the end.
        #[serde(with = "wire::number")]
        resource_version: u64,
        /// When the archive noted the end.
        #[serde(with = "wire::time")]
        observed_at: UnixMillis,
        /// Last time at which the event is known to have existed, if it ended while its source was
        /// not followed.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            with = "wire::optional_time"
        )]
        not_before: Option<UnixMillis>,
    },
    /// The end of the export.
    Complete {},
    /// The end of a page.
    Continue {
        /// The token of the next page.
        r#continue: String,
    },
}

impl ExportLine {
    /// Appends the line and a line feed.
    pub fn write(&self, out: &mut Vec<u8>) {
        // Writing texts, numbers and times as JSON cannot fail.
        let line = match self {
            // The keys of these lines are in alphabetical order.
            Self::Coverage(_) | Self::Continue { .. } => {
                serde_json::to_value(self).unwrap_or_default().to_string()
            }
            line => serde_json::to_string(line).unwrap_or_default(),
        };
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
}

/// The part of a cluster's history that is exported; by default everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPart {
    /// The namespace of the events; `None` for all.
    pub namespace: Option<String>,
    /// The earliest time at which exported versions were observed.
    pub since: Option<UnixMillis>,
    /// The latest time at which exported versions were observed.
    pub until: Option<UnixMillis>,
}

impl ExportPart {
    /// Returns whether everything is exported.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether what was observed at a time is exported.
    ///
    /// ```
    /// use tidings_history::ExportPart;
    /// use tidings_store::UnixMillis;
    ///
    /// let part = ExportPart { since: Some(UnixMillis(5)), ..ExportPart::default() };
    /// assert!(!part.has(UnixMillis(4)) && part.has(UnixMillis(5)));
    /// ```
    pub fn has(&self, observed_at: UnixMillis) -> bool {
        self.since.is_none_or(|since| observed_at >= since)
            && self.until.is_none_or(|until| observed_at <= until)
    }
}

/// A page of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Complete lines.
    pub lines: Vec<u8>,
    /// The place of the next page, if there is one.
    pub more: Option<String>,
}
