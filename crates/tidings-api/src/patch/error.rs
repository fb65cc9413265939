//! The error of a refused patch.

use super::operations::OPERATIONS_MAX;

/// The reason why a patch cannot be read or applied. Texts that clients see are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch cannot be read: 400.
    #[error("{0}")]
    Malformed(String),
    /// The JSON patch has too many operations: 413. Their number.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// The Content-Type is not a patch type of this module: 415.
    #[error("no JSON, merge or strategic merge patch")]
    NoPatch,
    /// The patch is well-formed but does not fit this object: 422, as upstream without a reason.
    #[error("the patch does not fit the object")]
    Unprocessable,
    /// The patch fits no object, which upstream does not expect: 500.
    #[error("{0}")]
    Unexpected(String),
}
