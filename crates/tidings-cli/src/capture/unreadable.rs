//! Why an event is not read.

/// Why an event is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Damaged JSON or YAML.
    #[error("{0}")]
    Syntax(String),
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
