//! The only file of the command that reads clocks. All other code takes times as arguments.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::time::Instant;

/// The wall time now.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The monotonic time now, to measure durations.
pub(crate) fn moment() -> Instant {
    Instant::now()
}

/// The time zone of this machine.
pub(crate) fn zone() -> TimeZone {
    TimeZone::system()
}
