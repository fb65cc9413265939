//! What a caller may see.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
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
    pub(crate) unasked: Unasked,
    pub(crate) session: Option<Arc<Session>>,
}

/// The requested clusters of which it is not known what the caller may see, or not all of it,
/// because the cluster that decides about the caller does not answer.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Unasked {
    /// The names of the clusters that the caller knows: it named them, or may see a part of them.
    pub(crate) clusters: Vec<String>,
    /// The number of the others, whose names it is not told.
    pub(crate) others: usize,
}

impl Unasked {
    pub(crate) fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.others == 0
    }

    /// Adds a cluster. Its name is left out unless the caller knows it.
    pub(crate) fn add(&mut self, name: &str, is_known: bool) {
        if is_known {
            self.clusters.push(name.to_owned());
        } else {
            self.others += 1;
        }
    }
}

impl fmt::Display for Unasked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.clusters.join(", ");
        match (names.is_empty(), self.others) {
            (_, 0) => write!(out, "{names}"),
            (true, 1) => write!(out, "1 cluster"),
            (true, others) => write!(out, "{others} clusters"),
            (false, others) => write!(out, "{names} and {others} more"),
        }
    }
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
