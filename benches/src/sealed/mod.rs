//! What reading an archive on object storage costs: `tidings serve --archive` over an S3 server
//! that is as far away as one in a cloud is.
//!
//! - `fill`: an archive of clusters over days, made up from the number of events.
//! - `ask`: questions to a reader that was just started, and the same again.
//! - `real`: the bytes of real events.

mod ask;
mod fill;
mod real;

pub use ask::{Asked, ask};
pub use fill::fill;
pub use real::real;

/// How large an archive is.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Number of clusters.
    pub clusters: u64,
    /// Days over which their events happened.
    pub days: i64,
    /// Number of events of all clusters.
    pub events: u64,
}

/// When the events end, so that all of them are the same each time: 2026-01-01.
const END: i64 = 1_767_225_600_000;

impl Extent {
    /// How many events a cluster has.
    fn of_each(self) -> u64 {
        self.events / self.clusters.max(1)
    }
}

/// The name of a cluster by its number.
fn cluster(number: u64) -> String {
    format!("cluster-{number:02}")
}
