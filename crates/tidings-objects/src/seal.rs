//! Seals what was observed: versions become files, and a manifest names them.
//!
//! Invariants: the manifest says up to where versions are sealed, in the same write that makes the
//! files part of the archive, so that the end of the process at any moment neither skips nor
//! doubles one; only the store that the manifest names continues an archive, and only behind a
//! manifest that it noted before it wrote it; what cannot be undone uses the time up to which the
//! store believes its clock; a file that cannot be merged keeps nothing else from being sealed.
//! Memory: a part of events with its columns, or what was not read yet of the files that are
//! merged, and the one they become; of one cluster at a time. Processor time: what the rest of the
//! process leaves.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use tidings_archive::{Cluster, JournalError, NotSealed, Part, SealedVersion, Unsealed};
use tidings_store::clock::Clock;
use tokio::sync::Semaphore;

use crate::background;
use crate::clean;
use crate::described::{Described, checksum, random_id};
use crate::erase::{self, Deleted, EVENTS_AT_ONCE, Erasing};
use crate::file::read::{FileError, Reader};
use crate::file::rollup::Rollup;
use crate::file::write::Writer;
use crate::folder::{Folder, FolderError};
use crate::manifest::{self, File, Manifest};
use crate::merge::{self, FILE_BYTES_MAX};
use crate::place::Place;
use crate::row::{Row, Version};

/// Versions that are sealed at once, however short they have waited.
const VERSIONS_MAX: u64 = 20_000;
/// How often it is looked whether there is something to seal.
const LOOK: Duration = Duration::from_secs(5);
/// How long a seal that failed is waited with.
const RETRY: Duration = Duration::from_secs(15);
/// How long a seal that the archive refuses is waited with: only what an operator does about it
/// changes that.
const REFUSED: Duration = Duration::from_secs(60);
/// Files that are written without deleted events before it is looked again what is to be sealed.
const ERASED_AT_ONCE: u64 = 4;
/// Bytes that a merged file may have beyond those of the files that it is made of, or of a row
/// group beyond where it ends.
const ROOM_BYTES: usize = 2 << 20;

/// How a cluster is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealOptions {
    /// How long a version waits at most. Default: 20 minutes.
    pub interval: Duration,
    /// How long files are kept after the last of their versions was observed, by the time up to
    /// which the cluster's store believes its clock. Default: for ever.
    pub keep_for: Option<Duration>,
    /// Maximum bytes of the cluster's files and their rollups, above which those go whose last
    /// version was observed longest ago; the latest file stays. Files that are left for their
    /// readers are not counted. Default: no maximum.
    pub quota: Option<u64>,
    /// How long a file that is no longer part of the archive is left for those who read it.
    /// Default: a day.
    pub grace: Duration,
    /// Bytes of events from which on no more are sealed together: with their columns they take
    /// about four times the memory. Default: 8 MiB.
    pub part_bytes: usize,
}

impl Default for SealOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(20 * 60),
            keep_for: None,
            quota: None,
            grace: Duration::from_secs(24 * 3600),
            part_bytes: 8 << 20,
        }
    }
}

/// Why nothing was sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The storage did not do as it should.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The cluster's store could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file could not be made, or not be read to be merged.
    #[error(transparent)]
    File(#[from] FileError),
    /// Making a file panicked, or there was no thread for it; the log says which.
    #[error("a file could not be made")]
    NotMade,
    /// The archive belongs to another one.
    #[error(
        "the archive of {cluster:?} there is of another data folder (its store is {writer}): seal to another URL or under another name; if that folder is lost, this one can continue the archive (--objects-continue)"
    )]
    Foreign {
        /// The cluster's name.
        cluster: String,
        /// The identity of the other store.
        writer: String,
    },
    /// The newest manifest is not one that the store wrote.
    #[error(
        "the data folder is older than what it sealed: manifest {number} of {cluster:?} names it, and it did not write it. It was restored from a copy, or the storage was changed: nothing is sealed, and everything keeps waiting; --objects-continue seals it behind what is there"
    )]
    Older {
        /// The cluster's name.
        cluster: String,
        /// The number of the manifest.
        number: u64,
    },
}

impl SealError {
    /// Whether it stays so until an operator does something about it.
    fn is_refused(&self) -> bool {
        let replaces = matches!(self, Self::Folder(FolderError::Replaces));
        replaces || matches!(self, Self::Foreign { .. } | Self::Older { .. })
    }
}

/// Why some files were not merged.
enum MergeError {
    /// These cannot be, and would not the next time.
    Damaged { paths: Vec<String>, why: String },
    /// The storage did not do as it should, or a thread panicked.
    Seal(SealError),
}

impl From<SealError> for MergeError {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

/// What was done at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealed {
    /// Versions that are sealed.
    pub versions: u64,
    /// Files they are in.
    pub files: u64,
    /// Files that were merged.
    pub merged: u64,
    /// Files that were written anew, without events that were deleted in the archive.
    pub erased: u64,
    /// Objects that were deleted.
    pub deleted: u64,
}

/// When it is sealed, however few versions wait.
#[derive(Default)]
struct Schedule {
    /// When the last attempt began; `None` if it failed, or none was made. What it left would
    /// otherwise wait anew, and be said not to be sealed for as long.
    sealed_at: Option<Duration>,
}

impl Schedule {
    fn is_due(&self, now: Duration, interval: Duration) -> bool {
        let sealed_at = self.sealed_at;
        sealed_at.is_none_or(|at| now >= interval.saturating_add(at))
    }

    /// An attempt that began then has ended.
    fn ended(&mut self, began: Duration, is_sealed: bool) {
        self.sealed_at = is_sealed.then_some(began);
    }
}

/// Seals one cluster.
pub struct Sealer {
    cluster: Arc<str>,
    writer: String,
    /// The identity of the archive, if it is begun.
    begins: String,
    unsealed: Unsealed,
    folder: Folder,
    clock: Arc<dyn Clock>,
    options: SealOptions,
    /// Shared by all clusters of the place.
    turn: Arc<Semaphore>,
    /// When leavings are looked for next, in milliseconds of the steady clock.
    look_at: AtomicU64,
    /// Paths of files that could not be merged. They are tried again when leavings are looked for.
    damaged: Mutex<HashSet<String>>,
    /// The deleted events that are looked for.
    erasing: tokio::sync::Mutex<Erasing>,
    /// Whether more files may have some of them.
    is_erasing: AtomicBool,
    /// Whether it was said that the manifest is large.
    is_large: AtomicBool,
}

impl Sealer {
    /// Of a cluster that was opened with `seal`.
    pub fn new(
        place: &Place,
        cluster: &Cluster,
        clock: Arc<dyn Clock>,
        options: SealOptions,
    ) -> Self {
        Self {
            cluster: cluster.name().into(),
            writer: cluster.store_identity().to_owned(),
            begins: random_id(),
            unsealed: cluster.unsealed(),
            folder: Folder::new(place, cluster.name()),
            clock,
            options,
            turn: Arc::clone(&place.turn),
            look_at: AtomicU64::new(0),
            damaged: Mutex::default(),
            erasing: tokio::sync::Mutex::default(),
            is_erasing: AtomicBool::new(false),
            is_large: AtomicBool::new(false),
        }
    }

    /// Seals until it is dropped.
    pub async fn run(self) {
        let cluster = &*self.cluster;
        let mut schedule = Schedule::default();
        let (mut is_failing, mut is_warned) = (false, false);
        let mut refused = None;
        loop {
            let now = self.clock.steady();
            let is_due = schedule.is_due(now, self.options.interval);
            let is_due = is_due || self.is_erasing.load(Ordering::Relaxed);
            if !is_due && self.unsealed.waiting().unwrap_or(0) < VERSIONS_MAX {
                tokio::time::sleep(LOOK.min(self.options.interval)).await;
                continue;
            }
            let sealed = self.seal().await;
            schedule.ended(now, sealed.is_ok());
            match sealed {
                Ok(sealed) => {
                    if is_failing || sealed != Sealed::default() {
                        let Sealed {
                            versions,
                            files,
                            merged,
                            erased,
                            deleted,
                        } = sealed;
                        tracing::info!(cluster, versions, files, merged, erased, deleted, "sealed");
                    }
                    (is_failing, refused) = (false, None);
                    is_warned = is_warned || self.warn_of_short_lives();
                }
                Err(error) if error.is_refused() => {
                    let why = Some(error.to_string());
                    if refused != why {
                        tracing::error!(cluster, %error, "nothing is sealed");
                    }
                    (is_failing, refused) = (true, why);
                    tokio::time::sleep(REFUSED).await;
                }
                Err(error) => {
                    is_failing = true;
                    let waiting = self.unsealed.waiting().unwrap_or(0);
                    tracing::warn!(cluster, %error, waiting, "not sealed yet; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Says that events may end at the source before it can be asked for them again, if they do.
    /// Whether that was said.
    fn warn_of_short_lives(&self) -> bool {
        let (cluster, interval) = (&*self.cluster, self.options.interval);
        let Some(lived) = self.unsealed.longest_life() else {
            return false;
        };
        let is_short = lived < interval.saturating_mul(2);
        if is_short {
            tracing::warn!(
                cluster,
                lived_seconds = lived.as_secs(),
                seal_after_seconds = interval.as_secs(),
                "events live at the cluster for less than twice the time after which they are sealed: if the data \
                 folder is lost, some cannot be read there again; --seal-after should be half as long as they live"
            );
        }
        is_short
    }

    /// Seals everything that waits, merges what is to be merged, takes events out that were deleted
    /// in the archive, and deletes what is over. What is observed meanwhile waits for the next
    /// time: otherwise a busy cluster would be sealed without an end, a few versions at a time.
    /// Where many files have deleted events, some of these wait for the next time, too.
    ///
    /// # Errors
    /// What was done before is done; it continues from there. [`Unsealed::failure`] has the error
    /// until the next time.
    pub async fn seal(&self) -> Result<Sealed, SealError> {
        let sealed = self.seal_all().await;
        if let Err(SealError::Folder(FolderError::Full { .. })) = &sealed {
            // What is over goes nevertheless: then there is room again.
            let cleaned = match self.newest().await {
                Ok(manifest) => self.clean(&manifest).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = cleaned {
                tracing::warn!(cluster = &*self.cluster, %error, "not deleted yet");
            }
        }
        self.tell_manifest_bytes();
        let failure = sealed.as_ref().err().map(|error| NotSealed {
            why: error.to_string(),
            is_older: matches!(error, SealError::Older { .. }),
        });
        self.unsealed.set_failure(failure);
        sealed
    }

    /// Says how large the manifest has become, long before it is as large as it can be.
    fn tell_manifest_bytes(&self) {
        let bytes = self.folder.manifest_bytes();
        self.unsealed.set_manifest_bytes(bytes);
        let is_large = bytes > manifest::BYTES_MAX / 2;
        if is_large && !self.is_large.swap(is_large, Ordering::Relaxed) {
            let (cluster, bytes_max) = (&*self.cluster, manifest::BYTES_MAX);
            let what = "the manifest is half as large as it can be: shorten --objects-ttl or --objects-quota";
            tracing::warn!(cluster, bytes, bytes_max, "{what}");
        }
    }

    async fn seal_all(&self) -> Result<Sealed, SealError> {
        let mut sealed = Sealed::default();
        let mut manifest = self.newest().await?;
        // Those whose entries were not taken out before the process ended.
        self.unsealed.sealed(manifest.sealed_through).await?;
        let (mut merges, mut is_all) = (true, false);
        loop {
            // After each part, so that one who fell behind leaves no more files than others.
            merges = merges && self.merge_small(&mut manifest, &mut sealed).await;
            if is_all {
                break;
            }
            // It is not closed.
            let _turn = self.turn.acquire().await.ok();
            let part = self.unsealed.next(self.options.part_bytes).await?;
            let Some(part) = part else {
                break;
            };
            let through = part.through;
            is_all = part.is_whole;
            if let Some(next) = self.seal_part(&manifest, part, &mut sealed).await? {
                manifest = next;
            }
            self.unsealed.sealed(through).await?;
        }
        let is_erasing = match self.erase(&mut manifest, &mut sealed).await {
            Ok(is_erasing) => is_erasing,
            Err(error) => {
                let cluster = &*self.cluster;
                let what = "deleted events are not out of all files yet; it is tried again";
                tracing::warn!(cluster, %error, "{what}");
                false
            }
        };
        self.is_erasing.store(is_erasing, Ordering::Relaxed);
        match self.clean(&manifest).await {
            Ok(deleted) => sealed.deleted = deleted,
            Err(error) if error.is_refused() => return Err(error),
            // Everything is sealed, whatever cannot be deleted.
            Err(error) => {
                let cluster = &*self.cluster;
                tracing::warn!(cluster, %error, "not deleted yet; it is tried again");
            }
        }
        Ok(sealed)
    }

    /// The newest manifest, if this store may continue it.
    async fn newest(&self) -> Result<Manifest, SealError> {
        self.folder.probe().await?;
        let Some(newest) = self.folder.newest().await? else {
            let archive = self.begins.clone();
            return Ok(Manifest::empty(&self.cluster, &self.writer, archive));
        };
        if newest.writer != self.writer {
            return Err(SealError::Foreign {
                cluster: self.cluster.to_string(),
                writer: newest.writer,
            });
        }
        let archive = newest.archive.as_deref();
        if !self
            .unsealed
            .has_committed(archive, &newest.commit())
            .await?
        {
            return Err(SealError::Older {
                cluster: self.cluster.to_string(),
                number: newest.number,
            });
        }
        Ok(newest)
    }

    /// Writes the manifest that follows another one, which is noted first.
    async fn commit(&self, before: &Manifest, next: &Manifest) -> Result<(), SealError> {
        note(&self.unsealed, before, next).await?;
        Ok(self.folder.commit(next).await?)
    }

    /// Makes files of some versions; the manifest that names them, if there are any.
    async fn seal_part(
        &self,
        manifest: &Manifest,
        part: Part,
        sealed: &mut Sealed,
    ) -> Result<Option<Manifest>, SealError> {
        let (cluster, versions) = (Arc::clone(&self.cluster), part.versions);
        let rows = background::run(move || rows(&cluster, versions)).await;
        let (rows, unreadable) = rows.map_err(|_| SealError::NotMade)?;
        let gone = part.gone + unreadable;
        if rows.is_empty() && gone == 0 {
            return Ok(None);
        }
        let versions = rows.len() as u64;
        let written = write(&self.folder, (0, false), 0, rows.into_iter().map(Ok));
        let files = written.await?;
        let mut next = manifest.next(random_id(), self.now());
        sealed.versions += versions;
        sealed.files += files.len() as u64;
        next.sealed_through = part.through;
        next.gone += gone;
        let latest = files.iter().map(|file| file.to).max();
        next.sealed_until = next.sealed_until.max(latest.unwrap_or_default());
        if !part.positions.is_empty() {
            next.positions = part.positions;
            next.gaps = part.gaps;
        }
        next.add(files);
        self.commit(manifest, &next).await?;
        Ok(Some(next))
    }

    /// Merges what is to be merged. Files that are damaged are passed over and said in the log, as
    /// is why the others cannot be merged now: `false`.
    async fn merge_small(&self, manifest: &mut Manifest, sealed: &mut Sealed) -> bool {
        let cluster = &*self.cluster;
        loop {
            let group = merge::group(&manifest.files, &self.damaged.lock());
            let Some(group) = group else {
                return true;
            };
            match self.merge(manifest, &group).await {
                Ok(next) => {
                    *manifest = next;
                    sealed.merged += group.len() as u64;
                }
                Err(MergeError::Damaged { paths, why }) => {
                    tracing::error!(cluster, files = paths.join(" "), why, "not merged");
                    self.damaged.lock().extend(paths);
                }
                Err(MergeError::Seal(error)) => {
                    tracing::warn!(cluster, %error, "not merged yet; it is tried again");
                    return false;
                }
            }
        }
    }

    /// Puts the rows of some files into new ones, which stand for them.
    async fn merge(&self, manifest: &Manifest, group: &[File]) -> Result<Manifest, MergeError> {
        let level = group.iter().map(|file| file.level).max().unwrap_or(0) + 1;
        let (files, _) = self.rewrite(group, level, Arc::default()).await?;
        self.replace(manifest, group, files, 0).await
    }

    /// Writes files anew that have versions of deleted events, without these: some of them, so that
    /// what is observed meanwhile does not wait. Whether there may be more.
    async fn erase(&self, manifest: &mut Manifest, sealed: &mut Sealed) -> Result<bool, SealError> {
        let cluster = &*self.cluster;
        let mut erasing = self.erasing.lock().await;
        erasing.resume();
        loop {
            if !erasing.is_begun() {
                let events = self.unsealed.unerased(erasing.after(), EVENTS_AT_ONCE);
                let events = events.await?;
                if events.is_empty() {
                    return Ok(false);
                }
                erasing.begin(events);
            }
            loop {
                let next = erasing.next_file(&manifest.files, &self.damaged.lock());
                let Some(file) = next else {
                    break;
                };
                if erasing.is_to_pause() {
                    return Ok(true);
                }
                let deleted = erasing.deleted();
                let has = erase::has(&self.folder, &file, &deleted).await;
                if has.as_ref().is_ok_and(|has| !has) {
                    erasing.has_none(&file);
                    continue;
                }
                // Others are as slow. What else is wrong is found out with the whole file.
                if has.as_ref().is_err_and(erase::LookError::is_slow) {
                    return Err(FolderError::Slow.into());
                }
                if sealed.erased == ERASED_AT_ONCE {
                    return Ok(true);
                }
                match self.erase_from(manifest, &file, deleted).await {
                    Ok(true) => sealed.erased += 1,
                    Ok(false) => erasing.has_none(&file),
                    Err(MergeError::Damaged { paths, why }) => {
                        let files = paths.join(" ");
                        tracing::error!(cluster, files, why, "may still have deleted events");
                        self.damaged.lock().extend(paths);
                    }
                    Err(MergeError::Seal(error)) => return Err(error),
                }
            }
            // A manifest that names a file of before the events were deleted, and whose request was
            // held up, has the number of this one or an earlier one, and is not written any more.
            let mut next = manifest.next(random_id(), self.now());
            next.purged = next.number;
            next.purging = Some(false);
            self.commit(manifest, &next).await?;
            *manifest = next;
            let erased = erasing.end(&manifest.files);
            self.unsealed.erased(&erased).await?;
        }
    }

    /// Puts the rows of a file into a new one, without those of deleted events, if it has any. A
    /// manifest announces it: a reader that cannot read those that follow is not to show these.
    async fn erase_from(
        &self,
        manifest: &mut Manifest,
        file: &File,
        deleted: Arc<Deleted>,
    ) -> Result<bool, MergeError> {
        let group = std::slice::from_ref(file);
        let (files, taken) = self.rewrite(group, file.level, deleted).await?;
        if taken == 0 {
            // Nothing names the new one.
            return Ok(false);
        }
        if manifest.purging != Some(true) {
            let mut next = manifest.next(random_id(), self.now());
            next.purging = Some(true);
            self.commit(manifest, &next).await?;
            *manifest = next;
        }
        *manifest = self.replace(manifest, group, files, taken).await?;
        Ok(true)
    }

    /// New files of a level with the rows of some, without those of deleted events; and how many
    /// these were.
    async fn rewrite(
        &self,
        group: &[File],
        level: u32,
        deleted: Arc<Deleted>,
    ) -> Result<(Vec<File>, u64), MergeError> {
        // It is not closed.
        let _turn = self.turn.acquire().await.ok();
        let mut files = Vec::with_capacity(group.len());
        for file in group {
            let damaged = |why| MergeError::Damaged {
                paths: vec![file.path.clone()],
                why,
            };
            let bytes = self.folder.whole(&file.path, file.bytes, &file.checksum);
            let bytes = bytes.await.map_err(SealError::Folder)?;
            let (cluster, bytes) = (Arc::clone(&self.cluster), bytes.map_err(damaged)?);
            // What is not needed of a file is let go before the next one is read.
            let rest = background::run(move || Reader::new(&cluster, bytes)?.rest()).await;
            let rest = rest.map_err(|_| SealError::NotMade)?;
            files.push(rest.map_err(|error| damaged(error.to_string()))?);
        }
        let of_group = |error: SealError| match error {
            SealError::File(error) => MergeError::Damaged {
                paths: group.iter().map(|file| file.path.clone()).collect(),
                why: error.to_string(),
            },
            error => MergeError::Seal(error),
        };
        let rows = background::run(move || merge::Merged::new(files)).await;
        let rows = rows.map_err(|_| SealError::NotMade)?;
        let rows = rows.map_err(SealError::File).map_err(of_group)?;
        let (rows, taken) = erase::without(rows, deleted);
        let bytes: u64 = group.iter().map(|file| file.bytes).sum();
        let is_last = merge::is_last(level, bytes);
        let files = write(&self.folder, (level, is_last), bytes, rows).await;
        let files = files.map_err(of_group)?;
        let taken = *taken.lock();
        let total = |files: &[File]| files.iter().map(|file| file.rows).sum::<u64>();
        let sum = merge::sum(&files).map(|sum| sum.wrapping_add(taken.sum));
        if total(&files) + taken.rows != total(group) || sum != merge::sum(group) {
            // What is there stays, and nothing names the new ones.
            return Err(of_group(FileError::Order.into()));
        }
        Ok((files, taken.rows))
    }

    /// The manifest in which files stand for others, without versions of deleted events that these
    /// had.
    async fn replace(
        &self,
        manifest: &Manifest,
        group: &[File],
        files: Vec<File>,
        forgotten: u64,
    ) -> Result<Manifest, MergeError> {
        let now = self.now();
        let mut next = manifest.next(random_id(), now);
        let paths: BTreeSet<_> = group.iter().map(|file| file.path.clone()).collect();
        next.remove(&paths, now);
        next.add(files);
        next.forgotten = next.forgotten.saturating_add(forgotten);
        self.commit(manifest, &next).await?;
        Ok(next)
    }

    /// Takes out what is over: what was kept for its time, and then what is too much. Nothing waits
    /// that was there before, so that what is taken out is older than all that is to come.
    async fn take_out(&self, manifest: &Manifest) -> Result<Manifest, SealError> {
        let now = self.now();
        let mut next = manifest.next(random_id(), now);
        if let Some(keep_for) = self.options.keep_for {
            let before = ago(self.believed(), keep_for);
            let over = next.files.iter().filter(|file| file.to <= before);
            let over: BTreeSet<_> = over.map(|file| file.path.clone()).collect();
            next.remove(&over, now);
        }
        let too_many = self.options.quota.map(|quota| next.beyond(quota));
        let too_many = too_many.unwrap_or_default();
        next.remove_over_quota(&too_many, now);
        if next.files.len() == manifest.files.len() {
            return Ok(manifest.clone());
        }
        // No manifest names them any more when the first of them is deleted, even if there is no
        // grace.
        self.commit(manifest, &next).await?;
        if !too_many.is_empty() {
            let (cluster, files) = (&*self.cluster, too_many.len());
            let versions = next.over_quota.versions - manifest.over_quota.versions;
            tracing::info!(cluster, files, versions, "taken out to keep the quota");
        }
        Ok(next)
    }

    /// Deletes what is over; how many objects.
    async fn clean(&self, manifest: &Manifest) -> Result<u64, SealError> {
        let newest = self.take_out(manifest).await?;
        let before = ago(self.believed(), self.options.grace);
        let mut next = newest.next(random_id(), self.now());
        let (mut deleted, mut failure) = clean::removed(&self.folder, &mut next, before).await;
        if next.removed != newest.removed {
            self.commit(&newest, &next).await?;
        }
        // Nothing is left for so short that it has to be looked for more often.
        let at = u64::try_from(self.clock.steady().as_millis()).unwrap_or(u64::MAX);
        let pause = u64::try_from(self.options.grace.as_millis()).unwrap_or(u64::MAX) / 24;
        let is_slow = failure.as_ref().is_some_and(FolderError::is_slow);
        if !is_slow && at >= self.look_at.load(Ordering::Relaxed) {
            let left = clean::Leavings::find(&self.folder, before).await?;
            // Read after they were found: what another store sealed meanwhile, if it took the place
            // of this one while this one was held up, is not among them or is named.
            let newest = self.newest().await?;
            let (more, failed) = left.delete(&self.folder, &newest).await;
            deleted += more;
            failure = failure.or(failed);
            self.damaged.lock().clear();
            self.erasing.lock().await.again();
            self.look_at
                .store(at.saturating_add(pause), Ordering::Relaxed);
        }
        // One that cannot be deleted has kept no other one.
        failure.map_or(Ok(deleted), |failure| Err(failure.into()))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.clock.now().0).unwrap_or_default()
    }

    /// The time up to which the store believes its clock: what is deleted by the clock's own would
    /// be gone though that was wrong for a moment only.
    fn believed(&self) -> Timestamp {
        let at = self.unsealed.confirmed();
        Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::MIN)
    }
}

/// Notes in a store that it is about to write a manifest behind another one.
pub(crate) async fn note(
    unsealed: &Unsealed,
    before: &Manifest,
    next: &Manifest,
) -> Result<(), JournalError> {
    let archive = next.archive.as_deref().unwrap_or_default();
    let (before, next) = (before.commit(), next.commit());
    unsealed.begin_commit(archive, &before, next).await
}

/// The rows of versions, in their order; and how many versions cannot be read.
pub(crate) fn rows(cluster: &Arc<str>, versions: Vec<SealedVersion>) -> (Vec<Row>, u64) {
    let mut rows = Vec::with_capacity(versions.len());
    let mut unreadable = 0;
    for version in versions {
        match Row::new(cluster, of(version)) {
            Ok(row) => rows.push(row),
            Err(error) => {
                unreadable += 1;
                tracing::warn!(cluster = &**cluster, %error, "a version is not sealed");
            }
        }
    }
    rows.sort_unstable_by(Row::order);
    rows.dedup_by(|one, other| one.is_same(other));
    (rows, unreadable)
}

/// Writes rows, which are sorted, as files of a level, which may be the last ones of these rows.
/// `bytes` is about how long they are together, or 0 if that is not known.
pub(crate) async fn write(
    folder: &Folder,
    (level, is_last): (u32, bool),
    bytes: u64,
    rows: impl Iterator<Item = Result<Row, FileError>> + Send + 'static,
) -> Result<Vec<File>, SealError> {
    let mut files = Vec::new();
    let mut rows = rows.peekable();
    let mut expected = usize::try_from(bytes).unwrap_or(usize::MAX);
    while rows.peek().is_some() {
        let room = match expected {
            0 => 0,
            expected => expected.min(FILE_BYTES_MAX) + ROOM_BYTES,
        };
        let encoded = background::run(move || {
            let writer = Writer::with_room(is_last, room).map_err(FileError::from);
            let encoded =
                writer.and_then(|writer| encode(writer, level, FILE_BYTES_MAX, &mut rows));
            encoded.map(|encoded| (encoded, rows))
        });
        let (encoded, left) = encoded.await.map_err(|_| SealError::NotMade)??;
        rows = left;
        let Encoded { file, parts } = encoded;
        expected = expected.saturating_sub(parts[0].len());
        for (path, bytes) in file.paths().zip(parts) {
            folder.create(&folder.path(path), bytes).await?;
        }
        files.push(file);
    }
    Ok(files)
}

/// A file and its rollup, in the order in which they are written.
struct Encoded {
    file: File,
    parts: [Bytes; 2],
}

/// A file of the first rows, which ends with the row group that reaches a number of bytes, and its
/// rollup.
fn encode(
    writer: Writer,
    level: u32,
    bytes_max: usize,
    rows: &mut impl Iterator<Item = Result<Row, FileError>>,
) -> Result<Encoded, FileError> {
    let mut rollup = Rollup::new()?;
    let (mut file, bytes) = encode_rows(writer, level, bytes_max, rows, |row| rollup.add(row))?;
    let rollup = rollup.finish()?;
    file.rollup = Some(manifest::Rollup {
        path: file.path.replacen("events/", "rollups/", 1),
        bytes: rollup.len() as u64,
        checksum: checksum(&rollup),
    });
    let parts = [bytes, rollup.into()];
    Ok(Encoded { file, parts })
}

/// The same without a rollup; each row is shown once.
pub(crate) fn encode_rows(
    mut writer: Writer,
    level: u32,
    bytes_max: usize,
    rows: &mut impl Iterator<Item = Result<Row, FileError>>,
    mut show: impl FnMut(&Row) -> Result<(), ParquetError>,
) -> Result<(File, Bytes), FileError> {
    let mut file = Described::default();
    while !writer.is_full(bytes_max)
        && let Some(row) = rows.next()
    {
        let row = row?;
        file.add(&row);
        show(&row)?;
        writer.push(row)?;
    }
    let bytes = writer.finish()?;
    Ok((file.file(level, &bytes), bytes.into()))
}

fn of(version: SealedVersion) -> Version {
    Version {
        epoch: version.epoch,
        number: version.version,
        observed_at: version.observed_at.0,
        object: version.event,
    }
}

/// So long before a moment.
fn ago(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_sub(signed(time)).unwrap_or(Timestamp::MIN)
}

fn signed(time: Duration) -> SignedDuration {
    // So long that no file is older.
    const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365 * 100);
    SignedDuration::try_from(time).map_or(LONGEST, |time| time.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is made early, as many versions wait, may fail when few of them are left.
    #[test]
    fn an_attempt_to_seal_that_failed_is_made_again_whenever_the_one_before_was() {
        let (seconds, interval) = (Duration::from_secs, Duration::from_secs(60));
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(seconds(0), interval));
        schedule.ended(seconds(1), true);
        assert!(!schedule.is_due(seconds(60), interval));
        assert!(schedule.is_due(seconds(61), interval));
        schedule.ended(seconds(30), false);
        assert!(schedule.is_due(seconds(31), interval));
        schedule.ended(seconds(45), true);
        assert!(!schedule.is_due(seconds(46), interval));
    }
}
