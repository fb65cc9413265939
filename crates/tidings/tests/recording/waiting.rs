//! Waiting for the outcome of one event, and the span in which an event was recorded.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidings::EventType::Warning;
use tidings::advanced::{DeliveryOptions, QueueOptions, SeriesOptions};
use tidings::{
    Acknowledgement, Broadcaster, BroadcasterOptions, DropCause, MemorySink, RecordError, Recorder,
    SinkAnswer, SinkOptions, SpillOptions, StatusFailure, WriteError,
};
use tracing_subscriber::fmt::MakeWriter;

use crate::{LONG, assert_adds_up, pod, source, unfiltered};

fn refused(code: u16) -> SinkAnswer {
    let failure = StatusFailure {
        code,
        ..StatusFailure::default()
    };
    SinkAnswer::Fail(WriteError::status(failure, "no"))
}

fn start(options: SinkOptions, sink: &MemorySink) -> (Broadcaster, Recorder) {
    let options = BroadcasterOptions::default().sink(options);
    let broadcaster = Broadcaster::with_options(options).unwrap();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    (broadcaster, recorder)
}

async fn wait(recorder: &Recorder, message: &str) -> Result<Acknowledgement, RecordError> {
    recorder
        .record_and_wait(&pod("web", "u"), Warning, "BackOff", message)
        .await
}

fn count(acknowledgement: Result<Acknowledgement, RecordError>) -> i32 {
    match acknowledgement.unwrap() {
        Acknowledgement::Delivered { count, .. } => count,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_waits_hears_what_became_of_that_event() {
    for series in [None, Some(SeriesOptions::default())] {
        let is_series = series.is_some();
        let options = match series {
            Some(series) => unfiltered().events_v1(series),
            None => unfiltered(),
        };
        let sink = MemorySink::new();
        let (broadcaster, recorder) = start(options, &sink);
        let first = wait(&recorder, "m").await.unwrap();
        let stored = &sink.events()[0];
        let expected = Acknowledgement::Delivered {
            namespace: "baz".to_owned(),
            name: stored.metadata.name.clone().unwrap(),
            count: 1,
        };
        assert_eq!(first, expected);
        assert_eq!(count(wait(&recorder, "m").await), 2);
        // A series has these delayed counts; a waiting caller is notified when the count is
        // written.
        for _ in 0..5 {
            recorder.event(&pod("web", "u"), Warning, "BackOff", "m");
        }
        assert_eq!(count(wait(&recorder, "m").await), 8);
        let stored = &sink.events()[0];
        let counted = if is_series {
            stored.series.as_ref().and_then(|series| series.count)
        } else {
            stored.count
        };
        assert_eq!(counted, Some(8));
        // Temporary failures are retried while a caller waits; final answers are returned.
        sink.answer_next([refused(503), refused(403)]);
        match wait(&recorder, "m").await.unwrap() {
            Acknowledgement::Dropped {
                cause: DropCause::RejectedForbidden,
                error: Some(error),
            } => assert_eq!(error.message, "no"),
            other => panic!("{other:?}"),
        }
        let report = broadcaster.shutdown(LONG).await;
        assert_adds_up(&report);
        assert_eq!((report.offered, report.pending), (9, 0), "{report}");
    }
}

/// No later event replaces an event with a waiting caller.
#[tokio::test]
async fn what_is_waited_for_is_written_by_itself() {
    let sink = MemorySink::new();
    let (broadcaster, recorder) = start(unfiltered(), &sink);
    let held = sink.hold();
    let waits: Vec<_> = (0..4)
        .map(|_| recorder.record_and_wait(&pod("web", "u"), Warning, "BackOff", "m"))
        .collect();
    drop(held);
    let mut counts = Vec::new();
    for wait in waits {
        counts.push(count(wait.await));
    }
    assert_eq!(counts, [1, 2, 3, 4]);
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!((report.delivered, sink.calls().len()), (4, 4), "{report}");
}

#[tokio::test]
async fn nobody_waits_for_ever() {
    let broadcaster = Broadcaster::new();
    let recorder = broadcaster.recorder(source());
    assert_eq!(wait(&recorder, "m").await, Err(RecordError::NoSink));
    // A handler is not a sink, however long it keeps the event.
    let _watcher = broadcaster.watch().unwrap();
    assert_eq!(wait(&recorder, "m").await, Err(RecordError::NoSink));

    let sink = MemorySink::new();
    let (broadcaster, recorder) = start(SinkOptions::default(), &sink);
    let _held = sink.hold();
    let waits = wait(&recorder, "m");
    let (acknowledgement, report) = tokio::join!(waits, broadcaster.shutdown(Duration::ZERO));
    assert_eq!(acknowledgement, Err(RecordError::Abandoned));
    assert_eq!(report.pending, 1);
    assert!(matches!(
        wait(&recorder, "m").await,
        Err(RecordError::Stopped(_))
    ));
    // The spam filter's budget is 25.
    let (broadcaster, recorder) = start(SinkOptions::default(), &MemorySink::new());
    for _ in 0..25 {
        recorder.event(&pod("web", "u"), Warning, "BackOff", "m");
    }
    match wait(&recorder, "m").await.unwrap() {
        Acknowledgement::Filtered { count: 26, .. } => {}
        other => panic!("{other:?}"),
    }
    // No event of this kind was written.
    let filtered = Acknowledgement::Dropped {
        cause: DropCause::SpamFiltered,
        error: None,
    };
    assert_eq!(wait(&recorder, "other").await, Ok(filtered));
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!((report.filtered, report.dropped.total()), (1, 1));
}

/// A watcher that only reads events delays no caller.
#[tokio::test]
async fn what_no_sink_had_room_for_is_said_at_once() {
    let options = BroadcasterOptions::default().queue(QueueOptions::default().events_max(1));
    let broadcaster = Broadcaster::with_options(options).unwrap();
    broadcaster.start_recording_to_sink(MemorySink::new());
    let mut watcher = broadcaster.watch().unwrap();
    let recorder = broadcaster.recorder(source());
    let first = recorder.record_and_wait(&pod("web", "u"), Warning, "BackOff", "first");
    assert!(watcher.try_recv().is_some());
    let second = recorder.record_and_wait(&pod("web", "u"), Warning, "BackOff", "second");
    let ended = tokio::time::timeout(LONG, async { (second.await, first.await) });
    let (second, first) = ended.await.expect("the watcher has it, and is no sink");
    assert_eq!(second, Err(RecordError::QueueFull));
    assert!(first.unwrap().is_written());
    assert_eq!(watcher.try_recv().unwrap().message(), "second");
}

/// Events on disk can be waited for, too.
#[tokio::test]
async fn what_waits_on_disk_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default().pending_events_max(8);
    let sink = MemorySink::new();
    let options = unfiltered()
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()));
    let (broadcaster, recorder) = start(options, &sink);
    let held = sink.hold();
    let waits: Vec<_> = (0..100)
        .map(|number| {
            let pod = pod(&format!("web-{number}"), "u");
            recorder.record_and_wait(&pod, Warning, "BackOff", number)
        })
        .collect();
    // Events fill the queue, and with it the memory.
    while sink.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(held);
    for wait in waits {
        let told = tokio::time::timeout(LONG, wait).await.unwrap();
        assert!(
            matches!(told, Ok(Acknowledgement::Delivered { .. })),
            "{told:?}"
        );
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.delivered, 100, "{report}");
}

#[tokio::test]
async fn with_two_sinks_the_worst_is_told() {
    let (good, bad) = (MemorySink::new(), MemorySink::new());
    let (broadcaster, recorder) = start(SinkOptions::default(), &good);
    broadcaster.start_recording_to_sink(bad.clone());
    bad.answer_next([refused(403)]);
    let told = wait(&recorder, "m").await.unwrap();
    assert!(!told.is_written(), "{told:?}");
    assert_eq!((good.events().len(), bad.events().len()), (1, 0));
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn what_is_logged_of_an_event_is_logged_in_its_span() {
    for follow in [false, true] {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        let _default = tracing::subscriber::set_default(subscriber);
        let options = BroadcasterOptions::default()
            .follow_spans(follow)
            .sink(unfiltered());
        let broadcaster = Broadcaster::with_options(options).unwrap();
        broadcaster.start_structured_logging();
        let sink = MemorySink::new();
        sink.answer_next([refused(503), refused(403)]);
        broadcaster.start_recording_to_sink(sink);
        let recorder = broadcaster.recorder(source());
        tracing::info_span!("reconcile", object = "web-7").in_scope(|| {
            recorder.event(&pod("web", "u"), Warning, "BackOff", "m");
        });
        broadcaster.shutdown(LONG).await;
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        for line in ["Event occurred", "may retry", "will not retry"] {
            let line = log.lines().find(|logged| logged.contains(line)).unwrap();
            assert_eq!(
                line.contains("reconcile{object=\"web-7\"}"),
                follow,
                "{line}"
            );
        }
    }
}
