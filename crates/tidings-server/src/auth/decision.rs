//! Whether something is allowed.

/// What an [`Authorizer`](super::Authorizer) says of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Not allowed, and no other authorizer is to be asked.
    pub(crate) denied: bool,
    /// Why; may be empty.
    pub(crate) reason: String,
}
