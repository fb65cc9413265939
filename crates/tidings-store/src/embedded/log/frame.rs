//! The bytes of the log: frames of entries.
//!
//! ```text
//! frame   00 01 │ length u32 │ checksum u64 │ number, first revision, count, parts │ state │ entry …
//! entry   length │ checksum u32 │ kind u8 │ revision │ content
//! ```
//!
//! A frame is the part of one commit in one segment. Its number is the commit's, `parts` the number
//! of the commit's segments, `count` the number of its revisions from the first on. The frame's
//! checksum covers everything after it; each entry also has its own, so that it can be read alone.
//! Both are XXH3 with the bucket as seed, so a segment under a wrong name is damage. Fixed-width
//! integers are little-endian, all others LEB128. No entry begins with a zero byte, which tells a
//! frame from an entry.
//!
//! Invariant: bytes whose checksum does not match are not used.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::embedded::codec::varint::{Reader, put_varint, varint_len};
use crate::embedded::codec::version::Ends;
use crate::embedded::codec::{COUNTED_MAX, State};
use crate::{Fault, Revision};

/// The beginning of a frame. The second byte is the version of its form.
const MAGIC: [u8; 2] = [0, 1];

/// Length of magic, length and checksum, in bytes.
const PREFIX_LEN: usize = 14;

/// Maximum length of a frame in bytes. A longer one is neither written nor read. A commit takes one
/// request of up to [`COMMIT_LEN_MAX`](crate::COMMIT_LEN_MAX) from the queue, and a few MiB of
/// others.
pub(super) const FRAME_LEN_MAX: usize = 64 << 20;

/// Minimum bytes between two of [`Built::points`]. It is less than between two points of a segment,
/// so that those keep their distance across frames.
const POINT_DISTANCE: usize = 512;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Kind {
    /// A version of a record, whose revision is the entry's.
    Version = 1,
    /// Ends of versions. Their revisions are consecutive from the entry's on.
    Ends = 2,
    /// A version of this bucket was replaced by one in a bucket that is dropped earlier. The new
    /// version has the entry's revision. The content is the varint revision of the replaced
    /// version.
    Replaced = 3,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Version),
            2 => Some(Self::Ends),
            3 => Some(Self::Replaced),
            _ => None,
        }
    }
}

/// An entry read from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Entry<'a> {
    pub(in crate::embedded) kind: Kind,
    pub(in crate::embedded) revision: Revision,
    pub(in crate::embedded) content: &'a [u8],
}

impl Entry<'_> {
    /// Decodes the ends in an entry of kind `Ends`.
    pub(in crate::embedded) fn ends(&self) -> Result<Ends, Fault> {
        Ends::decode(self.content)
    }

    /// The revision of the replaced version, in an entry of kind `Replaced`.
    pub(in crate::embedded) fn replaced(&self) -> Result<Revision, Fault> {
        Reader::new(self.content, "a log entry").varint()
    }
}

/// The header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Header {
    /// The commit's number, one greater than that of the previous commit.
    pub(in crate::embedded) number: u64,
    /// The first revision of the commit, if it has any.
    pub(in crate::embedded) first: Revision,
    /// Number of revisions of the commit.
    pub(in crate::embedded) count: u64,
    /// Number of frames of the commit.
    pub(in crate::embedded) parts: u64,
    /// The store's state after the commit.
    pub(in crate::embedded) state: State,
}

/// A frame in progress.
#[derive(Default)]
pub(in crate::embedded) struct Frame {
    entries: Vec<u8>,
    /// Revisions and offsets of entries that are far enough from the previous point.
    points: Vec<(Revision, usize)>,
    last: Revision,
}

/// A complete frame.
pub(in crate::embedded) struct Built {
    pub(in crate::embedded) bytes: Vec<u8>,
    /// Revisions and offsets of some of the entries.
    pub(super) points: Vec<(Revision, usize)>,
    /// The revision of the last entry; 0 if there is none.
    pub(in crate::embedded) last: Revision,
}

impl Frame {
    /// Adds an entry. Revisions must not decrease.
    pub(in crate::embedded) fn push(
        &mut self,
        bucket: u64,
        kind: Kind,
        revision: Revision,
        content: &[u8],
    ) {
        let start = self.entries.len();
        if self
            .points
            .last()
            .is_none_or(|(_, at)| start - at >= POINT_DISTANCE)
        {
            self.points.push((revision, start));
        }
        self.last = self.last.max(revision);
        let head_len = 1 + varint_len(revision);
        put_varint(&mut self.entries, (head_len + content.len()) as u64);
        let checksum_at = self.entries.len();
        self.entries.extend_from_slice(&[0; 4]);
        self.entries.push(kind as u8);
        put_varint(&mut self.entries, revision);
        self.entries.extend_from_slice(content);
        let (before, body) = self.entries.split_at_mut(checksum_at + 4);
        if let Some(checksum) = before.last_chunk_mut::<4>() {
            *checksum = entry_checksum(body, bucket);
        }
    }

    /// Bytes of the entries added so far.
    pub(in crate::embedded) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(in crate::embedded) fn build(self, bucket: u64, header: &Header) -> Built {
        let mut bytes = Vec::with_capacity(PREFIX_LEN + 64 + self.entries.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; PREFIX_LEN - MAGIC.len()]);
        for value in [header.number, header.first, header.count, header.parts] {
            put_varint(&mut bytes, value);
        }
        let state = header.state.encode();
        put_varint(&mut bytes, state.len() as u64);
        bytes.extend_from_slice(&state);
        let head_len = bytes.len();
        bytes.extend_from_slice(&self.entries);
        let len = (bytes.len() as u32).to_le_bytes();
        let checksum = frame_checksum(len, bytes.get(PREFIX_LEN..).unwrap_or_default(), bucket);
        for (to, from) in bytes
            .iter_mut()
            .skip(MAGIC.len())
            .zip(len.into_iter().chain(checksum))
        {
            *to = from;
        }
        let points = self
            .points
            .into_iter()
            .map(|(revision, at)| (revision, at + head_len));
        Built {
            bytes,
            points: points.collect(),
            last: self.last,
        }
    }
}

fn entry_checksum(body: &[u8], bucket: u64) -> [u8; 4] {
    (xxh3_64_with_seed(body, bucket) as u32).to_le_bytes()
}

/// The checksum of a frame. The length is mixed into the seed, because it precedes the summed
/// bytes.
fn frame_checksum(len: [u8; 4], body: &[u8], bucket: u64) -> [u8; 8] {
    let seed = bucket ^ (u64::from(u32::from_le_bytes(len)) << 32);
    xxh3_64_with_seed(body, seed).to_le_bytes()
}

/// Whether the bytes begin with a frame rather than an entry.
pub(super) fn is_frame(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0)
}

/// The length of the frame that seems to begin here; `None` if none does.
pub(super) fn frame_len(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    (PREFIX_LEN..=FRAME_LEN_MAX).contains(&len).then_some(len)
}

/// Reads the complete, undamaged frame at the beginning of the bytes. Returns its header, the
/// offset of its entries, and its length.
pub(in crate::embedded) fn read_frame(bytes: &[u8], bucket: u64) -> Option<(Header, usize, usize)> {
    let len = frame_len(bytes)?;
    let frame = bytes.get(..len)?;
    let (prefix, body) = frame.split_at_checked(PREFIX_LEN)?;
    let checksum = frame_checksum((len as u32).to_le_bytes(), body, bucket);
    if prefix.last_chunk() != Some(&checksum) {
        return None;
    }
    let (header, head_len) = read_header(body)?;
    Some((header, PREFIX_LEN + head_len, len))
}

/// The offset of the entries in the frame that begins here. The frame is not checked, because
/// entries have their own checksums.
pub(in crate::embedded) fn entries_at(bytes: &[u8]) -> Option<usize> {
    frame_len(bytes)?;
    read_header(bytes.get(PREFIX_LEN..)?).map(|(_, len)| PREFIX_LEN + len)
}

/// Reads number and last revision of the frame that begins here, without checking it. They help to
/// judge a damaged frame.
pub(in crate::embedded) fn peek_frame(bytes: &[u8]) -> Option<(u64, Revision)> {
    let body = bytes.get(PREFIX_LEN..)?;
    let mut reader = Reader::new(body, "a frame");
    let mut next = || reader.varint().ok();
    let (number, first, count) = (next()?, next()?, next()?);
    let len = varint_len(number) + varint_len(first) + varint_len(count);
    // Numbers begin at one. If the end of a number was not written, it is longer than necessary.
    let is_written = number > 0 && len == body.len() - reader.left().len();
    let last = first.checked_add(count)?.saturating_sub(1);
    is_written.then_some((number, last))
}

fn read_header(body: &[u8]) -> Option<(Header, usize)> {
    let mut reader = Reader::new(body, "a frame");
    let mut next = || reader.varint().ok();
    let (number, first, count, parts) = (next()?, next()?, next()?, next()?);
    let state = State::decode(reader.bytes().ok()?).ok()?;
    let header = Header {
        number,
        first,
        count,
        parts,
        state,
    };
    if number > COUNTED_MAX {
        return None;
    }
    Some((header, body.len() - reader.left().len()))
}

/// Reads the entry at the beginning of the bytes and its length, if it is complete and undamaged.
pub(in crate::embedded) fn read_entry(bytes: &[u8], bucket: u64) -> Option<(Entry<'_>, usize)> {
    let (len, rest) = entry_len(bytes)?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (body, after) = rest.split_at_checked(len)?;
    if entry_checksum(body, bucket) != *checksum {
        return None;
    }
    let (kind, rest) = body.split_first()?;
    let mut reader = Reader::new(rest, "a log entry");
    let revision = reader.varint().ok()?;
    let content = reader.left();
    let entry = Entry {
        kind: Kind::of(*kind)?,
        revision,
        content,
    };
    Some((entry, bytes.len() - after.len()))
}

/// Reads kind, revision and complete length of an entry without checking it, to skip it.
pub(in crate::embedded) fn peek_entry(bytes: &[u8]) -> Option<(u8, Revision, usize)> {
    let (len, rest) = entry_len(bytes)?;
    let (kind, body) = rest.get(4..)?.split_first()?;
    let revision = Reader::new(body, "a log entry").varint().ok()?;
    Some((*kind, revision, bytes.len() - rest.len() + 4 + len))
}

fn entry_len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut reader = Reader::new(bytes, "a log entry");
    let len = usize::try_from(reader.varint().ok()?).ok()?;
    (1..=FRAME_LEN_MAX)
        .contains(&len)
        .then_some((len, reader.left()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::codec::Swept;
    use proptest::prelude::*;

    fn header() -> impl Strategy<Value = Header> {
        prop::array::uniform9(0..=COUNTED_MAX).prop_map(|numbers| {
            let [
                number,
                first,
                count,
                parts,
                compacted,
                bucket,
                swept,
                records,
                value_bytes,
            ] = numbers;
            let state = State {
                revision: first,
                compacted,
                swept: Swept::up_to(bucket, swept),
                records,
                value_bytes,
            };
            Header {
                number,
                first,
                count,
                parts,
                state,
            }
        })
    }

    type Content = Vec<(u8, Revision, Vec<u8>)>;

    fn content() -> impl Strategy<Value = Content> {
        let entry = (
            1..=3u8,
            any::<Revision>(),
            proptest::collection::vec(any::<u8>(), 0..3000),
        );
        proptest::collection::vec(entry, 0..6)
    }

    fn build(bucket: u64, header: &Header, content: &Content) -> Built {
        let mut frame = Frame::default();
        for (kind, revision, bytes) in content {
            frame.push(bucket, Kind::of(*kind).unwrap(), *revision, bytes);
        }
        frame.build(bucket, header)
    }

    proptest! {
        #[test]
        fn frames_round_trip(bucket: u64, header in header(), content in content(), behind: Vec<u8>) {
            let built = build(bucket, &header, &content);
            let mut bytes = built.bytes.clone();
            bytes.extend(behind);
            let (read, mut at, len) = read_frame(&bytes, bucket).unwrap();
            prop_assert_eq!((read, len), (header, built.bytes.len()));
            prop_assert_eq!(entries_at(&bytes), Some(at));
            let mut entries = Vec::new();
            let mut starts = Vec::new();
            while at < len {
                prop_assert!(!is_frame(&bytes[at..]));
                starts.push(at);
                let (entry, entry_len) = read_entry(&bytes[at..], bucket).unwrap();
                prop_assert_eq!(peek_entry(&bytes[at..]), Some((entry.kind as u8, entry.revision, entry_len)));
                entries.push((entry.kind as u8, entry.revision, entry.content.to_vec()));
                at += entry_len;
            }
            prop_assert_eq!(entries, content);
            prop_assert!(built.points.iter().all(|(_, at)| starts.contains(at)));
        }

        #[test]
        fn a_changed_byte_is_noticed(
            bucket: u64, header in header(), content in content(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = build(bucket, &header, &content).bytes;
            let at = at.index(bytes.len());
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            prop_assert_eq!(read_frame(&bytes, bucket), None);
        }

        #[test]
        fn another_buckets_frame_is_none(bucket: u64, other: u64, header in header(), content in content()) {
            prop_assume!(bucket != other);
            prop_assert_eq!(read_frame(&build(bucket, &header, &content).bytes, other), None);
        }

        #[test]
        fn reading_anything_never_panics(bytes: Vec<u8>) {
            let _ = read_frame(&bytes, 0);
            let _ = entries_at(&bytes);
            let _ = read_entry(&bytes, 0);
            let _ = peek_entry(&bytes);
        }
    }

    /// These bytes are the format: a change here is a change of the format.
    #[test]
    fn bytes_are_these() {
        let header = Header {
            number: 5,
            first: 300,
            count: 1,
            parts: 1,
            state: State {
                revision: 300,
                ..State::default()
            },
        };
        let mut frame = Frame::default();
        frame.push(9, Kind::Version, 300, b"abc");
        let bytes = frame.build(9, &header).bytes;
        assert_eq!(bytes[..6], [0, 1, 38, 0, 0, 0]);
        assert_eq!(bytes[14..27], [5, 0xac, 2, 1, 1, 7, 0xac, 2, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[27], 6);
        assert_eq!(bytes[32..], [1, 0xac, 2, b'a', b'b', b'c']);
    }
}
