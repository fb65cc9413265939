//! The body of a create in both encodings: the time to make it, and its number of bytes.

use std::hint::black_box;

use tidings::Occurrence;
use tidings_core::Now;

use super::sample::{MESSAGE, Script};
use crate::{Figure, Measure, time};

const BATCH: u64 = 500;

/// The body as JSON.
pub(super) fn json(name: &'static str, measure: Measure) -> Figure {
    body(name, measure, Occurrence::create_body)
}

/// The body as Kubernetes protobuf.
pub(super) fn protobuf(name: &'static str, measure: Measure) -> Figure {
    body(name, measure, Occurrence::create_body_protobuf)
}

/// The body of a new event of events.k8s.io/v1.
fn body(name: &'static str, measure: Measure, make: fn(&Occurrence) -> Vec<u8>) -> Figure {
    let script = Script::new();
    let mut series = script.series();
    series.handle_event(Now::at(script.at), &script.event(0, MESSAGE));
    let Some(occurrence) = series.poll_write() else {
        return Figure::new(name);
    };
    let bytes = make(&occurrence).len();
    let figure = measure.run(name, BATCH, || {
        time(|| {
            for _ in 0..BATCH {
                black_box(make(black_box(&occurrence)));
            }
        })
    });
    figure.with("bytes", bytes as f64)
}
