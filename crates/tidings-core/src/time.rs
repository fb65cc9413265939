//! Time as the rules see it: an argument, never a clock that is read.
//!
//! Windows, buckets and back-off run on [`Monotonic`]; [`Now::wall`] is only ever stamped onto
//! events. A stepped wall clock therefore neither grants nor steals budget.

use std::time::Duration;

use jiff::Timestamp;

/// A moment on a clock that does not step, in nanoseconds since a start of its owner's choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(i64);

impl Monotonic {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// The moment `nanoseconds` after the start (before it, when negative).
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this moment; negative when `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment moved on by `duration`, stopping at the end of the clock's range (292 years).
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)),
        )
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and rates.
    pub monotonic: Monotonic,
    /// For timestamps on events.
    pub wall: Timestamp,
}

impl Now {
    /// Both clocks in step, as a clock set by hand shows them: monotonic time counts from the Unix
    /// epoch.
    pub fn at(wall: Timestamp) -> Self {
        let nanoseconds = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
        Self {
            monotonic: Monotonic(nanoseconds),
            wall,
        }
    }
}
