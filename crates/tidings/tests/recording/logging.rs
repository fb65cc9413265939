//! Logs of watchers, and of the library itself.

use std::io::Write;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use tidings::EventType::{Normal, Warning};
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, MemorySink, SinkAnswer, StatusFailure, WriteError,
};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use super::{LONG, manual, pod, source};

/// A log whose lines a test can read.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Logs this thread at every level until the guard is dropped.
    pub(super) fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The structured half of client-go's TestEventf.
#[tokio::test]
async fn structured_lines_have_client_go_s_fields() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    broadcaster.start_recording_to_sink(MemorySink::new());
    broadcaster.start_structured_logging();
    let container = pod("foo", "bar").with_field_path("spec.containers[2]");
    recorder.event(&container, Normal, "Started", "some verbose message: 1");
    broadcaster.shutdown(LONG).await;
    broadcaster.start_structured_logging();
    assert_eq!(
        log.lines(),
        [
            r#"INFO Event occurred object=baz/foo fieldPath="spec.containers[2]" kind="Pod" apiVersion="v1" type="Normal" reason="Started" note="some verbose message: 1""#,
            "ERROR Unable start event watcher (will not retry!) error=broadcaster already stopped",
        ]
    );
}

#[tokio::test]
async fn structured_lines_have_action_and_related_object_where_there_are_some() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    broadcaster.start_structured_logging();
    let builder = recorder.build(&pod("foo", ""), Normal, "Bound");
    builder.action("Binding").related(&pod("bar", "")).send();
    broadcaster.shutdown(LONG).await;
    let expected = r#"type="Normal" reason="Bound" action="Binding" related=baz/bar note="""#;
    assert!(log.lines()[0].ends_with(expected), "{:?}", log.lines());
}

/// Lost permissions are logged, but not for every event.
#[tokio::test]
async fn a_flood_of_refusals_is_no_flood_of_lines() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let failure = StatusFailure {
        code: 403,
        ..StatusFailure::default()
    };
    let refusal = SinkAnswer::Fail(WriteError::status(failure, "no"));
    sink.answer_next(vec![refusal; 100]);
    broadcaster.start_recording_to_sink(sink);
    for number in 0..100 {
        recorder.event(&pod(&format!("foo-{number}"), ""), Normal, "Started", "m");
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.dropped.total(), 100);
    let errors = log
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("ERROR"));
    let told: Vec<_> = errors.map(|line| line.contains("dropped=64")).collect();
    // The first line, and then one whenever the number has doubled.
    assert_eq!(told, [false, false, false, false, false, false, true]);
}

/// One write may stand for several events: the line counts them all, and names the stored event, or
/// the event that would be stored.
#[tokio::test]
async fn a_lost_write_is_logged_with_all_its_events_under_the_stored_name() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    let sink = MemorySink::new();
    let failure = StatusFailure {
        code: 403,
        ..StatusFailure::default()
    };
    let refusal = SinkAnswer::Fail(WriteError::status(failure, "no"));
    broadcaster.start_recording_to_sink(sink.clone());
    let record = || recorder.event(&pod("foo", ""), Warning, "BackOff", "m");
    record();
    while broadcaster.report().delivered == 0 {
        tokio::task::yield_now().await;
    }
    // The sink's task runs only after all events are recorded, so they become one write.
    sink.answer_next([refusal]);
    for _ in 0..19 {
        record();
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.dropped.get(DropCause::RejectedForbidden), 19);
    let lines = log.lines();
    let line = lines.iter().find(|line| line.starts_with("ERROR")).unwrap();
    let name = sink.events()[0].metadata.name.clone().unwrap();
    assert!(line.contains(&format!("event=\"{name}\"")), "{line}");
    assert!(line.contains("object=baz/foo"), "{line}");
    assert!(line.contains("dropped=19 "), "{line}");
}

/// Warnings have a higher level, and a repeat is quiet for ten minutes, however often it comes.
#[tokio::test]
async fn structured_lines_have_the_level_of_their_type_and_repeats_are_quiet() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default());
    broadcaster.start_recording_to_sink(MemorySink::new());
    let watch = broadcaster.start_structured_logging();
    let mut handled = 0;
    // Each event is logged before the clock moves.
    let mut record = async |reason: &str, message: &str| {
        recorder.warning(&pod("foo", "bar"), reason, message);
        handled += 1;
        while watch.counts().delivered < handled {
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..3 {
        record("BackOff", "again").await;
        hand.advance(Duration::from_secs(299));
    }
    record("BackOff", "another").await;
    hand.advance(Duration::from_secs(2 * 299));
    record("BackOff", "again").await;
    record("BackOff", "again").await;
    recorder.normal(&pod("foo", "bar"), "Started", "up");
    broadcaster.shutdown(LONG).await;
    let lines: Vec<_> = log
        .lines()
        .iter()
        .map(|line| {
            let (level, _) = line.split_once(' ').unwrap();
            let (_, rest) = line.split_once("reason=").unwrap();
            format!("{level} {rest}")
        })
        .collect();
    assert_eq!(
        lines,
        [
            r#"WARN "BackOff" note="again""#,
            r#"DEBUG "BackOff" count=2 note="again""#,
            r#"DEBUG "BackOff" count=3 note="again""#,
            r#"WARN "BackOff" note="another""#,
            r#"WARN "BackOff" count=4 note="again""#,
            r#"DEBUG "BackOff" count=5 note="again""#,
            r#"INFO "Started" note="up""#,
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_recorded_is_logged_and_counted() {
    let (log, _guard) = Log::capture();
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default());
    broadcaster.start_recording_to_sink(MemorySink::new());
    let nothing = None::<tidings::Reference>;
    recorder.event(&nothing, Warning, "Failed", "no object");
    recorder
        .build(&nothing, Warning, "Failed")
        .message("none either")
        .send();
    recorder
        .build(&pod("foo", "bar"), Normal, "Bound")
        .related(&nothing)
        .send();
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.to_string().lines().count(), 2, "{report}");
    for _ in 0..4 {
        recorder.event(&pod("foo", "bar"), Normal, "Late", "after shutdown");
    }
    let option = "core::option::Option<tidings_core::reference::Reference>";
    let none = "there is no object to refer to: the given option is None";
    assert_eq!(
        log.lines(),
        [
            format!(
                "ERROR Could not construct reference, will not report event error={none} object=\"{option}\" eventType=\"Warning\" reason=\"Failed\" note=no object"
            ),
            format!(
                "ERROR Could not construct reference, will not report event error={none} object=\"{option}\" eventType=\"Warning\" reason=\"Failed\" note=none either"
            ),
            format!(
                "WARN Could not construct reference of related object, will report event without it error={none} object=\"{option}\" reason=\"Bound\""
            ),
            "ERROR Unable to record event (will not retry!) error=broadcaster already stopped dropped=1".to_owned(),
            "ERROR Unable to record event (will not retry!) error=broadcaster already stopped dropped=2".to_owned(),
            "ERROR Unable to record event (will not retry!) error=broadcaster already stopped dropped=4".to_owned(),
        ]
    );
}

#[tokio::test]
async fn dropping_the_last_handle_without_shutdown_warns() {
    let (log, _guard) = Log::capture();
    let broadcaster = Broadcaster::new();
    let seen = Arc::new(Barrier::new(2));
    let handled = Arc::clone(&seen);
    let watch = broadcaster.start_event_watcher(move |_| {
        handled.wait();
    });
    let recorder = broadcaster.recorder(source());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    let other = broadcaster.clone();
    drop(broadcaster);
    assert!(log.lines().is_empty(), "one is left");
    drop(other);
    assert_eq!(
        log.lines(),
        [
            "WARN event broadcaster dropped without shutdown: later events are not recorded, and pending ones are lost if the program ends now; keep a handle, and end with shutdown pending=0 unhandled=1"
        ]
    );
    // The watcher handles the recorded events, and ends.
    seen.wait();
    watch.ended().await;
    assert_eq!(watch.counts().delivered, 1);
}

/// The same event of another controller, or with another related object, is no repeat.
#[tokio::test]
async fn events_that_differ_in_source_or_related_object_are_no_repeats() {
    let (log, _guard) = Log::capture();
    let broadcaster = Broadcaster::new();
    broadcaster.start_recording_to_sink(MemorySink::new());
    broadcaster.start_structured_logging();
    for controller in ["one", "two"] {
        let recorder = broadcaster.recorder(controller);
        recorder.normal(&pod("foo", ""), "Bound", "m");
        for related in ["bar", "baz"] {
            let builder = recorder.build(&pod("foo", ""), Normal, "Bound");
            builder.message("m").related(&pod(related, "")).send();
        }
    }
    broadcaster.shutdown(LONG).await;
    let lines = log.lines();
    let levels: Vec<_> = lines
        .iter()
        .filter_map(|line| line.split_once(' '))
        .collect();
    assert!(
        levels.iter().all(|(level, _)| *level == "INFO"),
        "{lines:?}"
    );
    assert_eq!(levels.len(), 6);
}

/// The environment variable of the process of [`a_subscriber_that_comes_late_gets_all_lines`].
const LATE: &str = "TIDINGS_TEST_LATE_SUBSCRIBER";

/// Not a separate test: the process of [`a_subscriber_that_comes_late_gets_all_lines`], as a test
/// cannot install a subscriber for its whole process.
#[tokio::test]
async fn installs_its_subscriber_last() {
    if std::env::var_os(LATE).is_none() {
        return;
    }
    let broadcaster = Broadcaster::new();
    broadcaster.start_structured_logging();
    let sink = MemorySink::new();
    let refused = WriteError::transport("connection refused");
    sink.answer_next([SinkAnswer::Fail(refused)]);
    broadcaster.start_recording_to_sink(sink);
    tracing_subscriber::fmt().with_ansi(false).init();
    let recorder = broadcaster.recorder(source());
    recorder.warning(&pod("foo", ""), "BackOff", "m");
    broadcaster.shutdown(LONG).await;
}

#[test]
fn a_subscriber_that_comes_late_gets_all_lines() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "logging::installs_its_subscriber_last",
            "--exact",
            "--nocapture",
        ])
        .env(LATE, "1")
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    for line in ["Event occurred", "Unable to write event"] {
        assert!(log.contains(line), "{log}");
    }
}
