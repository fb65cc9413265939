//! The builder of an event with further fields than type, reason and message.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use tidings_core::{DropCause, EventSource, EventType, Reference};
use tracing::Span;

use crate::acknowledgement::{Acknowledgement, Context};
use crate::error::{RecordError, ReferenceError};
use crate::intake::{Fields, Intake};
use crate::object::ToReference;

/// An event that is being built; it can set every field.
///
/// ```
/// # use tidings::{Broadcaster, EventSource, EventType::Warning};
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # let recorder = Broadcaster::new().recorder(EventSource::component("example"));
/// # let (pod, node) = (Pod::default(), Node::default());
/// recorder
///     .build(&pod, Warning, "BackOff")
///     .message("back-off restarting failed container")
///     .action("Restart")
///     .related(&node)
///     .annotation("example.com/attempt", "4")
///     .send();
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is recorded until it is sent"]
pub struct EventBuilder<'a> {
    intake: &'a Intake,
    source: &'a EventSource,
    /// The type of the object, for the log.
    object: &'static str,
    regarding: Result<Reference, ReferenceError>,
    related: Option<Reference>,
    event_type: EventType,
    reason: &'a str,
    action: &'a str,
    message: String,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    at: Option<Timestamp>,
}

impl<'a> EventBuilder<'a> {
    pub(crate) fn new<Kind, T: ToReference<Kind>>(
        intake: &'a Intake,
        source: &'a EventSource,
        object: &T,
        event_type: EventType,
        reason: &'a str,
    ) -> Self {
        Self {
            intake,
            source,
            object: std::any::type_name::<T>(),
            regarding: object.to_reference(),
            related: None,
            event_type,
            reason,
            action: "",
            message: String::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
            at: None,
        }
    }

    /// Sets the text for people.
    pub fn message(mut self, message: impl fmt::Display) -> Self {
        self.message.clear();
        // A Display that fails keeps what it wrote so far: an event with half a message is better
        // than none.
        let _ = write!(self.message, "{message}");
        self
    }

    /// The action that was taken or failed.
    pub fn action(mut self, action: &'a str) -> Self {
        self.action = action;
        self
    }

    /// The part of the object that the event is about, such as `spec.containers{nginx}`.
    /// client-go's `GetPartialReference`.
    pub fn field_path(mut self, field_path: &str) -> Self {
        self.regarding = self
            .regarding
            .map(|regarding| regarding.with_field_path(field_path));
        self
    }

    /// Sets a second object that takes part. If it cannot be converted to a reference, this is
    /// logged and the event is sent without it.
    pub fn related<Kind, T: ToReference<Kind>>(mut self, object: &T) -> Self {
        match object.to_reference() {
            Ok(related) => self.related = Some(related),
            Err(error) => tracing::warn!(
                %error, object = std::any::type_name::<T>(), reason = self.reason,
                "Could not construct reference of related object, will report event without it"
            ),
        }
        self
    }

    /// An annotation of the event object.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// A label of the event object.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets when it happened. Default now.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    /// Records the event. Failures are counted and logged, as with
    /// [`Recorder::event`](crate::Recorder::event).
    pub fn send(self) {
        let intake = self.intake;
        match &self.regarding {
            Err(error) => intake.refuse(
                error,
                self.object,
                self.event_type,
                self.reason,
                &self.message,
            ),
            Ok(_) => intake.log(self.record()),
        }
    }

    /// Records the event, or returns why it was not recorded. Failures are counted, but not logged.
    ///
    /// `Ok` means that at least one sink, if there is any, has the event in its queue;
    /// [`Broadcaster::shutdown`](crate::Broadcaster::shutdown) reports its outcome.
    ///
    /// # Errors
    /// The object cannot be converted to a reference, the broadcaster is shut down, the queues of
    /// all sinks are full, or all sinks have ended with their runtimes.
    pub fn try_send(self) -> Result<(), RecordError> {
        self.count_refused();
        self.record()
    }

    /// Records the event now, and waits for its outcome. See
    /// [`Recorder::record_and_wait`](crate::Recorder::record_and_wait).
    ///
    /// # Errors
    /// The errors of [`EventBuilder::try_send`], where [`RecordError::QueueFull`] concerns the
    /// sinks only; [`RecordError::NoSink`] when no sink writes events; [`RecordError::Abandoned`]
    /// when the broadcaster ended before the event was written.
    pub fn send_and_wait(
        self,
    ) -> impl Future<Output = Result<Acknowledgement, RecordError>> + Send + use<> {
        self.count_refused();
        let sinks = self.intake.sinks.clone();
        let span = if self.intake.follow_spans {
            Span::current()
        } else {
            Span::none()
        };
        let (context, wait) = Context::awaited(span);
        let recorded = self.record_with(|intake, source, fields| {
            intake.record_with(source, fields, Some(context))
        });
        async move {
            match recorded? {
                None => return Err(RecordError::NoSink),
                Some(0) => return Err(RecordError::QueueFull),
                Some(sinks) => wait.taken_by(sinks),
            }
            wait.acknowledgement(sinks).await
        }
    }

    fn count_refused(&self) {
        if self.regarding.is_err() {
            self.intake.refused.add(DropCause::InvalidReference, 1);
        }
    }

    fn record(self) -> Result<(), RecordError> {
        self.record_with(Intake::record)
    }

    fn record_with<T>(
        self,
        record: impl FnOnce(&Intake, &EventSource, &Fields<'_>) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let map = |map: BTreeMap<String, String>| (!map.is_empty()).then(|| Arc::new(map));
        let (annotations, labels) = (map(self.annotations), map(self.labels));
        let fields = Fields {
            regarding: &self.regarding?,
            related: self.related.as_ref(),
            event_type: self.event_type,
            reason: self.reason,
            action: self.action,
            message: &self.message,
            annotations: annotations.as_ref(),
            labels: labels.as_ref(),
            at: self.at,
        };
        record(self.intake, self.source, &fields)
    }
}
