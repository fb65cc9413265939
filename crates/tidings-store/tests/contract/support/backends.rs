//! The backends of the suite. A new one implements [`Backend`], gets a function here and a line
//! `contract!` in `main.rs`: all cases and the random histories then run on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidings_store::clock::ManualClock;
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::memory::MemoryStore;
use tidings_store::{BoxFuture, Store};

#[cfg(feature = "etcd")]
pub(crate) use super::enveloped::etcd;

/// Opens stores of one kind.
pub(crate) trait Backend: Send + Sync {
    /// Opens the store with a manual clock, keeping the whole history. The folder is the store's
    /// own. A reopened store has the same content.
    fn open<'a>(
        &'a self,
        folder: &'a Path,
        clock: &'a ManualClock,
    ) -> BoxFuture<'a, Arc<dyn Store>>;

    /// Whether this machine has its programs; otherwise its cases are skipped.
    fn is_available(&self) -> bool {
        true
    }

    /// Whether records outlive the store.
    fn is_durable(&self) -> bool {
        true
    }

    /// Whether the records are kept by another process.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether a snapshot is held for a list that is read page by page.
    fn holds_snapshots(&self) -> bool {
        false
    }
}

/// Makes a backend that holds nothing.
pub(crate) type Make = fn() -> Box<dyn Backend>;

/// In memory.
pub(crate) fn memory() -> Box<dyn Backend> {
    Box::new(Memory)
}

/// With room for only a few changes in memory, so that watchers read the history from disk.
pub(crate) fn embedded() -> Box<dyn Backend> {
    Box::new(Embedded { is_roomy: false })
}

/// With the default room.
pub(crate) fn embedded_roomy() -> Box<dyn Backend> {
    Box::new(Embedded { is_roomy: true })
}

struct Memory;

impl Backend for Memory {
    fn open<'a>(&'a self, _: &'a Path, clock: &'a ManualClock) -> BoxFuture<'a, Arc<dyn Store>> {
        let store = MemoryStore::new(Arc::new(clock.clone()), usize::MAX);
        Box::pin(std::future::ready(Arc::new(store) as Arc<dyn Store>))
    }

    fn is_durable(&self) -> bool {
        false
    }
}

struct Embedded {
    is_roomy: bool,
}

impl Backend for Embedded {
    fn holds_snapshots(&self) -> bool {
        true
    }

    fn open<'a>(
        &'a self,
        folder: &'a Path,
        clock: &'a ManualClock,
    ) -> BoxFuture<'a, Arc<dyn Store>> {
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(clock.clone());
        options.expire_by_itself = false;
        options.history_retention = Duration::MAX;
        if !self.is_roomy {
            options.history_memory_bytes = 1500;
            // Small enough that segments without expiry are rewritten.
            options.segment_bytes = 200;
            options.log_files_max = 1;
            options.index_memory_bytes = 1 << 10;
        }
        let store = EmbeddedStore::open(folder, options).unwrap();
        Box::pin(std::future::ready(Arc::new(store) as Arc<dyn Store>))
    }
}
