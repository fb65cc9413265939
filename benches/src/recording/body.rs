//! The body of a create, in either form: how long it takes to make and how many bytes it has.

use std::hint::black_box;
use std::sync::Arc;

use tidings::EventType::Warning;
use tidings::{ClusterScopedNamespace, Occurrence, ToReference};
use tidings_core::{
    Event, Monotonic, NameStamps, NewEvent, Now, Series, SeriesOptions, TEXT_BYTES_MAX,
};

use super::{MESSAGE, pod, source};
use crate::{Figure, Measure, time};

const BATCH: u64 = 500;

/// As JSON.
pub(super) fn json(name: &'static str, measure: Measure) -> Figure {
    body(name, measure, Occurrence::create_body)
}

/// As Kubernetes protobuf.
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
    let names = Arc::new(NameStamps::new(1));
    let mut series = Series::new(SeriesOptions::default(), &names).ok()?;
    let at = jiff::Timestamp::UNIX_EPOCH;
    let new = NewEvent {
        source: &source(),
        regarding: &pod(0).to_reference().ok()?,
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
    let now = Now {
        monotonic: Monotonic::ZERO,
        wall: at,
    };
    series.handle_event(now, &Event::new(&new, &names, at));
    series.poll_write()
}
