//! Handlers that block delay only themselves, on runtimes of one thread and of several.

use std::sync::mpsc;
use std::time::Duration;

use futures::FutureExt;
use tidings::EventType::Warning;
use tidings::{Broadcaster, FlushReport, MemorySink};
use tokio::runtime::{Builder, Runtime};

use super::{LONG, assert_adds_up, pod, source};

const EVENTS: usize = 30;

/// A runtime with this number of workers; 0 means the current thread.
fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(workers.max(1))
        .enable_all()
        .build()
        .unwrap()
}

/// Records events while a handler has handled `handled` of them and blocks in the next; all events
/// are written meanwhile. Returns the report of a shutdown whose deadline passes at once.
async fn record_beside_a_blocked_handler(handled: usize) -> FlushReport {
    let broadcaster = Broadcaster::new();
    let (release, gate) = mpsc::channel::<()>();
    let (calls, mut called) = tokio::sync::mpsc::unbounded_channel();
    let mut seen = 0;
    broadcaster.start_event_watcher(move |_| {
        seen += 1;
        let _ = calls.send(());
        if seen > handled {
            let _ = gate.recv();
        }
    });
    let sink = MemorySink::new();
    let watch = broadcaster.start_recording_to_sink(sink.clone());
    let recorder = broadcaster.recorder(source());
    for number in 0..EVENTS {
        let name = format!("web-{number}");
        recorder.event(&pod(&name, ""), Warning, "BackOff", number);
    }
    let written = async {
        while sink.events().len() < EVENTS {
            tokio::task::yield_now().await;
        }
        for _ in 0..=handled {
            called.recv().await.unwrap();
        }
    };
    let written = tokio::time::timeout(LONG, written).await;
    written.expect("a blocked handler delays no sink");
    watch.stop();
    watch.ended().await;
    let report = tokio::time::timeout(LONG, broadcaster.shutdown(Duration::ZERO)).await;
    drop(release);
    report.expect("the deadline holds whatever a handler does")
}

#[test]
fn a_blocking_handler_delays_no_sink_and_no_deadline() {
    // Many runs at once, because each waits for half a second after its deadline.
    const RUNS: usize = 200;
    const THREADS: usize = 20;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for run in (thread..RUNS).step_by(THREADS) {
                    let report = runtime(run % 9).block_on(record_beside_a_blocked_handler(0));
                    assert_adds_up(&report);
                    let events = EVENTS as u64;
                    assert_eq!((report.delivered, report.pending), (events, 0), "{report}");
                    let handlers = report.handlers;
                    assert_eq!((handlers.delivered, handlers.pending), (0, events));
                }
            });
        }
    });
}

#[test]
fn handled_events_are_counted_one_by_one() {
    let report = runtime(1).block_on(record_beside_a_blocked_handler(8));
    assert_eq!(report.handlers.delivered, 8);
    let text = report.to_string();
    assert!(text.ends_with("handlers missed 22 of 30"), "{text}");
}

/// A handler may start tasks on the runtime in whose context it was started.
#[tokio::test]
async fn a_handler_may_spawn_tasks() {
    let broadcaster = Broadcaster::new();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    broadcaster.start_event_watcher(move |event| {
        let (sender, reason) = (sender.clone(), event.reason().to_owned());
        tokio::spawn(async move { sender.send(reason) });
    });
    let recorder = broadcaster.recorder(source());
    recorder.warning(&pod("web", ""), "BackOff", "m");
    assert_eq!(receiver.recv().await.as_deref(), Some("BackOff"));
    broadcaster.shutdown(LONG).await;
}

/// tokio's paused time waits for handlers, which have their own threads.
#[tokio::test(start_paused = true)]
async fn handlers_finish_although_time_is_paused() {
    let broadcaster = Broadcaster::new();
    broadcaster.start_event_watcher(|_| std::thread::park_timeout(Duration::from_millis(10)));
    broadcaster.start_recording_to_sink(MemorySink::new());
    let recorder = broadcaster.recorder(source());
    for number in 0..3 {
        recorder.warning(&pod("web", ""), "BackOff", number);
    }
    let report = broadcaster.shutdown(LONG).await;
    assert_eq!(report.handlers.delivered, 3, "{}", report.handlers);
    assert_eq!(report.handlers.pending, 0);
}

/// A buffer that is written when it is dropped, which takes until `gate` closes.
struct Buffer {
    drops: tokio::sync::mpsc::UnboundedSender<()>,
    gate: mpsc::Receiver<()>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.drops.send(());
        let _ = self.gate.recv();
    }
}

/// A handler may keep a buffer, whose last part it writes when it is dropped.
#[tokio::test]
async fn a_shutdown_waits_until_handlers_are_dropped() {
    let broadcaster = Broadcaster::new();
    let (release, gate) = mpsc::channel();
    let (drops, mut dropping) = tokio::sync::mpsc::unbounded_channel();
    let buffer = Buffer { drops, gate };
    broadcaster.start_event_watcher(move |_| {
        let _ = &buffer;
    });
    let mut shutdown = std::pin::pin!(broadcaster.shutdown(LONG));
    tokio::select! {
        () = shutdown.as_mut().map(drop) => panic!("the handler is not dropped"),
        _ = dropping.recv() => {}
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(shutdown.as_mut().now_or_never().is_none());
    }
    drop(release);
    shutdown.await;
}

/// A handler gets no event after the deadline, not even one of those it has taken from its queue.
#[tokio::test]
async fn a_handler_gets_no_event_after_the_deadline() {
    let broadcaster = Broadcaster::new();
    let (release, gate) = mpsc::channel::<()>();
    let (calls, mut called) = tokio::sync::mpsc::unbounded_channel();
    let watch = broadcaster.start_event_watcher(move |_| {
        let _ = calls.send(());
        let _ = gate.recv();
    });
    let recorder = broadcaster.recorder(source());
    recorder.warning(&pod("web", ""), "BackOff", 0);
    called.recv().await.unwrap();
    // These are taken from the queue together.
    for number in 1..6 {
        recorder.warning(&pod("web", ""), "BackOff", number);
    }
    release.send(()).unwrap();
    called.recv().await.unwrap();
    let report = broadcaster.shutdown(Duration::ZERO).await;
    assert_eq!(report.handlers.delivered, 1, "{}", report.handlers);
    drop(release);
    watch.ended().await;
    assert!(called.recv().await.is_none(), "it was called twice");
    assert_eq!(watch.counts().delivered, 2);
}
