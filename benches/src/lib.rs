//! What the benchmark programs share: measuring, figures as lines of JSON, and the benchmarks
//! themselves.
//!
//! Time and allocations are measured by two programs: an allocator that counts is shared by all
//! threads and would slow down what is timed.

pub mod recording;
pub mod sealed;
pub mod serving;
pub mod showing;
pub mod storing;

use std::alloc::System;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use stats_alloc::{Region, StatsAlloc};

/// How a benchmark program ends: what it failed with is its last word.
#[expect(clippy::print_stderr, reason = "a program's last word")]
pub fn ended(program: &str, result: Result<(), impl Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An allocator that counts.
pub type Allocator = StatsAlloc<System>;

/// How to measure.
#[derive(Clone, Copy)]
pub struct Measure {
    /// How long to measure each figure.
    pub total: Duration,
    /// Counts allocations, if that is what is measured, in place of time.
    pub allocator: Option<&'static Allocator>,
}

/// One measured figure: a name and numbers, under the names the peers use.
#[derive(Clone, Debug)]
pub struct Figure(Map<String, Value>);

impl Figure {
    /// A figure of ours with no numbers yet.
    pub fn new(name: &str) -> Self {
        let mut figure = Self::of("tidings", name);
        figure
            .0
            .insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        figure
    }

    /// A figure of a peer with no numbers yet.
    pub fn of(peer: &str, name: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("peer".to_owned(), peer.into());
        fields.insert("name".to_owned(), name.into());
        Self(fields)
    }

    /// Says in which way it was measured, beside our version.
    #[must_use]
    pub fn by(self, way: &str) -> Self {
        let version = format!("{}, {way}", env!("CARGO_PKG_VERSION"));
        self.version(&version)
    }

    /// Says which version it is of, and in which way it was measured.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.0.insert("version".to_owned(), version.into());
        self
    }

    /// Adds a number as it is.
    #[must_use]
    pub fn with_exact(mut self, name: &str, number: f64) -> Self {
        self.0.insert(name.to_owned(), number.into());
        self
    }

    /// Adds a number, rounded to hundredths.
    #[must_use]
    pub fn with(mut self, name: &str, number: f64) -> Self {
        let rounded = (number * 100.).round() / 100.;
        self.0.insert(name.to_owned(), rounded.into());
        self
    }

    /// A number of the figure; 0 when it has none of that name.
    pub fn number(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.)
    }

    /// Prints the figure as one line of JSON.
    #[expect(clippy::print_stdout, reason = "the figures are the output")]
    pub fn print(&self) {
        println!("{}", Value::Object(self.0.clone()));
    }
}

impl Measure {
    /// Measures `batch`, which does `size` operations and returns how long they took, until the
    /// total is reached.
    ///
    /// The batch says itself what counts, so that preparing and waiting can be left out. A first
    /// batch warms up and is not counted.
    pub fn run(self, name: &str, size: u64, mut batch: impl FnMut() -> Duration) -> Figure {
        batch();
        let region = self.allocator.map(Region::new);
        let (mut elapsed, mut operations) = (Duration::ZERO, 0);
        while elapsed < self.total {
            elapsed += batch();
            operations += size;
        }
        let each = |number: usize| number as f64 / operations as f64;
        let figure = Figure::new(name).with("ops", operations as f64);
        match region.map(|region| region.change()) {
            Some(change) => figure
                .with(
                    "allocs_per_op",
                    each(change.allocations + change.reallocations),
                )
                .with("bytes_per_op", each(change.bytes_allocated)),
            None => figure.with("ns_per_op", elapsed.as_nanos() as f64 / operations as f64),
        }
    }
}

/// How long `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Memory a process has resident, in bytes, where the system tells (Linux).
pub fn resident_bytes(process: u32) -> Option<u64> {
    status_bytes(&process.to_string(), "VmRSS:")
}

/// The most memory this process has had resident, in bytes, where the system tells (Linux).
pub fn peak_resident_bytes() -> Option<u64> {
    status_bytes("self", "VmHWM:")
}

/// How long the processor has worked for this process, in seconds, to hundredths, where the system
/// tells (Linux).
pub fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, which may have anything in it, ends with the last parenthesis; user and system time
    // are the 14th and 15th of all fields.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    Some(ticks / 100.)
}

fn status_bytes(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}
