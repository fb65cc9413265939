//! Sessions of browsers: a random id in a cookie stands for credentials that were shown once.
//!
//! The credentials are authenticated again with every request, so that revoking a token ends its
//! sessions. Ids are stored as digests, so that the duration of a look-up reveals nothing about
//! them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::api::random;
use crate::auth::{Digest, digest_of};

/// The session of a browser, until it logs out.
pub(crate) struct Session {
    /// The `Authorization` header of the login.
    pub(crate) credentials: HeaderValue,
    /// The cluster to which the credentials belong, if they are not the server's.
    pub(crate) cluster: Option<String>,
    /// The user's name.
    user: String,
    /// The host and port at which the session began.
    host: String,
    /// When the session expires, in milliseconds since 1970.
    pub(crate) ends: i64,
    over: watch::Sender<bool>,
}

impl Session {
    /// Resolves when the session is ended before its expiry.
    pub(crate) async fn over(self: Arc<Self>) {
        let mut over = self.over.subscribe();
        // The sender is a field of `self`, so this cannot fail.
        _ = over.wait_for(|over| *over).await;
    }

    /// The session's owner. Users of one name in two clusters are different owners.
    fn owner(&self) -> Owner<'_> {
        (self.cluster.as_deref(), self.user.as_str())
    }
}

/// A cluster, and the name of one of its users.
type Owner<'a> = (Option<&'a str>, &'a str);

/// All sessions, in bounded number. A further one ends the session that would expire first, of the
/// user who has the most. So a user who begins many sessions ends only their own.
pub(crate) struct Sessions {
    max: usize,
    /// The lifetime of a session.
    pub(crate) time: Duration,
    table: Mutex<HashMap<Digest, Arc<Session>>>,
    /// The digest of a code that begins a session once, and its credentials.
    code: Mutex<Option<(Digest, HeaderValue)>>,
}

impl Sessions {
    pub(crate) fn new(max: usize, time: Duration) -> Self {
        Self {
            max: max.max(1),
            time,
            table: Mutex::default(),
            code: Mutex::default(),
        }
    }

    /// Begins a session with the credentials of a user, of a cluster or else of the server, and
    /// returns its id.
    ///
    /// # Errors
    /// The operating system returned no randomness.
    pub(crate) fn begin(
        &self,
        credentials: HeaderValue,
        (cluster, user): (Option<String>, &str),
        host: &str,
        now: i64,
    ) -> Result<String, getrandom::Error> {
        let id = random::token()?;
        let time = i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX);
        let session = Session {
            credentials,
            cluster,
            user: user.to_owned(),
            host: host.to_owned(),
            ends: now.saturating_add(time),
            over: watch::Sender::new(false),
        };
        let mut table = self.table.lock();
        table.retain(|_, session| !end(session, session.ends <= now));
        if table.len() >= self.max
            && let Some(surplus) = surplus(&table, &session)
            && let Some(surplus) = table.remove(&surplus)
        {
            end(&surplus, true);
        }
        table.insert(digest_of(&id), Arc::new(session));
        Ok(id)
    }

    /// The session with this id, if it was begun at this host and has not ended.
    pub(crate) fn find(&self, id: &str, host: &str, now: i64) -> Option<Arc<Session>> {
        let found = self.table.lock().get(&digest_of(id)).cloned();
        found.filter(|session| session.ends > now && session.host == host)
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        if let Some(session) = self.table.lock().remove(&digest_of(id)) {
            end(&session, true);
        }
    }

    /// Makes a code that begins a session with these credentials, once. A new code replaces the
    /// former one.
    ///
    /// # Errors
    /// The operating system returned no randomness.
    pub(crate) fn make_code(&self, credentials: HeaderValue) -> Result<String, getrandom::Error> {
        let code = random::token()?;
        *self.code.lock() = Some((digest_of(&code), credentials));
        Ok(code)
    }

    /// Returns the credentials of a code, which cannot be used again.
    pub(crate) fn redeem(&self, code: &str) -> Option<HeaderValue> {
        let mut kept = self.code.lock();
        let (_, credentials) = kept.take_if(|(digest, _)| *digest == digest_of(code))?;
        Some(credentials)
    }
}

/// The session that must end to make room for a new one.
fn surplus(table: &HashMap<Digest, Arc<Session>>, new: &Session) -> Option<Digest> {
    let mut counts: HashMap<Owner<'_>, usize> = HashMap::new();
    for session in table.values().map(|session| &**session).chain([new]) {
        *counts.entry(session.owner()).or_default() += 1;
    }
    let surplus = table.iter().max_by_key(|(_, session)| {
        let count = counts.get(&session.owner()).copied();
        (count, Reverse(session.ends))
    });
    surplus.map(|(digest, _)| *digest)
}

fn end(session: &Session, is_over: bool) -> bool {
    if is_over {
        session.over.send_replace(true);
    }
    is_over
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const CREDENTIALS: HeaderValue = HeaderValue::from_static("Bearer s3cret");
    const ANN: (Option<String>, &str) = (None, "ann");

    #[test]
    fn a_session_has_an_end_and_a_host() {
        let sessions = Sessions::new(10, Duration::from_secs(60));
        let id = sessions.begin(CREDENTIALS, ANN, "a:1", 1000).unwrap();
        assert_eq!(id.len(), 64);
        let found = |id: &str, host, now| sessions.find(id, host, now).is_some();
        assert!(found(&id, "a:1", 60_999));
        assert!(!found(&id, "a:1", 61_000));
        assert!(!found(&id, "a:2", 2000));
        assert!(!found("", "a:1", 2000));
        let session = sessions.find(&id, "a:1", 2000).unwrap();
        assert!(Arc::clone(&session).over().now_or_never().is_none());
        sessions.end(&id);
        assert!(session.over().now_or_never().is_some());
        assert!(!found(&id, "a:1", 2000));
    }

    #[test]
    fn there_is_a_bounded_number_of_sessions() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        let begin = |now| sessions.begin(CREDENTIALS, ANN, "a", now).unwrap();
        let ids = [begin(1), begin(2), begin(3)];
        let found = ids.map(|id| sessions.find(&id, "a", 4).is_some());
        assert_eq!(found, [false, true, true]);
        begin(100_000);
        assert_eq!(sessions.table.lock().len(), 1);
    }

    #[test]
    fn a_user_who_begins_many_sessions_ends_only_their_own() {
        let sessions = Sessions::new(4, Duration::from_secs(60));
        let begin = |cluster: Option<&str>, user, now| {
            let owner = (cluster.map(str::to_owned), user);
            sessions.begin(CREDENTIALS, owner, "a", now).unwrap()
        };
        let is_there = |id: &String| sessions.find(id, "a", 1000).is_some();
        let others = [begin(None, "ann", 1), begin(Some("prod"), "ann", 2)];
        let many = [3, 4, 5, 6, 7].map(|now| begin(Some("edge"), "ann", now));
        assert!(others.iter().all(is_there));
        let left = many.each_ref().map(is_there);
        assert_eq!(left, [false, false, false, true, true]);
        // There is room for another user: the user with the most sessions loses one.
        let bob = begin(None, "bob", 8);
        assert!(others.iter().chain([&bob]).all(is_there));
        let left = many.each_ref().map(is_there);
        assert_eq!(left, [false, false, false, false, true]);
        // If all users have equally many, the user who begins another one loses one.
        let again = begin(None, "bob", 9);
        assert!(others.iter().chain([&again, &many[4]]).all(is_there));
        assert!(!is_there(&bob));
    }

    #[test]
    fn a_code_is_good_once() {
        let sessions = Sessions::new(2, Duration::from_secs(60));
        assert_eq!(sessions.redeem(""), None);
        let code = sessions.make_code(CREDENTIALS).unwrap();
        assert_eq!(sessions.redeem("another"), None);
        assert_eq!(sessions.redeem(&code), Some(CREDENTIALS));
        assert_eq!(sessions.redeem(&code), None);
    }
}
