//! Events on disk until their outcome is known: long outages, short shutdowns, and killed
//! processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1;
use tidings::EventType::Warning;
use tidings::advanced::{
    Backoff, DeliveryOptions, QueueOptions, RetryPolicy, SeriesOptions, WhenFull,
};
use tidings::{
    Broadcaster, BroadcasterOptions, DropCause, EventApi, Held, InvalidSinkOptions, MemorySink,
    Occurrence, Recorder, Reference, ReferenceFields, Sink, SinkAnswer, SinkOptions, SpillError,
    SpillOptions, StartSinkError, WriteError,
};
use tokio::sync::watch;

use crate::{LONG, assert_adds_up, manual, pod, source, unfiltered};

/// The environment variable with the spill's folder, for the process that is killed.
const FOLDER: &str = "TIDINGS_TEST_SPILL_FOLDER";

fn start(folder: &Path, options: SinkOptions, sink: &MemorySink) -> (Broadcaster, Recorder) {
    let broadcaster = Broadcaster::with_options(BroadcasterOptions::default()).unwrap();
    let options = options.spill(SpillOptions::new(folder));
    broadcaster
        .start_recording_to_sink_with(sink.clone(), options)
        .unwrap();
    let recorder = broadcaster.recorder(source());
    (broadcaster, recorder)
}

/// Waits for a change that another task or thread makes.
async fn until(is_so: impl Fn() -> bool) {
    let reached = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, reached).await.unwrap();
}

/// How often `text` occurs in the files of a spill.
fn on_disk(folder: &Path, text: &str) -> usize {
    let files = fs::read_dir(folder).unwrap();
    let files = files.filter_map(|file| fs::read(file.unwrap().path()).ok());
    files
        .map(|bytes| String::from_utf8_lossy(&bytes).matches(text).count())
        .sum()
}

/// The messages of stored events, which are numbers, in order of creation.
fn stored(sink: &MemorySink) -> Vec<usize> {
    let events = sink.events().into_iter();
    events
        .map(|event| event.message.unwrap().parse().unwrap())
        .collect()
}

#[tokio::test]
async fn an_outage_longer_than_the_memory_allows_loses_nothing() {
    const EVENTS: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default().pending_events_max(64);
    let sink = MemorySink::new();
    // One worker, so that the order of creation is the order of delivery.
    let delivery = delivery.workers(1);
    let (broadcaster, recorder) = start(folder.path(), unfiltered().delivery(delivery), &sink);
    let held = sink.hold();
    for number in 0..EVENTS {
        let name = format!("web-{number}");
        recorder.event(&pod(&name, ""), Warning, "BackOff", number);
        if number % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(broadcaster.report().pending, EVENTS as u64);
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, EVENTS as u64, "{report}");
    assert_eq!(stored(&sink), (0..EVENTS).collect::<Vec<_>>());
    // No event is left for a next process.
    let (broadcaster, _) = start(folder.path(), SinkOptions::default(), &sink);
    assert_eq!(broadcaster.shutdown(LONG).await.offered, 0);
}

/// Events without room on disk wait in the queue: nothing is lost, and none overtakes earlier
/// events.
#[tokio::test]
async fn an_outage_longer_than_the_disk_allows_changes_no_order() {
    const EVENTS: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default().pending_events_max(64).workers(1);
    let options = unfiltered()
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()).bytes_max(1 << 20));
    let sink = MemorySink::new();
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(sink.clone(), options)
        .unwrap();
    let recorder = broadcaster.recorder(source());
    let held = sink.hold();
    for number in 0..EVENTS {
        let name = format!("web-{number}");
        recorder.event(
            &pod(&name, ""),
            Warning,
            "BackOff",
            format_args!("{number:0>1000}"),
        );
        if number % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(broadcaster.report().pending, EVENTS as u64);
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, EVENTS as u64, "{report}");
    assert_eq!(stored(&sink), (0..EVENTS).collect::<Vec<_>>());
}

/// As events they would fit; as writes, which include the first event of their kind, they would
/// not.
#[tokio::test]
async fn what_would_not_fit_into_memory_as_writes_waits_on_disk() {
    const BYTES: usize = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default().pending_bytes_max(BYTES);
    let sink = MemorySink::new();
    let (broadcaster, recorder) = start(folder.path(), unfiltered().delivery(delivery), &sink);
    let mut watcher = broadcaster.watch().unwrap();
    let pod = |number: usize| pod(&format!("web-{number:04}"), "");
    recorder.event(&pod(0), Warning, "BackOff", "m");
    let events = BYTES / 2 / watcher.recv().await.unwrap().size();
    for number in 1..events {
        let written = recorder.record_and_wait(&pod(number), Warning, "BackOff", "m");
        assert!(written.await.unwrap().is_written());
    }
    let held = sink.hold();
    // The task runs only after all events are recorded, and takes them at once.
    for number in 0..events {
        recorder.event(&pod(number), Warning, "BackOff", "m");
    }
    until(|| sink.calls().len() > events).await;
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, 2 * events as u64, "{report}");
}

/// The shutdown does not wait for the pause to end when the server is back, although most writes
/// are on disk.
#[tokio::test]
async fn shutdown_does_not_sit_out_a_pause_before_what_is_on_disk() {
    const EVENTS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default().pending_events_max(16);
    let options = SinkOptions::default()
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()));
    let (broadcaster, recorder, _hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    let refused = || SinkAnswer::Fail(WriteError::transport("refused"));
    sink.answer_next(std::iter::repeat_with(refused).take(8));
    broadcaster.start_recording_to_sink(sink.clone());
    for number in 0..8 {
        recorder.event(
            &pod(&format!("web-{number}"), ""),
            Warning,
            "BackOff",
            number,
        );
    }
    until(|| sink.calls().len() >= 8).await;
    for number in 8..EVENTS {
        recorder.event(
            &pod(&format!("web-{number}"), ""),
            Warning,
            "BackOff",
            number,
        );
    }
    until(|| on_disk(folder.path(), r#""reason":"BackOff""#) >= EVENTS).await;
    // The clock stands still: only the end of the waits can lead to another try.
    let report = tokio::time::timeout(LONG, broadcaster.shutdown(LONG)).await;
    let report = report.expect("what waits is tried at once");
    assert_adds_up(&report);
    assert_eq!(report.delivered, EVENTS as u64, "{report}");
}

#[tokio::test]
async fn what_a_shutdown_had_no_time_for_is_delivered_by_the_next_process() {
    for series in [None, Some(SeriesOptions::default())] {
        let options = || match series.clone() {
            Some(series) => SinkOptions::default().events_v1(series),
            None => SinkOptions::default(),
        };
        let folder = tempfile::tempdir().unwrap();
        let sink = MemorySink::new();
        // There is no retry before the end.
        let waits = DeliveryOptions::default().retry(RetryPolicy::default().backoff(
            Backoff::Exponential {
                first: LONG * 20,
                max: LONG * 20,
            },
        ));
        let (broadcaster, recorder) = start(folder.path(), options().delivery(waits), &sink);
        // The create succeeds, and its answer is lost.
        sink.answer_next([SinkAnswer::Lose(WriteError::timeout("silence"))]);
        recorder.event(&pod("web", "u"), Warning, "BackOff", "0");
        until(|| !sink.events().is_empty()).await;
        let held = sink.hold();
        for _ in 0..9 {
            recorder.event(&pod("web", "u"), Warning, "BackOff", "0");
        }
        while broadcaster.report().offered < 10 {
            tokio::task::yield_now().await;
        }
        let report = broadcaster.shutdown(Duration::from_millis(200)).await;
        assert_eq!(
            (report.delivered, report.dropped.total()),
            (0, 0),
            "{report}"
        );
        assert!(report.pending > 0, "{report}");
        drop(held);

        let (broadcaster, _) = start(folder.path(), options(), &sink);
        let report = broadcaster.shutdown(LONG).await;
        assert_adds_up(&report);
        assert_eq!((report.offered, report.pending), (10, 0), "{report}");
        assert_eq!(report.dropped.total(), 0, "{report}");
        // The first event existed already, and is recognised by its name.
        assert_eq!(sink.events().len(), 1);
        let event = &sink.events()[0];
        let counted = match &event.series {
            Some(series) => series.count,
            None => event.count,
        };
        assert_eq!(counted, Some(10));
    }
}

/// A sink that answers discovery only on demand.
struct Unsure {
    sink: MemorySink,
    answers: watch::Receiver<bool>,
}

impl Sink for Unsure {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.sink.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.sink.patch(occurrence).await
    }

    async fn serves(&self, _: EventApi) -> Result<bool, WriteError> {
        let _ = self.answers.clone().wait_for(|answers| *answers).await;
        Ok(true)
    }
}

/// Far more events than the queue holds, before the sink knows its API group; and the same in a
/// process that then dies.
#[tokio::test]
async fn events_go_to_disk_while_the_api_is_not_known() {
    const EVENTS: usize = 2000;
    let folder = tempfile::tempdir().unwrap();
    let sink = MemorySink::new();
    let start = || {
        // No event is lost, and the recorder returns that there is no room.
        let queue = QueueOptions::default()
            .events_max(64)
            .when_full(WhenFull::Wait);
        let options = BroadcasterOptions::default().queue(queue);
        let broadcaster = Broadcaster::with_options(options).unwrap();
        let (answer, answers) = watch::channel(false);
        let options = unfiltered()
            .events_v1_if_served(SeriesOptions::default())
            .spill(SpillOptions::new(folder.path()));
        let sink = Unsure {
            sink: sink.clone(),
            answers,
        };
        let watch = broadcaster
            .start_recording_to_sink_with(sink, options)
            .unwrap();
        (broadcaster, watch, answer)
    };
    let record = async |broadcaster: &Broadcaster, numbers: std::ops::Range<usize>| {
        let recorder = broadcaster.recorder(source());
        for number in numbers {
            let pod = pod(&format!("web-{number}"), "");
            // The queue is full only until the task has its turn.
            while recorder
                .build(&pod, Warning, "BackOff")
                .message(number)
                .try_send()
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if number % 32 == 0 {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
    };
    let (broadcaster, _, answer) = start();
    tokio::time::timeout(LONG, record(&broadcaster, 0..EVENTS))
        .await
        .expect("the queue is emptied to disk");
    let on_disk = async |number: usize| {
        let last = format!(r#""message":"{number}""#);
        let is_there = || {
            let mut files = fs::read_dir(folder.path()).unwrap();
            files.any(|file| {
                let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(&last)
            })
        };
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, on_disk(EVENTS - 1))
        .await
        .expect("all are on disk");
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_eq!(sink.events().len(), 0);
    assert_eq!(
        (report.delivered, report.pending),
        (0, EVENTS as u64),
        "{report}"
    );
    drop(answer);

    let (broadcaster, watch, answer) = start();
    record(&broadcaster, EVENTS..EVENTS + 10).await;
    answer.send_replace(true);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(
        (report.pending, report.delivered),
        (0, (EVENTS + 10) as u64)
    );
    assert!(watch.is_ended());
    let mut stored = stored(&sink);
    stored.sort_unstable();
    assert_eq!(stored, (0..EVENTS + 10).collect::<Vec<_>>());

    // No event is waiting, so the shutdown does not wait.
    let (broadcaster, watch, _answer) = start();
    watch.stop();
    tokio::time::timeout(LONG, watch.ended()).await.unwrap();
    let (broadcaster, _) = (start().0, broadcaster);
    let report = tokio::time::timeout(LONG / 2, broadcaster.shutdown(LONG)).await;
    assert_eq!(report.unwrap().offered, 0);
}

#[tokio::test]
async fn a_spill_that_cannot_be_used_is_said_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let (broadcaster, _) = start(folder.path(), SinkOptions::default(), &MemorySink::new());
    let refused = |folder: &Path| {
        let options = SinkOptions::default().spill(SpillOptions::new(folder));
        let watch = broadcaster.start_recording_to_sink_with(MemorySink::new(), options);
        watch.err()
    };
    let in_use = SpillError::InUse {
        folder: folder.path().to_owned(),
    };
    assert_eq!(
        refused(folder.path()),
        Some(StartSinkError::Options(InvalidSinkOptions::Spill(in_use)))
    );
    let file = folder.path().join("lock");
    assert!(matches!(
        refused(&file),
        Some(StartSinkError::Options(InvalidSinkOptions::Spill(
            SpillError::Io { .. }
        )))
    ));
}

/// Starts a broadcaster that uses a folder, and has an event there which its sink does not answer.
async fn occupy(folder: &Path) -> (Broadcaster, Held) {
    let sink = MemorySink::new();
    let (broadcaster, recorder) = start(folder, SinkOptions::default(), &sink);
    let held = sink.hold();
    recorder.event(&pod("left", ""), Warning, "BackOff", 0);
    until(|| on_disk(folder, "left") > 0).await;
    (broadcaster, held)
}

/// A start that cannot return an error records anyway, and writes to disk once the folder is free.
#[tokio::test]
async fn a_spill_that_cannot_be_used_does_not_end_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (first, held) = occupy(folder.path()).await;

    let options = SinkOptions::default().spill(SpillOptions::new(folder.path()));
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    let watch = broadcaster.start_recording_to_sink(sink.clone());
    let written = recorder.record_and_wait(&pod("web-1", ""), Warning, "BackOff", 1);
    let written = tokio::time::timeout(LONG, written).await.unwrap();
    assert!(written.unwrap().is_written());
    assert_eq!(on_disk(folder.path(), "web-1"), 0);

    let report = first.shutdown(Duration::ZERO).await;
    assert_eq!(report.pending, 1, "{report}");
    drop(held);
    hand.advance(Duration::from_secs(5));
    // The events of the earlier process are delivered without a new event.
    until(|| sink.events().len() >= 2).await;
    let held = sink.hold();
    recorder.event(&pod("web-2", ""), Warning, "BackOff", 2);
    until(|| on_disk(folder.path(), "web-2") > 0).await;
    drop(held);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!((report.offered, report.delivered), (3, 3), "{report}");
    assert!(watch.is_ended());
}

/// If the folder is free only near the end, the events of an earlier process are left to the next
/// one.
#[tokio::test]
async fn a_folder_that_is_free_near_the_end_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _held) = occupy(folder.path()).await;

    let options = SinkOptions::default().spill(SpillOptions::new(folder.path()));
    let (broadcaster, recorder, hand) = manual(BroadcasterOptions::default().sink(options));
    let sink = MemorySink::new();
    // The write is tried again at each step of the end: the start of the shutdown, the last event
    // of the queue, the last counts. After these it waits.
    let refused = || SinkAnswer::Fail(WriteError::transport("refused"));
    sink.answer_next(std::iter::repeat_with(refused).take(4));
    broadcaster.start_recording_to_sink(sink.clone());
    recorder.event(&pod("web", ""), Warning, "BackOff", 1);
    let tried = async |times: usize| until(|| sink.calls().len() >= times).await;
    tried(1).await;
    let ending = tokio::spawn({
        let broadcaster = broadcaster.clone();
        async move { broadcaster.shutdown(LONG).await }
    });
    tried(4).await;
    first.shutdown(Duration::ZERO).await;
    // The folder would be tried again now, as the write is.
    hand.advance(Duration::from_secs(5));
    let report = tokio::time::timeout(LONG, ending).await.unwrap().unwrap();
    assert_adds_up(&report);
    assert_eq!((report.offered, report.delivered), (1, 1), "{report}");

    let sink = MemorySink::new();
    let (third, _) = start(folder.path(), SinkOptions::default(), &sink);
    let report = third.shutdown(LONG).await;
    assert_eq!((report.offered, report.delivered), (1, 1), "{report}");
    assert_eq!(stored(&sink), [0]);
}

/// A sink that does not answer writes to one namespace.
struct Deaf(MemorySink);

impl Sink for Deaf {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        if occurrence.namespace() == "bad" {
            return Err(WriteError::timeout("silence"));
        }
        self.0.create(occurrence).await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.0.patch(occurrence).await
    }
}

/// More events fail than fit into memory, while others are written. Failing events are given up
/// when they fill the memory; otherwise all others would stay on disk.
#[tokio::test]
async fn events_that_fail_alone_keep_no_other_on_disk() {
    const EVENTS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let delivery = DeliveryOptions::default()
        .pending_events_max(64)
        .retry(RetryPolicy::default().backoff(Backoff::Constant(Duration::from_millis(1))));
    let options = unfiltered()
        .delivery(delivery)
        .spill(SpillOptions::new(folder.path()));
    let sink = MemorySink::new();
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(Deaf(sink.clone()), options)
        .unwrap();
    let recorder = broadcaster.recorder(source());
    for number in 0..EVENTS {
        for namespace in ["bad", "good"] {
            let pod = Reference::new(ReferenceFields {
                kind: "Pod",
                namespace,
                name: &format!("web-{number}"),
                ..ReferenceFields::default()
            });
            recorder.event(&pod, Warning, "BackOff", number);
        }
    }
    let written = async {
        while sink.events().len() < EVENTS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, written)
        .await
        .expect("all that can be written are");
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, EVENTS as u64, "{report}");
    let given_up = report.dropped.get(DropCause::RetriesExhausted);
    assert_eq!(report.dropped.total(), given_up, "{report}");
    assert!(given_up >= 36, "no more fit into memory: {report}");
}

/// Not a separate test: the process that [`a_killed_process_loses_nothing_of_what_was_spilled`]
/// kills.
#[tokio::test]
async fn records_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let sink = MemorySink::new();
    let _held = sink.hold();
    let (_broadcaster, recorder) = start(Path::new(&folder), unfiltered(), &sink);
    for number in 0_usize.. {
        let name = format!("web-{number}");
        recorder.event(&pod(&name, ""), Warning, "BackOff", number);
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_of_what_was_spilled() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["spill::records_until_it_is_killed", "--exact"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let on_disk = || on_disk(folder.path(), r#""reason":"BackOff""#);
    let spilled = async {
        while on_disk() < 300 {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "it continues until it is killed"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let spilled = tokio::time::timeout(LONG, spilled).await;
    child.kill().unwrap();
    child.wait().unwrap();
    spilled.expect("events come to lie on disk");
    let spilled = on_disk();

    let sink = MemorySink::new();
    let delivery = DeliveryOptions::default().workers(1);
    let (broadcaster, _) = start(folder.path(), unfiltered().delivery(delivery), &sink);
    let report = broadcaster.shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!(report.delivered, report.offered, "{report}");
    let stored = stored(&sink);
    // The record that was being written when the process died may be incomplete.
    assert!(stored.len() + 1 >= spilled, "{} of {spilled}", stored.len());
    assert_eq!(stored, (0..stored.len()).collect::<Vec<_>>());
}

/// Three times as many repeats as fit on disk, all before the next heartbeat or refresh; then the
/// process dies.
#[tokio::test]
async fn counts_that_wait_for_their_heartbeat_do_not_fill_the_disk() {
    counts_do_not_fill_the_disk(SinkOptions::default().events_v1(SeriesOptions::default())).await;
}

#[tokio::test]
async fn counts_that_wait_for_their_refresh_do_not_fill_the_disk() {
    counts_do_not_fill_the_disk(SinkOptions::default()).await;
}

async fn counts_do_not_fill_the_disk(options: SinkOptions) {
    const REPEATS: usize = 6000;
    let folder = tempfile::tempdir().unwrap();
    let sink = MemorySink::new();
    let start = || {
        let broadcaster = Broadcaster::new();
        let spill = SpillOptions::new(folder.path()).bytes_max(1 << 20);
        broadcaster
            .start_recording_to_sink_with(sink.clone(), options.clone().spill(spill))
            .unwrap();
        broadcaster
    };
    let broadcaster = start();
    let recorder = broadcaster.recorder(source());
    let mut barriers = 0;
    for number in 0..REPEATS {
        let name = format!("web-{}", number % 3);
        recorder.event(&pod(&name, ""), Warning, "BackOff", "m");
        if number % 100 == 99 {
            // Earlier events are on disk when this event is written.
            let name = format!("barrier-{barriers}");
            let barrier = recorder.record_and_wait(&pod(&name, ""), Warning, "BackOff", "m");
            assert!(barrier.await.unwrap().is_written());
            barriers += 1;
        }
    }
    let writes = sink.calls().len() - barriers;
    assert!(writes < 100, "{writes} writes for {REPEATS} repeats");
    // No more events are written from memory.
    let held = sink.hold();
    broadcaster.shutdown(Duration::ZERO).await;
    drop(held);
    let report = start().shutdown(LONG).await;
    assert_adds_up(&report);
    assert_eq!((report.dropped.total(), report.pending), (0, 0), "{report}");
    let count = |event: v1::Event| {
        let series = event.series.and_then(|series| series.count);
        series.or(event.count).unwrap_or(1)
    };
    let counted: i32 = sink.events().into_iter().map(count).sum();
    assert_eq!(usize::try_from(counted).unwrap(), REPEATS + barriers);
}
