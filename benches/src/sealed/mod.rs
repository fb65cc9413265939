//! Measures readers of an archive on object storage: `tidings serve --archive`, over an S3 server
//! whose answers are delayed as those of a cloud are.
//!
//! - `fill`: makes an archive of clusters over days from invented events.
//! - `ask`: asks questions of a reader that was just started, and repeats them.
//! - `real`: makes an archive of real events, and measures its size.

mod ask;
mod fill;
mod real;

pub use ask::{Asked, ask};
pub use fill::fill;
pub use real::real;

/// The size of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Number of clusters.
    pub clusters: u64,
    /// Days over which their events happened.
    pub days: i64,
    /// Number of events of all clusters.
    pub events: u64,
}

/// The time at which the events end, in milliseconds since 1970 (2026-01-01), so that every run has
/// the same.
const END: i64 = 1_767_225_600_000;

impl Extent {
    /// The number of events of each cluster.
    fn of_each(self) -> u64 {
        self.events / self.clusters.max(1)
    }
}

/// The name of the cluster with this number.
fn cluster(number: u64) -> String {
    format!("cluster-{number:02}")
}
