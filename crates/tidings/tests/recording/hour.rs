//! An hour of a controller's life in compressed time, as events.k8s.io/v1: what is written, beside what client-go's `tools/events` writes for
//! the same script. Its counts come from `go test ./series-hour` in `benches/peers/client-go`, which runs client-go itself.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::{
    Broadcaster, BroadcasterOptions, EventSource, MemorySink, Reference, ReferenceFields,
    SeriesOptions, SinkOptions, SinkVerb,
};

/// Until client-go too has ended every series.
const AFTERWARDS: Duration = Duration::from_secs(13 * 60);

/// What is recorded in a second: about which object, in which version of it.
type Seen = Option<(usize, usize)>;

/// A name, what is recorded, and how many creates and patches that costs: client-go's, then ours.
type Row<'a> = (
    &'a str,
    &'a dyn Fn(usize) -> Seen,
    (usize, usize),
    (usize, usize),
);

fn every(seconds: usize) -> impl Fn(usize) -> Seen {
    move |second| second.is_multiple_of(seconds).then_some((0, 1))
}

/// Each back-off of kubelet's: 10 s, doubling to 5 min.
fn back_off(second: usize) -> Seen {
    let (mut at, mut wait) = (0, 10);
    while at < second {
        at += wait;
        wait = (2 * wait).min(300);
    }
    (at == second).then_some((0, 1))
}

/// Creates and patches of one hour.
async fn hour(series: SeriesOptions, seen: &dyn Fn(usize) -> Seen) -> (usize, usize) {
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
    let rollouts = |second| {
        let phase = second % 900;
        (phase < 30).then_some((phase / 3, 1))
    };
    let updated = |second: usize| second.is_multiple_of(30).then_some((0, second));
    let rows: [Row<'_>; 8] = [
        ("every second", &every(1), (1, 4), (1, 3)),
        ("every 10 seconds", &every(10), (1, 4), (1, 3)),
        ("every 5 minutes", &every(300), (1, 4), (1, 3)),
        ("every 7 minutes", &every(420), (2, 6), (1, 3)),
        ("every 13 minutes", &every(780), (5, 0), (5, 0)),
        ("back-off", &back_off, (1, 4), (1, 3)),
        ("rollouts", &rollouts, (40, 80), (40, 80)),
        ("updated objects", &updated, (120, 0), (1, 3)),
    ];
    for (name, seen, client_go, ours) in rows {
        let written = hour(SeriesOptions::default(), seen).await;
        assert_eq!(written, ours, "{name}");
        let preset = hour(SeriesOptions::client_go(), seen).await;
        assert_eq!(preset, client_go, "{name}, by client-go's rules");
        assert!(
            written.0 + written.1 <= client_go.0 + client_go.1,
            "{name}: {written:?} writes, {client_go:?} by client-go"
        );
    }
    // The same freshness at the same cost, said by the one who wants it.
    let minute = SeriesOptions::default().heartbeat(Duration::from_secs(60));
    assert_eq!(hour(minute, &every(1)).await, (1, 61));
}
