//! Why a store could not be opened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Fault;

/// Why a store could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process (or this one) has the store open.
    #[error("the store in {path} is in use by another process")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has files that do not belong to a store.
    #[error(
        "{path} is not empty and not a store (it contains {found:?}); choose a new or empty folder"
    )]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// A newer version of this program wrote the store.
    #[error(
        "the store in {path} has format {found}, this program knows formats up to {known}; use a newer one"
    )]
    NewerFormat {
        /// The folder.
        path: PathBuf,
        /// The store's format.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// An older version of this program, from before the first release, wrote the store.
    #[error(
        "the store in {path} has format {found}, which this program no longer reads; choose a new folder"
    )]
    OlderFormat {
        /// The folder.
        path: PathBuf,
        /// The store's format.
        found: u32,
    },
    /// The log is damaged before its end, or files of it are gone, so acknowledged writes would be
    /// lost.
    #[error(
        "{file} is damaged at byte {offset} and more was written after that, so this is not a crash's doing; \
         restore the folder from a copy"
    )]
    Damaged {
        /// The segment of the log, or the folder of the log that lacks one.
        file: PathBuf,
        /// Where the damage begins.
        offset: u64,
    },
    /// The whole log and the checkpoint are gone, but other files show that the store was not
    /// empty. A new store would use revisions again.
    #[error(
        "the store in {path} was written to ({found} tells), but its log is empty and there is no checkpoint that can be read; \
         restore the folder from a copy, or choose a new one"
    )]
    LogLost {
        /// The folder.
        path: PathBuf,
        /// The file that shows this.
        found: String,
    },
    /// The disk refused.
    #[error("failed to {what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// No thread could be started.
    #[error("failed to start a thread: {0}")]
    Thread(Arc<io::Error>),
    /// The index cannot be used, even after it was rebuilt.
    #[error("the store's index cannot be used: {0}")]
    Index(String),
    /// Stored data cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl OpenError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }
}
