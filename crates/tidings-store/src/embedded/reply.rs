//! The committer's answers, and the answer if it ends before the outcome of a write is known.
//!
//! - Before its commit begins, nothing of a write is on the disk: the store is closed, and nothing
//!   changed.
//! - From then on it may be on the disk: the outcome is unknown.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{Fault, WriteError};

/// The receiver of one answer. If dropped without one, it sends the answer of the module
/// documentation.
pub(crate) struct Reply<T> {
    /// `None` once the answer is given.
    sender: Option<oneshot::Sender<Result<T, WriteError>>>,
    begun: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the store ended in the middle of the commit")]
struct Ended;

/// The answer to a write that may be on the disk.
pub(crate) fn unknown() -> WriteError {
    Fault::Unknown(Arc::new(Ended)).into()
}

impl<T> Reply<T> {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Result<T, WriteError>>) {
        let (sender, receiver) = oneshot::channel();
        let (sender, begun) = (Some(sender), false);
        (Self { sender, begun }, receiver)
    }

    pub(crate) fn send(mut self, answer: Result<T, WriteError>) {
        if let Some(sender) = self.sender.take() {
            // The caller may be gone.
            drop(sender.send(answer));
        }
    }

    /// From now on the write may be on the disk.
    pub(crate) fn begin(&mut self) {
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

/// A write that was decided; its answer is held back until the commit is on the disk.
pub(crate) trait Decided: Send {
    /// See [`Reply::begin`].
    fn begin(&mut self);
    /// The outcome of the commit.
    fn answer(self: Box<Self>, committed: Result<(), Fault>);
}

/// A decision, and where it goes.
pub(crate) fn decided<T: Send + 'static>(
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
