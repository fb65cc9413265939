//! The bounded queue in front of the committer: many tasks push and wait, one thread takes whatever is there.
//!
//! A permit is held for every started KiB of a queued request, so the bound holds for count and for bytes alike. No timer
//! holds a lone request back: the committer wakes as soon as there is one.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Fault;

/// Requests (of up to a KiB) the queue holds before writers wait.
const PERMITS: u32 = 32 * 1024;

/// Most requests taken for one commit, and most permits' worth of them.
const TAKE_MAX: usize = 512;
const TAKE_PERMITS_MAX: usize = 2048;

/// See the module documentation.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    permits: Arc<Semaphore>,
}

struct State<T> {
    items: VecDeque<(T, OwnedSemaphorePermit)>,
    closed: bool,
}

/// What [`Queue::take`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Some requests, or none because the time was over.
    Open,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                closed: false,
            }),
            filled: Condvar::new(),
            permits: Arc::new(Semaphore::new(PERMITS as usize)),
        }
    }

    /// Adds a request of about this many bytes, waiting for room.
    pub(crate) async fn push(&self, item: T, bytes: usize) -> Result<(), Fault> {
        let cost = u32::try_from(bytes / 1024)
            .unwrap_or(PERMITS)
            .saturating_add(1)
            .min(PERMITS);
        let permit = Arc::clone(&self.permits)
            .acquire_many_owned(cost)
            .await
            .map_err(|_| Fault::Closed)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(Fault::Closed);
        }
        state.items.push_back((item, permit));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Moves requests into `into`, waiting at most this long for the first.
    pub(crate) fn take(&self, into: &mut Vec<T>, wait: Duration) -> Taken {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .filled
            .wait_timeout_while(state, wait, |state| state.items.is_empty() && !state.closed);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.items.is_empty() && state.closed {
            return Taken::Closed;
        }
        let mut permits = 0;
        while into.len() < TAKE_MAX
            && permits < TAKE_PERMITS_MAX
            && let Some((item, permit)) = state.items.pop_front()
        {
            permits += permit.num_permits();
            into.push(item);
        }
        Taken::Open
    }

    /// Refuses further requests; those accepted are still taken.
    pub(crate) fn close(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.permits.close();
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn takes_in_order_and_in_bounds() {
        let queue = Queue::new();
        for number in 0..1000 {
            queue.push(number, 100).await.unwrap();
        }
        let mut taken = Vec::new();
        assert_eq!(queue.take(&mut taken, Duration::ZERO), Taken::Open);
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
        queue.take(&mut taken, Duration::ZERO);
        waiting.await.unwrap().unwrap();
        queue.take(&mut taken, Duration::ZERO);
        assert_eq!(taken, [0, 1]);
    }

    #[tokio::test]
    async fn closing_keeps_what_was_accepted() {
        let queue = Queue::new();
        queue.push(1, 0).await.unwrap();
        queue.close();
        assert!(matches!(queue.push(2, 0).await, Err(Fault::Closed)));
        let mut taken = Vec::new();
        assert_eq!(queue.take(&mut taken, Duration::MAX), Taken::Open);
        assert_eq!(
            (queue.take(&mut Vec::new(), Duration::MAX), taken),
            (Taken::Closed, vec![1])
        );
    }
}
