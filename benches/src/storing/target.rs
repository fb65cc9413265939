//! A store that is written to, and the measurements that the embedded store, etcd and the log have
//! in common.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidings_testing::process::{bytes_written, peak_resident_bytes};

use super::events::{Events, NewEvent};
use crate::load::{Load, Plan, Writer, load};
use crate::{Failure, Figure, repeat};

/// Lifetime of events in milliseconds: an hour, the default of kube-apiserver's `--event-ttl`.
pub(super) const TTL: i64 = 3_600_000;

/// Number of writes of the single writer.
const LONE_WRITES: u64 = 2_000;

pub(super) const PERCENTILES: [&str; 2] = ["p50", "p99"];

/// A store that is written to. A write returns when it is on disk.
pub(super) trait Target: Send + Sync + 'static {
    /// Replaces an event that has this revision; 0 for a key that does not exist. Returns its new
    /// revision.
    fn put(
        &self,
        event: NewEvent,
        revision: u64,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// How much is written.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) count: u64,
    pub(super) updates: u64,
    pub(super) writers: u64,
}

/// A store, the events that are written to it, and the revisions of the first of them, which their
/// updates need.
pub(super) struct Written<T> {
    pub(super) target: Arc<T>,
    pub(super) events: Arc<Events>,
    revisions: Arc<[AtomicU64]>,
    /// Number of bytes of keys and values that were written.
    bytes: Arc<AtomicU64>,
}

impl<T> Clone for Written<T> {
    fn clone(&self) -> Self {
        Self {
            target: Arc::clone(&self.target),
            events: Arc::clone(&self.events),
            revisions: Arc::clone(&self.revisions),
            bytes: Arc::clone(&self.bytes),
        }
    }
}

/// One of several writers, which creates events, or writes them again as when they repeat.
struct StoreWriter<T> {
    to: Written<T>,
    again: bool,
}

impl<T: Target> Writer for StoreWriter<T> {
    type Write = (u64, NewEvent);

    fn prepare(&self, number: u64) -> Self::Write {
        let event = self.to.events.event(number, self.again);
        self.to.bytes.fetch_add(event.bytes(), Ordering::Relaxed);
        (number, event)
    }

    async fn write(&mut self, (number, event): Self::Write) -> Result<(), Failure> {
        let kept = self.to.revisions.get(number as usize);
        let expected = kept.filter(|_| self.again);
        let expected = expected.map_or(0, |revision| revision.load(Ordering::Relaxed));
        let revision = self.to.target.put(event, expected).await?;
        if let Some(kept) = kept {
            kept.store(revision, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<T: Target> Written<T> {
    /// A store for `count` events, of which the first `updates` can be updated.
    pub(super) fn new(target: T, count: u64, updates: u64) -> Self {
        Self {
            target: Arc::new(target),
            events: Arc::new(Events::new(count)),
            revisions: (0..updates).map(|_| AtomicU64::new(0)).collect(),
            bytes: Arc::default(),
        }
    }

    /// This number of writers.
    pub(super) fn writers(&self, count: u64, again: bool) -> Vec<impl Writer + use<T>> {
        let writer = |_| StoreWriter {
            to: self.clone(),
            again,
        };
        (0..count).map(writer).collect()
    }

    /// Creates these events.
    pub(super) async fn create(&self, numbers: Range<u64>, writers: u64) -> Result<Load, Failure> {
        load(self.writers(writers, false), &Plan::of(numbers)).await
    }

    /// Updates these events.
    pub(super) async fn update(&self, numbers: Range<u64>, writers: u64) -> Result<Load, Failure> {
        load(self.writers(writers, true), &Plan::of(numbers)).await
    }

    /// Creates events, then updates the first of them, and measures that with the bytes written to
    /// the device by this process. `close` makes the store write what it has yet to write.
    pub(super) async fn measure(
        &self,
        of: &str,
        sizes: Sizes,
        process: u32,
        close: impl Future<Output = ()>,
    ) -> Result<Figure, Failure> {
        let before = bytes_written(process);
        let mut figure = Figure::of(of, &format!("writes_{}", sizes.writers));
        let created = self.create(0..sizes.count, sizes.writers).await?;
        let updated = self.update(0..sizes.updates, sizes.writers).await?;
        for (what, mut load) in [("creates", created), ("updates", updated)] {
            figure = figure
                .with(&format!("{what}_per_second"), load.rate())
                .times(&format!("{what}_"), &PERCENTILES, &mut load.times);
        }
        close.await;
        if let Some((before, after)) = before.zip(bytes_written(process)) {
            let payload = self.bytes.load(Ordering::Relaxed) as f64;
            let written = after.saturating_sub(before) as f64;
            figure = figure.with("device_bytes_per_byte", written / payload);
        }
        let figure = figure.with("events", sizes.count as f64);
        Ok(figure.with_bytes("peak_bytes", peak_resident_bytes(process)))
    }

    /// Writes with one writer, one write at a time, to measure a single durable write. Nothing may
    /// have been written before.
    pub(super) async fn alone(&self, of: &str, sizes: Sizes) -> Result<(), Failure> {
        let put = |number| async move {
            let event = self.events.event(number, false);
            self.target.put(event, 0).await.map(drop)
        };
        let mut times = repeat(LONE_WRITES, put).await?;
        Figure::of(of, &format!("lone_{}", sizes.writers))
            .times("", &PERCENTILES, &mut times)
            .print();
        Ok(())
    }
}

/// Adds the maximum resident memory of this process.
pub(super) fn with_peak(figure: Figure) -> Figure {
    figure.with_bytes("peak_bytes", peak_resident_bytes(std::process::id()))
}

/// Disk space of a folder's files in bytes. Holes in files do not count.
pub(super) fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // The file may have been removed since its name was read.
        let Ok(data) = entry.metadata() else { continue };
        bytes += if data.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            data.blocks() * 512
        };
    }
    Ok(bytes)
}
