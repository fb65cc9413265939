//! The [`Keeper`], which writes versions, position and gaps of a cluster in one commit; and what it
//! finds out about events: their names, their ends and how long they last.
//!
//! Invariant: a repeated observation changes nothing.
//!
//! From outside: the [`Keeper`] takes each [`Observation`]; [`detect_ends`] finds the events that
//! ended during a gap.

mod batch;
mod chunks;
mod end_detection;
mod keeper;
#[cfg(test)]
mod keeper_tests;
mod lifetime;
mod predecessors;
mod slot;

pub(super) use batch::Batch;
pub(crate) use end_detection::detect_ends;
pub(crate) use keeper::{KeepError, Keeper, Observation, Unreadable, With};
pub(super) use keeper::{Tries, counts_from, is_of_others, later};
