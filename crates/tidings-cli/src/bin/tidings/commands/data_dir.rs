//! Checks whether a data folder belongs to a server or an archive. Each writes a kubeconfig, tokens
//! and certificates into its folder; started on the other's folder, it would overwrite them.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// An archive's folder of clusters.
const CLUSTERS: &str = "clusters";
/// A server's folder of events.
const STORE: &str = "store";
/// The file that is locked while an archive uses the folder. The operating system releases the lock
/// however the archive ends.
const LOCK: &str = "lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataDirError {
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error("{} is the folder of an archive: it has clusters", .0.display())]
    OfAnArchive(PathBuf),
    #[error("{} is the folder of tidings serve: it has a store", .0.display())]
    OfAServer(PathBuf),
    #[error("there is no cluster of an archive in {}", .0.display())]
    Empty(PathBuf),
    #[error("{} is in use by another archive", .0.display())]
    InUse(PathBuf),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl DataDirError {
    /// Advice about the error.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::OfAnArchive(_) | Self::OfAServer(_) => {
                "a server and an archive each need a folder of their own; choose another one"
            }
            Self::InUse(_) => {
                "is another archive running on this folder? each needs its own --data-dir"
            }
            Self::Empty(_) => "name the --data-dir of an archive that followed clusters",
            Self::NotAFolder(_) | Self::File { .. } => {
                "choose a folder that this user may create and write to"
            }
        }
    }
}

/// Checks that a server may use a folder.
pub(super) fn check_for_server(path: &Path) -> Result<(), DataDirError> {
    check(path)?;
    if has_entries(&path.join(CLUSTERS)) {
        return Err(DataDirError::OfAnArchive(path.to_owned()));
    }
    Ok(())
}

/// Checks that a folder has clusters that an archive may serve without following.
pub(super) fn check_for_kept(path: &Path) -> Result<(), DataDirError> {
    check(path)?;
    if has_entries(&path.join(CLUSTERS)) {
        return Ok(());
    }
    Err(DataDirError::Empty(path.to_owned()))
}

/// Prepares a folder for an archive: creates it and the folder of clusters, private to their owner,
/// and locks it as long as the returned file is open.
pub(super) fn take_for_archive(path: &Path) -> Result<File, DataDirError> {
    check(path)?;
    if has_entries(&path.join(STORE)) {
        return Err(DataDirError::OfAServer(path.to_owned()));
    }
    let clusters = path.join(CLUSTERS);
    create_private(&clusters).map_err(file(&clusters))?;
    let name = path.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&name)
        .map_err(file(&name))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(DataDirError::File { path: name, source }),
    }
}

fn check(path: &Path) -> Result<(), DataDirError> {
    if path.exists() && !path.is_dir() {
        return Err(DataDirError::NotAFolder(path.to_owned()));
    }
    Ok(())
}

/// Whether a folder exists and is not empty. A failed start leaves an empty one.
fn has_entries(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// Creates a folder and its parents, private to their owner. An existing folder is left unchanged.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Turns a system error into one about this file or folder.
fn file(path: &Path) -> impl FnOnce(io::Error) -> DataDirError + use<> {
    let path = path.to_owned();
    |source| DataDirError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_and_an_archive_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("server/store/log")).unwrap();
        std::fs::create_dir_all(path("archive/clusters/prod")).unwrap();
        // Folders left by failed starts.
        std::fs::create_dir_all(path("failed/clusters")).unwrap();
        std::fs::create_dir_all(path("failed/store")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        for (name, is_a_servers, is_an_archives) in [
            ("new", true, true),
            ("failed", true, true),
            ("server", true, false),
            ("archive", false, true),
            ("file", false, false),
        ] {
            let path = path(name);
            assert_eq!(check_for_server(&path).is_ok(), is_a_servers, "{name}");
            assert_eq!(take_for_archive(&path).is_ok(), is_an_archives, "{name}");
        }
        for name in ["server", "failed", "nowhere"] {
            let empty = check_for_kept(&path(name));
            assert!(matches!(empty, Err(DataDirError::Empty(_))), "{name}");
        }
        assert!(check_for_kept(&path("archive")).is_ok());
    }

    #[test]
    fn one_archive_at_a_time_uses_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let held = take_for_archive(folder.path()).unwrap();
        let second = take_for_archive(folder.path());
        assert!(matches!(second, Err(DataDirError::InUse(_))), "{second:?}");
        drop(held);
        assert!(take_for_archive(folder.path()).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_enter_an_archives_folder() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        take_for_archive(&path).unwrap();
        for path in [path.join(CLUSTERS), path] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
}
