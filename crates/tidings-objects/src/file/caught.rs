//! Panics of the Parquet crate about damaged bytes, which become errors.

#[cfg(fuzzing)]
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use parquet::errors::ParquetError;

/// Runs a read whose damaged bytes may make the Parquet crate panic; a panic becomes an error.
pub(crate) fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    #[cfg(fuzzing)]
    let read = || ignored(read);
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(ParquetError::General("reading it panicked".into())))
}

#[cfg(fuzzing)]
thread_local! {
    /// Whether a panic of this thread becomes an error.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Sets a panic hook that ignores the panics that become errors. libFuzzer's hook ends the process
/// at the others.
#[cfg(fuzzing)]
pub fn ignore_caught_panics() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if !CATCHING.get() {
            hook(panicked);
        }
    }));
}

/// Runs a read whose panic the hook ignores.
#[cfg(fuzzing)]
fn ignored<T>(read: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            CATCHING.set(self.0);
        }
    }
    let _reset = Reset(CATCHING.replace(true));
    read()
}
