//! The versions that the archive has observed and not sealed yet.
//!
//! Invariant: pending versions follow the sealed ones without a hole, in order of the feed.
//!
//! From outside: a [`Tail`](tail::Tail) has them as files in memory, a [`WaitingSource`] asks the
//! archive for them, and [`changes`] finds what each view adds for watchers.

pub(super) mod changes;
mod source;
pub(super) mod tail;

pub use source::{AskError, WaitingSource};
pub(super) use source::{Listening, More};
