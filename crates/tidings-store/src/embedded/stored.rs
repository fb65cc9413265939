//! A version as it was read, taken from its bytes; and where one was found, for the commit that may
//! replace it.

use std::sync::Arc;

use bytes::Bytes;

use super::codec::Codec;
use super::keys::{self, Fields, Placed, Pointer, Version};
use crate::{Fault, Index, Record, Revision};

/// A version as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) index: Arc<Index>,
    pub(crate) bucket: u64,
    pub(crate) previous: Option<(Revision, u64)>,
}

impl Stored {
    pub(crate) fn placed(&self) -> Placed {
        Placed {
            pointer: Pointer {
                revision: self.record.revision,
                bucket: self.bucket,
                expires_at: self.record.expires_at,
            },
            fields: Fields::of(&self.index, &self.record.key),
            is_early: false,
        }
    }
}

/// What a [`View`](super::read::View) says that a key points to, for a later one.
///
/// A memtable that knows a name continues to know it until it is flushed. So if no memtable was
/// forgotten since, and the present ones do not know the name, the answer was from the trees, and
/// they would give the same one again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookedUp {
    pub(crate) pointer: Option<Pointer>,
    /// How many memtables had been forgotten.
    pub(crate) forgotten: u64,
}

/// A version from its bytes. Key and value share the one allocation.
pub(crate) fn unpack(
    codec: &Codec,
    bytes: &[u8],
    revision: Revision,
    bucket: u64,
) -> Result<Stored, Fault> {
    let Version {
        expires_at,
        previous,
        body,
    } = Version::decode(bytes, revision, bucket)?;
    let body = codec.unpack(body)?;
    let (key, index, value) = keys::decode_body(&body)?;
    let body = Bytes::from(body);
    let record = Record {
        key: body.slice(key),
        value: body.slice(value..),
        revision,
        expires_at,
    };
    Ok(Stored {
        record,
        index: Arc::new(index),
        bucket,
        previous,
    })
}

/// The record alone of a version. Key and value share the one allocation.
pub(crate) fn unpack_record(
    codec: &Codec,
    version: Version<'_>,
    revision: Revision,
) -> Result<Record, Fault> {
    let body = codec.unpack(version.body)?;
    let (key, value) = keys::split_body(&body)?;
    let body = Bytes::from(body);
    Ok(Record {
        key: body.slice(key),
        value: body.slice(value..),
        revision,
        expires_at: version.expires_at,
    })
}
