//! The flags of the audit log; kube-apiserver's, where it has them.

use std::path::PathBuf;
use std::time::Duration;

use tidings_server::{AuditLevel, AuditOptions};

/// Who wrote what.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Audit log of writes")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags have kube-apiserver's names"
)]
pub(super) struct AuditFlags {
    /// Write down who wrote, changed or deleted which event, a JSON line of audit.k8s.io/v1 each; - is standard output.
    /// Lines that the disk is too slow for are dropped and counted; no request waits for them
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// How much is said: Metadata, or the request's body besides
    #[arg(long, value_name = "LEVEL", default_value = "Metadata")]
    audit_level: Level,
    /// A file that grew to so many MiB is put aside; 0 never does it
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u32,
    /// So many files that were put aside are kept; 0 keeps all of them
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    audit_log_maxbackup: usize,
    /// Files that were put aside so many days ago are removed; 0 removes none for its age
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Level {
    Metadata,
    Request,
}

impl AuditFlags {
    /// The log these flags mean, if one.
    pub(super) fn options(self) -> Option<AuditOptions> {
        let mut options = AuditOptions::new(self.audit_log_path?);
        options.level = match self.audit_level {
            Level::Metadata => AuditLevel::Metadata,
            Level::Request => AuditLevel::Request,
        };
        options.bytes_max = u64::from(self.audit_log_maxsize) << 20;
        options.backups_max = self.audit_log_maxbackup;
        let days = Some(u64::from(self.audit_log_maxage)).filter(|days| *days > 0);
        options.age_max = days.map(|days| Duration::from_secs(days * 24 * 3600));
        Some(options)
    }
}
