//! Tokens of a program that end, and are replaced before they do.
//!
//! Invariants: one program runs at most. While a token is valid, no request waits for the next
//! one, and it is used even if the program fails. The program is not begun again and again by the
//! requests of readers.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use kube::Client;
use kube::client::Body;
use tidings_store::clock::Clock;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use super::program::{Given, Program, ProgramError};

/// The next token is asked for this long before one ends.
const BEFORE_THE_END_MILLIS: i64 = 60_000;

/// Time from the end of a program until it is begun again, unless the token ends meanwhile.
const BETWEEN_PROGRAMS_MILLIS: i64 = 10_000;

/// Timeout of a request for a valid token: less than that of a request to the cluster, so that it
/// is told what is waited for.
const WAIT: Duration = Duration::from_secs(20);

/// Why there is no valid token.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoToken(String);

/// See the module documentation.
pub(super) struct Tokens {
    cluster: String,
    program: Program,
    clock: Arc<dyn Clock>,
    held: Mutex<Held>,
}

struct Held {
    header: HeaderValue,
    /// When it ends, in milliseconds since 1970.
    ends: i64,
    /// When the program ended last.
    asked: i64,
    /// Why it gave out nothing then.
    failed: Option<String>,
    running: JoinSet<Result<Given, ProgramError>>,
}

impl Tokens {
    /// Those of a cluster, whose program gave out the first one.
    pub(super) fn new(
        cluster: &str,
        program: Program,
        clock: Arc<dyn Clock>,
        given: &Given,
    ) -> Result<Self, ProgramError> {
        let (header, ends) = sent(given)?;
        let held = Held {
            header,
            ends,
            asked: clock.now().0,
            failed: None,
            running: JoinSet::new(),
        };
        Ok(Self {
            cluster: cluster.to_owned(),
            program,
            clock,
            held: Mutex::new(held),
        })
    }

    /// The valid token, as it is sent.
    async fn header(&self) -> Result<HeaderValue, NoToken> {
        // Of the whole: requests also wait for each other.
        let found = timeout(WAIT, self.valid()).await;
        found.unwrap_or_else(|_| {
            let why = "the program that gives out credentials has not ended yet";
            Err(NoToken(why.to_owned()))
        })
    }

    async fn valid(&self) -> Result<HeaderValue, NoToken> {
        let mut held = self.held.lock().await;
        let now = self.clock.now().0;
        if held.is_due(now) {
            let program = self.program.clone();
            held.running.spawn(async move { program.run().await });
        }
        // A request that is given up meanwhile leaves the program to the next one.
        let done = if held.has_ended(now) {
            held.running.join_next().await
        } else {
            held.running.try_join_next()
        };
        let now = self.clock.now().0;
        if let Some(done) = done {
            held.take(&self.cluster, done, now);
        }
        held.sent(now)
    }
}

impl Held {
    fn has_ended(&self, now: i64) -> bool {
        self.ends <= now
    }

    /// How a request is sent now.
    fn sent(&self, now: i64) -> Result<HeaderValue, NoToken> {
        match &self.failed {
            Some(why) if self.has_ended(now) => Err(NoToken(why.clone())),
            _ => Ok(self.header.clone()),
        }
    }

    /// Whether the program is to be begun. It may give out the same token again until that ends, so
    /// it is asked once more at the end, without a wait.
    fn is_due(&self, now: i64) -> bool {
        let is_ending = self.ends.saturating_sub(BEFORE_THE_END_MILLIS) <= now;
        let until = self.asked.saturating_add(BETWEEN_PROGRAMS_MILLIS);
        let has_waited = !(self.asked..until).contains(&now);
        let was_valid = self.has_ended(now) && self.asked < self.ends;
        is_ending && self.running.is_empty() && (has_waited || was_valid)
    }

    fn take(
        &mut self,
        cluster: &str,
        done: Result<Result<Given, ProgramError>, JoinError>,
        now: i64,
    ) {
        self.asked = now;
        let new = done.map_err(|error| error.to_string()).and_then(|given| {
            let new = given.and_then(|given| sent(&given));
            new.map_err(|error| error.to_string())
        });
        match new {
            Ok((header, ends)) => {
                self.header = header;
                self.ends = ends;
                self.failed = None;
            }
            Err(why) => {
                if self.failed.as_ref() != Some(&why) {
                    tracing::warn!(
                        cluster,
                        error = why,
                        "there is no new token yet: the former one is used until it ends"
                    );
                }
                self.failed = Some(why);
            }
        }
    }
}

/// How a token is sent, and when it ends.
fn sent(given: &Given) -> Result<(HeaderValue, i64), ProgramError> {
    Ok((given.credential.header()?, given.ends.unwrap_or(i64::MAX)))
}

/// A client that sends these tokens with the requests of another one, which has none.
pub(super) fn with_tokens(client: Client, tokens: Tokens) -> Client {
    let namespace = client.default_namespace().to_owned();
    let tokens = Arc::new(tokens);
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let (client, tokens) = (client.clone(), Arc::clone(&tokens));
        async move {
            let header = tokens.header().await?;
            request.headers_mut().insert(AUTHORIZATION, header);
            Ok::<_, tower::BoxError>(client.send(request).await?)
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;

    use tidings_store::UnixMillis;
    use tidings_store::clock::ManualClock;

    use super::super::program::Credential;
    use super::*;

    const NOW: i64 = 1_767_225_600_000;
    const PATIENCE: Duration = Duration::from_secs(60);

    fn given(token: &str, ends: Option<i64>) -> Given {
        Given {
            credential: Credential::Token(token.to_owned()),
            ends,
        }
    }

    /// Tokens of a program that notes each run in a file.
    fn tokens(script: &str, ends: Option<i64>, clock: &ManualClock) -> Tokens {
        let program = Program::of_shell(script, PATIENCE);
        let clock = Arc::new(clock.clone());
        Tokens::new("prod", program, clock, &given("first", ends)).unwrap()
    }

    async fn header(tokens: &Tokens) -> Result<String, String> {
        let header = tokens.header().await.map_err(|error| error.to_string())?;
        Ok(header.to_str().unwrap().to_owned())
    }

    fn runs(file: &Path) -> usize {
        let noted = std::fs::read_to_string(file).unwrap_or_default();
        noted.lines().count()
    }

    #[tokio::test]
    async fn a_token_is_replaced_when_it_ends_and_one_without_an_end_never() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let next = r#"echo '{"status": {"token": "next"}}'"#;
        let own = tokens(next, Some(NOW + 90_000), &clock);
        assert_eq!(header(&own).await.unwrap(), "Bearer first");
        clock.advance(90_000);
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
        let endless = tokens("exit 1", None, &clock);
        clock.advance(i64::from(i32::MAX));
        assert_eq!(header(&endless).await.unwrap(), "Bearer first");
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
    }

    /// The one that has ended would be refused.
    #[tokio::test]
    async fn a_token_that_has_ended_is_replaced_however_lately_the_program_gave_it_out() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let next = r#"echo '{"status": {"token": "next"}}'"#;
        let own = tokens(next, Some(NOW + 5_000), &clock);
        clock.advance(4_999);
        assert_eq!(header(&own).await.unwrap(), "Bearer first");
        clock.advance(1);
        assert_eq!(header(&own).await.unwrap(), "Bearer next");
    }

    #[tokio::test]
    async fn no_request_waits_for_the_next_token_while_one_is_valid() {
        let clock = ManualClock::at(UnixMillis(NOW));
        let own = tokens("sleep 60", Some(NOW + 30_000), &clock);
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
}
