//! The reasons why an event cannot be read.

/// The reason why an event cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The JSON or YAML is damaged.
    #[error("{0}")]
    Syntax(String),
    /// `metadata` is not an object.
    #[error("metadata is not an object")]
    Metadata,
    /// The namespace has an invalid name.
    #[error("{0:?} is not a namespace name")]
    Namespace(String),
    /// The events.k8s.io event has no core/v1 form.
    #[error(transparent)]
    Convert(#[from] tidings_core::convert::ConvertError),
    /// The event is too large.
    #[error("longer than {limit} bytes")]
    TooLarge {
        /// The exceeded limit, in bytes.
        limit: usize,
    },
}

impl Unreadable {
    /// The rest of an event whose beginning is missing.
    pub(super) fn headless() -> Self {
        Self::Syntax("its beginning is missing".to_owned())
    }
}

/// Characters kept from the beginning of a parser's message, and from its end.
const BEGINNING: usize = 100;
const END: usize = 60;

/// A parser's message, shortened to its beginning and its end. It may repeat the whole document,
/// and its end says what was expected.
pub(super) fn shortened(words: &str) -> String {
    let count = words.chars().count();
    if count <= BEGINNING + END {
        return words.to_owned();
    }
    let beginning: String = words.chars().take(BEGINNING).collect();
    let end: String = words.chars().skip(count - END).collect();
    format!("{beginning}…{end}")
}
