//! Places for requests in flight, and the queue of requests that wait for one.
//!
//! Reads, writes, reviews of oneself and logins have separate places. Requests with a long body
//! take a second place while they are answered. If all are taken, a request waits, first come,
//! first served: in a queue of bounded length, for a bounded time, and only while its client is
//! connected. While it waits, its body is not read.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::place_counters::{FlowMetrics, LevelNow, Rejection};
use crate::clock;

/// The kinds of requests with separate places. They are named as kube-apiserver's `request_kind`,
/// which has the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    ReadOnly,
    Mutating,
    /// Reviews of oneself. They may ask a cluster, which may take long and must not delay other
    /// requests.
    Reviews,
    /// Logins to the timeline. Anyone may begin one, send its body slowly, and cause a question to
    /// a cluster. No other request may wait for that.
    Logins,
    /// Requests with a long body, in addition to their place among the others.
    LongBodies,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::Mutating => "mutating",
            Self::Reviews => "reviews",
            Self::Logins => "logins",
            Self::LongBodies => "longBodies",
        }
    }
}

/// The permits for a number of places; 0 means no limit.
pub(crate) fn permits(count: usize) -> usize {
    match count {
        0 => Semaphore::MAX_PERMITS,
        count => count.min(Semaphore::MAX_PERMITS),
    }
}

/// The places of one level.
#[derive(Debug)]
pub(crate) struct Places {
    level: Level,
    free: Arc<Semaphore>,
    count: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl Places {
    /// `count` places, 0 for no limit, and a queue of at most `waiting_max` requests.
    pub(crate) fn new(level: Level, count: usize, waiting_max: usize) -> Self {
        let count = permits(count);
        Self {
            level,
            free: Arc::new(Semaphore::new(count)),
            count,
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// The current state of the level.
    pub(crate) fn now(&self) -> LevelNow {
        LevelNow {
            name: self.level.name(),
            taken: self.count.saturating_sub(self.free.available_permits()),
            waiting: self.waiting.load(Ordering::Relaxed),
            limit: (self.count < Semaphore::MAX_PERMITS).then_some(self.count),
        }
    }

    /// Counts a request that gets no place and does not wait for one.
    pub(crate) fn refuse(&self, metrics: &FlowMetrics, why: Rejection) {
        metrics.rejected(self.level.name(), why);
    }

    /// Waits in the queue for a place. Dropping the future removes the request from the queue.
    ///
    /// # Errors
    ///
    /// The wait was too long, the queue is full, or `gone` resolved: the client has disconnected.
    pub(crate) async fn take(
        &self,
        metrics: &FlowMetrics,
        within: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<OwnedSemaphorePermit, Rejection> {
        // While requests wait, this cannot succeed, because a released place goes to the first of
        // them at once.
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            metrics.dispatched(self.level.name());
            return Ok(place);
        }
        let waiting = Waiting::begin(self, metrics);
        let waiting = waiting.inspect_err(|why| self.refuse(metrics, *why))?;
        let end = tokio::time::sleep(within);
        let place = tokio::select! {
            biased;
            // The semaphore is never closed.
            place = Arc::clone(&self.free).acquire_owned() => place.map_err(|_| Rejection::TimeOut),
            () = end => Err(Rejection::TimeOut),
            () = gone => Err(Rejection::Cancelled),
        };
        waiting.end(place.as_ref().err().copied());
        place
    }
}

/// A request in the queue.
struct Waiting<'a> {
    places: &'a Places,
    metrics: &'a FlowMetrics,
    since: Instant,
    /// The result to count at the end. A request that is dropped before was cancelled by its
    /// client.
    rejection: Option<Rejection>,
}

impl<'a> Waiting<'a> {
    fn begin(places: &'a Places, metrics: &'a FlowMetrics) -> Result<Self, Rejection> {
        if places.waiting_max == 0 {
            return Err(Rejection::ConcurrencyLimit);
        }
        let room = |waiting| (waiting < places.waiting_max).then_some(waiting + 1);
        let waiting = &places.waiting;
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => Ok(Self {
                places,
                metrics,
                since: clock::timer(),
                rejection: Some(Rejection::Cancelled),
            }),
            Err(_) => Err(Rejection::QueueFull),
        }
    }

    fn end(mut self, rejection: Option<Rejection>) {
        self.rejection = rejection;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.places.waiting.fetch_sub(1, Ordering::Relaxed);
        let level = self.places.level.name();
        let waited = clock::timer().saturating_duration_since(self.since);
        let executed = self.rejection.is_none();
        self.metrics.waited(level, executed, waited);
        match self.rejection {
            None => self.metrics.dispatched(level),
            Some(why) => self.metrics.rejected(level, why),
        }
    }
}
