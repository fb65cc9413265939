//! Versions decoded from their bytes.
//!
//! It also has the result of looking one up, for the commit that may replace it.

use std::sync::Arc;

use bytes::Bytes;

use super::codec::Codec;
use super::keys::{Fields, Placed, Pointer};
use super::version::{self, Version};
use crate::{Fault, Index, Record, Revision};

/// A decoded version.
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

/// The version of a key as found in a [`View`](super::read::View), for use by a later view. A
/// memtable with a name keeps it until it is flushed. So if no memtable was dropped since, and the
/// current ones do not have the name, the result was from the trees, and is still valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookedUp {
    pub(crate) pointer: Option<Pointer>,
    /// Number of memtables dropped by then.
    pub(crate) forgotten: u64,
}

/// Decodes a version from its bytes. Key and value share one allocation.
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
    let (key, index, value) = version::decode_body(&body)?;
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

/// Decodes only the record of a version. Key and value share one allocation.
pub(crate) fn unpack_record(
    codec: &Codec,
    version: Version<'_>,
    revision: Revision,
) -> Result<Record, Fault> {
    let body = codec.unpack(version.body)?;
    let (key, value) = version::split_body(&body)?;
    let body = Bytes::from(body);
    Ok(Record {
        key: body.slice(key),
        value: body.slice(value..),
        revision,
        expires_at: version.expires_at,
    })
}
