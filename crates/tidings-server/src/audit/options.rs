//! Where the audit log is written, and how much of it is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The content of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// User, verb, event, time and result.
    #[default]
    Metadata,
    /// The same with the request's body.
    Request,
}

/// Where the audit log is written, and how much of it is kept. The names are those of
/// kube-apiserver's flags.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditOptions {
    /// The file (`--audit-log-path`); `-` is standard output.
    pub path: PathBuf,
    /// The content of an entry. Default: `Metadata`.
    pub level: AuditLevel,
    /// Bytes at which a file is rotated (`--audit-log-maxsize`, there in MiB). Default: 100 MiB;
    /// with 0 it never is.
    pub bytes_max: u64,
    /// Maximum rotated files that are kept (`--audit-log-maxbackup`). Default: 10; 0 keeps all of
    /// them.
    pub backups_max: usize,
    /// Maximum age of rotated files; older ones are removed when the log is opened and at each
    /// rotation (`--audit-log-maxage`, there in days). Default: no file is removed for its age.
    pub age_max: Option<Duration>,
    /// Maximum bytes of an entry with the request's body, and of the body; an entry beyond either
    /// is written without the body (`--audit-log-truncate-max-event-size`). Default: 100 KiB.
    pub event_bytes_max: usize,
    /// Bytes at which the file of requests without a known user, which are refused or anonymous, is
    /// rotated; one old file is kept. It is written beside the log, and its name ends with
    /// `-unauthenticated`. On standard output these requests are among the others. Default: 10 MiB;
    /// with 0 they are not written, but counted.
    pub unauthenticated_bytes_max: u64,
    /// Maximum bytes of lines that wait to be written, half of them for lines without a body;
    /// requests without a known user, and requests that were refused, have a quarter as much each
    /// in addition. Default: 16 MiB; the minimum is 128 KiB.
    pub queue_bytes_max: usize,
    /// Maximum time that an answer is held back while the queue has no room for its line; then the
    /// line is dropped and counted, as are others until the writer has written another. Default:
    /// five seconds.
    pub wait_max: Duration,
}

impl AuditOptions {
    /// The defaults, with this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            level: AuditLevel::default(),
            bytes_max: 100 << 20,
            backups_max: 10,
            age_max: None,
            event_bytes_max: 100 << 10,
            unauthenticated_bytes_max: 10 << 20,
            queue_bytes_max: 16 << 20,
            wait_max: Duration::from_secs(5),
        }
    }

    pub(super) fn is_standard_output(&self) -> bool {
        self.path == Path::new("-")
    }

    /// The file of requests without a known user, if they are written.
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
