//! The spam filter: a budget of events for each key. client-go's `EventSourceObjectSpamFilter` over `golang.org/x/time/rate`.

use crate::Monotonic;
use crate::cache::{Cache, CacheStats};
use crate::key::Key;

/// How fast a bucket fills, and how far.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    per_second: f64,
    burst: f64,
}

impl Rate {
    pub(super) fn new(per_second: f32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst),
        }
    }
}

/// A token bucket, full at first. The arithmetic is `rate.Limiter`'s, rounding included, so that both refuse the same events.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    tokens: f64,
    last: Monotonic,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: Monotonic) -> Self {
        Self {
            tokens: rate.burst,
            last: now,
        }
    }

    /// Takes a token, if there is one. A clock that went back takes nothing away, but what it passes again counts again.
    pub(super) fn take(&mut self, rate: Rate, now: Monotonic) -> bool {
        const SECOND: i64 = 1_000_000_000;
        let elapsed = now.nanos_since(self.last).max(0);
        let seconds = (elapsed / SECOND) as f64 + (elapsed % SECOND) as f64 / 1e9;
        let tokens = (self.tokens + seconds * rate.per_second).min(rate.burst) - 1.;
        // A token that is less than a nanosecond away is there: without this, rounding would refuse one that is due.
        let due = tokens >= 0. || (-tokens / rate.per_second) * 1e9 < 1.;
        let taken = rate.burst >= 1. && due;
        if taken {
            *self = Self { tokens, last: now };
        }
        taken
    }
}

pub(super) struct SpamFilter {
    buckets: Cache<Bucket>,
    rate: Rate,
}

impl SpamFilter {
    pub(super) fn new(buckets: (usize, usize), rate: Rate) -> Self {
        Self {
            buckets: Cache::new(buckets.0, buckets.1),
            rate,
        }
    }

    /// Whether an event of the budget `key` may pass now. One that may not costs nothing.
    pub(super) fn pass(&mut self, now: Monotonic, key: Key) -> bool {
        if let Some(bucket) = self.buckets.get(&key) {
            return bucket.take(self.rate, now);
        }
        let mut bucket = Bucket::full(self.rate, now);
        let passes = bucket.take(self.rate, now);
        self.buckets.put(key, bucket, 0);
        passes
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.buckets.stats()
    }
}
