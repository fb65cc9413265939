//! Shutdown: client-go's TestBroadcasterShutdown, TestStartEventWatcherExitsOnDirectShutdown,
//! TestNonRacyShutdown and TestCancelEvent, and deadlines, which client-go does not have.

use std::sync::Arc;
use std::time::Duration;

use tidings::EventType::Normal;
use tidings::advanced::{DeliveryOptions, QueueOptions, SeriesOptions, WhenFull};
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, MemorySink, RecordError, SinkAnswer, SinkOptions,
    SpillOptions, StartSinkError, WriteError,
};
use tokio::sync::Notify;

use super::{LONG, assert_adds_up, manual, pod, source, unfiltered};

#[tokio::test]
async fn test_broadcaster_shutdown() {
    let broadcaster = Broadcaster::new();
    let (sink, handler) = (
        broadcaster.start_recording_to_sink(MemorySink::new()),
        broadcaster.start_structured_logging(),
    );
    let cancelled = Arc::new(Notify::new());
    let signal = Arc::clone(&cancelled);
    broadcaster.shutdown_on(async move { signal.notified().await }, LONG);
    assert!(!sink.is_ended() && !handler.is_ended());
    cancelled.notify_one();
    sink.ended().await;
    handler.ended().await;
    // The test's runtime does not wait for tasks: if a task were left, its handle would not have
    // ended.
    assert!(broadcaster.watch().is_err());
    assert!(broadcaster.shutdown(LONG).await.is_complete());
}

#[tokio::test]
async fn test_start_event_watcher_exits_on_direct_shutdown() {
    let broadcaster = Broadcaster::new();
    let watch = broadcaster.start_structured_logging();
    broadcaster.shutdown(LONG).await;
    assert!(watch.is_ended());
    assert!(broadcaster.start_event_watcher(|_| {}).is_ended());
    assert!(
        broadcaster
            .start_recording_to_sink(MemorySink::new())
            .is_ended()
    );
    let error = broadcaster
        .start_recording_to_sink_with(MemorySink::new(), SinkOptions::default())
        .unwrap_err();
    assert!(matches!(error, StartSinkError::Stopped(_)), "{error}");
}

#[test]
fn test_non_racy_shutdown() {
    let broadcaster = Broadcaster::new();
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    std::thread::scope(|scope| {
        for number in 0..100 {
            let recorder = &recorder;
            scope.spawn(move || {
                recorder.event(
                    &pod(&format!("pod-{number}"), ""),
                    Normal,
                    "Started",
                    "blah",
                );
            });
        }
    });
    let report = futures::executor::block_on(broadcaster.shutdown(LONG));
    assert_eq!((report.offered, report.delivered), (100, 100));
    assert_eq!(sink.events().len(), 100);
}

#[tokio::test]
async fn calls_after_shutdown_are_counted_and_say_so() {
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    broadcaster.shutdown(LONG).await;
    recorder.event(&pod("foo", "bar"), Normal, "Late", "");
    let error = recorder
        .build(&pod("foo", "bar"), Normal, "Late")
        .try_send()
        .unwrap_err();
    assert!(matches!(error, RecordError::Stopped(_)), "{error}");
    let report = broadcaster.report();
    assert_eq!(report.dropped.get(DropCause::Stopped), 2);
    assert_adds_up(&report);
}

/// Every call returns the same report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_gets_the_same_report() {
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(MemorySink::new());
    let recorder = broadcaster.recorder(source());
    for number in 0..50 {
        recorder.event(&pod(&format!("pod-{number}"), ""), Normal, "Started", "");
    }
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let broadcaster = broadcaster.clone();
            tokio::spawn(async move { broadcaster.shutdown(LONG).await })
        })
        .collect();
    let first = broadcaster.shutdown(LONG).await;
    assert_eq!(first.delivered, 50);
    for caller in callers {
        assert_eq!(caller.await.unwrap(), first);
    }
}

/// Waits until `sink` got this number of requests.
async fn asked(sink: &MemorySink, times: usize) {
    while sink.calls().len() < times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn at_the_deadline_what_is_left_is_pending_and_requests_are_cancelled() {
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default().sink(unfiltered()));
    let sink = MemorySink::new();
    let watch = broadcaster.start_recording_to_sink(sink.clone());
    let held = sink.hold();
    for number in 0..20 {
        recorder.event(&pod(&format!("pod-{number}"), ""), Normal, "Started", "");
    }
    asked(&sink, 8).await;
    let shutdown = tokio::spawn({
        let broadcaster = broadcaster.clone();
        async move { broadcaster.shutdown(Duration::from_secs(5)).await }
    });
    while broadcaster.watch().is_ok() {
        tokio::task::yield_now().await;
    }
    hand.advance(Duration::from_millis(4_999));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!watch.is_ended() && !shutdown.is_finished());
    hand.advance(Duration::from_millis(1));
    let report = shutdown.await.unwrap();
    assert_eq!(
        (report.offered, report.delivered, report.pending),
        (20, 0, 20)
    );
    assert_adds_up(&report);
    assert!(watch.is_ended());
    drop(held);
    assert!(sink.events().is_empty(), "the requests were cancelled");
    assert_eq!(sink.calls().len(), 8, "as many as there are workers");
}

/// client-go's TestCancelEvent: a waiting retry is made at once, without further waits.
#[tokio::test]
async fn shutdown_does_not_sit_out_the_waits_between_tries() {
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    sink.answer_next([SinkAnswer::Fail(WriteError::transport("refused"))]);
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    asked(&sink, 1).await;
    // The clock stands still: only the end of the waits can lead to another try.
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(sink.calls().len(), 2);
}

/// Events that wait for a retry fill the room, and more events wait for room: in the queue, or in
/// series.
#[tokio::test]
async fn shutdown_does_not_sit_out_the_waits_of_what_is_in_the_way() {
    const PODS: u64 = 40;
    for series in [None, Some(SeriesOptions::default())] {
        let delivery = DeliveryOptions::default().pending_events_max(8);
        let options = SinkOptions::default().delivery(delivery);
        let options = match series {
            Some(series) => options.events_v1(series),
            None => options,
        };
        let queue = QueueOptions::default().when_full(WhenFull::Wait);
        let options = BroadcasterOptions::default().sink(options).queue(queue);
        let (broadcaster, recorder, _hand) = manual(options);
        let sink = MemorySink::new();
        broadcaster.start_recording_to_sink(sink.clone());
        let record = |times: u64| {
            for number in 0..PODS * times {
                let pod = pod(&format!("pod-{}", number % PODS), "bar");
                recorder.event(&pod, Normal, "Started", "");
            }
        };
        // With series, all are series with delayed counts.
        record(3);
        while broadcaster.report().delivered < PODS {
            tokio::task::yield_now().await;
        }
        let before = sink.calls().len();
        sink.answer_next((0..4).map(|_| SinkAnswer::Fail(WriteError::transport("refused"))));
        for number in 0..PODS {
            recorder.event(&pod(&format!("new-{number}"), ""), Normal, "Started", "");
        }
        asked(&sink, before + 4).await;
        // The clock stands still: only the end of the waits can lead to another try.
        let report = tokio::time::timeout(LONG, broadcaster.shutdown(LONG)).await;
        let report = report.expect("what waits is tried at once");
        assert_adds_up(&report);
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.delivered + report.aggregated, 4 * PODS);
    }
}

#[tokio::test]
async fn a_dropped_shutdown_goes_on_without_its_caller() {
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let watch = broadcaster.start_recording_to_sink(sink.clone());
    let _held = sink.hold();
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    asked(&sink, 1).await;
    {
        let shutdown = broadcaster.shutdown(Duration::from_secs(5));
        let mut shutdown = std::pin::pin!(shutdown);
        assert!(futures::poll!(shutdown.as_mut()).is_pending());
    }
    while !watch.is_ended() {
        hand.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(broadcaster.shutdown(LONG).await.pending, 1);
}

#[tokio::test]
async fn the_deadline_of_a_dropped_shutdown_holds() {
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let held = sink.hold();
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    asked(&sink, 1).await;
    let mut first = Box::pin(broadcaster.shutdown(Duration::from_secs(5)));
    assert!(futures::poll!(first.as_mut()).is_pending());
    drop(first);
    let mut second = Box::pin(broadcaster.shutdown(Duration::ZERO));
    for _ in 0..100 {
        assert!(futures::poll!(second.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    drop(held);
    let report = second.await;
    assert_eq!((report.delivered, report.pending), (1, 0), "{report}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// The runtime of a sink ends: its events are dropped with that cause, and so are later ones, until
/// the sink is stopped.
#[test]
fn what_a_runtime_takes_with_it_is_dropped_and_counted() {
    for options in [QueueOptions::default(), {
        QueueOptions::default().when_full(WhenFull::Wait)
    }] {
        let gone = runtime();
        let broadcaster =
            Broadcaster::with_options(BroadcasterOptions::default().queue(options)).unwrap();
        let recorder = broadcaster.recorder(source());
        let record = || recorder.event(&pod("foo", "bar"), Normal, "Started", "");
        let (sink, handler) = gone.block_on(async {
            let sink = broadcaster.start_recording_to_sink(MemorySink::new());
            (sink, broadcaster.start_event_watcher(|_| {}))
        });
        record();
        drop(gone);
        assert!(sink.is_ended() && !handler.is_ended());
        let lost = || {
            let counts = sink.counts();
            assert_eq!((counts.delivered, counts.pending), (0, 0));
            let lost = counts.dropped.get(DropCause::RuntimeGone);
            assert_eq!(lost, counts.offered, "{counts}");
            lost
        };
        assert_eq!(lost(), 1, "what was queued");
        record();
        let error = recorder
            .build(&pod("foo", "bar"), Normal, "Started")
            .try_send();
        assert_eq!(error, Err(RecordError::RuntimeGone));
        assert_eq!(lost(), 3, "and what came after");

        // A running watcher gets all events, and nothing waits for the ended sinks.
        let lives = broadcaster.start_recording_to_sink(MemorySink::new());
        record();
        assert_eq!(lost(), 4);
        assert_adds_up(&broadcaster.report());
        sink.stop();
        record();
        let report = futures::executor::block_on(broadcaster.shutdown(LONG));
        assert_eq!(lives.counts().delivered + lives.counts().aggregated, 2);
        assert_eq!(lost(), 4);
        assert_eq!((report.offered, report.pending), (6, 0), "{report}");
        assert_eq!(report.dropped.get(DropCause::RuntimeGone), 4);
        // Handlers have their own threads.
        assert_eq!(handler.counts().delivered, 5);
        assert_adds_up(&report);
    }
}

/// Events on disk are not lost with the runtime: the next process delivers them. Later events are
/// lost.
#[test]
fn what_a_runtime_leaves_on_disk_is_pending() {
    let folder = tempfile::tempdir().unwrap();
    let gone = runtime();
    let broadcaster = Broadcaster::new();
    let recorder = broadcaster.recorder(source());
    let sink = MemorySink::new();
    let _held = sink.hold();
    let options = SinkOptions::default().spill(SpillOptions::new(folder.path()));
    let watch = gone.block_on(async {
        let watch = broadcaster
            .start_recording_to_sink_with(sink.clone(), options)
            .unwrap();
        recorder.event(&pod("foo", "bar"), Normal, "Started", "");
        while sink.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        watch
    });
    drop(gone);
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    let counts = watch.counts();
    assert_eq!((counts.offered, counts.pending), (2, 1), "{counts}");
    assert_eq!(counts.dropped.get(DropCause::RuntimeGone), 1);
    let report = futures::executor::block_on(broadcaster.shutdown(LONG));
    assert_adds_up(&report);

    // A runtime that ends before the sink has started loses the same events.
    let gone = runtime();
    let broadcaster = Broadcaster::new();
    let options = SinkOptions::default().spill(SpillOptions::new(folder.path()));
    let watch = gone.block_on(async {
        broadcaster
            .start_recording_to_sink_with(MemorySink::new(), options)
            .unwrap()
    });
    let recorder = broadcaster.recorder(source());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    drop(gone);
    let counts = watch.counts();
    assert_eq!((counts.offered, counts.pending), (2, 1), "{counts}");
    assert_eq!(counts.dropped.get(DropCause::RuntimeGone), 1);
}

/// A handler that never returns cannot be stopped, but can be abandoned.
#[test]
fn a_handler_that_hangs_holds_up_no_shutdown() {
    let broadcaster = Broadcaster::new();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    broadcaster.start_event_watcher(move |_| {
        let _ = receiver.recv();
    });
    let recorder = broadcaster.recorder(source());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    let report = futures::executor::block_on(broadcaster.shutdown(Duration::from_millis(1)));
    assert_eq!(report.handlers.pending, 1);
    drop(sender);
}
