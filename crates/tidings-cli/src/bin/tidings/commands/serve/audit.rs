//! The flags of the audit log; kube-apiserver's, where it has them.

use std::path::PathBuf;
use std::time::Duration;

use tidings_server::{AuditLevel, AuditOptions};

use super::values;

/// Who wrote what.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Audit log of writes")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags have kube-apiserver's names"
)]
pub(super) struct AuditFlags {
    /// Write down who wrote, changed or deleted which event, a JSON line of audit.k8s.io/v1 each; -
    /// is standard output. Requests without a known user (401, or anonymous) go to a file beside it
    /// whose name ends with -unauthenticated
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// What a line has: Metadata, or also the request's body (Request)
    #[arg(long, value_name = "LEVEL", default_value = "Metadata")]
    audit_level: Level,
    /// Size in MiB at which the file is put aside; 0 never does it
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    audit_log_maxsize: u32,
    /// Number of files put aside that are kept; 0 keeps all of them
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    audit_log_maxbackup: usize,
    /// Age in days at which files put aside are removed; 0 removes none for its age
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
    /// Longest line, in bytes, that has the request's body; Ki, Mi, k and M may follow. A longer
    /// one is written without it, with the annotation audit.k8s.io/truncated
    #[arg(long, value_name = "BYTES", default_value = "100Ki", value_parser = values::bytes)]
    audit_log_truncate_max_event_size: usize,
    /// Size in MiB at which the file of requests without a known user is put aside; one such file
    /// is kept. 0 writes none of them and counts them. On standard output they stand among the
    /// others
    #[arg(long, value_name = "MIB", default_value_t = 10)]
    audit_log_unauthenticated_maxsize: u32,
    /// How long an answer waits while the disk is too slow for its line. After that lines are
    /// dropped and counted in apiserver_audit_error_total until the disk writes again; 0s waits for
    /// none
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration)]
    audit_log_max_wait: Duration,
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
        options.event_bytes_max = self.audit_log_truncate_max_event_size;
        options.unauthenticated_bytes_max = u64::from(self.audit_log_unauthenticated_maxsize) << 20;
        options.wait_max = self.audit_log_max_wait;
        let days = Some(u64::from(self.audit_log_maxage)).filter(|days| *days > 0);
        options.age_max = days.map(|days| Duration::from_secs(days * 24 * 3600));
        Some(options)
    }
}
