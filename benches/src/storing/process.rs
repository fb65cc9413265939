//! What the system knows of a process and of a folder (Linux).

use std::fs;
use std::path::Path;

/// Bytes a process has had written to disk so far (`write_bytes`), where the system tells.
pub(super) fn bytes_written(process: u32) -> Option<u64> {
    number(&format!("/proc/{process}/io"), "write_bytes:")
}

/// The most memory a process has had resident, in bytes, where the system tells.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    Some(number(&format!("/proc/{process}/status"), "VmHWM:")? * 1024)
}

fn number(file: &str, label: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Bytes the files of a folder take on disk: blocks that are really there, not the lengths of files
/// with holes.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may go while it is looked at.
        let Ok(data) = entry.metadata() else { continue };
        bytes += if data.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            data.blocks() * 512
        };
    }
    Ok(bytes)
}
