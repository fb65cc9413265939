//! Every interleaving of a few threads with the broadcaster's queues and counts: the mux and the
//! tally themselves, compiled against loom's lock and atomics.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot do without fails the test"
)]

#[path = "../src/mux.rs"]
#[expect(dead_code, reason = "the library uses more of it")]
mod mux;
#[path = "../src/tally.rs"]
#[expect(dead_code, reason = "the library uses more of it")]
mod tally;

/// The items of their crate that these use.
mod config {
    pub(crate) use tidings::advanced::{QueueOptions, WhenFull};
}
mod error {
    pub(crate) use tidings::BroadcasterStopped;
}
mod metrics {
    pub(crate) fn runtime_gone(_events: u64) {}
}
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};

use loom::future::block_on;
use loom::thread;
use tidings::advanced::{QueueOptions, WhenFull};
use tidings::{Event, testing};

use mux::{Mux, Published, Receiver};
use tally::Tally;
use tidings_core::DropCounts;

const ACCEPTED: Published = Published::Accepted {
    missed_by: 0,
    sinks: None,
    has_gone: false,
    is_unseen: false,
    is_handled: true,
};

fn mux(events_max: usize, when_full: WhenFull) -> Arc<Mux> {
    Mux::new(
        QueueOptions::default()
            .events_max(events_max)
            .when_full(when_full),
    )
}

/// Events whose messages are their numbers, made outside the model.
fn event(number: usize) -> Event {
    static EVENTS: LazyLock<Vec<Event>> = LazyLock::new(|| {
        let (recorder, mut events) = testing::recorder();
        for number in 0..4 {
            let object = tidings::Reference::new(tidings::ReferenceFields::default());
            recorder.normal(&object, "Counted", number);
        }
        events.take()
    });
    EVENTS[number].clone()
}

/// Reads until the end, and sleeps while the queue is empty. A lost wake-up is a deadlock, which
/// loom reports.
fn read_to_end(mut receiver: Receiver) -> Vec<String> {
    let mut messages = Vec::new();
    let mut batch = VecDeque::new();
    while block_on(poll_fn(|context| receiver.poll_take(context, &mut batch))) {
        messages.extend(batch.drain(..).map(|event| event.message().to_owned()));
    }
    messages
}

/// There is no shutdown, which would wake the reader, too.
#[test]
fn an_event_wakes_a_sleeping_reader() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        loom::model(move || {
            let mux = mux(1, when_full);
            let mut receiver = mux.watch(Vec::new()).unwrap();
            let reader = thread::spawn(move || {
                let mut batch = VecDeque::new();
                let mut next =
                    || block_on(poll_fn(|context| receiver.poll_take(context, &mut batch)));
                assert!(next());
                if when_full == WhenFull::Wait {
                    assert!(next() && batch.len() == 2);
                }
            });
            mux.publish(event(0));
            mux.publish(event(1));
            reader.join().unwrap();
        });
    }
}

#[test]
fn no_wake_up_is_lost_and_shutdown_delivers_what_came_before() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        loom::model(move || {
            let mux = mux(1, when_full);
            let receiver = mux.watch(Vec::new()).unwrap();
            let counts = Arc::clone(receiver.counts());
            let reader = thread::spawn(move || read_to_end(receiver));
            let accepted: Vec<_> = (0..2)
                .filter(|number| mux.publish(event(*number)) == ACCEPTED)
                .map(|number| number.to_string())
                .collect();
            mux.shutdown();
            assert_eq!(reader.join().unwrap(), accepted);
            assert_eq!(counts.offered(), 2);
            assert_eq!(counts.missed() as usize, 2 - accepted.len());
        });
    }
}

#[test]
fn recorders_that_race_with_shutdown_lose_nothing_that_was_accepted() {
    loom::model(|| {
        let mux = mux(8, WhenFull::Drop);
        let receiver = mux.watch(Vec::new()).unwrap();
        let recorders = [0, 1].map(|number| {
            let mux = Arc::clone(&mux);
            thread::spawn(move || mux.publish(event(number)) == ACCEPTED)
        });
        mux.shutdown();
        let accepted = recorders.map(|recorder| usize::from(recorder.join().unwrap()));
        assert_eq!(read_to_end(receiver).len(), accepted.iter().sum::<usize>());
    });
}

#[test]
fn a_full_watcher_that_stops_or_goes_holds_up_no_other() {
    for stops in [true, false] {
        loom::model(move || {
            let mux = mux(1, WhenFull::Wait);
            let going = mux.watch(Vec::new()).unwrap();
            let staying = mux.watch(Vec::new()).unwrap();
            assert_eq!(mux.publish(event(0)), ACCEPTED);
            assert_eq!(mux.publish(event(1)), ACCEPTED);
            let reader = thread::spawn(move || read_to_end(staying));
            if stops {
                mux.stop(going.id());
                assert_eq!(read_to_end(going), ["0", "1"]);
            } else {
                drop(going);
            }
            mux.shutdown();
            assert_eq!(reader.join().unwrap(), ["0", "1"]);
        });
    }
}

#[test]
fn stop_races_with_shutdown() {
    loom::model(|| {
        let mux = mux(1, WhenFull::Wait);
        let receiver = mux.watch(Vec::new()).unwrap();
        let id = receiver.id();
        let reader = thread::spawn(move || read_to_end(receiver));
        let stopper = thread::spawn({
            let mux = Arc::clone(&mux);
            move || mux.stop(id)
        });
        let accepted = mux.publish(event(0));
        mux.shutdown();
        stopper.join().unwrap();
        // The watcher may have ended by then.
        assert!(matches!(accepted, Published::Accepted { .. }));
        assert!(reader.join().unwrap().len() <= 1);
    });
}

/// What a handler has done is counted one by one, while anyone may ask for the counts.
#[test]
fn what_is_seen_as_settled_is_seen_as_offered() {
    loom::model(|| {
        let mux = mux(1, WhenFull::Drop);
        let mut receiver = mux.watch(Vec::new()).unwrap();
        let counts = Arc::clone(receiver.counts());
        let tally = Arc::new(Tally::new());
        let handler = thread::spawn({
            let tally = Arc::clone(&tally);
            move || {
                let mut batch = VecDeque::new();
                let mut context = Context::from_waker(Waker::noop());
                let taken = receiver.poll_take(&mut context, &mut batch);
                tally.delivered(batch.len() as u64);
                assert_eq!(taken.is_ready(), !batch.is_empty());
                receiver
            }
        });
        let recorder = thread::spawn(move || mux.publish(event(0)));
        let read = tally.read(&counts, DropCounts::default());
        assert!(read.delivered <= read.offered, "{read:?}");
        recorder.join().unwrap();
        let _receiver = handler.join().unwrap();
        assert_eq!(tally.read(&counts, DropCounts::default()).offered, 1);
    });
}
