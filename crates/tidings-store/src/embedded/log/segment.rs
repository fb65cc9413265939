//! One file of the log: frames of one bucket, appended, synced, and read by revision.
//!
//! Invariants: entries are in the order of their revisions. Readers see the bytes up to `len`, all
//! of which are synced. The one writer appends after it, and advances it when the sync has
//! succeeded. Memory holds only one point for about four kilobytes of entries; a read takes the
//! bytes between two points and scans them. The file is open while it may grow, and otherwise as
//! described in [`handles`](super::handles).
//!
//! A segment that grows often has zeros after its frames, as room for the next ones. Most file
//! systems write a file's new length to their journal, which takes longer than the frame. The zeros
//! are removed before the next segment begins, so a segment that is not its bucket's last ends with
//! its last frame.
//!
//! Each checkpoint writes the points next to the file (`.idx`), so that opening need not read the
//! frames before them. If that file is missing or damaged, the segment is read from the beginning.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use super::frame::{self, Built, Entry, Header, Kind};
use super::handles::{Handle, Handles};
use crate::embedded::codec::varint::{Reader, put_varint};
use crate::embedded::files::disk;
use crate::{Fault, Revision};

/// Minimum bytes between two points. A read takes that many bytes, which are one or two pages of
/// the disk or the page cache anyway. A point takes eight bytes of memory; those of 100 million
/// records take about 50 MB.
const APART: u64 = 4096;

/// Bytes that a scan of the file reads at a time.
const CHUNK: u64 = 64 << 10;

/// Bytes of zeros written at a time, as room for frames of up to an eighth of that. Extending the
/// file costs more than such a frame.
const ROOM: u64 = 128 << 10;
const SMALL_FRAME: u64 = ROOM / 8;

/// The value of `loose` in a segment that was never scanned completely.
const NOT_LOOKED_AT: u64 = u64::MAX;

/// Bytes of one write of zeros. Linux caches each write as one unit. A change in a large unit may
/// write all of it again with each frame.
const PIECE: u64 = 4096;

/// A buffer for reading versions one after the other. Versions that are close together are read at
/// once.
#[derive(Default)]
pub(in crate::embedded) struct Scratch {
    /// The bytes read. The buffer grows as needed and never shrinks.
    bytes: Vec<u8>,
    /// Where the buffer's bytes are from: segment, offset and length.
    holds: Option<(Arc<Segment>, u64, usize)>,
    /// Bytes that may still be read, if only the page cache may be read.
    cached: Option<usize>,
}

/// Maximum bytes read from the page cache in one call, in a fraction of a millisecond. It is more
/// than the versions that are read at once take.
const CACHED_MAX: usize = 512 << 10;

impl Scratch {
    /// A buffer that reads only from the page cache, without waiting for a disk. It reads a bounded
    /// number of bytes. Anything else fails with `WouldBlock`.
    pub(in crate::embedded) fn of_cached() -> Self {
        Self {
            cached: Some(CACHED_MAX),
            ..Self::default()
        }
    }

    /// Whether the buffer reads only from the page cache.
    pub(in crate::embedded) fn is_of_cached(&self) -> bool {
        self.cached.is_some()
    }
}

/// A segment; see the module documentation.
pub(in crate::embedded) struct Segment {
    pub(in crate::embedded) bucket: u64,
    /// A lower bound of the segment's revisions.
    pub(in crate::embedded) first: Revision,
    pub(in crate::embedded) path: PathBuf,
    file: Handle,
    known: RwLock<Known>,
    /// Upper bound of the end of the zeros after the frames.
    reach: AtomicU64,
    /// End of the frames in the `.idx` file; 0 if no such file can be used.
    noted: AtomicU64,
    /// Whether the segment must not grow any more.
    retired: AtomicBool,
    /// Number of ends in this segment that may no longer be needed. It counts versions whose ends
    /// may be here and which were removed from the log since this segment was last scanned
    /// completely; see [`Pass`](crate::embedded::maintenance::Pass).
    loose: AtomicU64,
}

/// The reason why a frame could not be appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// The write failed.
    Write(io::Error),
    /// The sync failed: the state of the disk is unknown.
    Sync(io::Error),
}

/// What is known about a segment's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Points of some entries: the distance from the first revision, and the offset.
    points: Vec<(u32, u32)>,
    /// The end of the synced frames.
    len: u64,
    /// The revision of the last entry.
    last: Revision,
    /// The number of the last frame.
    number: u64,
}

impl Known {
    fn add(&mut self, first: Revision, built: &Built, number: u64) {
        for (revision, at) in &built.points {
            let at = self.len + *at as u64;
            let distance = u32::try_from(revision.saturating_sub(first));
            if let (Ok(distance), Ok(at)) = (distance, u32::try_from(at)) {
                self.add_point((distance, at));
            }
        }
        self.len += built.bytes.len() as u64;
        self.last = self.last.max(built.last);
        self.number = number;
    }

    /// Adds a point if it is far enough from the previous one.
    fn add_point(&mut self, point: (u32, u32)) {
        let far = |(_, last): &(u32, u32)| u64::from(point.1.saturating_sub(*last)) >= APART;
        if self.points.last().is_none_or(far) {
            self.points.push(point);
        }
    }
}

/// The end of a segment at some moment.
#[derive(Clone, Copy, Debug)]
pub(in crate::embedded) struct Extent {
    points: usize,
    len: u64,
    last: Revision,
    number: u64,
}

/// The bytes after the last complete frame of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Whether a crash cannot be the cause. The bytes contain a complete frame, or the file became
    /// shorter.
    pub(super) is_damage: bool,
    /// The commit number and the last revision that the bytes state, if they can be read.
    pub(super) claims: Option<(u64, Revision)>,
}

/// A frame found while opening.
#[derive(Clone, Debug)]
pub(super) struct FoundFrame {
    pub(super) header: Header,
    pub(super) offset: u64,
    /// The revision of the last entry before the frame, and the previous frame's number.
    before: (Revision, u64),
}

impl Segment {
    /// Creates an empty segment. Its content is durable only after the folder is synced. An
    /// existing file of that name is from a failed commit, and is truncated.
    pub(in crate::embedded) fn create(
        path: PathBuf,
        bucket: u64,
        first: Revision,
        handles: &Arc<Handles>,
    ) -> io::Result<Self> {
        let file = Handle::new(disk::create(&path)?, handles);
        Ok(Self::of(path, bucket, first, file, Known::default(), 0))
    }

    fn of(
        path: PathBuf,
        bucket: u64,
        first: Revision,
        file: Handle,
        known: Known,
        reach: u64,
    ) -> Self {
        Self {
            bucket,
            first,
            path,
            file,
            known: RwLock::new(known),
            reach: AtomicU64::new(reach),
            noted: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            loose: AtomicU64::new(NOT_LOOKED_AT),
        }
    }

    /// Number of ends in the segment that may not be needed; `None` if it was never scanned.
    pub(in crate::embedded) fn loose(&self) -> Option<u64> {
        let loose = self.loose.load(Ordering::Relaxed);
        (loose != NOT_LOOKED_AT).then_some(loose)
    }

    /// Counts one more end that may not be needed.
    pub(in crate::embedded) fn add_loose(&self) {
        let add = |loose| (loose != NOT_LOOKED_AT).then(|| loose + 1);
        let _ = self
            .loose
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Records that the segment was scanned completely.
    pub(in crate::embedded) fn looked_at(&self) {
        self.loose.store(0, Ordering::Relaxed);
    }

    /// About the offset at which entries from this revision on begin.
    pub(in crate::embedded) fn offset(&self, revision: Revision) -> u64 {
        let known = self.known.read();
        if known.last < revision {
            return known.len;
        }
        let next = known
            .points
            .partition_point(|(distance, _)| self.first + u64::from(*distance) < revision);
        let before = next.checked_sub(1).and_then(|at| known.points.get(at));
        before.map_or(0, |(_, at)| u64::from(*at))
    }

    /// Opens an existing segment. Also returns its frames after the `.idx` file with a number above
    /// `checkpoint`, or without a checkpoint the last two; and the segment's end if that is not a
    /// complete frame.
    pub(super) fn open(
        path: PathBuf,
        bucket: u64,
        first: Revision,
        checkpoint: Option<u64>,
        from_start: bool,
        handles: &Arc<Handles>,
    ) -> io::Result<(Self, Vec<FoundFrame>, Option<Tail>)> {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let handle = Handle::new(file, handles);
        let file = handle.get(&path)?;
        let file_len = file.metadata()?.len();
        let mut known = Known::default();
        // Earlier versions wrote this file some time after the checkpoint, but frames after the
        // checkpoint must be read.
        if !from_start
            && let Some(read) = read_known(&idx_path(&path))
            && checkpoint.is_none_or(|checkpoint| read.number <= checkpoint)
        {
            known = read;
        }
        let noted = known.len;
        if known.len > file_len {
            known.len = file_len;
            let segment = Self::of(path, bucket, first, handle, known, file_len);
            let tail = Tail {
                is_damage: true,
                claims: None,
            };
            return Ok((segment, Vec::new(), Some(tail)));
        }
        let mut window = Window {
            file: Arc::clone(&file),
            end: file_len,
            start: known.len,
            bytes: Vec::new(),
        };
        let mut frames = Vec::new();
        let tail = loop {
            let len = window
                .at(known.len, 14)?
                .get(..14)
                .and_then(frame::frame_len);
            let bytes = window.at(known.len, len.unwrap_or(0))?;
            let Some((header, entries_at, len)) = frame::read_frame(bytes, bucket) else {
                break (known.len < file_len).then_some(());
            };
            let (before, number) = ((known.last, known.number), header.number);
            // Without a checkpoint two frames are enough: if the last belongs to an incomplete
            // commit, the one before is the last complete one.
            if checkpoint.is_none() && frames.len() == 2 {
                frames.remove(0);
            }
            frames.push(FoundFrame {
                header,
                offset: known.len,
                before,
            });
            if checkpoint.is_some_and(|checkpoint| number <= checkpoint) {
                frames.clear();
            }
            let built = index_frame(bytes.get(..len).unwrap_or_default(), entries_at);
            known.add(first, &built, number);
        };
        let tail = match tail {
            None => None,
            Some(()) => Some(Tail {
                is_damage: has_frames(&file, known.len + 1, file_len, bucket)?,
                claims: frame::peek_frame(window.at(known.len, 64)?),
            }),
        };
        let segment = Self::of(path, bucket, first, handle, known, file_len);
        segment.noted.store(noted, Ordering::Relaxed);
        Ok((segment, frames, tail))
    }

    fn file(&self) -> io::Result<Arc<File>> {
        self.file.get(&self.path)
    }

    /// Keeps the file open from now on, because its name will be removed or reused.
    pub(in crate::embedded) fn keep_open(&self) -> io::Result<()> {
        self.file.keep(&self.path)
    }

    /// Releases spare memory and lets the file be closed: the segment does not grow any more.
    pub(in crate::embedded) fn rest(&self) {
        let mut known = self.known.write();
        known.points.shrink_to_fit();
        drop(known);
        self.file.release();
    }

    /// The end of the synced frames.
    pub(in crate::embedded) fn len(&self) -> u64 {
        self.known.read().len
    }

    /// Bytes of the file: frames and room.
    pub(in crate::embedded) fn file_len(&self) -> u64 {
        self.len().max(self.reach.load(Ordering::Relaxed))
    }

    /// The revision of the last entry; 0 if there is none.
    pub(in crate::embedded) fn last(&self) -> Revision {
        self.known.read().last
    }

    /// The number of the last frame; 0 if there is none.
    pub(in crate::embedded) fn number(&self) -> u64 {
        self.known.read().number
    }

    /// Appends a frame and syncs it. Readers do not see it before [`publish`](Self::publish). After
    /// a small frame, zeros may be written as room, up to `room_until`.
    pub(super) fn append(&self, built: &Built, room_until: u64) -> Result<(), AppendError> {
        let (start, len) = (self.len(), built.bytes.len() as u64);
        let file = self.file().map_err(AppendError::Write)?;
        disk::write_at(&self.path, &file, &built.bytes, start).map_err(AppendError::Write)?;
        if len <= SMALL_FRAME {
            self.make_room(&file, start + len, room_until);
        }
        disk::sync(&self.path, &file).map_err(AppendError::Sync)
    }

    /// Writes zeros after an offset. Nothing depends on them, so errors are ignored.
    fn make_room(&self, file: &File, from: u64, until: u64) {
        let until = until.min(from + ROOM);
        if from < self.reach.load(Ordering::Relaxed) {
            return;
        }
        let zeros = [0; PIECE as usize];
        let mut at = from;
        while at < until {
            let len = (PIECE - at % PIECE).min(until - at);
            self.reach.store(at + len, Ordering::Relaxed);
            let piece = zeros.get(..len as usize).unwrap_or_default();
            if let Err(error) = disk::write_at(&self.path, file, piece, at) {
                tracing::debug!(file = %self.path.display(), %error, "no room on the disk to extend the file");
                return;
            }
            at += len;
        }
    }

    /// Removes the zeros after the last frame durably, if there are any.
    pub(in crate::embedded) fn give_room_back(&self) -> io::Result<()> {
        if self.file_len() > self.len() {
            self.roll_back()?;
        }
        Ok(())
    }

    /// Writes bytes of a segment that no other thread knows yet.
    pub(in crate::embedded) fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        disk::write_at(&self.path, &*self.file()?, bytes, at)
    }

    /// Renames the segment over another one, whose `.idx` is removed already; see [`disk::rename`].
    pub(super) fn take_place_of(&mut self, old: &Self) -> io::Result<()> {
        disk::rename(&self.path, &old.path)?;
        self.path.clone_from(&old.path);
        Ok(())
    }

    /// Whether the segment must not grow any more.
    pub(in crate::embedded) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Forbids further frames.
    pub(in crate::embedded) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Makes the appended frame visible to readers.
    pub(in crate::embedded) fn publish(&self, built: &Built, number: u64) {
        let mut known = self.known.write();
        known.add(self.first, built, number);
    }

    /// Removes all bytes after the last published frame.
    pub(in crate::embedded) fn roll_back(&self) -> io::Result<()> {
        let len = self.len();
        disk::cut(&self.path, &*self.file()?, len)?;
        self.reach.store(len, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the segment's current content durable.
    pub(in crate::embedded) fn sync(&self) -> io::Result<()> {
        disk::sync_all(&self.path, &*self.file()?)
    }

    /// Removes a frame that was found while opening, and everything after it.
    pub(super) fn cut(&self, frame: &FoundFrame) {
        let mut known = self.known.write();
        known.points.retain(|(_, at)| u64::from(*at) < frame.offset);
        known.len = frame.offset;
        (known.last, known.number) = frame.before;
    }

    /// Reads the bytes after the last frame.
    pub(super) fn tail(&self) -> io::Result<Vec<u8>> {
        let (len, file) = (self.len(), self.file()?);
        let mut bytes =
            vec![0; usize::try_from(file.metadata()?.len().saturating_sub(len)).unwrap_or(0)];
        file.read_exact_at(&mut bytes, len)?;
        Ok(bytes)
    }

    /// The segment's end, if the `.idx` file ends earlier.
    pub(super) fn extent(&self) -> Option<Extent> {
        let known = self.known.read();
        (known.len > self.noted.load(Ordering::Relaxed)).then(|| Extent {
            points: known.points.len(),
            len: known.len,
            last: known.last,
            number: known.number,
        })
    }

    /// Writes the `.idx` file as of a moment. It has a checksum and may be lost, so it is not
    /// synced.
    pub(in crate::embedded) fn write_idx(&self, extent: Extent) -> io::Result<()> {
        let Extent {
            points,
            len,
            last,
            number,
        } = extent;
        let points = self.known.read().points.get(..points).map(<[_]>::to_vec);
        let points = points.unwrap_or_default();
        let mut bytes = Vec::with_capacity(40 + points.len() * 5);
        for value in [len, last, number, points.len() as u64] {
            put_varint(&mut bytes, value);
        }
        let mut last = (0, 0);
        for (distance, at) in points {
            put_varint(&mut bytes, u64::from(distance - last.0));
            put_varint(&mut bytes, u64::from(at - last.1));
            last = (distance, at);
        }
        let checksum = xxh3_64(&bytes).to_le_bytes();
        bytes.extend_from_slice(&checksum);
        disk::write(&idx_path(&self.path), &bytes)?;
        self.noted.store(len, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the `.idx` file.
    pub(super) fn remove_idx(&self) -> io::Result<()> {
        disk::remove(&idx_path(&self.path))
    }

    /// Removes the segment's files, if they exist. Open readers continue.
    pub(in crate::embedded) fn remove(&self) -> io::Result<()> {
        self.remove_idx()?;
        disk::remove(&self.path)
    }

    /// Starts to read the frames from the first on.
    pub(in crate::embedded) fn frames(&self) -> io::Result<Frames<'_>> {
        let window = Window {
            file: self.file()?,
            end: self.len(),
            start: 0,
            bytes: Vec::new(),
        };
        Ok(Frames {
            segment: self,
            window,
            at: 0,
        })
    }

    /// The offsets of the points around the version with a revision, if this segment may have it.
    fn around(&self, revision: Revision) -> Option<(u64, u64)> {
        let known = self.known.read();
        let next = known
            .points
            .partition_point(|(distance, _)| self.first + u64::from(*distance) <= revision);
        let (_, start) = next.checked_sub(1).and_then(|at| known.points.get(at))?;
        let end = known.points.get(next);
        let end = end.map_or(known.len, |(_, at)| u64::from(*at));
        Some((u64::from(*start), end))
    }

    /// Asks the system to read ahead the bytes of a version. Nothing depends on it.
    pub(in crate::embedded) fn will_need(&self, revision: Revision) {
        #[cfg(target_os = "linux")]
        if let Some((start, end)) = self.around(revision)
            && let Ok(file) = self.file()
        {
            let len = std::num::NonZeroU64::new(end.saturating_sub(start));
            // After an error the bytes are read when they are needed.
            let _ = rustix::fs::fadvise(&file, start, len, rustix::fs::Advice::WillNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = revision;
    }

    /// Reads the content of the version with a revision; `None` if the segment does not have it.
    pub(in crate::embedded) fn version<'a>(
        self: &Arc<Self>,
        revision: Revision,
        scratch: &'a mut Scratch,
    ) -> Result<Option<&'a [u8]>, Fault> {
        let Some((start, end)) = self.around(revision) else {
            return Ok(None);
        };
        let bytes = self.read_into(start, end, scratch)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            if frame::is_frame(rest) {
                let len = frame::entries_at(rest).ok_or_else(|| self.damaged(start))?;
                rest = rest.get(len..).unwrap_or_default();
                continue;
            }
            let (kind, found, len) = frame::peek_entry(rest).ok_or_else(|| self.damaged(start))?;
            if found == revision && kind == Kind::Version as u8 {
                let (entry, _) =
                    frame::read_entry(rest, self.bucket).ok_or_else(|| self.damaged(start))?;
                return Ok(Some(entry.content));
            }
            rest = rest.get(len..).ok_or_else(|| self.damaged(start))?;
        }
        // A caller may forget a missing version, so only undamaged bytes may say that it is
        // missing.
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = if frame::is_frame(rest) {
                frame::entries_at(rest)
            } else {
                frame::read_entry(rest, self.bucket).map(|(_, len)| len)
            };
            let len = len.ok_or_else(|| self.damaged(start))?;
            rest = rest.get(len..).ok_or_else(|| self.damaged(start))?;
        }
        Ok(None)
    }

    fn read(&self, start: u64, end: u64) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        let read = self.file();
        let read = read.and_then(|file| file.read_exact_at(&mut bytes, start));
        read.map_err(|error| self.unreadable(error, start))?;
        Ok(bytes)
    }

    fn read_into<'a>(
        self: &Arc<Self>,
        start: u64,
        end: u64,
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], Fault> {
        let len = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
        let Scratch {
            bytes,
            holds,
            cached,
        } = scratch;
        let is_held = matches!(holds, Some((of, from, held)) if Arc::ptr_eq(of, self) && (*from, *held) == (start, len));
        if !is_held {
            *holds = None;
            if bytes.len() < len {
                bytes.resize(len, 0);
            }
            let bytes = bytes.get_mut(..len).unwrap_or_default();
            let read = self.file().and_then(|file| match cached {
                None => file.read_exact_at(bytes, start),
                Some(left) if *left < len => Err(io::ErrorKind::WouldBlock.into()),
                Some(left) => {
                    *left -= len;
                    read_cached(&file, bytes, start)
                }
            });
            read.map_err(|error| self.unreadable(error, start))?;
            *holds = Some((Arc::clone(self), start, len));
        }
        Ok(bytes.get(..len).unwrap_or_default())
    }

    fn unreadable(&self, error: io::Error, start: u64) -> Fault {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged(start),
            _ => Fault::Storage(Arc::new(error)),
        }
    }

    fn damaged(&self, near: u64) -> Fault {
        Fault::Corrupt(format!("{} near byte {near}", self.path.display()))
    }

    /// Reads the next bytes of whole entries from a position on; see [`Walk`].
    fn chunk(&self, from: Position) -> Result<Option<(u64, Vec<u8>, u64)>, Fault> {
        let (start, end) = {
            let known = self.known.read();
            let start = match from {
                Position::Offset(offset) => offset,
                Position::Revision(revision) => {
                    let next = known.points.partition_point(|(distance, _)| {
                        self.first + u64::from(*distance) <= revision
                    });
                    known
                        .points
                        .get(next.saturating_sub(1))
                        .map_or(0, |(_, at)| u64::from(*at))
                }
            };
            if start >= known.len {
                return Ok(None);
            }
            let next = known
                .points
                .partition_point(|(_, at)| u64::from(*at) < start + CHUNK);
            let end = known
                .points
                .get(next)
                .map_or(known.len, |(_, at)| u64::from(*at));
            (start, end)
        };
        Ok(Some((start, self.read(start, end)?, end)))
    }
}

#[derive(Clone, Copy)]
enum Position {
    Revision(Revision),
    Offset(u64),
}

/// The entries of a segment in order, from about a revision on.
pub(in crate::embedded) struct Walk {
    segment: Arc<Segment>,
    next: Position,
    start: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl Walk {
    /// Starts at the first entry of this revision or a greater one, or somewhat before it.
    pub(in crate::embedded) fn new(segment: Arc<Segment>, revision: Revision) -> Self {
        Self {
            segment,
            next: Position::Revision(revision),
            start: 0,
            bytes: Vec::new(),
            at: 0,
        }
    }

    /// Reads the next entry.
    pub(in crate::embedded) fn next(&mut self) -> Result<Option<Entry<'_>>, Fault> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                let Some((start, bytes, end)) = self.segment.chunk(self.next)? else {
                    return Ok(None);
                };
                (self.start, self.bytes, self.at) = (start, bytes, 0);
                self.next = Position::Offset(end);
            } else if frame::is_frame(rest) {
                let len = frame::entries_at(rest).ok_or_else(|| self.damaged())?;
                self.at += len;
            } else {
                break;
            }
        }
        let at = self.at;
        let rest = self.bytes.get(at..).unwrap_or_default();
        let Some((entry, len)) = frame::read_entry(rest, self.segment.bucket) else {
            return Err(self.damaged());
        };
        self.at = at + len;
        Ok(Some(entry))
    }

    fn damaged(&self) -> Fault {
        self.segment.damaged(self.start + self.at as u64)
    }
}

/// The frames of a segment, in order; see [`Segment::frames`].
pub(in crate::embedded) struct Frames<'a> {
    segment: &'a Segment,
    window: Window,
    at: u64,
}

impl Frames<'_> {
    /// Reads the next undamaged frame: its header and its entries.
    pub(in crate::embedded) fn next(&mut self) -> Result<Option<(Header, &[u8])>, Fault> {
        let at = self.at;
        if at >= self.window.end {
            return Ok(None);
        }
        let storage = |error| Fault::Storage(Arc::new(error));
        let prefix = self.window.at(at, 14).map_err(storage)?;
        let len = prefix.get(..14).and_then(frame::frame_len).unwrap_or(0);
        let bytes = self.window.at(at, len).map_err(storage)?;
        let read = frame::read_frame(bytes, self.segment.bucket);
        let (header, entries_at, len) = read.ok_or_else(|| self.segment.damaged(at))?;
        self.at += len as u64;
        Ok(Some((
            header,
            bytes.get(entries_at..len).unwrap_or_default(),
        )))
    }
}

/// A buffered reader of a file, from beginning to end.
struct Window {
    file: Arc<File>,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from an offset on: at least `len`, or fewer at the end of the file.
    fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let skip = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if self.bytes.len().saturating_sub(skip) < len.min(left) {
            self.bytes = vec![0; len.max(1 << 20).min(left)];
            self.start = offset;
            self.file.read_exact_at(&mut self.bytes, offset)?;
            return Ok(&self.bytes);
        }
        Ok(self.bytes.get(skip..).unwrap_or_default())
    }
}

/// Finds where each entry of a complete frame begins, with its revision.
fn index_frame(bytes: &[u8], entries_at: usize) -> Built {
    let (mut points, mut last, mut at) = (Vec::new(), 0, entries_at);
    while let Some((_, revision, len)) = frame::peek_entry(bytes.get(at..).unwrap_or_default()) {
        points.push((revision, at));
        last = revision;
        at += len;
    }
    Built {
        bytes: bytes.to_vec(),
        points,
        last,
    }
}

/// Reads from the page cache only.
///
/// # Errors
///
/// `WouldBlock` if not all bytes are cached, or if that cannot be found out.
fn read_cached(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2};
        let len = bytes.len();
        let read = preadv2(
            file,
            &mut [IoSliceMut::new(bytes)],
            at,
            ReadWriteFlags::NOWAIT,
        );
        if read == Ok(len) {
            return Ok(());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes, at);
    Err(io::ErrorKind::WouldBlock.into())
}

/// Whether a complete frame begins anywhere in this part of a file.
fn has_frames(file: &File, from: u64, end: u64, bucket: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from)?;
    Ok((0..bytes.len()).any(|at| {
        let rest = bytes.get(at..).unwrap_or_default();
        frame::read_frame(rest, bucket).is_some()
    }))
}

fn idx_path(path: &Path) -> PathBuf {
    path.with_extension("idx")
}

fn read_known(path: &Path) -> Option<Known> {
    let bytes = fs::read(path).ok()?;
    let (bytes, checksum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(bytes).to_le_bytes() != *checksum {
        return None;
    }
    let mut reader = Reader::new(bytes, "a segment's index");
    let mut next = || reader.varint().ok();
    let (len, last, number, count) = (next()?, next()?, next()?, next()?);
    let mut known = Known {
        points: Vec::new(),
        len,
        last,
        number,
    };
    let mut point = (0u32, 0u32);
    for _ in 0..count {
        let (distance, at) = (u32::try_from(next()?).ok()?, u32::try_from(next()?).ok()?);
        point = (point.0.checked_add(distance)?, point.1.checked_add(at)?);
        known.add_point(point);
    }
    Some(known)
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
