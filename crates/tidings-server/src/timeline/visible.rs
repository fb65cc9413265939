//! What a caller may see.

use std::sync::Arc;

use tidings_core::filter::Filter;

use super::sessions::Session;
use super::sources::Source;
use crate::auth::User;

/// An extension of an API request: its caller, and what the caller requests and may see.
pub(crate) struct Caller {
    pub(crate) user: User,
    /// What is requested, but for clusters, which are chosen already.
    pub(crate) filter: Filter,
    /// The requested clusters of which the caller may see something.
    pub(crate) clusters: Vec<Visible>,
    /// The names of requested clusters of which it is not known what the caller may see, because
    /// the cluster to ask does not answer.
    pub(crate) unasked: Vec<String>,
    pub(crate) session: Option<Arc<Session>>,
}

/// The requested part of a cluster that the caller may see.
#[derive(Clone)]
pub(crate) struct Visible {
    pub(crate) source: Source,
    /// The namespaces; `None` means all.
    pub(crate) namespaces: Option<Vec<String>>,
}

impl Visible {
    /// Whether the event under a key is requested and may be seen. The key decides, as everywhere:
    /// the namespace in the event itself is untrusted.
    pub(crate) fn shows_key(&self, key: &[u8]) -> bool {
        let namespace = key.split(|byte| *byte == b'/').next().unwrap_or_default();
        std::str::from_utf8(namespace).is_ok_and(|namespace| self.shows(namespace))
    }

    /// Whether events of a namespace are requested and may be seen.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        let namespaces = self.namespaces.as_ref();
        namespaces.is_none_or(|namespaces| namespaces.iter().any(|shown| shown == namespace))
    }
}
