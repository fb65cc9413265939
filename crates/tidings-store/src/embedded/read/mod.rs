//! Reads of the store as of one commit.
//!
//! Invariants: reads change nothing, and do not wait for writers. A read that takes more than a
//! bounded number of steps ends with a place to continue from.
//!
//! From outside: a [`View`] answers point reads, lists, newest and history; [`counts()`] answers
//! counts of a view.

mod counts;
mod view;

pub(super) use counts::counts;
pub(super) use view::View;
#[cfg(test)]
pub(super) use view::{AT_ONCE_MAX, ENDED_MAX, PASSED_OVER_MAX};
