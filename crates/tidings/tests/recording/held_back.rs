//! Repeats that the spam filter holds back: each is pending until its count is written, and is
//! counted as a loss if that never happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidings::EventType::Warning;
use tidings::advanced::{CorrelatorOptions, DeliveryOptions, RetryPolicy};
use tidings::{
    Acknowledgement, Broadcaster, BroadcasterOptions, DropCause, MemorySink, Occurrence, Recorder,
    Sink, SinkAnswer, SinkOptions, SpillOptions, StatusFailure, WriteError,
};

use super::logging::Log;
use super::{LONG, assert_adds_up, manual, pod, source};

/// Records 30 equal events: 25 are written, and the spam filter holds five back.
async fn thirty(broadcaster: &Broadcaster, recorder: &Recorder) {
    for _ in 0..25 {
        recorder.warning(&pod("foo", ""), "BackOff", "m");
    }
    while {
        let report = broadcaster.report();
        report.delivered + report.aggregated < 25
    } {
        tokio::task::yield_now().await;
    }
    five_more(recorder).await;
}

/// Records five repeats, and waits until they are held back.
async fn five_more(recorder: &Recorder) {
    for _ in 0..4 {
        recorder.warning(&pod("foo", ""), "BackOff", "m");
    }
    let last = recorder.record_and_wait(&pod("foo", ""), Warning, "BackOff", "m");
    match last.await.unwrap() {
        Acknowledgement::Filtered { count: 30, .. } => {}
        other => panic!("{other:?}"),
    }
}

/// The count that the sink shows for `name`.
fn count(sink: &MemorySink, name: &str) -> i32 {
    let events = sink.events().into_iter();
    let counts = events.filter(|event| event.involved_object.name.as_deref() == Some(name));
    counts.map(|event| event.count.unwrap_or(1)).sum()
}

#[tokio::test]
async fn a_count_that_no_write_brought_is_pending() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    thirty(&broadcaster, &recorder).await;
    let _held = sink.hold();
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_adds_up(&report);
    assert_eq!(count(&sink, "foo"), 25);
    assert_eq!((report.filtered, report.pending), (0, 5), "{report}");
    assert!(!report.is_complete());
    let lines = log.lines();
    assert!(
        lines.iter().any(|line| line.contains("pending=5")),
        "{lines:?}"
    );
}

/// A refused count is a loss with a cause, and is logged as one.
#[tokio::test]
async fn a_count_that_is_refused_is_dropped() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    thirty(&broadcaster, &recorder).await;
    let failure = StatusFailure {
        code: 403,
        reason: "Forbidden".to_owned(),
        ..StatusFailure::default()
    };
    sink.answer_next([SinkAnswer::Fail(WriteError::status(failure, "no"))]);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    let dropped = report.dropped.get(DropCause::RejectedForbidden);
    assert_eq!((dropped, report.filtered), (5, 0), "{report}");
    let lines = log.lines();
    let is_drop =
        |line: &&String| line.starts_with("ERROR Unable to write event (will not retry!)");
    let drop = lines.iter().find(is_drop);
    assert!(
        drop.is_some_and(|line| line.contains("dropped=5")),
        "{lines:?}"
    );
}

/// A sink that is out of reach while its switch is set.
pub(super) struct Switched(pub(super) MemorySink, pub(super) Arc<AtomicBool>);

impl Switched {
    fn reach(&self) -> Result<(), WriteError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(WriteError::transport("connection refused"));
        }
        Ok(())
    }
}

impl Sink for Switched {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.reach()?;
        self.0.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.reach()?;
        self.0.patch(occurrence).await
    }
}

/// An outage may outlast the tries of a refresh: the count is written after it anyway.
#[tokio::test(start_paused = true)]
async fn a_count_is_written_after_an_outage_of_any_length() {
    for minutes in [1, 5, 60] {
        let broadcaster = Broadcaster::new();
        let (sink, down) = (MemorySink::new(), Arc::new(AtomicBool::new(false)));
        broadcaster.start_recording_to_sink(Switched(sink.clone(), Arc::clone(&down)));
        let recorder = broadcaster.recorder(source());
        thirty(&broadcaster, &recorder).await;
        down.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
        let report = broadcaster.report();
        assert_eq!((count(&sink, "foo"), report.pending), (25, 5), "{report}");
        down.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(count(&sink, "foo"), 30, "after {minutes} minutes");
        let report = broadcaster.report();
        assert_eq!(report.filtered, 5, "{report}");
        assert!(report.is_complete(), "{report}");
    }
}

#[test]
fn a_count_that_goes_with_its_runtime_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let broadcaster = Broadcaster::new();
    let recorder = broadcaster.recorder(source());
    runtime.block_on(async {
        broadcaster.start_recording_to_sink(MemorySink::new());
        thirty(&broadcaster, &recorder).await;
    });
    drop(runtime);
    let report = broadcaster.report();
    assert_adds_up(&report);
    let gone = report.dropped.get(DropCause::RuntimeGone);
    assert_eq!((gone, report.filtered), (5, 0), "{report}");
}

/// A correlator that evicts a count writes it first.
#[tokio::test(start_paused = true)]
async fn a_count_that_is_evicted_is_written() {
    let options =
        SinkOptions::default().correlator(CorrelatorOptions::default().cache_entries_max(1));
    let broadcaster =
        Broadcaster::with_options(BroadcasterOptions::default().sink(options)).unwrap();
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    thirty(&broadcaster, &recorder).await;
    recorder.warning(&pod("bar", ""), "BackOff", "m");
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!((count(&sink, "foo"), count(&sink, "bar")), (30, 1));
    assert_eq!(report.filtered, 5, "{report}");
    assert!(report.is_complete(), "{report}");
}

/// Held-back events stay on disk until their count is written; the next process writes it.
#[tokio::test]
async fn a_held_back_event_outlives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let sink = MemorySink::new();
    let start = || {
        let broadcaster = Broadcaster::new();
        let options = SinkOptions::default().spill(SpillOptions::new(folder.path()));
        broadcaster
            .start_recording_to_sink_with(sink.clone(), options)
            .unwrap();
        broadcaster
    };
    let broadcaster = start();
    thirty(&broadcaster, &broadcaster.recorder(source())).await;
    let held = sink.hold();
    broadcaster.shutdown(Duration::ZERO).await;
    drop(held);
    let report = start().shutdown(LONG).await;
    assert_eq!(report.offered, 5, "{report}");
    assert!(report.is_complete(), "{report}");
    assert_eq!(count(&sink, "foo"), 30);
}

/// A sink that refuses its user while its switch is set, and counts these answers.
struct Refusing(MemorySink, Arc<AtomicBool>, Arc<AtomicUsize>);

impl Refusing {
    fn ask(&self) -> Result<(), WriteError> {
        if !self.1.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.2.fetch_add(1, Ordering::Relaxed);
        let failure = StatusFailure {
            code: 401,
            reason: "Unauthorized".to_owned(),
            ..StatusFailure::default()
        };
        Err(WriteError::status(failure, "no"))
    }
}

impl Sink for Refusing {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.ask()?;
        self.0.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.ask()?;
        self.0.patch(occurrence).await
    }
}

/// Counts that fill half of the disk are written early, but not again and again if that fails.
#[tokio::test]
async fn a_count_whose_early_write_failed_is_not_written_again_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let retry = RetryPolicy::client_go();
    let options = SinkOptions::default()
        .delivery(DeliveryOptions::default().retry(retry))
        .spill(SpillOptions::new(folder.path()).bytes_max(1 << 20));
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let (refuses, refused) = (Arc::default(), Arc::default());
    let sink = Refusing(
        MemorySink::new(),
        Arc::clone(&refuses),
        Arc::clone(&refused),
    );
    broadcaster
        .start_recording_to_sink_with(sink, options)
        .unwrap();
    thirty(&broadcaster, &recorder).await;
    refuses.store(true, Ordering::Relaxed);
    for number in 0..1700 {
        let last = recorder.record_and_wait(&pod("foo", ""), Warning, "BackOff", "m");
        let last = last.await.unwrap();
        assert!(matches!(last, Acknowledgement::Filtered { .. }), "{number}");
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    hand.advance(Duration::from_secs(31));
    while refused.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
}
