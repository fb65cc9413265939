//! Options of the audit log: where it is written, and how much of it is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The content of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// User, verb, event, time and result.
    #[default]
    Metadata,
    /// The same as `Metadata`, with the request's body.
    Request,
}

/// Options of the audit log. Their names are those of kube-apiserver's flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditOptions {
    /// Path of the file (`--audit-log-path`); `-` is standard output.
    pub path: PathBuf,
    /// The content of an entry. Default: `Metadata`.
    pub level: AuditLevel,
    /// Bytes at which the file is rotated. Default: 100 MiB; 0 turns rotation off. In
    /// kube-apiserver this is `--audit-log-maxsize`, in MiB.
    pub bytes_max: u64,
    /// Maximum rotated files that are kept (`--audit-log-maxbackup`). Default: 10; 0 keeps all.
    pub backups_max: usize,
    /// Maximum bytes of an entry with the request's body, and of the body. Default: 100 KiB. An
    /// entry beyond either is written without the body.
    pub event_bytes_max: usize,
    /// Bytes at which the file of requests without a known user is rotated. Default: 10 MiB.
    ///
    /// Such requests are refused or anonymous. One old file is kept. The file is beside the log,
    /// and its name ends with `-unauthenticated`. On standard output these requests are among the
    /// others. With 0 they are counted, but not written.
    pub unauthenticated_bytes_max: u64,
    /// Maximum bytes of queued lines. Default: 16 MiB; the minimum is 128 KiB. Half of them are
    /// reserved for lines without a body. Requests without a known user, and refused requests, have
    /// a quarter as much each in addition.
    pub queue_bytes_max: usize,
    /// Maximum time that an answer waits while the queue has no room for its line. Default: 5 s.
    /// Then the line is dropped and counted. So are further lines, until the writer has written
    /// one.
    pub wait_max: Duration,
}

impl AuditOptions {
    /// The default options, with this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            level: AuditLevel::default(),
            bytes_max: 100 << 20,
            backups_max: 10,
            event_bytes_max: 100 << 10,
            unauthenticated_bytes_max: 10 << 20,
            queue_bytes_max: 16 << 20,
            wait_max: Duration::from_secs(5),
        }
    }

    pub(super) fn is_standard_output(&self) -> bool {
        self.path == Path::new("-")
    }

    /// The options of the file for requests without a known user, if these are written.
    pub(super) fn unauthenticated(&self) -> Option<Self> {
        if self.unauthenticated_bytes_max == 0 {
            return None;
        }
        let mut options = self.clone();
        if !self.is_standard_output() {
            let mut name = OsString::from(self.path.file_stem().unwrap_or_default());
            name.push("-unauthenticated");
            if let Some(extension) = self.path.extension() {
                name.push(".");
                name.push(extension);
            }
            options.path.set_file_name(name);
        }
        options.bytes_max = self.unauthenticated_bytes_max;
        options.backups_max = 1;
        Some(options)
    }
}
