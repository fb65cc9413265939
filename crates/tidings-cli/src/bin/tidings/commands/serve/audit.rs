//! The flags of the audit log, with kube-apiserver's names where it has them.

use std::path::PathBuf;
use std::time::Duration;

use tidings_server::{AuditLevel, AuditOptions};

use tidings_cli::{times, values};

/// Flags of the audit log.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Audit log")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags have kube-apiserver's names"
)]
pub(crate) struct AuditFlags {
    /// File for the audit log: one JSON line of audit.k8s.io/v1 for each write request; - means
    /// standard output. Requests of unknown users (401, or anonymous) are logged to a second file,
    /// whose name ends with -unauthenticated
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
    /// Age in days at which rotated files are removed; 0 means no limit
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
    /// Maximum length in bytes of a line with a request body, with an optional suffix Ki, Mi, k or
    /// M. A longer line is written without the body and with the annotation audit.k8s.io/truncated
    #[arg(long, value_name = "BYTES", default_value = "100Ki", value_parser = values::bytes)]
    audit_log_truncate_max_event_size: usize,
    /// Size in MiB at which the file for unknown users is rotated; one rotated file is kept. 0
    /// means that these requests are only counted. With standard output their lines are among the
    /// others
    #[arg(long, value_name = "MIB", default_value_t = 10)]
    audit_log_unauthenticated_maxsize: u32,
    /// Maximum time that an answer waits for a slow disk to take its line. After it, lines are
    /// dropped and counted in apiserver_audit_error_total until the disk writes again; 0s means no
    /// wait
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = times::duration)]
    audit_log_max_wait: Duration,
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
        options.event_bytes_max = self.audit_log_truncate_max_event_size;
        options.unauthenticated_bytes_max = u64::from(self.audit_log_unauthenticated_maxsize) << 20;
        options.wait_max = self.audit_log_max_wait;
        let days = Some(u64::from(self.audit_log_maxage)).filter(|days| *days > 0);
        options.age_max = days.map(|days| Duration::from_secs(days * 24 * 3600));
        Some(options)
    }
}
