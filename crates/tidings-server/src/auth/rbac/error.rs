//! Errors of a permissions file.

/// An error in a permissions file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RbacError {
    /// The file is neither YAML nor JSON.
    #[error("not valid YAML: {why}")]
    Unreadable {
        /// The place and the reason.
        why: String,
    },
    /// A document breaks a rule.
    #[error("{place}: {why}")]
    Invalid {
        /// The document.
        place: String,
        /// The mistake in it.
        why: String,
    },
    /// Two objects have the same kind, namespace and name.
    #[error("{object} occurs twice")]
    Duplicate {
        /// Kind, namespace and name of the objects.
        object: String,
    },
    /// A binding names a role that does not exist.
    #[error("{binding}: there is no {role}")]
    NoSuchRole {
        /// Kind, namespace and name of the binding.
        binding: String,
        /// Kind, namespace and name of the role.
        role: String,
    },
}
