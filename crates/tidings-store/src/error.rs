//! Errors of a store, one enum for each kind of operation.
//!
//! Messages are lowercase fragments that fit after "failed to …: ".

use std::sync::Arc;

use crate::{Revision, UnixMillis};

/// A failure of the store itself, not of the request.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The store was closed, or its committer panicked, before the write began.
    #[error("the store is closed")]
    Closed,
    /// No space is left, so nothing was written. Writes work again once there is space.
    #[error("no space left on the store's disk")]
    NoSpace,
    /// Data on disk does not match its checksum or form; the store does not return it.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The disk or the backend refused the operation, so nothing was written.
    #[error("the store's storage failed: {0}")]
    Storage(Arc<dyn std::error::Error + Send + Sync>),
    /// The outcome of the write is unknown: it may or may not be done. Causes are a disk that fails
    /// while syncing, or a panic of the store's committer during a commit. Read the record before
    /// you write it again.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(Arc<dyn std::error::Error + Send + Sync>),
}

/// The reason why a write was refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// `create` found a live record.
    #[error("the key already exists at revision {revision}")]
    AlreadyExists {
        /// The revision of the existing record.
        revision: Revision,
    },
    /// `update` or `delete` found no live record under the key.
    #[error("the key does not exist")]
    NotFound,
    /// `update` or `delete` found a live record with another revision than expected.
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
    /// A commit has more writes than the limit.
    #[error("a commit has {len} writes, at most {max} are accepted")]
    TooMany {
        /// Number of writes in the commit.
        len: usize,
        /// Maximum number of writes.
        max: usize,
    },
    /// The key, the value, the index, or the whole commit is too long.
    #[error("{what} is {len} bytes long, at most {max} are accepted")]
    TooLarge {
        /// The part that is too long: "the key", "the value", "the index" or "the commit".
        what: &'static str,
        /// Its length in bytes; of a commit, the length including the first record above the limit.
        len: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The expiry is not in the future, so the record would never be visible.
    #[error("the record would expire at {expires_at:?}, which is not after now ({now:?})")]
    AlreadyExpired {
        /// The requested time of expiry.
        expires_at: UnixMillis,
        /// The time of the store's clock.
        now: UnixMillis,
    },
    /// `compact` was called with a revision that is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The store's latest revision.
        current: Revision,
    },
    /// The store itself failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The reason why a read failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The store no longer remembers the history back to this revision.
    #[error("revision {requested} is compacted, the oldest available is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision at which a list is possible.
        oldest: Revision,
    },
    /// The requested revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The store's latest revision.
        current: Revision,
    },
    /// The store itself failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The reason why a watch could not start or ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The store has forgotten changes that the watch needs. List again.
    #[error("changes after revision {after} are compacted, the oldest to start after is {oldest}")]
    Compacted {
        /// The revision after which changes were requested.
        after: Revision,
        /// The oldest revision after which a watch can start.
        oldest: Revision,
    },
    /// The requested revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The store's latest revision.
        current: Revision,
    },
    /// The store itself failed or was closed.
    #[error(transparent)]
    Fault(#[from] Fault),
}
