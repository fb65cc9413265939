//! Moments in the range that Kubernetes can write.

use jiff::Timestamp;

/// A moment: seconds since the Unix epoch, and nanoseconds within that second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within that second.
    pub nanos: i32,
}

/// Seconds of the years that Go can print and parse: 0 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

impl Moment {
    /// A moment; `None` if its year is not one that RFC 3339 can write.
    #[inline]
    pub fn new(seconds: i64, nanos: i32) -> Option<Self> {
        (SECONDS.contains(&seconds) && (0..1_000_000_000).contains(&nanos))
            .then_some(Self { seconds, nanos })
    }

    /// The moment as jiff's type, whose maximum is a day and two hours before the year 10000.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::new(self.seconds, self.nanos).unwrap_or(Timestamp::MAX)
    }

    /// Whether it is Go's zero time, which means an unset time. It is the first instant of the year
    /// 1.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.seconds == ZERO_TIME_SECONDS && self.nanos == 0
    }

    /// Truncates to microseconds, the precision of `MicroTime`.
    #[must_use]
    pub fn truncated_to_micros(self) -> Self {
        Self {
            nanos: self.nanos / 1000 * 1000,
            ..self
        }
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        // jiff counts the fraction of a second towards zero, the wire from below.
        let nanos = time.subsec_nanosecond();
        Self {
            seconds: time.as_second() - i64::from(nanos < 0),
            nanos: if nanos < 0 {
                nanos + 1_000_000_000
            } else {
                nanos
            },
        }
    }
}

/// The moment of a protobuf time. A message without seconds is Go's zero time, which means unset.
#[inline]
pub fn moment(time: Option<(Option<i64>, Option<i32>)>) -> Option<Moment> {
    let (seconds, nanos) = time?;
    Moment::new(seconds?, nanos.unwrap_or(0)).filter(|moment| !moment.is_zero())
}

/// Seconds of 0001-01-01T00:00:00Z.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;
