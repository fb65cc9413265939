//! NamespaceLifecycle for a server whose namespaces are configured.
//!
//! The configuration says which namespaces exist, and which are terminating
//! (`k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tidings_core::validate::check_dns1123_label;

/// The namespaces that every cluster has.
pub(crate) const ALWAYS: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The state of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// The namespace accepts events.
    Active,
    /// The namespace is being deleted: creates are refused, everything else is allowed.
    Terminating,
}

impl Namespace {
    pub(crate) fn phase(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Terminating => "Terminating",
        }
    }
}

/// Which namespaces exist. This concerns creates only, not reads, changes and deletes of events.
///
/// ```
/// use tidings_server::{Namespace, Namespaces};
///
/// assert!(Namespaces::default().find("anything").is_some());
///
/// let mut namespaces = Namespaces::only(["team-a"])?;
/// namespaces.insert("old", Namespace::Terminating)?;
/// assert_eq!(namespaces.find("default"), Some(Namespace::Active));
/// assert_eq!(namespaces.find("old"), Some(Namespace::Terminating));
/// assert_eq!(namespaces.find("team-b"), None);
/// # Ok::<(), tidings_server::NamespacesError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// The namespaces by name; `None` means that every valid name is a namespace.
    named: Option<Arc<BTreeMap<String, Namespace>>>,
}

/// The reason why a list of namespaces is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespacesError {
    /// A name is not valid for a namespace.
    #[error(
        "{0:?} cannot be the name of a namespace: at most 63 lower-case letters, digits and '-', a letter or digit at both ends"
    )]
    Name(String),
}

impl Namespaces {
    /// Only these namespaces exist, and default, kube-public and kube-system.
    ///
    /// # Errors
    ///
    /// A name that is not valid.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, NamespacesError> {
        let mut namespaces = Self {
            named: Some(Arc::new(BTreeMap::new())),
        };
        for name in ALWAYS.into_iter().chain(names) {
            namespaces.insert(name, Namespace::Active)?;
        }
        Ok(namespaces)
    }

    /// Adds a namespace, or changes its state. After the first call, only added namespaces exist.
    ///
    /// # Errors
    ///
    /// A name that is not valid.
    pub fn insert(&mut self, name: &str, namespace: Namespace) -> Result<(), NamespacesError> {
        if !check_dns1123_label(name).is_empty() {
            return Err(NamespacesError::Name(name.into()));
        }
        let named = self.named.get_or_insert_default();
        Arc::make_mut(named).insert(name.into(), namespace);
        Ok(())
    }

    /// The state of a namespace; `None` if it does not exist.
    pub fn find(&self, name: &str) -> Option<Namespace> {
        match &self.named {
            Some(named) => named.get(name).copied(),
            None => check_dns1123_label(name)
                .is_empty()
                .then_some(Namespace::Active),
        }
    }

    /// All namespaces, in order; `None` if every valid name is a namespace.
    pub(crate) fn named(&self) -> Option<&BTreeMap<String, Namespace>> {
        self.named.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_ones() {
        let error = Namespaces::only(["a_b"]).unwrap_err().to_string();
        assert!(error.starts_with("\"a_b\" cannot be the name"), "{error}");
        assert_eq!(Namespaces::default().find("Not A Name"), None);
        let namespaces = Namespaces::only(["old"]).unwrap();
        let all: Vec<_> = namespaces.named().unwrap().keys().collect();
        assert_eq!(all, ["default", "kube-public", "kube-system", "old"]);
    }
}
