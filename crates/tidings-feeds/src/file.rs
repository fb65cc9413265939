//! The receivers `file` and `stdout`.
//!
//! Invariants: the lines of a request are synced before it counts as delivered. A line that was cut
//! by a crash or a full disk is removed before others follow it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// A file of JSON Lines that is rotated by size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The file's path. Rotated files have `.1`, `.2` and so on behind it, the newest first.
    pub path: PathBuf,
    /// Bytes at which the file is rotated.
    pub rotate: u64,
    /// How many rotated files stay.
    pub keep: u32,
}

/// Writes lines to the file.
#[derive(Debug)]
pub(crate) struct LineFile {
    options: FileOptions,
    /// Whether the file's end was checked. The lock is held while lines are written.
    is_checked: Mutex<bool>,
}

impl LineFile {
    pub(crate) fn new(options: FileOptions) -> Self {
        Self {
            options,
            is_checked: Mutex::new(false),
        }
    }

    /// Appends complete lines, and syncs them.
    pub(crate) fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut is_checked = self.is_checked.lock();
        let path = &self.options.path;
        let (mut file, is_new) = open(path)?;
        if !*is_checked {
            cut_torn(&mut file)?;
            *is_checked = true;
        }
        let mut len = file.metadata()?.len();
        let is_full = len > 0 && len.saturating_add(lines.len() as u64) > self.options.rotate;
        let mut is_moved = is_new;
        if is_full {
            self.rotate()?;
            (file, len, is_moved) = (open(path)?.0, 0, true);
        }
        let written = file.write_all(lines).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // The same lines are written again.
            *is_checked = false;
            file.set_len(len)?;
            return Err(error);
        }
        if is_moved && let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        let path = &self.options.path;
        if self.options.keep == 0 {
            return std::fs::remove_file(path);
        }
        for number in (1..self.options.keep).rev() {
            match std::fs::rename(numbered(path, number), numbered(path, number + 1)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        std::fs::rename(path, numbered(path, 1))
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Opens a file for appending. Also returns whether it is new.
pub(crate) fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok((options.create(true).open(path)?, true))
        }
        opened => Ok((opened?, false)),
    }
}

/// Removes what follows the last line feed.
pub(crate) fn cut_torn(file: &mut File) -> io::Result<()> {
    const STEP: u64 = 64 << 10;
    let len = file.metadata()?.len();
    let mut end = len;
    while end > 0 {
        let from = end.saturating_sub(STEP);
        let mut bytes = vec![0; usize::try_from(end - from).unwrap_or_default()];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut bytes)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            end = from + at as u64 + 1;
            break;
        }
        end = from;
    }
    if end < len {
        file.set_len(end)?;
    }
    Ok(())
}

/// Makes new and renamed files of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // A FIFO or a device may be in a folder that cannot be read.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Writes lines to standard output.
pub(crate) fn print(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_cut_and_full_files_are_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, b"one\ntw").unwrap();
        let options = FileOptions {
            path: path.clone(),
            rotate: 12,
            keep: 2,
        };
        let file = LineFile::new(options.clone());
        for lines in ["two\n", "four\n", "fifth\nsixth\n", "7\n"] {
            file.append(lines.as_bytes()).unwrap();
        }
        let read = |number| std::fs::read_to_string(numbered(&path, number)).ok();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n");
        assert_eq!(read(1).as_deref(), Some("fifth\nsixth\n"));
        assert_eq!(read(2).as_deref(), Some("four\n"));
        assert_eq!(read(3), None, "one and two were in the oldest file");
        std::fs::write(&path, b"no line feed at all").unwrap();
        LineFile::new(options).append(b"8\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "8\n");
    }
}
