//! Handlers and raw watchers, with a runtime and without.

use std::sync::mpsc;

use futures::StreamExt;
use tidings::EventType::Normal;
use tidings::advanced::{QueueOptions, WhenFull};
use tidings::{Broadcaster, BroadcasterOptions};

use super::{LONG, assert_adds_up, manual, pod, source};

/// Without a runtime, handlers run on their own threads, and any executor can wait for the
/// shutdown.
#[test]
fn all_of_it_works_without_a_runtime() {
    let broadcaster = Broadcaster::new();
    let (sender, receiver) = mpsc::channel();
    broadcaster.start_event_watcher(move |event| {
        let thread = std::thread::current().name().map(str::to_owned);
        sender.send((event.message().to_owned(), thread)).unwrap();
    });
    let sink = tidings::MemorySink::new();
    broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    std::thread::scope(|scope| {
        for number in 0..4 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                let name = format!("pod-{number}");
                recorder.event(&pod(&name, ""), Normal, "Started", number);
            });
        }
    });
    let report = futures::executor::block_on(broadcaster.shutdown(LONG));
    assert_adds_up(&report);
    assert_eq!((report.delivered, report.handlers.delivered), (4, 4));
    assert!(report.is_complete());
    let mut seen: Vec<_> = receiver.into_iter().collect();
    seen.sort();
    let expected = ["0", "1", "2", "3"]
        .map(|message| (message.to_owned(), Some("tidings-handler".to_owned())));
    assert_eq!(seen, expected);
    assert_eq!(sink.events().len(), 4);
}

#[tokio::test]
async fn a_panicking_handler_ends_alone() {
    let broadcaster = Broadcaster::new();
    let mut panics_at = 3;
    let panicking = broadcaster.start_event_watcher(move |_| {
        panics_at -= 1;
        assert_ne!(panics_at, 0, "meant to panic");
    });
    let staying = broadcaster.start_event_watcher(|_| {});
    let recorder = broadcaster.recorder(source());
    for _ in 0..5 {
        recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    }
    panicking.ended().await;
    assert!(panicking.is_ended() && !staying.is_ended());
    assert_eq!(panicking.counts().delivered, 2);
    recorder.event(&pod("foo", "bar"), Normal, "Started", "");
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(staying.counts().delivered, 6);
    assert_eq!(report.handlers.pending, 3, "seen by nobody");
    assert_adds_up(&report);
}

#[tokio::test]
async fn a_stopped_watcher_sees_what_came_before_and_nothing_after() {
    let broadcaster = Broadcaster::new();
    let (sender, receiver) = mpsc::channel();
    let watch = broadcaster.start_event_watcher(move |event| {
        sender.send(event.message().to_owned()).unwrap();
    });
    let recorder = broadcaster.recorder(source());
    recorder.event(&pod("foo", "bar"), Normal, "Started", "before");
    drop(watch.clone());
    watch.stop();
    watch.stop();
    recorder.event(&pod("foo", "bar"), Normal, "Started", "after");
    watch.ended().await;
    assert_eq!(receiver.into_iter().collect::<Vec<_>>(), ["before"]);
    broadcaster.shutdown(LONG).await;
}

#[tokio::test]
async fn a_raw_watcher_is_read_one_by_one_in_batches_or_as_a_stream() {
    let broadcaster = Broadcaster::with_options(
        BroadcasterOptions::default().queue(QueueOptions::default().events_max(6)),
    )
    .unwrap();
    let mut watcher = broadcaster.watch().unwrap();
    let recorder = broadcaster.recorder(source());
    assert!(watcher.try_recv().is_none());
    for number in 0..7 {
        recorder.event(&pod("foo", "bar"), Normal, "Counted", number);
    }
    assert_eq!(watcher.recv().await.unwrap().message(), "0");
    let counts = watcher.counts();
    assert_eq!(
        (
            counts.offered,
            counts.delivered,
            counts.pending,
            counts.dropped.total()
        ),
        (7, 1, 5, 1)
    );
    assert_eq!(watcher.try_recv().unwrap().message(), "1");
    assert_eq!(watcher.next().await.unwrap().message(), "2");
    let mut batch = std::collections::VecDeque::new();
    assert!(watcher.recv_all(&mut batch).await);
    let messages: Vec<_> = batch.iter().map(tidings::Event::message).collect();
    assert_eq!(messages, ["3", "4", "5"]);
    recorder.event(&pod("foo", "bar"), Normal, "Counted", "last");
    watcher.stop();
    let prefix = Vec::from(std::mem::take(&mut batch));
    let mut late = broadcaster.watch_with_prefix(prefix).unwrap();
    broadcaster.shutdown(LONG).await;
    assert_eq!(watcher.recv().await.unwrap().message(), "last");
    assert!(watcher.recv().await.is_none());
    let rest: Vec<_> = late
        .by_ref()
        .map(|event| event.message().to_owned())
        .collect()
        .await;
    assert_eq!(rest, ["3", "4", "5"]);
    let stopped = broadcaster.watch().unwrap_err();
    assert_eq!(stopped.to_string(), "broadcaster already stopped");
}

/// In client-go this blocks for ever: a handler of a full watcher that records, watches and shuts
/// down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_do_anything_with_its_broadcaster() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        let (broadcaster, recorder, _hand) = manual(
            BroadcasterOptions::default()
                .queue(QueueOptions::default().events_max(1).when_full(when_full)),
        );
        let inner = (broadcaster.clone(), recorder.clone());
        let mut left = 20;
        let watch = broadcaster.start_event_watcher(move |_| {
            let (broadcaster, recorder) = &inner;
            for _ in 0..3 {
                recorder.event(&pod("foo", "bar"), Normal, "Echoed", "");
            }
            broadcaster.start_event_watcher(|_| {}).stop();
            left -= 1;
            if left == 0 {
                broadcaster.shutdown_on(std::future::ready(()), LONG);
            }
        });
        recorder.event(&pod("foo", "bar"), Normal, "Started", "");
        watch.ended().await;
        assert_adds_up(&broadcaster.shutdown(LONG).await);
    }
}
