//! Options of a delivery: bounds and retries.

use std::fmt;
use std::time::Duration;

use crate::{Backoff, RetryPolicy};

/// Which event is dropped when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// The new event.
    #[default]
    DropNewest,
    /// Events that failed before, then those that have waited longest: as many as necessary. Events
    /// in flight are kept.
    DropOldest,
}

/// Options of a delivery, with all its bounds.
///
/// ```
/// use tidings_core::{DeliveryOptions, Overflow};
///
/// let options = DeliveryOptions::default().workers(2).overflow(Overflow::DropOldest);
/// options.validate()?;
/// # Ok::<(), tidings_core::InvalidDeliveryOptions>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct DeliveryOptions {
    /// Maximum concurrent writes, 1 to 1024. Default 8. At most half of the workers, but at least
    /// one, write events that failed before; writes without an answer thus leave workers for new
    /// events.
    pub workers: usize,
    /// Maximum pending events, waiting or in flight, at least 1. Default 32,768.
    pub pending_events_max: usize,
    /// Maximum bytes of the pending events, at least 1. Default 32 MiB.
    pub pending_bytes_max: usize,
    /// Which event is dropped when either bound is reached. Default: the new one.
    pub overflow: Overflow,
    /// Whether a later event of the same key replaces a waiting one. Counts and timestamps are
    /// absolute, so the later event has all information of the earlier. The outcome of the earlier
    /// event decides whether the later is a create or a patch. Otherwise every event is written as
    /// it was correlated. Default true.
    pub coalesce: bool,
    /// How failed writes are retried.
    pub retry: RetryPolicy,
    /// The number of keys that must find the server out of reach, one after the other, before
    /// writing pauses. During a pause one probe is sent at a time, so that a server that is down
    /// gets few requests, however many events wait. 0 never pauses. Default 4.
    ///
    /// A probe is an event that was not tried yet, if there is one.
    ///
    /// Out of reach means: no answer, 429 of a busy server, 502, 503 or 504. Any other answer ends
    /// the pause, also 500 or the 429 of EventRateLimit. An event that the server cannot write
    /// delays no others, and is itself retried as [`RetryPolicy::backoff`] says. Pauses are as long
    /// as the waits of the back-off.
    ///
    /// It is also the number of objects (at most 64) that show a shared limit on the rate of events
    /// ([`WriteError::is_rate_limited`](crate::WriteError::is_rate_limited)). If that many objects
    /// of several namespaces are refused and no event is admitted in between, the limit is on
    /// everything. If they are all of one namespace, the limit is on that namespace, and delays no
    /// other. An object has a limit of its own, which delays no other object, if it is mostly
    /// refused while new objects are mostly admitted.
    ///
    /// Writes under a limit are paced: the sink learns the interval at which the server admits
    /// them. The interval begins with the shortest wait of the back-off, at least 250 ms. A refusal
    /// makes it longer and leaves one write in flight; the next write then waits, up to the longest
    /// wait of the back-off. Each further admission makes the interval a tenth shorter. Under a
    /// steady limit, fewer than one write in two is refused, unless this sink's share of it is less
    /// than one event in the longest wait of the back-off. A write without an answer keeps others
    /// waiting for five seconds only.
    pub pause_after_keys: u32,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            pending_events_max: 32_768,
            pending_bytes_max: 32 << 20,
            overflow: Overflow::DropNewest,
            coalesce: true,
            retry: RetryPolicy::default(),
            pause_after_keys: 4,
        }
    }
}

impl DeliveryOptions {
    /// One write at a time, without merging, retried as client-go's `recordToSink` does (see
    /// [`RetryPolicy::client_go`]).
    ///
    /// Unlike client-go: an event that waits for a retry delays no others, and waiting events are
    /// not limited to the watcher's queue.
    pub fn client_go() -> Self {
        Self {
            workers: 1,
            coalesce: false,
            retry: RetryPolicy::client_go(),
            pause_after_keys: 0,
            ..Self::default()
        }
    }

    /// Eight writes at a time, without merging, retried as client-go's `tools/events` does (see
    /// [`RetryPolicy::client_go_events`]).
    ///
    /// Unlike client-go: the writes of one series are sent one after the other, and an event that
    /// waits for a retry occupies no worker.
    pub fn client_go_events() -> Self {
        Self {
            workers: 8,
            retry: RetryPolicy::client_go_events(),
            ..Self::client_go()
        }
    }

    /// Sets [`DeliveryOptions::workers`].
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets [`DeliveryOptions::pending_events_max`].
    pub const fn pending_events_max(mut self, events: usize) -> Self {
        self.pending_events_max = events;
        self
    }

    /// Sets [`DeliveryOptions::pending_bytes_max`].
    pub const fn pending_bytes_max(mut self, bytes: usize) -> Self {
        self.pending_bytes_max = bytes;
        self
    }

    /// Sets [`DeliveryOptions::overflow`].
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Sets [`DeliveryOptions::coalesce`].
    pub const fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Sets [`DeliveryOptions::retry`].
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets [`DeliveryOptions::pause_after_keys`].
    pub const fn pause_after_keys(mut self, keys: u32) -> Self {
        self.pause_after_keys = keys;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// The first invalid option, its value, and the values it accepts.
    pub fn validate(&self) -> Result<(), InvalidDeliveryOptions> {
        let check = |ok: bool, option, given: &dyn fmt::Display, accepted| {
            if ok {
                Ok(())
            } else {
                Err(InvalidDeliveryOptions {
                    option,
                    given: given.to_string(),
                    accepted,
                })
            }
        };
        check(
            (1..=1024).contains(&self.workers),
            "workers",
            &self.workers,
            "1 to 1024",
        )?;
        for (option, given) in [
            ("pending_events_max", self.pending_events_max),
            ("pending_bytes_max", self.pending_bytes_max),
        ] {
            check(given > 0, option, &given, "at least 1")?;
        }
        let retry = &self.retry;
        for (option, given) in [
            ("retry.tries_max", retry.tries_max),
            ("retry.unauthorized_tries_max", retry.unauthorized_tries_max),
            ("retry.rate_limited_tries_max", retry.rate_limited_tries_max),
        ] {
            check(given > 0, option, &given, "at least 1")?;
        }
        match retry.backoff {
            Backoff::Exponential { first, max } => check(
                first > Duration::ZERO && first <= max,
                "retry.backoff",
                &format_args!("{first:?} to {max:?}"),
                "a first wait above zero and not above the longest",
            ),
            Backoff::Between { least, most } => check(
                least <= most,
                "retry.backoff",
                &format_args!("{least:?} to {most:?}"),
                "a shortest wait not above the longest",
            ),
            Backoff::Constant(_) => Ok(()),
        }
    }
}

/// An invalid option of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delivery option {option} is {given}: accepted is {accepted}")]
#[non_exhaustive]
pub struct InvalidDeliveryOptions {
    /// The option's name.
    pub option: &'static str,
    /// The given value.
    pub given: String,
    /// The values it accepts.
    pub accepted: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_named() {
        let good = DeliveryOptions::default;
        let backoff = |first, max| RetryPolicy {
            backoff: Backoff::Exponential { first, max },
            ..RetryPolicy::default()
        };
        let between = |least, most| RetryPolicy {
            backoff: Backoff::Between { least, most },
            ..RetryPolicy::default()
        };
        let second = Duration::from_secs(1);
        #[rustfmt::skip]
        let table = [
            (good(), None),
            (DeliveryOptions::client_go(), None),
            (DeliveryOptions::client_go_events(), None),
            (DeliveryOptions { workers: 0, ..good() }, Some("workers")),
            (DeliveryOptions { workers: 1025, ..good() }, Some("workers")),
            (DeliveryOptions { pending_events_max: 0, ..good() }, Some("pending_events_max")),
            (DeliveryOptions { pending_bytes_max: 0, ..good() }, Some("pending_bytes_max")),
            (DeliveryOptions { retry: RetryPolicy { tries_max: 0, ..RetryPolicy::default() }, ..good() }, Some("retry.tries_max")),
            (DeliveryOptions { retry: RetryPolicy { unauthorized_tries_max: 0, ..RetryPolicy::default() }, ..good() }, Some("retry.unauthorized_tries_max")),
            (DeliveryOptions { retry: RetryPolicy { rate_limited_tries_max: 0, ..RetryPolicy::default() }, ..good() }, Some("retry.rate_limited_tries_max")),
            (DeliveryOptions { retry: backoff(Duration::ZERO, second), ..good() }, Some("retry.backoff")),
            (DeliveryOptions { retry: backoff(second * 2, second), ..good() }, Some("retry.backoff")),
            (DeliveryOptions { retry: backoff(second, second), ..good() }, None),
            (DeliveryOptions { retry: between(second * 2, second), ..good() }, Some("retry.backoff")),
            (DeliveryOptions { retry: between(second, second), ..good() }, None),
        ];
        for (options, wrong) in table {
            assert_eq!(
                options.validate().err().map(|invalid| invalid.option),
                wrong
            );
        }
        let workers = good().workers(2000).validate().unwrap_err();
        assert_eq!(
            workers.to_string(),
            "delivery option workers is 2000: accepted is 1 to 1024"
        );
        let backoff = good().retry(backoff(second * 2, second)).validate();
        let error = backoff.unwrap_err().to_string();
        assert!(
            error.starts_with("delivery option retry.backoff is 2s to 1s: "),
            "{error}"
        );
    }
}
