//! The benchmarks themselves, and what their programs share: measuring, and figures as lines of
//! JSON.
//!
//! Separate programs measure time and allocations: all threads share the counting allocator, and it
//! would slow down what is timed.

mod load;
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

/// Why a measurement failed, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

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
        Self::of("tidings", name).version(env!("CARGO_PKG_VERSION"))
    }

    /// Begins a figure of a peer.
    pub fn of(peer: &str, name: &str) -> Self {
        let fields = [("peer", peer), ("name", name)];
        Self(
            fields
                .map(|(field, text)| (field.to_owned(), text.into()))
                .into_iter()
                .collect(),
        )
    }

    /// Says how the figure was measured, with our version.
    #[must_use]
    pub fn by(self, way: &str) -> Self {
        self.version(&format!("{}, {way}", env!("CARGO_PKG_VERSION")))
    }

    /// Says which version the figure is of, and how it was measured.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.0.insert("version".to_owned(), version.into());
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn with(mut self, name: &str, number: f64) -> Self {
        self.0.insert(name.to_owned(), number.into());
        self
    }

    /// Adds a number if the system has it.
    #[must_use]
    pub fn with_bytes(self, name: &str, bytes: Option<u64>) -> Self {
        match bytes {
            Some(bytes) => self.with(name, bytes as f64),
            None => self,
        }
    }

    /// Adds percentiles in milliseconds, under names with this prefix: `p50` or `p99`, say, and
    /// `max`.
    #[must_use]
    pub fn times(mut self, prefix: &str, percentiles: &[&str], times: &mut Latencies) -> Self {
        for percentile in percentiles {
            let percent = percentile
                .strip_prefix('p')
                .and_then(|digits| digits.parse().ok());
            let found = times.percentile_ms(percent.unwrap_or(100.));
            self = self.with(&format!("{prefix}{percentile}_ms"), found);
        }
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

/// Durations in microseconds, so that millions of them take little memory.
#[derive(Debug, Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    /// Adds a duration.
    pub fn push(&mut self, latency: Duration) {
        self.0
            .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// Adds all durations of another value.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The number of durations.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of milliseconds that these percent of the durations did not exceed; 0 without
    /// durations.
    pub fn percentile_ms(&mut self, percent: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else {
            return 0.;
        };
        let place = (last as f64 * percent.clamp(0., 100.) / 100.).round() as usize;
        let (_, at, _) = self.0.select_nth_unstable(place.min(last));
        f64::from(*at) / 1e3
    }
}

/// Durations that a browser measured, in milliseconds.
impl FromIterator<f64> for Latencies {
    fn from_iter<T: IntoIterator<Item = f64>>(milliseconds: T) -> Self {
        Self(
            milliseconds
                .into_iter()
                .map(|each| (each * 1e3) as u32)
                .collect(),
        )
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
        let figure = Figure::new(name).with("ops", operations as f64);
        match region.map(|region| region.change()) {
            Some(change) => {
                let made = change.allocations + change.reallocations;
                figure.with("allocs_per_op", made as f64 / operations as f64)
            }
            None => figure.with("ns_per_op", elapsed.as_nanos() as f64 / operations as f64),
        }
    }
}

/// The time. The benchmarks read the clock only here.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// How long `work` takes.
pub fn time(work: impl FnOnce()) -> Duration {
    let start = now();
    work();
    start.elapsed()
}

/// The seconds that something takes, and its result.
pub(crate) async fn timed<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<(f64, T), Failure> {
    let before = now();
    let result = work.await?;
    Ok((before.elapsed().as_secs_f64(), result))
}

/// Repeats an operation, and measures the time of each.
pub(crate) async fn repeat<F: Future<Output = Result<(), Failure>>>(
    count: u64,
    mut operation: impl FnMut(u64) -> F,
) -> Result<Latencies, Failure> {
    let mut times = Latencies::default();
    for number in 0..count {
        let before = now();
        operation(number).await?;
        times.push(before.elapsed());
    }
    Ok(times)
}

/// Random numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// One of some values, of which there must be one.
    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Lower-case letters and digits.
    pub(crate) fn letters<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        std::array::from_fn(|_| self.one_of(b"bcdfghjklmnpqrstvwxz2456789"))
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile_ms(50.).to_bits(), 0f64.to_bits());
        for milliseconds in (0..=100).rev() {
            latencies.push(Duration::from_millis(milliseconds));
        }
        for (percent, expected) in [(0., 0.), (50., 50.), (99., 99.), (100., 100.)] {
            assert!((latencies.percentile_ms(percent) - expected).abs() < 1e-9);
        }
    }
}
