//! Creation of events in a cluster, with retries while the server is busy or restarting.
//!
//! [`RetryPolicy`] decides about retries. Once all tries of one event had no answer, or the
//! credentials were rejected, no more events are sent, because each would take as long and fail,
//! too. An event that is there already is replaced by a newer version of it, and by no other.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::super::cluster::{
    STRANGER_HINT, UNAUTHORIZED_HINT, UNREACHABLE_HINT, one_line, with_sources,
};
use super::super::connection::answer::{OF_OTHERS, Stranger, check_created};
use kube::Client;
use kube::core::Status;
use kube::core::params::{GetParams, PostParams};
use serde_json::Value;
use tidings_cli::capture::Event;
use tidings_cli::capture::report::Outcome;
use tidings_cli::event;
use tidings_core::{
    OccurrenceKind, RetryClass, RetryPolicy, StatusFailure, WriteError, WriteErrorKind,
};
use tokio::sync::watch;

/// Tries of one request: about half a minute.
const TRIES: u32 = 8;
/// Tries of a request with rejected credentials; they may be renewed meanwhile.
const UNAUTHORIZED_TRIES: u32 = 3;
/// Tries to reach the server at the start, where a wrong address should be reported soon.
const FIRST_TRIES: u32 = 3;
/// The field manager of created events.
const FIELD_MANAGER: &str = "tidings-import";

/// Why sending stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The server did not answer.
    #[error("reach the server: {0}")]
    NoAnswer(String),
    /// The answer did not come from an API server.
    #[error("reach the server: {0}")]
    Stranger(String),
    /// The credentials were rejected, as for every other request.
    #[error("authenticate to the server: {0}")]
    Unauthorized(String),
    /// The user interrupted, or the receiver stopped.
    #[error("finish: interrupted")]
    Interrupted,
}

impl Stop {
    /// Advice about the reason.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoAnswer(_) => Some(UNREACHABLE_HINT),
            Self::Stranger(_) => Some(STRANGER_HINT),
            Self::Unauthorized(_) => Some(UNAUTHORIZED_HINT),
            Self::Interrupted => None,
        }
    }
}

/// Sets the timeouts of a client that sends events.
pub(crate) fn with_timeouts(
    mut config: kube::Config,
    request_timeout: Option<Duration>,
) -> kube::Config {
    config.read_timeout = request_timeout;
    config
}

/// Creates events, until it is stopped.
pub(crate) struct Creator {
    client: Client,
    retries: RetryPolicy,
    stop: watch::Sender<Option<Stop>>,
    /// Whether events are sent with the uid and the creation time of the capture.
    has_identities: bool,
}

impl Creator {
    /// Checks that the server can be reached and accepts the credentials, before any event is sent.
    pub(crate) async fn connect(client: Client) -> Result<Self, Stop> {
        let retries = retries();
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match client.apiserver_version().await {
                Err(kube::Error::Api(status)) if status.code == 401 => {
                    return Err(Stop::Unauthorized(one_line(&status.message)));
                }
                Ok(version) if version.git_version.is_empty() => {
                    let why = Stranger::Form("a gitVersion").to_string();
                    return Err(Stop::Stranger(why));
                }
                // A refusal shows that there is a server; events get their own answers.
                Ok(_) => break,
                Err(kube::Error::Api(status)) if !matches!(status.code, 502..=504) => break,
                Err(error) if Stranger::is_in(&error) => {
                    return Err(Stop::Stranger(with_sources(&error)));
                }
                Err(error) => error,
            };
            if tries == FIRST_TRIES {
                return Err(Stop::NoAnswer(with_sources(&error)));
            }
            tokio::time::sleep(retries.wait(tries, None, random())).await;
        }
        Ok(Self {
            client,
            retries,
            stop: watch::Sender::new(None),
            has_identities: false,
        })
    }

    /// Sends events with the uid and the creation time of the capture, to a server that keeps them.
    pub(crate) fn with_identities(mut self) -> Self {
        self.has_identities = true;
        self
    }

    /// Stops sending: all further events, and those without an answer yet, are
    /// [`Outcome::NotSent`].
    pub(crate) fn stop(&self, reason: Stop) {
        // Only the first reason is kept.
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            stop.get_or_insert(reason);
            is_first
        });
    }

    /// Waits until sending stops.
    pub(crate) async fn told_to_stop(&self) {
        // This cannot fail: the sender exists as long as `self`.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Why sending stopped, if it did.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }

    /// Creates one event, or updates the older version that is there. Errors are part of the
    /// outcome.
    pub(crate) async fn create(&self, event: Event) -> Outcome {
        let mut stop = self.stop.subscribe();
        tokio::select! {
            biased;
            // The sender is a field of `self`, so the wait cannot end otherwise.
            _ = stop.wait_for(Option::is_some) => Outcome::NotSent,
            outcome = self.try_create(event) => outcome,
        }
    }

    async fn try_create(&self, event: Event) -> Outcome {
        let mut tries = 0;
        let mut may_be_ours = false;
        let mut is_there = false;
        loop {
            tries += 1;
            let answer = if is_there {
                self.update(&event).await
            } else {
                self.send(&event).await
            };
            let failure = match answer {
                Ok(outcome) => return outcome,
                Err(failure) => failure,
            };
            let error = write_error(&failure);
            let tries_max = match &error.kind {
                WriteErrorKind::Status(failure) if failure.code == 401 => {
                    self.retries.unauthorized_tries_max
                }
                _ => self.retries.tries_max,
            };
            match self.retries.classify(&error, OccurrenceKind::Create) {
                RetryClass::AlreadyExists if may_be_ours => return Outcome::Created,
                RetryClass::AlreadyExists if !is_there => {
                    is_there = true;
                    tries = 0;
                }
                RetryClass::Transient { retry_after }
                    if tries < tries_max && !is_conflict_of_others(&error) =>
                {
                    may_be_ours |= !is_there && error.may_have_been_written();
                    tokio::time::sleep(self.retries.wait(tries, retry_after, random())).await;
                }
                _ => {
                    match failure {
                        kube::Error::Api(status) if status.code == 401 => {
                            self.stop(Stop::Unauthorized(one_line(&status.message)));
                        }
                        kube::Error::Api(status) => return answered(&status),
                        kube::Error::BuildRequest(_) => {
                            return refused(400, "BadRequest", &with_sources(&failure));
                        }
                        error if Stranger::is_in(&error) => {
                            self.stop(Stop::Stranger(with_sources(&error)));
                        }
                        _ => self.stop(Stop::NoAnswer(error.message)),
                    }
                    return Outcome::NotSent;
                }
            }
        }
    }

    /// Requests the creation of an event.
    async fn send(&self, event: &Event) -> kube::Result<Outcome> {
        let body = if self.has_identities {
            let mut body = event.body.clone();
            if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                metadata.extend(event.identity.clone());
            }
            serde_json::to_vec(&body)
        } else {
            serde_json::to_vec(&event.body)
        };
        let body = body.map_err(kube::Error::SerdeError)?;
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let request = requests(event).create(&parameters, body);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = self.client.request_text(request).await?;
        check_created(answer.as_bytes(), &event.name)?;
        Ok(Outcome::Created)
    }

    /// Replaces the event that is there if this version is newer: last seen later, or at the same
    /// time more often. A conflict is an error: another writer was faster.
    async fn update(&self, event: &Event) -> kube::Result<Outcome> {
        let version = |value: Value| {
            let event = event::Event::new(value);
            (event.last_seen(), event.count())
        };
        let requests = requests(event);
        // A name may have any character but / and %.
        let segment: String = form_urlencoded::byte_serialize(event.name.as_bytes()).collect();
        let segment = segment.replace('+', "%20");
        let ask = requests.get(&segment, &GetParams::default());
        let ask = ask.map_err(kube::Error::BuildRequest)?;
        let there = self.client.request_text(ask).await?;
        check_created(there.as_bytes(), &event.name)?;
        let there: Value = serde_json::from_str(&there).map_err(kube::Error::SerdeError)?;
        let mut newer = Value::Object(event.body.clone());
        newer["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        let body = newer.to_string().into_bytes();
        if version(newer) <= version(there) {
            return Ok(Outcome::AlreadyThere);
        }
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let put = requests.replace(&segment, &parameters, body);
        let put = put.map_err(kube::Error::BuildRequest)?;
        let answer = self.client.request_text(put).await?;
        check_created(answer.as_bytes(), &event.name)?;
        Ok(Outcome::Updated)
    }
}

/// Builds requests for an event's namespace.
fn requests(event: &Event) -> kube::core::Request {
    kube::core::Request::new(format!("/api/v1/namespaces/{}/events", event.namespace))
}

fn retries() -> RetryPolicy {
    RetryPolicy::default()
        .tries_max(TRIES)
        .unauthorized_tries_max(UNAUTHORIZED_TRIES)
}

fn write_error(failure: &kube::Error) -> WriteError {
    let kube::Error::Api(status) = failure else {
        return WriteError::transport(with_sources(failure));
    };
    let details = status.details.as_ref();
    let asked = details.map_or(0, |details| details.retry_after_seconds);
    let answer = StatusFailure {
        code: status.code,
        reason: status.reason.clone(),
        retry_after: (asked > 0).then(|| Duration::from_secs(asked.into())),
        ..StatusFailure::default()
    };
    WriteError::status(answer, status.message.clone())
}

/// Whether it is a 409 that no API server answered, such as a proxy's page. It does not pass,
/// unlike a conflict within an API server.
fn is_conflict_of_others(error: &WriteError) -> bool {
    matches!(&error.kind, WriteErrorKind::Status(it) if it.code == 409 && it.reason == OF_OTHERS)
}

fn answered(status: &Status) -> Outcome {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    Outcome::Refused {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        fields: causes.map(|cause| cause.field.clone()).collect(),
    }
}

fn refused(code: u16, reason: &str, message: &str) -> Outcome {
    Outcome::Refused {
        code,
        reason: reason.to_owned(),
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

/// A random number, only for spreading waits, from the standard library's random hash seeds.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// The server's reaction to one request: a status code and the Status's `reason`, or no answer.
    type Answer = Option<(u16, &'static str)>;

    /// A client whose requests get these answers, the last of them repeatedly, and the number of
    /// requests so far.
    fn scripted(answers: &'static [Answer]) -> (Client, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let index = counted
                .fetch_add(1, Ordering::Relaxed)
                .min(answers.len() - 1);
            std::future::ready(match answers[index] {
                None => Err(io::Error::other("connection reset")),
                Some((code, reason)) => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                        "message": "said so", "details": {"retryAfterSeconds": 1, "causes": [{"field": "reason"}]},
                    });
                    let event =
                        json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"}});
                    let answer = if code < 300 && reason.is_empty() {
                        event
                    } else {
                        status
                    };
                    let body = Body::from(answer.to_string().into_bytes());
                    Ok(http::Response::builder()
                        .status(code)
                        .body(body)
                        .expect("a response"))
                }
            })
        });
        (Client::new(service, "default"), count)
    }

    fn creator(client: Client) -> Creator {
        Creator {
            client,
            retries: retries(),
            stop: watch::Sender::new(None),
            has_identities: false,
        }
    }

    fn event() -> Event {
        Event {
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            body: serde_json::Map::new(),
            identity: serde_json::Map::new(),
            resource_version: None,
        }
    }

    async fn create(answers: &'static [Answer]) -> (Outcome, Option<Stop>, usize) {
        let (client, count) = scripted(answers);
        let (creator, event) = (creator(client), event());
        let outcome = creator.create(event.clone()).await;
        let requests = count.load(Ordering::Relaxed);
        if creator.stopped().is_some() {
            assert_eq!(creator.create(event).await, Outcome::NotSent);
            assert_eq!(
                count.load(Ordering::Relaxed),
                requests,
                "sent after it had stopped"
            );
        }
        (outcome, creator.stopped(), requests)
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_what_is_meant_is_not() {
        const CREATED: Answer = Some((201, ""));
        const EXISTS: Answer = Some((409, "AlreadyExists"));
        let refused = |code, reason: &str| Outcome::Refused {
            code,
            reason: reason.to_owned(),
            message: "said so".to_owned(),
            fields: vec!["reason".to_owned()],
        };
        let cases: [(&'static [Answer], Outcome, usize); 14] = [
            (&[CREATED], Outcome::Created, 1),
            (
                &[Some((503, "")), Some((429, "")), None, CREATED],
                Outcome::Created,
                4,
            ),
            // The event that is there is read, and is not older.
            (&[EXISTS, CREATED], Outcome::AlreadyThere, 2),
            (
                &[Some((429, "")), EXISTS, CREATED],
                Outcome::AlreadyThere,
                3,
            ),
            (
                &[EXISTS, Some((503, "")), CREATED],
                Outcome::AlreadyThere,
                3,
            ),
            (
                &[EXISTS, Some((403, "Forbidden"))],
                refused(403, "Forbidden"),
                2,
            ),
            (
                &[EXISTS, Some((404, "NotFound"))],
                refused(404, "NotFound"),
                2,
            ),
            // The first request may have created the event, though its answer was lost.
            (&[None, EXISTS], Outcome::Created, 2),
            (&[Some((422, "Invalid"))], refused(422, "Invalid"), 1),
            (&[Some((403, "Forbidden"))], refused(403, "Forbidden"), 1),
            // A page in place of an API server's answer, and a success that is none.
            (&[Some((409, OF_OTHERS))], refused(409, OF_OTHERS), 1),
            (
                &[Some((409, "Conflict"))],
                refused(409, "Conflict"),
                TRIES as usize,
            ),
            (&[Some((200, "Invalid"))], refused(200, "Invalid"), 1),
            (
                &[Some((503, "ServiceUnavailable"))],
                refused(503, "ServiceUnavailable"),
                TRIES as usize,
            ),
        ];
        for (answers, expected, requests) in cases {
            assert_eq!(
                create(answers).await,
                (expected, None, requests),
                "after {answers:?}"
            );
        }
        let (outcome, stop, requests) = create(&[Some((401, "Unauthorized"))]).await;
        assert_eq!(
            (outcome, requests),
            (Outcome::NotSent, UNAUTHORIZED_TRIES as usize)
        );
        assert_eq!(stop, Some(Stop::Unauthorized("said so".to_owned())));
        let (outcome, stop, requests) = create(&[None]).await;
        assert_eq!((outcome, requests), (Outcome::NotSent, TRIES as usize));
        assert!(matches!(stop, Some(Stop::NoAnswer(error)) if error.contains("connection reset")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_a_wait() {
        let (client, _) = scripted(&[None]);
        let (creator, event) = (creator(client), event());
        let (outcome, ()) = tokio::join!(creator.create(event), async {
            tokio::task::yield_now().await;
            creator.stop(Stop::Interrupted);
            creator.stop(Stop::NoAnswer("too late to be the reason".to_owned()));
        });
        assert_eq!(
            (outcome, creator.stopped()),
            (Outcome::NotSent, Some(Stop::Interrupted))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_not_there_or_does_not_know_us_is_told_at_once() {
        let connect = async |answers| {
            let (client, count) = scripted(answers);
            (
                Creator::connect(client).await.err(),
                count.load(Ordering::Relaxed),
            )
        };
        assert_eq!(connect(&[None, Some((403, "Forbidden"))]).await, (None, 2));
        assert_eq!(
            connect(&[Some((401, "Unauthorized"))]).await,
            (Some(Stop::Unauthorized("said so".to_owned())), 1)
        );
        let (error, requests) = connect(&[None]).await;
        assert!(matches!(error, Some(Stop::NoAnswer(_))));
        assert_eq!(requests, FIRST_TRIES as usize);
    }
}
