//! A store with events of several months, all of which are still kept. Their lifetimes differ, and
//! two months pass by its clock while they are written. Many writers create the first and the last
//! of them one by one. Those in between only fill the store, many in one commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Expected, NewRecord, Store, UnixMillis, Write, WriteError};

use super::events::{Events, NewEvent, START};
use super::failure::Failure;
use super::figures::{figure, with_peak};
use super::load::{Burst, Target, Writes, burst, revisions};
use super::process::disk_bytes;
use crate::processor_seconds;

const DAY: i64 = 86_400_000;

/// Lifetimes of the records in days: each is longer than the time that the clock passes while they
/// are written.
const LIVES: [i64; 6] = [90, 120, 180, 365, 730, 1825];
const WRITTEN_IN: i64 = 60 * DAY;

/// Number of creates between two moves of the clock.
const STRIDE: u64 = 1_000;

const WRITERS: u64 = 256;

/// Number of creates at the beginning, and at the end, that are measured.
const PART: u64 = 500_000;

/// Number of creates in each commit in between, and of commits at the same time.
const FILL: u64 = 1_000;
const FILLERS: u64 = 4;

struct Archive {
    store: EmbeddedStore,
    clock: ManualClock,
    made: AtomicU64,
    count: u64,
}

impl Archive {
    /// Moves the clock, and makes the record to be created next.
    fn record(&self, event: NewEvent) -> (Bytes, NewRecord) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(STRIDE) {
            let strides = (self.count / STRIDE).max(1);
            self.clock.advance(WRITTEN_IN / strides.cast_signed());
        }
        let life = LIVES.get(number as usize % LIVES.len());
        let end = self.clock.now().0 + life.copied().unwrap_or_default() * DAY;
        event.record(UnixMillis(end))
    }

    /// Creates events, many in one commit. Skips those that an interrupted call has created.
    async fn fill(self: &Arc<Self>, events: &Arc<Events>, end: u64) -> Result<(), Failure> {
        let there = self.made.load(Ordering::Relaxed);
        let next = Arc::new(AtomicU64::new(
            there.saturating_sub(FILL * FILLERS) / FILL * FILL,
        ));
        let fillers = (0..FILLERS).map(|_| {
            let (archive, events, next) = (Arc::clone(self), Arc::clone(events), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let first = next.fetch_add(FILL, Ordering::Relaxed);
                    if first >= end {
                        return Ok::<_, Failure>(());
                    }
                    let writes = (first..end.min(first + FILL)).map(|number| {
                        let (key, record) = archive.record(events.first(number));
                        Write::put(key, record).expecting(Expected::Absent)
                    });
                    match archive.store.write_all(writes.collect()).await {
                        Ok(_) | Err(WriteError::AlreadyExists { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            })
        });
        for filler in fillers.collect::<Vec<_>>() {
            filler.await??;
        }
        Ok(())
    }
}

impl Target for Archive {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        let (key, record) = self.record(event);
        Ok(self.store.create(key, record).await?)
    }

    async fn update(&self, _: NewEvent, _: u64) -> Result<u64, Failure> {
        Err("nothing of an archive is updated".into())
    }
}

impl Archive {
    /// Opens the store of `count` events, some of which may exist.
    async fn open(folder: &Path, count: u64) -> Result<Arc<Self>, Failure> {
        let clock = ManualClock::at(UnixMillis(START));
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(clock.clone());
        options.expire_by_itself = false;
        let store = EmbeddedStore::open(folder, options)?;
        let made = store.stats().await?.records;
        clock.advance(WRITTEN_IN / 1_000 * (made * 1_000 / count.max(1)).cast_signed());
        Ok(Arc::new(Self {
            store,
            clock,
            made: AtomicU64::new(made),
            count,
        }))
    }
}

/// How many of `count` events are created one by one at each end.
fn part(count: u64) -> u64 {
    PART.min(count / 2).max(1)
}

/// Creates the events between the first and the last of `count`, and also the first if they do not
/// exist. After an interruption, another call continues.
///
/// # Errors
/// The store refused something.
pub async fn fill(folder: &Path, count: u64) -> Result<(), Failure> {
    let target = Archive::open(folder, count).await?;
    let events = Arc::new(Events::new(count));
    target.fill(&events, count - part(count)).await?;
    target.store.close().await;
    Ok(())
}

/// Creates `count` events and leaves the store in the folder for [`reads`](super::reads). Prints
/// the time of creates in the empty store and in the full one. Events that [`fill`] created are not
/// created again.
///
/// # Errors
/// The store refused something.
pub async fn archive(folder: &Path, count: u64) -> Result<(), Failure> {
    let target = Archive::open(folder, count).await?;
    let (events, none) = (Arc::new(Events::new(count)), revisions(0));
    let part = part(count);
    let mut line = figure("embedded", "archive").with("events", count as f64);
    for (prefix, numbers) in [("empty_", 0..part), ("full_", count - part..count)] {
        let there = target.made.load(Ordering::Relaxed);
        if there > numbers.start {
            continue;
        }
        if prefix == "full_" {
            target.fill(&events, numbers.start).await?;
        }
        let before = processor_seconds();
        let made = burst(&target, &events, numbers, WRITERS, Writes::Creates, &none).await?;
        let worked = processor_seconds().zip(before);
        let worked = worked.map(|(after, before)| (after - before) * 1e6 / part as f64);
        let Burst { rate, times, .. } = made;
        line = line
            .with(&format!("{prefix}per_second"), rate)
            .with(&format!("{prefix}cpu_us"), worked.unwrap_or_default());
        line = times.into_figure(line, prefix);
    }
    let line = with_peak(line);
    target.store.close().await;
    let bytes = disk_bytes(folder)? as f64 / count as f64;
    line.with("disk_bytes_per_event", bytes).print();
    Ok(())
}
