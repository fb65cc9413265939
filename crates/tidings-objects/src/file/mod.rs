//! One Parquet file of versions, and its rollup: their columns, how they are written, and how they
//! are read.

pub(crate) mod bounds;
pub(crate) mod columns;
mod delta;
pub(crate) mod end;
pub(crate) mod pages;
pub(crate) mod pieces;
pub(crate) mod read;
pub(crate) mod rollup;
mod thrift;
pub(crate) mod uids;
pub(crate) mod write;

use std::panic::AssertUnwindSafe;

use parquet::errors::ParquetError;

/// Reads of bytes that may be damaged in a way that the crate for the format does not expect, and
/// panics.
pub(crate) fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let read = std::panic::catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(ParquetError::General("reading it panicked".into())))
}
