//! Requests to the committer, prepared by their callers as far as possible.

use bytes::Bytes;

use super::reply::Reply;
use crate::embedded::codec::PackedBody;
use crate::embedded::engine::{LookedUp, Stored};
use crate::embedded::index::keys::Fields;
use crate::{Deleted, Expected, Fault, Revision, UnixMillis, WriteError};

/// A request to the committer, with the receiver of its answer.
pub(in crate::embedded) enum Request {
    Put(Box<Put>, Reply<Revision>),
    Delete {
        key: Bytes,
        expected: Option<Revision>,
        reply: Reply<Deleted>,
    },
    /// Several writes in one commit: all or none.
    Many(Vec<One>, Reply<Vec<Revision>>),
    Compact {
        revision: Revision,
        reply: Reply<()>,
    },
    Expire {
        reply: Reply<u64>,
    },
}

/// One write of several.
pub(in crate::embedded) enum One {
    Put(Box<Put>),
    Delete(Bytes, Expected),
}

/// Maximum bytes that a commit with deletions may store on a nearly full disk. They are notes about
/// what it deletes.
const NOTES_LEN_MAX: usize = 64 << 10;

/// Whether the writes of a commit need more space than they help to release. A nearly full disk
/// then refuses them.
pub(super) fn need_space(writes: &[One]) -> bool {
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

    pub(super) fn key(&self) -> &Bytes {
        match self {
            Self::Put(put) => &put.key,
            Self::Delete(key, _) => key,
        }
    }
}

/// A record to be put, prepared by its caller as far as possible.
pub(in crate::embedded) struct Put {
    pub(in crate::embedded) key: Bytes,
    pub(in crate::embedded) value: Bytes,
    pub(in crate::embedded) fields: Fields,
    pub(in crate::embedded) reason: String,
    pub(in crate::embedded) expires_at: Option<UnixMillis>,
    pub(in crate::embedded) body: PackedBody,
    pub(in crate::embedded) expected: Expected,
    /// The key's version when the caller looked it up.
    pub(in crate::embedded) looked_up: LookedUp,
    /// The record to replace, as the caller found it.
    pub(in crate::embedded) found: Option<Stored>,
}

impl Put {
    /// About how many bytes the put holds in memory, and never less than it stores. It holds its
    /// value and the value that it replaces.
    pub(in crate::embedded) fn bytes(&self) -> usize {
        let replaced = self.found.as_ref();
        let replaced = replaced.map_or(0, |found| found.record.value.len());
        (self.value.len() + replaced).max(self.body.stored_len())
    }
}

impl Request {
    /// Answers that nothing was done.
    pub(super) fn fail(self, fault: Fault) {
        let error = WriteError::Fault(fault);
        match self {
            Self::Delete { reply, .. } => reply.send(Err(error)),
            Self::Many(_, reply) => reply.send(Err(error)),
            Self::Compact { reply, .. } => reply.send(Err(error)),
            Self::Put(_, reply) | Self::Expire { reply } => reply.send(Err(error)),
        }
    }
}
