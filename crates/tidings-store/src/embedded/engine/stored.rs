//! Versions decoded from their bytes.
//!
//! It also has the result of looking one up, for the commit that may replace it.

use std::sync::Arc;

use bytes::Bytes;

use crate::embedded::codec::Codec;
use crate::embedded::codec::version::{self, Version};
use crate::embedded::index::keys::{Fields, Placed, Pointer};
use crate::{Fault, Index, Record, Revision};

/// A decoded version.
#[derive(Clone, Debug)]
pub(in crate::embedded) struct Stored {
    pub(in crate::embedded) record: Record,
    pub(in crate::embedded) index: Arc<Index>,
    pub(in crate::embedded) bucket: u64,
    pub(in crate::embedded) previous: Option<(Revision, u64)>,
}

impl Stored {
    pub(in crate::embedded) fn placed(&self) -> Placed {
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

/// The version of a key as found in a [`View`](crate::embedded::read::View), for use by a later
/// view. A memtable with a name keeps it until it is flushed. So if no memtable was dropped since,
/// and the current ones do not have the name, the result was from the trees, and is still valid.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct LookedUp {
    pub(in crate::embedded) pointer: Option<Pointer>,
    /// Number of memtables dropped by then.
    pub(in crate::embedded) forgotten: u64,
}

/// Decodes a version from its bytes. Key and value share one allocation.
pub(in crate::embedded) fn unpack(
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
pub(in crate::embedded) fn unpack_record(
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
