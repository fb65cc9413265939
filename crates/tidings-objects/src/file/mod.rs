//! One Parquet file of versions, and its rollup: their columns, how they are written, and how they
//! are read.

pub(crate) mod columns;
pub(crate) mod pieces;
pub(crate) mod read;
pub(crate) mod rollup;
pub(crate) mod uids;
pub(crate) mod write;
