//! The body of a create in both encodings: the time to make it, and its number of bytes.

use std::hint::black_box;

use tidings::Occurrence;
use tidings_core::{Monotonic, Now};

use super::series::Script;
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

fn body(name: &'static str, measure: Measure, make: fn(&Occurrence) -> Vec<u8>) -> Figure {
    let Some(occurrence) = occurrence() else {
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

/// A new event of events.k8s.io/v1.
fn occurrence() -> Option<Occurrence> {
    let script = Script::new();
    let mut series = script.series()?;
    let now = Now {
        monotonic: Monotonic::ZERO,
        wall: script.at,
    };
    series.handle_event(now, &script.event(0));
    series.poll_write()
}
