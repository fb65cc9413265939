//! The one place of this crate that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::UnixMillis;

/// The clocks of a store. Expiry is in wall time, since it must mean the same after a restart; but
/// the machine's clock may be set, so irreversible steps need both clocks (see [the rules of
/// expiry](crate#expiry-and-the-clock)).
pub trait Clock: Send + Sync + 'static {
    /// The time now, as the clock is set.
    fn now(&self) -> UnixMillis;

    /// Time since a fixed moment of this process, which setting the clock does not change. It never
    /// goes back.
    fn steady(&self) -> Duration;
}

/// Both times at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) wall: UnixMillis,
    pub(crate) steady: Duration,
}

impl Reading {
    /// The steady time is read first: if the thread is suspended between the two, the clock seems
    /// to be ahead, which the next reading corrects.
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        let steady = clock.steady();
        Self {
            wall: clock.now(),
            steady,
        }
    }

    /// Milliseconds by which the clock is ahead of the steady time. It changes only when the clock
    /// is set.
    pub(crate) fn lead(self) -> i64 {
        self.wall.0.saturating_sub(self.steady_millis())
    }

    pub(crate) fn steady_millis(self) -> i64 {
        i64::try_from(self.steady.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A point in time that setting the clock does not change.
#[cfg(feature = "etcd")]
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Runs a function, and measures its time.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = Instant::now();
    let result = work();
    (result, before.elapsed())
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixMillis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A clock that stands still until it is moved. Clones share the time.
///
/// ```
/// use tidings_store::{UnixMillis, clock::{Clock, ManualClock}};
///
/// let clock = ManualClock::at(UnixMillis(1_000));
/// clock.clone().advance(500);
/// assert_eq!(clock.now(), UnixMillis(1_500));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug, Default)]
struct Manual {
    wall: AtomicI64,
    steady: AtomicU64,
}

impl ManualClock {
    /// A clock with this time.
    pub fn at(now: UnixMillis) -> Self {
        let clock = Self::default();
        clock.0.wall.store(now.0, Ordering::SeqCst);
        clock
    }

    /// Lets `millis` milliseconds pass; a negative number sets the clock back.
    pub fn advance(&self, millis: i64) {
        // Readers read the steady time first; the clock must not seem to be behind it.
        self.set_by(millis);
        let passed = millis.max(0).cast_unsigned();
        self.0.steady.fetch_add(passed, Ordering::SeqCst);
    }

    /// Sets the clock ahead by `millis` milliseconds, or back if negative, while no time passes.
    pub fn set_by(&self, millis: i64) {
        self.0.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.wall.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.steady.load(Ordering::SeqCst))
    }
}
