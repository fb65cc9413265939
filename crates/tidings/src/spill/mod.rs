//! The spill: keeps events on disk until their outcome is known, so that no event is lost when an
//! outage lasts longer than memory allows, or when the program dies.
//!
//! ```text
//!   queue ──▶ append ──┬─ room in memory ────▶ correlate, deliver ──▶ settled: marked as done
//!                      ├─ none, or others wait on disk ──▶ read back in order when there is room
//!                      └─ no room on disk either ──▶ held; nothing more is taken from the queue
//! ```
//!
//! Invariants: an event is appended before it is used. Events leave in the order in which they were
//! taken from the queue, wherever they wait. A file is removed when every event in it is done. An
//! event that the spill has no room for, or cannot write, is counted; it is delivered from memory,
//! unless the disk has room again before its turn.
//!
//! Events that an earlier process left in a folder that could not be opened at start, or in a file
//! that could not be read, follow later, out of order.
//!
//! A shared limit on the rate of events (EventRateLimit of type Server, User or Namespace) is
//! waited out like an outage. Events about single objects that have their own limit are given up
//! after a few tries, and removed. So are events that fail again and again while others are
//! written.
//!
//! Delivery is at least once: an event that was written to the API server, but not marked as done
//! when the program died, is written again at the next start. A create is recognised by its name; a
//! repeat is counted once more. Counts begin at one in each process: if the create of an event is
//! delivered again, its repeats are counted from there, and the stored count is lower until as many
//! have been seen again.

#[cfg(fuzzing)]
pub mod fuzzing;
mod kept;
mod log;
mod options;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidings_core::{Event, EventContext, Monotonic};

pub(crate) use self::kept::Kept;
use self::kept::in_memory;
use self::log::{Log, Taken};
pub use self::options::{SpillError, SpillOptions};
use crate::metrics::SpillMetrics;
use crate::sampling::is_sampled;

/// Maximum marks that are collected before they are written, unless the task is idle.
const MARKS_MAX: usize = 256;

/// Maximum events that are read back at a time.
const READ_EVENTS: usize = 1024;

/// Wait before a folder that could not be opened or read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The spill of one sink's task. Reads and writes files on tokio's threads for blocking work, one
/// step at a time.
pub(crate) struct Spill {
    options: SpillOptions,
    /// When to open the folder; `None` once it is open.
    open_at: Option<Monotonic>,
    open_failures: u64,
    /// `None` until the folder is open, during a step, and after a step was lost with its runtime.
    log: Option<Box<Log>>,
    /// Events found at opening, until [`Spill::take_recovered`].
    recovered: u64,
    /// Events found to be damaged or missing, until [`Spill::take_lost`].
    lost: u64,
    /// If reading failed: when to read again.
    read_again: Option<Monotonic>,
    /// Held events: there was no room for them on disk, and either none in memory or others before
    /// them on disk. Never more than are taken from the queue at once.
    held: VecDeque<Event>,
    /// Bytes on disk when there was no room for the held events.
    held_at: u64,
    done: Vec<u64>,
    /// Whether some events are on disk only.
    behind: bool,
    /// Contexts with a waiting caller, of events that are on disk only, by sequence number.
    awaited: BTreeMap<u64, Arc<dyn EventContext>>,
    /// Receives the number of events left on disk at the end.
    left: Arc<AtomicU64>,
    metrics: SpillMetrics,
}

impl Spill {
    /// Makes the spill of the sink of this name, and does not open its folder yet. Until that is
    /// open, events are in memory only, and counted.
    pub(crate) fn new(options: SpillOptions, sink: &Arc<str>) -> Self {
        Self {
            options,
            open_at: Some(Monotonic::from_nanos(i64::MIN)),
            open_failures: 0,
            log: None,
            recovered: 0,
            lost: 0,
            read_again: None,
            held: VecDeque::new(),
            held_at: 0,
            done: Vec::new(),
            behind: false,
            awaited: BTreeMap::new(),
            left: Arc::default(),
            metrics: SpillMetrics::new(sink),
        }
    }

    /// Sets the counter `left` that receives, at the end, the number of events on disk; `u64::MAX`
    /// if that is unknown.
    pub(crate) fn leaving(mut self, left: Arc<AtomicU64>) -> Self {
        self.left = left;
        self
    }

    /// Opens the folder, and finds the events of an earlier process.
    pub(crate) fn open(&mut self) -> Result<(), SpillError> {
        let log = Log::open(&self.options)?;
        self.opened(Box::new(log));
        Ok(())
    }

    /// When to call [`Spill::handle_timeout`] next.
    pub(crate) fn poll_timeout(&self) -> Option<Monotonic> {
        self.open_at.or(self.read_again)
    }

    /// Allows reading again after a failure, or tries to open the folder. If that fails it is
    /// repeated later: another process may be about to end, or a disk about to be mounted.
    pub(crate) async fn handle_timeout(&mut self, now: Monotonic) {
        self.read_again = self.read_again.filter(|at| *at > now);
        if self.open_at.is_none_or(|at| at > now) {
            return;
        }
        let options = self.options.clone();
        let opening = tokio::task::spawn_blocking(move || Log::open(&options).map(Box::new));
        match opening.await {
            Ok(Ok(log)) => self.opened(log),
            Ok(Err(error)) => {
                if is_sampled(self.open_failures, 1) {
                    tracing::error!(%error, "Unable to keep events on disk: they are in memory only (will try again)");
                }
                self.open_failures += 1;
                self.open_at = Some(now.saturating_add(TRY_AGAIN));
            }
            // The runtime ends, and with it this task.
            Err(_) => self.open_at = None,
        }
    }

    fn opened(&mut self, mut log: Box<Log>) {
        let recovered = log.unsettled() as u64;
        let damaged = log.take_damaged();
        self.lost += damaged.len() as u64;
        self.done.extend(damaged);
        self.metrics.recovered.increment(recovered);
        self.metrics.bytes.increment(log.bytes() as f64);
        if recovered > 0 {
            tracing::info!(
                events = recovered,
                "Found events that an earlier process did not deliver"
            );
        }
        self.behind = recovered > 0;
        self.recovered = recovered;
        self.open_at = None;
        self.log = Some(log);
    }

    /// Takes the number of events that an earlier process left.
    pub(crate) fn take_recovered(&mut self) -> u64 {
        std::mem::take(&mut self.recovered)
    }

    /// Takes the number of events found to be damaged or missing since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Whether events wait on disk, or held in memory behind those.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind || self.holds()
    }

    /// Whether events are held in memory behind those on disk. Events still in the queue come after
    /// them.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether waiting events can be read now.
    pub(crate) fn may_read(&self) -> bool {
        self.is_behind() && self.read_again.is_none()
    }

    /// Whether half of the room on disk is used.
    pub(crate) fn is_filling(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_filling())
    }

    /// Appends events. Returns those to continue with now: all of them, or none if others wait
    /// before them or there is no room in memory.
    pub(crate) async fn append(&mut self, events: Vec<Event>, has_room: bool) -> Vec<Kept> {
        if self.holds() {
            self.held.extend(events);
            return Vec::new();
        }
        let direct = has_room && !self.behind;
        let appended = events.len();
        let kept = self.write(events, direct).await;
        let refused = appended - kept.iter().filter(|kept| kept.sequence.is_some()).count();
        self.metrics.refused.increment(refused as u64);
        if direct {
            return kept;
        }
        self.put_by(kept);
        Vec::new()
    }

    /// Appends the held events, if there is room on disk now.
    pub(crate) async fn append_held(&mut self) {
        let has_room = self
            .log
            .as_ref()
            .is_some_and(|log| log.bytes() < self.held_at);
        if self.holds() && self.behind && has_room {
            let events = std::mem::take(&mut self.held).into();
            let kept = self.write(events, false).await;
            self.put_by(kept);
        }
    }

    /// Writes events to disk, up to the first for which there is no room.
    async fn write(&mut self, events: Vec<Event>, direct: bool) -> Vec<Kept> {
        if self.log.is_none() {
            return in_memory(events);
        }
        let batch = events.clone();
        let step = self.step(move |log| {
            let kept = log.append(batch);
            if direct {
                log.skip_read();
            }
            kept
        });
        let kept = step.await;
        // Whatever the result of the step, these events are delivered.
        let kept = kept.unwrap_or_else(|| in_memory(events));
        let on_disk = kept.iter().filter(|kept| kept.sequence.is_some()).count();
        self.metrics.spilled.increment(on_disk as u64);
        kept
    }

    /// Leaves events where they are, on disk or held, to wait for their turn.
    fn put_by(&mut self, kept: Vec<Kept>) {
        for kept in kept {
            let Some(place) = kept.sequence else {
                self.held.push_back(kept.event);
                continue;
            };
            self.behind = true;
            let context = kept.event.context();
            let awaited = context.filter(|context| context.is_awaited());
            self.awaited
                .extend(awaited.map(|context| (place, Arc::clone(context))));
        }
        self.held_at = self.log.as_ref().map_or(0, |log| log.bytes());
    }

    /// Reads the next waiting events, about as many as there is room for: those on disk, then the
    /// held ones. Returns none if the disk cannot be read; the read is repeated later.
    pub(crate) async fn read(
        &mut self,
        now: Monotonic,
        room: usize,
        room_bytes: usize,
    ) -> Vec<Kept> {
        let events_max = room.min(READ_EVENTS);
        if self.behind {
            let kept = self.read_disk(now, events_max, room_bytes).await;
            if self.behind {
                return kept;
            }
        }
        let mut bytes = 0_usize;
        let fits = self.held.iter().take(events_max).take_while(|event| {
            let fits = bytes <= room_bytes;
            bytes = bytes.saturating_add(event.size());
            fits
        });
        let fits = fits.count();
        in_memory(self.held.drain(..fits).collect())
    }

    /// Reads the next events that are on disk only.
    async fn read_disk(
        &mut self,
        now: Monotonic,
        events_max: usize,
        room_bytes: usize,
    ) -> Vec<Kept> {
        let read = self
            .step(move |log| log.read_next(events_max, room_bytes))
            .await;
        let Taken { kept, lost, failed } = read.unwrap_or_default();
        self.lost += lost.len() as u64;
        self.done.extend(lost);
        self.behind = failed || !kept.is_empty();
        if failed {
            self.read_again = Some(now.saturating_add(TRY_AGAIN));
            return kept;
        }
        let Some(last) = kept.last().and_then(|kept| kept.sequence) else {
            // No events are left on disk.
            self.awaited.clear();
            return kept;
        };
        // Earlier events that were not read are lost; their callers wait no longer.
        let later = self.awaited.split_off(&(last + 1));
        let mut awaited = std::mem::replace(&mut self.awaited, later);
        kept.into_iter()
            .map(
                |kept| match kept.sequence.and_then(|place| awaited.remove(&place)) {
                    Some(context) => Kept {
                        event: kept.event.with_context(context),
                        ..kept
                    },
                    None => kept,
                },
            )
            .collect()
    }

    /// Records that the outcome of these events is known; their marks are written later.
    pub(crate) fn settled(&mut self, sequences: Vec<u64>) {
        self.done.extend(sequences);
    }

    /// Whether to write the marks now: there are many, or the task is idle.
    pub(crate) fn wants_marking(&self, idle: bool) -> bool {
        self.done.len() >= MARKS_MAX || (idle && !self.done.is_empty())
    }

    /// Writes the collected marks.
    pub(crate) async fn mark(&mut self) {
        self.step(|_| ()).await;
    }

    /// Writes the marks and runs `work` on another thread. Returns `None` if there is no log, or it
    /// panicked.
    async fn step<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Log) -> T + Send + 'static,
    ) -> Option<T> {
        let mut log = self.log.take()?;
        let done = std::mem::take(&mut self.done);
        let before = log.bytes();
        let step = tokio::task::spawn_blocking(move || {
            // The files survive a panic, and the events are delivered from memory.
            let result = catch_unwind(AssertUnwindSafe(|| {
                log.mark_done(&done);
                work(&mut log)
            }));
            if result.is_err() {
                log.start_over();
            }
            (log, result.ok())
        });
        match step.await {
            Ok((log, result)) => {
                self.metrics
                    .bytes
                    .increment(log.bytes() as f64 - before as f64);
                self.log = Some(log);
                if result.is_none() {
                    tracing::error!("A step of the spill panicked: its events are in memory only");
                }
                result
            }
            // The runtime is shutting down, and with it this task. The next process finds the
            // events on disk.
            Err(error) => {
                tracing::error!(%error, "Unable to keep events on disk");
                None
            }
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let left = if let Some(log) = &mut self.log {
            // Before files are removed with their last marks.
            self.metrics.bytes.decrement(log.bytes() as f64);
            log.mark_done(&self.done);
            log.unsettled() as u64
        } else if self.open_at.is_some() {
            0
        } else {
            // The log is in use by a step that may or may not complete.
            u64::MAX
        };
        self.left.store(left, Ordering::Release);
    }
}
