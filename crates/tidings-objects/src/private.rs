//! Makes local folders and files that only their owner can open.
//!
//! A folder that exists already keeps its permissions; a file in it can be read by those who can
//! read the folder.

use std::fs::DirBuilder;
use std::io::Error;
use std::path::Path;

/// Makes a folder, and its missing parents.
pub(crate) fn create_folder(folder: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a file unreadable for those who cannot read its folder, where the file system can do that.
#[cfg(unix)]
pub(crate) fn close_file(folder: &Path, file: &Path) {
    use std::os::unix::fs::PermissionsExt;

    let close = || {
        let open_to = folder.metadata()?.permissions().mode() & 0o044;
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o600 | open_to))
    };
    if let Err(error) = close() {
        tracing::debug!(file = %file.display(), %error, "other users may be able to read the file");
    }
}

#[cfg(not(unix))]
pub(crate) fn close_file(_: &Path, _: &Path) {}
