//! The recorder: the handle by which a program records events.
//!
//! Invariant: no call ever waits, panics or disturbs the program. An event that cannot be recorded
//! is counted by cause and logged; [`EventBuilder::try_send`] returns the error instead.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use tidings_core::{EventSource, EventType};

use crate::acknowledgement::Acknowledgement;
use crate::builder::EventBuilder;
use crate::error::RecordError;
use crate::intake::{Fields, Intake};
use crate::object::ToReference;

/// Records events on behalf of an [`EventSource`]: client-go's `EventRecorder`.
///
/// A recorder is cheap to clone, and every call is synchronous: it makes the event, appends it to
/// the watchers' queues and returns. Calls are allowed on any thread, inside or outside an async
/// runtime.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use tidings::{Broadcaster, EventSource, EventType::{Normal, Warning}};
///
/// let broadcaster = Broadcaster::new();
/// let recorder = broadcaster.recorder(EventSource::component("example-controller"));
/// # let (pod, code) = (Pod::default(), 3);
/// recorder.event(&pod, Normal, "PodCreated", "created");
/// recorder.warning(&pod, "PodFailed", format_args!("exit code {code}"));
/// ```
///
/// # Cost
/// A call takes about a quarter of a microsecond with a [`Reference`](crate::Reference) at hand.
/// Making the reference from an object costs two more allocations.
#[derive(Clone, Debug)]
pub struct Recorder {
    intake: Arc<Intake>,
    source: EventSource,
}

impl Recorder {
    pub(crate) fn new(intake: Arc<Intake>, source: EventSource) -> Self {
        Self { intake, source }
    }

    /// The source of this recorder's events.
    pub fn source(&self) -> &EventSource {
        &self.source
    }

    /// Records that `reason` happened to `object`, now.
    ///
    /// `reason` is a short word in UpperCamelCase that programs may look for. `message` is for
    /// people; it is formatted once, directly into the event. client-go's `Event` and, with
    /// `format_args!`, its `Eventf`.
    ///
    /// The event is written to the object's namespace. It is lost if the object has no kind, the
    /// broadcaster is shut down, or the queues are full; each loss is counted and logged.
    pub fn event<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        event_type: EventType,
        reason: &str,
        message: impl fmt::Display,
    ) {
        self.record(object, event_type, reason, &message, None, None);
    }

    /// Records an event of type `Normal`.
    pub fn normal<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        reason: &str,
        message: impl fmt::Display,
    ) {
        self.record(object, EventType::Normal, reason, &message, None, None);
    }

    /// Records an event of type `Warning`.
    pub fn warning<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        reason: &str,
        message: impl fmt::Display,
    ) {
        self.record(object, EventType::Warning, reason, &message, None, None);
    }

    /// Records an event with annotations. client-go's `AnnotatedEventf`.
    ///
    /// ```
    /// # use tidings::{Broadcaster, EventSource, EventType::Normal};
    /// # let recorder = Broadcaster::new().recorder(EventSource::component("example"));
    /// # let pod = k8s_openapi::api::core::v1::Pod::default();
    /// recorder.annotated(&pod, [("example.com/revision", "7")], Normal, "Updated", "to revision 7");
    /// ```
    pub fn annotated<Kind, K: Into<String>, V: Into<String>>(
        &self,
        object: &impl ToReference<Kind>,
        annotations: impl IntoIterator<Item = (K, V)>,
        event_type: EventType,
        reason: &str,
        message: impl fmt::Display,
    ) {
        let annotations = annotations
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let annotations = Some(Arc::new(annotations));
        self.record(
            object,
            event_type,
            reason,
            &message,
            None,
            annotations.as_ref(),
        );
    }

    /// Records something that happened at `at`, which becomes the event's first and last time.
    ///
    /// client-go had `PastEventf` until v0.17, which ignored the given time.
    pub fn past<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        at: Timestamp,
        event_type: EventType,
        reason: &str,
        message: impl fmt::Display,
    ) {
        self.record(object, event_type, reason, &message, Some(at), None);
    }

    /// Records that `reason` happened to `object`, and waits for the outcome: written, counted on
    /// an earlier event, or given up. For programs that need to know, such as one that is about to
    /// exit; a reconcile loop should not wait for its events.
    ///
    /// The call records the event, whether the future is awaited or dropped. The event is written
    /// at once and separately, even if others would wait to be merged. It is retried like every
    /// write: while the server is down the wait takes minutes, so limit it with
    /// `tokio::time::timeout`. More in [`EventBuilder::send_and_wait`].
    ///
    /// ```no_run
    /// # async fn last_words(recorder: tidings::Recorder, pod: k8s_openapi::api::core::v1::Pod) -> Result<(), tidings::RecordError> {
    /// use tidings::{Acknowledgement, EventType::Warning};
    ///
    /// match recorder.record_and_wait(&pod, Warning, "Exiting", "out of disk space").await? {
    ///     Acknowledgement::Dropped { cause, error } => eprintln!("not recorded: {cause}, {error:?}"),
    ///     written => println!("{written:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`EventBuilder::send_and_wait`].
    pub fn record_and_wait<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        event_type: EventType,
        reason: &str,
        message: impl fmt::Display,
    ) -> Pin<Box<dyn Future<Output = Result<Acknowledgement, RecordError>> + Send>> {
        // The future is boxed so that it borrows neither the object nor the message.
        Box::pin(
            self.build(object, event_type, reason)
                .message(message)
                .send_and_wait(),
        )
    }

    /// Begins an event with more fields; [`EventBuilder::send`] records it.
    pub fn build<'a, Kind, T: ToReference<Kind>>(
        &'a self,
        object: &T,
        event_type: EventType,
        reason: &'a str,
    ) -> EventBuilder<'a> {
        EventBuilder::new(&self.intake, &self.source, object, event_type, reason)
    }

    fn record<Kind, T: ToReference<Kind>>(
        &self,
        object: &T,
        event_type: EventType,
        reason: &str,
        message: &dyn fmt::Display,
        at: Option<Timestamp>,
        annotations: Option<&Arc<BTreeMap<String, String>>>,
    ) {
        let regarding = match object.to_reference() {
            Ok(regarding) => regarding,
            Err(error) => {
                let object = std::any::type_name::<T>();
                return self
                    .intake
                    .refuse(&error, object, event_type, reason, message);
            }
        };
        let fields = Fields {
            regarding: &regarding,
            related: None,
            event_type,
            reason,
            action: "",
            message,
            annotations,
            labels: None,
            at,
        };
        self.intake.log(self.intake.record(&self.source, &fields));
    }
}

#[cfg(test)]
mod tests;
