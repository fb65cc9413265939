//! The state that all requests of a timeline share.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::apart::Places;
use super::gaps::Gaps;
use super::sessions::Sessions;
use super::sources::Sources;
use crate::api::server::ApiServer;
use crate::archive::Clusters;

/// The prefix of all paths of the timeline.
pub(crate) const PREFIX: &str = "/timeline";

/// The lifetime of the session of a link. It should last as long as the process that printed the
/// link, because the link cannot be used again. Browsers keep no cookie for longer than this.
const LINK_TIME: Duration = Duration::from_secs(400 * 86_400);

/// How browsers get access.
pub(crate) enum Entrance {
    /// By a login with a token, over TLS.
    Login,
    /// Only by a link that can be used once, at one of these hosts.
    Link {
        /// The hosts, with their ports.
        hosts: Vec<String>,
    },
}

/// The state that the timeline's requests share.
pub(crate) struct Timeline {
    pub(super) sources: Sources,
    pub(super) entrance: Entrance,
    pub(super) sessions: Sessions,
    pub(super) gaps: Gaps,
    /// The threads that calculate views.
    pub(super) places: Places,
}

impl Timeline {
    /// The timeline of a server's own events.
    pub(crate) fn of_server(server: Arc<ApiServer>, entrance: Entrance) -> Self {
        Self::new(Sources::One(server), entrance)
    }

    /// The timeline of all clusters of an archive.
    pub(crate) fn of_archive(clusters: Arc<Clusters>, entrance: Entrance) -> Self {
        Self::new(Sources::Archive(clusters), entrance)
    }

    /// Makes a code that gives one browser access with these credentials.
    ///
    /// # Errors
    /// The operating system returned no randomness.
    pub(crate) fn make_code(&self, credentials: HeaderValue) -> Result<String, getrandom::Error> {
        self.sessions.make_code(credentials)
    }

    fn new(sources: Sources, entrance: Entrance) -> Self {
        let options = &sources.root().options.timeline;
        let session_time = match entrance {
            Entrance::Login => options.session_time,
            Entrance::Link { .. } => LINK_TIME,
        };
        Self {
            sessions: Sessions::new(options.max_sessions, session_time),
            sources,
            entrance,
            gaps: Gaps::default(),
            places: Places::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_store::memory::MemoryStore;

    use super::*;
    use crate::api::server::ApiOptions;
    use crate::auth::Authenticator;
    use crate::clock::SystemClock;

    const CREDENTIALS: HeaderValue = HeaderValue::from_static("Bearer s3cret");

    #[test]
    fn the_session_of_a_link_lasts_longer_than_that_of_a_login() {
        let hour = 3_600_000;
        let link = || Entrance::Link { hosts: Vec::new() };
        for (entrance, now, expected) in [
            (Entrance::Login, 11 * hour, true),
            (Entrance::Login, 13 * hour, false),
            (link(), 13 * hour, true),
            (link(), 365 * 24 * hour, true),
        ] {
            let server = ApiServer::new(
                Arc::new(MemoryStore::default()),
                Arc::new(SystemClock),
                Authenticator::new(Vec::new()),
                ApiOptions::default(),
            );
            let timeline = Timeline::of_server(Arc::new(server), entrance);
            let code = timeline.make_code(CREDENTIALS).unwrap();
            let sessions = &timeline.sessions;
            let credentials = sessions.redeem(&code).unwrap();
            assert_eq!(sessions.redeem(&code), None);
            let id = sessions.begin(credentials, (None, ""), "a:1", 0).unwrap();
            assert_eq!(sessions.find(&id, "a:1", now).is_some(), expected, "{now}");
        }
    }
}
