//! Measurements of a process and of a folder by the system (Linux).

use std::fs;
use std::path::Path;

/// Number of bytes that a process has written to disk (`write_bytes`), if the system has it.
pub(super) fn bytes_written(process: u32) -> Option<u64> {
    number(&format!("/proc/{process}/io"), "write_bytes:")
}

/// Maximum resident memory of a process in bytes, if the system has it.
pub(crate) fn peak_resident_bytes(process: u32) -> Option<u64> {
    Some(number(&format!("/proc/{process}/status"), "VmHWM:")? * 1024)
}

fn number(file: &str, label: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Disk space of a folder's files in bytes. Holes in files do not count.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // The file may have been removed since its name was read.
        let Ok(data) = entry.metadata() else { continue };
        bytes += if data.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            data.blocks() * 512
        };
    }
    Ok(bytes)
}
