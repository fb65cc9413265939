//! The only file of this crate that reads clocks.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tidings_core::Monotonic;

/// The server's clock, for creation timestamps, expiry and ages in Tables.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Monotonic time, for rate limits. By default it follows [`now`](Self::now), as a manual clock
    /// of a test should.
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

/// The clock of timers, which tests may stop.
pub(crate) fn timer() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// The instant `time` after `began`, on the clock of timers; far in the future if that overflows.
pub(crate) fn deadline(began: tokio::time::Instant, time: Duration) -> tokio::time::Instant {
    let end = began.checked_add(time);
    end.unwrap_or_else(|| tokio::time::sleep(time).deadline())
}

/// The machine's monotonic clock.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// A store's clock is a server's clock, too.
impl<C: tidings_store::clock::Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(tidings_store::clock::Clock::now(&**self).0).unwrap_or_default()
    }
}
