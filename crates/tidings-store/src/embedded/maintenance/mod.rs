//! Work on the store beside the committer: flushing and merging the index, releasing space in the
//! log, training dictionaries.
//!
//! Invariants: nothing here decides a write or changes the revision. Work that was interrupted or
//! failed is repeated, and leaves every record as it was.
//!
//! From outside: the committer owns the [`Flusher`] and the [`Trainer`], and orders a [`Pass`].

mod flusher;
mod rewrite;
mod trainer;

pub(super) use flusher::Flusher;
pub(super) use rewrite::Pass;
#[cfg(test)]
pub(super) use rewrite::{Failure, Place, step};
pub(super) use trainer::Trainer;
