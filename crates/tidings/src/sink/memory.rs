//! A sink that keeps typed events in memory, and answers as an API server would, or as a test
//! scripts it.
//!
//! Invariants: it never blocks a thread, it keeps no more than its capacity, and it counts what it
//! forgot.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use serde_json::Value;
use tidings_core::convert::to_core_v1;
use tidings_core::{EventApi, Occurrence, StatusFailure, WriteError};
use tokio::sync::watch;

use super::Sink;
use crate::sync::{Mutex, MutexGuard, lock};

/// Default capacity: events kept, and calls kept.
const CAPACITY: usize = 65_536;

/// Keeps events in memory. Clones share them: give one to the broadcaster and look into the other.
///
/// It answers as an API server does: a create of an existing name with 409, a patch of a missing
/// one with 404, and a patch changes the fields it contains. [`MemorySink::answer_next`] and
/// [`MemorySink::hold`] make it fail, lose answers or hang.
///
/// ```
/// use tidings::{Broadcaster, EventSource, EventType, MemorySink, Reference, ReferenceFields};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let sink = MemorySink::new();
/// let broadcaster = Broadcaster::new();
/// broadcaster.start_recording_to_sink(sink.clone());
///
/// let pod = Reference::new(ReferenceFields { kind: "Pod", namespace: "default", name: "web-0", ..Default::default() });
/// let recorder = broadcaster.recorder(EventSource::component("example-controller"));
/// recorder.event(&pod, EventType::Normal, "Created", "created container");
/// broadcaster.shutdown(std::time::Duration::from_secs(5)).await;
///
/// assert_eq!(sink.events()[0].reason.as_deref(), Some("Created"));
/// # }
/// ```
#[derive(Clone)]
pub struct MemorySink {
    state: Arc<Mutex<State>>,
    /// The number of [`Held`] values.
    held: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct State {
    capacity: usize,
    /// The stored events by namespace and name.
    events: HashMap<(String, String), v1::Event>,
    /// The keys of `events` in order of creation, including keys of removed events.
    order: VecDeque<(String, String)>,
    calls: VecDeque<SinkCall>,
    answers: VecDeque<SinkAnswer>,
    forgotten: u64,
    resource_version: u64,
}

/// A call of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinkVerb {
    /// [`Sink::create`].
    Create,
    /// [`Sink::patch`].
    Patch,
    /// [`Sink::update`].
    Update,
}

/// One call of a [`MemorySink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkCall {
    /// The kind of call.
    pub verb: SinkVerb,
    /// The event's namespace.
    pub namespace: String,
    /// The event's name.
    pub name: String,
    /// The body of the request: the event, or a strategic merge patch.
    pub body: Vec<u8>,
}

/// The answer of a [`MemorySink`] to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkAnswer {
    /// Answers as an API server would.
    Serve,
    /// Fails without a write.
    Fail(WriteError),
    /// Writes and then fails, as if the answer was lost.
    Lose(WriteError),
}

/// A guard. While it exists, its [`MemorySink`] answers no call.
#[derive(Debug)]
pub struct Held(Arc<watch::Sender<usize>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held = held.saturating_sub(1));
    }
}

impl MemorySink {
    /// Makes an empty sink that keeps up to 65,536 events and as many calls.
    pub fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// Makes an empty sink that keeps up to `capacity` events and as many calls. Beyond that the
    /// oldest are forgotten: see [`MemorySink::forgotten`].
    pub fn with_capacity(capacity: usize) -> Self {
        let state = State {
            capacity,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            held: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The events, in order of creation. Events written as events.k8s.io/v1 are shown as core/v1,
    /// as a server does.
    pub fn events(&self) -> Vec<v1::Event> {
        let state = self.state();
        let keys = state.order.iter();
        keys.filter_map(|key| state.events.get(key).cloned())
            .collect()
    }

    /// The event with this namespace and name.
    pub fn event(&self, namespace: &str, name: &str) -> Option<v1::Event> {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().events.get(&key).cloned()
    }

    /// Every call so far, answered or not, in order.
    pub fn calls(&self) -> Vec<SinkCall> {
        self.state().calls.iter().cloned().collect()
    }

    /// How many events and calls were forgotten to stay within the capacity.
    pub fn forgotten(&self) -> u64 {
        self.state().forgotten
    }

    /// Removes all events, as a server does when their TTL ends. Patches of them are then answered
    /// with 404.
    pub fn expire(&self) {
        let mut state = self.state();
        state.events.clear();
        state.order.clear();
    }

    /// Answers the next calls with `answers`, in the order in which the calls are answered; after
    /// that as an API server would.
    pub fn answer_next(&self, answers: impl IntoIterator<Item = SinkAnswer>) {
        self.state().answers.extend(answers);
    }

    /// Leaves calls unanswered while the returned value exists.
    #[must_use = "calls are answered again as soon as this is dropped"]
    pub fn hold(&self) -> Held {
        self.held.send_modify(|held| *held += 1);
        Held(Arc::clone(&self.held))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    async fn call(
        &self,
        verb: SinkVerb,
        occurrence: &Occurrence,
        body: Vec<u8>,
    ) -> Result<(), WriteError> {
        let call = SinkCall {
            verb,
            namespace: occurrence.namespace().to_owned(),
            name: occurrence.name().into_owned(),
            body,
        };
        self.state().note(call.clone());
        // This fails only if the sender is gone, and `self` has it.
        let _ = self.held.subscribe().wait_for(|held| *held == 0).await;
        let mut state = self.state();
        match state.answers.pop_front().unwrap_or(SinkAnswer::Serve) {
            SinkAnswer::Serve => state.serve(call),
            SinkAnswer::Fail(error) => Err(error),
            SinkAnswer::Lose(error) => {
                // The call is served or refused; the caller gets the scripted error in either case.
                let _ = state.serve(call);
                Err(error)
            }
        }
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for MemorySink {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.call(SinkVerb::Create, occurrence, occurrence.create_body())
            .await
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.call(SinkVerb::Patch, occurrence, occurrence.patch_body())
            .await
    }

    async fn update(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        self.call(SinkVerb::Update, occurrence, occurrence.create_body())
            .await
    }
}

impl std::fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("MemorySink")
            .field("events", &state.events.len())
            .field("calls", &state.calls.len())
            .finish_non_exhaustive()
    }
}

impl State {
    fn note(&mut self, call: SinkCall) {
        self.calls.push_back(call);
        while self.calls.len() > self.capacity {
            self.calls.pop_front();
            self.forgotten += 1;
        }
    }

    fn serve(&mut self, call: SinkCall) -> Result<(), WriteError> {
        let name = call.name.clone();
        let key = (call.namespace, call.name);
        let there = self.events.get(&key);
        let event = match (call.verb, there) {
            (SinkVerb::Create, Some(_)) => {
                return Err(refused(
                    409,
                    "AlreadyExists",
                    &format!("events {name:?} already exists"),
                ));
            }
            (SinkVerb::Patch, None) => {
                return Err(refused(
                    404,
                    "NotFound",
                    &format!("events {name:?} not found"),
                ));
            }
            (SinkVerb::Patch, Some(event)) => {
                patched(event, &call.body).map_err(|error| error.to_string())
            }
            (SinkVerb::Create | SinkVerb::Update, _) => read(&call.body),
        };
        let mut event: v1::Event = event.map_err(|error| refused(400, "BadRequest", &error))?;
        self.resource_version += 1;
        event.metadata.resource_version = Some(self.resource_version.to_string());
        if self.events.insert(key.clone(), event).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > self.capacity {
            if let Some(oldest) = self.order.pop_front() {
                self.events.remove(&oldest);
                self.forgotten += 1;
            }
        }
        Ok(())
    }
}

/// Reads the event in a body of either API group.
fn read(body: &[u8]) -> Result<v1::Event, String> {
    let mut event = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if let Value::Object(fields) = &mut event
        && fields.get("apiVersion").and_then(Value::as_str) == Some(EventApi::Events.api_version())
    {
        to_core_v1(fields).map_err(|error| error.to_string())?;
    }
    serde_json::from_value(event).map_err(|error| error.to_string())
}

/// `event` after a strategic merge patch. A strategic merge patch differs from a merge patch only
/// in lists, and occurrences' patches have none.
fn patched(event: &v1::Event, patch: &[u8]) -> Result<v1::Event, serde_json::Error> {
    let mut value = serde_json::to_value(event)?;
    merge(&mut value, serde_json::from_slice(patch)?);
    serde_json::from_value(value)
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(target) = target {
        for (name, value) in fields {
            if value.is_null() {
                target.remove(&name);
            } else {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
    }
}

fn refused(code: u16, reason: &str, message: &str) -> WriteError {
    let failure = StatusFailure {
        code,
        reason: reason.to_owned(),
        ..StatusFailure::default()
    };
    WriteError::status(failure, format!("the server answered {code}: {message}"))
}
