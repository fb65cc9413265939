//! A store of months: records of mixed lives, all of which live, written while two months pass by
//! the clock.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Store, UnixMillis};

use super::events::{Events, NewEvent, START};
use super::failure::Failure;
use super::figures::{figure, with_peak};
use super::load::{Burst, Target, Writes, burst, revisions};
use super::process::disk_bytes;
use crate::processor_seconds;

const DAY: i64 = 86_400_000;

/// How long records live, in days: all longer than it takes to write them by the clock.
const LIVES: [i64; 6] = [90, 120, 180, 365, 730, 1825];
const WRITTEN_IN: i64 = 60 * DAY;

/// Creates between two movements of the clock.
const STRIDE: u64 = 1_000;

const WRITERS: u64 = 256;

/// Creates at the beginning and at the end whose cost is told; in between as many at a time.
const PART: u64 = 500_000;

struct Archive {
    store: EmbeddedStore,
    clock: ManualClock,
    made: AtomicU64,
    count: u64,
}

impl Target for Archive {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(STRIDE) {
            let strides = (self.count / STRIDE).max(1);
            self.clock.advance(WRITTEN_IN / strides.cast_signed());
        }
        let life = LIVES.get(number as usize % LIVES.len());
        let end = self.clock.now().0 + life.copied().unwrap_or_default() * DAY;
        let (key, record) = event.record(UnixMillis(end));
        Ok(self.store.create(key, record).await?)
    }

    async fn update(&self, _: NewEvent, _: u64) -> Result<u64, Failure> {
        Err("nothing of an archive is updated".into())
    }
}

/// Creates `count` events and leaves the store in the folder for [`reads`](super::reads); says what
/// creates cost in the empty store and in the full one.
///
/// # Errors
/// What the store answered.
pub async fn archive(folder: &Path, count: u64) -> Result<(), Failure> {
    let clock = ManualClock::at(UnixMillis(START));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    let target = Arc::new(Archive {
        store: EmbeddedStore::open(folder, options)?,
        clock,
        made: AtomicU64::new(0),
        count,
    });
    let (events, none) = (Arc::new(Events::new(count)), revisions(0));
    let part = PART.min(count / 2).max(1);
    let mut line = figure("embedded", "archive").with("events", count as f64);
    let mut next = 0;
    while next < count {
        // The last part is as long as the first.
        let end = match count - next {
            left if left > 2 * part => next + part,
            left if left > part => count - part,
            _ => count,
        };
        let before = processor_seconds();
        let made = burst(&target, &events, next..end, WRITERS, Writes::Creates, &none).await?;
        let worked = processor_seconds().zip(before);
        let worked = worked.map(|(after, before)| (after - before) * 1e6 / (end - next) as f64);
        let prefix = match (next, end) {
            (0, _) => "empty_",
            (_, end) if end == count => "full_",
            _ => "",
        };
        if !prefix.is_empty() {
            let Burst { rate, times, .. } = made;
            line = line
                .with(&format!("{prefix}per_second"), rate)
                .with(&format!("{prefix}cpu_us"), worked.unwrap_or_default());
            line = times.into_figure(line, prefix);
        }
        next = end;
    }
    let line = with_peak(line);
    target.store.close().await;
    let bytes = disk_bytes(folder)? as f64 / count as f64;
    line.with("disk_bytes_per_event", bytes).print();
    Ok(())
}
