//! Records of different lifetimes in the embedded store: the delay with which their ends are
//! stored, and the disk space that patches leave used.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidings_store::clock::{Clock, ManualClock, SystemClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Change, ListRequest, NewRecord, ObjectSelector, Store, UnixMillis};

use super::events::{Events, NewEvent, Numbers, START};
use super::failure::Failure;
use super::figures::{figure, with_peak};
use super::load::{Target, Times, Writes, burst, revisions};
use super::process::disk_bytes;

const NAME: &str = "embedded";

/// The longest and the shortest lifetime of the records whose ends are awaited, in milliseconds.
const LONGEST: u64 = 20_000;
const SHORTEST: u64 = 1_000;

/// Number of records that outlive the run, with many lifetimes: the short-lived ones must share
/// their buckets.
const LASTING: u64 = 2_000;

const DAY: i64 = 86_400_000;

/// Interval between reads of an object's events beside the patches.
const READ_EVERY: Duration = Duration::from_millis(2);

/// How often every record is patched. In the first rounds no space is freed.
const ROUNDS: u64 = 50;
const IDLE_ROUNDS: u64 = 5;

/// Writes records with lifetimes from one to twenty seconds beside others of an hour to ten years,
/// and prints the delay with which their ends were reported.
///
/// # Errors
/// The store refused something.
pub async fn mixture(folder: &Path, count: u64) -> Result<(), Failure> {
    let store = Arc::new(EmbeddedStore::open(folder, EmbeddedOptions::default())?);
    let events = Events::new(count);
    let mut numbers = Numbers(1);
    let mut watch = store.watch("".into(), store.revision()).await?;
    let watching = tokio::spawn(async move {
        let (mut late, mut left) = (Times::default(), count);
        while left > 0 {
            for change in watch.next().await? {
                if let Change::Delete { previous, .. } = &*change
                    && let Some(end) = previous.expires_at
                {
                    let millis = SystemClock.now().0.saturating_sub(end.0);
                    late.add(Duration::from_millis(millis.max(0).cast_unsigned()));
                    left -= 1;
                }
            }
        }
        Ok::<_, Failure>(late)
    });
    let lasting = LASTING.min(count);
    for first in (0..count + lasting).step_by(256) {
        let writes = (first..(first + 256).min(count + lasting)).map(|number| {
            let is_lasting =
                number % (count / lasting + 1) == 0 && number / (count / lasting + 1) < lasting;
            // Each doubling of the shortest lifetime has about as many records.
            let life = if is_lasting {
                (3_600_000 << (number % 17)) + numbers.below(3_600_000)
            } else {
                (SHORTEST << numbers.below(5)).min(LONGEST) + numbers.below(SHORTEST)
            };
            let end = UnixMillis(SystemClock.now().0.saturating_add_unsigned(life));
            let (key, record) = events.first(number).record(end);
            store.create(key, record)
        });
        for written in futures::future::join_all(writes).await {
            written?;
        }
    }
    let mut late = watching.await??;
    store.close().await;
    figure(NAME, "mixture")
        .with("ended", late.count() as f64)
        .with("late_p50_ms", late.within(500))
        .with("late_p99_ms", late.within(990))
        .with("late_most_ms", late.within(1000))
        .print();
    Ok(())
}

struct Patched {
    store: EmbeddedStore,
    clock: ManualClock,
}

impl Target for Patched {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        let (key, record) = self.record(event);
        Ok(self.store.create(key, record).await?)
    }

    async fn update(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        let (key, record) = self.record(event);
        Ok(self.store.update(key, record, revision).await?)
    }
}

impl Patched {
    fn record(&self, event: NewEvent) -> (bytes::Bytes, NewRecord) {
        event.record(UnixMillis(self.clock.now().0 + 14 * DAY))
    }
}

/// Reads the events of one object after the other until it is stopped. Each duration counts from
/// when the read was due.
struct Reading {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Result<Times, Failure>>,
}

impl Reading {
    fn start(target: &Arc<Patched>, events: &Arc<Events>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (target, events) = (Arc::clone(target), Arc::clone(events));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut times, mut number) = (Times::default(), 0_u64);
            let mut pace = tokio::time::interval(READ_EVERY);
            while !stopped.load(Ordering::Relaxed) {
                let due = pace.tick().await;
                let uid = Events::object_uid(number.wrapping_mul(7_919) % events.objects());
                let request = ListRequest::default().object(ObjectSelector::Uid(uid));
                target.store.list(request).await?;
                times.add(due.elapsed());
                number += 1;
            }
            Ok(times)
        });
        Self { stop, task }
    }

    async fn stop(self) -> Result<Times, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

/// Patches a few records with a lifetime of two weeks repeatedly, for days by the clock, in a log
/// with shorter files than usual. Prints the disk space that is used, and the delays of writers and
/// a reader while space was freed.
///
/// # Errors
/// The store refused something.
pub async fn patches(folder: &Path, count: u64) -> Result<(), Failure> {
    let clock = ManualClock::at(UnixMillis(START));
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.history_retention = Duration::from_secs(600);
    // A sixteenth of the usual length, so that a sixteenth of the usual space may be used beyond
    // the records.
    options.segment_bytes = 8 << 20;
    options.index_memory_bytes = 4 << 20;
    let target = Arc::new(Patched {
        store: EmbeddedStore::open(folder, options)?,
        clock: clock.clone(),
    });
    let kept = (count / ROUNDS).max(1);
    let (events, known) = (Arc::new(Events::new(kept)), revisions(kept));
    burst(&target, &events, 0..kept, 64, Writes::Creates, &known).await?;
    let (mut idle, mut during, mut most) = (Times::default(), Times::default(), 0);
    let mut reading = Reading::start(&target, &events);
    let mut idle_reads = Times::default();
    for round in 0..ROUNDS {
        let patched = burst(&target, &events, 0..kept, 64, Writes::Updates, &known).await?;
        if round < IDLE_ROUNDS {
            // Without a move of the clock, no history is forgotten, so no space can be freed.
            idle.extend(&patched.times);
            continue;
        }
        if round == IDLE_ROUNDS {
            let next = Reading::start(&target, &events);
            idle_reads = std::mem::replace(&mut reading, next).stop().await?;
        }
        during.extend(&patched.times);
        clock.advance(3_600_000);
        target.store.expire().await?;
        most = most.max(disk_bytes(folder)?);
    }
    let mut reads = reading.stop().await?;
    // The store's background work can end.
    for _ in 0..20 {
        clock.advance(3_600_000);
        target.store.expire().await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let after = disk_bytes(folder)?;
    let stats = target.store.stats().await?;
    target.store.close().await;
    let line = figure(NAME, "patches")
        .with("patches", (ROUNDS * kept) as f64)
        .with("records", stats.records as f64)
        .with("value_bytes", stats.value_bytes as f64)
        .with("disk_bytes_most", most as f64)
        .with("disk_bytes_after", after as f64)
        .with_exact("idle_p99_ms", idle.within(990))
        .with_exact("idle_read_p99_ms", idle_reads.within(990))
        .with_exact("during_read_p99_ms", reads.within(990));
    with_peak(during.into_figure(line, "during_")).print();
    Ok(())
}
