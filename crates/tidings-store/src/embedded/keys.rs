//! What the embedded store puts on disk, apart from the frames around it (`frame.rs`): entries of the log and of the index.
//!
//! | tree | key | value |
//! |---|---|---|
//! | names | the record's key | [`Pointer`] |
//! | a bucket's | `o` + object hash (u64) + revision (u64) | empty |
//! | a bucket's | `s` + inverted last-seen (u64) + inverted revision (u64) | empty |
//! | a bucket's | `g` + hash of the key's group (u24) + inverted last-seen (u64) + inverted revision (u64) | empty |
//! | a bucket's | `e` + end (u64) + revision (u64), of an [early](super::order) record | empty |
//! | a bucket's | `x` + revision (u64) | revision (u64) of the change that ended this version before its time |
//!
//! Fixed-width integers are big-endian so that keys sort by value; `varint` is LEB128. A bucket is named by the time its
//! last record expires, in milliseconds ([`NEVER`] for records that do not).
//!
//! The object and last-seen entries of a version exist from its write until it is replaced, deleted or its bucket is
//! dropped. Letters and field order are part of the format and must be kept; see docs/storage-format.md.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::varint::{Reader, damaged, put_bytes, put_varint};
use crate::{Fault, Index, ObjectSelector, Revision, UnixMillis};

/// Version of everything described here. A store with a greater one is refused.
pub(crate) const FORMAT: u32 = 4;

/// The bucket of records that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// A revision as the value of an `x` entry.
pub(crate) fn revision_key(revision: Revision) -> [u8; 8] {
    revision.to_be_bytes()
}

/// What a key of a bucket's tree begins with: by what it leads to a version.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Tag {
    /// By its end, if that comes early.
    Early = b'e',
    /// By the object.
    Object = b'o',
    /// By when it was last seen.
    Seen = b's',
    /// By when it was last seen, within the keys of one [`group`].
    SeenInGroup = b'g',
    /// By its revision, if it ended before its time.
    Ended = b'x',
}

/// A key of a bucket's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexKey {
    bytes: [u8; 20],
    len: u8,
}

impl IndexKey {
    fn new(tag: Tag, parts: [&[u8]; 3]) -> Self {
        let (mut bytes, mut len) = ([0; 20], 0);
        let tag = [tag as u8];
        let parts = [&tag[..]].into_iter().chain(parts);
        for (to, byte) in bytes.iter_mut().zip(parts.flatten()) {
            *to = *byte;
            len += 1;
        }
        Self { bytes, len }
    }

    fn object(hash: u64, revision: Revision) -> Self {
        Self::new(
            Tag::Object,
            [&hash.to_be_bytes(), &revision.to_be_bytes(), &[]],
        )
    }

    /// Among all last-seen keys, or among those of a group.
    fn seen(group: Option<u32>, last_seen: UnixMillis, revision: Revision) -> Self {
        let time = (!ordered(last_seen)).to_be_bytes();
        let revision = (!revision).to_be_bytes();
        match group {
            None => Self::new(Tag::Seen, [&time, &revision, &[]]),
            Some(group) => {
                let group = group_bytes(group);
                Self::new(Tag::SeenInGroup, [&group, &time, &revision])
            }
        }
    }

    /// Sorts as the bytes do.
    pub(crate) fn order(&self) -> (u128, u32) {
        let (first, rest) = self.bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let rest = rest.first_chunk().unwrap_or(&[0; 4]);
        (u128::from_be_bytes(*first), u32::from_be_bytes(*rest))
    }
}

impl Deref for IndexKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The prefix under which the last-seen entries lie of all keys with a prefix, and perhaps of others.
pub(crate) fn seen_prefix(keys: &[u8]) -> IndexKey {
    match group(keys) {
        Some(group) => IndexKey::new(Tag::SeenInGroup, [&group_bytes(group), &[], &[]]),
        None => IndexKey::new(Tag::Seen, [&[]; 3]),
    }
}

/// The hash (24 bits) of a key's part up to its first slash: with Kubernetes' keys, the namespace.
pub(crate) fn group(key: &[u8]) -> Option<u32> {
    let slash = key.iter().position(|byte| *byte == b'/')?;
    let [.., a, b, c] = xxh3_64(key.get(..=slash)?).to_be_bytes();
    Some(u32::from_be_bytes([0, a, b, c]))
}

fn group_bytes(group: u32) -> [u8; 3] {
    let [_, a, b, c] = group.to_be_bytes();
    [a, b, c]
}

/// What versions about an object are found by. Others may be found, too: the record decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKey {
    /// The hash of the uid.
    Uid(u64),
    /// The hash of the name, in all groups of keys or in one.
    Name(u64, Option<u32>),
}

impl ObjectKey {
    /// For an object and keys with a prefix; `None` if the selector can match nothing.
    pub(crate) fn of(object: &ObjectSelector, key_prefix: &[u8]) -> Option<Self> {
        match object {
            ObjectSelector::Uid(uid) => uid_hash(uid).map(Self::Uid),
            ObjectSelector::Name { name, .. } => {
                name_hash(name).map(|hash| Self::Name(hash, group(key_prefix)))
            }
        }
    }

    /// One of [`Fields::objects`].
    pub(crate) fn hash(self) -> u64 {
        match self {
            Self::Uid(hash) | Self::Name(hash, _) => hash,
        }
    }

    /// Whether it looks for versions in such a group.
    pub(crate) fn is_in(self, group: Option<u32>) -> bool {
        match self {
            Self::Uid(_) | Self::Name(_, None) => true,
            Self::Name(_, wanted) => wanted == group,
        }
    }

    /// The prefix under which they lie in a tree.
    pub(crate) fn prefix(self) -> IndexKey {
        let (hash, len) = match self {
            Self::Uid(hash) => (hash, 8),
            Self::Name(hash, Some(group)) => (name_in_group(hash, Some(group)), 8),
            Self::Name(hash, None) => (hash, 5),
        };
        let hash = hash.to_be_bytes();
        let hash = hash.get(..len).unwrap_or_default();
        IndexKey::new(Tag::Object, [hash, &[], &[]])
    }
}

fn uid_hash(uid: &str) -> Option<u64> {
    (!uid.is_empty()).then(|| xxh3_64(uid.as_bytes()))
}

/// 40 bits, and room for those of the group, so that a name is found in all of them, and in one.
fn name_hash(name: &str) -> Option<u64> {
    (!name.is_empty()).then(|| xxh3_64(name.as_bytes()) & !u64::from(GROUP_MASK))
}

fn name_in_group(hash: u64, group: Option<u32>) -> u64 {
    hash | u64::from(group.unwrap_or(0) & GROUP_MASK)
}

/// The bits of a [`group`].
const GROUP_MASK: u32 = 0xff_ffff;

/// What a version is found by besides its name, as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    uid: Option<u64>,
    object: Option<u64>,
    /// The group of its name.
    pub(crate) group: Option<u32>,
    pub(crate) last_seen: UnixMillis,
}

impl Fields {
    pub(crate) fn of(index: &Index, key: &[u8]) -> Self {
        let uid = uid_hash(&index.object_uid);
        let object = name_hash(&index.object_name);
        Self {
            uid,
            // A uid may be anything, even what another's name is hashed from. Once is enough to be found.
            object: object.filter(|object| Some(*object) != uid),
            group: group(key),
            last_seen: index.last_seen,
        }
    }

    /// The hashes of the object's uid, and of its name.
    pub(crate) fn objects(&self) -> [Option<u64>; 2] {
        [self.uid, self.object]
    }

    /// The object and last-seen keys of the version with a revision.
    pub(crate) fn keys(self, revision: Revision) -> impl Iterator<Item = IndexKey> {
        let seen = |group| IndexKey::seen(group, self.last_seen, revision);
        let in_group = self.group.map(|group| seen(Some(group)));
        let name = self.object.map(|hash| name_in_group(hash, self.group));
        [self.uid, name]
            .into_iter()
            .flatten()
            .map(move |hash| IndexKey::object(hash, revision))
            .chain([seen(None)])
            .chain(in_group)
    }
}

/// The key that marks a version as replaced or deleted.
pub(crate) fn ended_key(revision: Revision) -> IndexKey {
    IndexKey::new(Tag::Ended, [&revision.to_be_bytes(), &[], &[]])
}

/// The key by which the end of an early record is found.
pub(crate) fn early_key(end: UnixMillis, revision: Revision) -> IndexKey {
    let end = ordered(end).to_be_bytes();
    IndexKey::new(Tag::Early, [&end, &revision.to_be_bytes(), &[]])
}

/// End and revision of such a key.
pub(crate) fn read_early_key(key: &[u8]) -> Result<(UnixMillis, Revision), Fault> {
    let (end, revision) = last_two(key).ok_or_else(|| damaged("a key of an end"))?;
    Ok((time_of(end), revision))
}

/// The revision of the version that a key of a bucket's tree leads to.
pub(crate) fn revision_of(key: &[u8]) -> Option<Revision> {
    let last = u64::from_be_bytes(*key.last_chunk()?);
    let is_seen = matches!(key.first()?, b's' | b'g');
    Some(if is_seen { !last } else { last })
}

/// The two integers at the end of a key.
fn last_two(key: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = key.last_chunk::<16>()?.split_first_chunk::<8>()?;
    Some((
        u64::from_be_bytes(*first),
        u64::from_be_bytes(*second.first_chunk()?),
    ))
}

/// The revision at the end of an object or `x` key.
pub(crate) fn trailing_revision(key: &[u8]) -> Result<Revision, Fault> {
    key.last_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
        .ok_or_else(|| damaged("an index key"))
}

/// Time and revision of a last-seen key.
pub(crate) fn read_seen_key(key: &[u8]) -> Result<(UnixMillis, Revision), Fault> {
    let (time, revision) = last_two(key).ok_or_else(|| damaged("a last-seen key"))?;
    Ok((time_of(!time), !revision))
}

/// Maps times to integers that sort alike.
fn ordered(time: UnixMillis) -> u64 {
    time.0.cast_unsigned() ^ (1 << 63)
}

fn time_of(ordered: u64) -> UnixMillis {
    UnixMillis((ordered ^ (1 << 63)).cast_signed())
}

/// Where the current version of a key is.
///
/// On disk: varint revision, varint bucket, varint milliseconds from expiry to the bucket's end.
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

/// A version, with what the trees are told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) pointer: Pointer,
    pub(crate) fields: Fields,
    /// Whether the index leads to its end; see [`order`](super::order). Of a version that ends, whether that is to be removed.
    pub(crate) is_early: bool,
}

impl Placed {
    /// All keys that lead to it in its bucket's tree.
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

/// One version of a record.
///
/// On disk: varint milliseconds from expiry to the bucket's end; varint distance to the revision of the version before
/// (0 for none) and, if there is one, varint of its bucket; varint dictionary id plus one, or 0 for a body that is not
/// compressed; varint length of the body before compression; the `Body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) previous: Option<(Revision, u64)>,
    pub(crate) body: Packed<'a>,
}

/// A `Body` as it lies on disk.
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

/// What of a record is compressed: key, index values and value.
///
/// On disk: varint length and bytes of the key, the object's uid, kind, namespace and name; zigzag varint of last-seen;
/// the value up to the end.
pub(crate) fn encode_body(key: &[u8], index: &Index, value: &[u8]) -> Vec<u8> {
    let strings = [
        &index.object_uid,
        &index.object_kind,
        &index.object_namespace,
        &index.object_name,
    ];
    let len: usize = strings.iter().map(|string| string.len()).sum();
    let mut out = Vec::with_capacity(key.len() + len + value.len() + 24);
    put_bytes(&mut out, key);
    for string in strings {
        put_bytes(&mut out, string.as_bytes());
    }
    let time = index.last_seen.0;
    put_varint(&mut out, ((time << 1) ^ (time >> 63)).cast_unsigned());
    out.extend_from_slice(value);
    out
}

/// The key's range in the body, the index values, and where the value starts; see [`encode_body`].
pub(crate) fn decode_body(bytes: &[u8]) -> Result<(std::ops::Range<usize>, Index, usize), Fault> {
    let mut reader = Reader::new(bytes, "a record's body");
    let key_len = reader.bytes()?.len();
    let key_end = bytes.len() - reader.left().len();
    let index = Index {
        object_uid: reader.string()?,
        object_kind: reader.string()?,
        object_namespace: reader.string()?,
        object_name: reader.string()?,
        last_seen: {
            let zigzag = reader.varint()?;
            UnixMillis((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
        },
    };
    Ok((
        key_end - key_len..key_end,
        index,
        bytes.len() - reader.left().len(),
    ))
}

/// The key's range in the body, and where the value starts, without the index values; see [`encode_body`].
pub(crate) fn split_body(bytes: &[u8]) -> Result<(std::ops::Range<usize>, usize), Fault> {
    let mut reader = Reader::new(bytes, "a record's body");
    let key_len = reader.bytes()?.len();
    let key_end = bytes.len() - reader.left().len();
    for _ in 0..4 {
        reader.bytes()?;
    }
    reader.varint()?;
    Ok((
        key_end - key_len..key_end,
        bytes.len() - reader.left().len(),
    ))
}

/// Ends of versions of one bucket: a deletion, or a stretch of expiries, with consecutive revisions.
///
/// On disk: 1 byte (0 deleted, 1 expired); varint bucket; varint count; varint revision of the first ended version, then
/// the varint distance from each to the next (modulo 2^64).
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

/// Up to where the ends of expired records are written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// All of this bucket and those before it.
    pub(crate) floor: u64,
    /// Of buckets behind that, all versions up to a revision: that they expired, or another end.
    pub(crate) marks: Arc<BTreeMap<u64, Revision>>,
}

impl Swept {
    /// Whether the end of a version is written down, as far as this tells.
    pub(crate) fn has(&self, bucket: u64, revision: Revision) -> bool {
        bucket <= self.floor || revision <= self.mark(bucket)
    }

    /// How far a bucket behind the floor is swept.
    pub(crate) fn mark(&self, bucket: u64) -> Revision {
        self.marks.get(&bucket).copied().unwrap_or(0)
    }

    pub(crate) fn set_mark(&mut self, bucket: u64, revision: Revision) {
        Arc::make_mut(&mut self.marks).insert(bucket, revision);
    }

    /// Everything up to this bucket is written down.
    pub(crate) fn raise(&mut self, floor: u64) {
        self.floor = floor;
        let is_below = |bucket: &u64| *bucket <= floor;
        if self.marks.keys().any(is_below) {
            Arc::make_mut(&mut self.marks).retain(|bucket, _| !is_below(bucket));
        }
    }

    /// As formats up to 3 had it: all up to a bucket and a revision in it.
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

    /// The first bucket that is not below the floor, for those who know nothing of marks.
    pub(crate) fn begins_at(&self) -> u64 {
        match self.floor {
            0 => 0,
            floor => floor.saturating_add(1),
        }
    }
}

/// What the store is at; rewritten by every batch.
///
/// On disk: the fields in their order as varints: of what is swept the bucket behind the floor and 0, where formats up to 3
/// had a bucket and how far that was swept. Behind them bucket and mark of each that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The latest revision.
    pub(crate) revision: Revision,
    /// History up to here is forgotten.
    pub(crate) compacted: Revision,
    /// Which ends are written down.
    pub(crate) swept: Swept,
    /// Records whose end is not written down.
    pub(crate) records: u64,
    /// Bytes of their values.
    pub(crate) value_bytes: u64,
}

impl State {
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
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket() -> impl Strategy<Value = u64> {
        prop_oneof![Just(NEVER), 1..=1u64 << 62]
    }

    fn expiring() -> impl Strategy<Value = (u64, Option<UnixMillis>)> {
        (bucket(), any::<u64>()).prop_map(|(bucket, before)| {
            let at = UnixMillis((bucket - before % bucket).cast_signed());
            (bucket, (bucket != NEVER).then_some(at))
        })
    }

    proptest! {
        #[test]
        fn pointer_round_trips(revision: u64, (bucket, expires_at) in expiring()) {
            let pointer = Pointer { revision, bucket, expires_at };
            prop_assert_eq!(Pointer::decode(&pointer.encode())?, pointer);
        }

        #[test]
        fn version_round_trips(
            revision: u64,
            (bucket, expires_at) in expiring(),
            back in proptest::option::of((1..=u64::MAX, bucket())),
            dictionary: Option<u32>,
            len in 0..=1usize << 40,
            bytes: Vec<u8>,
        ) {
            let previous = back.map(|(back, bucket)| (revision.wrapping_sub(back), bucket));
            let version = Version { expires_at, previous, body: Packed { dictionary, len, bytes: &bytes } };
            let bytes = version.encode(revision, bucket);
            prop_assert_eq!(Version::decode(&bytes, revision, bucket)?, version);
        }

        #[test]
        fn body_round_trips(key: Vec<u8>, strings: [String; 4], last_seen: i64, value: Vec<u8>) {
            let [object_uid, object_kind, object_namespace, object_name] = strings;
            let last_seen = UnixMillis(last_seen);
            let index = Index { object_uid, object_kind, object_namespace, object_name, last_seen };
            let body = encode_body(&key, &index, &value);
            let (key_at, read, value_at) = decode_body(&body)?;
            prop_assert_eq!(split_body(&body)?, (key_at.clone(), value_at));
            prop_assert_eq!((&body[key_at], read, &body[value_at..]), (&key[..], index, &value[..]));
        }

        #[test]
        fn ends_round_trip(expired: bool, bucket in bucket(), versions: Vec<u64>) {
            let ends = Ends { expired, bucket, versions };
            prop_assert_eq!(Ends::decode(&ends.encode())?, ends);
        }

        #[test]
        fn state_round_trips(values: [u64; 4], floor in 0..NEVER, marks: BTreeMap<u64, Revision>) {
            let [revision, compacted, records, value_bytes] = values;
            let swept = Swept { floor, marks: Arc::new(marks) };
            let state = State { revision, compacted, swept, records, value_bytes };
            prop_assert_eq!(State::decode(&state.encode())?, state);
        }

        #[test]
        fn keys_tell_their_revision(revision: u64, end: i64, last_seen: i64) {
            let index = Index { object_uid: "u".into(), last_seen: UnixMillis(last_seen), ..Index::default() };
            let keys = Fields::of(&index, b"n/x").keys(revision);
            let early = early_key(UnixMillis(end), revision);
            prop_assert_eq!(read_early_key(&early)?, (UnixMillis(end), revision));
            for key in keys.chain([early, ended_key(revision)]) {
                prop_assert_eq!(revision_of(&key), Some(revision));
            }
        }

        #[test]
        fn seen_keys_sort_newest_first(a: (i64, u64), b: (i64, u64)) {
            let key = |(time, revision): (i64, u64)| IndexKey::seen(None, UnixMillis(time), revision);
            prop_assert_eq!(key(a)[..].cmp(&key(b)[..]), b.cmp(&a));
            prop_assert_eq!(read_seen_key(&key(a))?, (UnixMillis(a.0), a.1));
        }

        #[test]
        fn decoding_anything_never_panics(bytes: Vec<u8>) {
            let _ = Pointer::decode(&bytes);
            let _ = Version::decode(&bytes, 1, 1);
            let _ = decode_body(&bytes);
            let _ = split_body(&bytes);
            let _ = Ends::decode(&bytes);
            let _ = State::decode(&bytes);
            let _ = read_seen_key(&bytes);
            let _ = read_early_key(&bytes);
            let _ = revision_of(&bytes);
        }
    }

    #[test]
    fn formats_up_to_3_had_one_mark() {
        let of = |bucket, revision| Swept::up_to(bucket, revision);
        assert_eq!(of(0, 0), Swept::default());
        assert!(of(7, 5).has(7, 5) && of(7, 5).has(6, 9) && !of(7, 5).has(7, 6));
        assert!(of(7, Revision::MAX).has(7, 9) && !of(7, Revision::MAX).has(8, 1));
    }

    /// The format as bytes: a change here is a change of the format.
    #[test]
    fn bytes_are_these() {
        let mut state = State {
            revision: 300,
            compacted: 2,
            swept: Swept::up_to(9, Revision::MAX),
            records: 4,
            value_bytes: 5,
        };
        assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5]);
        state.swept.set_mark(20, 7);
        assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5, 20, 7]);
        let expires_at = Some(UnixMillis(900));
        assert_eq!(
            Pointer {
                revision: 300,
                bucket: 1000,
                expires_at
            }
            .encode(),
            [0xac, 2, 0xe8, 7, 100]
        );
        let version = Version {
            expires_at,
            previous: Some((298, 2)),
            body: Packed {
                dictionary: Some(0),
                len: 5,
                bytes: b"abc",
            },
        };
        assert_eq!(
            version.encode(300, 1000),
            [100, 2, 2, 1, 5, b'a', b'b', b'c']
        );
        let ends = Ends {
            expired: true,
            bucket: 7,
            versions: vec![4, 5, 9],
        };
        assert_eq!(ends.encode(), [1, 7, 3, 4, 1, 4]);
        let index = Index {
            object_uid: "u".into(),
            ..Index::default()
        };
        let keys: Vec<_> = Fields::of(&index, b"n/x")
            .keys(1)
            .map(|key| key[..9].to_vec())
            .collect();
        let by_uid = ObjectKey::of(&ObjectSelector::Uid("u".into()), b"").unwrap();
        assert_eq!(keys[0], by_uid.prefix()[..]);
        assert_eq!(
            keys[0],
            [b'o', 0x0d, 0xe0, 0xf3, 0xce, 0xf1, 0xe7, 0x69, 0x22]
        );
        assert_eq!(keys[1][..], *b"s\x7f\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(keys[2][..1], *b"g");
        assert_eq!(seen_prefix(b"n/x")[..], keys[2][..4]);
        assert_eq!(seen_prefix(b"n")[..], *b"s");
        assert_eq!(ended_key(5)[..], *b"x\0\0\0\0\0\0\0\x05");
        // By name: everywhere, and in one namespace.
        let index = Index {
            object_name: "web".into(),
            ..Index::default()
        };
        let keys: Vec<_> = Fields::of(&index, b"shop/x").keys(1).collect();
        let named = ObjectSelector::Name {
            name: "web".into(),
            kind: None,
            namespace: None,
        };
        let prefix = |keys: &[u8]| ObjectKey::of(&named, keys).unwrap().prefix();
        assert_eq!(prefix(b"")[..], keys[0][..6]);
        assert_eq!(prefix(b"sho")[..], keys[0][..6]);
        assert_eq!(prefix(b"shop/x")[..], keys[0][..9]);
        assert_ne!(prefix(b"bank/")[..], keys[0][..9]);
    }
}
