//! The bytes of entries in the log and in the index. Frames around them are in `frame.rs`.
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
//! named by the time its last record expires, in milliseconds ([`NEVER`] for records that do not).
//!
//! The entries with a place, and the count, of a version exist from its write until it is replaced
//! or deleted, or its bucket is dropped. Letters and field order are part of the format and must be
//! kept; see docs/storage-format.md.

use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::varint::{Reader, damaged, put_bytes, put_varint};
use crate::limits::{INDEX_LEN_MAX, KEY_LEN_MAX, index_len};
use crate::record::hour_of;
use crate::{
    CountsRequest, Fault, Index, NewestRequest, ObjectSelector, Place, Revision, UnixMillis,
};

/// Version of the format described here. A store with a greater version is refused.
pub(crate) const FORMAT: u32 = 4;

/// Name of the bucket of records that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// The type of nearly all events. It has no index, because a search for it skips few others.
pub(crate) const USUAL_TYPE: &str = "Normal";

/// A revision as the value of an `x` or `u` entry.
pub(crate) fn revision_key(revision: Revision) -> [u8; 8] {
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
pub(crate) struct IndexKey {
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
    pub(crate) fn order(&self) -> (u128, u64, u8) {
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
pub(crate) enum By {
    Seen,
    Group(u32),
    Object(ObjectKey),
    Reason(u64),
    Type(u32),
}

impl By {
    /// The index that probably finds the fewest versions for a request. `None` if nothing can
    /// match.
    pub(crate) fn of(request: &NewestRequest) -> Option<Self> {
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
    pub(crate) fn finds(self, fields: &Fields) -> bool {
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
    pub(crate) fn prefix(self) -> IndexKey {
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
    pub(crate) fn range(self, request: &NewestRequest) -> (Bound<IndexKey>, IndexKey) {
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
pub(crate) fn read_place(key: &[u8]) -> Result<Place, Fault> {
    let bytes = key.last_chunk().ok_or_else(|| damaged("an index key"))?;
    let place = !u128::from_be_bytes(*bytes);
    Ok(Place {
        last_seen: UnixMillis((((place >> 64) as u64) ^ (1 << 63)).cast_signed()),
        revision: place as u64,
    })
}

/// The 24-bit hash of a key's part before its first slash. In Kubernetes' keys this part is the
/// namespace.
pub(crate) fn group(key: &[u8]) -> Option<u32> {
    let slash = key.iter().position(|byte| *byte == b'/')?;
    let [.., a, b, c] = xxh3_64(key.get(..=slash)?).to_be_bytes();
    Some(u32::from_be_bytes([0, a, b, c]))
}

/// An index condition for an object. It may also find versions that do not match. The record
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKey {
    /// The hash of the object's uid.
    Uid(u64),
    /// The hash of the object's name, and the group of keys; `None` means all groups.
    Name(u64, Option<u32>),
}

impl ObjectKey {
    /// The condition for an object and a prefix of keys. `None` if the selector can match nothing.
    pub(crate) fn of(object: &ObjectSelector, key_prefix: &[u8]) -> Option<Self> {
        match object {
            ObjectSelector::Uid(uid) => uid_hash(uid).map(Self::Uid),
            ObjectSelector::Name { name, .. } => {
                name_hash(name).map(|hash| Self::Name(hash, group(key_prefix)))
            }
        }
    }

    /// The hash as it is in [`Fields::objects`].
    pub(crate) fn hash(self) -> u64 {
        match self {
            Self::Uid(hash) | Self::Name(hash, _) => hash,
        }
    }

    /// Whether the condition finds versions in this group.
    pub(crate) fn is_in(self, group: Option<u32>) -> bool {
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
pub(crate) struct Fields {
    uid: Option<u64>,
    object: Option<u64>,
    /// The group of the version's key.
    pub(crate) group: Option<u32>,
    pub(crate) reason: Option<u64>,
    event_type: Option<u32>,
    pub(crate) last_seen: UnixMillis,
}

impl Fields {
    pub(crate) fn of(index: &Index, key: &[u8]) -> Self {
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
    pub(crate) fn objects(&self) -> [Option<u64>; 2] {
        [self.uid, self.object]
    }

    /// The keys that lead to the version with a revision.
    pub(crate) fn keys(self, revision: Revision) -> impl Iterator<Item = IndexKey> {
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
pub(crate) fn ended_key(revision: Revision) -> IndexKey {
    IndexKey::new(Tag::Ended, [&revision.to_be_bytes(), &[]])
}

/// The key of the revision up to which a tree's versions are counted.
pub(crate) fn counted_key() -> IndexKey {
    IndexKey::new(Tag::Counted, [&[]; 2])
}

/// The key of the count of an hour and a reason.
pub(crate) fn count_key(hour: UnixMillis, reason: &str) -> Vec<u8> {
    let hour = (!ordered(hour)).to_be_bytes();
    [&[Tag::Count as u8], &hour[..], reason.as_bytes()].concat()
}

/// Reads hour and reason of a count's key.
pub(crate) fn read_count_key(key: &[u8]) -> Result<(UnixMillis, &str), Fault> {
    let read = || {
        let (hour, reason) = key.get(1..)?.split_first_chunk()?;
        let hour = !u64::from_be_bytes(*hour) ^ (1 << 63);
        Some((UnixMillis(hour.cast_signed()), str::from_utf8(reason).ok()?))
    };
    read().ok_or_else(|| damaged("the key of a count"))
}

/// The range of keys of all counts in a request's range of hours.
pub(crate) fn count_range(request: &CountsRequest) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
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
pub(crate) fn encode_count(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, count);
    out
}

pub(crate) fn decode_count(bytes: &[u8]) -> Result<u64, Fault> {
    Reader::new(bytes, "a count").varint()
}

/// The key of an early record's expiry.
pub(crate) fn early_key(end: UnixMillis, revision: Revision) -> IndexKey {
    let end = ordered(end).to_be_bytes();
    IndexKey::new(Tag::Early, [&end, &revision.to_be_bytes()])
}

/// Reads expiry and revision of an early record's key.
pub(crate) fn read_early_key(key: &[u8]) -> Result<(UnixMillis, Revision), Fault> {
    let last = || key.last_chunk::<16>()?.split_first_chunk::<8>();
    let (end, revision) = last().ok_or_else(|| damaged("a key of an end"))?;
    Ok((
        time_of(u64::from_be_bytes(*end)),
        trailing_revision(revision)?,
    ))
}

/// The revision of the version that a key in a bucket's tree leads to.
pub(crate) fn revision_of(key: &[u8]) -> Option<Revision> {
    match *key.first()? {
        b'g' | b'o' | b'r' | b's' | b't' => Some(read_place(key).ok()?.revision),
        b'e' | b'x' => trailing_revision(key).ok(),
        _ => None,
    }
}

/// Reads the revision at the end of an `e` or `x` key.
pub(crate) fn trailing_revision(key: &[u8]) -> Result<Revision, Fault> {
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
pub(crate) struct Pointer {
    pub(crate) revision: Revision,
    pub(crate) bucket: u64,
    pub(crate) expires_at: Option<UnixMillis>,
}

impl Pointer {
    pub(crate) fn is_live(&self, now: UnixMillis) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20);
        put_varint(&mut out, self.revision);
        put_varint(&mut out, self.bucket);
        put_varint(&mut out, before_end(self.bucket, self.expires_at));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
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
pub(crate) struct Placed {
    pub(crate) pointer: Pointer,
    pub(crate) fields: Fields,
    /// Whether the version's expiry is in the index; see [`order`](super::order). For a version
    /// that ends: whether that entry is removed.
    pub(crate) is_early: bool,
}

impl Placed {
    /// All keys of the version in its bucket's tree.
    pub(crate) fn keys(&self) -> impl Iterator<Item = IndexKey> {
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

fn before_end(bucket: u64, expires_at: Option<UnixMillis>) -> u64 {
    expires_at.map_or(0, |at| bucket.wrapping_sub(at.0.cast_unsigned()))
}

fn expiry(bucket: u64, before_end: u64) -> Option<UnixMillis> {
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
pub(crate) struct Version<'a> {
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) previous: Option<(Revision, u64)>,
    pub(crate) body: Packed<'a>,
}

/// A `Body` as it is on disk, perhaps compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed<'a> {
    pub(crate) dictionary: Option<u32>,
    pub(crate) len: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Version<'a> {
    pub(crate) fn encode(&self, revision: Revision, bucket: u64) -> Vec<u8> {
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

    pub(crate) fn decode(bytes: &'a [u8], revision: Revision, bucket: u64) -> Result<Self, Fault> {
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
pub(crate) fn encode_body(key: &[u8], index: &Index, value: &[u8]) -> Vec<u8> {
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
pub(crate) fn decode_body(bytes: &[u8]) -> Result<(std::ops::Range<usize>, Index, usize), Fault> {
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
pub(crate) fn split_body(bytes: &[u8]) -> Result<(std::ops::Range<usize>, usize), Fault> {
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
pub(crate) struct Ends {
    pub(crate) expired: bool,
    pub(crate) bucket: u64,
    pub(crate) versions: Vec<Revision>,
}

impl Ends {
    pub(crate) fn encode(&self) -> Vec<u8> {
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

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
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

/// The position up to which expiries are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// All expiries of this bucket and of earlier ones are written.
    pub(crate) floor: u64,
    /// For later buckets, the revision up to which all versions have expired or otherwise ended.
    pub(crate) marks: Arc<BTreeMap<u64, Revision>>,
}

impl Swept {
    /// Whether the position covers the end of a version.
    pub(crate) fn has(&self, bucket: u64, revision: Revision) -> bool {
        bucket <= self.floor || revision <= self.mark(bucket)
    }

    /// The revision up to which a bucket after the floor is swept.
    pub(crate) fn mark(&self, bucket: u64) -> Revision {
        self.marks.get(&bucket).copied().unwrap_or(0)
    }

    pub(crate) fn set_mark(&mut self, bucket: u64, revision: Revision) {
        Arc::make_mut(&mut self.marks).insert(bucket, revision);
    }

    /// Raises the floor to a bucket, and drops the marks that it covers.
    pub(crate) fn raise(&mut self, floor: u64) {
        self.floor = floor;
        let is_below = |bucket: &u64| *bucket <= floor;
        if self.marks.keys().any(is_below) {
            Arc::make_mut(&mut self.marks).retain(|bucket, _| !is_below(bucket));
        }
    }

    /// The position in formats up to 3: everything up to a bucket, and up to a revision in it.
    pub(crate) fn up_to(bucket: u64, revision: Revision) -> Self {
        let mut swept = Self::default();
        if revision == Revision::MAX {
            swept.floor = bucket;
        } else {
            swept.floor = bucket.saturating_sub(1);
            if revision > 0 {
                swept.set_mark(bucket, revision);
            }
        }
        swept
    }

    /// The first bucket after the floor, for callers that do not use marks.
    pub(crate) fn begins_at(&self) -> u64 {
        match self.floor {
            0 => 0,
            floor => floor.saturating_add(1),
        }
    }
}

/// The store's state, which every commit writes again.
///
/// On disk it is a row of varints: revision, compacted, the swept position as two numbers, records
/// and value bytes. The two numbers are the first bucket after the floor, and 0; in formats up to 3
/// they were a bucket and a revision in it. Then bucket and mark follow for each bucket with a
/// mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The latest revision.
    pub(crate) revision: Revision,
    /// History up to this revision is forgotten.
    pub(crate) compacted: Revision,
    /// The position up to which expiries are written.
    pub(crate) swept: Swept,
    /// Number of records whose expiry is not written.
    pub(crate) records: u64,
    /// Bytes of the values of these records.
    pub(crate) value_bytes: u64,
}

/// A bound that numbers which grow by one never reach.
pub(crate) const COUNTED_MAX: u64 = 1 << 62;

impl State {
    /// Whether a store can have this state.
    pub(crate) fn is_possible(&self) -> bool {
        let Self {
            revision,
            compacted,
            records,
            value_bytes,
            ..
        } = self;
        let counted = [revision, compacted, records, value_bytes];
        counted.into_iter().all(|count| *count <= COUNTED_MAX)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48 + 12 * self.swept.marks.len());
        let Self {
            revision,
            compacted,
            swept,
            records,
            value_bytes,
        } = self;
        for value in [
            *revision,
            *compacted,
            swept.begins_at(),
            0,
            *records,
            *value_bytes,
        ] {
            put_varint(&mut out, value);
        }
        for (bucket, revision) in &*swept.marks {
            put_varint(&mut out, *bucket);
            put_varint(&mut out, *revision);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader::new(bytes, "the state");
        let mut state = Self {
            revision: reader.varint()?,
            compacted: reader.varint()?,
            swept: Swept::up_to(reader.varint()?, reader.varint()?),
            records: reader.varint()?,
            value_bytes: reader.varint()?,
        };
        while !reader.left().is_empty() {
            let (bucket, revision) = (reader.varint()?, reader.varint()?);
            state.swept.set_mark(bucket, revision);
        }
        if state.is_possible() {
            Ok(state)
        } else {
            Err(damaged("the state"))
        }
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
