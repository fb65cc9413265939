//! Archives and digests. The same entries make the same bytes: no time, no owner of this machine.

use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::process::Command;

use ring::digest::{SHA256, digest};

use crate::command::Result;

/// Files by their paths, in order.
pub(super) type Files = std::collections::BTreeMap<String, Vec<u8>>;

/// A tar archive.
pub(super) struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    pub(super) fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    /// An archive of files below a folder; none of them is a program.
    pub(super) fn of(folder: &str, files: &Files) -> Result<Vec<u8>> {
        let mut archive = Self::new();
        for (path, bytes) in files {
            archive.file(&format!("{folder}{path}"), bytes, 0o644)?;
        }
        archive.finish()
    }

    /// Appends a folder, which belongs to the user and the group of this number.
    pub(super) fn folder(&mut self, path: &str, owner: u64) -> Result {
        self.append(tar::EntryType::Directory, path, &[], 0o755, owner)
    }

    pub(super) fn file(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result {
        self.append(tar::EntryType::Regular, path, bytes, mode, 0)
    }

    fn append(
        &mut self,
        kind: tar::EntryType,
        path: &str,
        bytes: &[u8],
        mode: u32,
        owner: u64,
    ) -> Result {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(0);
        header.set_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let appended = self.0.append_data(&mut header, path, bytes);
        appended.map_err(|error| format!("cannot pack {path}: {error}"))
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let bytes = self.0.into_inner();
        bytes.map_err(|error| format!("cannot pack: {error}"))
    }
}

/// Compresses bytes with the machine's gzip, which is faster than a debug build of ours.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| format!("could not run gzip: {error}");
    let mut input = tempfile::tempfile().map_err(failed)?;
    input
        .write_all(bytes)
        .and_then(|()| input.rewind())
        .map_err(failed)?;
    let mut command = Command::new("gzip");
    let output = command
        .args(["--no-name", "--stdout"])
        .stdin(input)
        .output();
    let output = output.map_err(failed)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("gzip failed: {}", output.status))
    }
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest(&SHA256, bytes).as_ref() {
        // A String takes everything.
        _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_entries_make_the_same_bytes() {
        let made = || {
            let mut archive = Archive::new();
            archive.folder("data/", 65532).unwrap();
            archive.file("usr/bin/a", b"program", 0o755).unwrap();
            gzip(&archive.finish().unwrap()).unwrap()
        };
        assert_eq!(made(), made());
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
