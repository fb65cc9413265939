//! The log: all commits, in segments by bucket.
//!
//! It is journal, data and history in one. It is the only data that is synced before a write is
//! acknowledged.
//!
//! A commit appends one frame to each of its segments; nearly always it has only one. Frames have
//! the commit's number and the number of its frames. So after a crash it is known whether the last
//! commit is complete. If it is not, it was not acknowledged: its bytes are removed, kept in
//! `torn/` and logged. A missing commit before another one is damage, and the store does not open.
//! So is a missing segment, if another file shows that it existed.
//!
//! Invariants:
//!
//! - The segments of a bucket are in the order of their revisions. Only the last one grows, and
//!   only its frames may be followed by zeros.
//! - After a failed write or sync, nothing is appended until every segment of that commit is
//!   truncated to its synced length. A segment whose sync failed never grows again, unless it has
//!   no revision yet.
//! - A segment that is not the last, or is sealed, may be replaced by one with fewer entries
//!   ([`Pass`](crate::embedded::maintenance::Pass)). A reader with the bucket's previous
//!   [`Segments`] continues to read the old one.
//!
//! From outside: a [`Log`] commits [`Frames`], and has [`Segments`] by bucket; [`segment`] and
//! [`frame`] are for reads of one file, and for the rewriting of one. Open files are counted and
//! closed in here.

pub(super) mod frame;
mod handles;
pub(super) mod segment;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::embedded::codec::State;
use crate::embedded::error::OpenError;
use crate::embedded::files::{disk, number_in, parallel};
use crate::{Fault, Revision};
use frame::{FRAME_LEN_MAX, Frame, Header};
use segment::{AppendError, Extent, FoundFrame, Scratch, Segment, Walk};

pub(super) use handles::Handles;

/// Extension of a segment's file name.
const SEGMENT: &str = "log";

/// Extension of a segment that is being written to replace another.
const UNFINISHED: &str = "new";

/// Extension of the file with the positions of entries in a segment.
const PLACES: &str = "idx";

/// Number of commits after its last frame for which a segment keeps [room](Segment::append).
const RECENT: u64 = 64;

/// A segment may be sealed when it has at least 1/64 or 1/2 of the maximum length. The first holds
/// for a segment that has not grown lately, the second for one that has.
const QUIET_PART: u64 = 64;
const BUSY_PART: u64 = 2;

/// Maximum torn tails kept; older ones are removed.
const TORN_MAX: usize = 8;

/// The segments of one bucket, oldest first.
#[derive(Clone, Default)]
pub(super) struct Segments(Arc<RwLock<Vec<Arc<Segment>>>>);

impl Segments {
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.0.read().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        change(&mut self.0.write());
    }

    fn newest(&self) -> Option<Arc<Segment>> {
        self.0.read().last().cloned()
    }

    /// Reads the content of the version with a revision into `scratch`.
    pub(super) fn version<'a>(
        &self,
        revision: Revision,
        scratch: &'a mut Scratch,
    ) -> Result<Option<&'a [u8]>, Fault> {
        let segment = self.segment(revision);
        segment.map_or(Ok(None), |segment| segment.version(revision, scratch))
    }

    /// The segment that the version with a revision must be in, if there is one.
    fn segment(&self, revision: Revision) -> Option<Arc<Segment>> {
        let segments = self.0.read();
        let next = segments.partition_point(|segment| segment.first <= revision);
        next.checked_sub(1).and_then(|at| segments.get(at)).cloned()
    }

    /// Asks the system to read ahead the version with a revision.
    pub(super) fn will_need(&self, revision: Revision) {
        if let Some(segment) = self.segment(revision) {
            segment.will_need(revision);
        }
    }

    /// Starts to read all entries from a revision on.
    pub(super) fn walk(&self, from: Revision) -> BucketWalk {
        let mut segments = self.all();
        let next = segments.partition_point(|segment| segment.first <= from);
        segments.drain(..next.saturating_sub(1));
        segments.reverse();
        BucketWalk {
            left: segments,
            from,
            walk: None,
        }
    }

    /// The greatest revision in the segments.
    pub(super) fn last(&self) -> Revision {
        self.all()
            .iter()
            .map(|segment| segment.last())
            .max()
            .unwrap_or(0)
    }

    /// The number of the last commit with a frame in these segments.
    pub(super) fn number(&self) -> u64 {
        self.all()
            .iter()
            .map(|segment| segment.number())
            .max()
            .unwrap_or(0)
    }

    /// Bytes of all frames.
    pub(super) fn len(&self) -> u64 {
        self.all().iter().map(|segment| segment.len()).sum()
    }

    /// Bytes of all files.
    pub(super) fn file_len(&self) -> u64 {
        self.all().iter().map(|segment| segment.file_len()).sum()
    }
}

/// The entries of a bucket, in order; see [`Segments::walk`].
pub(super) struct BucketWalk {
    left: Vec<Arc<Segment>>,
    from: Revision,
    walk: Option<Walk>,
}

impl BucketWalk {
    /// Passes entries to `with` until it returns a result. The entries have the start's revision or
    /// a greater one, or are ends that reach it.
    pub(super) fn next<T>(
        &mut self,
        mut with: impl FnMut(frame::Entry<'_>) -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        loop {
            if let Some(walk) = &mut self.walk {
                while let Some(entry) = walk.next()? {
                    if let Some(found) = with(entry)? {
                        return Ok(Some(found));
                    }
                }
            }
            let Some(segment) = self.left.pop() else {
                return Ok(None);
            };
            self.walk = Some(Walk::new(segment, self.from));
        }
    }
}

/// The log of a store; see the module documentation.
pub(super) struct Log {
    folder: PathBuf,
    /// Length in bytes from which a segment does not grow any more.
    pub(super) segment_len: u64,
    handles: Arc<Handles>,
    buckets: RwLock<BTreeMap<u64, Segments>>,
    /// Segments that were missing at opening, each with its bucket. Their `.idx` files existed.
    /// These are removed before a segment is.
    missing: Vec<(u64, PathBuf)>,
    /// The segments with a frame of a recent commit, each with the number of its last one. No other
    /// segment has preallocated room.
    recent: Mutex<Vec<(Arc<Segment>, u64)>>,
    /// Lock for replacing segments and writing their `.idx` files.
    idx: Mutex<()>,
    /// Bytes of the commits after the last checkpoint, or after the one in progress.
    behind: AtomicU64,
}

/// Segments, each with its end at some moment.
pub(super) type Extents = Vec<(Arc<Segment>, Extent)>;

/// The frames of a commit, by bucket.
pub(super) type Frames = BTreeMap<u64, Frame>;

/// How a commit failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was written.
    NotWritten(io::Error),
    /// The commit is not in the log once what was written is rolled back.
    NotSynced(io::Error),
    /// Whether the disk has the commit is unknown.
    Unknown(io::Error),
}

/// Segments that must be truncated before anything is appended.
#[derive(Default)]
pub(super) struct Unfinished(pub(super) Vec<Arc<Segment>>);

impl Log {
    /// Opens the segments in a folder and repairs the end of the last commit. Afterwards frames
    /// with numbers above `checkpoint` are complete. Without a checkpoint this is checked only for
    /// the last commit.
    ///
    /// The checkpoint is a commit's number and revision. With `from_start` every segment is read
    /// completely. Segments of `segment_len` bytes or more do not grow. Of the segments that do not
    /// grow, `files_max` are held open.
    ///
    /// Also returns the headers of the commits above the checkpoint, in order; without a checkpoint
    /// only some of them.
    pub(super) fn open(
        folder: &Path,
        checkpoint: Option<(u64, Revision)>,
        from_start: bool,
        segment_len: u64,
        files_max: usize,
    ) -> Result<(Self, Vec<Header>), OpenError> {
        let (checkpoint, reached) = checkpoint.unzip();
        let io = |what, path: &Path, error| OpenError::io(what, path, error);
        disk::make_folder(folder).map_err(|error| io("create folder", folder, error))?;
        remove_unfinished(folder).map_err(|error| io("clean up", folder, error))?;
        let handles = Handles::new(files_max);
        let mut buckets = BTreeMap::<u64, Vec<Arc<Segment>>>::new();
        let mut found = Vec::new();
        let mut tails = Vec::new();
        let mut claims = Vec::new();
        let mut behind = 0;
        let files = files(folder, SEGMENT).map_err(|error| io("read folder", folder, error))?;
        let missing = missing(folder, &files).map_err(|error| io("read folder", folder, error))?;
        let newest: BTreeMap<_, _> = files
            .iter()
            .map(|(bucket, first, _)| (*bucket, *first))
            .collect();
        let opened = parallel::each(&files, |(bucket, first, path)| {
            let path = path.clone();
            let opened = Segment::open(path, *bucket, *first, checkpoint, from_start, &handles);
            if let Ok((segment, ..)) = &opened
                && newest.get(bucket) != Some(first)
            {
                segment.rest();
            }
            opened
        });
        for ((bucket, _, path), opened) in files.into_iter().zip(opened) {
            let (segment, frames, tail) = opened.map_err(|error| io("read", &path, error))?;
            let segment = Arc::new(segment);
            let begin = frames.first().map_or(segment.len(), |frame| frame.offset);
            behind += segment.len() - begin;
            found.extend(
                frames
                    .into_iter()
                    .map(|frame| (Arc::clone(&segment), frame)),
            );
            if let Some(tail) = tail {
                let offset = segment.len();
                if tail.is_damage {
                    return Err(OpenError::Damaged { file: path, offset });
                }
                claims.push((Arc::clone(&segment), tail.claims));
                tails.push(Arc::clone(&segment));
            }
            buckets.entry(bucket).or_default().push(segment);
        }
        let commits = check(checkpoint, &mut found, &mut tails)?;
        let (number, revision) = commits
            .last()
            .map_or((0, 0), |header| (header.number, header.state.revision));
        let number = number.max(checkpoint.unwrap_or(0));
        let revision = revision.max(reached.unwrap_or(0));
        for (segment, claims) in claims {
            // A crash tears only bytes after all acknowledged commits, and only at the end of a
            // last segment.
            let is_older = claims.is_some_and(|claims| claims.0 <= number && claims.1 <= revision);
            let is_last = buckets
                .get(&segment.bucket)
                .and_then(|segments| segments.last())
                .is_some_and(|last| Arc::ptr_eq(last, &segment));
            if is_older || !is_last {
                return Err(OpenError::Damaged {
                    file: segment.path.clone(),
                    offset: segment.len(),
                });
            }
        }
        for segment in tails {
            cut(folder, &segment)?;
        }
        // A killed process may have appended the last commit, removed a torn one or created a
        // segment without syncing. Later commits, perhaps in other segments, depend on that.
        disk::sync_folder(folder).map_err(|error| io("sync", folder, error))?;
        for segment in buckets.values().filter_map(|segments| segments.last()) {
            let synced = segment.sync();
            synced.map_err(|error| io("sync", &segment.path, error))?;
        }
        let buckets = buckets
            .into_iter()
            .map(|(bucket, segments)| (bucket, Segments(Arc::new(RwLock::new(segments)))));
        let log = Self {
            folder: folder.to_owned(),
            segment_len,
            handles,
            buckets: RwLock::new(buckets.collect()),
            missing,
            recent: Mutex::default(),
            idx: Mutex::default(),
            behind: AtomicU64::new(behind),
        };
        Ok((log, commits))
    }

    pub(super) fn buckets(&self) -> BTreeMap<u64, Segments> {
        self.buckets.read().clone()
    }

    /// Path of the store's folder.
    pub(super) fn store(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// The number of the last commit with a frame in the log.
    pub(super) fn number(&self) -> u64 {
        let buckets = self.buckets();
        let numbers = buckets.values().map(Segments::number);
        numbers.max().unwrap_or(0)
    }

    /// Path of a segment that was missing at opening, if its bucket is needed.
    pub(super) fn missing(&self, is_needed: impl Fn(&u64) -> bool) -> Option<&Path> {
        let mut missing = self.missing.iter();
        let found = missing.find(|(bucket, _)| is_needed(bucket));
        found.map(|(_, path)| path.as_path())
    }

    /// Returns a bucket's segments; adds an empty entry unless there is one.
    pub(super) fn bucket(&self, bucket: u64) -> Segments {
        let mut buckets = self.buckets.write();
        buckets.entry(bucket).or_default().clone()
    }

    /// Writes and syncs a commit. After a failure everything in `unfinished` must be [rolled
    /// back](Self::roll_back) before the next commit.
    pub(super) fn commit(
        &self,
        frames: Frames,
        number: u64,
        first: Revision,
        state: State,
        unfinished: &mut Unfinished,
    ) -> Result<(), Failure> {
        let count = (state.revision + 1).saturating_sub(first);
        let header = Header {
            number,
            first,
            count,
            parts: frames.len() as u64,
            state,
        };
        let mut built = Vec::with_capacity(frames.len());
        for (bucket, frame) in frames {
            let len = frame.len();
            let frame = frame.build(bucket, &header);
            if frame.bytes.len() > FRAME_LEN_MAX {
                // A longer frame could not be read back.
                let error = io::Error::new(io::ErrorKind::InvalidInput, "the commit is too large");
                return Err(Failure::NotWritten(error));
            }
            built.push((bucket, len, frame));
        }
        let mut targets = Vec::with_capacity(built.len());
        for (bucket, len, built) in built {
            let segment = self
                .segment_for(bucket, first, len)
                .map_err(Failure::NotWritten)?;
            targets.push((segment, built));
        }
        match targets.iter().try_for_each(|(segment, built)| {
            let room_until = if self.is_recent(segment) {
                self.segment_len
            } else {
                0
            };
            segment.append(built, room_until)
        }) {
            Ok(()) => {
                for (segment, built) in &targets {
                    segment.publish(built, number);
                    let len = built.bytes.len() as u64;
                    self.behind.fetch_add(len, Ordering::Relaxed);
                }
                self.remember(targets.into_iter().map(|(segment, _)| segment), number);
                Ok(())
            }
            Err(error) => {
                let is_sync = matches!(error, AppendError::Sync(_));
                for (segment, _) in targets {
                    if is_sync {
                        segment.retire();
                    }
                    unfinished.0.push(segment);
                }
                Err(match error {
                    AppendError::Write(error) => Failure::NotSynced(error),
                    AppendError::Sync(error) => Failure::Unknown(error),
                })
            }
        }
    }

    /// Bytes of the commits after the last checkpoint, or after the one in progress.
    pub(super) fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Starts counting at zero: a checkpoint with all commits is in progress.
    pub(super) fn begin_checkpoint(&self) {
        self.behind.store(0, Ordering::Relaxed);
    }

    fn is_recent(&self, segment: &Arc<Segment>) -> bool {
        let recent = self.recent.lock();
        recent.iter().any(|(other, _)| Arc::ptr_eq(other, segment))
    }

    /// Records the segments of a commit as recently used.
    fn remember(&self, segments: impl Iterator<Item = Arc<Segment>>, number: u64) {
        let mut recent = self.recent.lock();
        for segment in segments {
            match recent
                .iter_mut()
                .find(|(other, _)| Arc::ptr_eq(other, &segment))
            {
                Some((_, last)) => *last = number,
                None => recent.push((segment, number)),
            }
        }
    }

    /// Removes the room of segments that have not grown lately. This syncs them, so no caller
    /// should wait for it.
    pub(super) fn give_room_back(&self, number: u64) {
        let is_over = |last: &u64| number.saturating_sub(*last) >= RECENT;
        for (segment, _) in self.recent.lock().extract_if(.., |(_, last)| is_over(last)) {
            give_room_back(&segment);
        }
    }

    /// Forgets segments that do not grow any more, so that their files can be closed.
    fn forget(&self, is_over: impl Fn(&Arc<Segment>) -> bool) {
        self.recent.lock().retain(|(segment, _)| !is_over(segment));
    }

    /// Removes the room of all segments.
    pub(super) fn close(&self) {
        for (segment, _) in self.recent.lock().drain(..) {
            give_room_back(&segment);
        }
    }

    /// Truncates the segments that a failed commit may have written to.
    pub(super) fn roll_back(&self, unfinished: &mut Unfinished) -> io::Result<()> {
        while let Some(segment) = unfinished.0.last() {
            if segment.len() == 0 {
                // If the file is gone already, only the sync failed the last time.
                segment.remove()?;
                self.change(segment.bucket, |all| {
                    all.retain(|other| !Arc::ptr_eq(other, segment));
                });
                disk::sync_folder(&self.folder)?;
            } else {
                segment.roll_back()?;
            }
            unfinished.0.pop();
        }
        Ok(())
    }

    /// The segment to append to; created if there is none or the last one is full.
    fn segment_for(&self, bucket: u64, first: Revision, len: usize) -> io::Result<Arc<Segment>> {
        let segments = self.bucket(bucket);
        if let Some(segment) = segments.newest() {
            let far = first.saturating_sub(segment.first) > u64::from(u32::MAX >> 1);
            let full = segment.len() > 0 && segment.len() + len as u64 > self.segment_len;
            // Two segments that begin at the same revision would be the same file. The commits in
            // this segment took no revision, so it stays in use, whatever its length and even if a
            // sync failed: it was truncated to its synced length.
            let begins_here = segment.first == first;
            if begins_here || !far && !full && !segment.is_retired() {
                return Ok(segment);
            }
            segment.give_room_back()?;
            self.forget(|other| Arc::ptr_eq(other, &segment));
        }
        let path = self.folder.join(format!("{bucket:016x}-{first:016x}.log"));
        let segment = Arc::new(Segment::create(path, bucket, first, &self.handles)?);
        disk::sync_folder(&self.folder)?;
        self.change(bucket, |segments| {
            // The previous segment may have been replaced meanwhile.
            if let Some(before) = segments.last() {
                before.rest();
            }
            segments.push(Arc::clone(&segment));
        });
        Ok(segment)
    }

    /// Seals long enough last segments of the buckets after one, so that they can be replaced.
    /// Segments without a commit after `quiet` need not be as long, because they are few. Call it
    /// between two commits.
    pub(super) fn seal(&self, behind: u64, quiet: u64) {
        for (_, segments) in self.buckets().range(behind.saturating_add(1)..) {
            let Some(segment) = segments.newest().filter(|segment| {
                let part = if segment.number() <= quiet {
                    QUIET_PART
                } else {
                    BUSY_PART
                };
                // A sealed segment needs a revision, because the next one must not begin at the
                // same revision.
                segment.len() >= self.segment_len / part && segment.last() >= segment.first
            }) else {
                continue;
            };
            if let Err(error) = segment.give_room_back() {
                tracing::warn!(file = %segment.path.display(), %error, "failed to release reserved space of a segment");
                continue;
            }
            self.forget(|other| Arc::ptr_eq(other, &segment));
            segment.retire();
        }
    }

    /// Changes a bucket's segments. It reads them again, because the caller's [`Segments`] may have
    /// been replaced.
    fn change(&self, bucket: u64, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let buckets = self.buckets.read();
        if let Some(segments) = buckets.get(&bucket) {
            segments.change(change);
        }
    }

    /// Creates an empty segment that may [replace](Self::replace) another.
    pub(super) fn create_beside(&self, old: &Segment) -> io::Result<Segment> {
        let path = old.path.with_extension(UNFINISHED);
        Segment::create(path, old.bucket, old.first, &self.handles)
    }

    /// Replaces a segment that does not grow by a synced one, or removes it. `publish` gets the
    /// bucket's new segments while no other thread can change them. After an error it is unknown
    /// which of the two a power cut leaves.
    pub(super) fn replace(
        &self,
        old: &Arc<Segment>,
        new: Option<Segment>,
        publish: impl FnOnce(Segments),
    ) -> io::Result<()> {
        let _idx = self.idx.lock();
        if !self.buckets().contains_key(&old.bucket) {
            // The bucket was dropped meanwhile, with all its files.
            return new.map_or(Ok(()), |new| disk::remove(&new.path));
        }
        // The `.idx` file goes first, and durably: it must not be taken for that of the new
        // segment.
        old.remove_idx()?;
        disk::sync_folder(&self.folder)?;
        let new = if let Some(mut new) = new {
            new.take_place_of(old)?;
            Some(Arc::new(new))
        } else {
            disk::remove(&old.path)?;
            None
        };
        {
            let mut buckets = self.buckets.write();
            if let Some(segments) = buckets.get_mut(&old.bucket) {
                let mut all = segments.all();
                if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, old)) {
                    all.splice(at..=at, new.clone());
                }
                if let Some(new) = &new
                    && all.last().is_some_and(|last| !Arc::ptr_eq(last, new))
                {
                    new.rest();
                }
                // A new value, because a reader of an older commit needs its own segments.
                *segments = Segments(Arc::new(RwLock::new(all)));
                publish(segments.clone());
            }
        }
        disk::sync_folder(&self.folder)?;
        if let Some(new) = new
            && let Some(extent) = new.extent()
            && let Err(error) = new.write_idx(extent)
        {
            tracing::warn!(file = %new.path.display(), %error, "failed to write a segment's index");
        }
        Ok(())
    }

    /// Removes a bucket's segments.
    pub(super) fn drop_bucket(&self, bucket: u64) -> io::Result<()> {
        let _idx = self.idx.lock();
        let segments = {
            let mut buckets = self.buckets.write();
            buckets.remove(&bucket).unwrap_or_default()
        };
        self.forget(|segment| segment.bucket == bucket);
        let is_read = Arc::strong_count(&segments.0) > 1;
        for segment in segments.all() {
            // This function holds two of the references.
            if (is_read || Arc::strong_count(&segment) > 2)
                && let Err(error) = segment.keep_open()
            {
                // The segment's records have all ended. Open readers must not keep its space.
                tracing::warn!(file = %segment.path.display(), %error, "failed to keep a file open for its readers");
            }
            segment.remove()?;
        }
        disk::sync_folder(&self.folder)
    }

    /// The ends of the segments that have grown since their `.idx` was [written](Self::write_idx).
    /// Call it between two commits.
    pub(super) fn extents(&self) -> Extents {
        let mut extents = Vec::new();
        for segments in self.buckets().values() {
            for segment in segments.all() {
                extents.extend(segment.extent().map(|extent| (segment, extent)));
            }
        }
        extents
    }

    /// Writes `.idx` files of segments, as of some moment.
    pub(super) fn write_idx(&self, extents: &Extents) -> io::Result<()> {
        let _idx = self.idx.lock();
        let buckets = self.buckets();
        for (segment, extent) in extents {
            // The segment may have been replaced, or dropped with its bucket.
            let there = buckets.get(&segment.bucket);
            let there = there.and_then(|segments| segments.segment(segment.first));
            if there.is_some_and(|there| Arc::ptr_eq(&there, segment)) {
                segment.write_idx(*extent)?;
            }
        }
        Ok(())
    }
}

/// Removes the room of a segment. On failure the room stays, as after a kill of the process.
fn give_room_back(segment: &Segment) {
    if let Err(error) = segment.give_room_back() {
        tracing::warn!(file = %segment.path.display(), %error, "failed to release reserved space of a segment");
    }
}

/// Whether a folder has nothing that could be a store's log.
pub(super) fn is_empty(folder: &Path) -> bool {
    files(folder, SEGMENT).is_ok_and(|files| files.is_empty()) || !folder.exists()
}

/// Removes the file of a process that ended while it rewrote a segment.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == UNFINISHED) {
            disk::remove(&path)?;
        }
    }
    Ok(())
}

/// A file of a segment: bucket, first revision and path.
type SegmentFile = (u64, Revision, PathBuf);

/// The segments of which only the `.idx` file exists, with their buckets. A store removes a segment
/// only after the name of that file is durably gone, except with its whole bucket.
fn missing(folder: &Path, segments: &[SegmentFile]) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut missing = Vec::new();
    for (bucket, first, path) in files(folder, PLACES)? {
        let place = |(bucket, first, _): &SegmentFile| (*bucket, *first);
        let found = segments.binary_search_by_key(&(bucket, first), place);
        if found.is_err() {
            missing.push((bucket, path.with_extension(SEGMENT)));
        }
    }
    Ok(missing)
}

/// The files in a folder that belong to segments and have this extension. They are in the order of
/// bucket and revision.
fn files(folder: &Path, end: &str) -> io::Result<Vec<SegmentFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|it| it != end) {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str());
        let Some((bucket, first)) = name.and_then(|name| name.split_once('-')) else {
            continue;
        };
        if let (Some(bucket), Some(first)) = (number_in(bucket), number_in(first)) {
            files.push((bucket, first, path));
        }
    }
    files.sort();
    Ok(files)
}

/// Checks that no commit above the checkpoint is missing, and removes an incomplete last one.
/// Returns the headers of the complete commits.
fn check(
    checkpoint: Option<u64>,
    found: &mut [(Arc<Segment>, FoundFrame)],
    tails: &mut Vec<Arc<Segment>>,
) -> Result<Vec<Header>, OpenError> {
    found.sort_by_key(|(_, frame)| frame.header.number);
    let newest = found.last().map_or(0, |(_, frame)| frame.header.number);
    let checkpoint = checkpoint.unwrap_or(newest.saturating_sub(1));
    let mut whole = Vec::new();
    let mut next = checkpoint + 1;
    let mut at = 0;
    while let Some((segment, frame)) = found.get(at) {
        let header = &frame.header;
        let parts = found
            .iter()
            .skip(at)
            .take_while(|(_, frame)| frame.header.number == header.number)
            .count();
        let missing = header.number > checkpoint && header.number != next;
        let partial = header.number > checkpoint && parts as u64 != header.parts;
        if missing || (partial && header.number != newest) {
            // If the end of a segment is damaged, the missing commit is there.
            let file = tails.first().unwrap_or(segment);
            return Err(OpenError::Damaged {
                file: file.path.clone(),
                offset: file.len(),
            });
        }
        if partial {
            for (segment, frame) in found.iter().skip(at) {
                segment.cut(frame);
                if !tails.iter().any(|tail| Arc::ptr_eq(tail, segment)) {
                    tails.push(Arc::clone(segment));
                }
            }
            return Ok(whole);
        }
        next = next.max(header.number + 1);
        whole.push(header.clone());
        at += parts;
    }
    Ok(whole)
}

/// Removes the end of a segment, and keeps the bytes in `torn/`.
fn cut(folder: &Path, segment: &Segment) -> Result<(), OpenError> {
    let path = &segment.path;
    let io = |what, error| OpenError::io(what, path, error);
    let mut tail = segment.tail().map_err(|error| io("read", error))?;
    tail.truncate(
        tail.iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1),
    );
    let offset = segment.len();
    if !tail.is_empty() {
        let kept = keep(folder, path, offset, &tail)
            .map_err(|error| io("keep the torn tail of", error))?;
        tracing::error!(
            segment = %path.display(), offset, torn_bytes = tail.len(), kept = %kept.display(),
            "the last commit in the log is torn: the process or the machine died while writing it; \
             it was cut off and kept"
        );
    }
    segment
        .roll_back()
        .map_err(|error| io("cut the torn tail of", error))
}

fn keep(folder: &Path, path: &Path, offset: u64, tail: &[u8]) -> io::Result<PathBuf> {
    let torn = folder.with_file_name("torn");
    disk::make_folder(&torn)?;
    let mut kept: Vec<_> = fs::read_dir(&torn)?.collect::<io::Result<_>>()?;
    kept.sort_by_key(|entry| {
        entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
    });
    for old in kept.iter().rev().skip(TORN_MAX - 1) {
        disk::remove(&old.path())?;
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let path = torn.join(format!("{name}-from-{offset}"));
    disk::replace(&path, tail)?;
    Ok(path)
}
