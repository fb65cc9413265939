//! The store's own dictionaries: files `dictionaries/<id>`.
//!
//! Each file has a checksum and a zstd dictionary.
//!
//! Invariant: a dictionary's file is synced before the first body is compressed with it, and never
//! changed or removed.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::Fault;
use crate::embedded::error::OpenError;
use crate::embedded::files::disk;

const FOLDER: &str = "dictionaries";

/// Loads all dictionaries, with their ids.
pub(in crate::embedded) fn load(store: &Path) -> Result<Vec<(u32, Vec<u8>)>, OpenError> {
    let folder = store.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(OpenError::io("read folder", &folder, error)),
    };
    // The process that stored the newest dictionary may have been killed before the name was
    // synced, and from now on it is used.
    disk::sync_folder(&folder).map_err(|error| OpenError::io("sync", &folder, error))?;
    let mut dictionaries = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| OpenError::io("read folder", &folder, error))?
            .path();
        // A killed process's incomplete file has a name that is no number.
        let Some(id) = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
        else {
            continue;
        };
        let bytes = fs::read(&path).map_err(|error| OpenError::io("read", &path, error))?;
        let whole = bytes
            .split_first_chunk::<8>()
            .filter(|(sum, rest)| **sum == xxh3_64(rest).to_le_bytes());
        let Some((_, dictionary)) = whole else {
            return Err(Fault::Corrupt(format!("{}", path.display())).into());
        };
        dictionaries.push((id, dictionary.to_vec()));
    }
    Ok(dictionaries)
}

/// Adds a dictionary durably.
pub(in crate::embedded) fn add(store: &Path, id: u32, dictionary: &[u8]) -> io::Result<()> {
    let folder = store.join(FOLDER);
    disk::make_folder(&folder)?;
    let checksum = xxh3_64(dictionary).to_le_bytes();
    disk::replace(
        &folder.join(id.to_string()),
        &[&checksum, dictionary].concat(),
    )
}
