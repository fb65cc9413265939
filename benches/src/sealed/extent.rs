//! The size of an archive, and its clusters.

/// The size of an archive.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Extent {
    /// Number of clusters
    #[arg(long, global = true, default_value_t = 30)]
    pub(super) clusters: u64,
    /// Days over which their events happened
    #[arg(long, global = true, default_value_t = 90)]
    pub(super) days: i64,
    /// Number of events of all clusters
    #[arg(long, global = true, default_value_t = 3_000_000)]
    pub(super) events: u64,
}

/// The time at which the events end, in milliseconds since 1970 (2026-01-01), so that every run has
/// the same.
pub(super) const END: i64 = 1_767_225_600_000;

impl Extent {
    /// The number of events of each cluster.
    pub(super) fn of_each(self) -> u64 {
        self.events / self.clusters.max(1)
    }
}

/// The name of the cluster with this number.
pub(super) fn cluster(number: u64) -> String {
    format!("cluster-{number:02}")
}
