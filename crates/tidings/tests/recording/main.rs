//! The whole recording path, from a recorder's call to a sink in memory: client-go's tests of
//! `tools/record/event_test.go`, and others.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot do without fails the test"
)]

mod accounting;
mod blocking;
mod eventf;
mod held_back;
mod hour;
mod logging;
mod series;
mod shutdown;
mod silence;
mod spill;
mod waiting;
mod watchers;

use std::time::Duration;

use tidings::advanced::{Backoff, CorrelatorOptions, DeliveryOptions, RetryPolicy};
use tidings::{Broadcaster, FlushReport};
use tidings::{
    BroadcasterOptions, Clock, EventSource, ManualClock, Recorder, Reference, ReferenceFields,
    SinkOptions,
};

/// A deadline that no test reaches.
const LONG: Duration = Duration::from_secs(60);

fn pod(name: &str, uid: &str) -> Reference {
    Reference::new(ReferenceFields {
        kind: "Pod",
        api_version: "v1",
        namespace: "baz",
        name,
        uid,
        ..ReferenceFields::default()
    })
}

fn source() -> EventSource {
    EventSource::component("eventTest")
}

/// A broadcaster with these options and a manual clock, and a recorder.
fn manual(options: BroadcasterOptions) -> (Broadcaster, Recorder, ManualClock) {
    let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let broadcaster = Broadcaster::with_options(options.clock(clock)).unwrap();
    let recorder = broadcaster.recorder(source());
    (broadcaster, recorder, hand)
}

/// Options without limits, and with immediate retries.
fn unfiltered() -> SinkOptions {
    SinkOptions::default()
        .correlator(CorrelatorOptions::default().without_spam_filter())
        .delivery(
            DeliveryOptions::default()
                .retry(RetryPolicy::default().backoff(Backoff::Constant(Duration::ZERO))),
        )
}

/// Asserts offered = delivered + aggregated + filtered + dropped + pending, for sinks and for
/// handlers.
#[track_caller]
fn assert_adds_up(report: &FlushReport) {
    assert_eq!(
        report.offered,
        report.delivered
            + report.aggregated
            + report.filtered
            + report.dropped.total()
            + report.pending,
        "{report}"
    );
    let handlers = report.handlers;
    assert_eq!(
        handlers.offered,
        handlers.delivered + handlers.dropped.total() + handlers.pending,
        "{handlers}"
    );
}
