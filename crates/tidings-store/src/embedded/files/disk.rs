//! Every change and every sync of the store's own files.
//!
//! They are in one place so that tests can make any of them fail, or undo it by a power cut. (The
//! index's trees are files of lsm-tree, which syncs them itself.)
//!
//! Written bytes are durable once the file is synced. A created, changed or removed name is durable
//! once its folder is synced. Before that any part may be lost, in any order.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(test)]
use super::{faults, power};

/// A file operation that is about to be done.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at it"))]
pub(in crate::embedded) enum Change<'a> {
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

/// Creates a folder durably, unless it exists.
pub(in crate::embedded) fn make_folder(path: &Path) -> io::Result<()> {
    match apply(&Change::MakeFolder(path), || fs::create_dir(path)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    // Sync even if the folder existed: the process that created it may have died before syncing.
    sync_folder_of(path)
}

/// Creates or truncates a file. Its name is durable after its folder is synced.
pub(in crate::embedded) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    apply(&Change::Create(path), || options.open(path))
}

pub(in crate::embedded) fn write_at(
    path: &Path,
    file: &File,
    bytes: &[u8],
    at: u64,
) -> io::Result<()> {
    let change = Change::Write {
        path,
        file,
        bytes,
        at,
    };
    apply(&change, || file.write_all_at(bytes, at))
}

/// Truncates a file durably.
pub(in crate::embedded) fn cut(path: &Path, file: &File, len: u64) -> io::Result<()> {
    apply(&Change::SetLen(path, len), || file.set_len(len))?;
    sync_all(path, file)
}

/// Makes content and length of a file durable. This includes a truncation, which `fdatasync` need
/// not sync.
pub(in crate::embedded) fn sync_all(path: &Path, file: &File) -> io::Result<()> {
    apply(&Change::Sync(path), || file.sync_all())
}

/// Makes the written bytes of a file durable.
pub(in crate::embedded) fn sync(path: &Path, file: &File) -> io::Result<()> {
    apply(&Change::Sync(path), || file.sync_data())
}

/// Makes the names in a folder durable, including removals.
pub(in crate::embedded) fn sync_folder(path: &Path) -> io::Result<()> {
    apply(&Change::SyncFolder(path), || File::open(path)?.sync_all())
}

/// [Syncs](sync_folder) the folder that a path is in.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Removes a file, if it exists.
pub(in crate::embedded) fn remove(path: &Path) -> io::Result<()> {
    match apply(&Change::Remove(path), || fs::remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Renames a file over another in the same folder. The caller must sync the folder.
pub(in crate::embedded) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    apply(&Change::Rename(from, to), || fs::rename(from, to))
}

/// Whether the disk has room for new files of `len` bytes, and as much again for other writes. True
/// if the free space cannot be read.
pub(in crate::embedded) fn has_room(beside: &Path, len: u64) -> bool {
    let Some(folder) = beside.parent() else {
        return true;
    };
    #[cfg(test)]
    if faults::is_full(folder) {
        return false;
    }
    let Ok(disk) = rustix::fs::statvfs(folder) else {
        return true;
    };
    disk.f_bavail.saturating_mul(disk.f_frsize) >= len.saturating_mul(2)
}

/// Writes a file that may be lost, so without a sync.
pub(in crate::embedded) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_at(path, &create(path)?, bytes, 0)
}

/// Replaces a file that may be lost. After a kill of the process the old or the new file is there;
/// after a power cut there may be neither.
pub(super) fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write(&new, bytes)?;
    rename(&new, path)
}

/// Replaces a file atomically and durably. At any time the old or the new file is there; when this
/// returns, it is the new one.
pub(in crate::embedded) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let file = create(&new)?;
    write_at(&new, &file, bytes, 0)?;
    sync(&new, &file)?;
    rename(&new, path)?;
    sync_folder_of(path)
}
