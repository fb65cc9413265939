//! Where the audit log is written, and how much of it is kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much is said of each write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// Who did what to which event, when, and what came of it.
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
    /// How much is said of each write. Default: `Metadata`.
    pub level: AuditLevel,
    /// A file that grew to this many bytes is put aside (`--audit-log-maxsize`, there in MiB).
    /// Default: 100 MiB; 0 never does it.
    pub bytes_max: u64,
    /// Files that were put aside and are kept (`--audit-log-maxbackup`). Default: 10; 0 keeps all
    /// of them.
    pub backups_max: usize,
    /// Files that were put aside longer ago than this are removed, when the log is opened and
    /// whenever one is put aside (`--audit-log-maxage`, there in days). Default: none is, for its
    /// age.
    pub age_max: Option<Duration>,
    /// An entry that is longer, in bytes, is written without the request's body, and so is one
    /// whose body is longer (`--audit-log-truncate-max-event-size`). Default: 100 KiB.
    pub event_bytes_max: usize,
    /// Requests without a known user, which are refused or anonymous, are written to a file beside
    /// the log, whose name ends with `-unauthenticated`. It is put aside when it grew to this many
    /// bytes, and one such file is kept. On standard output they are among the others. Default: 10
    /// MiB; 0 writes none of them, and counts them.
    pub unauthenticated_bytes_max: u64,
    /// Bytes of lines that may wait to be written, half of them for lines without a body; requests
    /// without a known user, and requests that were refused, have a quarter as much each on top.
    /// Default: 16 MiB; less than 128 KiB are that.
    pub queue_bytes_max: usize,
    /// An answer is held back for this long while its line finds the queue full; then the line is
    /// dropped and counted, as are others until the writer gets ahead. Default: 5 s.
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
