//! One Parquet file of versions, and its rollup.
//!
//! The modules define its columns, write it and read it.

pub(crate) mod bounds;
pub(crate) mod caught;
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
