//! What a program whose events do not arrive shows in its log and in the report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidings::EventType::Warning;
use tidings::{
    Broadcaster, BroadcasterOptions, MemorySink, Occurrence, RecordError, Sink, SinkAnswer,
    StatusFailure, WriteError,
};
use tokio::time::sleep;

use super::held_back::Switched;
use super::logging::Log;
use super::{LONG, manual, pod, source};

/// The number of lines that begin with `text`.
fn lines_of(log: &Log, text: &str) -> usize {
    let lines = log.lines();
    lines.iter().filter(|line| line.starts_with(text)).count()
}

const WORKS_AGAIN: &str = "INFO Writing events works again";

#[tokio::test]
async fn a_broadcaster_without_a_sink_says_so() {
    let (log, _guard) = Log::capture();
    let broadcaster = Broadcaster::new();
    let recorder = broadcaster.recorder(source());
    for _ in 0..3 {
        recorder.warning(&pod("foo", ""), "BackOff", "m");
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!((report.offered, report.unwritten), (0, 3));
    assert!(!report.is_complete());
    assert!(
        report
            .to_string()
            .contains("recorded while there was no sink: 3")
    );
    assert_eq!(
        log.lines(),
        [
            "WARN event recorded, but nothing writes it: call start_recording_to_sink on the broadcaster before recording events"
        ]
    );
}

/// The README's program without its sink: only the log shows that something is missing.
#[tokio::test]
async fn a_log_without_a_sink_says_so_once() {
    let (log, _guard) = Log::capture();
    let broadcaster = Broadcaster::new();
    broadcaster.start_structured_logging();
    let recorder = broadcaster.recorder(source());
    for reason in ["BackOff", "Killing"] {
        recorder.warning(&pod("foo", ""), reason, "m");
    }
    broadcaster.shutdown(LONG).await;
    let lines = log.lines();
    let said = |line: &&String| line.starts_with("WARN events are logged, but no sink writes them");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines.iter().filter(said).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_dropped_broadcaster_says_what_to_do_for_later_events() {
    let (log, _guard) = Log::capture();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(MemorySink::new());
    let recorder = broadcaster.recorder(source());
    drop(broadcaster);
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    let lines = log.lines();
    let [dropped, later] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        dropped.contains("later events are not recorded"),
        "{dropped}"
    );
    assert!(
        later.contains("the broadcaster was dropped: keep a handle"),
        "{later}"
    );
    let error = recorder
        .build(&pod("foo", ""), Warning, "BackOff")
        .try_send();
    assert_eq!(error, Err(RecordError::Dropped));
}

/// With a wrong token, port or certificate, the report says why events were not written, whatever
/// the deadline.
#[tokio::test]
async fn a_report_says_why_nothing_was_written() {
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let refused = SinkAnswer::Fail(WriteError::transport("connection refused"));
    sink.answer_next(vec![refused; 100]);
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    while sink.calls().is_empty() || broadcaster.report().last_error.is_none() {
        tokio::task::yield_now().await;
    }
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_eq!(report.pending, 1);
    let text = report.to_string();
    let (_, error) = text
        .split_once("\n  last error: create event baz/foo.")
        .unwrap();
    assert!(
        error.ends_with(" about Pod baz/foo: connection refused"),
        "{text}"
    );

    // No write has failed yet, but none was answered.
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let _held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    while sink.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let report = broadcaster.shutdown(Duration::ZERO).await;
    let error = "1 writes were not answered before the deadline";
    assert_eq!(report.last_error.as_deref(), Some(error));
}

#[tokio::test]
async fn an_outage_is_logged_when_it_begins_and_when_it_ends() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    for outage in 1..=2 {
        let refused = SinkAnswer::Fail(WriteError::transport("connection refused"));
        sink.answer_next(vec![refused; 3]);
        recorder.warning(&pod(&format!("foo-{outage}"), ""), "BackOff", "m");
        while broadcaster.report().delivered < outage {
            hand.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        hand.advance(Duration::from_secs(60));
    }
    broadcaster.shutdown(LONG).await;
    let lines = log.lines();
    let begins: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("WARN Unable to write event"))
        .collect();
    for outage in 1..=2 {
        let object = format!("object=\"baz/foo-{outage}\"");
        let begin = begins.iter().find(|line| line.contains(&object));
        let begin = begin.unwrap_or_else(|| panic!("{lines:?}"));
        assert!(
            begin.contains("verb=\"create\" event=\"baz/foo-"),
            "{begin}"
        );
    }
    let ends = lines
        .iter()
        .filter(|line| line.starts_with("INFO Writing events works again"));
    assert_eq!(ends.count(), 2, "{lines:?}");
}

#[tokio::test]
async fn a_write_without_an_answer_is_logged_after_five_seconds() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let _held = sink.hold();
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    while sink.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(log.lines().is_empty());
    hand.advance(Duration::from_secs(5));
    while broadcaster.report().last_error.is_none() {
        tokio::task::yield_now().await;
    }
    let lines = log.lines();
    let slow = "WARN The sink has not answered a write for 5 s (still waiting) verb=\"create\"";
    assert!(lines[0].starts_with(slow), "{lines:?}");
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert!(
        report.to_string().ends_with("no answer for 5 s"),
        "{report}"
    );
}

/// An outage that begins soon after another one, and lasts, is logged, too, and so is its end.
#[tokio::test(start_paused = true)]
async fn a_long_outage_is_logged_however_soon_after_another() {
    let (log, _guard) = Log::capture();
    let (sink, down) = (MemorySink::new(), Arc::new(AtomicBool::new(false)));
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(Switched(sink.clone(), Arc::clone(&down)));
    let recorder = broadcaster.recorder(source());
    for (name, seconds) in [("foo-1", 1), ("foo-2", 150)] {
        down.store(true, Ordering::Relaxed);
        recorder.warning(&pod(name, ""), "BackOff", "m");
        sleep(Duration::from_secs(seconds)).await;
        down.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(sink.events().len(), 2);
    let lines = log.lines();
    let ends = lines.iter().filter(|line| line.starts_with(WORKS_AGAIN));
    let seconds = ends.map(|line| {
        let (_, seconds) = line.split_once("seconds=").unwrap();
        seconds.parse::<f64>().unwrap()
    });
    let seconds: Vec<_> = seconds.collect();
    assert!(
        matches!(seconds[..], [blip, outage] if blip < 20. && outage >= 150.),
        "{seconds:?}"
    );
}

/// A sink that refuses every third event for its rate.
struct Limited(MemorySink, AtomicUsize);

impl Sink for Limited {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        if self.1.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            let failure = StatusFailure {
                code: 429,
                reason: "TooManyRequests".to_owned(),
                ..StatusFailure::default()
            };
            return Err(WriteError::status(failure, "limit reached"));
        }
        self.0.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.0.patch(occurrence).await
    }
}

/// A limit on the rate of events delays some of them; nothing stands still.
#[tokio::test(start_paused = true)]
async fn a_limit_on_the_rate_of_events_is_no_outage() {
    let (log, _guard) = Log::capture();
    let sink = MemorySink::new();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(Limited(sink.clone(), AtomicUsize::new(0)));
    let recorder = broadcaster.recorder(source());
    for number in 0..600 {
        recorder.warning(&pod(&format!("foo-{number}"), ""), "BackOff", "m");
        sleep(Duration::from_secs(1)).await;
    }
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(lines_of(&log, WORKS_AGAIN), 0);
    // Of all refusals, the log shows a sample.
    let warnings = lines_of(&log, "WARN");
    assert!((1..12).contains(&warnings), "{warnings} warnings");
}

/// Each time the sink hangs, one line says so, and one that it works again.
#[tokio::test(start_paused = true)]
async fn every_hang_is_logged_once() {
    let (log, _guard) = Log::capture();
    let sink = MemorySink::new();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    for hang in 1..=4 {
        let held = sink.hold();
        for number in 0..8 {
            recorder.warning(&pod(&format!("foo-{hang}-{number}"), ""), "BackOff", "m");
        }
        sleep(Duration::from_secs(20)).await;
        assert_eq!(
            lines_of(&log, "WARN The sink has not answered a write for 5 s"),
            hang
        );
        drop(held);
        sleep(Duration::from_secs(61)).await;
        assert_eq!(lines_of(&log, WORKS_AGAIN), hang);
    }
}

/// An hour with an outage of ten seconds in each minute: no event is lost, and the default log has
/// two lines for each outage, and few others.
#[tokio::test(start_paused = true)]
async fn an_hour_of_outages_shows_each_of_them() {
    let (log, _guard) = Log::capture();
    let (sink, down) = (MemorySink::new(), Arc::new(AtomicBool::new(false)));
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(Switched(sink.clone(), Arc::clone(&down)));
    let recorder = broadcaster.recorder(source());
    for second in 0..3600 {
        down.store(second % 60 < 10, Ordering::Relaxed);
        recorder.warning(&pod(&format!("foo-{second}"), ""), "BackOff", "m");
        sleep(Duration::from_secs(1)).await;
    }
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert_eq!(sink.events().len(), 3600);
    assert_eq!(lines_of(&log, WORKS_AGAIN), 60);
    let warnings = lines_of(&log, "WARN Unable to write event");
    assert!((60..80).contains(&warnings), "{warnings} warnings");
    let all = warnings + lines_of(&log, "INFO");
    assert_eq!(
        all,
        lines_of(&log, "WARN") + lines_of(&log, "INFO") + lines_of(&log, "ERROR")
    );
}

/// A program that handles events itself does without a sink.
#[tokio::test]
async fn events_that_the_program_handles_are_not_unwritten() {
    let (log, _guard) = Log::capture();
    for handles in [
        |broadcaster: &Broadcaster| drop(broadcaster.start_logging(|_| {})),
        |broadcaster: &Broadcaster| drop(broadcaster.start_event_watcher(|_| {})),
    ] {
        let broadcaster = Broadcaster::new();
        handles(&broadcaster);
        let recorder = broadcaster.recorder(source());
        recorder.warning(&pod("foo", ""), "BackOff", "m");
        let report = broadcaster.shutdown(LONG).await;
        assert!(report.is_complete(), "{report}");
    }
    let broadcaster = Broadcaster::new();
    let mut watcher = broadcaster.watch().unwrap();
    let recorder = broadcaster.recorder(source());
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    assert!(watcher.try_recv().is_some());
    let report = broadcaster.shutdown(LONG).await;
    assert!(report.is_complete(), "{report}");
    assert!(log.lines().is_empty(), "{:?}", log.lines());
}
