//! The benchmarks themselves, and what their programs share: measuring, and figures as lines of
//! JSON.
//!
//! Separate programs measure time and allocations: all threads share the counting allocator, and it
//! would slow down what is timed.

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

/// Prints the error of a benchmark program, if there was one. Returns the exit code.
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

/// The type of the counting allocator.
pub type Allocator = StatsAlloc<System>;

/// How figures are measured.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Time for which each figure is measured.
    pub total: Duration,
    /// The allocator, if allocations are measured instead of time.
    pub allocator: Option<&'static Allocator>,
}

/// A measured figure: a name, and numbers under names that are the same for peers.
#[derive(Clone, Debug)]
pub struct Figure(Map<String, Value>);

impl Figure {
    /// Begins a figure of our own.
    pub fn new(name: &str) -> Self {
        let mut figure = Self::of("tidings", name);
        figure
            .0
            .insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        figure
    }

    /// Begins a figure of a peer.
    pub fn of(peer: &str, name: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("peer".to_owned(), peer.into());
        fields.insert("name".to_owned(), name.into());
        Self(fields)
    }

    /// Says how the figure was measured, with our version.
    #[must_use]
    pub fn by(self, way: &str) -> Self {
        let version = format!("{}, {way}", env!("CARGO_PKG_VERSION"));
        self.version(&version)
    }

    /// Says which version the figure is of, and how it was measured.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.0.insert("version".to_owned(), version.into());
        self
    }

    /// Adds a number without rounding it.
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

    /// A number of the figure; 0 if there is none of this name.
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
    /// Repeats `batch`, which does `size` operations and returns the time that they took, until the
    /// total time is reached.
    ///
    /// The batch itself decides what is timed, so that it can leave out preparation and waits. A
    /// first batch warms up, and is not counted.
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

/// Resident memory of a process in bytes, if the system has it (Linux).
pub fn resident_bytes(process: u32) -> Option<u64> {
    status_bytes(&process.to_string(), "VmRSS:")
}

/// Maximum resident memory of this process in bytes, if the system has it (Linux).
pub fn peak_resident_bytes() -> Option<u64> {
    status_bytes("self", "VmHWM:")
}

/// Processor time of this process in seconds, to hundredths, if the system has it (Linux).
pub fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, which may have any characters, ends with the last parenthesis; user and system time
    // are the 14th and 15th field.
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
