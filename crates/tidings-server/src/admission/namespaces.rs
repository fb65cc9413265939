//! NamespaceLifecycle for a server whose namespaces are configured.
//!
//! The configuration says which namespaces exist, and which are terminating
//! (`k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_saphyr::Spanned;
use tidings_core::validate::check_dns1123_label;

use crate::auth::settings::{self, SettingsError};

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
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] SettingsError),
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

    /// Reads the output of `kubectl get namespaces -o yaml` (or `-o json`): the name and
    /// `status.phase` of each namespace. Everything else is ignored.
    ///
    /// # Errors
    /// What is wrong, and on which line.
    ///
    /// ```
    /// use tidings_server::{Namespace, Namespaces};
    ///
    /// let text = "
    /// apiVersion: v1
    /// kind: List
    /// items:
    /// - metadata: {name: team-a}
    /// - metadata: {name: old}
    ///   status: {phase: Terminating}
    /// ";
    /// assert_eq!(Namespaces::parse(text)?.find("old"), Some(Namespace::Terminating));
    /// # Ok::<(), tidings_server::NamespacesError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, NamespacesError> {
        let list: List = settings::read(text)?;
        if !matches!(list.kind.value.as_str(), "List" | "NamespaceList") {
            let message = format!(
                "kind is {:?}, expected List or NamespaceList",
                list.kind.value
            );
            return Err(SettingsError::at(&list.kind, message).into());
        }
        let mut namespaces = Self::only([])?;
        for item in list.items {
            let name = &item.metadata.name;
            if let Some(kind) = item.kind.as_ref().filter(|kind| kind.value != "Namespace") {
                let message = format!("a {} in a list of namespaces", kind.value);
                return Err(SettingsError::at(kind, message).into());
            }
            let phase = match item.status.phase {
                None => Namespace::Active,
                Some(phase) => match phase.value.as_str() {
                    "Active" => Namespace::Active,
                    "Terminating" => Namespace::Terminating,
                    other => {
                        let message = format!("phase is {other:?}, expected Active or Terminating");
                        return Err(SettingsError::at(&phase, message).into());
                    }
                },
            };
            namespaces
                .insert(&name.value, phase)
                .map_err(|error| SettingsError::at(name, error.to_string()))?;
        }
        Ok(namespaces)
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

#[derive(Deserialize)]
struct List {
    kind: Spanned<String>,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    kind: Option<Spanned<String>>,
    metadata: ItemMetadata,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: Spanned<String>,
}

#[derive(Default, Deserialize)]
struct ItemStatus {
    phase: Option<Spanned<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_refused_say_where() {
        for (text, said) in [
            ("kind: PodList\nitems: []", "line 1: kind is \"PodList\""),
            ("items: []", "missing field `kind`"),
            (
                "kind: List\nitems:\n- metadata: {name: a}\n- metadata: {name: A}",
                "line 4: \"A\" cannot be the name",
            ),
            (
                "kind: List\nitems:\n- metadata: {name: a}\n  status:\n    phase: Gone",
                "line 5: phase is \"Gone\"",
            ),
            (
                "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}",
                "line 3: a Pod",
            ),
            ("kind: [", "line 1"),
        ] {
            let error = Namespaces::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
        assert!(Namespaces::only(["a_b"]).is_err());
    }

    #[test]
    fn what_kubectl_prints_is_read() {
        let text = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old", "uid": "1"}, "spec": {"finalizers": ["kubernetes"]},
             "status": {"phase": "Terminating", "conditions": [{"type": "X"}]}}]}"#;
        let namespaces = Namespaces::parse(text).unwrap();
        let all: Vec<_> = namespaces.named().unwrap().keys().collect();
        assert_eq!(all, ["default", "kube-public", "kube-system", "old"]);
        assert_eq!(namespaces.find("old"), Some(Namespace::Terminating));
        assert_eq!(Namespaces::default().find("Not A Name"), None);
    }
}
