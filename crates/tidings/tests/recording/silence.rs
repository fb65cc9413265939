//! What a program whose events do not arrive shows in its log and in the report.

use std::time::Duration;

use tidings::EventType::Warning;
use tidings::{Broadcaster, BroadcasterOptions, MemorySink, RecordError, SinkAnswer, WriteError};

use super::logging::Log;
use super::{LONG, manual, pod, source};

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
