//! The outcome of an event: delivered, merged into another write, dropped for a named cause, or
//! pending.
//!
//! Invariant, for every state machine that reports outcomes: offered = delivered + aggregated +
//! dropped + pending. Every loss has a cause.

use std::fmt;

/// Declares the causes of drops, each with its label; the one place to add a cause. `benign` marks
/// causes that occur in a healthy cluster.
macro_rules! drop_causes {
    (@is_benign) => { false };
    (@is_benign benign) => { true };
    ($($(#[$doc:meta])+ $cause:ident = $label:literal $($benign:ident)?,)+) => {
        /// The cause for which an event was dropped. The library has only this list, so every loss
        /// has exactly one name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DropCause {
            $($(#[$doc])+ $cause,)+
        }

        impl DropCause {
            /// All causes, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$cause),+];

            /// A stable name in snake_case, for metric labels and log fields.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$cause => $label,)+
                }
            }

            /// Whether the cause occurs in a healthy cluster. It is then logged only at debug
            /// level. client-go logs the same causes at verbosity 5.
            pub const fn is_benign(self) -> bool {
                match self {
                    $(Self::$cause => drop_causes!(@is_benign $($benign)?),)+
                }
            }
        }
    };
}

drop_causes! {
    /// A bounded queue was full, in events or in bytes.
    QueueFull = "queue_full",
    /// The correlator's spam filter had no token left for such events, and nothing of the event was
    /// written. A repeat of a written event is not dropped: it is held back, and its count is
    /// written later.
    SpamFiltered = "spam_filtered",
    /// No reference to the event's object could be made.
    InvalidReference = "invalid_reference",
    /// The event was invalid (an unknown type, for example), or its record on disk was damaged.
    InvalidEvent = "invalid_event",
    /// The event was recorded after shutdown.
    Stopped = "stopped",
    /// The watcher ended without being stopped. Its tokio runtime has ended, or no thread could be
    /// started for it.
    RuntimeGone = "runtime_gone",
    /// The event is larger than the queue, or larger than the server accepts (413).
    TooLarge = "too_large",
    /// The sink could not make a request of the event (for example, it may not write to the
    /// namespace).
    InvalidRequest = "invalid_request",
    /// The server has an event with that name which this delivery did not write (409
    /// `AlreadyExists`).
    AlreadyExists = "already_exists" benign,
    /// The event's namespace is being deleted (403 with the cause `NamespaceTerminating`).
    NamespaceTerminating = "namespace_terminating" benign,
    /// The server found the event malformed (400 or 422).
    RejectedInvalid = "rejected_invalid",
    /// The server did not accept the credentials (401), even after the retries for token rotation.
    RejectedUnauthorized = "rejected_unauthorized",
    /// The credentials do not permit writing events there (403).
    RejectedForbidden = "rejected_forbidden",
    /// The namespace does not exist, or the server does not serve events (404 to a create).
    RejectedNotFound = "rejected_not_found",
    /// The server limits the rate of such events (429 of EventRateLimit). If only events about this
    /// object were refused, the event is dropped after a few retries, otherwise after minutes
    /// without an admitted event.
    RateLimited = "rate_limited",
    /// The server refused the event for another reason that a retry does not change.
    RejectedOther = "rejected_other",
    /// All retries failed.
    RetriesExhausted = "retries_exhausted",
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Counts of dropped events by cause.
///
/// ```
/// use tidings_core::{DropCause, DropCounts};
///
/// let mut drops = DropCounts::default();
/// drops.add(DropCause::QueueFull, 2);
/// assert_eq!(drops.get(DropCause::QueueFull), 2);
/// assert_eq!(drops.to_string(), "queue_full 2");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCounts {
    /// Counts `number` more events as dropped for `cause`.
    pub fn add(&mut self, cause: DropCause, number: u64) {
        if let Some(count) = self.0.get_mut(cause as usize) {
            *count = count.saturating_add(number);
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (cause, number) in other.iter() {
            self.add(cause, number);
        }
    }

    /// Number of events dropped for `cause`.
    pub fn get(&self, cause: DropCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// Number of all dropped events.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |total, count| total.saturating_add(*count))
    }

    /// The causes that occurred, with their counts, in the order of [`DropCause::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> + '_ {
        DropCause::ALL
            .iter()
            .map(|cause| (*cause, self.get(*cause)))
            .filter(|(_, count)| *count > 0)
    }
}

/// The causes that occurred: `{queue_full: 2}`.
impl fmt::Debug for DropCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (cause, count) in self.iter() {
            map.entry(&format_args!("{cause}"), &count);
        }
        map.finish()
    }
}

impl fmt::Display for DropCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (cause, count)) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{cause} {count}")?;
        }
        Ok(())
    }
}

/// The outcome of an event that was offered to a [`Delivery`](crate::Delivery).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The sink accepted the event.
    Delivered,
    /// A later event with the same key is sent in its place. Counts and timestamps are absolute, so
    /// nothing is lost. A note that differs is gone, unless the series shows the last one.
    Aggregated,
    /// The event was dropped.
    Dropped(DropCause),
    /// The delivery was abandoned while the event was queued or being written.
    Pending,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_cause_is_listed_once_under_its_own_label_and_counted_apart() {
        let mut labels = HashSet::new();
        let mut counts = DropCounts::default();
        for (index, cause) in DropCause::ALL.iter().copied().enumerate() {
            assert_eq!(cause as usize, index, "{cause} stands in its place");
            assert!(labels.insert(cause.as_str()), "{cause} is named twice");
            assert!(
                cause
                    .as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            );
            counts.add(cause, index as u64 + 1);
        }
        for (index, (cause, count)) in counts.iter().enumerate() {
            assert_eq!((cause as usize, count), (index, index as u64 + 1));
        }
        let causes = DropCause::ALL.len() as u64;
        assert_eq!(counts.total(), causes * (causes + 1) / 2);
        let mut doubled = counts;
        doubled.merge(&counts);
        assert_eq!(doubled.total(), causes * (causes + 1));
    }

    #[test]
    fn only_causes_that_occurred_are_shown() {
        let mut counts = DropCounts::default();
        assert_eq!(
            (counts.iter().count(), counts.to_string()),
            (0, String::new())
        );
        counts.add(DropCause::Stopped, 1);
        counts.add(DropCause::QueueFull, 2);
        let shown: Vec<_> = counts.iter().collect();
        assert_eq!(shown, [(DropCause::QueueFull, 2), (DropCause::Stopped, 1)]);
        assert_eq!(counts.to_string(), "queue_full 2, stopped 1");
        assert_eq!(format!("{counts:?}"), "{queue_full: 2, stopped: 1}");
    }

    #[test]
    fn a_healthy_cluster_drops_two_kinds() {
        let mut benign = DropCause::ALL.to_vec();
        benign.retain(|cause| cause.is_benign());
        assert_eq!(
            benign,
            [DropCause::AlreadyExists, DropCause::NamespaceTerminating]
        );
        assert_eq!(format!("[{:>12}]", DropCause::Stopped), "[     stopped]");
    }
}
