//! The relevant parts of a `Status`.

use kube::core::Status;

/// The relevant parts of a `Status`, in JSON or protobuf.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) message: String,
    pub(super) reason: String,
    /// The reasons of its causes.
    pub(super) causes: Vec<String>,
    /// 0 if no wait is asked for.
    pub(super) retry_after_seconds: u64,
}

impl From<Status> for Said {
    fn from(status: Status) -> Self {
        let details = status.details.as_ref();
        let causes = details.map_or(&[][..], |details| &details.causes);
        Self {
            causes: causes.iter().map(|cause| cause.reason.clone()).collect(),
            retry_after_seconds: details.map_or(0, |details| details.retry_after_seconds.into()),
            message: status.message,
            reason: status.reason,
        }
    }
}
