//! The index: trees of `lsm-tree` that lead from names, objects and times to versions in the log.
//!
//! Nothing in it is synced when a write is acknowledged, because all of it follows from the log.
//! Recent entries are in memory, in a [`Memtable`] of this crate. The
//! [flusher](crate::embedded::maintenance::Flusher) writes them to the trees and stores the
//! position from which opening replays the log. A lost or damaged index is rebuilt from the whole
//! log.
//!
//! Invariants: one thread adds. Readers take a [`Snapshot`] and see complete commits. A snapshot
//! holds the memtables of its moment. If one is flushed meanwhile, its entries are found twice,
//! which does no harm. For a name, a newer memtable has precedence over an older one, and memtables
//! over the trees. The tree of names has entries of versions that have expired and been swept,
//! until a compaction removes them; readers skip them.
//!
//! From outside: an [`Index`] and its [`Tree`]s, which the engine pairs with the log's segments; a
//! [`Snapshot`], its [`Names`] and the [`memtable`], for reads; [`keys`] and [`counts`], the bytes
//! of its entries; and the [`Track`] of a bucket, for sweeps. Sums are written and compared in
//! here.

pub(super) mod counts;
pub(super) mod keys;
pub(super) mod memtable;
mod names;
mod order;
mod sums;

use std::collections::BTreeMap;
use std::fs;
use std::hash::BuildHasher;
use std::ops::{Deref, RangeBounds};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Leveled, Verdict};
use lsm_tree::config::{CompressionPolicy, FilterPolicy, PartitioningPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, Guard, IterGuardImpl,
    SeqNo, SequenceNumberCounter, UserKey, UserValue,
};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::embedded::codec::Swept;
use crate::embedded::files::{disk, number_in};
use crate::{Fault, Revision};
use keys::Pointer;
use memtable::Memtable;
use order::Order;
use sums::{POINTER, Sums};

pub(super) use names::Names;
pub(super) use order::{TOLERANCE, Track};

/// Maximum table files held open.
const FILES_MAX: usize = 128;

/// Number of flushed tables at which they are merged.
const SIDE_BY_SIDE: u8 = 6;

/// Number of tables in one tree above which they are merged before anything else is flushed.
pub(super) const TABLES_MAX: usize = 32;

/// Bounds of a table's maximum length, which is about that of a memtable. While a table is written,
/// its filter and its index are in memory, nearly as much as its length.
const TABLE_LEN: (u64, u64) = (4 << 20, 16 << 20);

/// Number of levels in a tree of lsm-tree.
const LEVELS: usize = 7;

/// Maximum steps of a merge; each moves tables of one level to the next.
const MERGES_MAX: usize = 8;

/// About how many tables a step of a merge writes, besides the flushed ones. They are the first
/// level, or one table of a level with its part of the next level.
const MERGED_TABLES: u64 = 16;

/// Name of the tree of names. The other trees are named after their buckets.
pub(super) const NAMES: &str = "names";

/// The file that marks an index which must be rebuilt.
const DISTRUSTED: &str = "distrusted";

/// A tree, and its folder, which can be removed with it.
pub(super) struct Tree {
    inner: AnyTree,
    folder: PathBuf,
    dropped: AtomicBool,
    /// About the maximum length of the tree's tables.
    table_len: u64,
    /// Bytes of tables flushed since the last merge.
    flushed: AtomicU64,
}

impl Deref for Tree {
    type Target = AnyTree;

    fn deref(&self) -> &AnyTree {
        &self.inner
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if *self.dropped.get_mut()
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "failed to remove an expired bucket's index");
        }
    }
}

impl Tree {
    /// Removes the tree's files as soon as the last reader is done.
    pub(super) fn drop_files(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    /// Whether tables should be merged.
    pub(super) fn is_crowded(&self) -> bool {
        self.inner.l0_run_count() >= usize::from(SIDE_BY_SIDE)
    }

    /// Whether tables must be merged before more are flushed.
    pub(super) fn is_full(&self) -> bool {
        self.inner.l0_run_count() > TABLES_MAX
    }

    /// Counts a flushed table; the tree had `before` bytes without it.
    pub(super) fn count_flushed(&self, before: u64) {
        let flushed = self.inner.disk_space().saturating_sub(before);
        self.flushed.fetch_add(flushed, Ordering::Relaxed);
    }

    /// Merges tables where there are many. Versions that no snapshot from `watermark` on needs are
    /// removed.
    pub(super) fn merge(&self, watermark: SeqNo) -> lsm_tree::Result<()> {
        if !self.has_room(self.merged_len()) {
            return Ok(());
        }
        let flushed = self.flushed.swap(0, Ordering::Relaxed);
        let strategy = Leveled::default()
            .with_l0_threshold(first_level_tables(
                self.inner.disk_space(),
                flushed,
                self.table_len,
            ))
            .with_table_target_size(self.table_len);
        let strategy = Arc::new(strategy);
        for _ in 0..MERGES_MAX {
            let before = self.shape();
            self.inner.compact(Arc::clone(&strategy) as _, watermark)?;
            if self.shape() == before || !self.has_room(self.merged_len()) {
                break;
            }
        }
        Ok(())
    }

    /// Merges all tables, which removes everything that is not needed.
    pub(super) fn merge_all(&self, watermark: SeqNo) -> lsm_tree::Result<()> {
        if !self.has_room(self.inner.disk_space()) {
            return Ok(());
        }
        self.inner.major_compact(self.table_len, watermark)
    }

    /// About the maximum bytes that a step of a merge writes.
    fn merged_len(&self) -> u64 {
        let tables = self.inner.l0_run_count() as u64 + MERGED_TABLES;
        self.inner.disk_space().min(tables * self.table_len)
    }

    /// Whether there is room to merge tables into others of this length. A merge that fails leaves
    /// files until the store is opened again, so on a full disk no merge is begun.
    fn has_room(&self, len: u64) -> bool {
        let has_room = disk::has_room(&self.folder, len);
        if !has_room {
            tracing::warn!(
                folder = %self.folder.display(),
                "there is no room on the disk to merge tables of the index; they are merged later"
            );
        }
        has_room
    }

    /// A value that changes when tables are merged or moved.
    fn shape(&self) -> (u64, [Option<usize>; LEVELS]) {
        let tables = std::array::from_fn(|level| self.inner.level_table_count(level));
        (self.inner.disk_space(), tables)
    }
}

/// Maximum tables of the first merged level. `len` is the tree's length, `flushed` the bytes
/// flushed between two merges.
///
/// Flushed tables are merged with the whole first level. Sometimes that is merged with the next
/// level, which has nearly all bytes. A first level of `n` bytes costs `n / 2` each time, and `len`
/// whenever `n` bytes were flushed. The sum is least at the root of twice the product. If many
/// trees share a memtable and each gets little, that is far less than with one tree.
fn first_level_tables(len: u64, flushed: u64, table_len: u64) -> u8 {
    if flushed == 0 {
        return SIDE_BY_SIDE;
    }
    let first = len.saturating_mul(flushed).saturating_mul(2).isqrt();
    let tables = first.div_ceil(table_len).clamp(1, SIDE_BY_SIDE.into());
    u8::try_from(tables).unwrap_or(SIDE_BY_SIDE)
}

/// The position of written expiries, for merges of tables. It is replaced as a whole, so a panic
/// elsewhere leaves no part of one, as lsm-tree demands.
type SweptSoFar = Arc<AssertUnwindSafe<RwLock<Swept>>>;

/// The open snapshots, and the memtables that a new snapshot takes.
#[derive(Default)]
struct Snapshots {
    open: BTreeMap<SeqNo, usize>,
    memtables: Memtables,
}

/// The memtables of the index.
#[derive(Clone, Default)]
pub(super) struct Memtables {
    /// The active memtable, which grows.
    pub(super) active: Arc<Memtable>,
    /// The frozen memtables, the newest first; rarely more than one.
    pub(super) aside: Vec<Arc<Memtable>>,
    /// Number of memtables flushed and dropped so far.
    pub(super) forgotten: u64,
}

impl Memtables {
    /// All memtables, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        [&self.active].into_iter().chain(&self.aside)
    }

    /// Whether a memtable has the end of a version before its expiry, as of a revision.
    pub(super) fn have_ended(&self, version: Revision, at: Revision) -> bool {
        self.iter()
            .any(|memtable| memtable.ended_by(version, at).is_some())
    }
}

/// Sizes of the index in memory and of segments, in bytes, and the number of open segments.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// See [`log_files_max`](super::EmbeddedOptions::log_files_max).
    pub(super) files: usize,
    /// See [`segment_bytes`](super::EmbeddedOptions::segment_bytes).
    pub(super) segment: u64,
    /// Bytes of the trees' read cache.
    pub(super) cache: u64,
    /// Bytes of one memtable, of which there are at most two.
    pub(super) memtable: usize,
}

/// Whether the index was found damaged while in use.
struct Trust {
    folder: PathBuf,
    is_lost: AtomicBool,
}

impl Trust {
    /// Makes the next opening rebuild the index, if this error means damage. An I/O error does not.
    fn note(&self, error: &lsm_tree::Error) {
        if matches!(error, lsm_tree::Error::Io(_)) || self.is_lost.swap(true, Ordering::Relaxed) {
            return;
        }
        let folder = &self.folder;
        tracing::error!(
            folder = %folder.display(), %error,
            "the index is damaged: uses of it fail until the store is opened again, which rebuilds it"
        );
        if let Err(error) = disk::replace(&folder.join(DISTRUSTED), b"") {
            tracing::warn!(%error, "failed to record that the index is damaged");
            self.is_lost.store(false, Ordering::Relaxed);
        }
    }

    fn fault(&self, error: lsm_tree::Error) -> Fault {
        self.note(&error);
        fault(error)
    }
}

/// The index; see the module documentation.
pub(super) struct Index {
    folder: PathBuf,
    trust: Arc<Trust>,
    memtable_bytes: usize,
    cache: Arc<Cache>,
    files: Arc<DescriptorTable>,
    sequence: SequenceNumberCounter,
    pub(super) names: Arc<Tree>,
    swept: SweptSoFar,
    snapshots: Arc<Mutex<Snapshots>>,
    /// The order in which records expire.
    pub(super) order: Order,
    sums: Sums,
    /// Lock held by a thread that merges tables beside the one that flushes memtables.
    tidying: Mutex<()>,
    hasher: RandomState,
    /// The latest revision of the log when the store was opened. An earlier process may have
    /// flushed versions up to it, although this process did not flush their memtables.
    pub(super) opened_at: AtomicU64,
}

impl Index {
    /// Opens the index in a folder, which may be empty. The trees of buckets are opened on demand.
    pub(super) fn open(folder: &Path, sizes: Sizes) -> lsm_tree::Result<Self> {
        fs::create_dir_all(folder)?;
        if !sums::take(folder)? {
            return Err(lsm_tree::Error::Unrecoverable);
        }
        let cache = Arc::new(Cache::with_capacity_bytes(sizes.cache));
        let files = Arc::new(DescriptorTable::new(FILES_MAX));
        let sequence = SequenceNumberCounter::new(1);
        let swept = SweptSoFar::default();
        let table_len = (sizes.memtable as u64).clamp(TABLE_LEN.0, TABLE_LEN.1);
        let path = folder.join(NAMES);
        let config = config(&path, &sequence, &cache, &files)
            .with_compaction_filter_factory(Some(Arc::new(SweptNames(Arc::clone(&swept)))));
        let names = Arc::new(Tree {
            inner: config.open()?,
            folder: path,
            dropped: AtomicBool::new(false),
            table_len,
            flushed: AtomicU64::new(0),
        });
        let trust = Trust {
            folder: folder.to_owned(),
            is_lost: AtomicBool::new(false),
        };
        let index = Self {
            folder: folder.to_owned(),
            trust: Arc::new(trust),
            memtable_bytes: sizes.memtable,
            cache,
            files,
            sequence,
            names,
            swept,
            snapshots: Arc::default(),
            order: Order::default(),
            sums: Sums::default(),
            tidying: Mutex::default(),
            hasher: RandomState::default(),
            opened_at: AtomicU64::new(0),
        };
        index.begin_after(&index.names);
        Ok(index)
    }

    /// Opens a bucket's tree; creates it unless it exists.
    pub(super) fn bucket(&self, bucket: u64) -> lsm_tree::Result<Arc<Tree>> {
        let path = self.folder.join(format!("{bucket:016x}"));
        // Versions are found by prefixes, which always exist, so filters would be useless.
        let config = config(&path, &self.sequence, &self.cache, &self.files)
            .filter_policy(FilterPolicy::disabled())
            .with_compaction_filter_factory(Some(Arc::new(SweptVersions(
                bucket,
                Arc::clone(&self.swept),
            ))));
        let tree = Tree {
            inner: config.open()?,
            folder: path,
            dropped: AtomicBool::new(false),
            table_len: self.names.table_len,
            flushed: AtomicU64::new(0),
        };
        self.begin_after(&tree);
        Ok(Arc::new(tree))
    }

    /// Makes new sequence numbers begin above those in a tree.
    fn begin_after(&self, tree: &AnyTree) {
        self.sequence
            .fetch_max(tree.get_highest_seqno().map_or(1, |last| last + 1));
    }

    /// Removes the trees of all buckets except the given ones.
    pub(super) fn remove_others(&self, buckets: &[u64]) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let bucket = name.to_str().and_then(number_in);
            if bucket.is_some_and(|bucket| !buckets.contains(&bucket)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Whether the folder of an index has a tree with its pointer.
    pub(super) fn has_tree(folder: &Path, tree: &str) -> bool {
        folder.join(tree).join(POINTER).is_file()
    }

    /// Syncs the folder of the index, so that the names of new trees are durable.
    pub(super) fn sync_names(&self) -> std::io::Result<()> {
        disk::sync_folder(&self.folder)
    }

    /// Writes the checksums that find damage before the trees are opened. Does nothing while tables
    /// are being merged, because the previous sums are then still valid. The thread that flushes
    /// memtables calls this.
    pub(super) fn write_sums(&self) {
        let Some(_none_is_merged) = self.tidying.try_lock() else {
            return;
        };
        if let Err(error) = self.sums.write(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "failed to write the checksums of the index's files");
        }
    }

    /// Locks out [`write_sums`](Self::write_sums) while a second thread merges tables.
    pub(super) fn tidying(&self) -> MutexGuard<'_, ()> {
        self.tidying.lock()
    }

    /// Reports an error of the index; see [`Trust::note`].
    pub(super) fn distrust(&self, error: &lsm_tree::Error) {
        self.trust.note(error);
    }

    /// Whether an index was found damaged in use, or is being rebuilt.
    pub(super) fn is_distrusted(folder: &Path) -> bool {
        folder.join(DISTRUSTED).exists()
    }

    /// Replaces an index by an empty folder, to be filled from the whole log. The new index is not
    /// trusted before [`trust`](Self::trust).
    pub(super) fn discard(folder: &Path) -> std::io::Result<()> {
        // The folder is moved as a whole: part of the old index might be taken for all of it.
        let old = folder.with_extension("old");
        remove(&old)?;
        match fs::rename(folder, &old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        disk::make_folder(folder)?;
        disk::replace(&folder.join(DISTRUSTED), b"")?;
        remove(&old)
    }

    /// Marks a rebuilt index as complete.
    pub(super) fn trust(folder: &Path) -> std::io::Result<()> {
        disk::remove(&folder.join(DISTRUSTED))?;
        disk::sync_folder(folder)
    }

    /// The hash of a name in memtables. It differs between processes.
    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The active memtable.
    pub(super) fn active(&self) -> Arc<Memtable> {
        Arc::clone(&self.snapshots.lock().memtables.active)
    }

    /// The current memtables.
    pub(super) fn memtables(&self) -> Memtables {
        self.snapshots.lock().memtables.clone()
    }

    /// Whether the active memtable has more than one part in `part` of its maximum memory.
    pub(super) fn is_full(&self, part: usize) -> bool {
        self.active().bytes() > self.memtable_bytes / part
    }

    /// Freezes the active memtable for flushing, and starts a new one.
    pub(super) fn set_aside(&self) {
        let mut snapshots = self.snapshots.lock();
        let next = Arc::new(Memtable::as_large_as(&snapshots.memtables.active));
        let memtable = std::mem::replace(&mut snapshots.memtables.active, next);
        snapshots.memtables.aside.insert(0, memtable);
    }

    /// The oldest frozen memtable.
    pub(super) fn oldest_aside(&self) -> Option<Arc<Memtable>> {
        self.snapshots.lock().memtables.aside.last().cloned()
    }

    /// Drops the oldest frozen memtable, which was flushed.
    pub(super) fn forget_oldest(&self) {
        let mut snapshots = self.snapshots.lock();
        snapshots.memtables.aside.pop();
        snapshots.memtables.forgotten += 1;
    }

    /// Makes a commit visible: calls `with`, and updates the swept position.
    pub(super) fn publish(&self, swept: &Swept, with: impl FnOnce()) {
        self.swept.write().clone_from(swept);
        let _snapshots = self.snapshots.lock();
        with();
    }

    /// Takes a snapshot of the latest published commit, together with the result of `with`.
    pub(super) fn snapshot<T>(&self, with: impl FnOnce() -> T) -> (Snapshot, T) {
        let mut snapshots = self.snapshots.lock();
        let sequence = self.sequence.get();
        *snapshots.open.entry(sequence).or_default() += 1;
        let memtables = snapshots.memtables.clone();
        let also = with();
        drop(snapshots);
        (
            Snapshot {
                sequence,
                memtables,
                trust: Arc::clone(&self.trust),
                snapshots: Arc::clone(&self.snapshots),
            },
            also,
        )
    }

    /// The sequence number below which no reader needs an older entry.
    pub(super) fn watermark(&self) -> SeqNo {
        let snapshots = self.snapshots.lock();
        let oldest = snapshots.open.keys().next();
        oldest.map_or_else(|| self.sequence.get(), |open| *open)
    }
}

/// Removes a folder, if it exists.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn config(
    path: &Path,
    sequence: &SequenceNumberCounter,
    cache: &Arc<Cache>,
    files: &Arc<DescriptorTable>,
) -> Config {
    // A table's filter and its block index take hundreds of kilobytes, and those of a large store
    // are not all in memory. In parts, a look-up reads one page of each. The most recently flushed
    // tables are few, so they have filter and index as a whole.
    let in_parts = PartitioningPolicy::new([false, true]);
    // The second counter is for lsm-tree's own readers; ours pass a sequence number.
    Config::new(path, sequence.clone(), SequenceNumberCounter::default())
        .filter_block_partitioning_policy(in_parts.clone())
        .index_block_partitioning_policy(in_parts)
        // Neighbouring names and times are similar, so they compress well.
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .use_cache(Arc::clone(cache))
        .use_descriptor_table(Some(Arc::clone(files)))
}

/// Compaction filter that drops the names of swept versions.
struct SweptNames(SweptSoFar);

impl Factory for SweptNames {
    fn name(&self) -> &'static str {
        "swept-names"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(SweptNamesFilter(so_far(&self.0)))
    }
}

struct SweptNamesFilter(Swept);

impl CompactionFilter for SweptNamesFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let pointer = Pointer::decode(&item.value()?);
        Ok(verdict(pointer.is_ok_and(|pointer| {
            self.0.has(pointer.bucket, pointer.revision)
        })))
    }
}

/// Compaction filter that drops entries of swept versions in a bucket's tree.
struct SweptVersions(u64, SweptSoFar);

impl Factory for SweptVersions {
    fn name(&self) -> &'static str {
        "swept-versions"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(SweptVersionsFilter(so_far(&self.1).mark(self.0)))
    }
}

struct SweptVersionsFilter(Revision);

impl CompactionFilter for SweptVersionsFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let revision = keys::revision_of(item.key());
        Ok(verdict(revision.is_some_and(|revision| revision <= self.0)))
    }
}

fn so_far(swept: &SweptSoFar) -> Swept {
    swept.read().clone()
}

fn verdict(is_swept: bool) -> Verdict {
    if is_swept {
        Verdict::Remove
    } else {
        Verdict::Keep
    }
}

/// An entry of a tree that is not read yet.
pub(super) struct Entry {
    inner: IterGuardImpl,
    trust: Arc<Trust>,
}

pub(super) type Entries = Box<dyn Iterator<Item = Entry> + Send>;

/// The trees as of one commit.
pub(super) struct Snapshot {
    sequence: SeqNo,
    pub(super) memtables: Memtables,
    trust: Arc<Trust>,
    snapshots: Arc<Mutex<Snapshots>>,
}

impl Snapshot {
    pub(super) fn get(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<UserValue>, Fault> {
        tree.get(key, self.sequence)
            .map_err(|error| self.trust.fault(error))
    }

    pub(super) fn contains_key(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool, Fault> {
        tree.contains_key(key, self.sequence)
            .map_err(|error| self.trust.fault(error))
    }

    pub(super) fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        tree: &Tree,
        range: R,
    ) -> Entries {
        self.entries(tree.range(range, self.sequence, None))
    }

    pub(super) fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Entries {
        self.entries(tree.prefix(prefix, self.sequence, None))
    }

    fn entries(&self, found: impl Iterator<Item = IterGuardImpl> + Send + 'static) -> Entries {
        let trust = Arc::clone(&self.trust);
        Box::new(found.map(move |inner| Entry {
            inner,
            trust: Arc::clone(&trust),
        }))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut snapshots = self.snapshots.lock();
        if let Some(count) = snapshots.open.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                snapshots.open.remove(&self.sequence);
            }
        }
    }
}

pub(super) fn key_of(entry: Entry) -> Result<UserKey, Fault> {
    let Entry { inner, trust } = entry;
    inner.key().map_err(|error| trust.fault(error))
}

pub(super) fn key_value_of(entry: Entry) -> Result<(UserKey, UserValue), Fault> {
    let Entry { inner, trust } = entry;
    inner.into_inner().map_err(|error| trust.fault(error))
}

pub(super) fn fault(error: lsm_tree::Error) -> Fault {
    match error {
        lsm_tree::Error::Io(error) => io_fault(error),
        error => Fault::Corrupt(format!("the index: {error}")),
    }
}

/// Whether a fault will not pass: data is damaged, a file is gone, or the disk cannot read it.
/// Other errors, such as too many open files, pass.
pub(super) fn is_lasting(fault: &Fault) -> bool {
    let is_lost = |error: &std::io::Error| {
        let is_of_the_disk = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        is_of_the_disk || error.kind() == std::io::ErrorKind::NotFound
    };
    match fault {
        Fault::Corrupt(_) => true,
        Fault::Storage(error) => error.downcast_ref::<std::io::Error>().is_some_and(is_lost),
        _ => false,
    }
}

/// Converts an error of the disk to a fault.
pub(super) fn io_fault(error: std::io::Error) -> Fault {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Fault::NoSpace,
        _ => Fault::Storage(Arc::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_pass_are_told_from_those_that_last() {
        use std::io::{Error, ErrorKind};
        let of = |error| is_lasting(&io_fault(error));
        // The errors are EIO and EMFILE.
        assert!(of(Error::from_raw_os_error(5)));
        assert!(!of(Error::from_raw_os_error(24)));
        assert!(of(ErrorKind::NotFound.into()));
        assert!(!of(ErrorKind::StorageFull.into()));
        assert!(!of(Error::other("unknown")));
        assert!(is_lasting(&Fault::Corrupt(String::new())));
        assert!(!is_lasting(&Fault::Closed));
    }

    #[test]
    fn a_tree_that_is_given_little_has_a_small_first_level() {
        let mega = |bytes: u64| bytes << 20;
        // Each row: bytes of the tree, bytes flushed between two merges, tables of 16 MiB.
        for (len, flushed, tables) in [
            (mega(60), mega(2), 1),
            (mega(200), mega(2), 2),
            (mega(40), mega(14), 3),
            (mega(500), mega(14), 6),
            (mega(10_000), mega(80), 6),
            (mega(1), 1, 1),
            (u64::MAX, u64::MAX, 6),
            (mega(60), 0, 6),
        ] {
            let found = first_level_tables(len, flushed, mega(16));
            assert_eq!(found, tables, "{len} {flushed}");
        }
        assert_eq!(first_level_tables(mega(60), mega(2), mega(4)), 4);
    }
}
