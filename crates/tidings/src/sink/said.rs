//! The parts of a `Status` that decide about a retry.

use kube::core::Status;

/// The parts of a `Status`, read from JSON or protobuf, that decide about a retry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) message: String,
    pub(super) reason: String,
    /// The reasons of the Status's causes.
    pub(super) causes: Vec<String>,
    /// The wait that the server asks for; 0 if it asks for none.
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
