//! Why a store on etcd could not be opened.

use std::path::PathBuf;

use crate::Fault;

/// Why a store on etcd could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options make no sense; the text says which and what is accepted.
    #[error("{0}")]
    Options(String),
    /// A TLS file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No member answered in time, or etcd refused.
    #[error("etcd cannot be used: {0}")]
    Etcd(Fault),
}
