//! Metrics through the `metrics` facade, of every stage and every drop cause.
//!
//! The facade is the crate [`metrics`](https://docs.rs/metrics) in version 0.24: the program's
//! exporter must be one for that version (`metrics-exporter-prometheus` 0.16 to 0.18), or it sees
//! nothing. Install it before the broadcaster is made, because that registers the metrics.
//!
//! | name | kind | labels | what it counts |
//! |---|---|---|---|
//! | `tidings_recorder_events_total` | counter | `type` | events recorded and accepted |
//! | `tidings_recorder_delivered_total` | counter | `sink` | events a sink wrote |
//! | `tidings_recorder_aggregated_total` | counter | `sink` | events merged into the write of a later one |
//! | `tidings_recorder_filtered_total` | counter | `sink` | repeats that the spam filter held back, and whose count was written |
//! | `tidings_recorder_dropped_total` | counter | `cause`, `sink` | events given up, once per sink or watcher that lost it. Those that reached no sink have no `sink` |
//! | `tidings_recorder_abandoned_total` | counter | `sink` | events a sink still had when it ended: at the deadline of a shutdown, or on disk when its runtime ended. Those on disk are for the next process |
//! | `tidings_recorder_pending_events` | gauge | `sink` | events offered to sinks whose count is not written and that are not given up yet, wherever they wait |
//! | `tidings_recorder_pending_bytes` | gauge | `sink` | about how much memory those take that wait to be written, or are being written |
//! | `tidings_recorder_oldest_pending_seconds` | gauge | `sink` | how long the oldest of these has waited, to five seconds; since it was read back, for one on disk |
//! | `tidings_recorder_paused` | gauge | `sink` | 1 while writing pauses because the server is out of reach |
//! | `tidings_recorder_writes_total` | counter | `sink`, `verb`, `outcome`, `code` | requests to sinks; `outcome` is `ok` or `error`. Errors have a `code`: the HTTP status, or `transport`, `timeout`, `invalid` |
//! | `tidings_recorder_write_seconds` | histogram | `sink`, `verb` | how long these took |
//! | `tidings_recorder_retries_total` | counter | `sink` | failed requests that are tried again |
//! | `tidings_recorder_handled_total` | counter | | events handed to handlers: loggers and other event watchers |
//! | `tidings_recorder_handler_panics_total` | counter | | handlers that panicked, which ended their watchers |
//! | `tidings_recorder_cache_hits_total` | counter | `sink`, `cache` | look-ups of the correlator that found an entry |
//! | `tidings_recorder_cache_misses_total` | counter | `sink`, `cache` | look-ups that found none |
//! | `tidings_recorder_cache_evictions_total` | counter | `sink`, `cache` | entries given up for newer ones |
//! | `tidings_recorder_spilled_total` | counter | `sink` | events kept on disk until their outcome is known |
//! | `tidings_recorder_spill_refused_total` | counter | `sink` | events that found no room on disk, or could not be written: they are in memory only, unless there is room before their turn comes |
//! | `tidings_recorder_spill_recovered_total` | counter | `sink` | events that an earlier process left on disk |
//! | `tidings_recorder_spill_bytes` | gauge | `sink` | how many bytes of events lie on disk |
//!
//! `sink` is the name of the sink ([`SinkOptions::name`](crate::SinkOptions::name)). Sinks of one
//! name are counted together; the age of the oldest pending event is the greatest of theirs.
//!
//! The causes are those of [`DropCause`]; the counter of each exists from the start. Events
//! recorded while there is no watcher are counted as recorded only.
//!
//! # A sink that blocks
//!
//! A sink that blocks its thread does not notice the deadline of a shutdown. The shutdown returns
//! half a second later without it, and its report counts the events of the sink as pending. The
//! metrics follow the sink itself: until it returns, its events stay in
//! `tidings_recorder_pending_events`, and `tidings_recorder_abandoned_total` does not have them.
//! When it returns, they become abandoned, except for a write that succeeded meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::{Mutex, lock};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use tidings_core::{
    CacheStats, CorrelatorStats, DropCause, EventType, OccurrenceKind, WriteError, WriteErrorKind,
};

pub(crate) const EVENTS: &str = "tidings_recorder_events_total";
pub(crate) const DELIVERED: &str = "tidings_recorder_delivered_total";
pub(crate) const AGGREGATED: &str = "tidings_recorder_aggregated_total";
pub(crate) const FILTERED: &str = "tidings_recorder_filtered_total";
pub(crate) const DROPPED: &str = "tidings_recorder_dropped_total";
pub(crate) const ABANDONED: &str = "tidings_recorder_abandoned_total";
pub(crate) const PENDING_EVENTS: &str = "tidings_recorder_pending_events";
pub(crate) const PENDING_BYTES: &str = "tidings_recorder_pending_bytes";
pub(crate) const OLDEST_PENDING: &str = "tidings_recorder_oldest_pending_seconds";
pub(crate) const PAUSED: &str = "tidings_recorder_paused";
pub(crate) const RETRIES: &str = "tidings_recorder_retries_total";
pub(crate) const WRITES: &str = "tidings_recorder_writes_total";
pub(crate) const WRITE_SECONDS: &str = "tidings_recorder_write_seconds";
pub(crate) const HANDLED: &str = "tidings_recorder_handled_total";
pub(crate) const HANDLER_PANICS: &str = "tidings_recorder_handler_panics_total";
pub(crate) const CACHE_HITS: &str = "tidings_recorder_cache_hits_total";
pub(crate) const CACHE_MISSES: &str = "tidings_recorder_cache_misses_total";
pub(crate) const CACHE_EVICTIONS: &str = "tidings_recorder_cache_evictions_total";

pub(crate) const SPILLED: &str = "tidings_recorder_spilled_total";
pub(crate) const SPILL_REFUSED: &str = "tidings_recorder_spill_refused_total";
pub(crate) const SPILL_RECOVERED: &str = "tidings_recorder_spill_recovered_total";
pub(crate) const SPILL_BYTES: &str = "tidings_recorder_spill_bytes";

/// Describes the metrics to the metrics recorder. May be called again.
pub(crate) fn describe() {
    let count = Unit::Count;
    describe_counter!(EVENTS, count, "Events recorded and accepted.");
    describe_counter!(DELIVERED, count, "Events a sink wrote.");
    describe_counter!(
        AGGREGATED,
        count,
        "Events merged into the write of a later one."
    );
    describe_counter!(
        FILTERED,
        count,
        "Repeats that the spam filter held back, and whose count was written."
    );
    describe_counter!(DROPPED, count, "Events given up, by cause.");
    describe_counter!(ABANDONED, count, "Events a sink still had when it ended.");
    describe_gauge!(
        PENDING_EVENTS,
        count,
        "Events offered to sinks and not settled, wherever they wait."
    );
    describe_gauge!(
        PENDING_BYTES,
        Unit::Bytes,
        "About how much memory the events take that wait to be written, or are."
    );
    describe_gauge!(
        OLDEST_PENDING,
        Unit::Seconds,
        "How long the oldest event has waited that is to be written, or is."
    );
    describe_gauge!(
        PAUSED,
        count,
        "Sinks whose writing pauses because the server is out of reach."
    );
    describe_counter!(
        RETRIES,
        count,
        "Failed requests to sinks that are tried again."
    );
    describe_counter!(WRITES, count, "Requests to sinks.");
    describe_histogram!(
        WRITE_SECONDS,
        Unit::Seconds,
        "How long requests to sinks took."
    );
    describe_counter!(HANDLED, count, "Events handed to handlers.");
    describe_counter!(HANDLER_PANICS, count, "Handlers that panicked.");
    describe_counter!(
        CACHE_HITS,
        count,
        "Look-ups of the correlator that found an entry."
    );
    describe_counter!(
        CACHE_MISSES,
        count,
        "Look-ups of the correlator that found none."
    );
    describe_counter!(
        CACHE_EVICTIONS,
        count,
        "Correlator entries given up for newer ones."
    );
    describe_counter!(
        SPILLED,
        count,
        "Events kept on disk until their outcome is known."
    );
    describe_counter!(
        SPILL_REFUSED,
        count,
        "Events that found no room on disk and are in memory only."
    );
    describe_counter!(
        SPILL_RECOVERED,
        count,
        "Events that an earlier process left on disk."
    );
    describe_gauge!(
        SPILL_BYTES,
        Unit::Bytes,
        "How many bytes of events lie on disk."
    );
}

/// Metrics of recorders.
pub(crate) struct RecorderMetrics {
    normal: Counter,
    warning: Counter,
    queue_full: Counter,
}

impl RecorderMetrics {
    pub(crate) fn new() -> Self {
        describe();
        // The counters are registered at zero, so that the first loss is an increase.
        for cause in DropCause::ALL {
            dropped(*cause, None).increment(0);
        }
        let events = |event_type: EventType| counter!(EVENTS, "type" => event_type.as_str());
        Self {
            normal: events(EventType::Normal),
            warning: events(EventType::Warning),
            queue_full: dropped(DropCause::QueueFull, None),
        }
    }

    pub(crate) fn recorded(&self, event_type: EventType) {
        match event_type {
            EventType::Normal => self.normal.increment(1),
            EventType::Warning => self.warning.increment(1),
        }
    }

    pub(crate) fn queue_full(&self, watchers: u64) {
        self.queue_full.increment(watchers);
    }
}

impl std::fmt::Debug for RecorderMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecorderMetrics").finish_non_exhaustive()
    }
}

/// The counter of events dropped for `cause` by the sink of this name, or before any sink.
pub(crate) fn dropped(cause: DropCause, sink: Option<&Arc<str>>) -> Counter {
    if let Some(sink) = sink {
        counter!(DROPPED, "cause" => cause.as_str(), "sink" => Arc::clone(sink))
    } else {
        counter!(DROPPED, "cause" => cause.as_str())
    }
}

/// Counts events lost to watchers that had ended with their runtime.
pub(crate) fn runtime_gone(events: u64) {
    if events > 0 {
        dropped(DropCause::RuntimeGone, None).increment(events);
    }
}

/// The counter of events that sinks of this name had not settled when they ended.
pub(crate) fn abandoned(sink: &Arc<str>) -> Counter {
    describe();
    counter!(ABANDONED, "sink" => Arc::clone(sink))
}

/// Metrics of a spill.
pub(crate) struct SpillMetrics {
    pub(crate) spilled: Counter,
    pub(crate) refused: Counter,
    pub(crate) recovered: Counter,
    pub(crate) bytes: Gauge,
}

impl SpillMetrics {
    pub(crate) fn new(sink: &Arc<str>) -> Self {
        describe();
        Self {
            spilled: counter!(SPILLED, "sink" => Arc::clone(sink)),
            refused: counter!(SPILL_REFUSED, "sink" => Arc::clone(sink)),
            recovered: counter!(SPILL_RECOVERED, "sink" => Arc::clone(sink)),
            bytes: gauge!(SPILL_BYTES, "sink" => Arc::clone(sink)),
        }
    }
}

/// Metrics of one sink's task.
pub(crate) struct SinkMetrics {
    delivered: Counter,
    aggregated: Counter,
    filtered: Counter,
    retries: Counter,
    pending_events: Gauge,
    pending_bytes: Gauge,
    paused: Gauge,
    create: WriteMetrics,
    patch: WriteMetrics,
    caches: [CacheMetrics; 3],
    age: Age,
    /// This sink's part of the gauges, which sinks of one name share.
    pending: (u64, usize),
    is_paused: bool,
}

struct WriteMetrics {
    sink: Arc<str>,
    verb: &'static str,
    ok: Counter,
    seconds: Histogram,
}

struct CacheMetrics {
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    /// The cache statistics that were already added to the counters.
    last: CacheStats,
}

impl SinkMetrics {
    pub(crate) fn new(sink: &Arc<str>) -> Self {
        for cause in DropCause::ALL {
            dropped(*cause, Some(sink)).increment(0);
        }
        Self {
            delivered: counter!(DELIVERED, "sink" => Arc::clone(sink)),
            aggregated: counter!(AGGREGATED, "sink" => Arc::clone(sink)),
            filtered: counter!(FILTERED, "sink" => Arc::clone(sink)),
            retries: counter!(RETRIES, "sink" => Arc::clone(sink)),
            pending_events: gauge!(PENDING_EVENTS, "sink" => Arc::clone(sink)),
            pending_bytes: gauge!(PENDING_BYTES, "sink" => Arc::clone(sink)),
            paused: gauge!(PAUSED, "sink" => Arc::clone(sink)),
            create: WriteMetrics::new(sink, "create"),
            patch: WriteMetrics::new(sink, "patch"),
            caches: ["aggregate", "count", "spam"].map(|cache| CacheMetrics::new(sink, cache)),
            age: Age::new(sink),
            pending: (0, 0),
            is_paused: false,
        }
    }

    pub(crate) fn delivered(&self, events: u64) {
        self.delivered.increment(events);
    }

    pub(crate) fn aggregated(&self, events: u64) {
        self.aggregated.increment(events);
    }

    pub(crate) fn filtered(&self, events: u64) {
        self.filtered.increment(events);
    }

    pub(crate) fn retried(&self) {
        self.retries.increment(1);
    }

    /// Updates the gauges by the difference; they are sums over the sinks of one name.
    pub(crate) fn pending(&mut self, events: u64, bytes: usize, is_paused: bool) {
        let (last_events, last_bytes) = std::mem::replace(&mut self.pending, (events, bytes));
        if last_events != events {
            self.pending_events
                .increment(events as f64 - last_events as f64);
        }
        if last_bytes != bytes {
            self.pending_bytes
                .increment(bytes as f64 - last_bytes as f64);
        }
        match (std::mem::replace(&mut self.is_paused, is_paused), is_paused) {
            (false, true) => self.paused.increment(1.),
            (true, false) => self.paused.decrement(1.),
            _ => {}
        }
    }

    /// Sets the age of the sink's oldest pending event; zero if there is none.
    pub(crate) fn oldest_pending(&mut self, age: Duration) {
        self.age.set(age);
    }

    pub(crate) fn answered(
        &self,
        kind: OccurrenceKind,
        error: Option<&WriteError>,
        nanoseconds: i64,
    ) {
        let write = match kind {
            OccurrenceKind::Create => &self.create,
            OccurrenceKind::Patch => &self.patch,
        };
        match error {
            None => write.ok.increment(1),
            Some(error) => write.failed(error),
        }
        write.seconds.record(nanoseconds.max(0) as f64 / 1e9);
    }

    pub(crate) fn correlated(&mut self, stats: &CorrelatorStats) {
        let now = [stats.aggregate, stats.count, stats.spam];
        for (cache, now) in self.caches.iter_mut().zip(now) {
            cache.update(now);
        }
    }
}

impl Drop for SinkMetrics {
    fn drop(&mut self) {
        self.pending(0, 0, false);
        self.oldest_pending(Duration::ZERO);
    }
}

impl WriteMetrics {
    fn new(sink: &Arc<str>, verb: &'static str) -> Self {
        Self {
            sink: Arc::clone(sink),
            verb,
            ok: counter!(WRITES, "sink" => Arc::clone(sink), "verb" => verb, "outcome" => "ok"),
            seconds: histogram!(WRITE_SECONDS, "sink" => Arc::clone(sink), "verb" => verb),
        }
    }

    fn failed(&self, error: &WriteError) {
        let (sink, verb) = (Arc::clone(&self.sink), self.verb);
        let code = code(error);
        counter!(WRITES, "sink" => sink, "verb" => verb, "outcome" => "error", "code" => code)
            .increment(1);
    }
}

/// The label of a failure. Servers can cause at most a few hundred values.
fn code(error: &WriteError) -> String {
    match &error.kind {
        WriteErrorKind::Status(failure) if (100..600).contains(&failure.code) => {
            failure.code.to_string()
        }
        WriteErrorKind::Status(_) => "other".to_owned(),
        WriteErrorKind::Transport => "transport".to_owned(),
        WriteErrorKind::Timeout => "timeout".to_owned(),
        _ => "invalid".to_owned(),
    }
}

type Ages = BTreeSet<(u64, u64)>;

/// The age of one sink's oldest pending event. The gauge shows the greatest age of all sinks of its
/// name.
struct Age {
    sink: Arc<str>,
    /// This sink's id among all.
    id: u64,
    gauge: Gauge,
    /// The last age in nanoseconds; 0 without pending events.
    last: u64,
}

impl Age {
    fn new(sink: &Arc<str>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            sink: Arc::clone(sink),
            id: LAST_ID.fetch_add(1, Ordering::Relaxed),
            gauge: gauge!(OLDEST_PENDING, "sink" => Arc::clone(sink)),
            last: 0,
        }
    }

    fn set(&mut self, age: Duration) {
        /// The ages and ids of all sinks that have pending events, by name.
        static AGES: Mutex<BTreeMap<Arc<str>, Ages>> = Mutex::new(BTreeMap::new());

        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let last = std::mem::replace(&mut self.last, age);
        if last == age {
            return;
        }
        let mut ages = lock(&AGES);
        let of_name = ages.entry(Arc::clone(&self.sink)).or_default();
        of_name.remove(&(last, self.id));
        if age > 0 {
            of_name.insert((age, self.id));
        }
        let greatest = of_name.last().map_or(0, |(age, _)| *age);
        if of_name.is_empty() {
            ages.remove(&self.sink);
        }
        // Set under the lock, so that an older value does not overwrite a newer one.
        self.gauge.set(Duration::from_nanos(greatest).as_secs_f64());
    }
}

impl CacheMetrics {
    fn new(sink: &Arc<str>, cache: &'static str) -> Self {
        Self {
            hits: counter!(CACHE_HITS, "sink" => Arc::clone(sink), "cache" => cache),
            misses: counter!(CACHE_MISSES, "sink" => Arc::clone(sink), "cache" => cache),
            evictions: counter!(CACHE_EVICTIONS, "sink" => Arc::clone(sink), "cache" => cache),
            last: CacheStats::default(),
        }
    }

    fn update(&mut self, now: CacheStats) {
        let last = std::mem::replace(&mut self.last, now);
        self.hits.increment(now.hits - last.hits);
        self.misses.increment(now.misses - last.misses);
        self.evictions.increment(now.evictions - last.evictions);
    }
}
