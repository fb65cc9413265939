//! The memory ceiling that `Broadcaster`'s documentation states, with a server that does not answer and no end of large events.

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidings::{
    Broadcaster, BroadcasterOptions, CorrelatorOptions, DropCause, EventSource, MemorySink,
    Reference, ReferenceFields, SinkOptions,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Of each of the correlator's three caches; the default is larger.
const CACHE: usize = 8 << 20;

/// Queue, batch and pending events of the sink, and the caches.
const CEILING: usize = 3 * (32 << 20) + 3 * CACHE;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_hangs_costs_no_more_memory_than_stated() {
    let correlator = CorrelatorOptions::default().cache_bytes_max(CACHE);
    let options = BroadcasterOptions::default().sink(SinkOptions::default().correlator(correlator));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let sink = MemorySink::new();
    let _held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(EventSource::component("flood"));
    let message = "x".repeat(4 << 10);

    let region = Region::new(ALLOCATOR);
    let mut most = 0;
    for number in 0..100_000 {
        let pod = Reference::new(ReferenceFields {
            kind: "Pod",
            namespace: "default",
            name: &format!("web-{number}"),
            ..ReferenceFields::default()
        });
        recorder.normal(&pod, "Flooded", &message);
        if number % 1_000 == 0 {
            let change = region.change();
            most = most.max(
                change
                    .bytes_allocated
                    .saturating_sub(change.bytes_deallocated),
            );
        }
    }
    assert!(most < CEILING, "{} MiB", most >> 20);

    let report = broadcaster.shutdown(Duration::ZERO).await;
    let full = report.dropped.get(DropCause::QueueFull);
    assert_eq!(report.offered, 100_000);
    assert_eq!(report.pending + full, 100_000, "{report}");
    assert!(full > 50_000 && report.pending > 5_000, "{report}");
}
