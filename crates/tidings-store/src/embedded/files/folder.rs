//! The folder of the store: its owner, its format, and the lock for one process.
//!
//! ```text
//! FORMAT         "tidings-store 4"
//! lock           held while the store is open
//! CHECKPOINT     how far the index reaches
//! log/           all commits
//! index/         places in the log
//! IDENTITY       the identity of the store
//! dictionaries/  for compressing values
//! torn/          ends of segments that a crash had torn
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::disk;
use crate::embedded::error::OpenError;

/// Version of the format of log and index. A store with a greater version is refused.
pub(in crate::embedded) const FORMAT: u32 = 4;
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const FORMAT_NAME: &str = "tidings-store";
/// The oldest format whose log this program reads. The index differs, but can always be rebuilt.
const FIRST_READ: u32 = 2;
const LOCK_FILE: &str = "lock";
pub(in crate::embedded) const LOG: &str = "log";
pub(in crate::embedded) const INDEX: &str = "index";

/// A locked folder of the right format.
pub(in crate::embedded) struct Folder {
    path: PathBuf,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being forked may have it open, too.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(folder = %self.path.display(), %error, "failed to unlock the store");
        }
    }
}

impl Folder {
    pub(in crate::embedded) fn open(path: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(|error| OpenError::io("create folder", path, error))?;
        // The format is checked before anything is written, so that another program's folder stays
        // untouched.
        let format = read_format(path)?;
        let lock = lock(path)?;
        // From here on the store depends on the content of the folder, even if the process that
        // wrote it was killed before a sync.
        let synced = match format {
            Some(_) => disk::sync_folder(path),
            None => disk::sync_folder_of(path),
        };
        synced.map_err(|error| OpenError::io("sync", path, error))?;
        if let Some(format) = format.filter(|format| *format < FORMAT) {
            let index = path.join(INDEX);
            tracing::info!(folder = %path.display(), format, "the store has an older format; its index is rebuilt");
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

    pub(in crate::embedded) fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads the folder's format; `None` if the folder is empty.
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
            if found < FIRST_READ {
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
                // A process that died while creating the store may have left these two.
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

/// Reads a number in the name of a file of the log or the index: 16 hexadecimal digits, as this
/// program writes it. Files with other names are not the store's. They are neither read nor
/// removed.
pub(in crate::embedded) fn number_in(name: &str) -> Option<u64> {
    let is_ours = |number: &u64| format!("{number:016x}") == name;
    u64::from_str_radix(name, 16).ok().filter(is_ours)
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
