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
    /// Whether events of a namespace may be seen, and are asked for.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        let namespaces = self.namespaces.as_ref();
        namespaces.is_none_or(|namespaces| namespaces.iter().any(|shown| shown == namespace))
    }
}
