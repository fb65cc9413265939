//! Requests to the committer, prepared by the caller as far as possible.

use bytes::Bytes;

use super::codec::PackedBody;
use super::keys::Fields;
use super::reply::Reply;
use super::stored::{LookedUp, Stored};
use crate::{Deleted, Expected, Fault, Revision, UnixMillis, WriteError};

/// A request to the committer, with the receiver of its answer.
pub(crate) enum Request {
    Put(Box<Put>, Reply<Revision>),
    Delete {
        key: Bytes,
        expected: Option<Revision>,
        reply: Reply<Deleted>,
    },
    /// All or none of them, in one commit.
    Many(Vec<One>, Reply<Vec<Revision>>),
    Compact {
        revision: Revision,
        reply: Reply<()>,
    },
    Expire {
        reply: Reply<u64>,
    },
}

/// One of several writes.
pub(crate) enum One {
    Put(Box<Put>),
    Delete(Bytes, Expected),
}

/// Bytes of records that a commit with deletions may store on a nearly full disk: notes about what
/// it deletes.
const NOTES_LEN_MAX: usize = 64 << 10;

/// Whether writes of one commit need more space than they help to give back, so that a nearly full
/// disk refuses them.
pub(crate) fn need_space(writes: &[One]) -> bool {
    let is_delete = |write: &One| matches!(write, One::Delete(..));
    let stored: usize = writes.iter().map(One::stored_len).sum();
    stored > NOTES_LEN_MAX || !writes.iter().any(is_delete)
}

impl One {
    fn stored_len(&self) -> usize {
        match self {
            Self::Put(put) => put.body.stored_len(),
            Self::Delete(..) => 0,
        }
    }

    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Self::Put(put) => &put.key,
            Self::Delete(key, _) => key,
        }
    }
}

/// A record to be put, prepared by the caller as far as possible.
pub(crate) struct Put {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) fields: Fields,
    pub(crate) reason: String,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) body: PackedBody,
    pub(crate) expected: Expected,
    /// The version of the key when the caller looked it up.
    pub(crate) looked_up: LookedUp,
    /// The record to replace, as found by the caller.
    pub(crate) found: Option<Stored>,
}

impl Put {
    /// Bytes that it holds in memory, about: its value and the one that it replaces, and not less
    /// than it stores.
    pub(crate) fn bytes(&self) -> usize {
        let replaced = self.found.as_ref();
        let replaced = replaced.map_or(0, |found| found.record.value.len());
        (self.value.len() + replaced).max(self.body.stored_len())
    }
}

impl Request {
    /// Answers that nothing was done.
    pub(crate) fn fail(self, fault: Fault) {
        let error = WriteError::Fault(fault);
        match self {
            Self::Delete { reply, .. } => reply.send(Err(error)),
            Self::Many(_, reply) => reply.send(Err(error)),
            Self::Compact { reply, .. } => reply.send(Err(error)),
            Self::Put(_, reply) | Self::Expire { reply } => reply.send(Err(error)),
        }
    }
}
