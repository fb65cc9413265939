//! What identifies objects, events and versions, and the order in which rows and lists have them.
//!
//! Invariant: nothing here reads a file.
//!
//! From outside: the [`Place`] of an object, the [`Position`] of an event, and its [`names`].

pub(super) mod names;
mod place;
mod position;

pub(super) use place::{Place, borrowed};
pub(super) use position::Position;
