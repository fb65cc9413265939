//! How an embedded store is run.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// How an [`EmbeddedStore`](super::EmbeddedStore) is run; the default is right for a server of its
/// own.
#[derive(Clone)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// For how long changes are remembered for watchers and lists at older revisions. Default 10
    /// minutes.
    ///
    /// Expired records keep their space for as long.
    pub history_retention: Duration,
    /// How many changes are remembered at most. Default 2,000,000.
    pub history_len_max: u64,
    /// How many bytes of recent changes are also kept in memory. Default 8 MiB.
    ///
    /// Watchers further behind, and reads of what was written before, read from disk.
    pub history_memory_bytes: usize,
    /// How much of the index is kept in memory before it is flushed, in bytes. Default 16 MiB.
    ///
    /// There is as much again while it is being flushed.
    pub index_memory_bytes: usize,
    /// How long a file of the log gets before the next one is begun, in bytes. Default 128 MiB, 1
    /// GiB at most.
    ///
    /// Space of records that were replaced, deleted or expired is given back in files of which a
    /// quarter is not needed. There may be as much more, and half as much in files that are written
    /// to.
    pub segment_bytes: u64,
    /// How many files of the log are held open that are no longer written to. Default 256; 0 holds
    /// none.
    ///
    /// A read of another one opens it first, which takes some microseconds. Files that are written
    /// to, a few dozen, are not counted.
    pub log_files_max: usize,
    /// How many lists that are read page by page have a snapshot held for them, so that their pages
    /// cost the same however much is written meanwhile. Default 256; 0 holds none.
    ///
    /// The pages of other lists are as exact, and cost time in proportion to what was written since
    /// the first one. Once two pages of a list were read it keeps its snapshot beside any number of
    /// new lists.
    pub list_snapshots_max: usize,
    /// How long after its last page was read a list's snapshot is held. Default one minute.
    ///
    /// None is held for longer than the history is. What expired or was merged meanwhile keeps its
    /// space on disk for as long.
    pub list_snapshot_idle: Duration,
    /// How much of the index is kept in memory for snapshots after it was flushed, in bytes.
    /// Default 64 MiB.
    pub list_snapshot_memory_bytes: usize,
    /// Memory for caching what is read, in bytes. Default 32 MiB.
    pub cache_bytes: u64,
    /// Below this many free bytes on the disk, creates and updates are refused with
    /// [`Fault::NoSpace`](crate::Fault::NoSpace), so that deletes, expiry and the engine's own
    /// upkeep still work. Default 128 MiB.
    pub free_space_min: u64,
    /// Whether the ends of expired records are written down as their time comes, or only when
    /// [`expire`](crate::Store::expire) is called (for tests). Default true.
    pub expire_by_itself: bool,
    /// Whether values are compressed with what they have in common, which is learned from them,
    /// rather than with the built-in dictionary alone. Default true.
    pub learn_to_compress: bool,
    /// How many bytes of values are held in memory to learn from, of 2,048 values at most. Default
    /// 2 MiB. With fewer less is learned; for the time it takes to learn, some 10 MiB more are
    /// needed, once in a process however many stores it has.
    pub sample_bytes: usize,
    /// Tells the time. Default [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            history_retention: Duration::from_secs(600),
            history_len_max: 2_000_000,
            history_memory_bytes: 8 << 20,
            index_memory_bytes: 16 << 20,
            segment_bytes: 128 << 20,
            log_files_max: 256,
            list_snapshots_max: 256,
            list_snapshot_idle: Duration::from_secs(60),
            list_snapshot_memory_bytes: 64 << 20,
            cache_bytes: 32 << 20,
            free_space_min: 128 << 20,
            expire_by_itself: true,
            learn_to_compress: true,
            sample_bytes: 2 << 20,
            clock: Arc::new(SystemClock),
        }
    }
}
