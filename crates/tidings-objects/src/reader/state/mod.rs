//! The newest view of a cluster, and how it becomes newer.
//!
//! Invariant: a view is replaced as a whole, and only by a later one.
//!
//! From outside: a [`Sealed`] cluster.

mod refresh;
mod sealed;

pub use refresh::HearError;
pub use sealed::LookError;
pub(super) use sealed::Sealed;
