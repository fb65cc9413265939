//! Errors of a server's start.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tidings_store::embedded::OpenError;

use crate::archive::ClusterError;
use crate::auth::TokenFileError;
use crate::start::tls::TlsError;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store could not be opened.
    #[error("cannot open the event store: {0}")]
    Store(#[from] OpenError),
    /// The store on etcd could not be opened.
    #[cfg(feature = "etcd")]
    #[error("cannot open the event store on etcd: {0}")]
    Etcd(#[from] tidings_store::etcd::OpenError),
    /// The token file is not usable.
    #[error("{}: {source}", path.display())]
    TokenFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: TokenFileError,
    },
    /// A file of certificates or permissions is not usable.
    #[error("{}: {why}", path.display())]
    SecurityFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Two options contradict each other.
    #[error("{why}")]
    Options {
        /// Which, and why.
        why: &'static str,
    },
    /// A followed cluster cannot be served.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The server's certificate is not usable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no randomness for a token.
    #[error("no random bytes for a token: {0}")]
    Random(#[from] getrandom::Error),
}

impl StartError {
    /// Turns a system error into one about this file or folder.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::File { path, source }
    }
}
