//! Measures series: the time of an event in one, the writes of a thousand repeats, the memory of
//! 100,000 open series, and the time of a recorder's call while the sink does not answer.
//! client-go's number of writes comes from `go test ./series-hour` in `benches/peers/client-go`.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::{Broadcaster, MemorySink, Reference};
use tidings_core::{Monotonic, Now};

use super::sample::{MESSAGE, Script, reference, source};
use crate::{Allocator, Figure, Measure, time};

/// Number of objects that events are about.
const OBJECTS: usize = 100_000;

/// Number of calls that are timed one by one.
const CALLS: usize = 100_000;

/// An event of an open series, together with its part of the writes that an hour of one event per
/// second leads to.
pub(super) fn repeat(name: &'static str, measure: Measure) -> Figure {
    let script = Script::new();
    let event = script.event(0, MESSAGE);
    let mut series = script.series();
    let (mut second, mut writes) = (0_u64, 0_u64);
    let figure = measure.run(name, 1000, || {
        time(|| {
            for _ in 0..1000 {
                second += 1;
                let nanos = second.cast_signed().saturating_mul(1_000_000_000);
                let now = Now {
                    monotonic: Monotonic::from_nanos(nanos),
                    wall: script.at,
                };
                series.handle_event(now, &event);
                while series.poll_write().is_some() {
                    writes += 1;
                }
            }
        })
    });
    figure.with("writes_per_1000", writes as f64 * 1000. / second as f64)
}

/// The memory of an open series, measured with 100,000 of three events each.
pub fn memory(allocator: &'static Allocator) -> Figure {
    let script = Script::new();
    let before = allocator.stats();
    let mut series = script.series();
    for _ in 0..3 {
        for object in 0..OBJECTS {
            series.handle_event(Now::at(script.at), &script.event(object, MESSAGE));
            while series.poll_write().is_some() {}
        }
    }
    let change = allocator.stats() - before;
    let kept = change.bytes_allocated as f64 - change.bytes_deallocated as f64;
    Figure::new("series_memory").with("bytes_per_series", kept / OBJECTS as f64)
}

/// The time of single calls while no write is answered and the queue overflows.
pub fn stuck_sink() -> Figure {
    let runtime = super::path::runtime();
    let _entered = runtime.enter();
    let sink = MemorySink::with_capacity(16);
    let _held = sink.hold();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    let objects: Vec<Reference> = (0..1000).map(reference).collect();
    let calls = objects.iter().cycle().take(CALLS).enumerate();
    let times = calls.map(|(call, object)| {
        time(|| recorder.event(object, Warning, "BackOff", call)).as_nanos() as f64
    });
    let mut times: Vec<f64> = times.collect();
    times.sort_unstable_by(f64::total_cmp);
    let figure = Figure::new("record_stuck_sink")
        .with("ops", CALLS as f64)
        .with("p50_ns", times[CALLS / 2])
        .with("p99_ns", times[CALLS / 100 * 99]);
    // Otherwise the pending events would be logged as lost.
    runtime.block_on(broadcaster.shutdown(Duration::ZERO));
    figure
}
