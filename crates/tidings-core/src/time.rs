//! Time for the rules: always an argument, never a clock that is read.
//!
//! Windows, buckets and back-off use [`Monotonic`]. [`Now::wall`] is only put onto events as a
//! timestamp. So a stepped wall clock neither grants nor takes away budget.

use std::time::Duration;

use jiff::Timestamp;

/// A moment on a clock that does not step, in nanoseconds since a start that its owner chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(i64);

impl Monotonic {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// The moment `nanoseconds` after the start, or before it if negative.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this moment; negative if `earlier` is later.
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `duration` after this one, at most the end of the clock's range (292 years).
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
    /// Monotonic time, for deadlines and rates.
    pub monotonic: Monotonic,
    /// Wall time, for timestamps on events.
    pub wall: Timestamp,
}

impl Now {
    /// Both clocks at one wall time, as a clock set by hand shows them. Monotonic time then counts
    /// from the Unix epoch.
    pub fn at(wall: Timestamp) -> Self {
        let nanoseconds = i64::try_from(wall.as_nanosecond()).unwrap_or(i64::MAX);
        Self {
            monotonic: Monotonic(nanoseconds),
            wall,
        }
    }
}
