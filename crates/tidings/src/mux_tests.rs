//! Tests of the mux: those of client-go's `watch/mux_test.go`, and further ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;

use crate::config::{QueueOptions, WhenFull};
use crate::intake::name_stamps;
use crate::mux::{Mux, Published, QueueCounts, Receiver, Role};
use tidings_core::{
    ClusterScopedNamespace, Event, EventContext, EventSource, EventType, NewEvent, Reference,
    ReferenceFields, TEXT_BYTES_MAX,
};

fn event(message: &str) -> Event {
    Event::new(
        &NewEvent {
            source: &EventSource::component("test"),
            regarding: &Reference::new(ReferenceFields::default()),
            related: None,
            event_type: EventType::Normal,
            reason: "Tested",
            action: "",
            message: &message,
            annotations: None,
            labels: None,
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        },
        &name_stamps(),
        jiff::Timestamp::UNIX_EPOCH,
    )
}

fn options(events_max: usize, when_full: WhenFull) -> QueueOptions {
    QueueOptions {
        events_max,
        when_full,
        ..QueueOptions::default()
    }
}

/// The messages that can be read now; the last element is `end` if no more will come.
fn read(receiver: &mut Receiver) -> Vec<String> {
    let mut batch = VecDeque::new();
    let mut messages = Vec::new();
    loop {
        match receiver.poll_take(&mut Context::from_waker(Waker::noop()), &mut batch) {
            Poll::Ready(true) => {
                messages.extend(batch.drain(..).map(|event| event.message().to_owned()));
            }
            Poll::Ready(false) => {
                messages.push("end".to_owned());
                return messages;
            }
            Poll::Pending => return messages,
        }
    }
}

const ACCEPTED: Published = Published::Accepted {
    missed_by: 0,
    sinks: None,
    has_gone: false,
    is_unseen: false,
    is_handled: true,
};

/// client-go TestBroadcaster.
#[test]
fn every_watcher_sees_every_event_in_order() {
    let mux = Mux::new(options(4, WhenFull::Wait));
    let mut watchers = [
        mux.watch(Vec::new()).unwrap(),
        mux.watch(Vec::new()).unwrap(),
    ];
    for message in ["added", "modified", "modified again", "deleted"] {
        assert_eq!(mux.publish(event(message)), ACCEPTED);
    }
    mux.shutdown();
    for watcher in &mut watchers {
        assert_eq!(
            read(watcher),
            ["added", "modified", "modified again", "deleted", "end"]
        );
    }
}

/// client-go TestBroadcasterWatcherClose.
#[test]
fn stop_and_shutdown_end_watchers_and_may_be_repeated() {
    let mux = Mux::new(options(4, WhenFull::Drop));
    let (mut stopped, mut shut) = (
        mux.watch(Vec::new()).unwrap(),
        mux.watch(Vec::new()).unwrap(),
    );
    assert_eq!((stopped.id(), shut.id()), (0, 1));
    mux.publish(event("before"));
    mux.stop(stopped.id());
    mux.stop(stopped.id());
    mux.publish(event("after"));
    assert_eq!(read(&mut stopped), ["before", "end"]);
    mux.shutdown();
    mux.shutdown();
    mux.stop(stopped.id());
    mux.stop(shut.id());
    assert_eq!(read(&mut shut), ["before", "after", "end"]);
    assert_eq!(read(&mut shut), ["end"]);
}

/// client-go TestBroadcasterDropIfChannelFull.
#[test]
fn a_full_watcher_misses_the_new_event_and_nobody_else_does() {
    let mux = Mux::new(options(1, WhenFull::Drop));
    let (mut slow, mut quick) = (
        mux.watch(Vec::new()).unwrap(),
        mux.watch(Vec::new()).unwrap(),
    );
    assert_eq!(mux.publish(event("1")), ACCEPTED);
    assert_eq!(read(&mut quick), ["1"]);
    assert_eq!(
        mux.publish(event("2")),
        Published::Accepted {
            missed_by: 1,
            sinks: None,
            has_gone: false,
            is_unseen: false,
            is_handled: true,
        }
    );
    assert_eq!(read(&mut quick), ["2"]);
    assert_eq!(read(&mut slow), ["1"]);
    mux.publish(event("3"));
    assert_eq!(read(&mut slow), ["3"]);
    assert_eq!((slow.counts().offered(), slow.counts().missed()), (3, 1));
    assert_eq!((quick.counts().offered(), quick.counts().missed()), (3, 0));
}

/// client-go TestBroadcasterWatchAfterShutdown and TestBroadcasterSendEventAfterShutdown.
#[test]
fn after_shutdown_nothing_is_accepted() {
    let mux = Mux::new(options(1, WhenFull::Drop));
    mux.shutdown();
    let error = mux.watch(Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "broadcaster already stopped");
    assert_eq!(
        mux.watch(vec![event("prefix")]).unwrap_err().to_string(),
        "broadcaster already stopped"
    );
    assert_eq!(mux.publish(event("late")), Published::Stopped);
}

#[test]
fn a_prefix_comes_first_whatever_its_length() {
    let mux = Mux::new(options(1, WhenFull::Drop));
    mux.publish(event("earlier"));
    let prefix = ["a", "b", "c"].map(event).into();
    let mut watcher = mux.watch(prefix).unwrap();
    assert_eq!(
        mux.publish(event("live")),
        ACCEPTED,
        "there is room for one"
    );
    assert_eq!(
        mux.publish(event("more")),
        Published::Accepted {
            missed_by: 1,
            sinks: None,
            has_gone: false,
            is_unseen: false,
            is_handled: true,
        }
    );
    assert_eq!(read(&mut watcher), ["a", "b", "c", "live"]);
    assert_eq!(watcher.counts().offered(), 5);

    // The prefix's bytes take no room from later events.
    let mux = Mux::new(QueueOptions {
        bytes_max: event("live").size(),
        ..options(10, WhenFull::Drop)
    });
    let prefix = event(&"x".repeat(10_000));
    let mut watcher = mux.watch(vec![prefix]).unwrap();
    assert_eq!(mux.publish(event("live")), ACCEPTED);
    mux.publish(event("more"));
    assert_eq!(watcher.counts().missed(), 1);
    assert_eq!(read(&mut watcher).len(), 2);
}

#[test]
fn bytes_are_bounded_too_but_a_large_event_gets_through_alone() {
    let large = event(&"x".repeat(10_000));
    let mux = Mux::new(QueueOptions {
        bytes_max: large.size() - 1,
        ..options(10, WhenFull::Drop)
    });
    let mut watcher = mux.watch(Vec::new()).unwrap();
    assert_eq!(mux.publish(large.clone()), ACCEPTED);
    assert_eq!(
        mux.publish(event("small")),
        Published::Accepted {
            missed_by: 1,
            sinks: None,
            has_gone: false,
            is_unseen: false,
            is_handled: true,
        }
    );
    assert_eq!(read(&mut watcher).len(), 1);
    assert_eq!(mux.publish(event("small")), ACCEPTED);
    assert_eq!(
        mux.publish(large),
        Published::Accepted {
            missed_by: 1,
            sinks: None,
            has_gone: false,
            is_unseen: false,
            is_handled: true,
        }
    );
    assert_eq!(read(&mut watcher), ["small"]);
}

#[test]
fn waiting_events_move_on_when_room_is_made_and_nobody_waits() {
    let mux = Mux::new(options(1, WhenFull::Wait));
    let (mut slow, mut quick) = (
        mux.watch(Vec::new()).unwrap(),
        mux.watch(Vec::new()).unwrap(),
    );
    assert_eq!(mux.publish(event("1")), ACCEPTED);
    assert_eq!(read(&mut quick), ["1"]);
    assert_eq!(mux.publish(event("2")), ACCEPTED, "waits");
    assert_eq!(read(&mut quick), Vec::<String>::new(), "for everybody");
    assert_eq!(mux.publish(event("3")), Published::Full { missed_by: 2 });
    let mut late = mux.watch(Vec::new()).unwrap();
    assert_eq!(read(&mut slow), ["1", "2"]);
    assert_eq!(read(&mut quick), ["2"]);
    assert_eq!(
        read(&mut late),
        Vec::<String>::new(),
        "2 was accepted before it came"
    );
    assert_eq!((slow.counts().offered(), slow.counts().missed()), (3, 1));
    assert_eq!(late.counts().offered(), 0);
}

/// client-go TestBroadcasterWatcherStopDeadlock, and the cases in which client-go's
/// `WaitIfChannelFull` blocks or deadlocks. A full watcher blocks neither a new watcher, nor a
/// stop, nor the shutdown, nor the recorder.
#[test]
fn a_full_watcher_holds_up_no_call() {
    let full = || {
        let mux = Mux::new(options(1, WhenFull::Wait));
        let watchers = [
            mux.watch(Vec::new()).unwrap(),
            mux.watch(Vec::new()).unwrap(),
        ];
        assert_eq!(mux.publish(event("queued")), ACCEPTED);
        assert_eq!(mux.publish(event("waiting")), ACCEPTED);
        (mux, watchers)
    };

    let (mux, [mut slow, mut other]) = full();
    mux.stop(other.id());
    assert_eq!(read(&mut other), ["queued", "waiting", "end"]);
    mux.stop(slow.id());
    assert_eq!(read(&mut slow), ["queued", "waiting", "end"]);
    let unwatched = Published::Accepted {
        missed_by: 0,
        sinks: None,
        has_gone: false,
        is_unseen: false,
        is_handled: false,
    };
    assert_eq!(mux.publish(event("nobody watches")), unwatched);

    let (mux, [mut slow, mut other]) = full();
    mux.shutdown();
    assert_eq!(read(&mut other), ["queued", "waiting", "end"]);
    assert_eq!(read(&mut slow), ["queued", "waiting", "end"]);

    let (mux, [slow, mut other]) = full();
    drop(slow);
    assert_eq!(read(&mut other), ["queued", "waiting"]);
    assert_eq!(mux.watchers(), 1);
}

/// client-go TestBroadcasterShutdownRace with real threads, in both modes.
#[test]
fn stops_race_with_shutdown() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        for _ in 0..50 {
            let mux = Mux::new(options(1, when_full));
            let receivers: Vec<_> = (0..4).map(|_| mux.watch(Vec::new()).unwrap()).collect();
            std::thread::scope(|scope| {
                for receiver in &receivers {
                    scope.spawn(|| mux.stop(receiver.id()));
                }
                scope.spawn(|| mux.publish(event("racing")));
                scope.spawn(|| mux.shutdown());
            });
            for mut receiver in receivers {
                assert_eq!(read(&mut receiver).last().unwrap(), "end");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish,
    Watch { prefix: usize },
    Read(usize),
    Stop(usize),
    Forget(usize),
    Shutdown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Publish),
        2 => (0..3_usize).prop_map(|prefix| Step::Watch { prefix }),
        4 => (0..8_usize).prop_map(Step::Read),
        1 => (0..8_usize).prop_map(Step::Stop),
        1 => (0..8_usize).prop_map(Step::Forget),
        1 => Just(Step::Shutdown),
    ]
}

/// A watcher and the messages it has read.
struct Seen {
    receiver: Receiver,
    /// The numbers of the first event it may see, and of the first it may not.
    from: usize,
    until: Option<usize>,
    prefix: usize,
    read: Vec<String>,
}

proptest! {
    #[test]
    fn each_watcher_sees_what_it_is_owed_less_what_is_counted(
        steps in prop::collection::vec(step(), 1..120), waits: bool, events_max in 1..4_usize,
    ) {
        let when_full = if waits { WhenFull::Wait } else { WhenFull::Drop };
        let mux = Mux::new(options(events_max, when_full));
        let (mut published, mut stopped) = (0, false);
        let mut watchers: Vec<Seen> = Vec::new();
        for step in steps {
            match step {
                Step::Publish => {
                    let accepted = mux.publish(event(&published.to_string()));
                    prop_assert_eq!(accepted == Published::Stopped, stopped);
                    published += usize::from(!stopped);
                }
                Step::Watch { prefix } => {
                    let events = (0..prefix).map(|_| event("prefix")).collect();
                    if let Ok(receiver) = mux.watch(events) {
                        watchers.push(Seen {
                            receiver, from: published, until: None, prefix, read: Vec::new(),
                        });
                    }
                }
                Step::Read(index) => {
                    if let Some(watcher) = watchers.get_mut(index) {
                        watcher.read.extend(read(&mut watcher.receiver));
                    }
                }
                Step::Stop(index) => {
                    if let Some(watcher) = watchers.get_mut(index) {
                        mux.stop(watcher.receiver.id());
                        watcher.until.get_or_insert(published);
                    }
                }
                Step::Forget(index) => {
                    if index < watchers.len() {
                        watchers.remove(index);
                    }
                }
                Step::Shutdown => {
                    mux.shutdown();
                    stopped = true;
                }
            }
        }
        mux.shutdown();
        for mut watcher in watchers {
            watcher.read.extend(read(&mut watcher.receiver));
            prop_assert_eq!(watcher.read.last().map(String::as_str), Some("end"));
            watcher.read.retain(|message| message != "end");
            let (prefix, live) = watcher.read.split_at(watcher.prefix);
            prop_assert!(prefix.iter().all(|message| message == "prefix"));
            let live: Vec<usize> = live.iter().map(|message| message.parse().unwrap()).collect();
            prop_assert!(live.is_sorted() && live.windows(2).all(|pair| pair[0] < pair[1]));
            let owed = watcher.from..watcher.until.unwrap_or(published);
            prop_assert!(live.iter().all(|number| owed.contains(number)));
            let counts = watcher.receiver.counts();
            prop_assert_eq!(counts.offered() as usize, watcher.prefix + owed.len());
            prop_assert_eq!(counts.missed() as usize, owed.len() - live.len());
        }
    }
}

/// Dropping a waker may run any code, including code that takes the mux's lock.
#[test]
fn wakers_are_dropped_outside_the_lock() {
    struct AsksWhenDropped(Arc<Mux>, Sender<usize>);
    impl Wake for AsksWhenDropped {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for AsksWhenDropped {
        fn drop(&mut self) {
            let (mux, answer) = (Arc::clone(&self.0), self.1.clone());
            let (sender, receiver) = channel();
            std::thread::spawn(move || sender.send(mux.watchers()));
            let watchers = receiver.recv_timeout(Duration::from_secs(10));
            let _ = answer.send(watchers.unwrap_or(0));
        }
    }
    let mux = Mux::new(options(8, WhenFull::Drop));
    let mut receiver = mux.watch(Vec::new()).unwrap();
    let (sender, answer) = channel();
    let waker = Waker::from(Arc::new(AsksWhenDropped(Arc::clone(&mux), sender)));
    let mut batch = VecDeque::new();
    for waker in [waker, Waker::noop().clone()] {
        let mut context = Context::from_waker(&waker);
        assert!(receiver.poll_take(&mut context, &mut batch).is_pending());
    }
    assert_eq!(answer.try_recv(), Ok(1));
}

/// Takes the mux's lock when dropped, as a span does that logs an event at its end.
struct Reenters {
    mux: Arc<Mux>,
    locked: Sender<bool>,
}

impl EventContext for Reenters {
    fn is_awaited(&self) -> bool {
        true
    }

    fn unawaited(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    fn kept(&self) -> Option<Arc<dyn EventContext>> {
        None
    }

    fn absorb(&self, _: &dyn EventContext) {}
}

impl Drop for Reenters {
    fn drop(&mut self) {
        self.locked.send(self.mux.is_locked()).unwrap();
    }
}

#[test]
fn no_event_is_dropped_under_the_lock() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        let mux = Mux::new(options(1, when_full));
        let (locked, was_locked) = channel();
        let publish = || {
            let context = Arc::new(Reenters {
                mux: Arc::clone(&mux),
                locked: locked.clone(),
            });
            mux.publish(event("m").with_context(context))
        };
        // Published to no watcher, to one that is no sink, to one with too many waiting callers,
        // and too late.
        publish();
        let reader = mux.watch(Vec::new()).unwrap();
        for _ in 0..3 {
            publish();
        }
        mux.shutdown();
        assert_eq!(publish(), Published::Stopped);
        drop(reader);
        assert_eq!(was_locked.try_iter().collect::<Vec<_>>(), [false; 5]);
    }
}

/// Watchers that end with their runtimes leave no slot behind; each counts the events it would have
/// received until it is stopped.
#[test]
fn watchers_that_are_gone_with_their_runtimes_keep_no_place() {
    for when_full in [WhenFull::Drop, WhenFull::Wait] {
        let mux = Mux::new(options(1, when_full));
        let lives = mux.watch(Vec::new()).unwrap();
        let gone: Vec<Arc<QueueCounts>> = (0..100)
            .map(|number| {
                let role = if number % 2 == 0 {
                    Role::Sink
                } else {
                    Role::Handler
                };
                let receiver = mux.watch_by_task(role).unwrap();
                mux.publish(event("m"));
                Arc::clone(receiver.counts())
            })
            .collect();
        assert_eq!(mux.watchers(), 1);
        let all = |counts: &QueueCounts| counts.offered() + counts.lost().total();
        for (number, counts) in (0..).zip(&gone) {
            assert_eq!(all(counts), 100 - number, "{when_full:?}");
            let queued = counts.orphan().map(|orphan| orphan.queued);
            assert_eq!(queued.map(|queued| queued + counts.missed()), Some(1));
        }
        let to_gone = || mux.lost_to_gone().map(|lost| lost.total());
        let lost = to_gone();
        mux.stop_gone(&gone[0]);
        mux.stop_gone(&gone[0]);
        mux.publish(event("m"));
        assert_eq!((all(&gone[0]), all(&gone[1])), (100, 100));
        assert_eq!(to_gone(), [lost[0] + 49, lost[1] + 50]);
        drop(lives);
    }
}
