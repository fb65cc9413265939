//! What the benchmarks share: measuring a closure, and printing a figure as one line of JSON.

use std::alloc::System;
use std::time::{Duration, Instant};

use stats_alloc::{Region, StatsAlloc};

/// The allocator every benchmark program installs, so that allocations can be counted.
pub type Allocator = StatsAlloc<System>;

/// One measured figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured; the peers use the same names.
    pub name: &'static str,
    /// Nanoseconds for one operation.
    pub ns_per_op: f64,
    /// Allocations for one operation, on all threads.
    pub allocs_per_op: f64,
    /// Bytes allocated for one operation, on all threads.
    pub bytes_per_op: f64,
    /// Operations that were measured.
    pub ops: u64,
}

impl Figure {
    /// Prints the figure as one line of JSON, in the peers' form.
    #[expect(clippy::print_stdout, reason = "the figures are the output")]
    pub fn print(&self) {
        println!(
            "{}",
            serde_json::json!({
                "peer": "tidings",
                "version": env!("CARGO_PKG_VERSION"),
                "name": self.name,
                "ns_per_op": (self.ns_per_op * 10.).round() / 10.,
                "allocs_per_op": (self.allocs_per_op * 100.).round() / 100.,
                "bytes_per_op": self.bytes_per_op.round(),
                "ops": self.ops,
            })
        );
    }
}

/// Measures `batch`, which does `size` operations and returns how long they took, until `total` is reached.
///
/// The batch says itself what counts, so that preparing and waiting can be left out. A first batch warms up and is not counted.
pub fn measure(
    name: &'static str,
    allocator: &'static Allocator,
    total: Duration,
    size: u64,
    mut batch: impl FnMut() -> Duration,
) -> Figure {
    batch();
    let region = Region::new(allocator);
    let (mut elapsed, mut ops) = (Duration::ZERO, 0);
    while elapsed < total {
        elapsed += batch();
        ops += size;
    }
    let change = region.change();
    Figure {
        name,
        ns_per_op: elapsed.as_nanos() as f64 / ops as f64,
        allocs_per_op: change.allocations as f64 / ops as f64,
        bytes_per_op: change.bytes_allocated as f64 / ops as f64,
        ops,
    }
}

/// How long `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The most memory this process has had resident, in bytes, where the system tells (Linux).
pub fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
