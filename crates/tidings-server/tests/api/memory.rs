//! The store the tests run over: one in memory.

use std::sync::Arc;

use tidings_store::Store;
use tidings_store::clock::ManualClock;
use tidings_store::memory::MemoryStore;

/// A test whose timers run ahead by themselves may do so here: no answer comes from another
/// process.
pub(crate) const TIME_MAY_STOP: bool = true;

/// A store that was never written to.
pub(crate) fn store(clock: &ManualClock) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(clock.clone()), 1000))
}
