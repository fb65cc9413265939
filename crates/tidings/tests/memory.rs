//! The memory ceiling that `Broadcaster`'s documentation states, with a server that does not answer
//! and an endless stream of large events.

use std::time::Duration;

use tidings::advanced::CorrelatorOptions;
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, EventSource, FlushReport, MemorySink, Reference,
    ReferenceFields, SinkOptions,
};
use tidings_testing::allocations::{COUNTING, Counting, Peak};

#[global_allocator]
static ALLOCATOR: Counting = COUNTING;

/// Bytes of each of the correlator's three caches; the default is larger.
const CACHE: usize = 8 << 20;

/// The queue, batch and pending events of the sink, and the three caches.
const CEILING: usize = 3 * (32 << 20) + 3 * CACHE;

const EVENTS: u64 = 60_000;

/// Records each event `times` times. Returns the maximum memory, and the outcomes.
async fn flood(correlator: CorrelatorOptions, times: u64) -> (usize, FlushReport) {
    let correlator = correlator.cache_bytes_max(CACHE);
    let options = BroadcasterOptions::default().sink(SinkOptions::default().correlator(correlator));
    let broadcaster = Broadcaster::with_options(options).expect("the options are good");
    let sink = MemorySink::new();
    let _held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(EventSource::component("flood"));
    let message = "x".repeat(4 << 10);

    let peak = Peak::default();
    for number in 0..EVENTS / times {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: &format!("web-{number}"),
            ..ReferenceFields::default()
        });
        for _ in 0..times {
            recorder.normal(&pod, "Flooded", &message);
        }
        if number % 500 == 0 {
            // Recorded no faster than the sink's task takes events, so that pending events reach
            // their bound.
            tokio::time::sleep(Duration::from_millis(2)).await;
            peak.look();
        }
    }
    (peak.bytes(), broadcaster.shutdown(Duration::ZERO).await)
}

/// One test, because it measures the memory of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_hangs_costs_no_more_memory_than_stated() {
    let default = CorrelatorOptions::default;
    for (name, correlator, times) in [
        ("different events", default(), 1),
        ("repeats, which keep the first of their kind", default(), 3),
        (
            "combined events, which keep one of those they combine",
            default().aggregate_events(1),
            1,
        ),
    ] {
        let (most, report) = flood(correlator, times).await;
        assert!(most < CEILING, "{name}: {} MiB", most >> 20);
        // The bound was reached, and every event is counted.
        let full = report.dropped.get(DropCause::QueueFull);
        assert!(full > EVENTS / 10, "{name}: {report}");
        assert!(report.pending > 1_000, "{name}: {report}");
        let known = report.pending + report.aggregated + full;
        assert_eq!(
            (report.offered, known),
            (EVENTS, EVENTS),
            "{name}: {report}"
        );
    }
}
