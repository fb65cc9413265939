//! Parts of files, fetched through a cache: footers, runs of rows, columns and rollups.
//!
//! Invariant: a file whose bytes differ from what its manifest states is damaged, and no part of it
//! is returned.
//!
//! From outside: [`Fetch`] requests parts and [`columns`] decodes them; [`leaf`] names the columns.

pub(super) mod columns;
mod fetch;
mod footer;
pub(super) mod leaf;
mod rollup;
mod runs;

pub(super) use fetch::{Counters, Fetch, Held, Key, REQUEST_BYTES_MAX, Remote, Shared};
pub(super) use footer::{Footer, Group};
pub(super) use rollup::Rolled;
pub(super) use runs::Runs;
