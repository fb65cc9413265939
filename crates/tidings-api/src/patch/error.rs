//! Why a patch is refused.

use super::operations::OPERATIONS_MAX;

/// Why a patch cannot be read or applied. Texts that clients see are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It cannot be read: 400.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch has too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// The Content-Type is not a patch type of this module: 415.
    #[error("no JSON, merge or strategic merge patch")]
    NoPatch,
    /// It is well-formed but does not fit this object: 422. As upstream, without a reason.
    #[error("the patch does not fit the object")]
    Unprocessable,
    /// It does not fit any object, which upstream does not expect: 500.
    #[error("{0}")]
    Unexpected(String),
}
