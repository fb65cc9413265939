//! Many writers at the same time, and the duration of each of their writes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::{Failure, Latencies, now};

/// Writes one event after the other.
pub(crate) trait Writer: Send + 'static {
    /// A prepared write.
    type Write: Send;

    /// Prepares the write with this number, for which no time counts.
    fn prepare(&self, number: u64) -> Self::Write;

    /// Writes, and returns when that is durable.
    fn write(&mut self, write: Self::Write) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What writers write together: each takes the next number when its last write is answered.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) numbers: Range<u64>,
    /// The time after which no write is begun.
    pub(crate) time: Duration,
    /// A steady rate instead of the highest. The duration of a write then counts from when it was
    /// due, so that a stall counts for every write that it delayed.
    pub(crate) per_second: Option<f64>,
}

impl Plan {
    /// As fast as possible.
    pub(crate) fn of(numbers: Range<u64>) -> Self {
        Self {
            numbers,
            time: Duration::MAX,
            per_second: None,
        }
    }

    /// At this rate until it is stopped, with numbers from `first` on.
    pub(crate) fn steady(first: u64, per_second: u64) -> Self {
        Self {
            per_second: Some(per_second as f64),
            ..Self::of(first..u64::MAX)
        }
    }
}

/// The outcome of a load.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// The time of each write.
    pub(crate) times: Latencies,
    /// Time from the first write to the last answer.
    pub(crate) elapsed: Duration,
}

impl Load {
    /// Writes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.times.count() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Writers at work.
pub(crate) struct Working {
    stop: Arc<AtomicBool>,
    started: std::time::Instant,
    writers: Vec<JoinHandle<Result<Latencies, Failure>>>,
}

impl Working {
    /// Starts all writers.
    pub(crate) fn start<W: Writer>(writers: Vec<W>, plan: &Plan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(plan.numbers.start));
        let count = writers.len() as f64;
        let pause = plan
            .per_second
            .map(|rate| Duration::from_secs_f64(count / rate));
        let (started, end, time) = (now(), plan.numbers.end, plan.time);
        let writer = |mut writer: W| {
            let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
            tokio::spawn(async move {
                let mut times = Latencies::default();
                let mut pace = pause.map(tokio::time::interval);
                while !stop.load(Ordering::Relaxed) && started.elapsed() < time {
                    let due = match &mut pace {
                        Some(pace) => Some(pace.tick().await.into_std()),
                        None => None,
                    };
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    let write = writer.prepare(number);
                    let begun = due.unwrap_or_else(now);
                    writer.write(write).await?;
                    times.push(begun.elapsed());
                }
                Ok(times)
            })
        };
        Self {
            writers: writers.into_iter().map(writer).collect(),
            started,
            stop,
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn end(self) -> Result<Load, Failure> {
        let mut times = Latencies::default();
        for writer in self.writers {
            times.append(writer.await??);
        }
        let elapsed = self.started.elapsed();
        Ok(Load { times, elapsed })
    }

    /// Stops the writers.
    pub(crate) async fn stop(self) -> Result<Load, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.end().await
    }
}

/// Writes until the plan is done.
pub(crate) async fn load<W: Writer>(writers: Vec<W>, plan: &Plan) -> Result<Load, Failure> {
    Working::start(writers, plan).end().await
}
