//! Why the store of a cluster could not be read or written.

use tidings_store::{ReadError, WriteError};

/// Why something was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
