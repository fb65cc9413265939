//! The bytes of entries in the index's trees.
//!
//! | tree | key | value |
//! |---|---|---|
//! | names | the record's key | [`Pointer`] |
//! | a bucket's | `c` + inverted hour (u64) + reason | varint count of versions |
//! | a bucket's | `g` + hash of the key's group (u24) + place | empty |
//! | a bucket's | `o` + object hash (u64) + place | empty |
//! | a bucket's | `r` + hash of the reason (u24) + place | empty |
//! | a bucket's | `s` + place | empty |
//! | a bucket's | `t` + hash of the type (u24) + place; not of the [`USUAL_TYPE`] | empty |
//! | a bucket's | `u` | revision (u64) up to which changes are in the counts |
//! | a bucket's | `e` + end (u64) + revision (u64), of an [early](super::order) record | empty |
//! | a bucket's | `x` + revision (u64) | revision (u64) of the change that ended this version before its time |
//!
//! A place is the inverted last-seen (u64) and the inverted revision (u64), so a forward scan
//! begins at the newest.
//!
//! Fixed-width integers are big-endian so that keys sort by value; `varint` is LEB128. A bucket is
//! named by the time its last record expires, in milliseconds
//! ([`NEVER`](crate::embedded::codec::version::NEVER) for records that do not).
//!
//! The entries with a place, and the count, of a version exist from its write until it is replaced
//! or deleted, or its bucket is dropped. Letters and field order are part of the format and must be
//! kept; see docs/storage-format.md.

use std::ops::{Bound, Deref};

use xxhash_rust::xxh3::xxh3_64;

use crate::embedded::codec::varint::{Reader, damaged, put_varint};
use crate::embedded::codec::version::{before_end, expiry};
use crate::record::hour_of;
use crate::{
    CountsRequest, Fault, Index, NewestRequest, ObjectSelector, Place, Revision, UnixMillis,
};

/// The type of nearly all events. It has no index, because a search for it skips few others.
pub(super) const USUAL_TYPE: &str = "Normal";

/// A revision as the value of an `x` or `u` entry.
pub(in crate::embedded) fn revision_key(revision: Revision) -> [u8; 8] {
    revision.to_be_bytes()
}

/// The first byte of a key in a bucket's tree, which says what the entry indexes.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Tag {
    /// Counts by hour and reason.
    Count = b'c',
    /// Versions that expire early, by their expiry.
    Early = b'e',
    /// Versions by the [`group`] of the key.
    Group = b'g',
    /// Versions by the involved object.
    Object = b'o',
    /// Versions by the reason.
    Reason = b'r',
    /// Versions by the time last seen only.
    Seen = b's',
    /// Versions by the type.
    Type = b't',
    /// The revision up to which versions are counted.
    Counted = b'u',
    /// Versions that ended before their expiry, by revision.
    Ended = b'x',
}

/// Length of the longest [`IndexKey`].
const KEY_LEN: usize = 25;

/// A key in a bucket's tree that leads to a version, or a prefix of such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct IndexKey {
    /// Padded with zeros, which is safe because no two sorted keys are prefixes of each other.
    bytes: [u8; KEY_LEN],
    len: u8,
}

impl IndexKey {
    fn new(tag: Tag, parts: [&[u8]; 2]) -> Self {
        let mut bytes = [0; KEY_LEN];
        let mut len = 0;
        let tag = [tag as u8];
        for part in [&tag[..]].into_iter().chain(parts) {
            if let Some(to) = bytes.get_mut(len..len + part.len()) {
                to.copy_from_slice(part);
                len += part.len();
            }
        }
        let len = len as u8;
        Self { bytes, len }
    }

    /// A value that sorts as the bytes do, but is faster to compare.
    pub(in crate::embedded) fn order(&self) -> (u128, u64, u8) {
        let (first, rest) = self.bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let (second, rest) = rest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let (first, second) = (u128::from_be_bytes(*first), u64::from_be_bytes(*second));
        (first, second, rest.first().copied().unwrap_or(0))
    }
}

impl Deref for IndexKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The index that a search uses; results come last seen first. It may also find versions that do
/// not match. The record decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum By {
    Seen,
    Group(u32),
    Object(ObjectKey),
    Reason(u64),
    Type(u32),
}

impl By {
    /// The index that probably finds the fewest versions for a request. `None` if nothing can
    /// match.
    pub(in crate::embedded) fn of(request: &NewestRequest) -> Option<Self> {
        let NewestRequest {
            prefix,
            object,
            reason,
            event_type,
            ..
        } = request;
        if let Some(object) = object {
            return ObjectKey::of(object, prefix).map(Self::Object);
        }
        let reason = reason.as_deref().and_then(reason_hash).map(Self::Reason);
        let event_type = event_type.as_deref().and_then(type_hash).map(Self::Type);
        let group = || group(prefix).map(Self::Group);
        Some(reason.or(event_type).or_else(group).unwrap_or(Self::Seen))
    }

    /// Whether the search finds a version with these fields.
    pub(super) fn finds(self, fields: &Fields) -> bool {
        match self {
            Self::Seen => true,
            Self::Group(group) => fields.group == Some(group),
            Self::Object(object) => {
                fields.objects().contains(&Some(object.hash())) && object.is_in(fields.group)
            }
            Self::Reason(reason) => fields.reason == Some(reason),
            Self::Type(event_type) => fields.event_type == Some(event_type),
        }
    }

    /// The prefix of the keys of all versions that the search finds.
    pub(in crate::embedded) fn prefix(self) -> IndexKey {
        self.key(&[])
    }

    /// The key of a version, given its place as bytes. A name in all groups has only a prefix.
    fn key(self, place: &[u8]) -> IndexKey {
        let short = |hash: u32| hash.to_be_bytes();
        match self {
            Self::Seen => IndexKey::new(Tag::Seen, [&[], place]),
            Self::Group(hash) => IndexKey::new(Tag::Group, [&short(hash)[1..], place]),
            Self::Reason(hash) => IndexKey::new(Tag::Reason, [&hash.to_be_bytes()[..3], place]),
            Self::Type(hash) => IndexKey::new(Tag::Type, [&short(hash)[1..], place]),
            Self::Object(object) => {
                let (hash, len) = object.hash_in_keys();
                let hash = hash.to_be_bytes();
                IndexKey::new(Tag::Object, [hash.get(..len).unwrap_or_default(), place])
            }
        }
    }

    /// The range of keys for the request's range of time, including the last key.
    pub(in crate::embedded) fn range(self, request: &NewestRequest) -> (Bound<IndexKey>, IndexKey) {
        let behind = request.behind().map(place_bytes);
        let start = match &behind {
            Some(place) => Bound::Excluded(self.key(place)),
            None => Bound::Included(self.prefix()),
        };
        let last = request.since.map(|last_seen| Place {
            last_seen,
            revision: 0,
        });
        (start, self.key(&last.map_or([u8::MAX; 16], place_bytes)))
    }
}

/// A place as bytes in keys.
fn place_bytes(place: Place) -> [u8; 16] {
    let time = u128::from(!ordered(place.last_seen));
    ((time << 64) | u128::from(!place.revision)).to_be_bytes()
}

/// Reads the place at the end of a key.
pub(in crate::embedded) fn read_place(key: &[u8]) -> Result<Place, Fault> {
    let bytes = key.last_chunk().ok_or_else(|| damaged("an index key"))?;
    let place = !u128::from_be_bytes(*bytes);
    Ok(Place {
        last_seen: UnixMillis((((place >> 64) as u64) ^ (1 << 63)).cast_signed()),
        revision: place as u64,
    })
}

/// The 24-bit hash of a key's part before its first slash. In Kubernetes' keys this part is the
/// namespace.
pub(super) fn group(key: &[u8]) -> Option<u32> {
    let slash = key.iter().position(|byte| *byte == b'/')?;
    let [.., a, b, c] = xxh3_64(key.get(..=slash)?).to_be_bytes();
    Some(u32::from_be_bytes([0, a, b, c]))
}

/// An index condition for an object. It may also find versions that do not match. The record
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum ObjectKey {
    /// The hash of the object's uid.
    Uid(u64),
    /// The hash of the object's name, and the group of keys; `None` means all groups.
    Name(u64, Option<u32>),
}

impl ObjectKey {
    /// The condition for an object and a prefix of keys. `None` if the selector can match nothing.
    pub(in crate::embedded) fn of(object: &ObjectSelector, key_prefix: &[u8]) -> Option<Self> {
        match object {
            ObjectSelector::Uid(uid) => uid_hash(uid).map(Self::Uid),
            ObjectSelector::Name { name, .. } => {
                name_hash(name).map(|hash| Self::Name(hash, group(key_prefix)))
            }
        }
    }

    /// The hash as it is in [`Fields::objects`].
    pub(in crate::embedded) fn hash(self) -> u64 {
        match self {
            Self::Uid(hash) | Self::Name(hash, _) => hash,
        }
    }

    /// Whether the condition finds versions in this group.
    pub(super) fn is_in(self, group: Option<u32>) -> bool {
        match self {
            Self::Uid(_) | Self::Name(_, None) => true,
            Self::Name(_, wanted) => wanted == group,
        }
    }

    /// The hash as it is in keys, and its length in bytes.
    fn hash_in_keys(self) -> (u64, usize) {
        match self {
            Self::Uid(hash) => (hash, 8),
            Self::Name(hash, Some(group)) => (name_in_group(hash, Some(group)), 8),
            Self::Name(hash, None) => (hash, 5),
        }
    }
}

/// The hash of a reason. Keys have its upper 24 bits.
fn reason_hash(reason: &str) -> Option<u64> {
    (!reason.is_empty()).then(|| xxh3_64(reason.as_bytes()))
}

/// The 24-bit hash of a type; `None` for a type without an index.
fn type_hash(event_type: &str) -> Option<u32> {
    let is_found = !matches!(event_type, "" | USUAL_TYPE);
    is_found.then(|| xxh3_64(event_type.as_bytes()) as u32 & GROUP_MASK)
}

fn uid_hash(uid: &str) -> Option<u64> {
    (!uid.is_empty()).then(|| xxh3_64(uid.as_bytes()))
}

/// The 40-bit hash of a name, with room for the bits of a group. So a name can be found in all
/// groups or in one.
fn name_hash(name: &str) -> Option<u64> {
    (!name.is_empty()).then(|| xxh3_64(name.as_bytes()) & !u64::from(GROUP_MASK))
}

fn name_in_group(hash: u64, group: Option<u32>) -> u64 {
    hash | u64::from(group.unwrap_or(0) & GROUP_MASK)
}

/// The bits of a [`group`].
const GROUP_MASK: u32 = 0xff_ffff;

/// The index values of a version, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Fields {
    uid: Option<u64>,
    object: Option<u64>,
    /// The group of the version's key.
    pub(super) group: Option<u32>,
    pub(in crate::embedded) reason: Option<u64>,
    event_type: Option<u32>,
    pub(in crate::embedded) last_seen: UnixMillis,
}

impl Fields {
    pub(in crate::embedded) fn of(index: &Index, key: &[u8]) -> Self {
        let uid = uid_hash(&index.object_uid);
        let object = name_hash(&index.object_name);
        Self {
            uid,
            // A uid may be any text, even one that hashes like the name. Then one entry is enough.
            object: object.filter(|object| Some(*object) != uid),
            group: group(key),
            reason: reason_hash(&index.reason),
            event_type: type_hash(&index.event_type),
            last_seen: index.last_seen,
        }
    }

    /// The hashes of the object's uid and of its name.
    pub(in crate::embedded) fn objects(&self) -> [Option<u64>; 2] {
        [self.uid, self.object]
    }

    /// The keys that lead to the version with a revision.
    pub(in crate::embedded) fn keys(self, revision: Revision) -> impl Iterator<Item = IndexKey> {
        let place = place_bytes(Place {
            last_seen: self.last_seen,
            revision,
        });
        let name = self.object.map(|hash| name_in_group(hash, self.group));
        let objects =
            [self.uid, name].map(|hash| hash.map(|hash| By::Object(ObjectKey::Uid(hash))));
        let [uid, name] = objects;
        let (reason, event_type) = (self.reason.map(By::Reason), self.event_type.map(By::Type));
        let by = [uid, name, self.group.map(By::Group), reason, event_type];
        by.into_iter()
            .flatten()
            .chain([By::Seen])
            .map(move |by| by.key(&place))
    }
}

/// The key that marks a version as replaced or deleted.
pub(in crate::embedded) fn ended_key(revision: Revision) -> IndexKey {
    IndexKey::new(Tag::Ended, [&revision.to_be_bytes(), &[]])
}

/// The key of the revision up to which a tree's versions are counted.
pub(in crate::embedded) fn counted_key() -> IndexKey {
    IndexKey::new(Tag::Counted, [&[]; 2])
}

/// The key of the count of an hour and a reason.
pub(in crate::embedded) fn count_key(hour: UnixMillis, reason: &str) -> Vec<u8> {
    let hour = (!ordered(hour)).to_be_bytes();
    [&[Tag::Count as u8], &hour[..], reason.as_bytes()].concat()
}

/// Reads hour and reason of a count's key.
pub(in crate::embedded) fn read_count_key(key: &[u8]) -> Result<(UnixMillis, &str), Fault> {
    let read = || {
        let (hour, reason) = key.get(1..)?.split_first_chunk()?;
        let hour = !u64::from_be_bytes(*hour) ^ (1 << 63);
        Some((UnixMillis(hour.cast_signed()), str::from_utf8(reason).ok()?))
    };
    read().ok_or_else(|| damaged("the key of a count"))
}

/// The range of keys of all counts in a request's range of hours.
pub(in crate::embedded) fn count_range(
    request: &CountsRequest,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let first = match (&request.after, request.until) {
        (Some((hour, reason)), _) => Bound::Excluded(count_key(*hour, reason)),
        // An hour that begins exactly at `until` is not in the range.
        (None, Some(until)) if hour_of(until) == until => {
            Bound::Included(count_key(UnixMillis(until.0.saturating_sub(1)), ""))
        }
        (None, Some(until)) => Bound::Included(count_key(hour_of(until), "")),
        (None, None) => Bound::Included(vec![Tag::Count as u8]),
    };
    let last = match request.since {
        // Later than all reasons of that hour.
        Some(since) => count_key(UnixMillis(hour_of(since).0.saturating_sub(1)), ""),
        None => vec![Tag::Count as u8 + 1],
    };
    (first, Bound::Excluded(last))
}

/// The value of a count.
pub(in crate::embedded) fn encode_count(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, count);
    out
}

pub(in crate::embedded) fn decode_count(bytes: &[u8]) -> Result<u64, Fault> {
    Reader::new(bytes, "a count").varint()
}

/// The key of an early record's expiry.
pub(in crate::embedded) fn early_key(end: UnixMillis, revision: Revision) -> IndexKey {
    let end = ordered(end).to_be_bytes();
    IndexKey::new(Tag::Early, [&end, &revision.to_be_bytes()])
}

/// Reads expiry and revision of an early record's key.
pub(in crate::embedded) fn read_early_key(key: &[u8]) -> Result<(UnixMillis, Revision), Fault> {
    let last = || key.last_chunk::<16>()?.split_first_chunk::<8>();
    let (end, revision) = last().ok_or_else(|| damaged("a key of an end"))?;
    Ok((
        time_of(u64::from_be_bytes(*end)),
        trailing_revision(revision)?,
    ))
}

/// The revision of the version that a key in a bucket's tree leads to.
pub(super) fn revision_of(key: &[u8]) -> Option<Revision> {
    match *key.first()? {
        b'g' | b'o' | b'r' | b's' | b't' => Some(read_place(key).ok()?.revision),
        b'e' | b'x' => trailing_revision(key).ok(),
        _ => None,
    }
}

/// Reads the revision at the end of an `e` or `x` key.
pub(in crate::embedded) fn trailing_revision(key: &[u8]) -> Result<Revision, Fault> {
    key.last_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
        .ok_or_else(|| damaged("an index key"))
}

/// Maps times to integers with the same order.
fn ordered(time: UnixMillis) -> u64 {
    time.0.cast_unsigned() ^ (1 << 63)
}

fn time_of(ordered: u64) -> UnixMillis {
    UnixMillis((ordered ^ (1 << 63)).cast_signed())
}

/// The location of a key's current version. On disk: varint revision, varint bucket, varint
/// milliseconds from expiry to the bucket's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Pointer {
    pub(in crate::embedded) revision: Revision,
    pub(in crate::embedded) bucket: u64,
    pub(in crate::embedded) expires_at: Option<UnixMillis>,
}

impl Pointer {
    pub(in crate::embedded) fn is_live(&self, now: UnixMillis) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    pub(in crate::embedded) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        put_varint(&mut out, self.revision);
        put_varint(&mut out, self.bucket);
        put_varint(&mut out, before_end(self.bucket, self.expires_at));
        out
    }

    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes, "a name entry");
        let (revision, bucket) = (reader.varint()?, reader.varint()?);
        let expires_at = expiry(bucket, reader.varint()?);
        Ok(Self {
            revision,
            bucket,
            expires_at,
        })
    }
}

/// A version with its location and index values.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Placed {
    pub(in crate::embedded) pointer: Pointer,
    pub(in crate::embedded) fields: Fields,
    /// Whether the version's expiry is in the index; see [`order`](super::order). For a version
    /// that ends: whether that entry is removed.
    pub(in crate::embedded) is_early: bool,
}

impl Placed {
    /// All keys of the version in its bucket's tree.
    pub(in crate::embedded) fn keys(&self) -> impl Iterator<Item = IndexKey> {
        let Pointer {
            revision,
            expires_at,
            ..
        } = self.pointer;
        let end = expires_at.filter(|_| self.is_early);
        let early = end.map(|end| early_key(end, revision));
        self.fields.keys(revision).chain(early)
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
