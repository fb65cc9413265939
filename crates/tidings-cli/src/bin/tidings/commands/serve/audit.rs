//! The flags of the audit log, with kube-apiserver's names where it has them.

use std::path::PathBuf;

use tidings_server::{AuditLevel, AuditOptions};

/// Flags of the audit log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Audit log")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags have kube-apiserver's names"
)]
pub(crate) struct AuditFlags {
    /// File for the audit log: one JSON line of audit.k8s.io/v1 for each write request; - means
    /// standard output. Requests of unknown users (401, or anonymous) are logged to a second file,
    /// whose name ends with -unauthenticated
    ///
    /// A line has at most 100Ki; a longer one is written without the request's body. The second
    /// file has at most 10 MiB, and one rotated file. An answer waits up to 5s for a slow disk;
    /// then lines are dropped and counted.
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Content of a line: Metadata, or Request for the request's body, too
    #[arg(long, value_name = "LEVEL", default_value = "Metadata")]
    audit_level: Level,
    /// Size in MiB at which the file is rotated; 0 means never
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u32,
    /// Maximum number of rotated files; 0 means no limit
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    audit_log_maxbackup: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Level {
    Metadata,
    Request,
}

impl AuditFlags {
    /// The audit options, if the audit log is enabled.
    pub(crate) fn options(self) -> Option<AuditOptions> {
        let mut options = AuditOptions::new(self.audit_log_path?);
        options.level = match self.audit_level {
            Level::Metadata => AuditLevel::Metadata,
            Level::Request => AuditLevel::Request,
        };
        options.bytes_max = u64::from(self.audit_log_maxsize) << 20;
        options.backups_max = self.audit_log_maxbackup;
        Some(options)
    }
}
