//! What recording costs: a call, fan-out, correlation, and the way from recorder to sink, under the same names as
//! `benches/peers/client-go/micro`, and beside them the floors no implementation gets below.
//!
//! No event is dropped while it is measured: events go out in batches far below the queues' bounds, and a batch waits until the one
//! before was seen by everyone who was to see it. That wait is part of every figure but the recorder call's.

mod correlate;
mod floor;
mod path;

use std::alloc::System;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tidings::EventSource;
use tidings_bench::Figure;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Measures event recording and prints each figure as one line of JSON.
#[derive(Parser)]
struct Arguments {
    /// How many seconds to measure each figure.
    #[arg(long, default_value_t = 1.)]
    seconds: f64,
    /// Measure only the figures whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// A figure's name and how it is measured.
type Benchmark = (&'static str, fn(&'static str, Duration) -> Figure);

const BENCHMARKS: [Benchmark; 12] = [
    ("record", path::record_call),
    ("record_reference", path::record_call_with_reference),
    ("fan_out_16", path::fan_out),
    ("correlate_repeat", correlate::repeat),
    ("correlate_aggregate", correlate::aggregate),
    ("correlate_new", correlate::new),
    ("record_to_sink_repeat", path::record_to_sink_repeat),
    ("record_to_sink_new", path::record_to_sink_new),
    ("floor_hash", floor::hash),
    ("floor_allocation", floor::allocation),
    ("floor_queue_slot", floor::queue_slot),
    ("floor_clock", floor::clock),
];

fn main() {
    let arguments = Arguments::parse();
    let total = Duration::from_secs_f64(arguments.seconds.max(0.001));
    for (name, run) in BENCHMARKS {
        if name.contains(&arguments.only) {
            run(name, total).print();
        }
    }
    if "cached_key".contains(&arguments.only) {
        correlate::cached_key().print();
    }
}

/// More events than client-go's caches have entries, as in its own benchmark.
const DISTINCT: usize = 16_384;

const MESSAGE: &str = "Back-off restarting failed container web in pod web-7d4b9c6f5";

fn source() -> EventSource {
    EventSource::component("example-controller").host("node-1")
}

fn pod(index: usize) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(format!("web-7d4b9c6f5-{index:05}")),
            namespace: Some("default".to_owned()),
            uid: Some(format!("3c1f0a52-8d0e-4b1e-9f5e-{index:012}")),
            resource_version: Some("123456".to_owned()),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}
