//! Why a record is not an event.

/// Why a record is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Neither JSON nor YAML, or of a shape no event has. What follows may have been skipped; the
    /// message says so.
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
    /// A line of an archive's export with versions.
    #[error(
        "{kind} of an export with versions, which tidings archive --import puts into an archive"
    )]
    OfAnArchive {
        /// What the line is.
        kind: String,
    },
    /// An object that says no kind and does not look like an event either.
    #[error("no kind, and neither involvedObject nor regarding: not an event")]
    NoKind,
    /// `metadata` is something else than an object.
    #[error("metadata is not an object")]
    Metadata,
    /// A namespace that no namespace can be called.
    #[error("{0:?} is not a namespace name")]
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

/// Characters kept of the beginning and the end of a parser's words.
const BEGINNING: usize = 100;
const END: usize = 60;

/// A parser's words, which may repeat the whole document: their beginning, and their end, which
/// says what was expected.
pub(super) fn shortened(words: &str) -> String {
    let count = words.chars().count();
    if count <= BEGINNING + END {
        return words.to_owned();
    }
    let beginning: String = words.chars().take(BEGINNING).collect();
    let end: String = words.chars().skip(count - END).collect();
    format!("{beginning}…{end}")
}
