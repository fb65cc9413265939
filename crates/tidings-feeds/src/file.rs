//! The receivers `file` and `stdout`.
//!
//! Invariants: the lines of a request are synced before it counts as delivered. A line that was cut
//! by a crash or a full disk is removed before others follow it. No other file is continued than
//! one that is empty, or whose last complete line is a feed's.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::lines;

/// Maximum bytes of a line at a file's end that is recognized as a feed's.
const LINE_LEN_MAX: u64 = 8 << 20;

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
    /// Whether the file's end was checked.
    is_checked: bool,
}

impl LineFile {
    pub(crate) fn new(options: FileOptions) -> Self {
        Self {
            options,
            is_checked: false,
        }
    }

    /// Appends complete lines, and syncs them.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let path = &self.options.path;
        let shown = path.display();
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let why = format!("{shown} is no regular file: the receiver stdout prints lines");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let (mut file, is_new) = open(path)?;
        if !self.is_checked {
            if !check_end(&mut file)? {
                let why = format!(
                    "the last line of {shown} is not a feed's: a feed continues only its own file"
                );
                return Err(io::Error::new(ErrorKind::InvalidInput, why));
            }
            cut_torn(&mut file)?;
            self.is_checked = true;
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
            self.is_checked = false;
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

/// Reads the end of a file. Returns whether the file is empty, or its last complete line is a
/// feed's.
fn check_end(file: &mut File) -> io::Result<bool> {
    let len = file.metadata()?.len();
    let from = len.saturating_sub(LINE_LEN_MAX);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut end)?;
    let Some(at) = end.iter().rposition(|byte| *byte == b'\n') else {
        return Ok(from == 0 && lines::is_begun(&end));
    };
    let begin = end[..at].iter().rposition(|byte| *byte == b'\n');
    Ok(lines::is_line(&end[begin.map_or(0, |begin| begin + 1)..at]))
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
    use tidings_store::UnixMillis;

    use super::*;
    use crate::record::{Record, Source};

    fn line(text: &str) -> Vec<u8> {
        let source = Source {
            cluster: "prod".to_owned(),
            uid: String::new(),
        };
        let mut line = Vec::new();
        let record = Record::test(UnixMillis(1), text.to_owned());
        lines::write(&source, &record, &mut line);
        line
    }

    #[test]
    fn a_torn_line_is_cut_and_full_files_are_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let torn = [&line("1")[..], b"{\"kind"].concat();
        std::fs::write(&path, &torn).unwrap();
        let options = FileOptions {
            path: path.clone(),
            rotate: 3 * torn.len() as u64 - 20,
            keep: 2,
        };
        let mut file = LineFile::new(options);
        for lines in [&["2"][..], &["3"], &["4", "5"], &["6", "7"], &["8"]] {
            let lines: Vec<_> = lines.iter().flat_map(|it| line(it)).collect();
            file.append(&lines).unwrap();
        }
        let read = |path: PathBuf| {
            let lines = std::fs::read_to_string(path).ok()?;
            let lines = lines.lines().map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["message"].as_str().unwrap().to_owned()
            });
            Some(lines.collect::<String>())
        };
        let found = [path.clone(), numbered(&path, 1), numbered(&path, 2)].map(read);
        assert_eq!(found, ["8", "67", "45"].map(|it| Some(it.to_owned())));
        assert_eq!(
            read(numbered(&path, 3)),
            None,
            "1 to 3 were in the oldest file"
        );
    }

    #[test]
    fn only_a_file_of_a_feed_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let options = FileOptions {
            path: path.clone(),
            rotate: 1 << 20,
            keep: 2,
        };
        let version = &br#"{"kind":"Version","namespace":"shop","#[..];
        let foreign = |text: &str| text.as_bytes().to_vec();
        for (before, is_ours) in [
            (Vec::new(), true),
            (line("1"), true),
            ([&line("1")[..], b"torn"].concat(), true),
            (version.to_vec(), true),
            (version[..9].to_vec(), true),
            (foreign("{\"a\":1}"), false),
            (foreign("{\"kind\":\"List\",\"items\":[]}"), false),
            (foreign("notes\n"), false),
            (foreign("{\"kind\":\"Version\"}\n"), false),
            ([&line("1")[..], b"notes\n"].concat(), false),
        ] {
            std::fs::write(&path, &before).unwrap();
            let appended = LineFile::new(options.clone()).append(&line("2"));
            assert_eq!(
                appended.is_ok(),
                is_ours,
                "{:?}",
                before.escape_ascii().to_string()
            );
            if !is_ours {
                assert_eq!(std::fs::read(&path).unwrap(), before);
            }
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let why = LineFile::new(options).append(&line("2")).unwrap_err();
        assert!(why.to_string().contains("regular file"), "{why}");
    }
}
