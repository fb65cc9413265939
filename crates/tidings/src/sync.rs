//! The lock of the library, and the counters of the broadcaster's queues. `tests/loom_mux.rs`
//! compiles the mux and the tally with those of loom instead, to test every interleaving.

use std::sync::PoisonError;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, even if another thread panicked while it held the lock: critical sections never leave
/// data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
