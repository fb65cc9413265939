//! What happens on one connection: which requests are open, how long it has been idle, and which
//! answers a client does not take.
//!
//! The connection's place is told when the first request opens and when the last one ends, under
//! the lock of the open requests, so that it hears of both in the order in which they happen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;
use crate::flow::connections::Visitor;

/// Maximum of answers on one HTTP/2 connection that a client without credentials has not taken. One
/// more ends the connection.
const UNTAKEN_BY_STRANGERS_MAX: usize = 10;
/// Maximum of requests that a client without credentials begins on one HTTP/2 connection. One more
/// ends it: requests that are taken back at once would never be answered. As many may be open at
/// once.
const UNPROVEN_MAX: usize = 100;

/// On an answer that is the same for everyone and lies ready: one without credentials may have some
/// of them, as a page has several files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared;

/// What happens on one connection.
pub(crate) struct Activity {
    visitor: Arc<Visitor>,
    /// Requests that were begun.
    begun: AtomicU64,
    /// Requests whose answers are not sent in full, by their numbers.
    open: Mutex<HashMap<u64, OpenRequest>>,
    /// An answer was given over HTTP/2, and no request has shown good credentials.
    answered_stranger: Notify,
    /// There are more of these answers than such a client may leave untaken.
    too_many_untaken: Notify,
    /// Such a client has begun more requests than it may.
    too_many_unproven: Notify,
}

struct OpenRequest {
    /// When it has to be over.
    end: Instant,
    /// Whether it was answered over HTTP/2, and no request of the connection has shown good
    /// credentials.
    answered_stranger: bool,
}

/// Which of a connection's open requests have to be over.
#[derive(Clone, Copy)]
pub(crate) enum Overdue {
    First,
    All,
}

impl Activity {
    pub(crate) fn new(visitor: Arc<Visitor>) -> Self {
        Self {
            visitor,
            begun: AtomicU64::new(0),
            open: Mutex::default(),
            answered_stranger: Notify::new(),
            too_many_untaken: Notify::new(),
            too_many_unproven: Notify::new(),
        }
    }

    /// Whose requests these are, as the connection's place sees it.
    pub(crate) fn visitor(&self) -> &Arc<Visitor> {
        &self.visitor
    }

    /// Resolves when a client without credentials leaves more answers untaken than it may.
    pub(crate) async fn strangers_answers_pile_up(&self) {
        self.too_many_untaken.notified().await;
    }

    /// Resolves when a client without credentials has begun more requests over HTTP/2 than it may.
    pub(crate) async fn too_many_unproven(&self) {
        self.too_many_unproven.notified().await;
    }

    /// Resolves when the connection was idle for some time: `first` if no request ever came,
    /// otherwise between `pause` and twice that.
    pub(crate) async fn idle(&self, first: Duration, pause: Duration) {
        let mut before = (0, 0);
        loop {
            let limit = if before.0 == 0 { first } else { pause };
            tokio::time::sleep(limit).await;
            let begun = self.begun.load(Ordering::Relaxed);
            let now = (begun, self.open().len());
            if now == before && now.1 == 0 {
                return;
            }
            before = now;
        }
    }

    /// Resolves when the connection has had its time without credentials: all of it, or over HTTP/2
    /// one answer. There a hundred requests cost a client next to nothing
    /// (`UnauthenticatedHTTP2DOSMitigation` of `k8s.io/apiserver`). So ends a connection whose
    /// credentials are not good any more, after the answer that says so.
    pub(crate) async fn stranger(&self, until: Instant) {
        tokio::select! {
            () = self.answered_stranger.notified() => return,
            () = tokio::time::sleep_until(until) => {}
        }
        if self.visitor.is_authenticated() {
            self.answered_stranger.notified().await;
        }
    }

    /// Resolves when the time of an open request, or of all of them, is over. None is over sooner
    /// than `longest` after it began.
    pub(crate) async fn overdue(&self, longest: Duration, which: Overdue) {
        loop {
            let end = match which {
                Overdue::First => self.open().values().map(|request| request.end).min(),
                Overdue::All => self.open().values().map(|request| request.end).max(),
            };
            // Those that end last may be over long before their time.
            let look_again = clock::deadline(clock::timer(), longest);
            tokio::time::sleep_until(end.unwrap_or(look_again).min(look_again)).await;
            let now = clock::timer();
            let over = match which {
                Overdue::First => self.open().values().any(|request| request.end <= now),
                Overdue::All => self.all_are_overdue(),
            };
            if over {
                return;
            }
        }
    }

    pub(crate) fn all_are_overdue(&self) -> bool {
        let now = clock::timer();
        self.open().values().all(|request| request.end <= now)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, OpenRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request from its first byte to the last of its answer.
pub(crate) struct Open {
    number: u64,
    /// Whether requests before had shown good credentials when it began.
    was_authenticated: bool,
    activity: Arc<Activity>,
}

impl Open {
    pub(crate) fn new(activity: &Arc<Activity>, time: Duration, http2: bool) -> Self {
        let number = activity.begun.fetch_add(1, Ordering::Relaxed);
        let unproven = activity.visitor.begin_unproven();
        if http2 && unproven > UNPROVEN_MAX && !activity.visitor.is_authenticated() {
            activity.too_many_unproven.notify_one();
        }
        let mut open = activity.open();
        if open.is_empty() {
            activity.visitor.set_busy(true);
        }
        let request = OpenRequest {
            end: clock::deadline(clock::timer(), time),
            answered_stranger: false,
        };
        open.insert(number, request);
        drop(open);
        Self {
            number,
            was_authenticated: activity.visitor.is_authenticated(),
            activity: activity.clone(),
        }
    }

    /// Gives the request this long from now on, but no less than it had.
    pub(crate) fn lasts(&self, time: Duration) {
        let end = clock::deadline(clock::timer(), time);
        if let Some(request) = self.activity.open().get_mut(&self.number) {
            request.end = end.max(request.end);
        }
    }

    /// The request was answered over HTTP/1.1, which ends a connection whose credentials are not
    /// good any more: it has had its time without any.
    pub(crate) fn answered_over_http1(&self) {
        if self.was_authenticated && !self.activity.visitor.is_authenticated() {
            self.activity.answered_stranger.notify_one();
        }
    }

    /// The request was answered over HTTP/2, which ends the connection if no request on it has
    /// shown good credentials. Watches are taken bit by bit and do not count as untaken: with
    /// `--anonymous-auth` they may be allowed without credentials.
    pub(crate) fn answered_over_http2(&self, is_watch: bool) {
        if self.activity.visitor.is_authenticated() {
            return;
        }
        let mut open = self.activity.open();
        if let Some(request) = open.get_mut(&self.number) {
            request.answered_stranger = !is_watch;
        }
        let answers = open.values().filter(|request| request.answered_stranger);
        if answers.count() > UNTAKEN_BY_STRANGERS_MAX {
            self.activity.too_many_untaken.notify_one();
        }
        self.activity.answered_stranger.notify_one();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.activity.open();
        open.remove(&self.number);
        if open.is_empty() {
            self.activity.visitor.set_busy(false);
        }
    }
}
