//! Records of different lifetimes in the embedded store: expiry beside other writers, the delay
//! with which ends are stored, and the disk space that patches leave used.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidings_store::clock::{Clock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Change, ListRequest, ObjectSelector, Store, UnixMillis};

use super::embedded::{Embedded, NAME, STEADY_WRITERS, WRITERS};
use super::events::Events;
use super::target::{PERCENTILES, TTL, Written, disk_bytes, with_peak};
use crate::load::{Load, Plan, Working};
use crate::{Failure, Figure, Latencies, Numbers, timed};

/// Writes per second of all steady writers beside an expiry, and the time for which they are
/// measured while nothing expires.
const STEADY_PER_SECOND: u64 = 2_000;
const IDLE: Duration = Duration::from_secs(5);

/// Maximum number of looks whether the disk space of ended records is free again.
const GIVEN_BACK_LOOKS: u32 = 20;

/// The longest and the shortest lifetime of the records whose ends are awaited, in milliseconds.
const LONGEST: u64 = 20_000;
const SHORTEST: u64 = 1_000;

/// Number of records that outlive the run, with many lifetimes: the short-lived ones must share
/// their buckets.
const LASTING: u64 = 2_000;

/// Lifetime of records that are patched, in milliseconds.
const PATCHED_TTL: i64 = 14 * 86_400_000;

/// Interval between reads of an object's events beside the patches.
const READ_EVERY: Duration = Duration::from_millis(2);

/// How often every record is patched. In the first rounds no space is freed.
const ROUNDS: u64 = 50;
const IDLE_ROUNDS: u64 = 5;

/// Lets half of `count` events expire at once, beside writers at a steady rate.
pub(super) async fn expiry(folder: &Path, count: u64) -> Result<(), Failure> {
    let written = Written::new(Embedded::open(folder, |_| {})?, count, 0);
    let target = &written.target;
    let half = count / 2;
    written.create(0..half, WRITERS).await?;
    // The other half, and all events that are written later, do not expire.
    target.ttl.store(100 * TTL, Ordering::Relaxed);
    written.create(half..count, WRITERS).await?;
    let full = disk_bytes(folder)?;
    let steady = |first| {
        let plan = Plan::steady(first, STEADY_PER_SECOND);
        Working::start(written.writers(STEADY_WRITERS, false), &plan)
    };

    let before = steady(count);
    tokio::time::sleep(IDLE).await;
    let Load {
        times: mut idle, ..
    } = before.stop().await?;
    target.clock.advance(2 * TTL);
    let beside = steady(count + idle.count() as u64);
    let (seconds, expired) = timed(async { Ok(target.store.expire().await?) }).await?;
    let Load {
        times: mut during, ..
    } = beside.stop().await?;
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
    let figure = Figure::of(NAME, "expiry")
        .with("expired", expired as f64)
        .with("seconds", seconds)
        .with("disk_bytes_before", full as f64)
        .with("disk_bytes_after", disk_bytes(folder)? as f64)
        .times("idle_", &PERCENTILES, &mut idle)
        .times("during_", &PERCENTILES, &mut during);
    with_peak(figure).print();
    if expired != half {
        return Err(format!("{expired} events expired, {half} were due").into());
    }
    Ok(())
}

/// Writes records with lifetimes from one to twenty seconds beside others of an hour to ten years,
/// and prints the delay with which their ends were reported.
pub(super) async fn mixture(folder: &Path, count: u64) -> Result<(), Failure> {
    let store = Arc::new(EmbeddedStore::open(folder, EmbeddedOptions::default())?);
    let events = Events::new(count);
    let mut numbers = Numbers(1);
    let mut watch = store.watch("".into(), store.revision()).await?;
    let watching = tokio::spawn(async move {
        let (mut late, mut left) = (Latencies::default(), count);
        while left > 0 {
            for change in watch.next().await? {
                if let Change::Delete { previous, .. } = &*change
                    && let Some(end) = previous.expires_at
                {
                    let millis = SystemClock.now().0.saturating_sub(end.0);
                    late.push(Duration::from_millis(millis.max(0).cast_unsigned()));
                    left -= 1;
                }
            }
        }
        Ok::<_, Failure>(late)
    });
    let lasting = LASTING.min(count);
    let one_of = count / lasting + 1;
    for first in (0..count + lasting).step_by(256) {
        let writes = (first..(first + 256).min(count + lasting)).map(|number| {
            // Each doubling of the shortest lifetime has about as many records.
            let life = if number % one_of == 0 && number / one_of < lasting {
                (3_600_000 << (number % 17)) + numbers.below(3_600_000)
            } else {
                (SHORTEST << numbers.below(5)).min(LONGEST) + numbers.below(SHORTEST)
            };
            let end = UnixMillis(SystemClock.now().0.saturating_add_unsigned(life));
            let (key, record) = events.event(number, false).record(end);
            store.create(key, record)
        });
        for written in futures::future::join_all(writes).await {
            written?;
        }
    }
    let mut late = watching.await??;
    store.close().await;
    Figure::of(NAME, "mixture")
        .with("ended", late.count() as f64)
        .with("late_p99_ms", late.percentile_ms(99.))
        .with("late_most_ms", late.percentile_ms(100.))
        .print();
    Ok(())
}

/// Reads the events of one object after the other until it is stopped. Each duration counts from
/// when the read was due.
struct Reading {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Result<Latencies, Failure>>,
}

impl Reading {
    fn start(written: &Written<Embedded>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (written, stopped) = (written.clone(), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let (mut times, mut number) = (Latencies::default(), 0_u64);
            let mut pace = tokio::time::interval(READ_EVERY);
            while !stopped.load(Ordering::Relaxed) {
                let due = pace.tick().await;
                let object = number.wrapping_mul(7_919) % written.events.objects();
                let uid = ObjectSelector::Uid(Events::object_uid(object));
                written
                    .target
                    .store
                    .list(ListRequest::default().object(uid))
                    .await?;
                times.push(due.elapsed());
                number += 1;
            }
            Ok(times)
        });
        Self { stop, task }
    }

    async fn stop(self) -> Result<Latencies, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

/// Patches a few records with a lifetime of two weeks repeatedly, for days by the clock, in a log
/// with shorter files than usual. Prints the disk space that is used, and the delays of writers and
/// a reader while space was freed.
pub(super) async fn patches(folder: &Path, count: u64) -> Result<(), Failure> {
    let target = Embedded::open(folder, |options| {
        options.expire_by_itself = true;
        options.history_retention = Duration::from_secs(600);
        // A sixteenth of the usual length, so that a sixteenth of the usual space may be used
        // beyond the records.
        options.segment_bytes = 8 << 20;
        options.index_memory_bytes = 4 << 20;
    })?;
    target.ttl.store(PATCHED_TTL, Ordering::Relaxed);
    let kept = (count / ROUNDS).max(1);
    let written = Written::new(target, kept, kept);
    let Embedded { store, clock, .. } = &*written.target;
    written.create(0..kept, 64).await?;
    let [mut idle, mut during, mut idle_reads] = [(); 3].map(|()| Latencies::default());
    let mut most = 0;
    let mut reading = Reading::start(&written);
    for round in 0..ROUNDS {
        let Load { times, .. } = written.update(0..kept, 64).await?;
        if round < IDLE_ROUNDS {
            // Without a move of the clock, no history is forgotten, so no space can be freed.
            idle.append(times);
            continue;
        }
        if round == IDLE_ROUNDS {
            let next = Reading::start(&written);
            idle_reads = std::mem::replace(&mut reading, next).stop().await?;
        }
        during.append(times);
        clock.advance(TTL);
        store.expire().await?;
        most = most.max(disk_bytes(folder)?);
    }
    let mut reads = reading.stop().await?;
    // The store's background work can end.
    for _ in 0..GIVEN_BACK_LOOKS {
        clock.advance(TTL);
        store.expire().await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let after = disk_bytes(folder)?;
    let stats = store.stats().await?;
    store.close().await;
    let figure = Figure::of(NAME, "patches")
        .with("value_bytes", stats.value_bytes as f64)
        .with("disk_bytes_most", most as f64)
        .with("disk_bytes_after", after as f64)
        .times("idle_", &PERCENTILES, &mut idle)
        .times("during_", &PERCENTILES, &mut during)
        .times("idle_read_", &PERCENTILES, &mut idle_reads)
        .times("during_read_", &PERCENTILES, &mut reads);
    with_peak(figure).print();
    Ok(())
}
