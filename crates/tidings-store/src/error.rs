//! Errors, one enum per kind of operation. Messages are lowercase fragments that fit after "failed
//! to …: ".

use std::sync::Arc;

use crate::{Revision, UnixMillis};

/// A failure of the store itself rather than of the request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The store was closed, or its committer panicked, before anything was written.
    #[error("the store is closed")]
    Closed,
    /// No space is left; nothing was written. Writes work again once there is space.
    #[error("no space left on the store's disk")]
    NoSpace,
    /// Data on disk does not match its checksum or form, and is not returned.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The disk or the backend refused; nothing was written.
    #[error("the store's storage failed: {0}")]
    Storage(Arc<dyn std::error::Error + Send + Sync>),
    /// The outcome of the write is unknown, for example because the disk failed while syncing, or
    /// the store's committer panicked in the middle of the commit: it may be done. Read before you
    /// try again.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(Arc<dyn std::error::Error + Send + Sync>),
}

/// Why a write was not done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// `create` found a live record.
    #[error("the key already exists at revision {revision}")]
    AlreadyExists {
        /// The revision of the existing record.
        revision: Revision,
    },
    /// `update` or `delete` found no live record.
    #[error("the key does not exist")]
    NotFound,
    /// `update` or `delete` found another revision than the expected one.
    #[error("the key is at revision {current}, not at the expected {expected}")]
    Conflict {
        /// The revision the caller expected.
        expected: Revision,
        /// The revision of the existing record.
        current: Revision,
    },
    /// A key needs at least one byte.
    #[error("the key is empty")]
    EmptyKey,
    /// Two writes of one commit have the same key.
    #[error("a key is written more than once in one commit")]
    RepeatedKey,
    /// A commit has more writes than accepted.
    #[error("a commit has {len} writes, at most {max} are accepted")]
    TooMany {
        /// Their number.
        len: usize,
        /// The accepted number.
        max: usize,
    },
    /// Key, value or index is longer than accepted, or all records of a commit together.
    #[error("{what} is {len} bytes long, at most {max} are accepted")]
    TooLarge {
        /// "the key", "the value", "the index" or "the commit".
        what: &'static str,
        /// Its length in bytes; of a commit, up to the record that is too much.
        len: usize,
        /// The accepted length in bytes.
        max: usize,
    },
    /// The expiry is not in the future: the record would never be visible.
    #[error("the record would expire at {expires_at:?}, which is not after now ({now:?})")]
    AlreadyExpired {
        /// The requested expiry.
        expires_at: UnixMillis,
        /// The store's clock.
        now: UnixMillis,
    },
    /// The revision of `compact` is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a read failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The history no longer reaches back to this revision.
    #[error("revision {requested} is compacted, the oldest available is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be listed.
        oldest: Revision,
    },
    /// The revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a watch could not start or continue.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Changes after this revision are forgotten: list again.
    #[error("changes after revision {after} are compacted, the oldest to start after is {oldest}")]
    Compacted {
        /// The requested revision.
        after: Revision,
        /// The oldest revision after which a watch can start.
        oldest: Revision,
    },
    /// The revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The store failed or was closed.
    #[error(transparent)]
    Fault(#[from] Fault),
}
