//! One Parquet file of versions, and its rollup.
//!
//! The modules define its columns, write it and read it.

pub(crate) mod bounds;
pub(crate) mod columns;
mod delta;
pub(crate) mod end;
pub(crate) mod filter;
pub(crate) mod pages;
pub(crate) mod pieces;
pub(crate) mod read;
pub(crate) mod rollup;
mod thrift;
pub(crate) mod uids;
mod wire;
pub(crate) mod write;

use std::panic::AssertUnwindSafe;

use parquet::errors::ParquetError;

/// Runs a read whose damaged bytes may make the Parquet crate panic; a panic becomes an error.
pub(crate) fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    #[cfg(fuzzing)]
    let read = || crate::fuzzing::catching(read);
    let read = std::panic::catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(ParquetError::General("reading it panicked".into())))
}
