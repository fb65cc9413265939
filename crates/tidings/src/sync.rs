//! The lock of the library. `tests/loom_mux.rs` compiles the mux with loom's lock
//! instead, to test every interleaving.

use std::sync::PoisonError;
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, even if another thread panicked while it held the lock: critical sections never leave
/// data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
