//! What is asked of the committer, prepared by the caller as far as possible.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::codec::PackedBody;
use super::keys::Fields;
use super::stored::{LookedUp, Stored};
use crate::{Deleted, Fault, Revision, UnixMillis, WriteError};

/// Something to be done by the committer, with where to send the answer.
pub(crate) enum Request {
    Put(Box<Put>, oneshot::Sender<Result<Revision, WriteError>>),
    Delete {
        key: Bytes,
        expected: Option<Revision>,
        reply: oneshot::Sender<Result<Deleted, WriteError>>,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<(), WriteError>>,
    },
    Expire {
        reply: oneshot::Sender<Result<u64, WriteError>>,
    },
}

/// A create (`expected` is `None`) or an update, prepared by the caller as far as possible.
pub(crate) struct Put {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) fields: Fields,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) body: PackedBody,
    pub(crate) expected: Option<Revision>,
    /// What the key pointed to when the caller looked.
    pub(crate) looked_up: LookedUp,
    /// The record to be replaced, as the caller found it.
    pub(crate) found: Option<Stored>,
}

impl Request {
    /// Answers that nothing was done.
    pub(crate) fn fail(self, fault: Fault) {
        let error = WriteError::Fault(fault);
        match self {
            Self::Delete { reply, .. } => drop(reply.send(Err(error))),
            Self::Compact { reply, .. } => drop(reply.send(Err(error))),
            Self::Put(_, reply) | Self::Expire { reply } => drop(reply.send(Err(error))),
        }
    }
}
