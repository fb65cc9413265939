//! Releases the space of replaced, deleted or expired records in the log.
//!
//! It works on buckets that are not dropped soon. A segment with much garbage is rewritten without
//! it, next to the old one, which it then replaces. A segment with nothing left is removed.
//!
//! Entries are garbage as of a revision up to which history is forgotten and which the index on
//! disk has. Invariants:
//!
//! - A version is removed if it ended at or before that revision. No reader at a readable revision
//!   sees it, no watch reports it, and its entries in the index on disk were removed, or are
//!   skipped as swept.
//! - The end of a version is removed only if that version was swept, or is not in the log any more
//!   and cannot come back. Otherwise the version would be live again in a rebuilt index. A version
//!   is also the end of the one it replaced. If that one still exists, and its own bucket does not
//!   have its end, a deletion (kind `Ends`) with the same revision takes the place of the version.
//! - Frames keep their headers. Frames without entries are removed, except a segment's last one:
//!   without a checkpoint the newest frames have the store's state. So a segment with commits above
//!   the checkpoint is not rewritten, and a segment is removed only if two later commits are
//!   elsewhere and it is not its bucket's last.
//! - A bucket's last segment is rewritten only after it was
//!   [sealed](crate::embedded::log::Log::seal), so that it does not grow.
//! - Segments are rewritten in order, from the oldest of the first bucket on. Each is durable
//!   before the next is begun.
//!
//! Versions that ended before their expiry have marks (`x`) in the bucket's tree, which are removed
//! last. So the remaining marks show how much space can be gained, also after a restart. The state
//! has the position of swept versions.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::timed;
use crate::embedded::codec::Swept;
use crate::embedded::codec::version::{Ends, Version};
use crate::embedded::engine::{Bucket, Buckets, Engine};
use crate::embedded::files::disk;
use crate::embedded::index::keys::{ended_key, trailing_revision};
use crate::embedded::index::{Snapshot, Tree, fault, io_fault, is_lasting, key_value_of};
use crate::embedded::log::frame::{self, Built, Entry, Frame, Header, Kind};
use crate::embedded::log::segment::{Frames, Scratch, Segment, Walk};
use crate::{Fault, Revision};

/// A segment is rewritten if about 1/4 of it is garbage. It is replaced if at least half of that
/// proves to be garbage.
const GAIN: u64 = 4;

/// Bytes below which a segment may have nothing but a header.
const TINY: u64 = 512;

/// Bytes read between two pauses, and bytes written at once.
const PIECE: usize = 1 << 20;

/// Bytes that are synced at once. Commits then need not wait long for the disk.
const SYNC_PIECE: u64 = 8 << 20;

/// Number of entries examined to estimate the length of a segment's entries.
const SAMPLE: u64 = 128;

/// About how many bytes an entry takes besides its content; an end takes little more.
const ENTRY_LEN: u64 = 16;

/// The reason why a segment was not rewritten.
#[derive(Debug)]
pub(in crate::embedded) enum Failure {
    /// Nothing changed.
    Nothing(Fault),
    /// The state after a power cut is unknown, so this process must not depend on it.
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
    /// The pass was asked to end.
    Ended,
}

/// The inputs of a pass over the log.
#[derive(Clone, Debug, Default)]
pub(in crate::embedded) struct Pass {
    /// The swept position at a revision up to which history is forgotten.
    pub(in crate::embedded) dead: Swept,
    /// Buckets up to this one are not rewritten, because they are dropped soon.
    pub(in crate::embedded) spared: u64,
}

/// The position of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Place {
    bucket: u64,
    /// Segments of the bucket that begin before this revision are done.
    revision: Revision,
    /// Whether the pass released segments of this bucket of which the index still has entries.
    has_swept: bool,
    /// Whether the pass left out a segment that a later pass may do. The disk had no room for it,
    /// or could not read it.
    pub(in crate::embedded) is_incomplete: bool,
}

impl Place {
    /// The position after a segment.
    fn behind(self, segment: &Segment) -> Self {
        Self {
            bucket: segment.bucket,
            revision: segment.first + 1,
            ..self
        }
    }

    fn next_bucket(self) -> Option<Self> {
        Some(self.at_bucket(self.bucket.checked_add(1)?))
    }

    /// The position at the beginning of a bucket.
    fn at_bucket(self, bucket: u64) -> Self {
        Self {
            bucket,
            is_incomplete: self.is_incomplete,
            ..Self::default()
        }
    }
}

/// Examines the next segment. Returns the position to continue from, if there are more. `pause`
/// gets the working time, and decides whether to continue. A segment that cannot be read stays as
/// it is, and does not affect the others.
pub(in crate::embedded) fn step(
    engine: &Engine,
    pass: &Pass,
    from: Place,
    pause: &dyn Fn(Duration) -> bool,
) -> Result<Option<Place>, Failure> {
    let buckets = engine.buckets();
    let Some((name, bucket)) = next_bucket(&buckets, pass, from) else {
        return Ok(None);
    };
    let from = if name == from.bucket {
        from
    } else {
        from.at_bucket(name)
    };
    match look_at_next(engine, pass, from, pause) {
        Err(Failure::Nothing(why)) if is_lasting(&why) => {
            let segments = bucket.log.all();
            let damaged = segments
                .iter()
                .find(|segment| segment.first >= from.revision);
            tracing::error!(
                file = ?damaged.map(|segment| segment.path.display().to_string()),
                %why, "a file of the log cannot be read, so the space of its replaced and deleted records is not released"
            );
            let is_damage = matches!(why, Fault::Corrupt(_));
            Ok(damaged.map(|segment| Place {
                is_incomplete: from.is_incomplete || !is_damage,
                ..from.behind(segment)
            }))
        }
        Ok(Next::Ended) => Ok(None),
        Ok(Next::Segment(place)) => Ok(Some(place)),
        Ok(Next::Bucket) => {
            if from.has_swept {
                // Merges of tables remove entries of swept versions, but without new tables there
                // might be no merge.
                let merged = bucket.index.merge_all(engine.index.watermark());
                merged.map_err(|error| {
                    engine.index.distrust(&error);
                    fault(error)
                })?;
            }
            Ok(from.next_bucket())
        }
        Err(failure) => Err(failure),
    }
}

fn next_bucket<'a>(buckets: &'a Buckets, pass: &Pass, from: Place) -> Option<(u64, &'a Bucket)> {
    let spared = pass.spared.max(pass.dead.floor);
    let mut left = buckets.range(from.bucket..);
    left.find(|(name, _)| **name > spared)
        .map(|(name, bucket)| (*name, bucket))
}

/// How a pass continues.
enum Next {
    Segment(Place),
    Bucket,
    Ended,
}

fn look_at_next(
    engine: &Engine,
    pass: &Pass,
    from: Place,
    pause: &dyn Fn(Duration) -> bool,
) -> Result<Next, Failure> {
    let _one_at_a_time = engine.rewriting.lock();
    let checkpoint = engine.checkpoint.load(Ordering::Acquire);
    let indexed = engine.indexed.load(Ordering::Acquire);
    let (snapshot, published) = engine.index.snapshot(|| engine.published());
    let limit = indexed.min(published.state.compacted);
    let Some(bucket) = published.buckets.get(&from.bucket) else {
        return Ok(Next::Bucket);
    };
    let segments = bucket.log.all();
    let at = segments.partition_point(|segment| segment.first < from.revision);
    let Some(segment) = segments.get(at) else {
        return Ok(Next::Bucket);
    };
    let later = segments.get(at + 1);
    if segment.number() > checkpoint || later.is_none() && !segment.is_retired() {
        return Ok(Next::Bucket);
    }

    let dead = pass.dead.mark(from.bucket);
    let mut next = from.behind(segment);
    // Marks of versions whose segment was removed count for the previous segment.
    let start = if at == 0 { 0 } else { segment.first };
    let end = later.map_or(Revision::MAX, |later| later.first);
    let ended = ended_versions(&snapshot, &bucket.index, start..end, limit)?;
    drop(snapshot);
    let living = ended.partition_point(|(version, _)| *version <= dead);
    let living = (ended.len() - living) as u64;
    let Some(expected) = worthwhile_len(segment, living, dead)? else {
        return Ok(Next::Segment(next));
    };
    if !disk::has_room(&segment.path, expected) {
        // Logged once per pass, because this may concern hundreds of segments.
        if !next.is_incomplete {
            tracing::warn!(
                file = %segment.path.display(),
                "there is no room on the disk to replace this file by a shorter one; its space is not released yet"
            );
        }
        next.is_incomplete = true;
        return Ok(Next::Segment(next));
    }
    let rewrite = Rewrite {
        engine,
        segment,
        buckets: &published.buckets,
        swept: &published.state.swept,
        limit,
        dead,
        ended: &ended,
        kept: Vec::new(),
        scratch: Scratch::default(),
        end: None,
        is_removable: later.is_some() && segment.number() + 1 < published.number,
    };
    let mut output = Output::default();
    let outcome = rewrite.run(&mut output, pause);
    output.discard();
    let gone = gone_versions(segment, &outcome, &ended)?;
    match outcome? {
        Outcome::Ended => return Ok(Next::Ended),
        Outcome::Kept => {}
        Outcome::Replaced => {
            next.has_swept |= segment.first <= dead;
            add_loose(&segments, at, &ended);
        }
    }
    remove_marks(engine, &bucket.index, &gone).map_err(|error| {
        engine.index.distrust(&error);
        fault(error)
    })?;
    Ok(Next::Segment(next))
}

/// The versions with a mark in a range of revisions that ended by a limit, each with the revision
/// of its end.
fn ended_versions(
    snapshot: &Snapshot,
    tree: &Tree,
    versions: Range<Revision>,
    limit: Revision,
) -> Result<Vec<(Revision, Revision)>, Fault> {
    let marks = &ended_key(versions.start)[..]..&ended_key(versions.end)[..];
    let mut ended = Vec::new();
    for entry in snapshot.range(tree, marks) {
        let (key, by) = key_value_of(entry)?;
        let by = trailing_revision(&by)?;
        if by <= limit {
            ended.push((trailing_revision(&key)?, by));
        }
    }
    Ok(ended)
}

/// The ended versions that the log no longer has, so that their marks can be removed.
fn gone_versions(
    segment: &Arc<Segment>,
    outcome: &Result<Outcome, Failure>,
    ended: &[(Revision, Revision)],
) -> Result<Vec<Revision>, Fault> {
    let mut gone = Vec::new();
    let mut scratch = Scratch::default();
    for (version, _) in ended {
        let is_gone = match outcome {
            Ok(Outcome::Replaced) => true,
            // The version was removed in an earlier pass, and its mark was not.
            Ok(Outcome::Kept) => segment.version(*version, &mut scratch)?.is_none(),
            _ => false,
        };
        if is_gone {
            gone.push(*version);
        }
    }
    Ok(gone)
}

/// Counts ends of removed versions in the later segments that have these ends.
fn add_loose(segments: &[Arc<Segment>], at: usize, ended: &[(Revision, Revision)]) {
    for (_, by) in ended {
        let next = segments.partition_point(|segment| segment.first <= *by);
        if let Some(told_in) = next.checked_sub(1).filter(|told_in| *told_in > at)
            && let Some(told_in) = segments.get(told_in)
        {
            told_in.add_loose();
        }
    }
}

/// Estimated length after a rewrite; `None` if it would reclaim too little. `ended` is the number
/// of ended versions. Versions up to the revision `dead` are garbage as well.
fn worthwhile_len(
    segment: &Arc<Segment>,
    ended: u64,
    dead: Revision,
) -> Result<Option<u64>, Fault> {
    let len = segment.len();
    let loose = segment.loose();
    if len <= TINY {
        // There may be only a last frame, which an earlier rewrite kept.
        let has_entries = segment.last() >= segment.first;
        return Ok(has_entries.then_some(len));
    }
    let swept = segment.offset(dead.saturating_add(1));
    if ended + swept == 0 && loose == Some(0) {
        return Ok(None);
    }
    let middle = segment.first + segment.last().saturating_sub(segment.first) / 2;
    let mut sample = Sample::of(segment, middle)?;
    if sample.versions == 0 {
        sample = Sample::of(segment, segment.first)?;
    }
    let version_len = sample.version_bytes / sample.versions.max(1) + ENTRY_LEN;
    // Without a count, all ends count as garbage: perhaps none is needed.
    let told = sample.other_bytes.saturating_mul(len) / sample.bytes().max(1);
    let loose = loose.map_or(told, |loose| loose * ENTRY_LEN);
    let gain = swept + ended * version_len + loose;
    Ok((gain >= len / GAIN).then(|| len.saturating_sub(gain)))
}

/// A sample of a segment's entries.
#[derive(Default)]
struct Sample {
    versions: u64,
    version_bytes: u64,
    other_bytes: u64,
}

impl Sample {
    fn of(segment: &Arc<Segment>, from: Revision) -> Result<Self, Fault> {
        let mut walk = Walk::new(Arc::clone(segment), from);
        let mut sample = Self::default();
        for _ in 0..SAMPLE {
            let Some(entry) = walk.next()? else {
                break;
            };
            let len = entry.content.len() as u64;
            if entry.kind == Kind::Version {
                sample.versions += 1;
                sample.version_bytes += len;
            } else {
                sample.other_bytes += len + ENTRY_LEN;
            }
        }
        Ok(sample)
    }

    fn bytes(&self) -> u64 {
        self.version_bytes + self.versions * ENTRY_LEN + self.other_bytes
    }
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
    buckets: &'a Buckets,
    /// The current swept position.
    swept: &'a Swept,
    limit: Revision,
    /// Versions of this segment up to this revision were swept at the limit.
    dead: Revision,
    /// Versions that ended up to the limit, with their ends, in order.
    ended: &'a [(Revision, Revision)],
    /// Versions of this segment that stay, in order.
    kept: Vec<Revision>,
    scratch: Scratch,
    /// The segment's last frame if it has no entries left; it stays if nothing else does.
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
        let mut frames = segment.frames().map_err(io_fault)?;
        loop {
            let (more, took) = timed(|| self.piece(&mut frames, output));
            if !more? {
                break;
            }
            if !pause(took) {
                return Ok(Outcome::Ended);
            }
        }
        // Entries that could not be removed this time are not counted again.
        segment.looked_at();
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
        // Readers of the old segment continue to read it.
        segment.keep_open().map_err(io_fault)?;
        let replaced = self.engine.replace_segment(segment, new);
        replaced.map_err(Failure::Unknown)?;
        Ok(Outcome::Replaced)
    }

    /// Does part of the work. Returns whether there is more.
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

    /// Rebuilds a frame from the entries that stay.
    fn frame(&mut self, mut entries: &[u8]) -> Result<Frame, Fault> {
        let mut frame = Frame::default();
        while !entries.is_empty() {
            let (entry, len) = frame::read_entry(entries, self.segment.bucket)
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
                if ended.is_ok() || revision <= self.dead {
                    return self.leave_out(revision, content, frame);
                }
                self.kept.push(revision);
                true
            }
            Kind::Replaced => {
                let bucket = self.segment.bucket;
                revision > self.limit || self.needs_end(entry.replaced()?, bucket)?
            }
            Kind::Ends => {
                let ends = entry.ends()?;
                let last = revision.saturating_add(ends.versions.len() as u64);
                let mut is_needed = last.saturating_sub(1) > self.limit;
                for version in &ends.versions {
                    is_needed = is_needed || self.needs_end(*version, ends.bucket)?;
                }
                is_needed
            }
        };
        if is_needed {
            frame.push(self.segment.bucket, kind, revision, content);
        }
        Ok(())
    }

    /// Removes a version, but keeps the end of the version that it replaced.
    fn leave_out(
        &mut self,
        revision: Revision,
        content: &[u8],
        frame: &mut Frame,
    ) -> Result<(), Fault> {
        let own = self.segment.bucket;
        let previous = Version::decode(content, revision, own)?.previous;
        // A bucket that is dropped later has the end itself.
        if let Some((version, bucket)) = previous
            && bucket <= own
            && self.needs_end(version, bucket)?
        {
            let ends = Ends {
                expired: false,
                bucket,
                versions: vec![version],
            };
            frame.push(own, Kind::Ends, revision, &ends.encode());
        }
        Ok(())
    }

    /// Whether a version's end must stay in the log. It must if the version may still be in the
    /// log, now or after a power cut, and the state does not cover its end.
    fn needs_end(&mut self, version: Revision, bucket: u64) -> Result<bool, Fault> {
        if self.swept.has(bucket, version) {
            return Ok(false);
        }
        if bucket == self.segment.bucket && version >= self.segment.first {
            return Ok(self.kept.binary_search(&version).is_ok());
        }
        let Some(bucket) = self.buckets.get(&bucket) else {
            return Ok(false);
        };
        Ok(bucket.log.version(version, &mut self.scratch)?.is_some())
    }
}

/// The new segment in progress. Its file is created with the first write.
#[derive(Default)]
struct Output {
    segment: Option<Segment>,
    /// Frames that are not written yet, with their numbers.
    waiting: Vec<(Built, u64)>,
    waiting_len: usize,
    len: u64,
    synced: u64,
}

impl Output {
    fn push(&mut self, rewrite: &Rewrite<'_>, frame: Frame, header: &Header) -> io::Result<()> {
        let built = frame.build(rewrite.segment.bucket, header);
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
            None => rewrite.engine.log.create_beside(old)?,
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
            if rewrite.segment.is_retired() {
                segment.retire();
            }
        }
        Ok(self.segment.take())
    }

    /// Removes the file, unless it has replaced the old segment.
    fn discard(&mut self) {
        if let Some(segment) = self.segment.take()
            && let Err(error) = disk::remove(&segment.path)
        {
            tracing::warn!(file = %segment.path.display(), %error, "failed to remove what was written of a segment");
        }
    }
}
