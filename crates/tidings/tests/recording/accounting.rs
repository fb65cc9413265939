//! Every loss has a cause: under load, with faults, in both modes, at any time of the end.
//! client-go's TestLotsOfEvents.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tidings::EventType::{Normal, Warning};
use tidings::advanced::{DeliveryOptions, QueueOptions, SeriesOptions, WhenFull};
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, EventApi, MemorySink, Occurrence, RecordError,
    Sink, SinkAnswer, SinkOptions, SinkVerb, StatusFailure, WriteError,
};

use super::{LONG, assert_adds_up, manual, pod, source, unfiltered};

/// A sink that writes each event at the fifth attempt.
struct FailsFourTimes {
    sink: MemorySink,
    tries: Arc<Mutex<HashMap<String, u32>>>,
}

impl Sink for FailsFourTimes {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let tries = {
            let mut tries = self.tries.lock().unwrap();
            let tries = tries.entry(occurrence.message().to_owned()).or_default();
            *tries += 1;
            *tries
        };
        if tries < 5 {
            return Err(WriteError::transport("fake error"));
        }
        self.sink.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.sink.patch(occurrence).await
    }
}

/// client-go's test: 1,000 events at once, each failing four times; the sink and the logger lose
/// none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_lots_of_events() {
    let broadcaster =
        Broadcaster::with_options(BroadcasterOptions::default().sink(unfiltered())).unwrap();
    let sink = MemorySink::new();
    let tries = Arc::new(Mutex::new(HashMap::new()));
    broadcaster.start_recording_to_sink(FailsFourTimes {
        sink: sink.clone(),
        tries: Arc::clone(&tries),
    });
    let logger = broadcaster.start_logging(|_| {});
    let recorder = broadcaster.recorder(source());
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let recorder = &recorder;
            scope.spawn(move || {
                for number in (thread * 100)..(thread * 100 + 100) {
                    let object = pod(&format!("foo-{number}"), "bar");
                    recorder.event(&object, Normal, &format!("Reason-{number}"), number);
                }
            });
        }
    });
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!((report.delivered, report.pending), (1_000, 0), "{report}");
    assert_eq!(logger.counts().delivered, 1_000);
    let messages: HashSet<_> = sink
        .events()
        .iter()
        .map(|event| event.message.clone())
        .collect();
    assert_eq!(messages.len(), 1_000);
    assert!(tries.lock().unwrap().values().all(|tries| *tries == 5));
}

/// The default broadcaster takes a burst of 20,000 distinct events, of which client-go delivers
/// 1,001.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_20_000_arrives() {
    let broadcaster = Broadcaster::new();
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    for number in 0..20_000 {
        recorder.event(&pod(&format!("foo-{number}"), ""), Normal, "Started", "up");
    }
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.offered, report.delivered), (20_000, 20_000));
    assert_eq!(sink.events().len(), 20_000);
}

fn forbidden() -> WriteError {
    let failure = StatusFailure {
        code: 403,
        reason: "Forbidden".to_owned(),
        ..StatusFailure::default()
    };
    WriteError::status(failure, "may not create events")
}

#[tokio::test]
async fn every_loss_has_its_cause() {
    let options = BroadcasterOptions::default().sink(
        SinkOptions::default()
            .delivery(DeliveryOptions::default().workers(1).pending_events_max(3)),
    );
    let (broadcaster, recorder, _hand) = manual(options);
    let sink = MemorySink::new();
    sink.answer_next([SinkAnswer::Fail(forbidden())]);
    broadcaster.start_recording_to_sink(sink.clone());

    recorder.event(&None::<tidings::Reference>, Normal, "Refused", "");
    let held = sink.hold();
    for number in 0..5 {
        recorder.event(&pod(&format!("foo-{number}"), ""), Normal, "Started", "up");
    }
    // One event is being written, two wait, two do not fit. Then come thirty of one kind, of which
    // the budget admits 25.
    while broadcaster.report().dropped.get(DropCause::QueueFull) < 2 {
        tokio::task::yield_now().await;
    }
    drop(held);
    while broadcaster.report().pending > 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..30 {
        recorder.event(&pod("bar", ""), Warning, "BackOff", "again");
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    let mut dropped: Vec<_> = report.dropped.iter().collect();
    dropped.sort();
    assert_eq!(
        dropped,
        [
            (DropCause::QueueFull, 2),
            (DropCause::InvalidReference, 1),
            (DropCause::RejectedForbidden, 1),
        ]
    );
    assert_eq!((report.offered, report.pending), (36, 0));
    assert_eq!(report.filtered, 5, "held back, and counted");
    assert_eq!(report.delivered + report.aggregated, 27);
    let backoff = sink
        .events()
        .into_iter()
        .find(|event| event.reason.as_deref() == Some("BackOff"));
    assert_eq!(
        backoff.unwrap().count,
        Some(30),
        "what is merged or held back is counted"
    );
}

/// Events merged into a write share its outcome.
#[tokio::test]
async fn what_is_merged_is_lost_with_the_write_it_was_merged_into() {
    let options = SinkOptions::default().delivery(DeliveryOptions::default().workers(1));
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    sink.answer_next([SinkAnswer::Serve, SinkAnswer::Fail(forbidden())]);
    broadcaster.start_recording_to_sink(sink.clone());
    // The task runs only after all events are recorded, and takes them at once. Events about one
    // pod become one write, the second.
    for pod in [pod("foo", ""), pod("bar", "")] {
        for _ in 0..20 {
            recorder.event(&pod, Warning, "BackOff", "again");
        }
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(sink.calls().len(), 2);
    assert_eq!((report.delivered, report.aggregated), (1, 19), "{report}");
    assert_eq!(
        report.dropped.get(DropCause::RejectedForbidden),
        20,
        "{report}"
    );
}

/// A sink that panics.
struct Panicking;

impl Sink for Panicking {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        assert_ne!(occurrence.message(), "panic", "meant to panic");
        Ok(())
    }

    async fn patch(&self, _: &Occurrence) -> Result<(), WriteError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_sink_that_panics_loses_that_event_only() {
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(Panicking);
    let recorder = broadcaster.recorder(source());
    for message in ["fine", "panic", "fine too"] {
        recorder.event(&pod(message, ""), Normal, "Started", message);
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.delivered, 2);
    assert_eq!(report.dropped.get(DropCause::InvalidRequest), 1);
    assert_adds_up(&report);
}

/// A sink that panics at every question, before it returns a future.
struct Unaskable(MemorySink);

impl Sink for Unaskable {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.0.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.0.patch(occurrence).await
    }

    fn serves(&self, _: EventApi) -> impl Future<Output = Result<bool, WriteError>> + Send {
        assert!(self.0.forgotten() > 0, "meant to panic");
        std::future::ready(Ok(true))
    }

    fn check(&self, _: EventApi) -> impl Future<Output = Result<(), WriteError>> + Send {
        assert!(self.0.forgotten() > 0, "meant to panic");
        std::future::ready(Ok(()))
    }
}

#[tokio::test]
async fn a_sink_that_panics_when_it_is_asked_is_written_to() {
    let options = SinkOptions::default().events_v1_if_served(SeriesOptions::default());
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(Unaskable(sink.clone()));
    recorder.event(&pod("foo", "bar"), Normal, "Started", "up");
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(sink.events().len(), 1);
}

/// A slow sink does not delay a quick one, and each has its own counts.
#[tokio::test]
async fn sinks_are_independent() {
    let broadcaster = Broadcaster::new();
    let (slow, quick) = (MemorySink::new(), MemorySink::new());
    let held = slow.hold();
    let slow_watch = broadcaster.start_recording_to_sink(slow.clone());
    let quick_watch = broadcaster.start_recording_to_sink(quick.clone());
    let recorder = broadcaster.recorder(source());
    for number in 0..100 {
        recorder.event(&pod(&format!("foo-{number}"), ""), Normal, "Started", "up");
    }
    while quick.events().len() < 100 {
        tokio::task::yield_now().await;
    }
    assert!(slow.events().is_empty());
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.delivered, 200);
    assert_eq!(slow_watch.counts(), quick_watch.counts());
}

/// Recorders notice a slow sink, and accepted events arrive.
#[tokio::test]
async fn a_slow_sink_is_felt_by_recorders_where_events_wait_for_room() {
    let queue = QueueOptions::default()
        .events_max(8)
        .when_full(WhenFull::Wait);
    let delivery = DeliveryOptions::default().pending_events_max(8);
    let options = BroadcasterOptions::default()
        .queue(queue)
        .sink(unfiltered().delivery(delivery));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let sink = MemorySink::new();
    let held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..200 {
        let object = pod(&format!("foo-{number}"), "");
        match recorder.build(&object, Normal, "Started").try_send() {
            Ok(()) => accepted += 1,
            Err(error) => {
                assert_eq!(error, RecordError::QueueFull);
                refused += 1;
            }
        }
        if number % 4 == 0 {
            // The task has every opportunity to take events that it should not take.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    // The bound applies to the queue, the incoming queue, the batch and the pending events.
    assert!(accepted <= 32, "{accepted}");
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, accepted, "{report}");
    assert_eq!(
        report.dropped.get(DropCause::QueueFull),
        refused,
        "{report}"
    );
}

/// An event for which no sink has room is not pending, even if other watchers got it.
#[tokio::test]
async fn an_event_that_every_sink_misses_is_refused() {
    let options = BroadcasterOptions::default().queue(QueueOptions::default().events_max(2));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let recorder = broadcaster.recorder(source());
    let try_send = || {
        let object = pod("foo", "");
        recorder.build(&object, Normal, "Started").try_send()
    };
    // No sink is started: handlers may miss events.
    broadcaster.start_event_watcher(|_| {});
    let told: Vec<_> = (0..3).map(|_| try_send()).collect();
    assert_eq!(told, [Ok(()), Ok(()), Ok(())]);
    broadcaster.start_recording_to_sink(MemorySink::new());
    // No task has run yet.
    let told: Vec<_> = (0..3).map(|_| try_send()).collect();
    assert_eq!(told, [Ok(()), Ok(()), Err(RecordError::QueueFull)]);
    assert_adds_up(&broadcaster.shutdown(LONG).await);
}

fn answer() -> impl Strategy<Value = SinkAnswer> {
    let status = |code: u16| {
        let failure = StatusFailure {
            code,
            ..StatusFailure::default()
        };
        WriteError::status(failure, "no")
    };
    prop_oneof![
        6 => Just(SinkAnswer::Serve),
        2 => Just(SinkAnswer::Fail(WriteError::transport("refused"))),
        1 => Just(SinkAnswer::Lose(WriteError::timeout("lost"))),
        1 => prop::sample::select(vec![400, 401, 403, 404, 409, 413, 422, 429, 500, 503])
            .prop_map(move |code| SinkAnswer::Fail(status(code))),
    ]
}

#[derive(Clone, Debug)]
struct Load {
    answers: Vec<SinkAnswer>,
    threads: usize,
    events: usize,
    objects: usize,
    queue: usize,
    pending: usize,
    waits: bool,
    coalesce: bool,
    holds: bool,
}

fn load() -> impl Strategy<Value = Load> {
    (
        prop::collection::vec(answer(), 0..60),
        1..4_usize,
        1..80_usize,
        1..12_usize,
        1..100_usize,
        1..100_usize,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(answers, threads, events, objects, queue, pending, waits, coalesce, holds)| Load {
                answers,
                threads,
                events,
                objects,
                queue,
                pending,
                waits,
                coalesce,
                holds,
            },
        )
}

/// Records from several threads while a shutdown runs, and compares the report with what the sink
/// really holds.
async fn run(load: Load) {
    let queue = QueueOptions::default()
        .events_max(load.queue)
        .when_full(if load.waits {
            WhenFull::Wait
        } else {
            WhenFull::Drop
        });
    let sink_options = unfiltered();
    let delivery = DeliveryOptions::default()
        .workers(3)
        .pending_events_max(load.pending)
        .coalesce(load.coalesce)
        .retry(
            tidings::advanced::RetryPolicy::default()
                .tries_max(3)
                .backoff(tidings::advanced::Backoff::Constant(Duration::ZERO)),
        );
    let options = BroadcasterOptions::default()
        .queue(queue)
        .sink(sink_options.delivery(delivery));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    let sink = MemorySink::new();
    sink.answer_next(load.answers.clone());
    broadcaster.start_recording_to_sink(sink.clone());
    broadcaster.start_event_watcher(|_| {});
    let held = load.holds.then(|| sink.hold());
    let recorder = broadcaster.recorder(source());
    let recording: Vec<_> = (0..load.threads)
        .map(|_| {
            let recorder = recorder.clone();
            let (events, objects) = (load.events, load.objects);
            std::thread::spawn(move || {
                for number in 0..events {
                    let object = pod(&format!("foo-{}", number % objects), "");
                    recorder.event(&object, Normal, "Counted", "again");
                }
            })
        })
        .collect();
    let deadline = if load.holds {
        Duration::from_millis(5)
    } else {
        LONG
    };
    let report = broadcaster.shutdown(deadline).await;
    for thread in recording {
        thread.join().unwrap();
    }
    drop(held);
    assert_adds_up(&report);
    let after = broadcaster.report();
    assert_adds_up(&after);
    assert_eq!(
        after.offered as usize,
        load.threads * load.events,
        "{load:?}"
    );
    assert_eq!(
        after.offered - report.offered,
        after.dropped.get(DropCause::Stopped) - report.dropped.get(DropCause::Stopped)
    );
    if load.holds {
        assert_eq!(report.delivered, 0);
        return;
    }
    assert_eq!(report.pending, 0, "{load:?}");
    // A count is never greater than the number of recorded events, and no event is stored twice.
    let mut seen: HashMap<Option<String>, i64> = HashMap::new();
    for event in sink.events() {
        *seen.entry(event.involved_object.name).or_default() += i64::from(event.count.unwrap_or(0));
    }
    let total: i64 = seen.values().sum();
    assert!(total as u64 <= report.offered, "{seen:?} of {report}");
    if load.answers.is_empty() && report.dropped.total() == 0 {
        assert_eq!(total as u64, report.delivered + report.aggregated);
        assert_eq!(sink.events().len(), seen.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn counts_add_up_under_load_faults_and_shutdown(load in load()) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run(load));
    }
}

/// The outcome of a write decides about the next one: a repeat of a stored event patches it, even
/// after a repeat was refused; a repeat of an event that was never stored creates it, with its true
/// count.
#[tokio::test]
async fn repeats_follow_what_is_in_the_sink() {
    use SinkVerb::{Create, Patch};
    let fail = || SinkAnswer::Fail(forbidden());
    let rows = [
        (
            vec![SinkAnswer::Serve, fail()],
            [Create, Patch, Patch],
            Some(3),
        ),
        (vec![fail()], [Create, Create, Patch], Some(3)),
        (vec![fail(), fail()], [Create, Create, Create], Some(3)),
    ];
    for (answers, verbs, count) in rows {
        let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
        let sink = MemorySink::new();
        sink.answer_next(answers);
        broadcaster.start_recording_to_sink(sink.clone());
        for recorded in 1..=3 {
            hand.advance(Duration::from_secs(1));
            recorder.event(&pod("foo", "bar"), Warning, "BackOff", "again");
            while broadcaster.report().offered < recorded || broadcaster.report().pending > 0 {
                tokio::task::yield_now().await;
            }
        }
        let report = broadcaster.shutdown(LONG).await;
        assert_adds_up(&report);
        let asked: Vec<_> = sink.calls().iter().map(|call| call.verb).collect();
        assert_eq!(asked, verbs);
        assert_eq!(sink.events().len(), 1);
        assert_eq!(sink.events()[0].count, count);
    }
}
