//! From a caller's write to its answer: queue, decision, commit, expiry.
//!
//! Invariants: one thread, the [`Committer`], decides and writes; it alone changes the revision. An
//! answer is sent only when the commit is on disk, or certainly is not. The queue is bounded by
//! count and bytes.
//!
//! From outside: the store's handle shares [`Shared`] with the committer, and puts each [`Request`]
//! into its queue.

mod batch;
mod committer;
mod queue;
mod reply;
mod request;
mod shared;
mod sweep;

#[cfg(test)]
pub(super) use batch::LOADED_MAX;
pub(super) use committer::Committer;
pub(super) use queue::Queue;
#[cfg(test)]
pub(super) use request::Put;
pub(super) use request::Request;
pub(super) use shared::Shared;
