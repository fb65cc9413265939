//! How a cluster is reached that is asked for reviews.

use std::fmt::Debug;

use serde_json::Value;
use tidings_store::BoxFuture;

/// Creates reviews in a cluster.
pub trait Reviewer: Debug + Send + Sync + 'static {
    /// POSTs the JSON of a review to a path and returns the review the cluster answers with. Need
    /// not know a deadline: it is dropped when its answer comes too late.
    ///
    /// The body of a `TokenReview` is a secret: it must not be logged.
    fn review<'a>(
        &'a self,
        path: &'static str,
        body: Value,
    ) -> BoxFuture<'a, Result<Value, ReviewError>>;
}

/// Why a cluster could not be asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// It was not reached.
    #[error("the cluster cannot be reached: {why}")]
    Unreachable {
        /// What went wrong on the way.
        why: String,
    },
    /// It would not answer.
    #[error("the cluster answered {code}: {message}")]
    Refused {
        /// The HTTP code.
        code: u16,
        /// Its message.
        message: String,
    },
    /// It answered something else.
    #[error("the cluster's answer is not a review: {why}")]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// It did not answer in time.
    #[error("the cluster did not answer in time")]
    TimedOut,
    /// It was not asked: too much that is not known is being asked.
    #[error("too many questions to the cluster wait for their turn")]
    TooManyQuestions,
}

impl ReviewError {
    /// Whether asking again may help.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => *code == 429 || *code >= 500,
            _ => false,
        }
    }
}
