//! The activity of one connection: its open requests, its idle time, and answers that are not read.
//!
//! The connection's place is notified when the first request opens and when the last one ends. This
//! happens under the lock of the open requests, so that both arrive in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;
use crate::flow::connections::Visitor;

/// Maximum unread answers on one HTTP/2 connection of a client without credentials. One more ends
/// the connection.
const UNTAKEN_BY_STRANGERS_MAX: usize = 10;
/// Maximum requests that a client without credentials may begin on one HTTP/2 connection. It is
/// also the maximum of its open requests. One more ends the connection, because requests that are
/// reset at once would never be answered.
const UNPROVEN_MAX: usize = 100;
/// Maximum time that a stream's client may leave a message unread while it holds memory.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// Marks a prepared answer that is the same for all clients, such as a file of a page. A client
/// without credentials may leave some of these unread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared;

/// The activity of one connection.
pub(crate) struct Activity {
    visitor: Arc<Visitor>,
    /// Number of requests begun.
    begun: AtomicU64,
    /// Requests that are not answered completely, by number.
    open: Mutex<HashMap<u64, OpenRequest>>,
    /// Notifies that an answer was sent over HTTP/2 while no request had valid credentials.
    answered_stranger: Notify,
    /// Notifies that such a client has too many unread answers.
    too_many_untaken: Notify,
    /// Notifies that such a client has begun too many requests.
    too_many_unproven: Notify,
}

struct OpenRequest {
    /// The request's deadline.
    end: Instant,
    /// The deadline for reading the stream's next message, if one is unread.
    unread_until: Option<Instant>,
    /// Whether the request was answered over HTTP/2 while no request of the connection had valid
    /// credentials.
    answered_stranger: bool,
    /// Tells the task of the request's HTTP/2 stream to end; `None` over HTTP/1.1.
    reset: Option<Arc<Notify>>,
}

impl OpenRequest {
    /// The time from which the request is overdue.
    fn ends(&self) -> Instant {
        self.unread_until
            .map_or(self.end, |until| until.min(self.end))
    }
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

    /// The connection, as its place sees it.
    pub(crate) fn visitor(&self) -> &Arc<Visitor> {
        &self.visitor
    }

    /// Resolves when a client without credentials has too many unread answers.
    pub(crate) async fn strangers_answers_pile_up(&self) {
        self.too_many_untaken.notified().await;
    }

    /// Resolves when a client without credentials has begun too many requests over HTTP/2.
    pub(crate) async fn too_many_unproven(&self) {
        self.too_many_unproven.notified().await;
    }

    /// Resolves once the connection was idle for too long. That is `first` if it never had a
    /// request, otherwise between `pause` and twice that.
    pub(crate) async fn idle(&self, first: Duration, pause: Duration) {
        let mut before = (0, 0);
        loop {
            let limit = if before.0 == 0 { first } else { pause };
            tokio::time::sleep(limit).await;
            let begun = self.begun.load(Ordering::Relaxed);
            let now = (begun, self.open.lock().len());
            if now == before && now.1 == 0 {
                return;
            }
            before = now;
        }
    }

    /// Resolves when the connection must end for lack of credentials.
    ///
    /// That is at `until`, or over HTTP/2 after one answer, because there a hundred requests cost a
    /// client almost nothing (`UnauthenticatedHTTP2DOSMitigation` of `k8s.io/apiserver`). It also
    /// resolves for a connection whose credentials became invalid, after the answer that says so.
    pub(crate) async fn stranger(&self, until: Instant) {
        tokio::select! {
            () = self.answered_stranger.notified() => return,
            () = tokio::time::sleep_until(until) => {}
        }
        if self.visitor.is_authenticated() {
            self.answered_stranger.notified().await;
        }
    }

    /// Resolves when an open request is overdue. A request lasts for at least `longest`.
    pub(crate) async fn overdue(&self, longest: Duration) {
        loop {
            let end = self.open.lock().values().map(OpenRequest::ends).min();
            // The last requests may be answered long before their deadline.
            let look_again = clock::deadline(clock::timer(), longest.min(UNREAD_MAX));
            tokio::time::sleep_until(end.unwrap_or(look_again).min(look_again)).await;
            let now = clock::timer();
            let open = self.open.lock();
            if open.values().any(|request| request.ends() <= now) {
                return;
            }
        }
    }

    /// Resets the HTTP/2 streams of overdue requests, and returns their number: 0 over HTTP/1.1.
    /// Their requests are no longer open.
    pub(crate) fn reset_overdue(&self) -> u64 {
        let now = clock::timer();
        let mut count = 0;
        self.open.lock().retain(|_, request| {
            let reset = request.reset.as_ref().filter(|_| request.ends() <= now);
            reset.inspect(|reset| reset.notify_one());
            count += u64::from(reset.is_some());
            reset.is_none()
        });
        count
    }
}

/// A request, from its first byte to the last byte of its answer.
pub(crate) struct Open {
    number: u64,
    /// Whether earlier requests had valid credentials when this one began.
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
        let mut open = activity.open.lock();
        if open.is_empty() {
            activity.visitor.set_busy(true);
        }
        let request = OpenRequest {
            end: clock::deadline(clock::timer(), time),
            unread_until: None,
            answered_stranger: false,
            reset: None,
        };
        open.insert(number, request);
        drop(open);
        Self {
            number,
            was_authenticated: activity.visitor.is_authenticated(),
            activity: activity.clone(),
        }
    }

    /// Allows the server to end the request's HTTP/2 stream without its connection, by `reset`.
    pub(crate) fn allow_reset(&self, reset: Arc<Notify>) {
        if let Some(request) = self.activity.open.lock().get_mut(&self.number) {
            request.reset = Some(reset);
        }
    }

    /// Extends the request's deadline to `time` from now.
    pub(crate) fn lasts(&self, time: Duration) {
        let end = clock::deadline(clock::timer(), time);
        if let Some(request) = self.activity.open.lock().get_mut(&self.number) {
            request.end = end.max(request.end);
        }
    }

    /// Records whether the client has yet to read what was sent of a stream.
    pub(crate) fn set_unread(&self, is_unread: bool) {
        let until = is_unread.then(|| clock::deadline(clock::timer(), UNREAD_MAX));
        if let Some(request) = self.activity.open.lock().get_mut(&self.number) {
            request.unread_until = until;
        }
    }

    /// Records that the request was answered over HTTP/1.1. This ends a connection whose
    /// credentials became invalid.
    pub(crate) fn answered_over_http1(&self) {
        if self.was_authenticated && !self.activity.visitor.is_authenticated() {
            self.activity.answered_stranger.notify_one();
        }
    }

    /// Records that the request was answered over HTTP/2. This ends the connection if no request on
    /// it had valid credentials. Watches do not count as unread, because they have no end. With
    /// `--anonymous-auth` they may be allowed without credentials.
    pub(crate) fn answered_over_http2(&self, is_watch: bool) {
        if self.activity.visitor.is_authenticated() {
            return;
        }
        let mut open = self.activity.open.lock();
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
        let mut open = self.activity.open.lock();
        open.remove(&self.number);
        if open.is_empty() {
            self.activity.visitor.set_busy(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;
    use crate::flow::connections::Connections;

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_client_does_not_read_is_overdue_before_its_time() {
        let connections = Arc::new(Connections::new(10, 0));
        let place = connections.enter(Ipv4Addr::LOCALHOST.into()).await.unwrap();
        let activity = Arc::new(Activity::new(Arc::clone(place.visitor())));
        let longest = Duration::from_secs(92);
        let open = Open::new(&activity, longest, true);
        open.lasts(Duration::from_secs(3600));
        let overdue = |within| timeout(within, activity.overdue(longest));
        // A message that is read in time does not end the connection.
        open.set_unread(true);
        open.set_unread(false);
        assert!(overdue(longest * 10).await.is_err());
        open.set_unread(true);
        assert!(overdue(UNREAD_MAX / 2).await.is_err());
        assert!(overdue(UNREAD_MAX * 2).await.is_ok());
        assert_eq!(activity.reset_overdue(), 0, "it has no stream of its own");
    }

    #[tokio::test(start_paused = true)]
    async fn streams_whose_answers_are_read_outlive_one_that_is_not() {
        let connections = Arc::new(Connections::new(10, 0));
        let place = connections.enter(Ipv4Addr::LOCALHOST.into()).await.unwrap();
        let activity = Arc::new(Activity::new(Arc::clone(place.visitor())));
        let longest = Duration::from_secs(92);
        let stream = || {
            let open = Open::new(&activity, longest, true);
            let reset = Arc::new(Notify::new());
            open.allow_reset(Arc::clone(&reset));
            (open, reset)
        };
        let ((watch, goes_on), (unread, ends)) = (stream(), stream());
        watch.lasts(Duration::from_secs(86_400));
        let overdue = || timeout(longest * 3, activity.overdue(longest));
        assert!(overdue().await.is_ok());
        assert_eq!(activity.reset_overdue(), 1);
        ends.notified().await;
        assert!(goes_on.notified().now_or_never().is_none());
        // It is told once, whenever its task ends.
        assert!(overdue().await.is_err());
        drop(unread);
        assert_eq!(activity.open.lock().len(), 1);
    }
}
