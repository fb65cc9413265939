//! Creating events at a Kubernetes API server, with patience for one that is busy or restarting.
//!
//! Once the server has not answered for all tries of one event nothing is sent any more: what is left would take as long
//! each, to no other end.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::core::Status;
use kube::core::params::PostParams;
use tidings_cli::import::Event;
use tidings_cli::import::report::Outcome;

/// Tries of one request. With the delays between them about half a minute.
const TRIES: u32 = 8;
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// What a server may ask for by Retry-After, at most.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Tries to reach the server at the very beginning, when somebody is waiting to hear of a wrong address.
const FIRST_TRIES: u32 = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How the server's managedFields name the writer.
const FIELD_MANAGER: &str = "tidings-import";

/// Why nothing more is sent.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Unreachable {
    /// No answer at all.
    #[error("reach the server: {0}")]
    NoAnswer(String),
    /// An answer that no other request would get a better one than.
    #[error("be let in by the server: {0}")]
    Unauthorized(String),
}

/// A client with the time limits of this file, and whose repetitions are this file's.
pub(crate) fn client(mut config: kube::Config) -> kube::Result<Client> {
    // Another dependency may bring a second provider; rustls then wants to be told. Told twice is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    config.default_retry = false;
    config.read_timeout = Some(REQUEST_TIMEOUT);
    config.reset_reader_on_write = true;
    Client::try_from(config)
}

/// Creates events until the server is gone or it is told to stop.
pub(crate) struct Creator {
    client: Client,
    stop: Arc<AtomicBool>,
    unreachable: Mutex<Option<Unreachable>>,
}

impl Creator {
    /// Makes sure there is a server and it knows us, before anything is sent.
    pub(crate) async fn connect(client: Client) -> Result<Self, Unreachable> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match client.apiserver_version().await {
                Err(kube::Error::Api(status)) if status.code == 401 => {
                    return Err(Unreachable::Unauthorized(one_line(&status.message)));
                }
                // Any other answer is one of a server: what it says to events is theirs to say.
                Ok(_) | Err(kube::Error::Api(_) | kube::Error::SerdeError(_)) => break,
                Err(error) => error,
            };
            if attempt == FIRST_TRIES {
                return Err(Unreachable::NoAnswer(with_sources(&error)));
            }
            tokio::time::sleep(delay(attempt, None)).await;
        }
        Ok(Self {
            client,
            stop: Arc::new(AtomicBool::new(false)),
            unreachable: Mutex::new(None),
        })
    }

    /// Set, it ends sending: every event from then on is [`Outcome::NotSent`].
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Why it stopped by itself, if it did.
    pub(crate) fn unreachable(&self) -> Option<Unreachable> {
        self.unreachable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Creates one event. Never fails: what happened is the outcome.
    pub(crate) async fn create(&self, event: Event) -> Outcome {
        let path = format!("/api/v1/namespaces/{}/events", event.namespace);
        // A map of JSON values has a JSON text, so there is nothing to go wrong.
        let body = serde_json::Value::Object(event.body)
            .to_string()
            .into_bytes();
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let mut attempt = 0;
        loop {
            if self.is_stopped() {
                return Outcome::NotSent;
            }
            attempt += 1;
            let request =
                match kube::core::Request::new(path.as_str()).create(&parameters, body.clone()) {
                    Ok(request) => request,
                    Err(error) => return refused_here(&error),
                };
            let retry_after = match self.client.request_text(request).await {
                Ok(_) => return Outcome::Created,
                Err(kube::Error::Api(status)) if is_transient(status.code) && attempt < TRIES => {
                    status
                        .details
                        .as_ref()
                        .map(|details| details.retry_after_seconds)
                }
                Err(kube::Error::Api(status)) => return answered(&status),
                Err(error) if attempt == TRIES => {
                    let error = Unreachable::NoAnswer(with_sources(&error));
                    *self
                        .unreachable
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(error);
                    self.stop.store(true, Ordering::Relaxed);
                    return Outcome::NotSent;
                }
                Err(_) => None,
            };
            tokio::time::sleep(delay(attempt, retry_after)).await;
        }
    }
}

fn is_transient(code: u16) -> bool {
    code == 429 || code >= 500
}

fn answered(status: &Status) -> Outcome {
    if status.code == 409 && status.reason == "AlreadyExists" {
        return Outcome::AlreadyThere;
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    Outcome::Refused {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        fields: causes.map(|cause| cause.field.clone()).collect(),
    }
}

fn refused_here(error: &dyn std::error::Error) -> Outcome {
    Outcome::Refused {
        code: 400,
        reason: "BadRequest".to_owned(),
        message: format!("not sent, no request can be made of it: {error}"),
        fields: Vec::new(),
    }
}

/// Doubled with every attempt, of which a random half is taken away so that sixteen waiting requests do not come back at
/// once; no sooner than the server asked for.
fn delay(attempt: u32, retry_after_seconds: Option<u32>) -> Duration {
    let doubled = FIRST_DELAY
        .saturating_mul(1 << attempt.saturating_sub(1).min(16))
        .min(LONGEST_DELAY);
    let random = RandomState::new().hash_one(attempt) as f64 / u64::MAX as f64;
    let asked =
        Duration::from_secs(retry_after_seconds.unwrap_or(0).into()).min(LONGEST_RETRY_AFTER);
    doubled.mul_f64(0.5 + random / 2.0).max(asked)
}

/// An error of a client says little without those it was caused by.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_are_jittered_and_end() {
        for attempt in 1..TRIES {
            let full = FIRST_DELAY
                .saturating_mul(1 << (attempt - 1))
                .min(LONGEST_DELAY);
            for _ in 0..50 {
                let delay = delay(attempt, None);
                assert!(
                    delay >= full / 2 && delay <= full,
                    "{delay:?} at attempt {attempt}"
                );
            }
        }
        assert!(delay(u32::MAX, None) <= LONGEST_DELAY);
        assert_eq!(delay(1, Some(7)), Duration::from_secs(7));
        assert_eq!(delay(1, Some(u32::MAX)), LONGEST_RETRY_AFTER);
    }

    #[test]
    fn only_already_exists_is_there_already() {
        let status = |code, reason: &str| Status {
            code,
            reason: reason.to_owned(),
            ..Status::default()
        };
        assert_eq!(
            answered(&status(409, "AlreadyExists")),
            Outcome::AlreadyThere
        );
        for (code, reason) in [
            (409, "Conflict"),
            (422, "Invalid"),
            (403, "Forbidden"),
            (404, "NotFound"),
        ] {
            assert!(
                matches!(answered(&status(code, reason)), Outcome::Refused { .. }),
                "{code} {reason}"
            );
        }
    }
}
