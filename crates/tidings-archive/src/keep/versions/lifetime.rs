//! How long events exist at their source after they were last seen, as far as their ends show it.
//!
//! In a watch, an expired event and a deleted one end in the same way. So a few short lives say
//! nothing, while a single long life says that events may exist as long as that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use tidings_api::codec;

/// Minimum number of observed ends before a result is returned.
const ENDS_MIN: u64 = 100;

/// The observed ends, and the longest life among them.
#[derive(Debug, Default)]
pub(crate) struct Lasted {
    ends: AtomicU64,
    /// The longest life in milliseconds.
    longest: AtomicU64,
}

impl Lasted {
    /// Notes the end of an event, observed at this time. If an end is observed late, after an
    /// outage, the event seems to have existed for longer.
    pub(crate) fn note(&self, event: &Event, now: i64) {
        let Some(seen) = codec::last_seen(event) else {
            return;
        };
        let lived = now.saturating_sub(seen.as_millisecond()).max(0);
        self.longest
            .fetch_max(lived.cast_unsigned(), Ordering::Relaxed);
        self.ends.fetch_add(1, Ordering::Relaxed);
    }

    /// The longest life so far; `None` while too few ends were observed.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let is_enough = self.ends.load(Ordering::Relaxed) >= ENDS_MIN;
        is_enough.then(|| Duration::from_millis(self.longest.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn the_longest_life_counts_once_there_were_ends_enough() {
        let lasted = Lasted::default();
        let seen_at = |seconds: Option<i64>| Event {
            last_timestamp: seconds.map(|seconds| Time {
                seconds: Some(seconds),
                nanos: None,
            }),
            ..Event::default()
        };
        for number in 0..99 {
            lasted.note(&seen_at(Some(1_000 + number)), 1_300_000);
        }
        // An event without a time does not count.
        lasted.note(&seen_at(None), 1_300_000);
        assert_eq!(lasted.longest(), None);
        // The clock of the event's author is ahead.
        lasted.note(&seen_at(Some(9_000)), 1_300_000);
        assert_eq!(lasted.longest(), Some(Duration::from_secs(300)));
        lasted.note(&seen_at(Some(1_000)), 4_600_000);
        assert_eq!(lasted.longest(), Some(Duration::from_secs(3_600)));
    }
}
