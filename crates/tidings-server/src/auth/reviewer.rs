//! The connection to a cluster that is asked for reviews.

use std::fmt::Debug;

use serde_json::Value;
use tidings_store::BoxFuture;

/// Requests reviews from a cluster.
pub trait Reviewer: Debug + Send + Sync + 'static {
    /// Whether every review goes over TLS to a server whose certificate is verified. A cluster that
    /// is not verified is never asked: anyone on the way could read the callers' tokens and forge
    /// the answers. Tokens that only the cluster may know are then refused with 401. It is called
    /// once.
    fn is_verified(&self) -> bool;

    /// POSTs the JSON of a review to a path and returns the cluster's answer. It needs no timeout:
    /// the caller drops it at its deadline. The body of a `TokenReview` contains a secret and must
    /// not be logged.
    fn review<'a>(
        &'a self,
        path: &'static str,
        body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>>;
}

/// The reason why a cluster gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The cluster cannot be reached.
    #[error("the cluster cannot be reached: {why}")]
    Unreachable {
        /// The error of the connection.
        why: String,
    },
    /// The cluster answered with an error.
    #[error("the cluster answered {code}: {message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// The cluster's message.
        message: String,
    },
    /// The answer is not a review.
    #[error("the cluster's answer is not a review: {why}")]
    Unreadable {
        /// The mistake in it.
        why: String,
    },
    /// The cluster did not answer in time.
    #[error("the cluster did not answer in time")]
    TimedOut,
    /// Too many other questions are open, so the cluster was not asked.
    #[error("too many questions to the cluster wait for their turn")]
    TooManyQuestions,
}

impl ReviewError {
    /// Whether a retry may help.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => *code == 429 || *code >= 500,
            _ => false,
        }
    }
}
