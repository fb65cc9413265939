//! The credentials of a credential program: requested once, and replaced before they expire or when
//! a cluster rejects them.
//!
//! Invariants: at most one program runs at a time, also for several connections with the same
//! program and arguments. While credentials are valid, no request waits for new ones, and they are
//! used even if the program fails. Requests do not start the program again and again.

use std::sync::Arc;
use std::time::Duration;

use tidings_store::clock::Clock;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::program::{Given, Program, ProgramError};

/// New credentials are requested this long before the old ones expire, or for the last tenth of
/// their lifetime if that is shorter.
const BEFORE_THE_END_MILLIS: i64 = 60_000;

/// Minimum time between two runs of the program, unless its credentials expire in between. It also
/// applies to repeated rejections.
const BETWEEN_PROGRAMS_MILLIS: i64 = 10_000;

/// Timeout of a request for valid credentials: less than that of a request to the cluster, so that
/// the log names the cause.
const WAIT: Duration = Duration::from_secs(20);

/// Maximum programs whose credentials are shared with other connections.
const CALLS_MAX: usize = 256;

/// Shared credentials by program and arguments, the latest last.
static CALLS: parking_lot::Mutex<Vec<(String, Shared)>> = parking_lot::Mutex::new(Vec::new());

type Shared = Arc<OnceCell<Arc<Tokens>>>;

/// Why there are no valid credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoToken(String);

/// The credentials of one program.
pub(super) struct Tokens {
    cluster: String,
    program: Program,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
}

struct Held {
    given: Arc<Given>,
    /// When the program last ended, in milliseconds since 1970.
    asked: i64,
    /// When the program was last started because a cluster rejected its credentials.
    refused: Option<i64>,
    /// Why the program's last run failed, if it did.
    failed: Option<String>,
    running: JoinSet<Result<Given, ProgramError>>,
}

impl Tokens {
    /// The credentials of a program. The program is run for the first connection with these
    /// arguments; others share the result. The cluster's name is for the log.
    ///
    /// # Errors
    /// The program returned no credentials.
    pub(super) async fn of(
        cluster: &str,
        program: Program,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, ProgramError> {
        let shared = shared(program.call());
        let begun = shared.get_or_try_init(async || {
            let given = program.run().await?;
            Ok(Arc::new(Self::new(cluster, program, clock, given)))
        });
        begun.await.map(Arc::clone)
    }

    fn new(cluster: &str, program: Program, clock: Arc<dyn Clock>, given: Given) -> Self {
        let held = Held {
            given: Arc::new(given),
            asked: clock.now().0,
            refused: None,
            failed: None,
            running: JoinSet::new(),
        };
        Self {
            cluster: cluster.to_owned(),
            program,
            clock,
            held: Mutex::new(held),
        }
    }

    /// Returns the valid credentials, and runs the program if necessary.
    pub(super) async fn current(&self) -> Result<Arc<Given>, NoToken> {
        // The timeout covers the whole, because requests also wait for each other.
        let found = timeout(WAIT, self.valid()).await;
        found.unwrap_or_else(|_| {
            let why = "the program that returns credentials has not ended yet";
            Err(NoToken(why.to_owned()))
        })
    }

    async fn valid(&self) -> Result<Arc<Given>, NoToken> {
        let mut held = self.held.lock().await;
        let now = self.clock.now().0;
        if held.is_due(now) {
            self.begin(&mut held);
        }
        // If this request is cancelled meanwhile, the next one waits for the program.
        let done = if held.has_ended(now) {
            held.running.join_next().await
        } else {
            held.running.try_join_next()
        };
        let now = self.clock.now().0;
        if let Some(done) = done {
            held.take(&self.cluster, done, now);
        }
        held.valid(now)
    }

    /// Records that a cluster rejected these credentials. If they are still the latest ones, new
    /// ones are requested. The rejected request is not sent again.
    pub(super) async fn refused(&self, sent: &Arc<Given>) {
        // Credentials that come too late are used by the next request.
        let _ = timeout(WAIT, self.replace(sent)).await;
    }

    async fn replace(&self, sent: &Arc<Given>) {
        let mut held = self.held.lock().await;
        let now = self.clock.now().0;
        let is_lately = |at: i64| (at..at.saturating_add(BETWEEN_PROGRAMS_MILLIS)).contains(&now);
        if !Arc::ptr_eq(&held.given, sent) || held.refused.is_some_and(is_lately) {
            return;
        }
        held.refused = Some(now);
        if held.running.is_empty() {
            self.begin(&mut held);
        }
        if let Some(done) = held.running.join_next().await {
            let now = self.clock.now().0;
            held.take(&self.cluster, done, now);
        }
    }

    fn begin(&self, held: &mut Held) {
        let program = self.program.clone();
        held.running.spawn(async move { program.run().await });
    }
}

/// The shared slot of a program's credentials. Beyond the maximum, the oldest is removed.
fn shared(call: String) -> Shared {
    let mut calls = CALLS.lock();
    if let Some((_, found)) = calls.iter().find(|(known, _)| *known == call) {
        return Arc::clone(found);
    }
    if calls.len() >= CALLS_MAX {
        calls.remove(0);
    }
    let shared = Shared::default();
    calls.push((call, Arc::clone(&shared)));
    shared
}

impl Held {
    fn ends(&self) -> i64 {
        self.given.ends.unwrap_or(i64::MAX)
    }

    fn has_ended(&self, now: i64) -> bool {
        self.ends() <= now
    }

    /// The credentials to send now.
    fn valid(&self, now: i64) -> Result<Arc<Given>, NoToken> {
        match &self.failed {
            Some(why) if self.has_ended(now) => Err(NoToken(why.clone())),
            _ => Ok(Arc::clone(&self.given)),
        }
    }

    /// Whether to start the program. It may return the same credentials until they expire, so it is
    /// run once more at their expiry, without a wait.
    fn is_due(&self, now: i64) -> bool {
        let ends = self.ends();
        let before = (ends.saturating_sub(self.asked) / 10).clamp(0, BEFORE_THE_END_MILLIS);
        let is_ending = ends.saturating_sub(before) <= now;
        let until = self.asked.saturating_add(BETWEEN_PROGRAMS_MILLIS);
        let has_waited = !(self.asked..until).contains(&now);
        let was_valid = self.has_ended(now) && self.asked < ends;
        is_ending && self.running.is_empty() && (has_waited || was_valid)
    }

    fn take(
        &mut self,
        cluster: &str,
        done: Result<Result<Given, ProgramError>, JoinError>,
        now: i64,
    ) {
        self.asked = now;
        let new = done.map_err(|error| error.to_string());
        match new.and_then(|given| given.map_err(|error| error.to_string())) {
            Ok(given) => {
                self.given = Arc::new(given);
                self.failed = None;
            }
            Err(why) => {
                if self.failed.as_ref() != Some(&why) {
                    tracing::warn!(
                        cluster,
                        error = why,
                        "there are no new credentials yet: the former ones are used until they end"
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;

    use tidings_store::UnixMillis;
    use tidings_store::clock::ManualClock;

    use super::super::program::bearer;
    use super::*;

    const NOW: i64 = 1_767_225_600_000;
    const PATIENCE: Duration = Duration::from_secs(60);

    fn given(token: &str, ends: Option<i64>) -> Given {
        Given {
            header: Some(bearer(token).unwrap()),
            certificate: None,
            ends,
        }
    }

    /// The credentials of a program that records each run in a file.
    fn tokens(script: &str, ends: Option<i64>, clock: &ManualClock) -> Tokens {
        let program = Program::of_shell(script, PATIENCE);
        let clock = Arc::new(clock.clone());
        Tokens::new("prod", program, clock, given("first", ends))
    }

    async fn header(tokens: &Tokens) -> Result<String, String> {
        let given = tokens.current().await.map_err(|error| error.to_string())?;
        let header = given.header.as_ref().unwrap();
        Ok(header.to_str().unwrap().to_owned())
    }

    /// A script that prints a token.
    fn gives(token: &str) -> String {
        let status = format!(r#"{{"token": "{token}"}}"#);
        format!(r#"echo '{{"apiVersion": "v", "kind": "ExecCredential", "status": {status}}}'"#)
    }

    fn runs(file: &Path) -> usize {
        let noted = std::fs::read_to_string(file).unwrap_or_default();
        noted.lines().count()
    }

    #[tokio::test]
    async fn a_token_is_replaced_when_it_ends_and_one_without_an_end_never() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let next = &gives("next");
        let own = tokens(next, Some(NOW + 90_000), &clock);
        assert_eq!(header(&own).await.unwrap(), "Bearer first");
        clock.advance(90_000);
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
        let endless = tokens("exit 1", None, &clock);
        clock.advance(i64::from(i32::MAX));
        assert_eq!(header(&endless).await.unwrap(), "Bearer first");
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
    }

    /// Expired credentials would be rejected.
    #[tokio::test]
    async fn a_token_that_has_ended_is_replaced_however_lately_the_program_gave_it_out() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let next = &gives("next");
        let own = tokens(next, Some(NOW + 5_000), &clock);
        clock.advance(4_999);
        assert_eq!(header(&own).await.unwrap(), "Bearer first");
        clock.advance(1);
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
    }

    #[tokio::test]
    async fn no_request_waits_for_the_next_token_while_one_is_valid() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let own = tokens("sleep 60", Some(NOW + 700_000), &clock);
        clock.advance(641_000);
        for _ in 0..3 {
            let found = timeout(PATIENCE / 2, header(&own)).await;
            assert_eq!(found.unwrap().unwrap(), "Bearer first");
            clock.advance(9_000);
        }
        assert!(!own.held.lock().await.running.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_a_valid_token_wait_at_the_same_time() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let own = tokens("sleep 60", Some(NOW + 1), &clock);
        clock.advance(1);
        let both = async { tokio::join!(header(&own), header(&own)) };
        let (one, other) = timeout(WAIT * 3 / 2, both).await.unwrap();
        for found in [one, other] {
            assert!(found.unwrap_err().contains("has not ended yet"));
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_begun_again_after_a_while_and_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("noted");
        let script = format!("echo run >> '{}'; exit 7", noted.display());
        let clock = ManualClock::at(UnixMillis(NOW));
        let own = tokens(&script, Some(NOW + 20_000), &clock);
        clock.advance(20_000);
        for _ in 0..20 {
            let error = header(&own).await.unwrap_err();
            assert!(error.contains("exit status: 7"), "{error}");
        }
        assert_eq!(runs(&noted), 1);
        clock.advance(BETWEEN_PROGRAMS_MILLIS);
        let (one, other) = tokio::join!(header(&own), header(&own));
        assert!(one.is_err() && other.is_err());
        assert_eq!(runs(&noted), 2);
    }

    /// An import sends sixteen requests at a time.
    #[tokio::test]
    async fn refused_credentials_are_replaced_once_for_all_requests_that_sent_them() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("noted");
        let script = format!("echo run >> '{}'; {}", noted.display(), gives("next"));
        let clock = ManualClock::at(UnixMillis(NOW));
        let own = tokens(&script, None, &clock);
        let sent = own.current().await.unwrap();
        let refusals = (0..16).map(|_| own.refused(&sent));
        futures::future::join_all(refusals).await;
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
        assert_eq!(runs(&noted), 1);
        // The cluster rejects the new credentials, too.
        for (millis, expected) in [(0, 1), (BETWEEN_PROGRAMS_MILLIS, 2), (0, 2)] {
            clock.advance(millis);
            let sent = own.current().await.unwrap();
            own.refused(&sent).await;
            assert_eq!(runs(&noted), expected);
        }
    }

    #[tokio::test]
    async fn a_program_is_run_once_for_all_connections_that_call_it_alike() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("noted");
        let script = format!("echo run >> '{}'; {}", noted.display(), gives("t"));
        let of = |script: &str| {
            let program = Program::of_shell(script, PATIENCE);
            let clock = Arc::new(ManualClock::at(UnixMillis(NOW)));
            async move { Tokens::of("prod", program, clock).await }
        };
        let (one, other) = tokio::join!(of(&script), of(&script));
        assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
        assert_eq!(runs(&noted), 1);
        of(&format!("{script} #")).await.unwrap();
        assert_eq!(runs(&noted), 2);
        // A program that failed is run again.
        let failing = format!("echo run >> '{}'; exit 1", noted.display());
        for expected in 3..5 {
            assert!(of(&failing).await.is_err());
            assert_eq!(runs(&noted), expected);
        }
    }
}
