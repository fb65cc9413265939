//! Polls a connection again at once if it has woken itself.
//!
//! hyper passes on one chunk of a body at a time and wakes its own task for the next. Left to the
//! runtime, each byte of a body in chunks of one byte would cost a turn of the scheduler and a
//! check of all deadlines of the connection.
//!
//! Invariants:
//! - No wake-up is lost: a wake-up during a poll causes another poll.
//! - A connection that wakes itself for ever gives up its turn after [`ROUNDS_MAX`] polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// Maximum polls in one turn. More polls would hardly make a turn cheaper for each request, and
/// other connections would wait longer: hyper answers up to 16 pipelined requests in one poll.
const ROUNDS_MAX: usize = 8;

/// No poll is in progress, and no waker has asked for one.
const RESTS: u8 = 0;
/// A poll is in progress, and no waker has asked for another.
const POLLED: u8 = 1;
/// A waker has asked for a poll.
const WOKEN: u8 = 2;

/// Wakes a task, unless the task is being polled.
struct Alarm {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Acquire and release: the poll that follows sees what the waker did before.
        if self.state.swap(WOKEN, Ordering::AcqRel) == RESTS {
            self.task.wake();
        }
    }
}

/// Polls one future repeatedly. Each future needs its own value.
pub(super) struct Repolled {
    alarm: Arc<Alarm>,
    waker: Waker,
}

impl Repolled {
    pub(super) fn new() -> Self {
        let alarm = Arc::new(Alarm {
            state: AtomicU8::new(RESTS),
            task: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&alarm));
        Self { alarm, waker }
    }

    /// Polls until the future is ready, sleeps, or has used up its turn.
    pub(super) fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let state = &self.alarm.state;
        self.alarm.task.register(context.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS_MAX {
            state.swap(POLLED, Ordering::AcqRel);
            let polled = future.as_mut().poll(&mut inner);
            if polled.is_ready() {
                return polled;
            }
            let rests = state.compare_exchange(POLLED, RESTS, Ordering::AcqRel, Ordering::Relaxed);
            if rests.is_ok() {
                return Poll::Pending;
            }
        }
        state.store(RESTS, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A task that counts its wake-ups.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The result of one turn of a future that wakes itself `wakes` times, the number of polls, and
    /// the wake-ups of its task.
    fn turn(wakes: usize) -> (Poll<()>, usize, usize) {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut polls = 0;
        let mut future = pin!(poll_fn(|context| {
            polls += 1;
            if polls > wakes {
                return Poll::Pending::<()>;
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let polled = Repolled::new().poll(future.as_mut(), &mut Context::from_waker(&waker));
        (polled, polls, task.0.load(Ordering::Relaxed))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_within_its_turn() {
        for wakes in [0, 1, 5, ROUNDS_MAX - 1] {
            assert_eq!(turn(wakes), (Poll::Pending, wakes + 1, 0));
        }
        for wakes in [ROUNDS_MAX, ROUNDS_MAX * 10] {
            assert_eq!(turn(wakes), (Poll::Pending, ROUNDS_MAX, 1));
        }
    }

    #[test]
    fn what_rests_wakes_its_task() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let repolled = Repolled::new();
        let mut seen = None;
        let mut future = pin!(poll_fn(|context| {
            match seen.replace(context.waker().clone()) {
                None => Poll::Pending,
                Some(before) => {
                    assert!(before.will_wake(context.waker()), "one for all polls");
                    Poll::Ready(())
                }
            }
        }));
        assert!(repolled.poll(future.as_mut(), &mut context).is_pending());
        repolled.waker.wake_by_ref();
        repolled.waker.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 1, "once until it is polled");
        assert!(repolled.poll(future.as_mut(), &mut context).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_up_from_another_thread_is_lost() {
        const COUNT: usize = 20_000;
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Waker>(0);
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let other = std::thread::spawn(move || {
            for waker in receiver {
                count.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            }
        });
        let repolled = Repolled::new();
        let mut asked = 0;
        let mut future = pin!(poll_fn(|context| {
            if told.load(Ordering::Relaxed) < asked {
                return Poll::Pending;
            }
            if asked == COUNT {
                return Poll::Ready(());
            }
            asked += 1;
            // The waker is called during this poll or soon afterwards.
            sender.send(context.waker().clone()).unwrap();
            Poll::Pending
        }));
        poll_fn(|context| repolled.poll(future.as_mut(), context)).await;
        drop(sender);
        other.join().unwrap();
    }
}
