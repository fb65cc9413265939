//! What became of an event: delivered, merged into another write, dropped for a named cause, or still pending.
//!
//! Invariant, for every machine that reports fates: offered = delivered + aggregated + dropped + pending. A loss without a cause does
//! not exist.

use std::fmt;

/// Why an event was given up. One list for the whole library, so that every loss has exactly one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropCause {
    /// A bounded queue had no room left, in events or in bytes.
    QueueFull,
    /// The correlator's spam filter had no token left for events like it.
    SpamFiltered,
    /// The object it is about could not be referred to.
    InvalidReference,
    /// It was no acceptable event: an unknown type, for example; or what lay on disk of it was damaged.
    InvalidEvent,
    /// It was recorded after shutdown.
    Stopped,
    /// It alone is larger than the queue, or than the server accepts (413).
    TooLarge,
    /// The sink could not make a request of it (a namespace it may not write to, for example).
    InvalidRequest,
    /// The server holds an event of that name which this delivery did not write (409 `AlreadyExists`).
    AlreadyExists,
    /// Its namespace is being deleted (403 with the cause `NamespaceTerminating`).
    NamespaceTerminating,
    /// The server found it malformed (400 or 422).
    RejectedInvalid,
    /// The server did not accept the credentials (401), also not after the tries that token rotation is given.
    RejectedUnauthorized,
    /// The credentials may not write events there (403).
    RejectedForbidden,
    /// The namespace does not exist, or the server knows no events (404 to a create).
    RejectedNotFound,
    /// Any other refusal that trying again does not change.
    RejectedOther,
    /// Every try failed in a way that another try might have mended.
    RetriesExhausted,
}

impl DropCause {
    /// Every cause, in the order of declaration.
    pub const ALL: [Self; 15] = [
        Self::QueueFull,
        Self::SpamFiltered,
        Self::InvalidReference,
        Self::InvalidEvent,
        Self::Stopped,
        Self::TooLarge,
        Self::InvalidRequest,
        Self::AlreadyExists,
        Self::NamespaceTerminating,
        Self::RejectedInvalid,
        Self::RejectedUnauthorized,
        Self::RejectedForbidden,
        Self::RejectedNotFound,
        Self::RejectedOther,
        Self::RetriesExhausted,
    ];

    /// A stable name in snake_case, for metric labels and log fields.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::SpamFiltered => "spam_filtered",
            Self::InvalidReference => "invalid_reference",
            Self::InvalidEvent => "invalid_event",
            Self::Stopped => "stopped",
            Self::TooLarge => "too_large",
            Self::InvalidRequest => "invalid_request",
            Self::AlreadyExists => "already_exists",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::RejectedInvalid => "rejected_invalid",
            Self::RejectedUnauthorized => "rejected_unauthorized",
            Self::RejectedForbidden => "rejected_forbidden",
            Self::RejectedNotFound => "rejected_not_found",
            Self::RejectedOther => "rejected_other",
            Self::RetriesExhausted => "retries_exhausted",
        }
    }

    /// Whether this happens in a healthy cluster and deserves no more than a debug line: client-go logs the same two at verbosity 5.
    pub const fn is_benign(self) -> bool {
        matches!(self, Self::AlreadyExists | Self::NamespaceTerminating)
    }
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

    /// How many were dropped for `cause`.
    pub fn get(&self, cause: DropCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// How many were dropped altogether.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |total, count| total.saturating_add(*count))
    }

    /// The causes that occurred, with their counts, in the order of [`DropCause::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> + '_ {
        DropCause::ALL
            .into_iter()
            .map(|cause| (cause, self.get(cause)))
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

/// What became of one event offered to a [`Delivery`](crate::Delivery).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The sink took it.
    Delivered,
    /// A later event of the same key carries all it had to say (counts and timestamps are absolute), and goes out in its place.
    Aggregated,
    /// It was given up.
    Dropped(DropCause),
    /// Delivery was abandoned while it was still waiting, or being written.
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
        for (index, cause) in DropCause::ALL.into_iter().enumerate() {
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
        assert_eq!(counts.total(), 15 * 16 / 2);
        let mut doubled = counts;
        doubled.merge(&counts);
        assert_eq!(doubled.total(), 15 * 16);
    }
}
