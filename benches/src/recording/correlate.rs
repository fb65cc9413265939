//! Correlation alone: a repeat, an event that is combined with others, and an event never seen
//! before, each with the acknowledgement after its delivery.

use std::hint::black_box;

use tidings::Event;
use tidings_core::{Correlated, Correlator, CorrelatorOptions, Monotonic, Now};

use super::sample::{DISTINCT, MESSAGE, Script};
use crate::{Allocator, Figure, Measure, time};

const BATCH: u64 = 4096;

/// The same event repeatedly.
pub(super) fn repeat(name: &'static str, measure: Measure) -> Figure {
    rounds(name, measure, &[Script::new().event(0, MESSAGE)])
}

/// Events that differ only in their message.
pub(super) fn aggregate(name: &'static str, measure: Measure) -> Figure {
    let script = Script::new();
    let event = |attempt| script.event(0, &format!("{MESSAGE}, attempt {attempt}"));
    rounds(name, measure, &(0..DISTINCT).map(event).collect::<Vec<_>>())
}

/// Events, each about another object. Every round has a new correlator, so that each event is the
/// first of its object.
pub(super) fn new(name: &'static str, measure: Measure) -> Figure {
    let script = Script::new();
    let events: Vec<_> = (0..DISTINCT)
        .map(|index| script.event(index, MESSAGE))
        .collect();
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
    let (mut correlator, script) = (correlator(), Script::new());
    let region = stats_alloc::Region::new(allocator);
    for index in 0..DISTINCT {
        once(&mut correlator, &script.event(index, MESSAGE));
    }
    let change = region.change();
    let kept = change.bytes_allocated as f64 - change.bytes_deallocated as f64;
    Figure::new("cached_key").with("bytes_per_key", kept / DISTINCT as f64)
}

fn rounds(name: &'static str, measure: Measure, events: &[Event]) -> Figure {
    let mut correlator = correlator();
    let mut endless = events.iter().cycle();
    // The first events are passed over, because they are not combined yet.
    for event in endless.by_ref().take(20) {
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
        wall: jiff::Timestamp::UNIX_EPOCH,
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
    Correlator::new(options, Script::new().names).unwrap_or_else(|error| unreachable!("{error}"))
}
