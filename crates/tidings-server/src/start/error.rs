//! Errors of a server's start.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tidings_store::embedded::OpenError;

use crate::archive::ClusterError;
use crate::auth::{RequestHeaderError, TokenFileError};
use crate::start::tls::TlsError;

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The settings of the front proxy cannot be used.
    #[error(transparent)]
    RequestHeader(#[from] RequestHeaderError),
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The store could not be opened.
    #[error("cannot open the event store: {0}")]
    Store(#[from] OpenError),
    /// The store on etcd could not be opened.
    #[cfg(feature = "etcd")]
    #[error("cannot open the event store on etcd: {0}")]
    Etcd(#[from] tidings_store::etcd::OpenError),
    /// The token file is invalid.
    #[error("{}: {source}", path.display())]
    TokenFile {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        source: TokenFileError,
    },
    /// A file of certificates or permissions is invalid.
    #[error("{}: {why}", path.display())]
    SecurityFile {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        why: String,
    },
    /// Two options contradict each other.
    #[error("{why}")]
    Options {
        /// Which options, and why.
        why: &'static str,
    },
    /// A followed cluster cannot be served.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The server's certificate is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The operating system returned no randomness for a token.
    #[error("no random bytes for a token: {0}")]
    Random(#[from] getrandom::Error),
}

impl StartError {
    /// Wraps a system error with the path of the affected file or folder.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }
}
