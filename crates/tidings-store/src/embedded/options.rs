//! Options of an embedded store.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// Options of an [`EmbeddedStore`](super::EmbeddedStore); the defaults suit a dedicated server.
#[derive(Clone)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// Retention of the history: how long changes are remembered. Default 10 minutes. Watchers and
    /// lists at older revisions need the history. Expired records occupy space for as long.
    pub history_retention: Duration,
    /// Maximum changes in the history. Default 2,000,000.
    pub history_len_max: u64,
    /// Maximum bytes of recent changes in memory. Default 8 MiB. Watchers that are further behind,
    /// and reads of older versions, read from disk.
    pub history_memory_bytes: usize,
    /// Bytes of the index in memory at which it is flushed. Default 16 MiB. During a flush it may
    /// take as much again.
    pub index_memory_bytes: usize,
    /// Bytes of a log segment at which the next one begins. Default 128 MiB, at most 1 GiB. A
    /// segment's space is released once a quarter of it is garbage: replaced, deleted or expired
    /// records. Up to as much garbage may stay, and half as much in segments that are being
    /// written.
    pub segment_bytes: u64,
    /// Maximum complete segments that are kept open for reading. Default 256; 0 means none. A read
    /// of another segment opens it first, which takes some microseconds. Segments that are being
    /// written, a few dozen, do not count.
    pub log_files_max: usize,
    /// Maximum snapshots held for lists that are read page by page. Default 256; 0 means none.
    ///
    /// With a snapshot, the cost of a list's pages does not depend on later writes. Without one,
    /// pages are equally exact, but cost time in proportion to the writes since the first page.
    /// After two pages of a list were read, new lists do not take its snapshot.
    pub list_snapshots_max: usize,
    /// Time that a list's snapshot is held after its last page was read. Default one minute. It is
    /// held at most as long as the history. Expired or merged data occupies disk space for as long.
    pub list_snapshot_idle: Duration,
    /// Maximum bytes of flushed index memory that snapshots hold. Default 64 MiB.
    pub list_snapshot_memory_bytes: usize,
    /// Bytes of the read cache. Default 32 MiB.
    pub cache_bytes: u64,
    /// Free bytes on the disk below which creates and updates are refused. Default 128 MiB. They
    /// fail with [`Fault::NoSpace`](crate::Fault::NoSpace), so that deletes, expiry and the store's
    /// upkeep still work.
    ///
    /// Several writes in [one commit](super::EmbeddedStore::write_all) are refused as well, unless
    /// some of them are deletes and the others store at most 64 KiB together. Upkeep that first
    /// needs space itself is put off until there is twice as much as it may need.
    pub free_space_min: u64,
    /// Whether the store writes expiries by itself. Default true. If false, only
    /// [`expire`](crate::Store::expire) writes them (for tests).
    pub expire_by_itself: bool,
    /// Whether the store trains compression dictionaries from its values. Default true. If false,
    /// only the built-in dictionary is used.
    pub learn_to_compress: bool,
    /// Maximum bytes of values held in memory as a training sample. Default 2 MiB. A sample has at
    /// most 2,048 values. A smaller sample makes compression worse. Training itself briefly takes
    /// some 10 MiB more, once per process whatever the number of stores.
    pub sample_bytes: usize,
    /// The store's clock. Default [`SystemClock`].
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
