//! Measures series: the time of an event in one, the writes of a thousand repeats, the memory of
//! 100,000 open series, and the time of a recorder's call while the sink does not answer.
//! client-go's number of writes comes from `go test ./series-hour` in `benches/peers/client-go`.

use std::sync::Arc;

use tidings::EventType::Warning;
use tidings::advanced::{ClusterScopedNamespace, SeriesOptions};
use tidings::{Broadcaster, Event, EventSource, MemorySink, Reference, ReferenceFields};
use tidings_core::{Monotonic, NameStamps, NewEvent, Now, Series, TEXT_BYTES_MAX};

use super::sample::{MESSAGE, source};
use crate::{Allocator, Figure, Measure, time};

/// Number of objects that events are about.
const OBJECTS: usize = 100_000;

/// Number of calls that are timed one by one.
const CALLS: usize = 100_000;

/// What the events of one measurement have in common.
pub(super) struct Script {
    names: Arc<NameStamps>,
    source: EventSource,
    pub(super) at: jiff::Timestamp,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            names: Arc::new(NameStamps::new(1)),
            source: source(),
            at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    pub(super) fn event(&self, object: usize) -> Event {
        let regarding = reference(object);
        let new = NewEvent {
            source: &self.source,
            regarding: &regarding,
            related: None,
            event_type: Warning,
            reason: "BackOff",
            action: "Restarting",
            message: &MESSAGE,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        Event::new(&new, &self.names, self.at)
    }

    /// The default options are always accepted.
    pub(super) fn series(&self) -> Option<Series> {
        Series::new(SeriesOptions::default(), &self.names).ok()
    }
}

fn reference(object: usize) -> Reference {
    Reference::new(ReferenceFields {
        api_version: "v1",
        kind: "Pod",
        namespace: "default",
        name: &format!("web-7d4b9c6f5-{object:06}"),
        uid: &format!("3c1f0a52-8d0e-4b1e-9f5e-{object:012}"),
        ..ReferenceFields::default()
    })
}

/// An event of an open series, together with its part of the writes that an hour of one event per
/// second leads to.
pub(super) fn repeat(name: &'static str, measure: Measure) -> Figure {
    let script = Script::new();
    let event = script.event(0);
    let Some(mut series) = script.series() else {
        return Figure::new(name);
    };
    let (mut second, mut writes) = (0_i64, 0_u64);
    let mut events = 0_u64;
    let figure = measure.run(name, 1000, || {
        time(|| {
            for _ in 0..1000 {
                second += 1;
                let now = Now {
                    monotonic: Monotonic::from_nanos(second.saturating_mul(1_000_000_000)),
                    wall: script.at,
                };
                series.handle_event(now, &event);
                while series.poll_write().is_some() {
                    writes += 1;
                }
            }
            events += 1000;
        })
    });
    figure.with("writes_per_1000", writes as f64 * 1000. / events as f64)
}

/// The memory of an open series, measured with 100,000 of three events each.
pub fn memory(allocator: &'static Allocator) -> Figure {
    let script = Script::new();
    let before = allocator.stats();
    let Some(mut series) = script.series() else {
        return Figure::new("series_memory");
    };
    for _ in 0..3 {
        for object in 0..OBJECTS {
            series.handle_event(Now::at(script.at), &script.event(object));
            while series.poll_write().is_some() {}
        }
    }
    let change = allocator.stats() - before;
    let kept = change.bytes_allocated as f64 - change.bytes_deallocated as f64;
    let stats = series.stats();
    Figure::new("series_memory")
        .with("series", stats.cache.entries as f64)
        .with("bytes_per_series", kept / OBJECTS as f64)
        .with(
            "accounted_bytes_per_series",
            stats.cache.bytes as f64 / OBJECTS as f64,
        )
}

/// The time of single calls while no write is answered and the queue overflows.
pub fn stuck_sink() -> Figure {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Figure::new("record_stuck_sink");
    };
    let _entered = runtime.enter();
    let sink = MemorySink::with_capacity(16);
    let _held = sink.hold();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    let objects: Vec<Reference> = (0..1000).map(reference).collect();
    let mut nanoseconds: Vec<u128> = (0..CALLS)
        .map(|call| {
            let object = objects.get(call % objects.len());
            time(|| {
                if let Some(object) = object {
                    recorder.event(object, Warning, "BackOff", call);
                }
            })
            .as_nanos()
        })
        .collect();
    nanoseconds.sort_unstable();
    let percentile = |percent: usize| {
        let index = nanoseconds.len() * percent / 100;
        nanoseconds.get(index).copied().unwrap_or_default() as f64
    };
    let figure = Figure::new("record_stuck_sink")
        .with("ops", CALLS as f64)
        .with("p50_ns", percentile(50))
        .with("p99_ns", percentile(99));
    // Otherwise the pending events would be logged as lost.
    runtime.block_on(broadcaster.shutdown(std::time::Duration::ZERO));
    figure
}
