//! Measures the embedded store through its contract.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidings_store::clock::{Clock, ManualClock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{CountsRequest, ListRequest, NewestRequest, ObjectSelector, Store, UnixMillis};

use super::events::{EVENTS_PER_OBJECT, Events, NewEvent, START};
use super::failure::Failure;
use super::figures::{LONE_WRITES, TTL, figure, with_amplification, with_peak, with_writes};
use super::load::{self, Steady, Target, Writes, burst, repeat, revisions, timed};
use super::process::{bytes_written, disk_bytes};
use super::real::{ObjectUids, RealEvents};
use crate::resident_bytes;

const NAME: &str = "embedded";

/// Number of steady writers beside an expiry, and their writes per second in total.
const STEADY_WRITERS: u64 = 32;
const STEADY_PER_SECOND: u64 = 2_000;

/// Writes per second beside lists, records of one page of these, and number of lists.
const LIST_WRITES_PER_SECOND: u64 = 5_000;
const LIST_PAGE: usize = 500;
const LISTS: usize = 3;

/// How often each read is repeated.
const READS: u64 = 300;

/// Conditions for reading the latest before some time, by the names of their figures.
type Select = fn(NewestRequest) -> NewestRequest;
const SELECTED: [(&str, Select); 4] = [
    ("before_", |request| request),
    ("before_namespace_", |request| NewestRequest {
        prefix: "shop-prod/".into(),
        ..request
    }),
    ("before_reason_", |request| NewestRequest {
        reason: Some("FailedMount".to_owned()),
        ..request
    }),
    ("before_type_", |request| NewestRequest {
        event_type: Some("Warning".to_owned()),
        ..request
    }),
];

/// Time for which the steady writers are measured while nothing expires.
const IDLE: Duration = Duration::from_secs(5);
/// Maximum number of looks whether the disk space of expired events is free again.
const GIVEN_BACK_LOOKS: u32 = 20;

/// A clock whose date is moved by hand, so that events expire when the part wants that. Durations
/// are real.
struct Dated(ManualClock);

impl Clock for Dated {
    fn now(&self) -> UnixMillis {
        self.0.now()
    }

    fn steady(&self) -> Duration {
        SystemClock.steady()
    }
}

struct Embedded {
    store: EmbeddedStore,
    clock: ManualClock,
    ttl: AtomicI64,
}

impl Embedded {
    fn open(folder: &Path) -> Result<Self, Failure> {
        Self::with(folder, true)
    }

    fn with(folder: &Path, learns: bool) -> Result<Self, Failure> {
        let clock = ManualClock::at(UnixMillis(START));
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(Dated(clock.clone()));
        options.expire_by_itself = false;
        options.learn_to_compress = learns;
        Ok(Self {
            store: EmbeddedStore::open(folder, options)?,
            clock,
            ttl: AtomicI64::new(TTL),
        })
    }

    fn expires_at(&self) -> UnixMillis {
        UnixMillis(self.clock.now().0 + self.ttl.load(Ordering::Relaxed))
    }
}

impl Target for Embedded {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        let (key, record) = event.record(self.expires_at());
        Ok(self.store.create(key, record).await?)
    }

    async fn update(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        let (key, record) = event.record(self.expires_at());
        Ok(self.store.update(key, record, revision).await?)
    }
}

/// Creates `count` events and updates `updates` of them, with this number of writers, and then with
/// a single one. Leaves the store in the folder.
///
/// # Errors
/// The store refused something.
pub async fn writes(folder: &Path, count: u64, updates: u64, writers: u64) -> Result<(), Failure> {
    let target = Arc::new(Embedded::open(folder)?);
    let events = Arc::new(Events::new(count));
    let (updates, process) = (updates.min(count), std::process::id());
    let before = bytes_written(process);
    let line = figure(NAME, &format!("writes_{writers}"));
    let (line, payload) = with_writes(line, &target, &events, (count, updates), writers).await?;
    // The store is closed first, so that everything that it has yet to write is counted.
    target.store.close().await;
    let line = with_amplification(line, before, bytes_written(process), payload);
    let bytes = disk_bytes(folder)? as f64 / count as f64;
    with_peak(line)
        .with("events", count as f64)
        .with("disk_bytes_per_event", bytes)
        .print();

    let alone = tempfile::tempdir_in(folder.parent().unwrap_or(folder))?;
    let target = Embedded::open(alone.path())?;
    load::lone(
        &target,
        &events,
        LONE_WRITES,
        figure(NAME, &format!("lone_{writers}")),
    )
    .await?
    .print();
    target.store.close().await;
    Ok(())
}

/// Opens a store that [`writes`] or [`archive`](super::archive()) left, and reads: one object's
/// events, the latest of everything, of an object and of ranges, counts, and everything.
///
/// # Errors
/// The store refused something, or answered with other events than were written.
pub async fn reads(folder: &Path, count: u64) -> Result<(), Failure> {
    let (reopen, target) = timed(async { Embedded::open(folder) }).await?;
    let resident = || resident_bytes(std::process::id()).unwrap_or_default() as f64;
    let opened = resident();
    let events = Events::new(count);
    let about = |number: u64| {
        let store = &target.store;
        // Every object once, in an order that is not that on the disk.
        let object = number.wrapping_mul(7_919) % events.objects();
        let uid = ObjectSelector::Uid(Events::object_uid(object));
        async move {
            let page = store.list(ListRequest::default().object(uid)).await?;
            if page.records.len() as u64 == EVENTS_PER_OBJECT {
                Ok(())
            } else {
                Err(format!("{} events of an object", page.records.len()).into())
            }
        }
    };
    let first = repeat(1, &about).await?;
    let by_object = repeat(1_000, &about).await?;
    let newest = |request: NewestRequest| {
        let store = &target.store;
        async move {
            let page = store.newest(request).await?;
            if page.records.is_empty() {
                Err(Failure::from("no events are found"))
            } else {
                Ok(())
            }
        }
    };
    let newest_of_all = repeat(READS, |_| newest(newest_50())).await?;
    let newest_of_object = repeat(READS, |number| {
        let object = number.wrapping_mul(104_729) % events.objects();
        let object = Some(ObjectSelector::Uid(Events::object_uid(object)));
        newest(NewestRequest {
            object,
            ..newest_50()
        })
    })
    .await?;
    let mut in_ranges = Vec::new();
    for (name, select) in SELECTED {
        // At any time of the events, but not so early that little is before it.
        let range = |number: u64| {
            let at = count / 10 + number.wrapping_mul(7_919) % (count - count / 10).max(1);
            select(NewestRequest {
                until: Some(UnixMillis(START + at.cast_signed())),
                ..newest_50()
            })
        };
        in_ranges.push((name, repeat(READS, |number| newest(range(number))).await?));
    }
    let counts = repeat(READS, |_| {
        let request = CountsRequest {
            limit: 1_000,
            ..CountsRequest::default()
        };
        let store = &target.store;
        async move {
            let counts = store.counts(request).await?;
            if counts.counts.is_empty() {
                Err(Failure::from("nothing is counted"))
            } else {
                Ok(())
            }
        }
    })
    .await?;
    let line = figure(NAME, "reads")
        .with("reopen_seconds", reopen)
        .with("resident_opened_bytes", opened)
        .with("resident_read_bytes", resident());
    let line = first.into_figure(line, "object_first_");
    let line = by_object.into_figure(line, "object_");
    let mut line = newest_of_all.into_figure(line, "newest_");
    line = newest_of_object.into_figure(line, "object_newest_");
    for (name, times) in in_ranges {
        line = times.into_figure(line, name);
    }
    // With a hundred million events, this list takes an hour.
    with_peak(counts.into_figure(line, "counts_")).print();
    let (seconds, listed) = timed(list_all(&target.store, 10_000)).await?;
    let line = figure(NAME, "listed").with("list_per_second", listed as f64 / seconds);
    with_peak(line).print();
    if listed != count {
        return Err(format!("{listed} events listed of {count} that were written").into());
    }
    target.store.close().await;
    Ok(())
}

fn newest_50() -> NewestRequest {
    NewestRequest {
        limit: 50,
        ..NewestRequest::default()
    }
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
///
/// # Errors
/// The store refused something, or a list lacks events.
pub async fn lists(folder: &Path, count: u64) -> Result<(), Failure> {
    let events = Arc::new(Events::new(count));
    let target = Arc::new(Embedded::open(folder)?);
    let all = 0..count;
    burst(&target, &events, all, 256, Writes::Creates, &revisions(0)).await?;
    let mut line = figure(NAME, "lists");
    let mut next = count;
    let mut medians = Vec::new();
    for writes_per_second in [0, LIST_WRITES_PER_SECOND] {
        let steady = (writes_per_second > 0)
            .then(|| Steady::start(&target, &events, next, STEADY_WRITERS, writes_per_second));
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let (seconds, listed) = timed(list_all(&target.store, LIST_PAGE)).await?;
            if listed < count {
                return Err(format!("{listed} events listed of {count} that were written").into());
            }
            // These lists also have what was written meanwhile, so their time is converted.
            times.push(seconds * count as f64 / listed as f64);
        }
        if let Some(steady) = steady {
            let mut writes = steady.stop().await?;
            next += writes.count() as u64;
            line = line.with("writes_p99_ms", writes.within(990));
        }
        times.sort_by(f64::total_cmp);
        medians.extend(times.get(LISTS / 2));
    }
    let stats = target.store.stats().await?;
    target.store.close().await;
    if let [idle, beside] = medians[..] {
        line = line
            .with("idle_seconds", idle)
            .with("beside_seconds", beside)
            .with("ratio", beside / idle);
    }
    let line = line.with("changes_undone", stats.changes_undone as f64);
    with_peak(line).print();
    Ok(())
}

/// Lets half of `count` events expire at once, beside writers at a steady rate.
///
/// # Errors
/// The store refused something, or not exactly the expected events expired.
pub async fn expiry(folder: &Path, count: u64) -> Result<(), Failure> {
    let events = Arc::new(Events::new(count));
    let (half, none) = (count / 2, revisions(0));
    let target = Arc::new(Embedded::open(folder)?);
    burst(&target, &events, 0..half, 256, Writes::Creates, &none).await?;
    // The other half, and all events that are written later, do not expire.
    target.ttl.store(100 * TTL, Ordering::Relaxed);
    burst(&target, &events, half..count, 256, Writes::Creates, &none).await?;
    let full = disk_bytes(folder)?;

    let steady = Steady::start(&target, &events, count, STEADY_WRITERS, STEADY_PER_SECOND);
    tokio::time::sleep(IDLE).await;
    let mut idle = steady.stop().await?;
    let next = count + idle.count() as u64;

    target.clock.advance(2 * TTL);
    let steady = Steady::start(&target, &events, next, STEADY_WRITERS, STEADY_PER_SECOND);
    let (seconds, expired) = timed(async { Ok(target.store.expire().await?) }).await?;
    let mut during = steady.stop().await?;
    let ratio = during.within(990) / idle.within(990);
    // Expired events use disk space until the store's history no longer reaches back to their end.
    // A later commit frees it, once the index was written out in the background.
    for _ in 0..GIVEN_BACK_LOOKS {
        target.clock.advance(TTL / 2);
        target.store.expire().await?;
        if disk_bytes(folder)? < full / 4 * 3 {
            break;
        }
        tokio::time::sleep(IDLE / 10).await;
    }
    target.store.close().await;
    let line = figure(NAME, "expiry")
        .with("expired", expired as f64)
        .with("seconds", seconds)
        .with("stall_ratio", ratio)
        .with("disk_bytes_before", full as f64)
        .with("disk_bytes_after", disk_bytes(folder)? as f64);
    let line = idle.into_figure(line, "idle_");
    with_peak(during.into_figure(line, "during_")).print();
    if expired != half {
        return Err(format!("{expired} events expired, {half} were due").into());
    }
    Ok(())
}

/// Stores real events, and prints their size on disk.
///
/// # Errors
/// The captures cannot be read, or the store refused something.
pub async fn real_events(folder: &Path, captures: &Path, count: u64) -> Result<(), Failure> {
    let real = RealEvents::read(captures)?;
    let learned = store_real(&folder.join("learned"), &real, count, true).await?;
    let built_in = store_real(&folder.join("built-in"), &real, count, false).await?;
    figure(NAME, "real")
        .with("events", learned.events)
        .with("distinct", real.distinct() as f64)
        .with("skipped", real.skipped as f64)
        .with("payload_bytes_per_event", learned.payload)
        .with("disk_bytes_per_event", learned.disk)
        .with("disk_bytes_per_event_built_in", built_in.disk)
        .print();
    Ok(())
}

/// A number of stored real events, and the bytes of each.
struct Stored {
    events: f64,
    payload: f64,
    disk: f64,
}

/// Stores the events with a dictionary that is trained on them, or only with the built-in one.
async fn store_real(
    folder: &Path,
    real: &RealEvents,
    count: u64,
    learns: bool,
) -> Result<Stored, Failure> {
    let target = Embedded::with(folder, learns)?;
    let mut payload = 0;
    let mut stored = 0;
    let mut number = 0;
    while stored < count {
        let mut batch = Vec::new();
        while batch.len() < 256 {
            batch.push(real.event(number, ObjectUids::OfEachEvent)?);
            number += 1;
        }
        let writes = batch.into_iter().map(|event| {
            payload += event.bytes();
            let (key, record) = event.record(target.expires_at());
            target.store.create(key, record)
        });
        for written in futures::future::join_all(writes).await {
            match written {
                Ok(_) => stored += 1,
                // Captures of one cluster have some events in common.
                Err(tidings_store::WriteError::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    target.store.close().await;
    Ok(Stored {
        events: stored as f64,
        payload: payload as f64 / number as f64,
        disk: disk_bytes(folder)? as f64 / stored as f64,
    })
}
