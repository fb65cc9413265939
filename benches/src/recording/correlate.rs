//! Correlation alone: a repeat, an event that is combined with others, and an event never seen
//! before, each with the acknowledgement after its delivery.

use std::hint::black_box;
use std::sync::Arc;

use jiff::Timestamp;
use tidings::advanced::ClusterScopedNamespace;
use tidings::{Event, EventType, Reference, ToReference};
use tidings_core::{
    Correlated, Correlator, CorrelatorOptions, Monotonic, NameStamps, NewEvent, Now, TEXT_BYTES_MAX,
};

use super::sample::{DISTINCT, MESSAGE, pod, source};
use crate::{Allocator, Figure, Measure, time};

const BATCH: u64 = 4096;

/// The same event repeatedly.
pub(super) fn repeat(name: &'static str, measure: Measure) -> Figure {
    rounds(name, measure, &[event(0, MESSAGE)], 20)
}

/// Events that differ only in their message.
pub(super) fn aggregate(name: &'static str, measure: Measure) -> Figure {
    let events: Vec<Event> = (0..DISTINCT)
        .map(|attempt| event(0, &format!("{MESSAGE}, attempt {attempt}")))
        .collect();
    rounds(name, measure, &events, 20)
}

/// Events, each about another object. Every round has a new correlator, so that each event is the
/// first of its object.
pub(super) fn new(name: &'static str, measure: Measure) -> Figure {
    let events: Vec<Event> = (0..DISTINCT).map(|index| event(index, MESSAGE)).collect();
    measure.run(name, DISTINCT as u64, || {
        let mut correlator = correlator();
        time(|| {
            for event in &events {
                once(&mut correlator, event);
            }
        })
    })
}

/// The bytes of memory that a cached key costs: those of an event in all three caches, the event
/// included.
pub fn cached_key(allocator: &'static Allocator) -> Figure {
    let mut correlator = correlator();
    let region = stats_alloc::Region::new(allocator);
    for index in 0..DISTINCT {
        once(&mut correlator, &event(index, MESSAGE));
    }
    let change = region.change();
    let kept = change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated);
    Figure::new("cached_key").with("bytes_per_key", kept as f64 / DISTINCT as f64)
}

fn rounds(name: &'static str, measure: Measure, events: &[Event], first: usize) -> Figure {
    let mut correlator = correlator();
    let mut endless = events.iter().cycle();
    // The first events are passed over, because they are not combined yet.
    for event in endless.by_ref().take(first) {
        once(&mut correlator, event);
    }
    measure.run(name, BATCH, || {
        time(|| {
            for event in endless.by_ref().take(BATCH as usize) {
                once(&mut correlator, event);
            }
        })
    })
}

fn once(correlator: &mut Correlator, event: &Event) {
    let now = Now {
        monotonic: Monotonic::ZERO,
        wall: Timestamp::UNIX_EPOCH,
    };
    match correlator.correlate(now, event) {
        Correlated::Write(occurrence) => correlator.acknowledged(black_box(&occurrence)),
        Correlated::Filtered | Correlated::HeldBack { .. } => {
            unreachable!("the budget is larger than any run")
        }
    }
}

fn correlator() -> Correlator {
    // As in the peer's benchmark, the budget is so large that every event passes.
    let options = CorrelatorOptions::default().spam_burst(1 << 30);
    Correlator::new(options, Arc::new(NameStamps::new(1)))
        .unwrap_or_else(|error| unreachable!("{error}"))
}

fn event(index: usize, message: &str) -> Event {
    let regarding: Reference = pod(index)
        .to_reference()
        .unwrap_or_else(|error| unreachable!("{error}"));
    Event::new(
        &NewEvent {
            source: &source(),
            regarding: &regarding,
            related: None,
            event_type: EventType::Warning,
            reason: "BackOff",
            action: "",
            message: &message,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        },
        &NameStamps::new(1),
        Timestamp::UNIX_EPOCH,
    )
}
