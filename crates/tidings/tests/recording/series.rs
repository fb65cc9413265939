//! Events written as events.k8s.io/v1: what client-go tests in `tools/events/event_broadcaster_test.go`, and what it does not.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, MemorySink, SeriesOptions, SinkAnswer, SinkOptions,
    SinkVerb, StatusFailure, WriteError,
};

use crate::{LONG, assert_adds_up, manual, pod};

fn options(series: SeriesOptions) -> BroadcasterOptions {
    BroadcasterOptions::default().sink(SinkOptions::default().events_v1(series))
}

/// Waits until so many events are settled or dropped.
async fn settled(broadcaster: &Broadcaster, events: u64) {
    loop {
        let report = broadcaster.report();
        if report.offered - report.pending >= events {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// client-go's TestEventSeriesWithEventSinkImplRace and TestRecordEventToSink: one stored object, with a series.
#[tokio::test]
async fn repeats_become_a_series_that_is_written_seldom_and_to_the_end() {
    let minute = SeriesOptions::default().heartbeat(Duration::from_secs(60));
    let (broadcaster, recorder, hand) = manual(options(minute));
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let send = || {
        recorder
            .build(&pod("web", "u"), Warning, "BackOff")
            .action("Restarting")
            .message("restarting failed container")
            .related(&pod("other", "v"))
            .send();
    };
    // One after the other: what waits for its turn gives way to later states.
    send();
    settled(&broadcaster, 1).await;
    send();
    settled(&broadcaster, 2).await;
    for _ in 2..30 {
        send();
    }
    let series = |count| {
        let events = sink.events();
        assert_eq!(
            events[0].series.as_ref().and_then(|series| series.count),
            count
        );
    };
    series(Some(2));
    // What is behind is pending, and is written when the heartbeat is due.
    recorder.event(&pod("last in the queue", ""), Warning, "BackOff", "m");
    settled(&broadcaster, 3).await;
    assert_eq!(broadcaster.report().pending, 28);
    hand.advance(Duration::from_secs(60));
    settled(&broadcaster, 31).await;
    series(Some(30));
    for _ in 0..5 {
        send();
    }
    let report = broadcaster.shutdown(LONG).await;
    series(Some(35));
    assert_eq!(
        (report.offered, report.delivered, report.aggregated),
        (36, 5, 31)
    );
    let patches = sink.calls().into_iter();
    let patches = patches.filter(|call| call.verb == SinkVerb::Patch).count();
    assert_eq!(
        (sink.events().len(), sink.calls().len(), patches),
        (2, 5, 3)
    );
    let event = &sink.events()[0];
    assert_eq!(event.action.as_deref(), Some("Restarting"));
    assert_eq!(
        event.related.as_ref().unwrap().name.as_deref(),
        Some("other")
    );
    assert_eq!(event.reporting_instance.as_deref(), Some("eventTest"));
    assert!(event.count.is_none() && event.first_timestamp.is_none());
    assert!(event.event_time.is_some());
}

#[tokio::test]
async fn what_a_lost_write_stood_for_is_counted_as_dropped() {
    let (broadcaster, recorder, _hand) = manual(options(SeriesOptions::client_go()));
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    for number in 1..=10 {
        recorder.event(&pod("web", "u"), Warning, "BackOff", "m");
        settled(&broadcaster, number.min(2)).await;
    }
    let failure = StatusFailure {
        code: 403,
        ..StatusFailure::default()
    };
    sink.answer_next([SinkAnswer::Fail(WriteError::status(failure, "no"))]);
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(
        report.dropped.get(DropCause::RejectedForbidden),
        8,
        "{report}"
    );
    assert_adds_up(&report);
}
