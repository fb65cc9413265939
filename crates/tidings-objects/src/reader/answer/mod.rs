//! Answers to requests about a view: lists, the newest events, single events, versions and counts.
//!
//! Invariants: an answer is of one view. Its memory is bounded by its page, not by the archive.
//!
//! From outside: the methods of a [`View`](crate::reader::plan::View).

mod counts;
mod find;
mod list;
mod newest;
