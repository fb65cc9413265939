//! What the requests of a timeline share.

use std::sync::Arc;

use http::HeaderValue;

use super::apart::Places;
use super::gaps::Gaps;
use super::sessions::Sessions;
use super::sources::Sources;
use crate::api::server::ApiServer;
use crate::archive::Clusters;

/// What all paths of the timeline begin with.
pub(crate) const PREFIX: &str = "/timeline";

/// How browsers come in.
pub(crate) enum Entrance {
    /// By a login with a token, over TLS.
    Login,
    /// By a link that is good once, at one of these hosts, and in no other way.
    Link {
        /// With their ports.
        hosts: Vec<String>,
    },
}

/// What the timeline's requests share.
pub(crate) struct Timeline {
    pub(super) sources: Sources,
    pub(super) entrance: Entrance,
    pub(super) sessions: Sessions,
    pub(super) gaps: Gaps,
    /// The threads that make pictures.
    pub(super) places: Places,
}

impl Timeline {
    /// Of a server's own events.
    pub(crate) fn of_server(server: Arc<ApiServer>, entrance: Entrance) -> Self {
        Self::new(Sources::One(server), entrance)
    }

    /// Of all clusters of an archive.
    pub(crate) fn of_archive(clusters: Arc<Clusters>, entrance: Entrance) -> Self {
        Self::new(Sources::Archive(clusters), entrance)
    }

    /// Makes a code that lets in a browser with these credentials, once.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn make_code(&self, credentials: HeaderValue) -> Result<String, getrandom::Error> {
        self.sessions.make_code(credentials)
    }

    fn new(sources: Sources, entrance: Entrance) -> Self {
        let options = &sources.root().options.timeline;
        Self {
            sessions: Sessions::new(options.max_sessions, options.session_time),
            sources,
            entrance,
            gaps: Gaps::default(),
            places: Places::default(),
        }
    }
}
