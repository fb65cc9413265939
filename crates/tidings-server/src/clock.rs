//! The one place of this crate that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tidings_core::Monotonic;

/// Tells the server the time: creation timestamps, expiry and ages in tables.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Time that setting the clock does not change, for budgets of events. By default it follows
    /// [`now`](Self::now), which is right for a clock that a test moves by hand.
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_nanos(i64::try_from(self.now().as_nanosecond()).unwrap_or(i64::MAX))
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Monotonic {
        static START: OnceLock<Instant> = OnceLock::new();
        Monotonic::ZERO.saturating_add(START.get_or_init(monotonic).elapsed())
    }
}

/// The clock that timers run by; tests may stop it.
pub(crate) fn timer() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The moment so long after `began`, on the clock that timers run by; far off where time is so
/// long.
pub(crate) fn deadline(began: tokio::time::Instant, time: Duration) -> tokio::time::Instant {
    let end = began.checked_add(time);
    end.unwrap_or_else(|| tokio::time::sleep(time).deadline())
}

/// A clock that is never set.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// A store's clock shows the server the same time.
impl<C: tidings_store::clock::Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(tidings_store::clock::Clock::now(&**self).0).unwrap_or_default()
    }
}
