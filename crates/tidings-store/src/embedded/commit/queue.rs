//! The bounded queue in front of the committer.
//!
//! Many tasks push requests and wait; one thread takes what is queued.
//!
//! A queued request holds a permit for every started KiB that it has in memory, so both count and
//! bytes are bounded. No timer delays a single request: the committer wakes as soon as there is
//! one. After several writers were answered together, it may wait a little for them to
//! [return](Returning). It is woken only for what it waits for, because waking a thread costs a
//! system call.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Semaphore;

use crate::Fault;

/// Bytes of a request for each permit.
pub(super) const PERMIT_BYTES: usize = 1024;

/// Number of permits: maximum requests of up to a KiB in the queue before writers wait.
const PERMITS: u32 = 32 * 1024;

/// Limits of one commit: maximum requests, and the permits at which it gets no further request.
/// Together with one request of the greatest length they stay far below a log frame's maximum.
const TAKE_MAX: usize = 512;
const TAKE_PERMITS_MAX: usize = 2048;

/// A bounded queue of requests; see the module documentation.
pub(in crate::embedded) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    permits: Semaphore,
}

struct State<T> {
    /// The requests, each with its number of permits.
    items: VecDeque<(T, u32)>,
    /// Number of requests that the taker waits for; 0 if it does not sleep.
    wanted: usize,
    closed: bool,
}

/// Writers that are about to write again.
///
/// Writers that were answered together usually write again together. If some of them just miss a
/// commit, they wait for it and for their own. From then on each sync serves only half of the
/// writers. So the next commit waits for all of them, for less time than it takes itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returning {
    /// Number of requests once all of them have returned.
    pub(super) count: usize,
    /// Maximum time to wait for them, once there is a request.
    pub(super) patience: Duration,
}

/// The result of [`Queue::take`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Taken {
    /// The queue is open: some requests were taken, or none within the time.
    Open,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(in crate::embedded) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                wanted: 0,
                closed: false,
            }),
            filled: Condvar::new(),
            permits: Semaphore::new(PERMITS as usize),
        }
    }

    /// Adds a request of about this many bytes; waits for room.
    pub(in crate::embedded) async fn push(&self, item: T, bytes: usize) -> Result<(), Fault> {
        let cost = u32::try_from(bytes / PERMIT_BYTES)
            .unwrap_or(PERMITS)
            .saturating_add(1)
            .min(PERMITS);
        let permit = self.permits.acquire_many(cost).await;
        let permit = permit.map_err(|_| Fault::Closed)?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Closed);
        }
        // The taker gives the permits back.
        permit.forget();
        state.items.push_back((item, cost));
        let wake = (1..=state.items.len()).contains(&state.wanted);
        if wake {
            state.wanted = 0;
        }
        drop(state);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Moves requests into `into`, waiting at most `wait` for the first, and for returning writers.
    /// If no writer returns in time, a later one is treated as a single writer and does not wait.
    pub(super) fn take(&self, into: &mut Vec<T>, wait: Duration, returning: Returning) -> Taken {
        let mut state = self.state.lock();
        self.sleep(&mut state, 1, wait.min(returning.patience));
        if state.items.is_empty() {
            self.sleep(&mut state, 1, wait);
        } else {
            self.sleep(
                &mut state,
                returning.count.min(TAKE_MAX),
                returning.patience,
            );
        }
        if state.items.is_empty() && state.closed {
            return Taken::Closed;
        }
        let mut permits = 0;
        while into.len() < TAKE_MAX
            && permits < TAKE_PERMITS_MAX
            && let Some((item, cost)) = state.items.pop_front()
        {
            permits += cost as usize;
            into.push(item);
        }
        drop(state);
        self.permits.add_permits(permits);
        Taken::Open
    }

    /// Waits at most `time` for `wanted` requests.
    fn sleep(&self, state: &mut MutexGuard<'_, State<T>>, wanted: usize, time: Duration) {
        let is_short = |state: &mut State<T>| state.items.len() < wanted && !state.closed;
        if is_short(state) && !time.is_zero() {
            state.wanted = wanted;
            self.filled.wait_while_for(state, is_short, time);
            state.wanted = 0;
        }
    }

    /// Number of queued requests.
    pub(in crate::embedded) fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Refuses further requests. Accepted ones are still taken.
    pub(in crate::embedded) fn close(&self) {
        self.state.lock().closed = true;
        self.permits.close();
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn takes_in_order_and_in_bounds() {
        let queue = Queue::new();
        for number in 0..1000 {
            queue.push(number, 100).await.unwrap();
        }
        let mut taken = Vec::new();
        assert_eq!(
            queue.take(&mut taken, Duration::ZERO, Returning::default()),
            Taken::Open
        );
        assert_eq!(taken, (0..512).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_full_queue_makes_writers_wait() {
        let queue = Arc::new(Queue::new());
        queue.push(0, PERMITS as usize * 1024).await.unwrap();
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.push(1, 0).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let mut taken = Vec::new();
        queue.take(&mut taken, Duration::ZERO, Returning::default());
        waiting.await.unwrap().unwrap();
        queue.take(&mut taken, Duration::ZERO, Returning::default());
        assert_eq!(taken, [0, 1]);
    }

    #[tokio::test]
    async fn closing_keeps_what_was_accepted() {
        let queue = Queue::new();
        queue.push(1, 0).await.unwrap();
        queue.close();
        assert!(matches!(queue.push(2, 0).await, Err(Fault::Closed)));
        let mut taken = Vec::new();
        assert_eq!(
            queue.take(&mut taken, Duration::MAX, Returning::default()),
            Taken::Open
        );
        assert_eq!(
            (
                queue.take(&mut Vec::new(), Duration::MAX, Returning::default()),
                taken
            ),
            (Taken::Closed, vec![1])
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn those_who_return_are_waited_for_and_a_lone_one_is_not() {
        let queue = Arc::new(Queue::new());
        let take = |returning| {
            let queue = Arc::clone(&queue);
            tokio::task::spawn_blocking(move || {
                let mut taken = Vec::new();
                queue.take(&mut taken, Duration::MAX, returning);
                taken
            })
        };
        let patience = Duration::from_secs(3600);
        let three = take(Returning { count: 3, patience });
        for number in 0..3 {
            // Each writer arrives only after the previous request was examined.
            while queue.state.lock().wanted == 0 && !three.is_finished() {
                tokio::task::yield_now().await;
            }
            queue.push(number, 0).await.unwrap();
        }
        assert_eq!(three.await.unwrap(), [0, 1, 2]);
        let lone = take(Returning { count: 1, patience });
        queue.push(3, 0).await.unwrap();
        assert_eq!(lone.await.unwrap(), [3]);
        let gone = take(Returning {
            count: 2,
            patience: Duration::from_millis(1),
        });
        queue.push(4, 0).await.unwrap();
        assert_eq!(gone.await.unwrap(), [4]);
    }
}
