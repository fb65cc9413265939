//! The error of opening an embedded store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Fault;

/// The reason why an embedded store could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or this one, has the store open.
    #[error("the store in {path} is in use by another process")]
    InUse {
        /// Path of the store's folder.
        path: PathBuf,
    },
    /// The folder has files that do not belong to a store.
    #[error(
        "{path} is not empty and not a store (it contains {found:?}); choose a new or empty folder"
    )]
    NotAStore {
        /// Path of the folder.
        path: PathBuf,
        /// Name of one of these files.
        found: String,
    },
    /// A newer version of this program wrote the store.
    #[error(
        "the store in {path} has format {found}, this program knows formats up to {known}; use a newer one"
    )]
    NewerFormat {
        /// Path of the store's folder.
        path: PathBuf,
        /// The store's format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// An older version of this program, from before the first release, wrote the store.
    #[error(
        "the store in {path} has format {found}, which this program no longer reads; choose a new folder"
    )]
    OlderFormat {
        /// Path of the store's folder.
        path: PathBuf,
        /// The store's format.
        found: u32,
    },
    /// The log is damaged before its end, or some of its files are gone. Opening would lose
    /// acknowledged writes.
    #[error(
        "{file} is damaged at byte {offset} and more was written after that, so this is not a crash's doing; \
         restore the folder from a copy"
    )]
    Damaged {
        /// The damaged segment of the log, or the log's folder if a segment is missing.
        file: PathBuf,
        /// Offset in bytes at which the damage begins.
        offset: u64,
    },
    /// Log and checkpoint are gone, but other files show that the store was not empty. A new store
    /// in the folder would use revisions again.
    #[error(
        "the store in {path} was written to ({found} tells), but its log is empty and there is no checkpoint that can be read; \
         restore the folder from a copy, or choose a new one"
    )]
    LogLost {
        /// Path of the store's folder.
        path: PathBuf,
        /// Name of the file that shows it.
        found: String,
    },
    /// The operating system refused a file operation.
    #[error("failed to {what} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The operating system's error.
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
