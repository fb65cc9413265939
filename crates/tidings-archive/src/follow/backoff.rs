//! Delays before a failed request is repeated.

/// Delays that double up to a maximum. Half of each delay is random.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    first: i64,
    longest: i64,
}

impl Backoff {
    /// Delays from `first` to `longest` milliseconds.
    pub(crate) fn new(first: i64, longest: i64) -> Self {
        Self {
            failures: 0,
            first,
            longest,
        }
    }

    /// The next delay: between half of the current maximum and all of it.
    pub(crate) fn next(&mut self, random: &mut fastrand::Rng) -> i64 {
        let doubled = self.first.saturating_mul(1 << self.failures.min(32));
        self.failures = self.failures.saturating_add(1);
        let longest = doubled.clamp(1, self.longest.max(1));
        longest - random.i64(0..=longest / 2)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut backoff = Backoff::new(100, 1_000);
        for longest in [100, 200, 400, 800, 1_000, 1_000] {
            let wait = backoff.next(&mut random);
            assert!(
                (longest / 2..=longest).contains(&wait),
                "{wait} of {longest}"
            );
        }
        for _ in 0..100 {
            assert!(backoff.next(&mut random) <= 1_000);
        }
        backoff.reset();
        assert!(backoff.next(&mut random) <= 100);
    }
}
