//! The clocks of the suites, which run in real time.
#![expect(
    clippy::disallowed_methods,
    reason = "what happens here happens in real time"
)]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The current time in milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// The time of a clock that never goes back.
pub(crate) fn steady() -> Instant {
    Instant::now()
}
