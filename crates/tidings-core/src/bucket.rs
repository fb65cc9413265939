//! A token bucket whose clock is an argument.
//!
//! It follows `golang.org/x/time/rate`, as client-go and EventRateLimit use it.

use crate::Monotonic;

/// The rate at which a bucket fills, and its capacity.
#[derive(Clone, Copy, Debug)]
pub struct TokenRate {
    per_second: f64,
    burst: f64,
}

impl TokenRate {
    /// A rate in tokens per second, and the maximum number of tokens.
    pub fn new(per_second: f32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst),
        }
    }
}

/// A token bucket, full at first. The arithmetic is `rate.Limiter`'s, rounding included, so that
/// both refuse the same events.
///
/// ```
/// use std::time::Duration;
///
/// use tidings_core::{Monotonic, TokenBucket, TokenRate};
///
/// let rate = TokenRate::new(0.5, 1);
/// let mut bucket = TokenBucket::full(rate, Monotonic::ZERO);
/// assert!(bucket.take(rate, Monotonic::ZERO));
/// assert!(!bucket.take(rate, Monotonic::ZERO));
/// assert!(bucket.take(rate, Monotonic::ZERO.saturating_add(Duration::from_secs(2))));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    tokens: f64,
    last: Monotonic,
}

impl TokenBucket {
    /// A full bucket.
    pub fn full(rate: TokenRate, now: Monotonic) -> Self {
        Self {
            tokens: rate.burst,
            last: now,
        }
    }

    /// Takes a token if there is one, and returns whether it did. If the clock goes back, no tokens
    /// are lost, but the repeated time fills the bucket again.
    pub fn take(&mut self, rate: TokenRate, now: Monotonic) -> bool {
        const SECOND: i64 = 1_000_000_000;
        let elapsed = now.nanos_since(self.last).max(0);
        let seconds = (elapsed / SECOND) as f64 + (elapsed % SECOND) as f64 / 1e9;
        let tokens = (self.tokens + seconds * rate.per_second).min(rate.burst) - 1.;
        // A token that is due within a nanosecond counts. Otherwise rounding could refuse a token
        // that is due.
        let due = tokens >= 0. || (-tokens / rate.per_second) * 1e9 < 1.;
        let taken = rate.burst >= 1. && due;
        if taken {
            *self = Self { tokens, last: now };
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a token at each of `nanoseconds`, and returns whether each take succeeded.
    fn takes(per_second: f32, burst: u32, nanoseconds: impl IntoIterator<Item = i64>) -> Vec<bool> {
        let rate = TokenRate::new(per_second, burst);
        let mut bucket = TokenBucket::full(rate, Monotonic::ZERO);
        nanoseconds
            .into_iter()
            .map(|at| bucket.take(rate, Monotonic::from_nanos(at)))
            .collect()
    }

    const SECOND: i64 = 1_000_000_000;

    /// client-go's TestBasicThrottle and TestIncrementThrottle. The other rows are odd rates and
    /// bursts, with their results in `golang.org/x/time/rate`.
    #[test]
    fn a_bucket_gives_what_it_has() {
        let rows: [(f32, u32, &[i64], &[bool]); 7] = [
            (1., 3, &[0, 0, 0, 0], &[true, true, true, false]),
            (1., 1, &[0, 0, SECOND, SECOND], &[true, false, true, false]),
            // A token comes back whole or not at all, to the nanosecond.
            (1., 1, &[0, SECOND - 2, SECOND], &[true, false, true]),
            (
                0.1,
                2,
                &[0, 0, 25 * SECOND, 25 * SECOND, 25 * SECOND, 30 * SECOND],
                &[true, true, true, true, false, false],
            ),
            // At rate zero no token comes back.
            (0., 1, &[0, i64::MAX], &[true, false]),
            // At burst zero there is never a token.
            (1e9, 0, &[0, SECOND], &[false, false]),
            // Going back in time takes nothing away, and the time after it counts again.
            (
                1.,
                1,
                &[10 * SECOND, 0, 5 * SECOND, SECOND, 2 * SECOND, 2 * SECOND],
                &[true, false, false, false, false, false],
            ),
        ];
        for (per_second, burst, times, expected) in rows {
            assert_eq!(
                takes(per_second, burst, times.iter().copied()),
                expected,
                "{per_second} {burst} {times:?}"
            );
        }
        let back = takes(1., 2, [10 * SECOND, 0, SECOND, 2 * SECOND]);
        assert_eq!(back, [true; 4]);
    }

    /// client-go's TestMultithreadedThrottling and TestThrottle, by the clock alone. No caller gets
    /// more than burst and refill.
    #[test]
    fn a_bucket_gives_no_more_than_it_has() {
        for (per_second, burst, seconds, given) in
            [(100., 1, 1, 101), (10., 5, 1, 15), (10., 5, 10, 105)]
        {
            let times = (0..=seconds * 1000).flat_map(|milli| [milli * 1_000_000; 3]);
            let count = takes(per_second, burst, times)
                .into_iter()
                .filter(|given| *given)
                .count();
            assert_eq!(count, given);
        }
    }

    /// client-go's TestRatePrecisionBug: rounding must not take away a token. Every second more
    /// than one token comes in.
    #[test]
    fn rounding_refuses_no_token_that_is_due() {
        let taken = takes(
            1e9 / 1_031_425_000.,
            1,
            (0..60).map(|count| count * 2 * SECOND),
        );
        assert_eq!(taken, [true; 60]);
    }

    /// At a rate of one token per nanosecond, a token that is a nanosecond away is not there yet.
    #[test]
    fn a_token_a_nanosecond_away_is_refused() {
        assert_eq!(takes(1e9, 1, [0, 0, 1, 1]), [true, false, true, false]);
    }
}
