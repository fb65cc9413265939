//! The outcome of an event: delivered, merged into another write, dropped for a named cause, or
//! still pending.
//!
//! Invariant, for every machine that reports fates: offered = delivered + aggregated + dropped +
//! pending. Every loss has a cause.

use std::fmt;

/// The causes, each with its label: the one place where a cause is added. `benign` marks those that
/// happen in a healthy cluster.
macro_rules! drop_causes {
    (@is_benign) => { false };
    (@is_benign benign) => { true };
    ($($(#[$doc:meta])+ $cause:ident = $label:literal $($benign:ident)?,)+) => {
        /// Why an event was given up. One list for the whole library, so that every loss has
        /// exactly one name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DropCause {
            $($(#[$doc])+ $cause,)+
        }

        impl DropCause {
            /// Every cause, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$cause),+];

            /// A stable name in snake_case, for metric labels and log fields.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$cause => $label,)+
                }
            }

            /// Whether this happens in a healthy cluster, and so is logged only at debug level.
            /// client-go logs the same causes at verbosity 5.
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
    /// The correlator's spam filter had no token left for events like it, and nothing of it was
    /// written: a repeat of a written event is held back instead, and its count is written later.
    SpamFiltered = "spam_filtered",
    /// The object it is about could not be referred to.
    InvalidReference = "invalid_reference",
    /// The event was invalid (an unknown type, for example), or its record on disk was damaged.
    InvalidEvent = "invalid_event",
    /// It was recorded after shutdown.
    Stopped = "stopped",
    /// The watcher ended without having been stopped: its tokio runtime has ended, or no thread
    /// could be started for it.
    RuntimeGone = "runtime_gone",
    /// The event is larger than the queue, or than the server accepts (413).
    TooLarge = "too_large",
    /// The sink could not make a request for it (a namespace it may not write to, for example).
    InvalidRequest = "invalid_request",
    /// The server has an event of that name that this delivery did not write (409 `AlreadyExists`).
    AlreadyExists = "already_exists" benign,
    /// Its namespace is being deleted (403 with the cause `NamespaceTerminating`).
    NamespaceTerminating = "namespace_terminating" benign,
    /// The server found it malformed (400 or 422).
    RejectedInvalid = "rejected_invalid",
    /// The server did not accept the credentials (401), even after the retries for token rotation.
    RejectedUnauthorized = "rejected_unauthorized",
    /// The credentials may not write events there (403).
    RejectedForbidden = "rejected_forbidden",
    /// The namespace does not exist, or the server does not serve events (404 to a create).
    RejectedNotFound = "rejected_not_found",
    /// The server accepts no more such events for now (429 of EventRateLimit): after a few retries
    /// if only events about this object were refused, else after minutes without an admitted event.
    RateLimited = "rate_limited",
    /// Any other refusal that a retry does not change.
    RejectedOther = "rejected_other",
    /// All retries failed.
    RetriesExhausted = "retries_exhausted",
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Drops, counted by cause.
///
/// ```
/// use tidings_core::{DropCause, DropCounts};
///
/// let mut drops = DropCounts::default();
/// drops.add(DropCause::QueueFull, 2);
/// assert_eq!(drops.get(DropCause::QueueFull), 2);
/// assert_eq!(drops.to_string(), "queue_full 2");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; DropCause::ALL.len()]);

impl DropCounts {
    /// Counts `number` more events as dropped for `cause`.
    pub fn add(&mut self, cause: DropCause, number: u64) {
        if let Some(count) = self.0.get_mut(cause as usize) {
            *count = count.saturating_add(number);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (cause, number) in other.iter() {
            self.add(cause, number);
        }
    }

    /// The number of events dropped for `cause`.
    pub fn get(&self, cause: DropCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// The number of all dropped events.
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
    /// The sink took it.
    Delivered,
    /// A later event of the same key is sent in its place: counts and timestamps are absolute. A
    /// note that differs is gone, unless the series shows the last one.
    Aggregated,
    /// It was given up.
    Dropped(DropCause),
    /// The delivery was abandoned while the event was waiting or being written.
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
