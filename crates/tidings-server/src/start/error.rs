//! Why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// There is no certificate to serve with.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
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
