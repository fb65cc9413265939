//! The flags for admission and retention of events.

use std::path::{Path, PathBuf};

use tidings_server::{
    ApiOptions, EventRateLimitOptions, EventSizeLimit, Namespace, Namespaces, Oversized,
    RetentionRules,
};

use tidings_cli::values::bytes;

/// Admission and retention of events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Admission and retention (files are read at start)")]
pub(crate) struct PolicyFlags {
    /// Namespaces that accept new events, separated by commas, in addition to default, kube-public
    /// and kube-system; others get 404. Without this flag and --namespaces-file every valid name is
    /// a namespace
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// File with namespaces and their phases, as printed by `kubectl get namespaces -o yaml`
    #[arg(long, value_name = "FILE")]
    namespaces_file: Option<PathBuf>,
    /// Limits on the rate of events: a Configuration of eventratelimit.admission.k8s.io/v1alpha1.
    /// Events beyond a limit get 429
    #[arg(long, value_name = "FILE")]
    event_rate_limit_config: Option<PathBuf>,
    /// Limits on the rate of events in an AdmissionConfiguration of apiserver.config.k8s.io/v1;
    /// only EventRateLimit is read from it
    #[arg(long, value_name = "FILE", conflicts_with = "event_rate_limit_config")]
    admission_control_config_file: Option<PathBuf>,
    /// Limit only events written through v1, as kube-apiserver does, not those written through
    /// events.k8s.io/v1
    #[arg(long)]
    event_rate_limit_core_only: bool,
    /// Count events beyond the limits, but accept them
    #[arg(long)]
    event_rate_limit_dry_run: bool,
    /// Maximum size of an event in bytes as stored, with an optional suffix Ki, Mi, k or M; values
    /// above 1536Ki have no further effect
    #[arg(long, value_name = "BYTES", default_value = "1536Ki", value_parser = bytes)]
    event_size_limit: usize,
    /// Treatment of larger events: refuse them with 413, or cut the message and say so in an
    /// annotation
    #[arg(long, value_name = "POLICY", default_value = "reject")]
    event_size_policy: SizePolicy,
    /// File with retention rules in YAML. The first matching rule decides, otherwise --event-ttl.
    ///
    /// For example `rules: [{type: Warning, ttl: 14d}, {reason: [Pulled, 'Pull*'], ttl: 30m}]`.
    /// Conditions: namespace, type, reason, reportingController, source.component and source.host;
    /// `*` matches any characters. A rule applies from the next write of an event
    #[arg(long, value_name = "FILE")]
    retention_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SizePolicy {
    Reject,
    TruncateMessage,
}

/// The error in a file that a flag names.
#[derive(Debug, thiserror::Error)]
#[error("--{flag}: {}: {message}", path.display())]
pub(crate) struct FileError {
    flag: &'static str,
    path: PathBuf,
    message: String,
}

/// Why the flags are invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("--namespaces: {0}")]
    Namespaces(#[from] tidings_server::NamespacesError),
    #[error("--{0} needs limits: give --event-rate-limit-config, too")]
    NoLimits(&'static str),
}

impl PolicyFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) -> Result<(), PolicyError> {
        if let Some(path) = &self.namespaces_file {
            options.namespaces = read("namespaces-file", path, Namespaces::parse)?;
        }
        if !self.namespaces.is_empty() {
            if self.namespaces_file.is_none() {
                options.namespaces = Namespaces::only([])?;
            }
            for name in &self.namespaces {
                options.namespaces.insert(name, Namespace::Active)?;
            }
        }
        let limits = &mut options.event_rate_limit;
        if let Some(path) = &self.event_rate_limit_config {
            *limits = read(
                "event-rate-limit-config",
                path,
                EventRateLimitOptions::parse,
            )?;
        } else if let Some(path) = &self.admission_control_config_file {
            let folder = path.parent().unwrap_or(Path::new(""));
            *limits = read("admission-control-config-file", path, |text| {
                EventRateLimitOptions::parse_admission(text, folder)
            })?;
        }
        for (flag, given) in [
            (
                "event-rate-limit-core-only",
                self.event_rate_limit_core_only,
            ),
            ("event-rate-limit-dry-run", self.event_rate_limit_dry_run),
        ] {
            if given && limits.limits.is_empty() {
                return Err(PolicyError::NoLimits(flag));
            }
        }
        limits.core_only = self.event_rate_limit_core_only;
        limits.dry_run = self.event_rate_limit_dry_run;
        let oversized = match self.event_size_policy {
            SizePolicy::Reject => Oversized::Reject,
            SizePolicy::TruncateMessage => Oversized::TruncateMessage,
        };
        options.event_size_limit = EventSizeLimit::new(self.event_size_limit, oversized);
        if let Some(path) = &self.retention_file {
            options.retention = read("retention-file", path, RetentionRules::parse)?;
        }
        Ok(())
    }
}

/// Reads and parses a file.
fn read<T, E: std::error::Error>(
    flag: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, FileError> {
    let wrong = |message| FileError {
        flag,
        path: path.to_owned(),
        message,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(|error| wrong(error.to_string()))
}
