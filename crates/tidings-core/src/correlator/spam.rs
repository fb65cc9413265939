//! The spam filter: a budget of events for each key. client-go's `EventSourceObjectSpamFilter` over
//! `golang.org/x/time/rate`.

use crate::Monotonic;
use crate::bucket::{TokenBucket, TokenRate};
use crate::cache::{Cache, CacheStats};
use crate::key::Key;

pub(super) struct SpamFilter {
    buckets: Cache<TokenBucket>,
    rate: TokenRate,
}

impl SpamFilter {
    pub(super) fn new(buckets: (usize, usize), rate: TokenRate) -> Self {
        Self {
            buckets: Cache::new(buckets.0, buckets.1),
            rate,
        }
    }

    /// Whether an event of the budget `key` may pass now. An event that may not pass leaves the
    /// budget unchanged.
    pub(super) fn pass(&mut self, now: Monotonic, key: Key) -> bool {
        if let Some(bucket) = self.buckets.get(&key) {
            return bucket.take(self.rate, now);
        }
        let mut bucket = TokenBucket::full(self.rate, now);
        let passes = bucket.take(self.rate, now);
        self.buckets.put(key, bucket, 0);
        passes
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.buckets.stats()
    }
}
