//! What can go wrong, one enum per kind of operation. Messages are lowercase fragments that fit
//! after "failed to …: ".

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
    /// What is on disk does not match its checksum or form. It is not served.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The disk or the backend refused; nothing was written.
    #[error("the store's storage failed: {0}")]
    Storage(Arc<dyn std::error::Error + Send + Sync>),
    /// The write was handed over but its fate could not be learned (the disk failed while syncing,
    /// say, or the store's committer panicked in the middle of the commit): it may turn out to be
    /// done. Read before trying again.
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
        /// The revision of the record that is there.
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
        /// The revision of the record that is there.
        current: Revision,
    },
    /// A key needs at least one byte.
    #[error("the key is empty")]
    EmptyKey,
    /// Writes that are done together name a key twice.
    #[error("a key is written more than once in one commit")]
    RepeatedKey,
    /// More writes are to be done together than accepted.
    #[error("{len} writes are to be done together, at most {max} are accepted")]
    TooMany {
        /// How many there are.
        len: usize,
        /// How many are accepted.
        max: usize,
    },
    /// Key or value is longer than accepted.
    #[error("{what} is {len} bytes long, at most {max} are accepted")]
    TooLarge {
        /// "the key", "the value" or "the index".
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The accepted length in bytes.
        max: usize,
    },
    /// The expiry is not after now: the record would never be seen.
    #[error("the record would expire at {expires_at:?}, which is not after now ({now:?})")]
    AlreadyExpired {
        /// The expiry that was asked for.
        expires_at: UnixMillis,
        /// The store's clock.
        now: UnixMillis,
    },
    /// `compact` was given a revision that is not yet reached.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    FutureRevision {
        /// The revision that was asked for.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a read was not answered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The history no longer reaches back to this revision.
    #[error("revision {requested} is compacted, the oldest available is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        requested: Revision,
        /// The oldest revision that can be listed.
        oldest: Revision,
    },
    /// The revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The revision that was asked for.
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
        /// The revision after which changes were wanted.
        after: Revision,
        /// The oldest revision a watch can start after.
        oldest: Revision,
    },
    /// The revision is not reached yet.
    #[error("revision {requested} is not reached yet, the latest is {current}")]
    Future {
        /// The revision that was asked for.
        requested: Revision,
        /// The latest revision.
        current: Revision,
    },
    /// The store failed or was closed.
    #[error(transparent)]
    Fault(#[from] Fault),
}
