//! Many writers at the same time, and the duration of each of their writes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::events::{Events, NewEvent};
use super::failure::Failure;
use crate::Figure;

/// A store that is written to. A write returns when it is on disk.
pub(super) trait Target: Send + Sync + 'static {
    /// Stores an event under a key that does not exist. Returns its revision.
    fn create(&self, event: NewEvent) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Replaces an event that has this revision.
    fn update(
        &self,
        event: NewEvent,
        revision: u64,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// Durations of operations in microseconds.
#[derive(Default)]
pub(super) struct Times(Vec<u32>);

impl Times {
    /// Adds a duration.
    pub(super) fn add(&mut self, time: Duration) {
        self.0
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    /// The number of durations.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds all durations of another value.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// A quantile of the durations in milliseconds, with its part in thousandths; 0 without
    /// durations.
    pub(super) fn within(&mut self, thousandths: usize) -> f64 {
        self.0.sort_unstable();
        let at = self.0.len().saturating_sub(1) * thousandths / 1000;
        self.0
            .get(at)
            .map_or(0., |micros| f64::from(*micros) / 1000.)
    }

    /// Adds the median and the 99th percentile to a figure, under names with this prefix.
    #[must_use]
    pub(super) fn into_figure(mut self, figure: Figure, prefix: &str) -> Figure {
        figure
            .with_exact(&format!("{prefix}p50_ms"), self.within(500))
            .with_exact(&format!("{prefix}p99_ms"), self.within(990))
    }
}

/// The outcome of a burst of writes.
pub(super) struct Burst {
    /// Writes per second.
    pub(super) rate: f64,
    /// The duration of each write.
    pub(super) times: Times,
    /// Number of bytes of keys and values that were written.
    pub(super) bytes: u64,
}

/// The revisions of the first events by their numbers, which their updates need.
pub(super) type Revisions = Arc<[AtomicU64]>;

/// Makes room for this number of revisions.
pub(super) fn revisions(count: u64) -> Revisions {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The kind of writes in a burst.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writes {
    /// Creates every event once.
    Creates,
    /// Updates existing events as when they repeat.
    Updates,
}

/// Writes these events with a number of writers, each of which writes the next event when the last
/// one is answered.
///
/// # Errors
/// A write failed.
pub(super) async fn burst<T: Target>(
    target: &Arc<T>,
    events: &Arc<Events>,
    numbers: Range<u64>,
    writers: u64,
    writes: Writes,
    revisions: &Revisions,
) -> Result<Burst, Failure> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let end = numbers.end;
    let started = now();
    let writers: Vec<_> = (0..writers)
        .map(|_| {
            let (target, events) = (Arc::clone(target), Arc::clone(events));
            let (next, revisions) = (Arc::clone(&next), Arc::clone(revisions));
            tokio::spawn(async move {
                let (mut times, mut bytes) = (Times::default(), 0);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok::<_, Failure>((times, bytes));
                    }
                    let revision = revisions.get(number as usize);
                    let expected = revision.map_or(0, |it| it.load(Ordering::Relaxed));
                    let event = match writes {
                        Writes::Creates => events.first(number),
                        Writes::Updates => events.again(number),
                    };
                    bytes += event.bytes();
                    let before = now();
                    let written = match writes {
                        Writes::Creates => target.create(event).await?,
                        Writes::Updates => target.update(event, expected).await?,
                    };
                    times.add(before.elapsed());
                    if let Some(revision) = revision {
                        revision.store(written, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let (mut times, mut bytes) = (Times::default(), 0);
    for writer in writers {
        let (of_writer, bytes_of_writer) = writer.await??;
        times.extend(&of_writer);
        bytes += bytes_of_writer;
    }
    Ok(Burst {
        rate: times.count() as f64 / started.elapsed().as_secs_f64(),
        times,
        bytes,
    })
}

/// Writers at a steady rate, as in a cluster in normal operation, until they are stopped.
pub(super) struct Steady {
    stop: Arc<AtomicBool>,
    writers: Vec<tokio::task::JoinHandle<Result<Times, Failure>>>,
}

impl Steady {
    /// Starts writers that together create `per_second` events, with numbers from `first` on.
    pub(super) fn start<T: Target>(
        target: &Arc<T>,
        events: &Arc<Events>,
        first: u64,
        writers: u64,
        per_second: u64,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(first));
        let pause = Duration::from_secs_f64(writers as f64 / per_second as f64);
        let writer = |_| {
            let (target, events) = (Arc::clone(target), Arc::clone(events));
            let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
            tokio::spawn(async move {
                let mut times = Times::default();
                let mut due = tokio::time::interval(pause);
                while !stop.load(Ordering::Relaxed) {
                    // The duration counts from when the write was due, so that a stall counts for
                    // every write that it delayed.
                    let was_due = due.tick().await;
                    let event = events.first(next.fetch_add(1, Ordering::Relaxed));
                    target.create(event).await?;
                    times.add(was_due.elapsed());
                }
                Ok(times)
            })
        };
        Self {
            writers: (0..writers).map(writer).collect(),
            stop,
        }
    }

    /// Stops the writers. Returns the duration of each write.
    ///
    /// # Errors
    /// A write failed.
    pub(super) async fn stop(self) -> Result<Times, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = Times::default();
        for writer in self.writers {
            times.extend(&writer.await??);
        }
        Ok(times)
    }
}

/// Writes with one writer, one write at a time, to measure a single durable write.
///
/// # Errors
/// A write failed.
pub(super) async fn lone<T: Target>(
    target: &T,
    events: &Events,
    count: u64,
    figure: Figure,
) -> Result<Figure, Failure> {
    let mut times = Times::default();
    for number in 0..count {
        let event = events.first(number);
        let before = now();
        target.create(event).await?;
        times.add(before.elapsed());
    }
    Ok(times.into_figure(figure, ""))
}

/// Repeats an operation, and measures the time of each.
///
/// # Errors
/// An operation failed.
pub(super) async fn repeat<F: Future<Output = Result<(), Failure>>>(
    count: u64,
    mut operation: impl FnMut(u64) -> F,
) -> Result<Times, Failure> {
    let mut times = Times::default();
    for number in 0..count {
        let before = now();
        operation(number).await?;
        times.add(before.elapsed());
    }
    Ok(times)
}

/// The seconds that something takes, and its result.
///
/// # Errors
/// Those of the measured operation.
pub(super) async fn timed<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<(f64, T), Failure> {
    let before = now();
    let result = work.await?;
    Ok((millis(before.elapsed()) / 1000., result))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
