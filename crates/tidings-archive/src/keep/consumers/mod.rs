//! What reads the feed: named cursors, and the sealer with its purges, noted manifests and
//! continuations.
//!
//! Invariants: a consumer gets every entry at least once, or a count of those that it lost. Only
//! the bounds of its backlog delete an entry that a consumer still needs.
//!
//! From outside: [`ClusterFeed`] is a named cursor, [`Unsealed`] what the sealer and readers of
//! sealed archives see, and [`continue_archive`] gives a store the place of a lost one.

mod bounds;
mod continuation;
mod manifests;
mod named;
#[cfg(test)]
mod named_tests;
mod occurrences;
mod purges;
mod sealer;
#[cfg(test)]
mod sealer_tests;

pub(crate) use bounds::BACKLOG_BYTES_MAX;
pub use continuation::{Continued, Continues, SEALED_BEYOND_MAX};
pub(crate) use continuation::{continue_archive, new_identity, seal_anew};
pub use manifests::Commit;
pub use named::ClusterFeed;
pub use purges::Unerased;
pub use sealer::{JournalError, Part, Unsealed};
