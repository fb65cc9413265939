//! Options of an embedded store.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// Options of an [`EmbeddedStore`](super::EmbeddedStore); the defaults suit a dedicated server.
#[derive(Clone)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// How long changes are remembered for watchers and lists at older revisions. Default 10
    /// minutes.
    ///
    /// Expired records occupy space for as long.
    pub history_retention: Duration,
    /// Maximum changes remembered. Default 2,000,000.
    pub history_len_max: u64,
    /// Maximum bytes of recent changes in memory. Default 8 MiB.
    ///
    /// Watchers further behind, and reads of older versions, read from disk.
    pub history_memory_bytes: usize,
    /// Bytes of the index in memory at which it is flushed. Default 16 MiB.
    ///
    /// During a flush there may be as much again.
    pub index_memory_bytes: usize,
    /// Bytes of a segment of the log at which the next one begins. Default 128 MiB, at most 1 GiB.
    ///
    /// Space of replaced, deleted or expired records is released in segments of which a quarter is
    /// garbage. There may be as much more, and half as much in segments that are being written.
    pub segment_bytes: u64,
    /// Maximum complete segments that are kept open for reading. Default 256; 0 means none.
    ///
    /// A read of another one opens it first, which takes some microseconds. Segments that are being
    /// written, a few dozen, do not count.
    pub log_files_max: usize,
    /// Maximum snapshots held for lists that are read page by page, so that the cost of their pages
    /// does not depend on later writes. Default 256; 0 means none.
    ///
    /// The pages of other lists are equally exact, but cost time in proportion to the writes since
    /// the first one. After two pages of a list were read, new lists do not take its snapshot.
    pub list_snapshots_max: usize,
    /// How long a list's snapshot is held after its last page was read. Default one minute.
    ///
    /// At most as long as the history. Expired or merged data occupies disk space for as long.
    pub list_snapshot_idle: Duration,
    /// Maximum bytes of the index in memory that snapshots hold after a flush. Default 64 MiB.
    pub list_snapshot_memory_bytes: usize,
    /// Bytes of the read cache. Default 32 MiB.
    pub cache_bytes: u64,
    /// Free bytes on the disk below which creates and updates are refused with
    /// [`Fault::NoSpace`](crate::Fault::NoSpace), so that deletes, expiry and the store's upkeep
    /// still work. Default 128 MiB.
    ///
    /// Several writes in [one commit](super::EmbeddedStore::write_all) are refused as well, unless
    /// some of them are deletes and the others store at most 64 KiB together. Upkeep that first
    /// needs space itself is put off until there is twice as much as it may need.
    pub free_space_min: u64,
    /// Whether expiries are written in time, or only when [`expire`](crate::Store::expire) is
    /// called (for tests). Default true.
    pub expire_by_itself: bool,
    /// Whether values are compressed with dictionaries that are trained from them, not only with
    /// the built-in one. Default true.
    pub learn_to_compress: bool,
    /// Maximum bytes of values held in memory for learning, of 2,048 values at most. Default 2 MiB.
    /// A smaller sample makes compression worse. Learning itself takes some 10 MiB more for a
    /// moment, once per process whatever the number of stores.
    pub sample_bytes: usize,
    /// The clock. Default [`SystemClock`].
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
