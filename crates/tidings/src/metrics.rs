//! Metrics through the `metrics` facade: every stage, every cause.
//!
//! Install the program's metrics recorder before the broadcaster is made, because that registers
//! the metrics.
//!
//! | name | kind | labels | what it counts |
//! |---|---|---|---|
//! | `tidings_recorder_events_total` | counter | `type` | events recorded and accepted |
//! | `tidings_recorder_delivered_total` | counter | | events a sink wrote |
//! | `tidings_recorder_aggregated_total` | counter | | events merged into the write of a later one |
//! | `tidings_recorder_filtered_total` | counter | | repeats that the spam filter held back: their count is written later |
//! | `tidings_recorder_dropped_total` | counter | `cause` | events given up, once per sink or watcher that lost it |
//! | `tidings_recorder_abandoned_total` | counter | | events a sink still had when it ended: at the deadline of a shutdown, or on disk when its runtime ended. Those on disk are for the next process |
//! | `tidings_recorder_pending_events` | gauge | | events offered to sinks that are not written, merged, held back or given up yet, wherever they wait |
//! | `tidings_recorder_pending_bytes` | gauge | | about how much memory those take that wait to be written, or are being written |
//! | `tidings_recorder_writes_total` | counter | `verb`, `outcome` | requests to sinks; `outcome` is `ok` or `error` |
//! | `tidings_recorder_write_seconds` | histogram | `verb` | how long these took |
//! | `tidings_recorder_handled_total` | counter | | events handed to handlers: loggers and other event watchers |
//! | `tidings_recorder_handler_panics_total` | counter | | handlers that panicked, which ended their watchers |
//! | `tidings_recorder_cache_hits_total` | counter | `cache` | look-ups of the correlator that found an entry |
//! | `tidings_recorder_cache_misses_total` | counter | `cache` | look-ups that found none |
//! | `tidings_recorder_cache_evictions_total` | counter | `cache` | entries given up for newer ones |
//! | `tidings_recorder_spilled_total` | counter | | events kept on disk until their outcome is known |
//! | `tidings_recorder_spill_refused_total` | counter | | events that found no room on disk, or could not be written: they are in memory only, unless there is room before their turn comes |
//! | `tidings_recorder_spill_recovered_total` | counter | | events that an earlier process left on disk |
//! | `tidings_recorder_spill_bytes` | gauge | | how many bytes of events lie on disk |
//!
//! The causes are those of [`DropCause`]; the counter of each is there from the start. Events
//! recorded while there is no watcher are counted as recorded only.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use tidings_core::{CacheStats, CorrelatorStats, DropCause, EventType, OccurrenceKind};

pub(crate) const EVENTS: &str = "tidings_recorder_events_total";
pub(crate) const DELIVERED: &str = "tidings_recorder_delivered_total";
pub(crate) const AGGREGATED: &str = "tidings_recorder_aggregated_total";
pub(crate) const FILTERED: &str = "tidings_recorder_filtered_total";
pub(crate) const DROPPED: &str = "tidings_recorder_dropped_total";
pub(crate) const ABANDONED: &str = "tidings_recorder_abandoned_total";
pub(crate) const PENDING_EVENTS: &str = "tidings_recorder_pending_events";
pub(crate) const PENDING_BYTES: &str = "tidings_recorder_pending_bytes";
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

/// Describes the metrics to the metrics recorder. May be repeated.
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
        "Repeats that the spam filter held back: their count is written later."
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
        // Registered at zero, so that the first loss is an increase.
        for cause in DropCause::ALL {
            dropped(*cause).increment(0);
        }
        let events = |event_type: EventType| counter!(EVENTS, "type" => event_type.as_str());
        Self {
            normal: events(EventType::Normal),
            warning: events(EventType::Warning),
            queue_full: dropped(DropCause::QueueFull),
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

/// The counter of events given up for `cause`.
pub(crate) fn dropped(cause: DropCause) -> Counter {
    counter!(DROPPED, "cause" => cause.as_str())
}

/// Counts events lost to watchers that had ended with their runtime.
pub(crate) fn runtime_gone(events: u64) {
    if events > 0 {
        dropped(DropCause::RuntimeGone).increment(events);
    }
}

/// The counter of events that sinks still had when they ended.
pub(crate) fn abandoned() -> Counter {
    describe();
    counter!(ABANDONED)
}

/// Metrics of a spill.
pub(crate) struct SpillMetrics {
    pub(crate) spilled: Counter,
    pub(crate) refused: Counter,
    pub(crate) recovered: Counter,
    pub(crate) bytes: Gauge,
}

impl SpillMetrics {
    pub(crate) fn new() -> Self {
        describe();
        Self {
            spilled: counter!(SPILLED),
            refused: counter!(SPILL_REFUSED),
            recovered: counter!(SPILL_RECOVERED),
            bytes: gauge!(SPILL_BYTES),
        }
    }
}

/// Metrics of one sink's task.
pub(crate) struct SinkMetrics {
    delivered: Counter,
    aggregated: Counter,
    filtered: Counter,
    pending_events: Gauge,
    pending_bytes: Gauge,
    create: WriteMetrics,
    patch: WriteMetrics,
    caches: [CacheMetrics; 3],
    /// This sink's part of the gauges, which all sinks share.
    pending: (u64, usize),
}

struct WriteMetrics {
    ok: Counter,
    error: Counter,
    seconds: Histogram,
}

struct CacheMetrics {
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    /// The statistics that were already added to the counters.
    last: CacheStats,
}

impl SinkMetrics {
    pub(crate) fn new() -> Self {
        Self {
            delivered: counter!(DELIVERED),
            aggregated: counter!(AGGREGATED),
            filtered: counter!(FILTERED),
            pending_events: gauge!(PENDING_EVENTS),
            pending_bytes: gauge!(PENDING_BYTES),
            create: WriteMetrics::new("create"),
            patch: WriteMetrics::new("patch"),
            caches: ["aggregate", "count", "spam"].map(CacheMetrics::new),
            pending: (0, 0),
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

    /// Updates the gauges, which are sums over all sinks, by the difference.
    pub(crate) fn pending(&mut self, events: u64, bytes: usize) {
        let (last_events, last_bytes) = std::mem::replace(&mut self.pending, (events, bytes));
        if last_events != events {
            self.pending_events
                .increment(events as f64 - last_events as f64);
        }
        if last_bytes != bytes {
            self.pending_bytes
                .increment(bytes as f64 - last_bytes as f64);
        }
    }

    pub(crate) fn answered(&self, kind: OccurrenceKind, ok: bool, nanoseconds: i64) {
        let write = match kind {
            OccurrenceKind::Create => &self.create,
            OccurrenceKind::Patch => &self.patch,
        };
        if ok {
            write.ok.increment(1);
        } else {
            write.error.increment(1);
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
        self.pending(0, 0);
    }
}

impl WriteMetrics {
    fn new(verb: &'static str) -> Self {
        Self {
            ok: counter!(WRITES, "verb" => verb, "outcome" => "ok"),
            error: counter!(WRITES, "verb" => verb, "outcome" => "error"),
            seconds: histogram!(WRITE_SECONDS, "verb" => verb),
        }
    }
}

impl CacheMetrics {
    fn new(cache: &'static str) -> Self {
        Self {
            hits: counter!(CACHE_HITS, "cache" => cache),
            misses: counter!(CACHE_MISSES, "cache" => cache),
            evictions: counter!(CACHE_EVICTIONS, "cache" => cache),
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
