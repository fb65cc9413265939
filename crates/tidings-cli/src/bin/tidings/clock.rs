//! Where the command reads the time. Everything else is told what time it is.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the clock"
)]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::time::Instant;

/// The time of day now.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The moment now, to measure how long something takes.
pub(crate) fn moment() -> Instant {
    Instant::now()
}

/// The time zone of this machine.
pub(crate) fn zone() -> TimeZone {
    TimeZone::system()
}
