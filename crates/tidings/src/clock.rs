//! The only file that reads clocks, and the only source of randomness.
#![expect(
    clippy::disallowed_methods,
    reason = "every other file is handed what it needs to know of time"
)]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use tidings_core::{Monotonic, Now};
use tokio::sync::watch;
use tokio::time::Instant;

/// A broadcaster's clock: the machine's, or a manual one for tests.
///
/// The machine's clock follows tokio's paused time in tests that use it, except for timestamps.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { start: Instant },
    Manual(watch::Receiver<Now>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System {
            start: Instant::now(),
        })
    }

    /// Makes a clock that stays at `start` until it is moved. Windows, back-off and deadlines all
    /// use it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidings::{Broadcaster, BroadcasterOptions, Clock};
    ///
    /// let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse()?);
    /// let broadcaster = Broadcaster::with_options(BroadcasterOptions::default().clock(clock))?;
    /// hand.advance(Duration::from_secs(600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn manual(start: Timestamp) -> (Self, ManualClock) {
        let (sender, receiver) = watch::channel(Now::at(start));
        (Self(Source::Manual(receiver)), ManualClock(sender))
    }

    /// The wall time, for timestamps.
    pub(crate) fn wall(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => Timestamp::now(),
            Source::Manual(now) => now.borrow().wall,
        }
    }

    /// Monotonic time, for deadlines and rates.
    pub(crate) fn monotonic(&self) -> Monotonic {
        match &self.0 {
            Source::System { start } => Monotonic::ZERO.saturating_add(start.elapsed()),
            Source::Manual(now) => now.borrow().monotonic,
        }
    }

    /// A reading of both clocks.
    pub(crate) fn now(&self) -> Now {
        Now {
            monotonic: self.monotonic(),
            wall: self.wall(),
        }
    }

    /// Waits until `deadline`. A manual clock without a handle never reaches it.
    pub(crate) async fn sleep_until(&self, deadline: Monotonic) {
        match &self.0 {
            Source::System { start } => {
                let nanoseconds = u64::try_from(deadline.as_nanos()).unwrap_or(0);
                match start.checked_add(Duration::from_nanos(nanoseconds)) {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            }
            Source::Manual(now) => {
                if now
                    .clone()
                    .wait_for(|now| now.monotonic >= deadline)
                    .await
                    .is_err()
                {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

/// The handle that moves a manual [`Clock`].
#[derive(Debug)]
pub struct ManualClock(watch::Sender<Now>);

impl ManualClock {
    /// Moves both clocks forward by `step`, and wakes the timers that are due.
    ///
    /// The wall time stops at jiff's last timestamp, in the year 9999.
    pub fn advance(&self, step: Duration) {
        self.0.send_modify(|now| {
            now.monotonic = now.monotonic.saturating_add(step);
            now.wall = now.wall.saturating_add(step).unwrap_or(Timestamp::MAX);
        });
    }

    /// Sets only the wall time, forward or back, as an administrator does. Windows and back-off are
    /// not affected.
    pub fn set_wall(&self, wall: Timestamp) {
        self.0.send_modify(|now| now.wall = wall);
    }
}

/// Runs `future`, which waits for other threads. For at most `longest`, tokio's paused time does
/// not advance meanwhile: otherwise it would not wait for those threads.
pub(crate) async fn standing<T>(longest: Duration, future: impl Future<Output = T>) -> T {
    let (held, hold) = std::sync::mpsc::channel::<()>();
    // tokio advances paused time when it has nothing else to do. A blocking task prevents that.
    tokio::task::spawn_blocking(move || {
        // Ends early when `held` is dropped.
        let _ = hold.recv_timeout(longest);
    });
    let result = future.await;
    drop(held);
    result
}

/// An unpredictable number, from the random seed of the standard library's hash maps.
pub(crate) fn entropy() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i128(Timestamp::now().as_nanosecond());
    hasher.finish()
}
