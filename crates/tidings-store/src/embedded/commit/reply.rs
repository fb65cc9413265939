//! The committer's answers, including those for a committer that ends before it can answer.
//!
//! - Before its commit begins, nothing of a write is on the disk. The answer is that the store is
//!   closed and nothing changed.
//! - From then on the write may be on the disk. The answer is that the outcome is unknown.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{Fault, WriteError};

/// Where one answer goes. If dropped without an answer, it sends the one that the module
/// documentation describes.
pub(in crate::embedded) struct Reply<T> {
    /// `None` once the answer is sent.
    sender: Option<oneshot::Sender<Result<T, WriteError>>>,
    begun: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the store ended in the middle of the commit")]
struct Ended;

/// The answer to a write that may be on the disk.
pub(in crate::embedded) fn unknown() -> WriteError {
    Fault::Unknown(Arc::new(Ended)).into()
}

impl<T> Reply<T> {
    pub(super) fn new() -> (Self, oneshot::Receiver<Result<T, WriteError>>) {
        let (sender, receiver) = oneshot::channel();
        let (sender, begun) = (Some(sender), false);
        (Self { sender, begun }, receiver)
    }

    pub(super) fn send(mut self, answer: Result<T, WriteError>) {
        if let Some(sender) = self.sender.take() {
            // The caller may be gone, so a failure to send is ignored.
            drop(sender.send(answer));
        }
    }

    /// Records that the write may be on the disk from now on.
    pub(super) fn begin(&mut self) {
        self.begun = true;
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let closed = || Fault::Closed.into();
            let error = if self.begun { unknown() } else { closed() };
            drop(sender.send(Err(error)));
        }
    }
}

/// A decided write whose answer is held back until the commit is on the disk.
pub(in crate::embedded) trait Decided: Send {
    /// Records that the commit begins; see [`Reply::begin`].
    fn begin(&mut self);
    /// Sends the answer, given the outcome of the commit.
    fn answer(self: Box<Self>, committed: Result<(), Fault>);
}

/// Pairs a decision with the receiver of its answer.
pub(super) fn decided<T: Send + 'static>(
    reply: Reply<T>,
    result: Result<T, WriteError>,
) -> Box<dyn Decided> {
    Box::new((reply, result))
}

impl<T: Send> Decided for (Reply<T>, Result<T, WriteError>) {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn answer(self: Box<Self>, committed: Result<(), Fault>) {
        let (reply, result) = *self;
        reply.send(committed.map_err(WriteError::Fault).and(result));
    }
}
