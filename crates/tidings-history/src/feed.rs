//! The feed of a cluster: the ordered log of its new versions, which consumers read by cursors.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidings_store::{BoxFuture, ReadError, UnixMillis, WriteError};

use crate::gap::Gap;
use crate::version::Version;

/// Maximum number of cursors of a feed.
pub const CURSORS_MAX: usize = 64;
/// Maximum bytes of a consumer's state.
pub const STATE_LEN_MAX: usize = 4096;
/// Maximum number of batches that a cursor gives before the first of them is committed.
pub const IN_FLIGHT_MAX: usize = 16;

/// The feed of a cluster: its versions in the order in which they were observed.
///
/// A consumer has a cursor with a name, which is stored with the feed. It reads batches
/// ([`Cursor::next`]) and commits each when it is delivered ([`Cursor::commit`]). After a restart
/// it gets everything that it did not commit. So each version is delivered at least once. It is
/// identified by the cluster, [`Version::uid`], [`Version::epoch`] and [`Version::number`].
///
/// Nothing is deleted from the feed because somebody read it: an entry goes when all cursors are
/// past it. A cursor whose backlog is older or larger than the feed's bounds moves, and its next
/// batch has a [`Skip`].
///
/// ```
/// use tidings_history::{Cursor, Feed, FeedError, Limits, Start};
///
/// async fn print(feed: &dyn Feed) -> Result<(), FeedError> {
///     let mut cursor = feed.cursor("printer".parse()?, Start::Now).await?;
///     loop {
///         let Some(batch) = cursor.next(Limits::default()).await? else {
///             cursor.changed().await;
///             continue;
///         };
///         for version in &batch.versions {
///             println!("{} {}", version.uid, version.number);
///         }
///         cursor.commit(batch.through, None).await?;
///     }
/// }
/// ```
pub trait Feed: Send + Sync + 'static {
    /// Opens the cursor with a name. A new one begins at `start`; an existing one continues where
    /// it was committed. Only one consumer can hold it.
    ///
    /// # Errors
    /// [`FeedError::InUse`], [`FeedError::TooMany`], and errors of the store.
    fn cursor(
        &self,
        name: CursorName,
        start: Start,
    ) -> BoxFuture<'_, Result<Box<dyn Cursor>, FeedError>>;

    /// Returns each cursor's place and backlog, in the order of the cursors' names.
    ///
    /// # Errors
    /// Errors of the store.
    fn cursors(&self) -> BoxFuture<'_, Result<Vec<CursorStatus>, FeedError>>;

    /// Moves a cursor to the end of the feed. What it passes is in the [`Skip`] of its next batch.
    /// Returns whether there is such a cursor. No consumer may hold it.
    ///
    /// # Errors
    /// [`FeedError::InUse`], and errors of the store.
    fn skip(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>>;

    /// Removes a cursor, so that the feed keeps nothing for it. Returns whether there was one. A
    /// consumer that holds it gets [`FeedError::Removed`].
    ///
    /// # Errors
    /// Errors of the store.
    fn remove(&self, name: CursorName) -> BoxFuture<'_, Result<bool, FeedError>>;
}

/// A consumer's cursor. Dropping it leaves the durable cursor where it was committed.
pub trait Cursor: Send {
    /// Reads the next batch, which need not follow a commit: up to [`IN_FLIGHT_MAX`] batches can be
    /// in flight. `None` if there is none now. The batch counts as read if the future completes.
    ///
    /// # Errors
    /// [`FeedError::InFlight`], [`FeedError::Removed`], and errors of the store.
    fn next(&mut self, limits: Limits) -> BoxFuture<'_, Result<Option<Batch>, FeedError>>;

    /// Waits until something was added after the last call of [`next`](Self::next) began. It may
    /// return earlier.
    fn changed(&mut self) -> BoxFuture<'_, ()>;

    /// Commits the batch with this [`Batch::through`], and the consumer's state if one is given.
    /// The durable cursor moves to the end of the last batch before which every batch is committed,
    /// which is returned; the state of that batch is stored in the same write. It is further if the
    /// bounds moved the cursor meanwhile: then the batches before it count as skipped.
    ///
    /// # Errors
    /// Nothing changed, or, for [`tidings_store::Fault::Unknown`], it is not known what is stored.
    /// The commit can be repeated. [`FeedError::NotRead`] if no batch in flight has this end;
    /// [`FeedError::LongState`].
    fn commit(
        &mut self,
        through: Offset,
        state: Option<String>,
    ) -> BoxFuture<'_, Result<Offset, FeedError>>;

    /// Stores the consumer's state, and leaves the cursor where it is.
    ///
    /// # Errors
    /// As [`commit`](Self::commit). It can be repeated.
    fn store(&mut self, state: String) -> BoxFuture<'_, Result<(), FeedError>>;

    /// Returns the consumer's state as it was stored last; empty at first.
    fn state(&self) -> &str;
}

/// A place in a feed, as its cursor reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offset {
    /// In the history before the feed, for a cursor that began in the past: the number of batches
    /// that were read there.
    History(u64),
    /// The number of the feed's next entry.
    Entry(u64),
}

/// The name of a cursor: a DNS label, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CursorName(Arc<str>);

impl CursorName {
    /// Returns the name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CursorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CursorName {
    type Err = FeedError;

    fn from_str(name: &str) -> Result<Self, FeedError> {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = name.as_bytes();
        let is_label = bytes.len() <= 63
            && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
            && bytes.first().is_some_and(|byte| is_inner(*byte))
            && bytes.last().is_some_and(|byte| is_inner(*byte));
        if is_label {
            Ok(Self(name.into()))
        } else {
            Err(FeedError::Name(name.to_owned()))
        }
    }
}

/// Where a new cursor begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the next version that is observed.
    Now,
    /// With everything that is kept, event by event, then with the feed. A version that is observed
    /// while the history is read may come twice.
    Oldest,
    /// As [`Oldest`](Self::Oldest), without versions that were observed before a time.
    Since(UnixMillis),
}

/// When a batch ends: after the entry that reaches one of these. An entry has the versions of one
/// commit, at most 500, and some megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of versions. Default: 500.
    pub versions: usize,
    /// Bytes of their events. Default: a MiB.
    pub bytes: usize,
    /// The batch ends before an entry with versions that were observed at this time or later. It
    /// has no effect on the history before the feed. Default: none.
    pub until: Option<UnixMillis>,
    /// The batch ends at this place at the latest, so that a batch can be read again as it was. It
    /// has no effect on the history before the feed. Default: none.
    pub through: Option<Offset>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            versions: 500,
            bytes: 1 << 20,
            until: None,
            through: None,
        }
    }
}

/// What follows in a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batch {
    /// Versions that the consumer will not get, before those of the batch.
    pub skip: Option<Skip>,
    /// Times in which versions may be missing in the archive, before the versions of the batch.
    pub gaps: Vec<Gap>,
    /// Versions; those of one event are in their order. May be empty: the batch is committed all
    /// the same.
    pub versions: Vec<Version>,
    /// For each of the versions, the occurrences since the event's version before it. The first
    /// version of an event has its whole count. If the version before it has expired, it is 1.
    pub occurrences: Vec<u64>,
    /// Number of versions that expired or were deleted before they were read.
    pub gone: u64,
    /// Whether the versions are of the history before the feed.
    pub is_history: bool,
    /// Where the batch ends.
    pub through: Offset,
}

impl Batch {
    /// Makes a batch without anything that ends at a place.
    pub fn ending(through: Offset) -> Self {
        Self {
            skip: None,
            gaps: Vec::new(),
            versions: Vec::new(),
            occurrences: Vec::new(),
            gone: 0,
            is_history: false,
            through,
        }
    }
}

/// Versions that a cursor lost, because its backlog was beyond the bounds, or because another
/// program deleted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The time from which versions are missing.
    pub from: UnixMillis,
    /// The time up to which versions are missing.
    pub to: UnixMillis,
    /// Their number; more may be missing if another program deleted them.
    pub versions: u64,
}

impl Skip {
    /// Joins a later skip to this one.
    #[must_use]
    pub fn joined(self, later: Self) -> Self {
        Self {
            from: self.from.min(later.from),
            to: self.to.max(later.to),
            versions: self.versions.saturating_add(later.versions),
        }
    }
}

/// The state of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorStatus {
    /// The cursor's name.
    pub name: CursorName,
    /// Where it is committed.
    pub through: Offset,
    /// Versions of the feed behind which it is, without those of the history before the feed.
    pub versions: u64,
    /// Bytes that the feed keeps for them.
    pub bytes: u64,
    /// When the first of them was observed. If that one is gone, when the last one before it was.
    pub oldest: Option<UnixMillis>,
    /// Number of versions that it skipped since it began.
    pub skipped: u64,
    /// Whether a consumer holds it.
    pub is_open: bool,
}

impl CursorStatus {
    /// Returns the state of a cursor with this name that is at its end.
    pub fn new(name: CursorName, through: Offset) -> Self {
        Self {
            name,
            through,
            versions: 0,
            bytes: 0,
            oldest: None,
            skipped: 0,
            is_open: false,
        }
    }
}

/// Why a feed could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The text is no name.
    #[error(
        "{0:?} is no name of a cursor: at most 63 of a-z, 0-9 and '-', with no '-' at either end"
    )]
    Name(String),
    /// Another consumer holds the cursor.
    #[error("the cursor {0} is in use")]
    InUse(CursorName),
    /// The feed has as many cursors as it can have.
    #[error("there are {CURSORS_MAX} cursors already: remove one that is not needed")]
    TooMany,
    /// The cursor was removed.
    #[error("the cursor {0} was removed")]
    Removed(CursorName),
    /// Too many batches were read and not committed.
    #[error("{IN_FLIGHT_MAX} batches are not committed yet")]
    InFlight,
    /// No batch in flight ends there.
    #[error("no batch that ends at {0:?} is to be committed")]
    NotRead(Offset),
    /// The state is too long.
    #[error("the state has {0} bytes, at most {STATE_LEN_MAX} are accepted")]
    LongState(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for name in ["a", "loki", "0-a", &"x".repeat(63)] {
            assert_eq!(name.parse::<CursorName>().unwrap().as_str(), name);
        }
        for name in ["", "-a", "a-", "A", "a.b", "a/b", "ä", &"x".repeat(64)] {
            assert!(name.parse::<CursorName>().is_err(), "{name:?}");
        }
    }
}
