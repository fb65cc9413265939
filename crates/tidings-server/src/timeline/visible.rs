//! What a caller may see.

use std::sync::Arc;

use super::query::Filters;
use super::sessions::Session;
use super::sources::Source;
use crate::auth::User;

/// On a request for the API: who makes it, what it asks for, and what it may see of that.
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) filters: Filters,
    /// The clusters that are asked for, and of which something may be seen.
    pub(crate) clusters: Vec<Visible>,
    pub(crate) session: Option<Arc<Session>>,
}

/// What may be seen of a cluster, and is asked for.
#[derive(Clone)]
pub(crate) struct Visible {
    pub(crate) source: Source,
    /// `None`: all.
    pub(crate) namespaces: Option<Vec<String>>,
}

impl Visible {
    /// Whether the event under a key may be seen, and is asked for. Its key decides, as everywhere
    /// else: what the event says of its namespace was written by others.
    pub(crate) fn shows_key(&self, key: &[u8]) -> bool {
        let namespace = key.split(|byte| *byte == b'/').next().unwrap_or_default();
        std::str::from_utf8(namespace).is_ok_and(|namespace| self.shows(namespace))
    }

    /// Whether events of a namespace may be seen, and are asked for.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        let namespaces = self.namespaces.as_ref();
        namespaces.is_none_or(|namespaces| namespaces.iter().any(|shown| shown == namespace))
    }
}
