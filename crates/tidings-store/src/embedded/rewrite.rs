//! Gives back the space of records that never expire. Their bucket is never dropped; instead a segment of which much is no
//! longer needed is written anew without that, beside the old one, and put in its place. One with nothing left is removed.
//!
//! What is needed is judged up to a revision that history is forgotten up to and the index on disk has. Invariants:
//!
//! - A version is left out if it ended at or before that revision. No reader at a revision that can still be read has it,
//!   no watch tells of it, and what the index on disk had of it was removed.
//! - What tells the end of a version is left out only if that version is not in the log any more, and cannot come back: else
//!   an index that is made anew would have it live again. A version tells the end of the one it replaced, so if that one is
//!   still there, a deletion (kind `Ends`) with the same revision takes its place.
//! - Ends of versions of other buckets are left out when the bucket is gone. Should a power cut bring its files back, it was
//!   swept to its end, and what was swept counts as absent.
//! - Frames keep what they say of themselves. Those with no entry left are left out, but for a segment's last one: without a
//!   checkpoint the newest frames tell what the store is at. So the last segment is never touched, nor any that has
//!   commits above the checkpoint, and one is removed only if two with later commits follow.
//! - Segments are gone through from the oldest on, and each is on the disk for good before the next is begun.
//!
//! Which versions ended is known from the marks (`x`) in the bucket's tree, which are removed in the end; so what marks are left
//! tells how much there is to be gained, whoever left it.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::bucket::Buckets;
use super::disk;
use super::engine::Engine;
use super::frame::{self, Built, Entry, Frame, Header, Kind};
use super::index::{Tree, fault, io_fault, key_value_of};
use super::keys::{Ends, NEVER, Version, ended_key, trailing_revision};
use super::log::{Segments, beside};
use super::segment::{Frames, Scratch, Segment, Walk};
use crate::clock::timed;
use crate::{Fault, Revision};

/// A segment is written anew if about this part of it is not needed, and put in its place if it turns out that half of that
/// is not.
const GAIN: u64 = 4;

/// Below this many bytes there may be nothing but a header in a segment.
const TINY: u64 = 512;

/// Bytes read between two pauses, and written at once.
const PIECE: usize = 1 << 20;

/// Bytes that are synced at once, so that commits need not wait long for the disk.
const SYNC_PIECE: u64 = 8 << 20;

/// Entries looked at to tell how long those of a segment are.
const SAMPLE: u64 = 128;

/// Bytes an entry has besides its content, about; an end has little more.
const ENTRY_LEN: u64 = 16;

/// Why a segment was not written anew.
#[derive(Debug)]
pub(crate) enum Failure {
    /// All is as before.
    Nothing(Fault),
    /// What a power cut would leave is not known; nothing may be built upon it in this process.
    Unknown(io::Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Nothing(fault)
    }
}

/// What became of a segment.
enum Outcome {
    Kept,
    Replaced,
    /// It was asked to end.
    Ended,
}

/// Looks at the first segment that begins at this revision or later; where to go on, if there are more. `pause` is told how
/// long it worked, and whether to go on. One that is damaged is left as it is, and costs the others nothing.
pub(crate) fn step(
    engine: &Engine,
    from: Revision,
    pause: &dyn Fn(Duration) -> bool,
) -> Result<Option<Revision>, Failure> {
    match look_at_next(engine, from, pause) {
        Err(Failure::Nothing(Fault::Corrupt(why))) => {
            let segments = engine.buckets().get(&NEVER).map(|bucket| bucket.log.all());
            let segments = segments.unwrap_or_default();
            let damaged = segments.iter().find(|segment| segment.first >= from);
            tracing::error!(
                file = ?damaged.map(|segment| segment.path.display().to_string()),
                why, "space of replaced and deleted records is not given back in a damaged file of the log"
            );
            Ok(damaged.map(|segment| segment.first + 1))
        }
        looked_at => looked_at,
    }
}

fn look_at_next(
    engine: &Engine,
    from: Revision,
    pause: &dyn Fn(Duration) -> bool,
) -> Result<Option<Revision>, Failure> {
    let _one_at_a_time = engine
        .rewriting
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let checkpoint = engine.checkpoint.load(Ordering::Acquire);
    let indexed = engine.indexed.load(Ordering::Acquire);
    let (snapshot, published) = engine.index.snapshot(|| engine.published());
    let limit = indexed.min(published.state.compacted);
    let Some(bucket) = published.buckets.get(&NEVER) else {
        return Ok(None);
    };
    let segments = bucket.log.all();
    let at = segments.partition_point(|segment| segment.first < from);
    let (Some(segment), Some(next)) = (segments.get(at), segments.get(at + 1)) else {
        return Ok(None);
    };
    let later = segments.iter().skip(at + 1);
    let later = later.filter(|later| later.number() > segment.number());
    let later = later.take(2).count();
    if later == 0 || segment.number() > checkpoint {
        return Ok(None);
    }

    let next_first = next.first;
    let next = Some(segment.first + 1);
    // Those that a removed segment left count as the one's before it.
    let start = if at == 0 { 0 } else { segment.first };
    let marks = &ended_key(start)[..]..&ended_key(next_first)[..];
    let mut ended = Vec::new();
    for entry in snapshot.range(&bucket.index, marks) {
        let (key, by) = key_value_of(entry)?;
        let by = trailing_revision(&by)?;
        if by <= limit {
            ended.push((trailing_revision(&key)?, by));
        }
    }
    drop(snapshot);
    let Some(expected) = worthwhile_len(segment, ended.len() as u64)? else {
        return Ok(next);
    };
    if !has_room(&segment.path, expected) {
        tracing::warn!(
            file = %segment.path.display(),
            "there is no room on the disk to write a shorter file in this one's place; its space is not given back yet"
        );
        return Ok(next);
    }
    let rewrite = Rewrite {
        engine,
        segment,
        segments: &bucket.log,
        buckets: &published.buckets,
        limit,
        ended: &ended,
        kept: Vec::new(),
        scratch: Scratch::default(),
        end: None,
        is_removable: later == 2,
    };
    let mut output = Output::default();
    let outcome = rewrite.run(&mut output, pause);
    output.discard();
    let mut scratch = Scratch::default();
    let mut is_gone = |version| match outcome {
        Ok(Outcome::Replaced) => Ok(true),
        // It was left out before, and its mark was not removed.
        Ok(Outcome::Kept) => Ok(segment.version(version, &mut scratch)?.is_none()),
        _ => Ok::<_, Fault>(false),
    };
    let mut gone = Vec::new();
    for (version, _) in &ended {
        if is_gone(*version)? {
            gone.push(*version);
        }
    }
    match outcome? {
        Outcome::Ended => return Ok(None),
        Outcome::Kept => {}
        Outcome::Replaced => {
            for (_, by) in &ended {
                let next = segments.partition_point(|segment| segment.first <= *by);
                if let Some(told_in) = next.checked_sub(1).filter(|told_in| *told_in > at) {
                    let told_in = segments.get(told_in);
                    told_in.map(|segment| segment.loose.fetch_add(1, Ordering::Relaxed));
                }
            }
        }
    }
    remove_marks(engine, &bucket.index, &gone).map_err(|error| {
        engine.index.distrust(&error);
        fault(error)
    })?;
    Ok(next)
}

/// Whether there is room for a new file of a length, and as much again for who else writes. An unreadable answer is no
/// reason not to try.
fn has_room(beside: &Path, len: u64) -> bool {
    let disk = beside.parent().map(rustix::fs::statvfs);
    let Some(Ok(disk)) = disk else {
        return true;
    };
    disk.f_bavail.saturating_mul(disk.f_frsize) >= len.saturating_mul(2)
}

/// About how long a segment will be without the versions that ended, if about enough of it is not needed.
fn worthwhile_len(segment: &Arc<Segment>, ended: u64) -> Result<Option<u64>, Fault> {
    let len = segment.len();
    let loose = segment.loose.load(Ordering::Relaxed);
    if len <= TINY {
        return Ok(Some(len));
    }
    if ended + loose == 0 {
        return Ok(None);
    }
    let middle = segment.first + segment.last().saturating_sub(segment.first) / 2;
    let mut sample = sample(segment, middle)?;
    if sample.0 == 0 {
        sample = self::sample(segment, segment.first)?;
    }
    let version_len = sample.1 / sample.0.max(1) + ENTRY_LEN;
    let gain = ended * version_len + loose * ENTRY_LEN;
    Ok((gain >= len / GAIN).then(|| len.saturating_sub(gain)))
}

/// How many of the entries from a revision on are versions, and the bytes of those.
fn sample(segment: &Arc<Segment>, from: Revision) -> Result<(u64, u64), Fault> {
    let mut walk = Walk::new(Arc::clone(segment), from);
    let (mut count, mut bytes) = (0, 0);
    for _ in 0..SAMPLE {
        let Some(entry) = walk.next()? else {
            break;
        };
        if entry.kind == Kind::Version {
            count += 1;
            bytes += entry.content.len() as u64;
        }
    }
    Ok((count, bytes))
}

fn remove_marks(engine: &Engine, tree: &Tree, versions: &[Revision]) -> lsm_tree::Result<()> {
    if versions.is_empty() {
        return Ok(());
    }
    let mut ingestion = tree.ingestion()?;
    for version in versions {
        ingestion.write_tombstone(&ended_key(*version)[..])?;
    }
    ingestion.finish()?;
    if tree.is_crowded() {
        tree.merge(engine.index.watermark())?;
    }
    Ok(())
}

struct Rewrite<'a> {
    engine: &'a Engine,
    segment: &'a Arc<Segment>,
    segments: &'a Segments,
    buckets: &'a Buckets,
    limit: Revision,
    /// The versions that ended up to there, and what ended them, in order.
    ended: &'a [(Revision, Revision)],
    /// Those of this segment that are kept, in order.
    kept: Vec<Revision>,
    scratch: Scratch,
    /// The segment's last frame if it has no entries left: needed if nothing else is left.
    end: Option<(Frame, Header)>,
    is_removable: bool,
}

impl Rewrite<'_> {
    fn run(
        mut self,
        output: &mut Output,
        pause: &dyn Fn(Duration) -> bool,
    ) -> Result<Outcome, Failure> {
        let segment = self.segment;
        let mut frames = segment.frames();
        loop {
            let (more, took) = timed(|| self.piece(&mut frames, output));
            if !more? {
                break;
            }
            if !pause(took) {
                return Ok(Outcome::Ended);
            }
        }
        // What could not be left out this time is not counted again.
        segment.loose.store(0, Ordering::Relaxed);
        let is_removed = output.len == 0 && self.is_removable;
        if let Some((frame, header)) = self.end.take().filter(|_| !is_removed) {
            output.push(&self, frame, &header).map_err(io_fault)?;
        }
        if output.len + segment.len() / (2 * GAIN) > segment.len() {
            return Ok(Outcome::Kept);
        }
        let new = if is_removed {
            None
        } else {
            output.finish(&self).map_err(io_fault)?
        };
        let replaced = self.engine.replace_segment(segment, new);
        replaced.map_err(Failure::Unknown)?;
        Ok(Outcome::Replaced)
    }

    /// Does a part of the work; whether there is more.
    fn piece(&mut self, frames: &mut Frames<'_>, output: &mut Output) -> Result<bool, Fault> {
        let mut bytes = 0;
        while bytes < PIECE {
            let Some((header, entries)) = frames.next()? else {
                return Ok(false);
            };
            bytes += entries.len();
            let frame = self.frame(entries)?;
            if frame.len() > 0 {
                output.push(self, frame, &header).map_err(io_fault)?;
            } else if header.number == self.segment.number() {
                self.end = Some((frame, header));
            }
        }
        Ok(true)
    }

    /// What is needed of a frame's entries.
    fn frame(&mut self, mut entries: &[u8]) -> Result<Frame, Fault> {
        let mut frame = Frame::default();
        while !entries.is_empty() {
            let (entry, len) = frame::read_entry(entries, NEVER)
                .ok_or_else(|| Fault::Corrupt(format!("{}", self.segment.path.display())))?;
            self.entry(&entry, &mut frame)?;
            entries = entries.get(len..).unwrap_or_default();
        }
        Ok(frame)
    }

    fn entry(&mut self, entry: &Entry<'_>, frame: &mut Frame) -> Result<(), Fault> {
        let Entry {
            kind,
            revision,
            content,
        } = *entry;
        let is_needed = match kind {
            Kind::Version => {
                let ended = self.ended.binary_search_by_key(&revision, |ended| ended.0);
                if ended.is_ok() {
                    return self.leave_out(revision, content, frame);
                }
                self.kept.push(revision);
                true
            }
            Kind::Replaced => revision > self.limit || self.is_there(entry.replaced()?, NEVER)?,
            Kind::Ends => {
                let ends = entry.ends()?;
                let last = revision.saturating_add(ends.versions.len() as u64);
                let mut is_needed = last.saturating_sub(1) > self.limit;
                for version in &ends.versions {
                    is_needed = is_needed || self.is_there(*version, ends.bucket)?;
                }
                is_needed
            }
        };
        if is_needed {
            frame.push(NEVER, kind, revision, content);
        }
        Ok(())
    }

    /// Leaves out a version, but not that the one before it was replaced.
    fn leave_out(
        &mut self,
        revision: Revision,
        content: &[u8],
        frame: &mut Frame,
    ) -> Result<(), Fault> {
        let previous = Version::decode(content, revision, NEVER)?.previous;
        if let Some((version, bucket)) = previous
            && self.is_there(version, bucket)?
        {
            let ends = Ends {
                expired: false,
                bucket,
                versions: vec![version],
            };
            frame.push(NEVER, Kind::Ends, revision, &ends.encode());
        }
        Ok(())
    }

    /// Whether a version may still be in the log, now or after a power cut.
    fn is_there(&mut self, version: Revision, bucket: u64) -> Result<bool, Fault> {
        if bucket != NEVER {
            return Ok(self.buckets.contains_key(&bucket));
        }
        if version >= self.segment.first {
            return Ok(self.kept.binary_search(&version).is_ok());
        }
        Ok(self.segments.version(version, &mut self.scratch)?.is_some())
    }
}

/// The new segment in the making. There is no file before there is a piece to be written.
#[derive(Default)]
struct Output {
    segment: Option<Segment>,
    /// Frames that are not yet written, with their numbers.
    waiting: Vec<(Built, u64)>,
    waiting_len: usize,
    len: u64,
    synced: u64,
}

impl Output {
    fn push(&mut self, rewrite: &Rewrite<'_>, frame: Frame, header: &Header) -> io::Result<()> {
        let built = frame.build(NEVER, header);
        self.len += built.bytes.len() as u64;
        self.waiting_len += built.bytes.len();
        self.waiting.push((built, header.number));
        if self.waiting_len >= PIECE {
            self.write(rewrite)?;
        }
        Ok(())
    }

    fn write(&mut self, rewrite: &Rewrite<'_>) -> io::Result<()> {
        let old = rewrite.segment;
        let segment = match self.segment.take() {
            Some(segment) => segment,
            None => Segment::create(beside(old), old.bucket, old.first)?,
        };
        let segment = self.segment.insert(segment);
        let at = segment.len();
        let mut bytes = Vec::with_capacity(self.waiting_len);
        for (built, number) in self.waiting.drain(..) {
            bytes.extend_from_slice(&built.bytes);
            segment.publish(&built, number);
        }
        self.waiting_len = 0;
        segment.write_at(&bytes, at)?;
        if self.len - self.synced >= SYNC_PIECE {
            segment.sync()?;
            self.synced = self.len;
        }
        Ok(())
    }

    fn finish(&mut self, rewrite: &Rewrite<'_>) -> io::Result<Option<Segment>> {
        self.write(rewrite)?;
        if let Some(segment) = &self.segment {
            segment.sync()?;
        }
        Ok(self.segment.take())
    }

    /// Removes the file, if it was not put in place.
    fn discard(&mut self) {
        if let Some(segment) = self.segment.take()
            && let Err(error) = disk::remove(&segment.path)
        {
            tracing::warn!(file = %segment.path.display(), %error, "failed to remove what was written of a segment");
        }
    }
}
