//! Measures the embedded store through its contract: writes, reads and lists; and a store with
//! events of several months.
//!
//! All events of the large store are still kept. Their lifetimes differ, and two months pass by its
//! clock while they are written. Many writers create the first and the last of them one by one.
//! Those in between only fill the store, many in one commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidings_store::clock::{Clock, ManualClock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{
    CountsRequest, Expected, ListRequest, NewRecord, NewestRequest, ObjectSelector, Store,
    UnixMillis, Write, WriteError,
};
use tidings_testing::process::{processor_seconds, resident_bytes};

use super::events::{EVENTS_PER_OBJECT, Events, NewEvent, START};
use super::real::RealEvents;
use super::target::{PERCENTILES, Sizes, TTL, Target, Written, disk_bytes, with_peak};
use crate::load::{Plan, Working};
use crate::{Failure, Figure, repeat, timed};

pub(super) const NAME: &str = "embedded";

/// Number of steady writers.
pub(super) const STEADY_WRITERS: u64 = 32;

/// Number of writers of what is then read, and of an archive.
pub(super) const WRITERS: u64 = 256;

/// Writes per second beside lists, records of one page of these, and number of lists.
const LIST_WRITES_PER_SECOND: u64 = 5_000;
const LIST_PAGE: usize = 500;
const LISTS: usize = 3;

/// What the names of figures about the newest records begin with: of everything, of an object, and
/// before some time, also with a condition.
#[rustfmt::skip]
const NEWEST: [&str; 6] = [
    "newest_", "object_newest_", "before_", "before_namespace_", "before_reason_", "before_type_",
];

/// How often each read is repeated.
const READS: u64 = 300;

const DAY: i64 = 86_400_000;

/// Lifetimes of an archive's records in days: each is longer than the time that the clock passes
/// while they are written.
const LIVES: [i64; 6] = [90, 120, 180, 365, 730, 1825];
const WRITTEN_IN: i64 = 60 * DAY;

/// Number of an archive's creates between two moves of the clock.
const STRIDE: u64 = 1_000;

/// Number of creates at the beginning and at the end of an archive that are measured.
const PART: u64 = 500_000;

/// Number of creates in each commit in between.
const FILL: u64 = 1_000;

/// A clock whose date changes only when a part of the benchmark moves it, so that events expire
/// when the part wants that. Its monotonic time passes by itself, and jumps when the date is moved.
struct Dated(ManualClock);

impl Clock for Dated {
    fn now(&self) -> UnixMillis {
        self.0.now()
    }

    fn steady(&self) -> Duration {
        SystemClock.steady() + self.0.steady()
    }
}

pub(super) struct Embedded {
    pub(super) store: EmbeddedStore,
    pub(super) clock: ManualClock,
    /// Lifetime of the next records in milliseconds; 0 in an archive.
    pub(super) ttl: AtomicI64,
    /// Number of an archive's events, and of those that were made.
    count: u64,
    made: AtomicU64,
}

impl Embedded {
    pub(super) fn open(
        folder: &Path,
        options: impl FnOnce(&mut EmbeddedOptions),
    ) -> Result<Self, Failure> {
        let clock = ManualClock::at(UnixMillis(START));
        let mut all = EmbeddedOptions::default();
        all.clock = Arc::new(Dated(clock.clone()));
        all.expire_by_itself = false;
        options(&mut all);
        Ok(Self {
            store: EmbeddedStore::open(folder, all)?,
            clock,
            ttl: AtomicI64::new(TTL),
            count: 0,
            made: AtomicU64::new(0),
        })
    }

    /// The record to be created next.
    pub(super) fn record(&self, event: NewEvent) -> (Bytes, NewRecord) {
        let mut life = self.ttl.load(Ordering::Relaxed);
        if life == 0 {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            if number.is_multiple_of(STRIDE) {
                let strides = (self.count / STRIDE).max(1);
                self.clock.advance(WRITTEN_IN / strides.cast_signed());
            }
            life = LIVES[number as usize % LIVES.len()] * DAY;
        }
        event.record(UnixMillis(self.clock.now().0 + life))
    }
}

impl Target for Embedded {
    async fn put(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        let (key, record) = self.record(event);
        Ok(match revision {
            0 => self.store.create(key, record).await?,
            _ => self.store.update(key, record, revision).await?,
        })
    }
}

/// Creates events and updates some of them with many writers, and then creates some with a single
/// one. Leaves the store in the folder.
pub(super) async fn writes(folder: &Path, sizes: Sizes) -> Result<(), Failure> {
    let written = Written::new(Embedded::open(folder, |_| {})?, sizes.count, sizes.updates);
    // The store is closed first, so that everything that it has yet to write is counted.
    let close = async { written.target.store.close().await };
    let figure = written
        .measure(NAME, sizes, std::process::id(), close)
        .await?;
    let bytes = disk_bytes(folder)? as f64 / sizes.count as f64;
    figure.with("disk_bytes_per_event", bytes).print();

    let folder = tempfile::tempdir_in(folder.parent().unwrap_or(folder))?;
    let alone = Written::new(Embedded::open(folder.path(), |_| {})?, sizes.count, 0);
    alone.alone(NAME, sizes).await?;
    alone.target.store.close().await;
    Ok(())
}

/// Opens a store that [`writes`] or [`archive`] left, and reads: one object's events, the latest of
/// everything, of an object and of ranges, counts, and everything.
pub(super) async fn reads(folder: &Path, count: u64) -> Result<(), Failure> {
    let (reopen, target) = timed(async { Embedded::open(folder, |_| {}) }).await?;
    let resident = || resident_bytes(std::process::id());
    let figure = Figure::of(NAME, "reads")
        .with("reopen_seconds", reopen)
        .with_bytes("resident_opened_bytes", resident());
    let (store, objects) = (&target.store, Events::new(count).objects());
    // Every object once, in an order that is not that on the disk.
    let object = |number: u64| {
        let object = number.wrapping_mul(7_919) % objects;
        ObjectSelector::Uid(Events::object_uid(object))
    };
    let about = |number: u64| async move {
        let page = store
            .list(ListRequest::default().object(object(number)))
            .await?;
        if page.records.len() as u64 == EVENTS_PER_OBJECT {
            Ok(())
        } else {
            Err(format!("{} events of an object", page.records.len()).into())
        }
    };
    let mut times = vec![
        ("object_first_", repeat(1, about).await?),
        ("object_", repeat(1_000, about).await?),
    ];
    for prefix in NEWEST {
        let newest = |number: u64| async move {
            let mut request = NewestRequest {
                limit: 50,
                ..NewestRequest::default()
            };
            if prefix.starts_with("before") {
                // At any time of the events, but not so early that nothing is before it: the first
                // fifth was updated, and seen later.
                let early = count / 4;
                let at = early + number.wrapping_mul(7_919) % (count - early).max(1);
                request.until = Some(UnixMillis(START + at.cast_signed()));
            }
            match prefix {
                // Not the objects in the order in which they were just read.
                "object_newest_" => request.object = Some(object(number.wrapping_mul(104_729))),
                "before_namespace_" => request.prefix = "shop-prod/".into(),
                "before_reason_" => request.reason = Some("FailedMount".to_owned()),
                "before_type_" => request.event_type = Some("Warning".to_owned()),
                _ => {}
            }
            let page = store.newest(request).await?;
            match page.records.len() {
                0 => Err(format!("no events are found: {prefix}").into()),
                _ => Ok(()),
            }
        };
        times.push((prefix, repeat(READS, newest).await?));
    }
    let counts = |_| async {
        let request = CountsRequest {
            limit: 1_000,
            ..CountsRequest::default()
        };
        let counts = store.counts(request).await?;
        match counts.counts.len() {
            0 => Err("nothing is counted".into()),
            _ => Ok(()),
        }
    };
    times.push(("counts_", repeat(READS, counts).await?));
    let mut figure = figure.with_bytes("resident_read_bytes", resident());
    for (prefix, times) in &mut times {
        figure = figure.times(prefix, &PERCENTILES, times);
    }
    // With a hundred million events, the list takes an hour.
    with_peak(figure).print();
    let (seconds, listed) = timed(list_all(store, 10_000)).await?;
    let figure = Figure::of(NAME, "listed").with("list_per_second", listed as f64 / seconds);
    with_peak(figure).print();
    if listed != count {
        return Err(format!("{listed} events listed of {count} that were written").into());
    }
    target.store.close().await;
    Ok(())
}

async fn list_all(store: &EmbeddedStore, page: usize) -> Result<u64, Failure> {
    let mut listed = 0;
    let mut request = ListRequest::default().limit(page);
    loop {
        let page = store.list(request.clone()).await?;
        listed += page.records.len() as u64;
        match page.records.last().filter(|_| page.more) {
            Some(last) => request = request.after(last.key.clone()).at(page.revision),
            None => return Ok(listed),
        }
    }
}

/// Lists all of `count` events page by page, as the API server does, while nothing is written and
/// beside writers at a steady rate.
pub(super) async fn lists(folder: &Path, count: u64) -> Result<(), Failure> {
    let written = Written::new(Embedded::open(folder, |_| {})?, count, 0);
    written.create(0..count, WRITERS).await?;
    let mut medians = [0.; 2];
    for (beside, median) in [false, true].into_iter().zip(&mut medians) {
        let plan = Plan::steady(count, LIST_WRITES_PER_SECOND);
        let writers = || written.writers(STEADY_WRITERS, false);
        let steady = beside.then(|| Working::start(writers(), &plan));
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let (seconds, listed) = timed(list_all(&written.target.store, LIST_PAGE)).await?;
            if listed < count {
                return Err(format!("{listed} events listed of {count} that were written").into());
            }
            // These lists also have what was written meanwhile, so their time is converted.
            times.push(seconds * count as f64 / listed as f64);
        }
        if let Some(steady) = steady {
            steady.stop().await?;
        }
        times.sort_by(f64::total_cmp);
        *median = times[LISTS / 2];
    }
    written.target.store.close().await;
    let [idle, beside] = medians;
    Figure::of(NAME, "lists")
        .with("idle_seconds", idle)
        .with("beside_seconds", beside)
        .with("ratio", beside / idle)
        .print();
    Ok(())
}

/// Creates `count` events of different lifetimes and leaves the store in the folder for [`reads`].
/// Prints the time of creates in the empty store and in the full one.
pub(super) async fn archive(folder: &Path, count: u64) -> Result<(), Failure> {
    let mut target = Embedded::open(folder, |_| {})?;
    (target.ttl, target.count) = (AtomicI64::new(0), count);
    let written = Written::new(target, count, 0);
    let part = PART.min(count / 2).max(1);
    let mut figure = Figure::of(NAME, "archive").with("events", count as f64);
    for (prefix, numbers) in [("empty_", 0..part), ("full_", count - part..count)] {
        if prefix == "full_" {
            fill(&written, part, numbers.start).await?;
        }
        let process = std::process::id();
        let before = processor_seconds(process);
        let mut made = written.create(numbers, WRITERS).await?;
        let worked = processor_seconds(process).zip(before);
        let worked = worked.map(|(after, before)| (after - before) * 1e6 / part as f64);
        figure = figure
            .with(&format!("{prefix}per_second"), made.rate())
            .with(&format!("{prefix}cpu_us"), worked.unwrap_or_default())
            .times(prefix, &PERCENTILES, &mut made.times);
    }
    let figure = with_peak(figure);
    written.target.store.close().await;
    let bytes = disk_bytes(folder)? as f64 / count as f64;
    figure.with("disk_bytes_per_event", bytes).print();
    Ok(())
}

/// Creates events, many in one commit and four commits at the same time.
async fn fill(written: &Written<Embedded>, first: u64, end: u64) -> Result<(), Failure> {
    let next = AtomicU64::new(first);
    let filler = || async {
        loop {
            let first = next.fetch_add(FILL, Ordering::Relaxed);
            if first >= end {
                return Ok::<_, Failure>(());
            }
            let writes = (first..end.min(first + FILL)).map(|number| {
                let (key, record) = written.target.record(written.events.event(number, false));
                Write::put(key, record).expecting(Expected::Absent)
            });
            written.target.store.write_all(writes.collect()).await?;
        }
    };
    futures::try_join!(filler(), filler(), filler(), filler()).map(drop)
}

/// Stores real events, and prints their size on disk.
pub(super) async fn real(folder: &Path, captures: &Path, count: u64) -> Result<(), Failure> {
    let real = RealEvents::read(captures)?;
    let (learned, payload) = store_real(&folder.join("learned"), &real, count, true).await?;
    let (built_in, _) = store_real(&folder.join("built-in"), &real, count, false).await?;
    Figure::of(NAME, "real")
        .with("payload_bytes_per_event", payload)
        .with("disk_bytes_per_event", learned)
        .with("disk_bytes_per_event_built_in", built_in)
        .print();
    Ok(())
}

/// Stores the events with a dictionary that is trained on them, or only with the built-in one.
/// Returns the bytes on disk, and those of key and value, of each.
async fn store_real(
    folder: &Path,
    real: &RealEvents,
    count: u64,
    learns: bool,
) -> Result<(f64, f64), Failure> {
    let target = Embedded::open(folder, |options| options.learn_to_compress = learns)?;
    let (mut payload, mut stored, mut number) = (0, 0, 0);
    while stored < count {
        let mut writes = Vec::new();
        for _ in 0..256 {
            let event = real.event(number)?;
            number += 1;
            payload += event.bytes();
            let (key, record) = target.record(event);
            writes.push(target.store.create(key, record));
        }
        for written in futures::future::join_all(writes).await {
            match written {
                Ok(_) => stored += 1,
                // Captures of one cluster have some events in common.
                Err(WriteError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    target.store.close().await;
    let disk = disk_bytes(folder)? as f64 / stored as f64;
    Ok((disk, payload as f64 / number as f64))
}
