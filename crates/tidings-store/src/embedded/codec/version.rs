//! The bytes of versions and of their ends, in the log's entries. Frames around them are in
//! `frame.rs`.
//!
//! `varint` is LEB128. A bucket is named by the time its last record expires, in milliseconds
//! ([`NEVER`] for records that do not). The order of fields is part of the format and must be kept;
//! see docs/storage-format.md.

use super::varint::{Reader, damaged, put_bytes, put_varint};
use crate::limits::{INDEX_LEN_MAX, KEY_LEN_MAX, index_len};
use crate::{Fault, Index, Revision, UnixMillis};

/// Name of the bucket of records that never expire.
pub(in crate::embedded) const NEVER: u64 = u64::MAX;

/// Milliseconds from a record's expiry to the end of its bucket; 0 if it does not expire.
pub(in crate::embedded) fn before_end(bucket: u64, expires_at: Option<UnixMillis>) -> u64 {
    expires_at.map_or(0, |at| bucket.wrapping_sub(at.0.cast_unsigned()))
}

/// The expiry of a record in a bucket, from [`before_end`].
pub(in crate::embedded) fn expiry(bucket: u64, before_end: u64) -> Option<UnixMillis> {
    (bucket != NEVER).then(|| UnixMillis(bucket.wrapping_sub(before_end).cast_signed()))
}

/// One version of a record. On disk:
///
/// 1. varint milliseconds from expiry to the bucket's end;
/// 2. varint distance to the revision of the previous version (0 for none) and, if there is one,
///    varint of its bucket;
/// 3. varint dictionary id plus one, or 0 for a body that is not compressed;
/// 4. varint length of the body before compression;
/// 5. the `Body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Version<'a> {
    pub(in crate::embedded) expires_at: Option<UnixMillis>,
    pub(in crate::embedded) previous: Option<(Revision, u64)>,
    pub(in crate::embedded) body: Packed<'a>,
}

/// A `Body` as it is on disk, perhaps compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Packed<'a> {
    pub(super) dictionary: Option<u32>,
    pub(in crate::embedded) len: usize,
    pub(in crate::embedded) bytes: &'a [u8],
}

impl<'a> Version<'a> {
    pub(in crate::embedded) fn encode(&self, revision: Revision, bucket: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.bytes.len() + 32);
        put_varint(&mut out, before_end(bucket, self.expires_at));
        match self.previous {
            None => put_varint(&mut out, 0),
            Some((previous, bucket)) => {
                put_varint(&mut out, revision.wrapping_sub(previous));
                put_varint(&mut out, bucket);
            }
        }
        put_varint(
            &mut out,
            self.body.dictionary.map_or(0, |id| u64::from(id) + 1),
        );
        put_varint(&mut out, self.body.len as u64);
        out.extend_from_slice(self.body.bytes);
        out
    }

    pub(in crate::embedded) fn decode(
        bytes: &'a [u8],
        revision: Revision,
        bucket: u64,
    ) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes, "a record");
        let expires_at = expiry(bucket, reader.varint()?);
        let previous = match reader.varint()? {
            0 => None,
            distance => Some((revision.wrapping_sub(distance), reader.varint()?)),
        };
        let dictionary = match reader.varint()? {
            0 => None,
            id => Some(u32::try_from(id - 1).map_err(|_| damaged("a record's dictionary"))?),
        };
        let len = usize::try_from(reader.varint()?).map_err(|_| damaged("a record's length"))?;
        Ok(Self {
            expires_at,
            previous,
            body: Packed {
                dictionary,
                len,
                bytes: reader.left(),
            },
        })
    }
}

/// Encodes the compressed part of a record: key, index values and value.
///
/// On disk: a zero byte if there is a reason or a type (without it no key is empty); varint length
/// and bytes of the key, the object's uid, kind, namespace and name, and after a zero byte of
/// reason and type; zigzag varint of last-seen; the value up to the end.
pub(in crate::embedded) fn encode_body(key: &[u8], index: &Index, value: &[u8]) -> Vec<u8> {
    let object = [
        &index.object_uid,
        &index.object_kind,
        &index.object_namespace,
        &index.object_name,
    ];
    let others = [&index.reason, &index.event_type];
    let has_others = others.iter().any(|string| !string.is_empty());
    let others = others.into_iter().filter(|_| has_others);
    let strings = object.into_iter().chain(others);
    let len: usize = strings.clone().map(String::len).sum();
    let mut out = Vec::with_capacity(key.len() + len + value.len() + 32);
    if has_others {
        out.push(0);
    }
    put_bytes(&mut out, key);
    for string in strings {
        put_bytes(&mut out, string.as_bytes());
    }
    let time = index.last_seen.0;
    put_varint(&mut out, ((time << 1) ^ (time >> 63)).cast_unsigned());
    out.extend_from_slice(value);
    out
}

/// Reads whether a body has a reason and a type.
fn begin_body(bytes: &[u8]) -> (Reader<'_>, bool) {
    let (bytes, has_others) = match bytes {
        [0, rest @ ..] => (rest, true),
        bytes => (bytes, false),
    };
    (Reader::new(bytes, "a record's body"), has_others)
}

/// Reads the key and returns its length, if that is accepted.
fn take_key(reader: &mut Reader<'_>) -> Result<usize, Fault> {
    let len = reader.bytes()?.len();
    if (1..=KEY_LEN_MAX).contains(&len) {
        Ok(len)
    } else {
        Err(damaged("a record's key"))
    }
}

/// Decodes a body: the key's range, the index values, and the start of the value. See
/// [`encode_body`].
pub(in crate::embedded) fn decode_body(
    bytes: &[u8],
) -> Result<(std::ops::Range<usize>, Index, usize), Fault> {
    let (mut reader, has_others) = begin_body(bytes);
    let key_len = take_key(&mut reader)?;
    let key_end = bytes.len() - reader.left().len();
    let mut index = Index {
        object_uid: reader.string()?,
        object_kind: reader.string()?,
        object_namespace: reader.string()?,
        object_name: reader.string()?,
        ..Index::default()
    };
    if has_others {
        (index.reason, index.event_type) = (reader.string()?, reader.string()?);
    }
    let zigzag = reader.varint()?;
    index.last_seen = UnixMillis((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()));
    if index_len(&index) > INDEX_LEN_MAX {
        return Err(damaged("what a record is found by"));
    }
    Ok((
        key_end - key_len..key_end,
        index,
        bytes.len() - reader.left().len(),
    ))
}

/// Decodes a body without its index values: the key's range and the start of the value. See
/// [`encode_body`].
pub(in crate::embedded) fn split_body(
    bytes: &[u8],
) -> Result<(std::ops::Range<usize>, usize), Fault> {
    let (mut reader, has_others) = begin_body(bytes);
    let key_len = take_key(&mut reader)?;
    let key_end = bytes.len() - reader.left().len();
    for _ in 0..if has_others { 6 } else { 4 } {
        reader.bytes()?;
    }
    reader.varint()?;
    Ok((
        key_end - key_len..key_end,
        bytes.len() - reader.left().len(),
    ))
}

/// Ends of versions of one bucket: a deletion, or several expiries. Their revisions are
/// consecutive. On disk: 1 byte (0 deleted, 1 expired); varint bucket; varint count; varint
/// revision of the first ended version, then the varint distance from each to the next (modulo
/// 2^64).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Ends {
    pub(in crate::embedded) expired: bool,
    pub(in crate::embedded) bucket: u64,
    pub(in crate::embedded) versions: Vec<Revision>,
}

impl Ends {
    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20 + self.versions.len() * 2);
        out.push(u8::from(self.expired));
        put_varint(&mut out, self.bucket);
        put_varint(&mut out, self.versions.len() as u64);
        let mut last = 0u64;
        for revision in &self.versions {
            put_varint(&mut out, revision.wrapping_sub(last));
            last = *revision;
        }
        out
    }

    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let [expired @ (0 | 1), rest @ ..] = bytes else {
            return Err(damaged("a log entry"));
        };
        let mut reader = Reader::new(rest, "a log entry");
        let (bucket, count) = (reader.varint()?, reader.varint()?);
        let mut last = 0u64;
        let versions = (0..count).map(|_| {
            last = last.wrapping_add(reader.varint()?);
            Ok(last)
        });
        Ok(Self {
            expired: *expired == 1,
            bucket,
            versions: versions.collect::<Result<_, Fault>>()?,
        })
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
pub(in crate::embedded) mod tests;
