//! The error of opening a store on etcd.

use std::path::PathBuf;

use crate::Fault;

/// The reason why a store on etcd could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option is invalid. The text names it and says what is accepted.
    #[error("{0}")]
    Options(String),
    /// A TLS file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    TlsFile {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// No member answered in time, or etcd refused the request.
    #[error("etcd cannot be used: {0}")]
    Etcd(Fault),
}
