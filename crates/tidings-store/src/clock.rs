//! The clock of a store: the only file of this crate that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::UnixMillis;

/// The clocks of a store: wall time and monotonic time. Expiry is in wall time, because it must
/// mean the same after a restart. But the machine's clock may be set, so irreversible steps need
/// both clocks (see [the rules of expiry](crate#expiry-and-the-clock)).
pub trait Clock: Send + Sync + 'static {
    /// The wall time now, as the machine's clock shows it.
    fn now(&self) -> UnixMillis;

    /// Monotonic time since a fixed moment of this process. It never goes back, and setting the
    /// machine's clock does not change it.
    fn steady(&self) -> Duration;
}

/// The wall time and the monotonic time of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) wall: UnixMillis,
    pub(crate) steady: Duration,
}

impl Reading {
    /// Reads both clocks. The monotonic time is read first. If the thread is suspended between the
    /// two reads, the wall clock seems to be ahead, which the next reading corrects. In the other
    /// order it would seem to be set back.
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        let steady = clock.steady();
        Self {
            wall: clock.now(),
            steady,
        }
    }

    /// Milliseconds by which wall time is ahead of monotonic time: the *lead*. The lead changes
    /// only when the machine's clock is set.
    pub(crate) fn lead(self) -> i64 {
        self.wall.0.saturating_sub(self.steady_millis())
    }

    pub(crate) fn steady_millis(self) -> i64 {
        i64::try_from(self.steady.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The monotonic time now, as tokio's timers use it.
#[cfg(feature = "etcd")]
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Runs a function and returns its result and duration.
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

/// A clock for tests that stands still until it is moved. Clones share the time.
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
    /// A clock that shows the wall time `now`.
    pub fn at(now: UnixMillis) -> Self {
        let clock = Self::default();
        clock.0.wall.store(now.0, Ordering::SeqCst);
        clock
    }

    /// Lets `millis` milliseconds pass on both clocks; a negative number sets wall time back.
    pub fn advance(&self, millis: i64) {
        // Wall time moves first: readers read monotonic time first, and must not see wall time
        // behind it.
        self.set_by(millis);
        let passed = millis.max(0).cast_unsigned();
        self.0.steady.fetch_add(passed, Ordering::SeqCst);
    }

    /// Sets wall time ahead by `millis` milliseconds, or back if negative; no monotonic time
    /// passes.
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
