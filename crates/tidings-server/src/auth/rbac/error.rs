//! Errors of a file of permissions.

/// An error in a file of permissions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RbacError {
    /// It is neither YAML nor JSON.
    #[error("not valid YAML: {why}")]
    Unreadable {
        /// Where and why.
        why: String,
    },
    /// A document breaks a rule.
    #[error("{place}: {why}")]
    Invalid {
        /// Which document.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two objects are the same.
    #[error("{object} is there twice")]
    Duplicate {
        /// Kind, namespace and name.
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
