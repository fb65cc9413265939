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

impl One {
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
