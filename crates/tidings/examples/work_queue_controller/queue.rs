//! A rate-limited work queue like client-go's `util/workqueue`. A key is queued once however often
//! it is added, is never worked on twice at a time, and is delayed longer after each failure.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The rate limit of keys whose work failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    /// The delay after the first failure, doubled with every further one.
    pub(crate) first: Duration,
    /// The longest delay of a key.
    pub(crate) max: Duration,
    /// Maximum keys a second, altogether.
    pub(crate) per_second: f64,
    /// Maximum keys at once.
    pub(crate) burst: f64,
}

impl Default for RateLimit {
    /// client-go's `DefaultControllerRateLimiter`.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            per_second: 10.,
            burst: 100.,
        }
    }
}

/// The queue. Clones share their state.
#[derive(Clone)]
pub(crate) struct WorkQueue {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    limit: RateLimit,
}

struct State {
    ready: VecDeque<String>,
    waiting: BinaryHeap<Reverse<(Instant, String)>>,
    queued: HashSet<String>,
    processing: HashSet<String>,
    failures: HashMap<String, u32>,
    tokens: f64,
    refilled: Instant,
    closed: bool,
}

impl WorkQueue {
    /// An empty queue.
    pub(crate) fn new(limit: RateLimit) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            queued: HashSet::new(),
            processing: HashSet::new(),
            failures: HashMap::new(),
            tokens: limit.burst,
            refilled: now(),
            closed: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::new(Notify::new()),
            limit,
        }
    }

    /// Adds a key, for the next free worker.
    pub(crate) fn add(&self, key: impl Into<String>) {
        let key = key.into();
        let mut state = self.state();
        if !state.closed && state.queued.insert(key.clone()) && !state.processing.contains(&key) {
            state.ready.push_back(key);
            self.changed.notify_one();
        }
    }

    /// Adds a key whose work failed, to be worked on again when the rate limit allows.
    pub(crate) fn add_rate_limited(&self, key: &str) {
        let mut state = self.state();
        let failures = state.failures.entry(key.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        let doubled = self
            .limit
            .first
            .saturating_mul(1 << (*failures - 1).min(30));
        let alone = doubled.min(self.limit.max);
        let wait = alone.max(state.take_token(self.limit));
        state.waiting.push(Reverse((now() + wait, key.to_owned())));
        self.changed.notify_one();
    }

    /// Failures of a key since it was last forgotten.
    pub(crate) fn failures(&self, key: &str) -> u32 {
        self.state().failures.get(key).copied().unwrap_or(0)
    }

    /// Forgets the failures of a key, after a success.
    pub(crate) fn forget(&self, key: &str) {
        self.state().failures.remove(key);
    }

    /// Ends the work on a key. If the key was added meanwhile, it is queued again.
    pub(crate) fn done(&self, key: &str) {
        let mut state = self.state();
        state.processing.remove(key);
        if state.queued.contains(key) {
            state.ready.push_back(key.to_owned());
        }
        self.changed.notify_waiters();
    }

    /// Waits for the next key to work on; `None` once the queue is closed. Call [`WorkQueue::done`]
    /// afterwards.
    pub(crate) async fn get(&self) -> Option<String> {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                state.move_due();
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.processing.insert(key.clone());
                    return Some(key);
                }
                state.waiting.peek().map(|Reverse((due, _))| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Closes the queue.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
        // Wakes a worker that was about to wait.
        self.changed.notify_one();
    }

    /// Whether nothing is queued, waiting, or worked on.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.ready.is_empty() && state.waiting.is_empty() && state.processing.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn move_due(&mut self) {
        let now = now();
        while self
            .waiting
            .peek()
            .is_some_and(|Reverse((due, _))| *due <= now)
        {
            if let Some(Reverse((_, key))) = self.waiting.pop()
                && self.queued.insert(key.clone())
                && !self.processing.contains(&key)
            {
                self.ready.push_back(key);
            }
        }
    }

    /// Takes a token; returns the time until it is available.
    fn take_token(&mut self, limit: RateLimit) -> Duration {
        let now = now();
        let refill = now.duration_since(self.refilled).as_secs_f64() * limit.per_second;
        self.tokens = (self.tokens + refill).min(limit.burst) - 1.;
        self.refilled = now;
        Duration::from_secs_f64((-self.tokens).max(0.) / limit.per_second)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an example of a program, which has a clock of its own"
)]
fn now() -> Instant {
    Instant::now()
}
