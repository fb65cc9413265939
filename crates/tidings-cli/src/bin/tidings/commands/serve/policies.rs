//! The flags for admission and retention of events.

use std::path::{Path, PathBuf};

use tidings_server::{ApiOptions, EventRateLimitOptions, Namespace, Namespaces, RetentionRules};

/// Admission and retention of events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Admission and retention (files are read at start)")]
pub(crate) struct PolicyFlags {
    /// Namespaces that accept new events, separated by commas, in addition to default, kube-public
    /// and kube-system; others get 404. Without this flag every valid name is a namespace
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Limits on the rate of events: a Configuration of eventratelimit.admission.k8s.io/v1alpha1.
    /// Events beyond a limit get 429
    #[arg(long, value_name = "FILE")]
    event_rate_limit_config: Option<PathBuf>,
    /// File with retention rules in YAML. The first matching rule decides, otherwise --event-ttl.
    ///
    /// For example `rules: [{type: Warning, ttl: 14d}, {reason: [Pulled, 'Pull*'], ttl: 30m}]`.
    /// Conditions: namespace, kind, type, reason, reportingController, source.component,
    /// source.host and message, and not with conditions that must not all hold; `*` matches any
    /// characters. A rule applies from the next write of an event
    #[arg(long, value_name = "FILE")]
    retention_file: Option<PathBuf>,
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
}

impl PolicyFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) -> Result<(), PolicyError> {
        if !self.namespaces.is_empty() {
            options.namespaces = Namespaces::only([])?;
            for name in &self.namespaces {
                options.namespaces.insert(name, Namespace::Active)?;
            }
        }
        if let Some(path) = &self.event_rate_limit_config {
            options.event_rate_limit = read(
                "event-rate-limit-config",
                path,
                EventRateLimitOptions::parse,
            )?;
        }
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
