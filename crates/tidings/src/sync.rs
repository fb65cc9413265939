//! The lock under the broadcaster's queues. `tests/loom_mux.rs` compiles the mux against loom's in
//! its place, to try every interleaving.

use std::sync::PoisonError;
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, also when another thread panicked with the lock held: nothing here leaves its data half
/// changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
