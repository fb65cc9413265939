//! One event in a file of the spill: length, checksum, sequence number, and the event as the JSON
//! of a core/v1 Event, which has every field.
//!
//! ```text
//!   length of the body: u32   checksum of the body: u64   body: place: u64, JSON
//! ```
//!
//! Numbers are little-endian. The checksum is XXH3, seeded with the length, so that a file of zeros
//! has no valid record.

use std::io::{self, Write};

use k8s_openapi::api::core::v1;
use tidings_core::Event;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of length and checksum.
const HEAD_BYTES: usize = 12;
const PLACE_BYTES: usize = 8;

/// Bytes of a mark: the sequence number of an event, and a checksum.
pub(super) const MARK_BYTES: usize = 16;

/// The seed of a mark's checksum, which differs from that of a record.
const MARK_SEED: u64 = 0x7469_6469_6e67_7321;

/// Maximum bytes of a record: more than an API server accepts of an event.
pub(super) const RECORD_BYTES_MAX: usize = 4 << 20;

/// The highest sequence number of an event. A record with a higher one was not written by a spill.
/// The limit leaves room for sums.
const PLACE_MAX: u64 = u64::MAX >> 1;

/// A writer to a buffer of bounded length.
struct Bounded<'a> {
    out: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.len().saturating_add(bytes.len()) > self.bytes_max {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends the record of `event` to `out`. Returns false, and appends nothing, if it would take
/// more than `room` bytes or cannot be encoded.
pub(super) fn write(out: &mut Vec<u8>, sequence: u64, event: &Event, room: usize) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.extend_from_slice(&sequence.to_le_bytes());
    let bounded = Bounded {
        bytes_max: start.saturating_add(room.min(RECORD_BYTES_MAX)),
        out,
    };
    let written = sequence <= PLACE_MAX && serde_json::to_writer(bounded, &event.to_wire()).is_ok();
    let body = out.get(start + HEAD_BYTES..).unwrap_or_default();
    let length = u32::try_from(body.len()).ok().filter(|_| written);
    let Some(length) = length else {
        out.truncate(start);
        return false;
    };
    let checksum = xxh3_64_with_seed(body, length.into());
    let head = length
        .to_le_bytes()
        .into_iter()
        .chain(checksum.to_le_bytes());
    for (byte, value) in out.iter_mut().skip(start).zip(head) {
        *byte = value;
    }
    true
}

/// What the beginning of some bytes contains.
pub(super) enum Found {
    /// A record: its event, sequence number and length. The event is `None` if the bytes are intact
    /// but no event.
    Record {
        sequence: u64,
        event: Option<Box<Event>>,
        bytes: usize,
    },
    /// Nothing, or the beginning of a record that needs this number of bytes.
    More(usize),
    /// No record: the bytes are torn, or not written by a spill.
    Torn,
}

/// Reads the record at the beginning of `bytes`. Decodes its event only if it is `wanted`.
pub(super) fn read(bytes: &[u8], wanted: impl Fn(u64) -> bool) -> Found {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return Found::More(HEAD_BYTES);
    };
    let length = u32::from_le_bytes(*length);
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    if !(PLACE_BYTES..=RECORD_BYTES_MAX).contains(&size) {
        return Found::Torn;
    }
    let whole = HEAD_BYTES.saturating_add(size);
    let Some((checksum, rest)) = rest.split_first_chunk() else {
        return Found::More(whole);
    };
    let Some(body) = rest.get(..size) else {
        return Found::More(whole);
    };
    if xxh3_64_with_seed(body, length.into()) != u64::from_le_bytes(*checksum) {
        return Found::Torn;
    }
    let Some((place, json)) = body.split_first_chunk() else {
        return Found::Torn;
    };
    let sequence = u64::from_le_bytes(*place);
    if sequence > PLACE_MAX {
        return Found::Torn;
    }
    let event = if wanted(sequence) {
        let wire: Option<v1::Event> = serde_json::from_slice(json).ok();
        wire.map(|wire| Box::new(Event::from_wire(wire)))
    } else {
        None
    };
    Found::Record {
        sequence,
        event,
        bytes: whole,
    }
}

/// The position and sequence number of the first intact record at or after `from`. Used to continue
/// behind a damaged one.
pub(super) fn find(bytes: &[u8], from: usize) -> Option<(usize, u64)> {
    // Without this check, a checksum would be computed at each byte of a damaged file, perhaps over
    // all the rest of it.
    let has_json = |at: &usize| {
        bytes
            .get(at + HEAD_BYTES + PLACE_BYTES..)?
            .strip_prefix(b"{\"")
    };
    let mut places = (from..bytes.len()).filter(|at| has_json(at).is_some());
    places.find_map(|at| match read(bytes.get(at..)?, |_| false) {
        Found::Record { sequence, .. } => Some((at, sequence)),
        Found::More(_) | Found::Torn => None,
    })
}

/// The mark that the event with this sequence number is done.
pub(super) fn mark(sequence: u64) -> [u8; MARK_BYTES] {
    let place = sequence.to_le_bytes();
    let checksum = xxh3_64_with_seed(&place, MARK_SEED).to_le_bytes();
    let mut mark = [0; MARK_BYTES];
    for (byte, value) in mark.iter_mut().zip(place.into_iter().chain(checksum)) {
        *byte = value;
    }
    mark
}

/// The sequence numbers that `bytes` mark as done. Invalid marks are skipped.
pub(super) fn marks(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (marks, _torn) = bytes.as_chunks::<MARK_BYTES>();
    marks.iter().filter_map(|bytes| {
        let (place, _) = bytes.split_first_chunk()?;
        let sequence = u64::from_le_bytes(*place);
        (mark(sequence) == *bytes).then_some(sequence)
    })
}
