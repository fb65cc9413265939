//! A disk without room: a file system in memory, which only root can mount.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system. It is unmounted when this is dropped.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of this size on a folder.
    pub(super) fn mount(folder: &Path, size: &str) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let size = format!("size={size}");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], folder)?;
        Ok(Self(folder.to_owned()))
    }

    /// Makes room.
    pub(super) fn grow(&self) -> io::Result<()> {
        mount(&["-o", "remount,size=64m"], &self.0)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nothing more can be done about it here.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], folder: &Path) -> io::Result<()> {
    let output = Command::new("mount").args(arguments).arg(folder).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}
