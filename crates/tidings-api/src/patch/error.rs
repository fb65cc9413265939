//! Why a patch is refused.

use super::operations::OPERATIONS_MAX;

/// Why a patch is not read or not applied. The texts are Go's where clients are told them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It is no patch of its kind: 400.
    #[error("{0}")]
    Malformed(String),
    /// A JSON patch has more operations than are accepted: 413.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// A Content-Type that is no patch's, or an apply's: 415.
    #[error("no JSON, merge or strategic merge patch")]
    NoPatch,
    /// It is well-formed but does not fit this object: 422. Why is not told, as upstream.
    #[error("the patch does not fit the object")]
    Unprocessable,
    /// It fits no object at all, where upstream has no better answer: 500.
    #[error("{0}")]
    Unexpected(String),
}
