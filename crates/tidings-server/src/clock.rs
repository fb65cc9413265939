//! The one place of this crate that reads the time.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the file the clock is read in"
)]

use std::sync::Arc;

use jiff::Timestamp;

/// Tells the server the time: creation timestamps, expiry and ages in tables.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The clock that timers run by.
pub(crate) fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

/// A store's clock shows the server the same time.
impl<C: tidings_store::clock::Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(tidings_store::clock::Clock::now(&**self).0).unwrap_or_default()
    }
}
