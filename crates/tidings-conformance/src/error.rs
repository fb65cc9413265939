//! Errors of the suites: why nothing could be judged. They are only printed, so they are texts, and
//! the errors of libraries as they are.

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Fails with this text.
pub(crate) fn fail<T>(what: impl Into<String>) -> Result<T> {
    Err(what.into().into())
}
