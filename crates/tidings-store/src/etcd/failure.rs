//! Classifies failed requests. For a write, the question is whether it may be done anyway.

use std::error::Error;
use std::sync::Arc;

use tonic::{Code, Status};

use crate::Fault;

/// What is certain about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The request was not done; another member, or the same one later, may accept it.
    NotDone,
    /// The request was not done, and a retry would not help.
    Refused,
    /// The request may have been done.
    Unknown,
}

/// A failed request: its outcome, etcd's message and the member's URL.
#[derive(Clone, Debug, thiserror::Error)]
#[error("etcd at {endpoint}: {message}")]
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) message: String,
    endpoint: String,
}

impl Failure {
    pub(super) fn new(endpoint: &str, status: &Status) -> Self {
        let detail = status.source().map(chain);
        let message = match detail {
            Some(detail) if !status.message().contains(&detail) => {
                format!("{}: {detail}", status.message())
            }
            _ => status.message().to_owned(),
        };
        Self {
            outcome: outcome(status),
            message,
            endpoint: endpoint.to_owned(),
        }
    }

    /// Replaces the outcome by a more precise one.
    pub(super) fn knowing(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    pub(super) fn says(&self, text: &str) -> bool {
        self.message.contains(text)
    }

    /// Whether etcd has no space left. etcd reports this before a transaction, and also after one
    /// that used up the rest (`quotaApplierV3` in `apply/uber_apply.go` and its kin).
    pub(super) fn is_no_space(&self) -> bool {
        self.says("database space exceeded")
    }

    /// Whether etcd has compacted the requested revision.
    pub(super) fn is_compacted(&self) -> bool {
        self.says("required revision has been compacted")
    }

    /// Whether etcd has not reached the requested revision yet.
    pub(super) fn is_future(&self) -> bool {
        self.says("required revision is a future revision")
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        if failure.is_no_space() {
            Self::NoSpace
        } else {
            Self::Storage(Arc::new(failure))
        }
    }
}

/// Classifies a failure. The first question is whether etcd sent it or our side of the connection
/// made it. Where etcd's codes are ambiguous, its own error texts (`api/v3rpc/rpctypes`) decide.
fn outcome(status: &Status) -> Outcome {
    let message = status.message();
    let says = |text| message.contains(text);
    if let Some(cause) = status.source() {
        return if is_unsent(cause) {
            Outcome::NotDone
        } else {
            Outcome::Unknown
        };
    }
    // A client certificate's name is checked as of an older revision of etcd's users.
    if says("auth: revision in header is old")
        || says("etcdserver: no leader")
        || says("too many requests")
    {
        return Outcome::NotDone;
    }
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::ResourceExhausted
        | Code::DataLoss => Outcome::Refused,
        _ => Outcome::Unknown,
    }
}

/// Whether a request was certainly not processed. Either there was no connection, or the member
/// refused to begin the request. HTTP/2 allows that refusal only for an unprocessed request (RFC
/// 9113, 8.7).
fn is_unsent(cause: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(cause);
    while let Some(error) = cause {
        let refused = error
            .downcast_ref::<h2::Error>()
            .is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM));
        if refused || error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The text of an error and its causes, in one line.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !line.contains(&cause_text) {
            line.push_str(": ");
            line.push_str(&cause_text);
        }
        source = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_etcd_itself_refused_is_certain() {
        let from = |code, message: &str| Status::new(code, message);
        let cases = [
            (
                from(Code::NotFound, "etcdserver: requested lease not found"),
                Outcome::Refused,
            ),
            (
                from(
                    Code::ResourceExhausted,
                    "etcdserver: mvcc: database space exceeded",
                ),
                Outcome::Refused,
            ),
            (
                from(Code::ResourceExhausted, "etcdserver: too many requests"),
                Outcome::NotDone,
            ),
            (
                from(Code::Unavailable, "etcdserver: no leader"),
                Outcome::NotDone,
            ),
            (
                from(Code::Unauthenticated, "etcdserver: invalid auth token"),
                Outcome::Refused,
            ),
            (
                from(
                    Code::InvalidArgument,
                    "etcdserver: auth: revision in header is old",
                ),
                Outcome::NotDone,
            ),
            (
                from(Code::Unavailable, "etcdserver: request timed out"),
                Outcome::Unknown,
            ),
            (
                from(Code::Unavailable, "etcdserver: leader changed"),
                Outcome::Unknown,
            ),
            (
                from(Code::Unknown, "raft proposal dropped"),
                Outcome::Unknown,
            ),
            (from(Code::Cancelled, "context canceled"), Outcome::Unknown),
            (
                Status::from_error(Box::new(tonic::ConnectError("refused".into()))),
                Outcome::NotDone,
            ),
            (
                Status::from_error(Box::new(h2::Error::from(h2::Reason::REFUSED_STREAM))),
                Outcome::NotDone,
            ),
            (
                Status::from_error(Box::new(h2::Error::from(h2::Reason::CANCEL))),
                Outcome::Unknown,
            ),
            (
                Status::from_error(Box::new(h2::Error::from(h2::Reason::INTERNAL_ERROR))),
                Outcome::Unknown,
            ),
        ];
        for (status, want) in cases {
            assert_eq!(outcome(&status), want, "{status:?}");
        }
        // The same code made by our side of the connection, for example for a reset stream, proves
        // nothing.
        let cause = std::io::Error::other("reset");
        let mut status = from(Code::ResourceExhausted, "h2 protocol error");
        status.set_source(Arc::new(cause));
        assert_eq!(outcome(&status), Outcome::Unknown);
    }
}
