//! Why versions are not sealed. Some causes end by themselves; of the others, each message says
//! what an operator can do.

use tidings_archive::JournalError;

use crate::file::read::FileError;
use crate::folder::FolderError;

/// Why nothing was sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The object storage failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The cluster's store could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file could not be made, or could not be read for a merge.
    #[error(transparent)]
    File(#[from] FileError),
    /// Making a file panicked, or no thread could be started for it; the log says which.
    #[error("a file could not be made")]
    NotMade,
    /// Sealing panicked; the log says how.
    #[error("sealing panicked, as the log says")]
    Panicked,
    /// Another data folder has begun or continued the archive, and seals into it.
    #[error(
        "the archive of {cluster:?} there is of another data folder (its store is {writer}): seal to another URL or under another name; if that folder is lost, this one can continue the archive (--objects-continue TIME)"
    )]
    Foreign {
        /// The cluster's name.
        cluster: String,
        /// The identity of the other store.
        writer: String,
    },
    /// The newest manifest names this store, but the store did not write it.
    #[error(
        "the data folder is older than what it sealed: manifest {number} of {cluster:?} names it, and is not the last one that it wrote. It was restored from a copy, or the storage was, or was changed: nothing is sealed, and everything keeps waiting; --objects-continue TIME seals it behind what is there"
    )]
    Older {
        /// The cluster's name.
        cluster: String,
        /// The manifest's number.
        number: u64,
    },
    /// The data folder has sealed versions, and the object storage has nothing of that.
    #[error(
        "the object storage has no archive of {cluster:?}, into which this data folder has sealed: it was emptied, or is another one. Nothing is sealed, and everything keeps waiting; --objects-continue TIME seals what the folder still has"
    )]
    Gone {
        /// The cluster's name.
        cluster: String,
    },
}

impl SealError {
    /// Returns whether only an operator can end this error.
    pub(crate) fn is_refused(&self) -> bool {
        let replaces = matches!(self, Self::Folder(FolderError::Replaces));
        replaces
            || matches!(
                self,
                Self::Foreign { .. } | Self::Older { .. } | Self::Gone { .. }
            )
    }
}
