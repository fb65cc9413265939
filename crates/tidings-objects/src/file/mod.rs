//! One Parquet file of versions: its columns, how it is written, and how it is read.

pub(crate) mod columns;
pub(crate) mod read;
pub(crate) mod write;
