//! A file that is rotated when it reaches its size. A bounded number of old files is kept.
//!
//! Old files are named as kube-apiserver's: `audit-2026-03-04T05-06-07.000.log` beside `audit.log`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::options::AuditOptions;
use crate::clock::Clock;

pub(super) struct RotatedFile {
    options: AuditOptions,
    clock: Arc<dyn Clock>,
    /// The open file; `None` for standard output, and after a failure to reopen it.
    file: Option<File>,
    len: u64,
    /// Whether the last write ended halfway, in this process or an earlier one. The next write then
    /// begins with a line break.
    torn: bool,
}

impl RotatedFile {
    pub(super) fn open(options: AuditOptions, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut opened = Self::unopened(options, clock);
        if !opened.options.is_standard_output() {
            opened.reopen()?;
        }
        opened.tidy()?;
        Ok(opened)
    }

    /// A log file that is opened when its first line is written.
    pub(super) fn unopened(options: AuditOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            options,
            clock,
            file: None,
            len: 0,
            torn: false,
        }
    }

    /// Removes surplus rotated files of earlier processes.
    pub(super) fn tidy(&self) -> io::Result<()> {
        if self.options.is_standard_output() {
            return Ok(());
        }
        self.remove_old(&self.backups()?);
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut how = OpenOptions::new();
        how.create(true).append(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            how.mode(0o600);
        }
        let file = how.open(&self.options.path)?;
        self.len = file.metadata()?.len();
        // Only a file with a length can be read back. A file that cannot be read counts as whole.
        self.torn = self.len > 0 && is_torn(&self.options.path).unwrap_or(false);
        self.file = Some(file);
        Ok(())
    }

    /// Writes a line, which must end with a line break.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.options.is_standard_output() {
            return io::stdout().lock().write_all(line);
        }
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let limit = self.options.bytes_max;
        if limit > 0 && self.len > 0 && self.len.saturating_add(bytes) > limit {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.reopen()?;
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = if self.torn {
            file.write_all(b"\n").and_then(|()| file.write_all(line))
        } else {
            file.write_all(line)
        };
        self.torn = written.is_err();
        self.len = self.len.saturating_add(bytes);
        written
    }

    /// Rotates the file and removes old ones. If it cannot be renamed, it continues to grow.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let mut backups = self.backups()?;
        let path = self.backup_path(backups.last());
        let renamed = std::fs::rename(&self.options.path, &path);
        self.reopen()?;
        if let Err(error) = renamed {
            tracing::error!(%error, "the audit log cannot be rotated, and continues to grow");
            // Try again when the file has grown by the same size.
            self.len = 0;
            return Ok(());
        }
        backups.push(path);
        self.remove_old(&backups);
        Ok(())
    }

    /// Removes the oldest rotated files, if there are too many. They are given in order.
    fn remove_old(&self, backups: &[PathBuf]) {
        let surplus = match self.options.backups_max {
            0 => 0,
            kept => backups.len().saturating_sub(kept),
        };
        for path in backups.iter().take(surplus) {
            if let Err(error) = std::fs::remove_file(path) {
                tracing::error!(%error, path = %path.display(), "an old audit log cannot be removed");
            }
        }
    }

    /// The time at which a file was rotated, read from its name.
    fn put_aside(&self, path: &Path) -> Option<Timestamp> {
        let (start, end) = self.name_parts();
        let name = path.file_name()?.to_string_lossy();
        parse_stamp(name.strip_prefix(&start)?.strip_suffix(&end)?)
    }

    /// The parts of a rotated file's name before and after its time.
    fn name_parts(&self) -> (String, String) {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let path = &self.options.path;
        let stem = text(path.file_stem()).unwrap_or_default();
        let extension = text(path.extension()).map(|extension| format!(".{extension}"));
        (format!("{stem}-"), extension.unwrap_or_default())
    }

    fn folder(&self) -> &Path {
        match self.options.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// A name that sorts after the newest file's, even if the clock stands still or was set back.
    fn backup_path(&self, newest: Option<&PathBuf>) -> PathBuf {
        let (start, end) = self.name_parts();
        let after_newest = newest
            .and_then(|path| self.put_aside(path))
            .and_then(|time| time.checked_add(SignedDuration::from_millis(1)).ok());
        let now = self.clock.now();
        let time = after_newest.map_or(now, |after| after.max(now));
        let stamp = format!("{time:.3}").replace(':', "-").replace('Z', "");
        self.folder().join(format!("{start}{stamp}{end}"))
    }

    /// The rotated files, in order.
    fn backups(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.folder())? {
            let path = entry?.path();
            // Other files of the folder are skipped.
            if self.put_aside(&path).is_some() {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Whether a file's last line has no end, because the disk was full or the machine went down.
fn is_torn(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// Reads the time in a rotated file's name, such as `2026-03-04T05-06-07.000`.
fn parse_stamp(stamp: &str) -> Option<Timestamp> {
    let (date, time) = stamp.split_once('T').filter(|_| stamp.len() == 23)?;
    format!("{date}T{}Z", time.replace('-', ":")).parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidings_store::UnixMillis;
    use tidings_store::clock::ManualClock;

    use super::*;

    #[test]
    fn grown_files_are_put_aside_and_old_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("audit-keep.log");
        std::fs::write(&other, "not ours").unwrap();
        let mut options = AuditOptions::new(folder.path().join("audit.log"));
        options.bytes_max = 10;
        options.backups_max = 2;
        // The clock stands still, but no file is overwritten.
        let clock = ManualClock::at(UnixMillis(1_772_600_767_000));
        let open =
            || RotatedFile::open(options.clone(), Arc::new(Arc::new(clock.clone()))).unwrap();
        let mut file = open();
        file.write(b"line1\n").unwrap();
        // An existing file is continued.
        drop(file);
        let mut file = open();
        for line in 2..=5 {
            file.write(format!("line{line}\n").as_bytes()).unwrap();
        }
        file.write(b"longer than the limit\n").unwrap();
        let mut files: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let text = std::fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        files.sort();
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        assert_eq!(
            files,
            [
                ("audit-2026-03-04T05-06-07.003.log", "line4\n"),
                ("audit-2026-03-04T05-06-07.004.log", "line5\n"),
                ("audit-keep.log", "not ours"),
                ("audit.log", "longer than the limit\n"),
            ]
        );
    }

    /// Without the line break, the first line of the new process would be lost, too.
    #[test]
    fn a_line_that_an_earlier_process_left_torn_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for (left, expected) in [
            ("", "line\n"),
            ("whole\n", "whole\nline\n"),
            ("whole\nto", "whole\nto\nline\n"),
        ] {
            std::fs::write(&path, left).unwrap();
            let clock = ManualClock::at(UnixMillis(0));
            let options = AuditOptions::new(&path);
            let mut file = RotatedFile::open(options, Arc::new(Arc::new(clock))).unwrap();
            file.write(b"line\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn a_file_that_cannot_be_put_aside_is_an_error_and_may_get_better() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mut options = AuditOptions::new(inner.join("audit.log"));
        options.bytes_max = 5;
        let clock = ManualClock::at(UnixMillis(0));
        let mut file = RotatedFile::open(options, Arc::new(Arc::new(clock))).unwrap();
        file.write(b"line1\n").unwrap();
        std::fs::remove_dir_all(&inner).unwrap();
        file.write(b"line2\n").unwrap_err();
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("audit.log"), "x").unwrap();
        file.write(b"line3\n").unwrap();
    }
}
