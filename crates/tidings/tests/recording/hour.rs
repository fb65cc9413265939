//! An hour of a controller's life in compressed time, as events.k8s.io/v1: the writes, compared
//! with those of client-go's `tools/events` for the same script. The command's tests play it
//! against API servers.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::advanced::SeriesOptions;
use tidings::{
    Broadcaster, BroadcasterOptions, EventSource, MemorySink, Reference, ReferenceFields,
    SinkOptions, SinkVerb,
};

use tidings_testing::hours::{AFTERWARDS, HOURS, Hour, Seen, every};

/// Creates and patches of one hour.
async fn hour(series: SeriesOptions, seen: fn(usize) -> Seen) -> (usize, usize) {
    let sink = MemorySink::new();
    let options = BroadcasterOptions::default().sink(SinkOptions::default().events_v1(series));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(EventSource::component("hour"));
    let mut recorded = 0;
    for second in 0..3600 {
        if let Some((pod, version)) = seen(second) {
            let pod = Reference::new(ReferenceFields {
                api_version: "v1",
                kind: "Pod",
                namespace: "default",
                name: &format!("web-{pod}"),
                resource_version: &version.to_string(),
                ..ReferenceFields::default()
            });
            recorder
                .build(&pod, Warning, "BackOff")
                .action("Restarting")
                .message("restarting failed container")
                .send();
            recorded += 1;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(AFTERWARDS).await;
    let report = broadcaster.report();
    assert_eq!(report.pending, 0, "every count is at the server: {report}");
    let counted: i32 = sink
        .events()
        .iter()
        .map(|event| {
            let series = event.series.as_ref();
            series.and_then(|series| series.count).unwrap_or(1)
        })
        .sum();
    assert_eq!(counted, recorded);
    let calls = sink.calls();
    let of = |verb| calls.iter().filter(|call| call.verb == verb).count();
    (of(SinkVerb::Create), of(SinkVerb::Patch))
}

#[tokio::test(start_paused = true)]
async fn an_hour_costs_no_more_writes_than_with_client_go() {
    for Hour {
        name,
        seen,
        client_go,
        ours,
    } in HOURS
    {
        let seldom = SeriesOptions::default().heartbeat(Duration::from_secs(30 * 60));
        let written = hour(seldom, seen).await;
        assert_eq!(written, ours, "{name}");
        let preset = hour(SeriesOptions::client_go(), seen).await;
        assert_eq!(preset, client_go, "{name}, by client-go's rules");
        assert!(
            written.0 + written.1 <= client_go.0 + client_go.1,
            "{name}: {written:?} writes, {client_go:?} by client-go"
        );
    }
    // The preset `few_writes`, whose series show their last note.
    let preset = few_writes().await;
    assert_eq!(preset, 4, "as every second above");
    // The same freshness at the same cost, by an option.
    let minute = SeriesOptions::default().heartbeat(Duration::from_secs(60));
    assert_eq!(hour(minute, |second| every(1, second)).await, (1, 61));
}

/// The writes of an hour of one event a second, each with its own note, with
/// `BroadcasterOptions::few_writes`.
async fn few_writes() -> usize {
    let sink = MemorySink::new();
    let broadcaster = Broadcaster::with_options(BroadcasterOptions::few_writes()).unwrap();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder("hour");
    let pod = Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "default",
        name: "web-0",
        ..ReferenceFields::default()
    });
    for second in 0..3600 {
        recorder.warning(&pod, "BackOff", format_args!("attempt {second}"));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(AFTERWARDS).await;
    let events = sink.events();
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let count = event.series.as_ref().and_then(|series| series.count);
    assert_eq!(count, Some(3600));
    let annotations = event.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[tidings::LAST_NOTE_ANNOTATION], "attempt 3599");
    sink.calls().len()
}
