//! Why a part of a sealed archive cannot be read, as a fault of the store.

use std::sync::Arc;
use std::time::Duration;

use object_store::Error;
use object_store::path::Path;
use parquet::errors::ParquetError;
use tidings_store::ReadError;

/// The causes of a failed read; see the module documentation.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The object storage refused, or could not be reached.
    #[error("{path}: {source}")]
    Store { path: Arc<str>, source: Arc<Error> },
    /// The object storage did not answer in time.
    #[error("{path}: no answer within {} s", within.as_secs())]
    Slow { path: Arc<str>, within: Duration },
    /// A file is damaged.
    #[error("{path} is damaged: {why}")]
    Damaged { path: Arc<str>, why: Arc<str> },
    /// The file does not exist any more.
    #[error("{path} is not there")]
    Gone { path: Arc<str> },
    /// The request has no meaning here.
    #[error("{0}")]
    Unknown(&'static str),
}

impl Fault {
    pub(super) fn store(path: &Path, source: Error) -> Self {
        let path: Arc<str> = path.as_ref().into();
        match source {
            Error::NotFound { .. } => Self::Gone { path },
            source => Self::Store {
                path,
                source: Arc::new(source),
            },
        }
    }

    pub(super) fn slow(path: &Path, within: Duration) -> Self {
        Self::Slow {
            path: path.as_ref().into(),
            within,
        }
    }

    pub(super) fn damaged(path: &Path, why: impl Into<Arc<str>>) -> Self {
        Self::Damaged {
            path: path.as_ref().into(),
            why: why.into(),
        }
    }

    pub(super) fn parquet(path: &Path, error: &ParquetError) -> Self {
        Self::damaged(path, error.to_string())
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    pub(super) fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl From<Fault> for tidings_store::Fault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged { .. } => Self::Corrupt(fault.to_string()),
            _ => Self::Storage(Arc::new(fault)),
        }
    }
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        tidings_store::Fault::from(fault).into()
    }
}
