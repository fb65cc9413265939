//! The folder around the engine: whose it is, which format it has, that only one process has it.
//!
//! ```text
//! FORMAT         "tidings-store 3"
//! lock           held while the store is open
//! CHECKPOINT     how far the index reaches
//! log/           everything that was written
//! index/         where in the log it is
//! dictionaries/  what values are compressed with
//! torn/          what was cut off segments of the log that a crash had torn
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk;
use super::keys::FORMAT;
use super::tables::INDEX;
use crate::Fault;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const FORMAT_NAME: &str = "tidings-store";
/// The format that differs from today's in the index only, which can always be made anew.
const ANOTHER_INDEX: u32 = 2;
const LOCK_FILE: &str = "lock";

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
    /// The folder has files in it that are not a store's.
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
    /// The log is damaged before its end, so acknowledged writes would be lost by going on.
    #[error(
        "{file} is damaged at byte {offset} and more was written after that, so this is not a crash's doing; \
         restore the folder from a copy"
    )]
    Damaged {
        /// The segment of the log.
        file: PathBuf,
        /// Where the damage begins.
        offset: u64,
    },
    /// All of the log is gone, and the checkpoint, but other files tell that there was something in it. A new store would
    /// give revisions out again.
    #[error(
        "the store in {path} was written to ({found} tells), but its log is empty and there is no checkpoint that can be read; \
         restore the folder from a copy, or choose a new one"
    )]
    LogLost {
        /// The folder.
        path: PathBuf,
        /// What tells that something was written.
        found: String,
    },
    /// The disk refused.
    #[error("failed to {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// No thread could be started.
    #[error("failed to start a thread: {0}")]
    Thread(Arc<io::Error>),
    /// The index could not be used, not even when it was made anew.
    #[error("the store's index cannot be used: {0}")]
    Index(String),
    /// What is stored cannot be read.
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

/// A locked folder of the right format.
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file would do, were it not for a process being forked just now that has it open as well.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(folder = %self.path.display(), %error, "failed to unlock the store");
        }
    }
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(|error| OpenError::io("create folder", path, error))?;
        // Look before anything is written: a folder of somebody else's stays untouched.
        let format = read_format(path)?;
        let lock = lock(path)?;
        // What is found in it is built upon from here on, also if who wrote it was killed before it was synced.
        let synced = match format {
            Some(_) => disk::sync_folder(path),
            None => disk::sync_folder_of(path),
        };
        synced.map_err(|error| OpenError::io("sync", path, error))?;
        if format == Some(ANOTHER_INDEX) {
            let index = path.join(INDEX);
            tracing::info!(folder = %path.display(), "the store is of format 2; its index is made anew");
            match fs::remove_dir_all(&index) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OpenError::io("remove", &index, error));
                }
                _ => {}
            }
        }
        if format != Some(FORMAT) {
            write_format(path).map_err(|error| OpenError::io("write to", path, error))?;
        }
        Ok(Self {
            path: path.to_owned(),
            lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The folder's format, `None` if it is empty.
fn read_format(path: &Path) -> Result<Option<u32>, OpenError> {
    let not_a_store = |found: String| OpenError::NotAStore {
        path: path.to_owned(),
        found,
    };
    let marker = path.join(FORMAT_FILE);
    match fs::read_to_string(&marker) {
        Ok(text) => {
            let mut words = text.split_whitespace();
            let (Some(FORMAT_NAME), Some(Ok(found))) = (words.next(), words.next().map(str::parse))
            else {
                return Err(not_a_store(FORMAT_FILE.into()));
            };
            if found > FORMAT {
                return Err(OpenError::NewerFormat {
                    path: path.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
            if found < FORMAT && found != ANOTHER_INDEX {
                return Err(OpenError::OlderFormat {
                    path: path.to_owned(),
                    found,
                });
            }
            Ok(Some(found))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            for entry in
                fs::read_dir(path).map_err(|error| OpenError::io("read folder", path, error))?
            {
                let name = entry
                    .map_err(|error| OpenError::io("read folder", path, error))?
                    .file_name();
                // Those two may be left by a process that died while making the folder a store.
                if name != LOCK_FILE && name != FORMAT_NEW {
                    return Err(not_a_store(name.to_string_lossy().into_owned()));
                }
            }
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(not_a_store(FORMAT_FILE.into()))
        }
        Err(error) => Err(OpenError::io("read", &marker, error)),
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let file = path.join(LOCK_FILE);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file);
    let lock = lock.map_err(|error| OpenError::io("write to", &file, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(OpenError::io("lock", &file, error)),
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let text = format!("{FORMAT_NAME} {FORMAT}\n");
    disk::replace(&path.join(FORMAT_FILE), text.as_bytes())
}
