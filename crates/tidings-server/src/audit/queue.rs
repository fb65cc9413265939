//! The queue of lines to be written, bounded by bytes.
//!
//! - Served requests of known users have a part that no other request can fill. Half of it is
//!   reserved for lines without a body: a line with a body is accepted only while the other half
//!   has room.
//! - A line that finds this part full waits for a bounded time, and its answer with it. This slows
//!   such requests down to the speed of the disk. The number of waiting lines is bounded; more are
//!   dropped. After a wait that timed out, lines are dropped at once until the writer has written
//!   one.
//! - Requests without a known user, and refused requests of known users, have a small part each,
//!   and never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::text::METADATA_BYTES_MAX;

/// Minimum size of the queue. Any line without a body then fits into each part.
const QUEUE_BYTES_MIN: usize = 4 * METADATA_BYTES_MAX;

/// Maximum waiting lines; more than the default maximum of requests in flight.
const WAITING_MAX: usize = 4096;

/// The kind of request that a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A served request of a known user.
    Known,
    /// A request of a known user that was refused before it was served, for example as forbidden.
    Refused,
    /// A request without a user, or of an anonymous one.
    Unknown,
}

/// A queued line.
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    pub(super) whose: Whose,
    /// Room in the queue, released when the line is dropped.
    _room: OwnedSemaphorePermit,
}

/// The error of a line that found no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The sending end of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// The channel to the writer; `None` once the queue is closed.
    sender: Mutex<Option<Sender<Line>>>,
    known: Arc<Semaphore>,
    known_bytes: usize,
    refused: Arc<Semaphore>,
    unknown: Arc<Semaphore>,
    waiting: Semaphore,
    wait_max: Duration,
    stalled: Arc<AtomicBool>,
}

/// The receiving end of the queue.
pub(super) struct Waiting {
    receiver: Receiver<Line>,
    stalled: Arc<AtomicBool>,
}

impl Waiting {
    /// Waits for the next line; `None` once the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Line> {
        self.receiver.recv().ok()
    }

    /// Records that the writer has written a line, so that lines may wait again.
    pub(super) fn got_ahead(&self) {
        self.stalled.store(false, Ordering::Relaxed);
    }
}

impl Queue {
    /// A queue of `bytes_max` bytes for served requests of known users. Refused requests, and
    /// requests without a known user, have a quarter as many each.
    pub(super) fn new(bytes_max: usize, wait_max: Duration) -> (Self, Waiting) {
        let most = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
        let most = most.min(Semaphore::MAX_PERMITS);
        let known_bytes = bytes_max.clamp(QUEUE_BYTES_MIN, most);
        let (sender, receiver) = channel();
        let stalled = Arc::new(AtomicBool::new(false));
        let queue = Self {
            sender: Mutex::new(Some(sender)),
            known: Arc::new(Semaphore::new(known_bytes)),
            known_bytes,
            refused: Arc::new(Semaphore::new(known_bytes / 4)),
            unknown: Arc::new(Semaphore::new(known_bytes / 4)),
            waiting: Semaphore::new(WAITING_MAX),
            wait_max,
            stalled: Arc::clone(&stalled),
        };
        (queue, Waiting { receiver, stalled })
    }

    /// Queues a line with a body, if enough room remains for lines without one.
    pub(super) fn offer_with_body(&self, text: Vec<u8>, whose: Whose) -> Result<(), Full> {
        let left = match whose {
            Whose::Known => self.known_bytes / 2,
            Whose::Refused | Whose::Unknown => 0,
        };
        let room = self.part(whose);
        if room.available_permits() < left.saturating_add(text.len()) {
            return Err(Full);
        }
        let room = Arc::clone(room).try_acquire_many_owned(permits(&text));
        self.send(text, whose, room.map_err(|_| Full)?)
    }

    /// Queues a line without a body, as soon as there is room.
    pub(super) async fn push(&self, text: Vec<u8>, whose: Whose) -> Result<(), Full> {
        let room = self.part(whose);
        let room = match Arc::clone(room).try_acquire_many_owned(permits(&text)) {
            Ok(room) => room,
            Err(_) if whose != Whose::Known || self.stalled.load(Ordering::Relaxed) => {
                return Err(Full);
            }
            Err(_) => {
                let _waiting = self.waiting.try_acquire().map_err(|_| Full)?;
                let room = Arc::clone(room).acquire_many_owned(permits(&text));
                let Ok(room) = tokio::time::timeout(self.wait_max, room).await else {
                    self.stalled.store(true, Ordering::Relaxed);
                    return Err(Full);
                };
                room.map_err(|_| Full)?
            }
        };
        self.send(text, whose, room)
    }

    fn part(&self, whose: Whose) -> &Arc<Semaphore> {
        match whose {
            Whose::Known => &self.known,
            Whose::Refused => &self.refused,
            Whose::Unknown => &self.unknown,
        }
    }

    fn send(&self, text: Vec<u8>, whose: Whose, room: OwnedSemaphorePermit) -> Result<(), Full> {
        let line = Line {
            text,
            whose,
            _room: room,
        };
        let sender = self.sender.lock();
        let sent = sender.as_ref().map(|sender| sender.send(line));
        sent.ok_or(Full)?.map_err(|_| Full)
    }

    /// Refuses further lines, including those that wait for room.
    pub(super) fn close(&self) {
        self.known.close();
        self.refused.close();
        self.unknown.close();
        self.sender.lock().take();
    }
}

fn permits(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt, poll};

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn queue() -> (Queue, Waiting) {
        Queue::new(0, WAIT)
    }

    fn line(of: usize) -> Vec<u8> {
        vec![b'x'; QUEUE_BYTES_MIN / of]
    }

    #[tokio::test]
    async fn a_body_leaves_room_for_lines_without_one() {
        let (queue, waiting) = queue();
        let offer = |of| queue.offer_with_body(line(of), Whose::Known);
        assert_eq!(offer(1), Err(Full));
        assert_eq!(offer(4), Ok(()));
        assert_eq!(offer(4), Ok(()));
        assert_eq!(offer(100), Err(Full));
        assert_eq!(queue.push(line(2), Whose::Known).await, Ok(()));
        for _ in 0..3 {
            drop(waiting.next());
        }
        assert_eq!(offer(2), Ok(()));
    }

    #[tokio::test]
    async fn requests_that_were_not_served_take_no_room_of_others_and_do_not_wait() {
        let (queue, _waiting) = queue();
        for whose in [Whose::Unknown, Whose::Refused] {
            assert_eq!(queue.push(line(4), whose).await, Ok(()));
            let full = queue.push(line(100), whose).now_or_never();
            assert_eq!(full, Some(Err(Full)));
        }
        assert_eq!(queue.push(line(1), Whose::Known).await, Ok(()));
    }

    #[tokio::test]
    async fn a_bounded_number_of_lines_waits() {
        let (queue, _waiting) = queue();
        assert_eq!(queue.push(line(1), Whose::Known).await, Ok(()));
        let mut waiting = Vec::new();
        for _ in 0..WAITING_MAX {
            let mut line = Box::pin(queue.push(line(100), Whose::Known));
            assert!(poll!(line.as_mut()).is_pending());
            waiting.push(line);
        }
        let more = queue.push(line(100), Whose::Known).now_or_never();
        assert_eq!(more, Some(Err(Full)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_waits_for_room_a_bounded_time() {
        let (queue, waiting) = queue();
        assert_eq!(queue.push(line(1), Whose::Known).await, Ok(()));
        let mut second = pin!(queue.push(line(2), Whose::Known));
        assert!(poll!(second.as_mut()).is_pending());
        drop(waiting.next());
        assert_eq!(second.await, Ok(()));

        let mut third = pin!(queue.push(line(1), Whose::Known));
        assert!(poll!(third.as_mut()).is_pending());
        tokio::time::advance(WAIT).await;
        assert_eq!(third.await, Err(Full));
        // A new line does not wait for a writer without progress, until the writer makes some.
        let fourth = queue.push(line(1), Whose::Known).now_or_never();
        assert_eq!(fourth, Some(Err(Full)));
        waiting.got_ahead();
        let mut fifth = pin!(queue.push(line(1), Whose::Known));
        assert!(poll!(fifth.as_mut()).is_pending());

        queue.close();
        assert_eq!(fifth.await, Err(Full));
        assert_eq!(queue.push(line(100), Whose::Known).await, Err(Full));
        assert!(waiting.next().is_some());
        assert!(waiting.next().is_none());
    }
}
