//! The metrics agree with the reports. A program has one metrics recorder, so this is a separate
//! test program.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot do without fails the test"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
    SharedString, Unit,
};
use tidings::EventType::{Normal, Warning};
use tidings::advanced::SeriesOptions;
use tidings::{
    Acknowledgement, Broadcaster, BroadcasterOptions, Clock, DropCause, EventSource, MemorySink,
    Occurrence, Reference, ReferenceFields, Sink, SinkAnswer, SinkOptions, SpillOptions,
    StatusFailure, WriteError,
};

use tokio::sync::Notify;

/// A metrics recorder that keeps every metric by name and labels; histograms count their samples.
#[derive(Clone, Default)]
struct Kept {
    values: Arc<Mutex<BTreeMap<String, Arc<Value>>>>,
    described: Arc<Mutex<Vec<String>>>,
}

#[derive(Default)]
struct Value(AtomicU64);

impl CounterFn for Value {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Value {
    fn increment(&self, value: f64) {
        self.0.fetch_add(value as i64 as u64, Ordering::Relaxed);
    }

    fn decrement(&self, value: f64) {
        self.0.fetch_sub(value as i64 as u64, Ordering::Relaxed);
    }

    fn set(&self, value: f64) {
        self.0.store(value as u64, Ordering::Relaxed);
    }
}

impl HistogramFn for Value {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Kept {
    fn value(&self, key: &Key) -> Arc<Value> {
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.values.lock().unwrap().entry(name).or_default())
    }

    fn read(&self) -> BTreeMap<String, u64> {
        let values = self.values.lock().unwrap();
        values
            .iter()
            .map(|(name, value)| (name.clone(), value.0.load(Ordering::Relaxed)))
            .filter(|(_, value)| *value > 0)
            .collect()
    }

    fn describe(&self, key: &KeyName) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }
}

impl metrics::Recorder for Kept {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.value(key))
    }
}

fn pod(name: &str) -> Reference {
    Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "baz",
        name,
        ..ReferenceFields::default()
    })
}

/// A sink that answers writes about one pod on demand, and never those about another.
struct Slow(Arc<Notify>);

impl Sink for Slow {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        match occurrence.event().regarding().name() {
            "slow" => self.0.notified().await,
            "stuck" => std::future::pending().await,
            _ => {}
        }
        Ok(())
    }

    async fn patch(&self, _: &Occurrence) -> Result<(), WriteError> {
        Ok(())
    }
}

#[tokio::test]
async fn every_stage_and_every_cause_is_counted() {
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone()).unwrap();

    let broadcaster = Broadcaster::new();
    for cause in DropCause::ALL {
        let counter = format!("tidings_recorder_dropped_total{{cause={cause}}}");
        assert!(kept.values.lock().unwrap().contains_key(&counter));
    }
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    broadcaster.start_event_watcher(|_| {});
    let panicking = broadcaster.start_event_watcher(|_| panic!("meant to panic"));
    let recorder = broadcaster.recorder(EventSource::component("eventTest"));

    recorder.normal(&None::<Reference>, "Refused", "");
    let held = sink.hold();
    recorder.warning(&pod("foo"), "BackOff", "again");
    while sink.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..28 {
        recorder.warning(&pod("foo"), "BackOff", "again");
    }
    let last = recorder.record_and_wait(&pod("foo"), Warning, "BackOff", "again");
    assert!(matches!(
        last.await,
        Ok(Acknowledgement::Filtered { count: 30, .. })
    ));
    // The gauges are set when the task has its next turn.
    tokio::task::yield_now().await;
    let pending = kept.read()["tidings_recorder_pending_events{sink=default}"];
    assert_eq!(
        pending, 30,
        "one is being written, one waits for 24, and five are held back"
    );
    assert_eq!(broadcaster.report().aggregated, 0, "none is at the sink");
    assert!(kept.read()["tidings_recorder_pending_bytes{sink=default}"] > 200);
    drop(held);
    recorder.event(&pod("bar"), Normal, "Started", "up");
    panicking.ended().await;
    let report = broadcaster.shutdown(Duration::from_secs(60)).await;
    recorder.normal(&pod("bar"), "Late", "");

    assert_eq!((report.delivered, report.aggregated), (3, 23), "{report}");
    let values = kept.read();
    let expected = [
        ("tidings_recorder_aggregated_total{sink=default}", 23),
        (
            "tidings_recorder_cache_hits_total{sink=default,cache=aggregate}",
            29,
        ),
        (
            "tidings_recorder_cache_hits_total{sink=default,cache=count}",
            29,
        ),
        (
            "tidings_recorder_cache_hits_total{sink=default,cache=spam}",
            29,
        ),
        (
            "tidings_recorder_cache_misses_total{sink=default,cache=aggregate}",
            2,
        ),
        (
            "tidings_recorder_cache_misses_total{sink=default,cache=count}",
            2,
        ),
        (
            "tidings_recorder_cache_misses_total{sink=default,cache=spam}",
            2,
        ),
        ("tidings_recorder_delivered_total{sink=default}", 3),
        ("tidings_recorder_dropped_total{cause=invalid_reference}", 1),
        ("tidings_recorder_dropped_total{cause=stopped}", 1),
        ("tidings_recorder_events_total{type=Normal}", 1),
        ("tidings_recorder_events_total{type=Warning}", 30),
        ("tidings_recorder_filtered_total{sink=default}", 5),
        ("tidings_recorder_handled_total{}", 31),
        ("tidings_recorder_handler_panics_total{}", 1),
        (
            "tidings_recorder_write_seconds{sink=default,verb=create}",
            2,
        ),
        ("tidings_recorder_write_seconds{sink=default,verb=patch}", 2),
        (
            "tidings_recorder_writes_total{sink=default,verb=create,outcome=ok}",
            2,
        ),
        (
            "tidings_recorder_writes_total{sink=default,verb=patch,outcome=ok}",
            2,
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    assert_eq!(values, BTreeMap::from(expected));

    an_event_of_a_series_is_pending(&kept).await;
    events_left_at_a_deadline_leave_the_gauges(&kept).await;
    let values = kept.read();
    failures_are_counted_by_code(&kept).await;
    a_blocked_sink_keeps_its_events(&kept).await;

    all_are_described(&kept, &values);
}

fn all_are_described(kept: &Kept, values: &BTreeMap<String, u64>) {
    let described = kept.described.lock().unwrap();
    for name in values.keys() {
        let name = name.split('{').next().unwrap_or_default();
        assert!(
            described.iter().any(|described| described == name),
            "{name}"
        );
    }
}

/// The first two events are written as one; the last waits for its heartbeat, not for a write.
async fn an_event_of_a_series_is_pending(kept: &Kept) {
    let series = SinkOptions::default().events_v1(SeriesOptions::default());
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(MemorySink::new(), series)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("eventTest"));
    for _ in 0..3 {
        recorder.warning(&pod("foo"), "BackOff", "again");
    }
    while broadcaster.report().delivered == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        kept.read()["tidings_recorder_pending_events{sink=default}"],
        1
    );
    broadcaster.shutdown(Duration::from_secs(60)).await;
}

/// Events that remain at a deadline are not in gauges any more, but are counted. Events on disk
/// are kept for the next process, and completed ones are removed at the end: here the first of
/// two files.
async fn events_left_at_a_deadline_leave_the_gauges(kept: &Kept) {
    let broadcaster = Broadcaster::new();
    let folder = tempfile::tempdir().unwrap();
    let spill = SinkOptions::default().spill(SpillOptions::new(folder.path()).bytes_max(1 << 20));
    let slow = Arc::new(Notify::new());
    broadcaster
        .start_recording_to_sink_with(Slow(Arc::clone(&slow)), spill)
        .unwrap();
    let recorder = broadcaster.recorder(EventSource::component("eventTest"));
    let on_disk = || {
        kept.read()
            .get("tidings_recorder_spill_bytes{sink=default}")
            .copied()
    };
    recorder.warning(&pod("slow"), "BackOff", "x".repeat(150_000));
    while on_disk().is_none() {
        tokio::task::yield_now().await;
    }
    recorder.warning(&pod("stuck"), "BackOff", "again");
    let written = recorder.record_and_wait(&pod("foo"), Warning, "BackOff", "again");
    assert!(written.await.unwrap().is_written());
    slow.notify_one();
    while broadcaster.report().delivered < 2 {
        tokio::task::yield_now().await;
    }
    assert!(on_disk().is_some_and(|bytes| bytes > 150_000));
    broadcaster.shutdown(Duration::ZERO).await;
    let values = kept.read();
    assert_eq!(values["tidings_recorder_abandoned_total{sink=default}"], 1);
    for gauge in ["pending_events", "pending_bytes", "spill_bytes"] {
        let gauge = format!("tidings_recorder_{gauge}{{sink=default}}");
        assert_eq!(values.get(&gauge), None, "{gauge}");
    }
}

/// While a server is away: failures by code, tries, and the age of the oldest pending event. Of two
/// sinks with one name, the oldest counts.
async fn failures_are_counted_by_code(kept: &Kept) {
    let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let options = BroadcasterOptions::default().clock(clock);
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let named = || SinkOptions::default().name("cluster-2");
    let (sink, other) = (MemorySink::new(), MemorySink::new());
    let status = |code| {
        let failure = StatusFailure {
            code,
            ..StatusFailure::default()
        };
        SinkAnswer::Fail(WriteError::status(failure, "no"))
    };
    sink.answer_next([status(500), status(999)]);
    let refused = SinkAnswer::Fail(WriteError::transport("connection refused"));
    sink.answer_next(vec![refused; 100]);
    for sink in [&sink, &other] {
        broadcaster
            .start_recording_to_sink_with(sink.clone(), named())
            .unwrap();
    }
    let of = |name: &str| {
        let name = format!("tidings_recorder_{name}");
        kept.read().get(&name).copied().unwrap_or(0)
    };
    let error = |code: &str| {
        of(&format!(
            "writes_total{{sink=cluster-2,verb=create,outcome=error,code={code}}}"
        ))
    };
    let recorder = broadcaster.recorder("eventTest");
    for number in 0..6 {
        recorder.warning(&pod(&format!("away-{number}")), "BackOff", "again");
    }
    let held = other.hold();
    while of("paused{sink=cluster-2}") == 0 {
        hand.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    recorder.warning(&pod("held"), "BackOff", "again");
    for _ in 0..60 {
        hand.advance(Duration::from_secs(1));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    let waited = of("oldest_pending_seconds{sink=cluster-2}");
    assert!((55..=75).contains(&waited), "{waited} s");
    assert_eq!((error("500"), error("other")), (1, 1));
    let away = error("transport");
    assert!(away >= 4, "{away}");
    assert_eq!(of("retries_total{sink=cluster-2}"), away + 2);

    sink.answer_next([]);
    drop(held);
    let report = broadcaster.shutdown(Duration::ZERO).await;
    let abandoned = of("abandoned_total{sink=cluster-2}");
    assert_eq!(abandoned, report.pending, "{report}");
    for gauge in [
        "paused",
        "oldest_pending_seconds",
        "pending_events",
        "pending_bytes",
    ] {
        assert_eq!(of(&format!("{gauge}{{sink=cluster-2}}")), 0, "{gauge}");
    }
}

/// A sink that blocks its thread until the gate closes.
struct Blocked {
    gate: Mutex<std::sync::mpsc::Receiver<()>>,
    entered: Arc<Notify>,
}

impl Sink for Blocked {
    async fn create(&self, _: &Occurrence) -> Result<(), WriteError> {
        self.entered.notify_one();
        let _ = self.gate.lock().unwrap().recv();
        Ok(())
    }

    async fn patch(&self, _: &Occurrence) -> Result<(), WriteError> {
        Ok(())
    }
}

/// A shutdown reports the sink's events as pending; so do the metrics, until the sink returns.
async fn a_blocked_sink_keeps_its_events(kept: &Kept) {
    let (gate, closed) = std::sync::mpsc::channel();
    let entered = Arc::new(Notify::new());
    let broadcaster = Broadcaster::new();
    let blocked = Blocked {
        gate: Mutex::new(closed),
        entered: Arc::clone(&entered),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let watch = {
        let _entered = runtime.enter();
        let named = SinkOptions::default().name("blocked");
        broadcaster.start_recording_to_sink_with(blocked, named)
    };
    let recorder = broadcaster.recorder("eventTest");
    recorder.warning(&pod("foo"), "BackOff", "again");
    recorder.warning(&pod("bar"), "BackOff", "again");
    entered.notified().await;
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_eq!(report.pending, 2, "{report}");
    let of = |name: &str| {
        let name = format!("tidings_recorder_{name}{{sink=blocked}}");
        kept.read().get(&name).copied().unwrap_or(0)
    };
    assert_eq!(of("abandoned_total"), 0);
    drop(gate);
    watch.unwrap().ended().await;
    assert_eq!(of("abandoned_total") + of("delivered_total"), 2);
    assert_eq!(of("pending_events"), 0);
    runtime.shutdown_background();
}
