//! Seals observed versions: writes them to files, and then a manifest that names these.
//!
//! Invariants:
//!
//! - The manifest also says up to which feed entry versions are sealed. So the end of the process
//!   at any moment neither skips nor doubles a version.
//! - Only the store that the manifest names continues an archive, and only after a manifest that it
//!   noted before it wrote it.
//! - What cannot be undone uses the store's confirmed time.
//! - A file that cannot be merged does not prevent sealing anything else.
//!
//! Memory, for one cluster at a time: a part of events with its columns, or the unread rest of
//! merged files and the file they become. Files are made at low priority.

use std::collections::{BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use tidings_archive::{Cluster, JournalError, NotSealed, Part, Unsealed};
use tidings_history::Version;
use tidings_store::clock::Clock;
use tokio::sync::Semaphore;

use crate::background;
use crate::clean::{self, Stuck};
use crate::described::{Described, checksum, random_id};
use crate::erase::{self, Deleted, EVENTS_AT_ONCE, Erasing};
use crate::file::read::{FileError, Reader};
use crate::file::rollup::Rollup;
use crate::file::write::Writer;
use crate::folder::{Folder, FolderError};
use crate::manifest::{self, File, Manifest};
use crate::merge::{self, FILE_BYTES_MAX};
use crate::place::Place;
use crate::row::Row;
use crate::schedule::Schedule;
use crate::seal_error::SealError;

/// Number of pending versions that are sealed at once, however short they have waited.
const VERSIONS_MAX: u64 = 20_000;
/// How often the sealer checks whether to seal.
const LOOK: Duration = Duration::from_secs(5);
/// Pause after a failed seal.
const RETRY: Duration = Duration::from_secs(15);
/// Pause after a seal that the archive refuses; only an operator can change that.
const REFUSED: Duration = Duration::from_secs(60);
/// Number of purged files after which sealing pending versions gets its turn.
const ERASED_AT_ONCE: u64 = 4;
/// Bytes that a merged file may have beyond those of its sources, or a row group beyond its end.
const ROOM_BYTES: usize = 2 << 20;

/// Options for sealing a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealOptions {
    /// Maximum time that a version waits to be sealed. Default: 20 minutes.
    pub interval: Duration,
    /// How long files are kept after the last of their versions was observed. Default: for ever. It
    /// is measured by the store's confirmed time.
    pub keep_for: Option<Duration>,
    /// Maximum bytes of the cluster's files and their rollups. Default: no maximum. Above it, those
    /// files are removed whose last version was observed longest ago; the latest file stays. Files
    /// that stay for their readers only are not counted.
    pub quota: Option<u64>,
    /// The grace: how long a removed file stays for those who read it. Default: a day.
    pub grace: Duration,
    /// Bytes of events at which a part ends that is sealed as one. Default: 8 MiB. With their
    /// columns they take about four times this memory.
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

/// Why some files were not merged.
enum MergeError {
    /// These files cannot be read, and could not be the next time.
    Damaged { paths: Vec<String>, why: String },
    /// The object storage failed, or a thread panicked.
    Seal(SealError),
}

impl From<SealError> for MergeError {
    fn from(error: SealError) -> Self {
        Self::Seal(error)
    }
}

/// A file that was replaced by others without versions of deleted events.
struct Rewritten {
    file: File,
    /// The files that replace it.
    files: Vec<File>,
    /// Number of versions that were removed.
    taken: u64,
}

/// What one seal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealed {
    /// Number of versions that were sealed.
    pub versions: u64,
    /// Number of files they were written to.
    pub files: u64,
    /// Number of files that were merged.
    pub merged: u64,
    /// Number of files from which deleted events were purged.
    pub erased: u64,
    /// Number of objects that were deleted.
    pub deleted: u64,
}

/// Seals one cluster.
pub struct Sealer {
    cluster: Arc<str>,
    writer: String,
    /// The identity that a new archive gets.
    begins: String,
    unsealed: Unsealed,
    folder: Folder,
    clock: Arc<dyn Clock>,
    options: SealOptions,
    /// The permit for making files, shared by all clusters of the place.
    turn: Arc<Semaphore>,
    /// When to look for leftovers next, in milliseconds of the monotonic clock.
    look_at: AtomicU64,
    /// Paths of files that could not be merged, until the next look for leftovers.
    damaged: Mutex<HashSet<String>>,
    /// The state of the purge.
    erasing: tokio::sync::Mutex<Erasing>,
    /// Objects that could not be deleted.
    stuck: tokio::sync::Mutex<Stuck>,
    /// Whether the purge has to go on with further files.
    is_erasing: AtomicBool,
    /// Whether the log said that the manifest is large.
    is_large: AtomicBool,
}

impl Sealer {
    /// Makes a sealer of a cluster that was opened with `seal`.
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
            stuck: tokio::sync::Mutex::default(),
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

    /// Warns if events expire at the source too early to be read there again. Returns whether it
    /// warned.
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

    /// Seals everything pending, merges files, purges deleted events, and deletes what expired.
    ///
    /// Versions observed meanwhile wait for the next time: otherwise a busy cluster would be sealed
    /// without an end, a few versions at a time. If many files have deleted events, some of them
    /// wait for the next time, too.
    ///
    /// # Errors
    ///
    /// What was done before the error stays done, and the next call goes on from there.
    /// [`Unsealed::failure`] has the error until then.
    pub async fn seal(&self) -> Result<Sealed, SealError> {
        // The task that seals goes on, and says so.
        let sealed = AssertUnwindSafe(self.seal_all()).catch_unwind().await;
        let sealed = sealed.unwrap_or(Err(SealError::Panicked));
        if let Err(SealError::Folder(FolderError::Full { .. })) = &sealed {
            // Expired files are deleted nevertheless, which may make room.
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

    /// Reports the manifest's size, and warns long before it reaches its maximum.
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
        // Entries that were sealed but not released before the process ended.
        ended(&self.unsealed, &manifest).await?;
        self.unsealed.sealed(manifest.sealed_through).await?;
        let (mut merges, mut is_all) = (true, false);
        loop {
            // Merges after each part, so that a sealer that fell behind leaves no more files than
            // others.
            merges = merges && self.merge_small(&mut manifest, &mut sealed).await;
            if is_all {
                break;
            }
            // The semaphore is never closed.
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
            // Everything is sealed, even if something cannot be deleted.
            Err(error) => {
                let cluster = &*self.cluster;
                tracing::warn!(cluster, %error, "not deleted yet; it is tried again");
            }
        }
        Ok(sealed)
    }

    /// Reads the newest manifest, if this store may continue it.
    async fn newest(&self) -> Result<Manifest, SealError> {
        self.folder.probe().await?;
        let Some(newest) = self.folder.newest().await? else {
            if self.unsealed.has_sealed().await? {
                return Err(SealError::Gone {
                    cluster: self.cluster.to_string(),
                });
            }
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

    /// Writes the manifest that follows another one, which the store notes before and after.
    async fn commit(&self, before: &Manifest, next: &Manifest) -> Result<(), SealError> {
        note(&self.unsealed, before, next).await?;
        self.folder.commit(next).await?;
        Ok(ended(&self.unsealed, next).await?)
    }

    /// Writes some versions to files. Returns the manifest that names them, or `None` if there are
    /// none.
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

    /// Merges files as long as some should be merged. The log names damaged files, which are left
    /// out, and says why others cannot be merged now; it then returns `false`.
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

    /// Replaces some files by new ones with all of their rows.
    async fn merge(&self, manifest: &Manifest, group: &[File]) -> Result<Manifest, MergeError> {
        let level = group.iter().map(|file| file.level).max().unwrap_or(0) + 1;
        let (files, _) = self.rewrite(group, level, Arc::default()).await?;
        let mut next = manifest.next(random_id(), self.now());
        let paths = group.iter().map(|file| file.path.clone()).collect();
        next.remove(&paths, self.removed_at(manifest));
        next.add(files);
        self.commit(manifest, &next).await?;
        Ok(next)
    }

    /// Purges: rewrites files that have versions of deleted events, without these. It rewrites only
    /// some of the files, so that pending versions do not wait. Returns whether there may be more.
    async fn erase(&self, manifest: &mut Manifest, sealed: &mut Sealed) -> Result<bool, SealError> {
        let mut erasing = self.erasing.lock().await;
        erasing.resume();
        loop {
            while !erasing.is_begun() {
                let events = self.unsealed.unerased(erasing.after(), EVENTS_AT_ONCE);
                let events = events.await?;
                if events.is_empty() {
                    erasing.reached_end();
                    return Ok(false);
                }
                erasing.begin(events);
            }
            let mut rewritten = Vec::new();
            let room = ERASED_AT_ONCE.saturating_sub(sealed.erased);
            let looked = self.look_into(&mut erasing, &manifest.files, room, &mut rewritten);
            let looked = looked.await;
            sealed.erased += rewritten.len() as u64;
            // What was done before something failed is not done again.
            self.replace_erased(manifest, &mut erasing, rewritten)
                .await?;
            if looked? {
                return Ok(true);
            }
            // This takes a manifest's number. A delayed request for an older manifest, which names
            // files with the deleted events, has this number or a smaller one, and can no longer
            // succeed.
            let mut next = manifest.next(random_id(), self.now());
            next.purged = next.number;
            next.purging = Some(false);
            self.commit(manifest, &next).await?;
            *manifest = next;
            let erased = erasing.end(&manifest.files);
            self.unsealed.erased(&erased).await?;
        }
    }

    /// Searches the files that may have versions of deleted events, and rewrites some of those that
    /// have any. Returns whether others are left for the next time.
    async fn look_into(
        &self,
        erasing: &mut Erasing,
        files: &[File],
        room: u64,
        rewritten: &mut Vec<Rewritten>,
    ) -> Result<bool, SealError> {
        let cluster = &*self.cluster;
        let left = erasing.left(files, &self.damaged.lock());
        for file in left {
            if erasing.is_to_pause() || rewritten.len() as u64 >= room {
                return Ok(true);
            }
            let deleted = erasing.deleted();
            match self.has(erasing, &file, &deleted).await {
                Ok(false) => {
                    erasing.note_none(&file);
                    continue;
                }
                // Other files would be as slow. Any other fault shows when the whole file is read.
                Err(error) if error.is_slow() => return Err(FolderError::Slow.into()),
                Ok(true) | Err(_) => {}
            }
            let group = std::slice::from_ref(&file);
            match self.rewrite(group, file.level, deleted).await {
                // The new files are not in any manifest.
                Ok((_, 0)) => erasing.note_none(&file),
                Ok((files, taken)) => rewritten.push(Rewritten { file, files, taken }),
                Err(MergeError::Damaged { paths, why }) => {
                    let files = paths.join(" ");
                    tracing::error!(cluster, files, why, "may still have deleted events");
                    self.damaged.lock().extend(paths);
                }
                Err(MergeError::Seal(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Returns whether a file has versions of deleted events.
    async fn has(
        &self,
        erasing: &mut Erasing,
        file: &File,
        deleted: &Arc<Deleted>,
    ) -> Result<bool, erase::LookError> {
        if erasing.is_compared(file) {
            return erase::has(&self.folder, file, true, deleted).await;
        }
        // The whole file is in memory. The semaphore is never closed.
        let _turn = self.turn.acquire().await.ok();
        let has = erase::has(&self.folder, file, false, deleted).await?;
        erasing.compared(file);
        Ok(has)
    }

    /// Writes the manifest in which new files replace those that had versions of deleted events. A
    /// manifest before it announces that, so that a reader which cannot read the later ones does
    /// not show the old files.
    async fn replace_erased(
        &self,
        manifest: &mut Manifest,
        erasing: &mut Erasing,
        rewritten: Vec<Rewritten>,
    ) -> Result<(), SealError> {
        if rewritten.is_empty() {
            return Ok(());
        }
        if manifest.purging != Some(true) {
            let mut next = manifest.next(random_id(), self.now());
            next.purging = Some(true);
            self.commit(manifest, &next).await?;
            *manifest = next;
        }
        let mut next = manifest.next(random_id(), self.now());
        let paths = rewritten.iter().map(|it| it.file.path.clone()).collect();
        next.remove(&paths, self.removed_at(manifest));
        for Rewritten { files, taken, .. } in rewritten {
            erasing.wrote(&files);
            next.forgotten = next.forgotten.saturating_add(taken);
            next.add(files);
        }
        self.commit(manifest, &next).await?;
        *manifest = next;
        Ok(())
    }

    /// Writes new files with the rows of some, without those of deleted events. Also returns how
    /// many rows these were.
    async fn rewrite(
        &self,
        group: &[File],
        level: u32,
        deleted: Arc<Deleted>,
    ) -> Result<(Vec<File>, u64), MergeError> {
        // The semaphore is never closed.
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
            // The unneeded columns of a file are released before the next file is read.
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
            // The old files stay, and no manifest will name the new ones.
            return Err(of_group(FileError::Order.into()));
        }
        Ok((files, taken.rows))
    }

    /// Removes expired files from the manifest, and then those beyond the quota. It runs after
    /// everything pending was sealed, so what it removes is older than everything to come.
    async fn take_out(&self, manifest: &Manifest) -> Result<Manifest, SealError> {
        let mut next = manifest.next(random_id(), self.now());
        let removed_at = self.removed_at(manifest);
        if let Some(keep_for) = self.options.keep_for {
            let before = ago(self.believed(), keep_for);
            let over = next.files.iter().filter(|file| file.to <= before);
            let over: BTreeSet<_> = over.map(|file| file.path.clone()).collect();
            next.remove(&over, removed_at);
        }
        let too_many = self.options.quota.map(|quota| next.beyond(quota));
        let too_many = too_many.unwrap_or_default();
        next.remove_over_quota(&too_many, removed_at);
        if next.files.len() == manifest.files.len() {
            return Ok(manifest.clone());
        }
        // Written first: when the first file is deleted, no manifest names it, even without a
        // grace.
        self.commit(manifest, &next).await?;
        if !too_many.is_empty() {
            let (cluster, files) = (&*self.cluster, too_many.len());
            let versions = next.over_quota.versions - manifest.over_quota.versions;
            tracing::info!(cluster, files, versions, "removed to keep the quota");
        }
        Ok(next)
    }

    /// Deletes what expired; returns the number of deleted objects.
    async fn clean(&self, manifest: &Manifest) -> Result<u64, SealError> {
        let newest = self.take_out(manifest).await?;
        let before = ago(self.believed(), self.options.grace);
        let mut next = newest.next(random_id(), self.now());
        let mut stuck = self.stuck.lock().await;
        let times = (self.believed(), signed(self.options.grace));
        let removed = clean::removed(&self.folder, &mut next, times, &mut stuck);
        let (mut deleted, mut failure) = removed.await;
        if next.removed != newest.removed {
            self.commit(&newest, &next).await?;
        }
        // Leftovers stay for the grace, so it is enough to look for them each 24th of it.
        let at = u64::try_from(self.clock.steady().as_millis()).unwrap_or(u64::MAX);
        let pause = u64::try_from(self.options.grace.as_millis()).unwrap_or(u64::MAX) / 24;
        let is_slow = failure.as_ref().is_some_and(FolderError::is_slow);
        if !is_slow && at >= self.look_at.load(Ordering::Relaxed) {
            let left = clean::Leavings::find(&self.folder, before).await?;
            // Read after the leftovers were found. If another store took over while this one was
            // delayed, the files that it sealed are not among them, or this manifest names them.
            let newest = self.newest().await?;
            let (more, failed) = left.delete(&self.folder, &newest, &mut stuck).await;
            deleted += more;
            failure = failure.or(failed);
            self.damaged.lock().clear();
            self.erasing.lock().await.again();
            self.look_at
                .store(at.saturating_add(pause), Ordering::Relaxed);
        }
        // Reported only now, so that one failure does not keep other objects from being deleted.
        failure.map_or(Ok(deleted), |failure| Err(failure.into()))
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.clock.now().0).unwrap_or_default()
    }

    /// The time that removed files get in the manifest after this one. While the clock is behind,
    /// it is the latest time that a sealed version was observed.
    fn removed_at(&self, manifest: &Manifest) -> Timestamp {
        self.believed().max(manifest.sealed_until)
    }

    /// Returns the store's confirmed time. By the machine's own clock, files could be deleted
    /// because it was wrong for a moment.
    fn believed(&self) -> Timestamp {
        let at = self.unsealed.confirmed();
        Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::MIN)
    }
}

/// Notes in a store that it is about to write a manifest after another one.
pub(crate) async fn note(
    unsealed: &Unsealed,
    before: &Manifest,
    next: &Manifest,
) -> Result<(), JournalError> {
    let archive = next.archive.as_deref().unwrap_or_default();
    let (before, next) = (before.commit(), next.commit());
    unsealed.begin_commit(archive, &before, next).await
}

/// Notes in a store that a manifest is written.
pub(crate) async fn ended(unsealed: &Unsealed, done: &Manifest) -> Result<(), JournalError> {
    match done.archive.as_deref().filter(|_| done.number > 0) {
        Some(archive) => unsealed.end_commit(archive, &done.commit()).await,
        None => Ok(()),
    }
}

/// Makes sorted rows of versions; also returns how many versions cannot be read.
pub(crate) fn rows(cluster: &Arc<str>, versions: Vec<Version>) -> (Vec<Row>, u64) {
    let mut rows = Vec::with_capacity(versions.len());
    let mut unreadable = 0;
    for version in versions {
        match Row::of(cluster, version) {
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

/// Writes sorted rows as files of a level; `is_last` says that they are not merged again. `bytes`
/// is about the bytes of all files, or 0 if that is unknown.
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

/// The bytes of a file and of its rollup, in the order in which they are written.
struct Encoded {
    file: File,
    parts: [Bytes; 2],
}

/// Makes a file of the first rows, and its rollup. The file ends with the row group that reaches a
/// number of bytes, or when its rollup is full.
fn encode(
    writer: Writer,
    level: u32,
    bytes_max: usize,
    rows: &mut impl Iterator<Item = Result<Row, FileError>>,
) -> Result<Encoded, FileError> {
    let mut rollup = Rollup::new()?;
    let count = |row: &Row| {
        rollup.add(row)?;
        Ok(rollup.is_full())
    };
    let (mut file, bytes) = encode_rows(writer, level, bytes_max, rows, count)?;
    let rollup = rollup.finish()?;
    file.rollup = Some(manifest::Rollup {
        path: file.path.replacen("events/", "rollups/", 1),
        bytes: rollup.len() as u64,
        checksum: checksum(&rollup),
    });
    let parts = [bytes, rollup.into()];
    Ok(Encoded { file, parts })
}

/// Makes a file without a rollup. Each row is passed to `show` once, and the file ends after a row
/// for which that returns `true`.
pub(crate) fn encode_rows(
    mut writer: Writer,
    level: u32,
    bytes_max: usize,
    rows: &mut impl Iterator<Item = Result<Row, FileError>>,
    mut show: impl FnMut(&Row) -> Result<bool, ParquetError>,
) -> Result<(File, Bytes), FileError> {
    let mut file = Described::default();
    let mut is_full = false;
    while !is_full
        && !writer.is_full(bytes_max)
        && let Some(row) = rows.next()
    {
        let row = row?;
        file.add(&row);
        is_full = show(&row)?;
        writer.push(row)?;
    }
    let bytes = writer.finish()?;
    Ok((file.file(level, &bytes), bytes.into()))
}

/// Returns the moment that is `time` before `now`.
fn ago(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_sub(signed(time)).unwrap_or(Timestamp::MIN)
}

fn signed(time: Duration) -> SignedDuration {
    // No file is older than this.
    const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365 * 100);
    SignedDuration::try_from(time).map_or(LONGEST, |time| time.min(LONGEST))
}
