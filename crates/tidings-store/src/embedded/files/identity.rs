//! The identity of the store: the file `IDENTITY`.
//!
//! It is created once, and copied with the folder. It is either complete or missing.

use std::fs;
use std::io;
use std::path::Path;

use super::disk;

const FILE: &str = "IDENTITY";

/// Reads the identity of the store in a folder; stores `new` as the identity if there is none.
pub(in crate::embedded) fn of(folder: &Path, new: &str) -> io::Result<String> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => return Ok(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    disk::replace(&path, format!("{new}\n").as_bytes())?;
    Ok(new.to_owned())
}
