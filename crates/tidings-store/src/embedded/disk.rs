//! Every change and every sync of the store's own files, in one place, so that tests can have any
//! of them fail, or undone by a power cut. (The files of the index's trees are lsm-tree's, which
//! syncs them itself.)
//!
//! What is written is on the disk once the file is synced, and a name that was made, changed or
//! removed once its folder is. Before that any part of it may be lost, in any order.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(test)]
use super::{faults, power};

/// What is about to be done.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at it"))]
pub(crate) enum Change<'a> {
    MakeFolder(&'a Path),
    Create(&'a Path),
    Write {
        path: &'a Path,
        file: &'a File,
        bytes: &'a [u8],
        at: u64,
    },
    SetLen(&'a Path, u64),
    Sync(&'a Path),
    SyncFolder(&'a Path),
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
}

#[cfg(not(test))]
fn apply<T>(_: &Change<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    make()
}

#[cfg(test)]
fn apply<T>(change: &Change<'_>, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    faults::strike(change)?;
    power::apply(change, make)
}

/// Makes a folder if it is not there, and its name stay.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    match apply(&Change::MakeFolder(path), || fs::create_dir(path)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    // Also if it was there: who made it may have died before this.
    sync_folder_of(path)
}

/// A new file, or an old one emptied. Its name does not stay before its folder is synced.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    apply(&Change::Create(path), || options.open(path))
}

pub(crate) fn write_at(path: &Path, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let change = Change::Write {
        path,
        file,
        bytes,
        at,
    };
    apply(&change, || file.write_all_at(bytes, at))
}

/// Takes off what lies behind an offset, so that it stays away.
pub(crate) fn cut(path: &Path, file: &File, len: u64) -> io::Result<()> {
    apply(&Change::SetLen(path, len), || file.set_len(len))?;
    sync_all(path, file)
}

/// Has all there is of a file stay, and what was taken off its end stay away: `fdatasync` need not
/// see to that.
pub(crate) fn sync_all(path: &Path, file: &File) -> io::Result<()> {
    apply(&Change::Sync(path), || file.sync_all())
}

/// Has what was written to a file stay.
pub(crate) fn sync(path: &Path, file: &File) -> io::Result<()> {
    apply(&Change::Sync(path), || file.sync_data())
}

/// Has the names in a folder stay, and those that were removed stay away.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    apply(&Change::SyncFolder(path), || File::open(path)?.sync_all())
}

/// [Syncs](sync_folder) the folder that a path is in.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match apply(&Change::Remove(path), || fs::remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Puts a file in the place of another in the same folder, which must be synced for that to stay.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    apply(&Change::Rename(from, to), || fs::rename(from, to))
}

/// A file that may be lost.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_at(path, &create(path)?, bytes, 0)
}

/// Puts a file that may be lost in the place of another: when the process dies, there is the old
/// one or the new one. After a power cut there may be neither.
pub(crate) fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write(&new, bytes)?;
    rename(&new, path)
}

/// Puts a file in the place of another as a whole: whatever happens there is the old one or the new
/// one, and the new one when this returns.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let file = create(&new)?;
    write_at(&new, &file, bytes, 0)?;
    sync(&new, &file)?;
    rename(&new, path)?;
    sync_folder_of(path)
}
