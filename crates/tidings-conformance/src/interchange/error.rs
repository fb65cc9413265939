//! Errors of this suite.

use crate::http::HttpError;
use crate::servers::StartError;

/// Why nothing could be judged, or what is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InterchangeError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("an answer is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("what was found cannot be written: {0}")]
    Write(#[from] std::io::Error),
    #[error("{0}")]
    Different(String),
}

pub(super) fn different(what: impl Into<String>) -> InterchangeError {
    InterchangeError::Different(what.into())
}
