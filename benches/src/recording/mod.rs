//! Measures recording: a call, fan-out, correlation, and the way from recorder to sink. The figures
//! have the same names as in `benches/peers/client-go/micro`. Floors, which no implementation can
//! do without, are measured too.
//!
//! No event is dropped during a measurement: events are sent in batches far below the bounds of the
//! queues, and a batch waits until every receiver has seen the one before. Except for calls of the
//! recorder, the figures include that wait.

mod body;
pub mod correlate;
mod floor;
mod path;
mod sample;
pub mod series;

use crate::{Figure, Measure};

/// A function that measures a figure.
type Benchmark = fn(&'static str, Measure) -> Figure;

/// A figure: its name, the function that measures it, and how many floors of each kind (clock,
/// hash, allocation, queue slot) it includes.
#[rustfmt::skip]
const BENCHMARKS: [(&str, Benchmark, [f64; 4]); 11] = [
    ("record", path::record_call, [1., 0., 1., 1.]),
    ("record_reference", path::record_call_with_reference, [1., 0., 1., 1.]),
    ("fan_out_16", path::fan_out, [1., 0., 1., 16.]),
    ("correlate_repeat", correlate::repeat, [0., 1., 0., 0.]),
    ("correlate_aggregate", correlate::aggregate, [0., 1., 1., 0.]),
    ("correlate_new", correlate::new, [0., 1., 3., 0.]),
    ("record_series_repeat", series::repeat, [0., 1., 0., 0.]),
    ("create_body_json", body::json, [0., 0., 1., 0.]),
    ("create_body_protobuf", body::protobuf, [0., 0., 1., 0.]),
    ("record_to_sink_repeat", path::record_to_sink_repeat, [1., 1., 1., 2.]),
    ("record_to_sink_new", path::record_to_sink_new, [1., 1., 4., 2.]),
];

const FLOORS: [(&str, Benchmark); 4] = [
    ("floor_clock", floor::clock),
    ("floor_hash", floor::hash),
    ("floor_allocation", floor::allocation),
    ("floor_queue_slot", floor::queue_slot),
];

/// Measures and prints every figure with `only` in its name. Times have the sum of their floors
/// beside them.
pub fn run(measure: Measure, only: &str) {
    let is_timed = measure.allocator.is_none();
    let mut floors = [0.; 4];
    if is_timed {
        for (floor, (name, run)) in floors.iter_mut().zip(FLOORS) {
            let figure = run(name, measure);
            *floor = figure.number("ns_per_op");
            figure.print();
        }
    }
    for (name, run, stands_on) in BENCHMARKS.iter().filter(|(name, ..)| name.contains(only)) {
        let figure = run(name, measure);
        let floor: f64 = floors
            .iter()
            .zip(stands_on)
            .map(|(floor, times)| floor * times)
            .sum();
        let figure = if is_timed {
            figure.with("floor_ns", floor)
        } else {
            figure
        };
        figure.print();
    }
}
