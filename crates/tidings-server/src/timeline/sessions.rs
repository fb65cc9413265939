//! The sessions of browsers: a random name in a cookie stands for the credentials that were shown
//! once.
//!
//! The credentials are authenticated anew with every request, so that a token which is revoked ends
//! its sessions. Names are kept as digests: how long a look takes tells nothing about them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::api::random;
use crate::auth::{Digest, digest_of};

/// What a browser may do until it logs out.
pub(crate) struct Session {
    /// The `Authorization` header that was shown.
    pub(crate) credentials: HeaderValue,
    /// The cluster whose credentials these are, if they are not the server's.
    pub(crate) cluster: Option<String>,
    /// The name of the user there.
    user: String,
    /// The host, with the port, at which it was begun.
    host: String,
    /// When it ends, in milliseconds since 1970.
    pub(crate) ends: i64,
    over: watch::Sender<bool>,
}

impl Session {
    /// Resolves when it ends before its time.
    pub(crate) async fn over(self: Arc<Self>) {
        let mut over = self.over.subscribe();
        // There is a sender: this has it.
        _ = over.wait_for(|over| *over).await;
    }

    /// Whose it is: users of one name of two clusters are two.
    fn owner(&self) -> Owner<'_> {
        (self.cluster.as_deref(), self.user.as_str())
    }
}

/// A cluster, and the name of a user there.
type Owner<'a> = (Option<&'a str>, &'a str);

/// All sessions, a bounded number. One more ends the one that would end first, of the user who has
/// the most: a user may begin any number, and ends no other user's with them.
pub(crate) struct Sessions {
    max: usize,
    /// How long a session lasts.
    pub(crate) time: Duration,
    table: Mutex<HashMap<Digest, Arc<Session>>>,
    /// What begins a session once.
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
    /// returns its name.
    ///
    /// # Errors
    /// The system has no randomness to give.
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

    /// The session of a name, if it is one that was begun at this host and is not over.
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

    /// Makes a code that begins a session with these credentials, once; there is one at a time.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn make_code(&self, credentials: HeaderValue) -> Result<String, getrandom::Error> {
        let code = random::token()?;
        *self.code.lock() = Some((digest_of(&code), credentials));
        Ok(code)
    }

    /// The credentials that a code stands for. It is good for nothing afterwards.
    pub(crate) fn redeem(&self, code: &str) -> Option<HeaderValue> {
        let mut kept = self.code.lock();
        let (_, credentials) = kept.take_if(|(digest, _)| *digest == digest_of(code))?;
        Some(credentials)
    }
}

/// The session that ends for a new one.
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
        // Another user has a place, too: of the one who has the most.
        let bob = begin(None, "bob", 8);
        assert!(others.iter().chain([&bob]).all(is_there));
        let left = many.each_ref().map(is_there);
        assert_eq!(left, [false, false, false, false, true]);
        // Where all have as many, that of the one who begins another ends.
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
