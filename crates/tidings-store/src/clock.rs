//! The one place of this crate that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::UnixMillis;

/// Tells a store the time. Expiry is wall time, for it must mean the same after a restart.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> UnixMillis;
}

/// A point in time that no setting of the clock moves.
#[cfg(feature = "etcd")]
pub(crate) fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Does something, and says how long it took.
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
}

/// A clock that stands still until it is moved. Clones are the same clock.
///
/// ```
/// use tidings_store::{UnixMillis, clock::{Clock, ManualClock}};
///
/// let clock = ManualClock::at(UnixMillis(1_000));
/// clock.clone().advance(500);
/// assert_eq!(clock.now(), UnixMillis(1_500));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(now: UnixMillis) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// Moves the clock by so many milliseconds; negative is back.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}
