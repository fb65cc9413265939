//! Files that a process was writing to a local folder when it ended.
//!
//! `object_store` writes `NAME#NUMBER` first, renames it once it is whole, and does not list the
//! numbered names.
//!
//! Invariant: names that tidings gives have no `#`.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::task::spawn_blocking;

/// Says why a local file could not be inspected or deleted.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct LocalError {
    path: PathBuf,
    source: Error,
}

impl LocalError {
    pub(crate) fn at(path: &Path, source: Error) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}

/// A file that was not finished.
pub(crate) struct Unfinished {
    path: PathBuf,
    pub(crate) modified: Timestamp,
}

/// Finds the unfinished files of a folder; none if it does not exist.
pub(crate) async fn find(folder: PathBuf) -> Result<Vec<Unfinished>, LocalError> {
    let found = spawn_blocking(move || {
        let failed = |source| LocalError {
            path: folder.clone(),
            source,
        };
        match found_in(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            found => found.map_err(failed),
        }
    });
    // The closure does not panic, and the task is not aborted.
    found.await.unwrap_or_else(|_| Ok(Vec::new()))
}

fn found_in(folder: &Path) -> Result<Vec<Unfinished>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().contains('#') {
            continue;
        }
        // If this fails, the file was finished meanwhile.
        let Ok(modified) = entry.metadata().and_then(|about| about.modified()) else {
            continue;
        };
        found.push(Unfinished {
            path: entry.path(),
            modified: Timestamp::try_from(modified).unwrap_or_default(),
        });
    }
    Ok(found)
}

pub(crate) async fn delete(found: Unfinished) -> Result<(), LocalError> {
    let deleted = spawn_blocking(move || {
        let path = found.path;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done.map_err(|source| LocalError { path, source }),
        }
    });
    deleted.await.unwrap_or(Ok(()))
}
