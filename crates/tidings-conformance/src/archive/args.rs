//! The arguments of this suite.

use std::path::PathBuf;
use std::time::Duration;

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(super) enum SourceKind {
    Tidings,
    KubeApiserver,
}

/// Which programs are judged, how, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) tidings: PathBuf,
    /// The kind of source.
    #[arg(long, value_enum, default_value_t = SourceKind::Tidings)]
    pub(super) source: SourceKind,
    /// Time for which events are written, in seconds.
    #[arg(long, default_value_t = 1800)]
    pub(super) seconds: u64,
    /// Events written per second, to all sources together.
    #[arg(long, default_value_t = 200)]
    pub(super) per_second: u64,
    /// Number of kills of the archive.
    #[arg(long, default_value_t = 200)]
    pub(super) kills: u32,
    /// Number of kills of the source.
    #[arg(long, default_value_t = 20)]
    pub(super) source_kills: u32,
    /// Longest time for which connections are held, in seconds.
    #[arg(long, default_value_t = 70)]
    pub(super) hold: u64,
    /// A collector to run beside the archive, and to kill as often.
    #[arg(long, env = "OTEL_COLLECTOR", value_name = "PROGRAM")]
    pub(super) collector: Option<PathBuf>,
    /// One fault at a time instead: the state that the archive reports, and its gaps.
    #[arg(long)]
    pub(super) faults: bool,
    /// Without faults, but with this number of sources: memory, and the progress of each.
    #[arg(long, value_name = "SOURCES", conflicts_with = "faults")]
    pub(super) soak: Option<usize>,
    /// Without faults: memory and processor time, with these numbers of events at the source.
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', conflicts_with_all = ["faults", "soak"])]
    pub(super) footprint: Vec<u64>,
    /// The kube-apiserver to follow.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    pub(super) kube_apiserver: Option<PathBuf>,
    /// The etcd of some of these faults, and of kube-apiserver.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    pub(super) etcd: Option<PathBuf>,
    /// Feeds to real receivers instead: each version must be at each receiver, or accounted for.
    #[arg(long, conflicts_with_all = ["faults", "soak", "footprint"])]
    pub(super) feeds: bool,
    /// VictoriaLogs, for feeds.
    #[arg(long, env = "VICTORIA_LOGS", value_name = "PROGRAM")]
    pub(super) victoria_logs: Option<PathBuf>,
    /// A Python with chDB, for feeds.
    #[arg(long, env = "ENGINES_PYTHON", value_name = "PROGRAM")]
    pub(super) python: Option<PathBuf>,
    /// With feeds: an OpenTelemetry collector follows the source, too.
    #[arg(long, requires = "feeds")]
    pub(super) beside: bool,
    /// Only faults with this in their name.
    #[arg(long, value_name = "TEXT", requires = "faults")]
    pub(super) only: Option<String>,
    /// The seed of random numbers, to repeat a run [default: a new one each time].
    #[arg(long)]
    pub(super) seed: Option<u64>,
}

impl Args {
    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
