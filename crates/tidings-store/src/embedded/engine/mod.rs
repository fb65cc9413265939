//! The open store: log, index, buckets, and the published state.
//!
//! Invariants: what is published is one commit, never a part of one. A bucket has segments in the
//! log and a tree of the same name in the index, or neither. The checkpoint on disk is never ahead
//! of the index on disk.
//!
//! From outside: an [`Engine`], its [`Buckets`], the [`Moment`] of a snapshot, the [`Events`] of
//! the history, and decoded versions ([`Stored`]). Opening, replay, flush and checkpoint are
//! reached through the engine alone.

mod bucket;
mod checkpoint;
mod flush;
mod held;
mod history;
mod replay;
mod stored;
mod upkeep;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::Fault;
use crate::embedded::codec::{Codec, State};
use crate::embedded::error::OpenError;
use crate::embedded::files::parallel::{self, Helpers};
use crate::embedded::files::{INDEX, LOG, confirmed_time, number_in};
use crate::embedded::index::{Index, Sizes, Track, fault, remove};
use crate::embedded::log::frame::Header;
use crate::embedded::log::segment::Segment;
use crate::embedded::log::{self, Extents, Log};
use upkeep::Upkeep;

pub(super) use bucket::{Bucket, Buckets, bucket_for};
pub(super) use checkpoint::Checkpoint;
pub(super) use held::{Held, Limits, Moment};
pub(super) use history::{Event, Events};
pub(super) use stored::{LookedUp, Stored, unpack, unpack_record};
pub(super) use upkeep::Due;

/// Bytes of the log after which the index is flushed, even if it is small. A replay then reads at
/// most twice as much.
const BEHIND_MAX: u64 = 32 << 20;

/// Share of a usual flush, as a divisor, above which replayed entries are flushed right after
/// opening.
const BEHIND_PART: usize = 8;

/// The state that readers see.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) state: State,
    /// Number of the last commit.
    pub(super) number: u64,
    pub(super) buckets: Arc<Buckets>,
}

/// A checkpoint that a flush will reach, and the ends of the log's segments at that time.
#[derive(Clone)]
pub(super) struct Aside {
    pub(super) checkpoint: Checkpoint,
    extents: Extents,
}

/// The open store; see the module documentation.
pub(super) struct Engine {
    pub(super) folder: PathBuf,
    pub(super) log: Log,
    pub(super) index: Index,
    pub(super) published: RwLock<Published>,
    /// Number of the last commit that the index on disk has.
    pub(super) checkpoint: AtomicU64,
    /// The revision after that commit.
    pub(super) indexed: AtomicU64,
    /// Decides when to release space in the log.
    pub(super) upkeep: Upkeep,
    /// Snapshots of lists that are being read.
    pub(super) held: Held,
    /// Lock held while a segment is rewritten.
    pub(super) rewriting: Mutex<()>,
    /// Threads for reads that wait for the disk.
    pub(super) helpers: Helpers,
}

impl Engine {
    /// Opens a folder that is locked already.
    pub(super) fn open(folder: &Path, sizes: Sizes, codec: &Codec) -> Result<Self, OpenError> {
        let (log_folder, index_folder) = (folder.join(LOG), folder.join(INDEX));
        let noted = Checkpoint::read(folder)?;
        if noted.is_none() && log::is_empty(&log_folder) {
            if let Some(found) = trace_of_writes(folder, &index_folder) {
                return Err(OpenError::LogLost {
                    path: folder.to_owned(),
                    found,
                });
            }
            // The store is new, or was being created when the process died.
            remove(&index_folder).map_err(|error| OpenError::io("remove", &index_folder, error))?;
            return Self::open_at(folder, sizes, codec, Some(&Checkpoint::default()));
        }
        let checkpoint =
            noted.filter(|checkpoint| checkpoint.is_backed_by(&index_folder, &log_folder));
        let opened = match checkpoint {
            None => Err(OpenError::Index(
                "parts of it are missing or damaged".into(),
            )),
            Some(checkpoint) => Self::open_at(folder, sizes, codec, Some(&checkpoint)),
        };
        match opened {
            Err(OpenError::Index(reason)) => {
                tracing::error!(
                    folder = %index_folder.display(), reason,
                    "the index cannot be used; it is rebuilt from the log, which may take a while"
                );
                Index::discard(&index_folder)
                    .map_err(|error| OpenError::io("replace", &index_folder, error))?;
                let engine = Self::open_at(folder, sizes, codec, None)?;
                Index::trust(&index_folder)
                    .map_err(|error| OpenError::io("write to", &index_folder, error))?;
                Ok(engine)
            }
            opened => opened,
        }
    }

    fn open_at(
        folder: &Path,
        sizes: Sizes,
        codec: &Codec,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Self, OpenError> {
        let index_folder = folder.join(INDEX);
        // Without an index the whole log is read, but the checkpoint is still valid for the log.
        let noted = match checkpoint {
            Some(checkpoint) => Some(checkpoint.clone()),
            None => Checkpoint::read(folder)?,
        };
        let log_folder = folder.join(LOG);
        let reached = noted
            .as_ref()
            .map(|noted| (noted.number, noted.state.revision));
        let from_start = checkpoint.is_none();
        let (log, commits) =
            Log::open(&log_folder, reached, from_start, sizes.segment, sizes.files)?;
        let noted = noted.unwrap_or_default();
        let newest = commits
            .last()
            .filter(|header| header.number >= noted.number);
        let (state, number) = newest.map_or((noted.state.clone(), noted.number), |header| {
            (header.state.clone(), header.number)
        });
        if noted.is_lost(&log, &state) {
            return Err(OpenError::Damaged {
                file: log_folder,
                offset: 0,
            });
        }
        let index =
            Index::open(&index_folder, sizes).map_err(|error| unusable(&index_folder, error))?;
        // Without a checkpoint the order is learned while the index is rebuilt.
        for (bucket, (latest, reached)) in checkpoint.iter().flat_map(|it| &it.buckets) {
            let track = Track::noted(*latest, *reached);
            index.order.set(*bucket, track);
        }
        let mut buckets = Buckets::new();
        let logs: Vec<_> = log.buckets().into_iter().collect();
        let trees = parallel::each(&logs, |(name, _)| index.bucket(*name));
        for ((name, segments), tree) in logs.into_iter().zip(trees) {
            let tree = tree.map_err(|error| unusable(&index_folder, error))?;
            buckets.insert(
                name,
                Bucket {
                    log: segments,
                    index: tree,
                },
            );
        }
        let names: Vec<u64> = buckets.keys().copied().collect();
        index
            .remove_others(&names)
            .map_err(|error| OpenError::io("clean up", &index_folder, error))?;
        let published_revision = state.revision;
        let upkeep = Upkeep::new(&state);
        let published = Published {
            state,
            number,
            buckets: Arc::new(buckets),
        };
        let engine = Self {
            folder: folder.to_owned(),
            log,
            index,
            published: RwLock::new(published),
            checkpoint: AtomicU64::new(checkpoint.map_or(0, |checkpoint| checkpoint.number)),
            indexed: AtomicU64::new(checkpoint.map_or(0, |checkpoint| checkpoint.state.revision)),
            upkeep,
            held: Held::default(),
            rewriting: Mutex::default(),
            helpers: Helpers::default(),
        };
        let from = checkpoint.map_or(0, |checkpoint| checkpoint.state.revision);
        engine
            .index
            .opened_at
            .store(published_revision, Ordering::Release);
        let Published { state, buckets, .. } = engine.published();
        // An index that is being rebuilt gets no checkpoint before it is complete.
        let commits = checkpoint.map_or(&[][..], |_| &commits);
        let note = |commit: &Header| {
            let reached = engine.checkpoint_at(commit.number, commit.state.clone());
            let synced = engine.index.sync_names();
            let written = synced.and_then(|()| reached.write(folder));
            written.map_err(|error| OpenError::io("write to", folder, error))
        };
        let log = (&*buckets, commits);
        replay::replay(&engine.index, codec, log, &state, from, note)?;
        if checkpoint.is_none_or(|checkpoint| *checkpoint == Checkpoint::default()) {
            // From here on a missing checkpoint means damage.
            engine
                .write_checkpoint()
                .map_err(|error| OpenError::io("write to", folder, error))?;
        }
        Ok(engine)
    }

    pub(super) fn published(&self) -> Published {
        self.published.read().clone()
    }

    pub(super) fn buckets(&self) -> Arc<Buckets> {
        self.published().buckets
    }

    /// Returns the bucket with this name; creates it unless it exists.
    pub(super) fn bucket(&self, name: u64) -> Result<Bucket, Fault> {
        if let Some(bucket) = self.buckets().get(&name) {
            return Ok(bucket.clone());
        }
        let index = self.index.bucket(name).map_err(fault)?;
        let bucket = Bucket {
            log: self.log.bucket(name),
            index,
        };
        self.change_buckets(|buckets| {
            buckets.insert(name, bucket.clone());
        });
        Ok(bucket)
    }

    /// Removes a bucket with its content. Its space is free once the last reader is done.
    pub(super) fn drop_bucket(&self, name: u64) -> io::Result<()> {
        let Some(bucket) = self.buckets().get(&name).cloned() else {
            return Ok(());
        };
        self.change_buckets(|buckets| {
            buckets.remove(&name);
        });
        self.index.order.forget(name);
        bucket.index.drop_files();
        // Readers that still use the log of the bucket keep their files.
        drop(bucket);
        self.log.drop_bucket(name)
    }

    /// Replaces a segment by another, or removes it; see [`Log::replace`].
    pub(super) fn replace_segment(
        &self,
        old: &Arc<Segment>,
        new: Option<Segment>,
    ) -> io::Result<()> {
        self.log.replace(old, new, |segments| {
            self.change_buckets(|buckets| {
                if let Some(bucket) = buckets.get_mut(&old.bucket) {
                    bucket.log = segments;
                }
            });
        })
    }

    fn change_buckets(&self, change: impl FnOnce(&mut Buckets)) {
        let mut published = self.published.write();
        change(Arc::make_mut(&mut published.buckets));
    }

    /// Makes a commit visible to readers.
    pub(super) fn publish(&self, state: State, number: u64) {
        self.index.publish(&state.swept.clone(), || {
            let mut published = self.published.write();
            (published.state, published.number) = (state, number);
        });
    }

    /// Starts a new memtable of the index, so that the previous one can be flushed. Returns the
    /// checkpoint that the flush will reach. The committer calls this between two commits.
    pub(super) fn set_aside(&self) -> Aside {
        let Published { state, number, .. } = self.published();
        self.index.set_aside();
        self.log.begin_checkpoint();
        Aside {
            checkpoint: self.checkpoint_at(number, state),
            extents: self.log.extents(),
        }
    }

    /// Whether a flush is due, because a replay after a kill would take too long. The index in
    /// memory is full, or many bytes were written that take little of it.
    pub(super) fn is_far_behind(&self) -> bool {
        self.index.is_full(1) || self.log.behind() > BEHIND_MAX
    }

    /// Whether a considerable part of [`is_far_behind`](Self::is_far_behind)'s limit is reached.
    pub(super) fn is_behind(&self) -> bool {
        self.index.is_full(BEHIND_PART) || self.log.behind() > BEHIND_MAX / BEHIND_PART as u64
    }

    /// The checkpoint of a commit that the index has.
    fn checkpoint_at(&self, number: u64, state: State) -> Checkpoint {
        // A bucket created for a failed commit has nothing in the log. With it in the checkpoint,
        // opening would find it missing.
        let buckets = self
            .buckets()
            .iter()
            .filter(|(_, bucket)| bucket.log.len() > 0)
            .map(|(name, _)| {
                let order = self.index.order.of(*name);
                (*name, (order.latest, order.reached.0))
            })
            .collect();
        Checkpoint {
            number,
            state,
            buckets,
        }
    }

    /// A snapshot of the state after the last commit.
    pub(super) fn moment(&self) -> Moment {
        let (snapshot, published) = self.index.snapshot(|| self.published());
        let Published { state, buckets, .. } = published;
        Moment {
            snapshot: Arc::new(snapshot),
            buckets,
            state,
        }
    }

    /// Flushes the frozen memtable, and then writes the checkpoint.
    pub(super) fn flush(&self, aside: &Aside) -> Result<(), lsm_tree::Error> {
        let Aside {
            checkpoint,
            extents,
        } = aside;
        flush::flush(&self.index, &self.buckets())?;
        self.held.fit(&self.index.memtables());
        self.index.sync_names()?;
        checkpoint.write(&self.folder)?;
        self.checkpoint.store(checkpoint.number, Ordering::Release);
        self.indexed
            .store(checkpoint.state.revision, Ordering::Release);
        if let Err(error) = self.log.write_idx(extents) {
            tracing::warn!(%error, "failed to write positions in the log; opening will take longer");
        }
        self.index.write_sums();
        Ok(())
    }

    /// Flushes everything. No commit may happen meanwhile.
    pub(super) fn write_checkpoint(&self) -> io::Result<()> {
        let aside = self.set_aside();
        self.flush(&aside).map_err(|error| match error {
            lsm_tree::Error::Io(error) => error,
            error => io::Error::other(error),
        })
    }

    /// Bytes of the log in the buckets after a given one.
    pub(super) fn len_behind(&self, bucket: u64) -> u64 {
        let buckets = self.buckets();
        let behind = buckets.range(bucket.saturating_add(1)..);
        behind.map(|(_, bucket)| bucket.log.len()).sum()
    }

    /// Bytes of the store on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        use lsm_tree::AbstractTree;
        let buckets = self.buckets();
        let of_buckets: u64 = buckets
            .values()
            .map(|bucket| bucket.log.file_len() + bucket.index.disk_space())
            .sum();
        of_buckets + self.index.names.disk_space()
    }
}

/// Finds a file which shows that the store was written to, when log and checkpoint are missing. A
/// checkpoint is replaced atomically and is always readable. The time is stored, and buckets have
/// trees, only after the first checkpoint.
fn trace_of_writes(folder: &Path, index: &Path) -> Option<String> {
    if Checkpoint::is_there(folder) {
        return Some("a damaged checkpoint".into());
    }
    if confirmed_time::is_there(folder) {
        return Some("the file CLOCK".into());
    }
    let is_bucket = |name: &String| number_in(name).is_some();
    let entries = fs::read_dir(index).ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let name = names.find(is_bucket)?;
    Some(format!("{INDEX}/{name}"))
}

fn unusable(folder: &Path, error: lsm_tree::Error) -> OpenError {
    // A seek before the beginning of a file that is too short is an invalid input.
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    match error {
        lsm_tree::Error::Io(error)
            if !matches!(
                error.kind(),
                InvalidData | InvalidInput | NotFound | UnexpectedEof
            ) =>
        {
            OpenError::io("open the index in", folder, error)
        }
        error => OpenError::Index(error.to_string()),
    }
}
