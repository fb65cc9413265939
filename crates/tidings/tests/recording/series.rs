//! Events written as events.k8s.io/v1: client-go's tests of
//! `tools/events/event_broadcaster_test.go`, and others.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::advanced::{DeliveryOptions, SeriesOptions};
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, MemorySink, SinkAnswer, SinkOptions, SinkVerb,
    StatusFailure, WriteError,
};

use crate::{LONG, assert_adds_up, manual, pod};

fn options(series: SeriesOptions) -> BroadcasterOptions {
    BroadcasterOptions::default().sink(SinkOptions::default().events_v1(series))
}

/// Waits until this number of events is settled or dropped.
async fn settled(broadcaster: &Broadcaster, events: u64) {
    loop {
        let report = broadcaster.report();
        if report.offered - report.pending >= events {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// client-go's TestEventSeriesWithEventSinkImplRace and TestRecordEventToSink: one stored object,
/// with a series.
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
    // The first two events are sent one after the other, because a waiting state is replaced by
    // later ones.
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
    // A delayed count is pending, and is written when the heartbeat is due.
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

/// Far more series are due at one moment than may be pending: at their heartbeat, and at the end.
#[tokio::test]
async fn counts_wait_for_room_and_none_is_lost() {
    const PODS: u64 = 200;
    let minute = Duration::from_secs(60);
    let delivery = DeliveryOptions::default().pending_events_max(8);
    let sink_options = SinkOptions::default()
        .events_v1(SeriesOptions::default().heartbeat(minute))
        .delivery(delivery);
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default().sink(sink_options));
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let see = |number: u64| {
        let name = format!("web-{number}");
        recorder.event(&pod(&name, "u"), Warning, "BackOff", "m");
    };
    // Few enough at a time to be written at once: the first and the second event of each series.
    for number in 0..PODS {
        for time in 1..=2 {
            see(number);
            settled(&broadcaster, number * 2 + time).await;
        }
    }
    (0..PODS).for_each(see);
    // When this event is written, which is at once, the sink has taken all earlier events.
    recorder.event(&pod("barrier", "u"), Warning, "BackOff", "m");
    settled(&broadcaster, PODS * 2 + 1).await;
    sink.answer_next([SinkAnswer::Fail(WriteError::transport("reset"))]);
    hand.advance(minute);
    while broadcaster.report().pending > 0 {
        hand.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(broadcaster.report().dropped.total(), 0);

    (0..PODS).for_each(see);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!((report.dropped.total(), report.pending), (0, 0), "{report}");
    let series = sink.events().into_iter().filter_map(|event| event.series);
    let counts: Vec<_> = series.map(|series| series.count).collect();
    assert_eq!(counts, [Some(4); PODS as usize]);
}

/// One of client-go's passes ends more series than may be pending: none loses its last count.
#[tokio::test]
async fn the_counts_of_a_pass_wait_for_room() {
    const PODS: u64 = 20;
    let delivery = DeliveryOptions::default().pending_events_max(8);
    let options = SinkOptions::default()
        .events_v1(SeriesOptions::client_go())
        .delivery(delivery);
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    for number in 0..PODS {
        for time in 1..=2 {
            recorder.event(&pod(&format!("web-{number}"), "u"), Warning, "BackOff", "m");
            settled(&broadcaster, number * 2 + time).await;
        }
    }
    for number in 0..PODS {
        recorder.event(&pod(&format!("web-{number}"), "u"), Warning, "BackOff", "m");
    }
    // When this event is written, which is at once, the sink has taken all earlier events.
    recorder.event(&pod("barrier", "u"), Warning, "BackOff", "m");
    settled(&broadcaster, PODS * 2 + 1).await;
    assert_eq!(broadcaster.report().pending, PODS);
    hand.advance(Duration::from_secs(361));
    settled(&broadcaster, PODS * 3 + 1).await;
    let report = broadcaster.report();
    assert_eq!((report.dropped.total(), report.pending), (0, 0), "{report}");
    let series = sink.events().into_iter().filter_map(|event| event.series);
    let counts: Vec<_> = series.map(|series| series.count).collect();
    assert_eq!(counts, [Some(3); PODS as usize]);
}

#[tokio::test]
async fn client_go_s_preset_writes_eight_at_a_time_and_tries_twelve_times() {
    const PODS: usize = 20;
    let options = BroadcasterOptions::client_go().sink(SinkOptions::client_go_events());
    let (broadcaster, recorder, hand) = manual(options);
    let sink = MemorySink::new();
    let held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    for number in 0..PODS {
        recorder.event(&pod(&format!("web-{number}"), ""), Warning, "BackOff", "m");
    }
    let turns = async || {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    while sink.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    turns().await;
    assert_eq!(sink.calls().len(), 8);
    drop(held);
    settled(&broadcaster, PODS as u64).await;

    let refused = || SinkAnswer::Fail(WriteError::transport("refused"));
    sink.answer_next(std::iter::repeat_with(refused).take(12));
    recorder.event(&pod("lonely", ""), Warning, "BackOff", "m");
    for tries in 1..=12 {
        while sink.calls().len() < PODS + tries {
            tokio::task::yield_now().await;
        }
        hand.advance(Duration::from_millis(9_999));
        turns().await;
        assert_eq!(sink.calls().len(), PODS + tries, "not before ten seconds");
        hand.advance(Duration::from_millis(2_501));
    }
    settled(&broadcaster, PODS as u64 + 1).await;
    let report = broadcaster.report();
    assert_eq!(report.dropped.get(DropCause::RetriesExhausted), 1);
    assert_eq!(sink.calls().len(), PODS + 12);
}
