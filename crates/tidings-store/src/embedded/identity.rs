//! The identity of the store: the file `IDENTITY`, created once and copied with the folder. It is
//! complete or missing.

use std::fs;
use std::io;
use std::path::Path;

use super::disk;

const FILE: &str = "IDENTITY";

/// The identity of the store in a folder, which becomes `new` if there is none yet.
pub(crate) fn of(folder: &Path, new: &str) -> io::Result<String> {
    let path = folder.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => return Ok(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    disk::replace(&path, format!("{new}\n").as_bytes())?;
    Ok(new.to_owned())
}
