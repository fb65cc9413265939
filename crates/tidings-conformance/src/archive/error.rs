//! Errors of this suite.

use std::path::PathBuf;

use http::StatusCode;

use crate::http::HttpError;
use crate::servers::StartError;

/// Why the archive could not be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArchiveError {
    #[error("could not run {program}: {source}")]
    Run {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("{program} ended by itself; it said: {last}")]
    Ended { program: PathBuf, last: String },
    #[error("{program} did not become ready; it said: {last}")]
    NotReady { program: PathBuf, last: String },
    #[error("{path} was answered {status}: {text}")]
    Answer {
        path: String,
        status: StatusCode,
        text: String,
    },
    #[error("the archive is at version {at} and does not reach {wanted}")]
    NotLevel { at: u64, wanted: u64 },
    #[error("{waiting:?} versions are not sealed")]
    NotSealed { waiting: Option<u64> },
    #[error("there is no etcd: --etcd names none")]
    NoEtcd,
    #[error("there is no kube-apiserver: --kube-apiserver names none")]
    NoKubeApiserver,
    #[error("etcd: {0}")]
    Etcd(String),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the last event could not be written")]
    NotWritten,
    #[error("an event with a TTL of a minute does not end")]
    NotEnded,
    #[error("the receiver at {0} does not answer")]
    NotReceiving(String),
    #[error("--feeds needs --victoria-logs, --collector and --python")]
    NoReceivers,
    #[error("the collector writes nothing")]
    NothingCollected,
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("a task ended: {0}")]
    Task(#[from] tokio::task::JoinError),
    #[error(transparent)]
    Files(#[from] std::io::Error),
}
