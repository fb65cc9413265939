//! Errors of this suite.

use super::act::ActError;
use crate::servers::StartError;

/// Why the hostile input could not be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum HostileError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{kind}: {source}")]
    Act {
        kind: &'static str,
        source: ActError,
    },
    #[error("the server ended")]
    Ended,
    #[error("there is no such kind")]
    NoKind,
    #[error("what was found cannot be written: {0}")]
    Write(#[from] std::io::Error),
}
