//! The one switch between the standard library's lock and loom's, which tries every interleaving.

#[cfg(not(all(test, tidings_loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(all(test, tidings_loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks, also when another thread panicked with the lock held: nothing here leaves its data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
