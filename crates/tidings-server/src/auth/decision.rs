//! The decision about a request.

/// The decision of an [`Authorizer`](super::Authorizer) about one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Whether the request is forbidden even if another authorizer would allow it.
    pub(crate) denied: bool,
    /// The reason; may be empty.
    pub(crate) reason: String,
}
