//! The recorder: the handle by which a program records events.
//!
//! Invariant: no call ever waits, panics or disturbs the program. An event that cannot be recorded
//! is counted by cause and logged; [`EventBuilder::try_send`] returns the error instead.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use tidings_core::{
    ClusterScopedNamespace, Event, EventContext, EventSource, EventType, NameStamps, NewEvent,
    Reference,
};
use tokio::sync::watch;
use tracing::Span;

use crate::acknowledgement::{Acknowledgement, Context};
use crate::clock::{Clock, entropy};
use crate::config::BroadcasterOptions;
use crate::error::{BroadcasterStopped, RecordError, ReferenceError};
use crate::metrics::RecorderMetrics;
use crate::mux::{Mux, Published};
use crate::object::ToReference;
use crate::sampling::is_sampled;

/// All events of this process get their names from these stamps, so that no two names are the same.
pub(crate) fn name_stamps() -> Arc<NameStamps> {
    static STAMPS: LazyLock<Arc<NameStamps>> =
        LazyLock::new(|| Arc::new(NameStamps::new(entropy())));
    Arc::clone(&STAMPS)
}

/// Shared by all recorders of one broadcaster.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) mux: Arc<Mux>,
    clock: Clock,
    names: Arc<NameStamps>,
    cluster_scoped_namespace: ClusterScopedNamespace,
    text_bytes_max: usize,
    invalid_reference: AtomicU64,
    stopped: AtomicU64,
    missed: AtomicU64,
    metrics: RecorderMetrics,
    follow_spans: bool,
    /// The number of sinks.
    sinks: watch::Receiver<usize>,
    /// Events are not written, but count as delivered.
    delivers: bool,
}

impl Intake {
    pub(crate) fn new(options: &BroadcasterOptions, sinks: watch::Receiver<usize>) -> Arc<Self> {
        Arc::new(Self {
            mux: Mux::new(options.queue),
            clock: options.clock.clone(),
            names: name_stamps(),
            cluster_scoped_namespace: options.cluster_scoped_namespace.clone(),
            text_bytes_max: options.text_bytes_max,
            invalid_reference: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            metrics: RecorderMetrics::new(),
            follow_spans: options.follow_spans,
            sinks,
            delivers: false,
        })
    }

    /// An intake whose events are never written; a waiting caller gets `Delivered` at once.
    pub(crate) fn delivering(options: &BroadcasterOptions) -> Arc<Self> {
        let (_, no_sinks) = watch::channel(0);
        let mut intake = Self::new(options, no_sinks);
        if let Some(intake) = Arc::get_mut(&mut intake) {
            intake.delivers = true;
        }
        intake
    }

    /// Events refused because their object could not be referred to.
    pub(crate) fn invalid_reference(&self) -> u64 {
        self.invalid_reference.load(Ordering::Relaxed)
    }

    /// Events refused because they came after shutdown.
    pub(crate) fn stopped(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the number of sinks that took the event, if there are any sinks.
    fn publish(&self, event: Event, event_type: EventType) -> Result<Option<usize>, RecordError> {
        if self.delivers
            && let Some(context) = Context::of(event.context())
        {
            context.delivered(&event);
        }
        let (missed_by, result) = match self.mux.publish(event) {
            Published::Accepted { missed_by, sinks } => {
                self.metrics.recorded(event_type);
                (missed_by, Ok(sinks))
            }
            Published::Full { missed_by } => (missed_by, Err(RecordError::QueueFull)),
            Published::Stopped => {
                self.stopped.fetch_add(1, Ordering::Relaxed);
                self.metrics.stopped();
                (0, Err(RecordError::Stopped(BroadcasterStopped)))
            }
        };
        if missed_by > 0 {
            self.missed(missed_by as u64);
        }
        result
    }

    /// Counts events that watchers missed because their queues were full; logs the first, then ever
    /// fewer.
    #[cold]
    fn missed(&self, watchers: u64) {
        self.metrics.queue_full(watchers);
        let before = self.missed.fetch_add(watchers, Ordering::Relaxed);
        if is_sampled(before, watchers) {
            tracing::error!(
                dropped = before + watchers,
                "Unable to record event: too many queued events, dropped event"
            );
        }
    }
}

/// Records events on behalf of an [`EventSource`]: client-go's `EventRecorder`.
///
/// A recorder is cheap to clone, and every call is synchronous: it makes the event, puts it into
/// the watchers' queues and returns. It may be made on any thread, inside or outside an async
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
/// About a quarter of a microsecond with a [`Reference`] at hand. Made from an object, the
/// reference costs two allocations more.
#[derive(Clone, Debug)]
pub struct Recorder {
    intake: Arc<Intake>,
    source: EventSource,
}

impl Recorder {
    pub(crate) fn new(intake: Arc<Intake>, source: EventSource) -> Self {
        Self { intake, source }
    }

    /// The source that this recorder reports as.
    pub fn source(&self) -> &EventSource {
        &self.source
    }

    /// Records that `reason` happened to `object`, now.
    ///
    /// `reason` is a short word in UpperCamelCase that programs may look for; `message` is for
    /// people, written once, straight into the event. client-go's `Event` and, with `format_args!`,
    /// its `Eventf`.
    ///
    /// The event goes to the namespace of the object. It is lost if the object cannot be referred
    /// to, the broadcaster is shut down, or the queues are full; each loss is counted and logged.
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

    /// Records something that happened at `at`: the event is first and last seen then.
    ///
    /// client-go had `PastEventf` until v0.17; it ignored the time it was given.
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
    /// The event is recorded by the call, whether the future is awaited or dropped. It is written
    /// at once and by itself, even where other events would wait to be written together, and it is
    /// retried like every write: while the server is down the wait takes minutes, so limit it with
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
    /// As of [`EventBuilder::send_and_wait`].
    pub fn record_and_wait<Kind>(
        &self,
        object: &impl ToReference<Kind>,
        event_type: EventType,
        reason: &str,
        message: impl fmt::Display,
    ) -> Pin<Box<dyn Future<Output = Result<Acknowledgement, RecordError>> + Send>> {
        // Boxed, so that it borrows neither the object nor the message.
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
        EventBuilder {
            recorder: self,
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
                return self.refuse(&error, object, event_type, reason, message);
            }
        };
        let part = Part {
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
        self.log(self.publish(&part));
    }

    fn publish(&self, part: &Part<'_>) -> Result<(), RecordError> {
        let context = if self.intake.follow_spans {
            Context::of_span()
        } else {
            None
        };
        match self.publish_with(part, context)? {
            // Other watchers may have received it, but it will not be written.
            Some(0) => Err(RecordError::QueueFull),
            _ => Ok(()),
        }
    }

    fn publish_with(
        &self,
        part: &Part<'_>,
        context: Option<Arc<dyn EventContext>>,
    ) -> Result<Option<usize>, RecordError> {
        let intake = &*self.intake;
        let now = intake.clock.wall();
        let event = Event::past(
            &NewEvent {
                source: &self.source,
                regarding: part.regarding,
                related: part.related,
                event_type: part.event_type,
                reason: part.reason,
                action: part.action,
                message: part.message,
                annotations: part.annotations,
                labels: part.labels,
                cluster_scoped_namespace: &intake.cluster_scoped_namespace,
                text_bytes_max: intake.text_bytes_max,
            },
            &intake.names,
            now,
            part.at.unwrap_or(now),
        );
        let event = match context {
            Some(context) => event.with_context(context),
            None => event,
        };
        intake.publish(event, part.event_type)
    }

    #[cold]
    fn refuse(
        &self,
        error: &ReferenceError,
        object: &str,
        event_type: EventType,
        reason: &str,
        message: &dyn fmt::Display,
    ) {
        self.intake
            .invalid_reference
            .fetch_add(1, Ordering::Relaxed);
        self.intake.metrics.invalid_reference();
        tracing::error!(
            %error, object, eventType = event_type.as_str(), reason, %message,
            "Could not construct reference, will not report event"
        );
    }

    fn log(&self, result: Result<(), RecordError>) {
        // A full queue is logged where it is counted.
        if let Err(error @ RecordError::Stopped(_)) = result
            && is_sampled(self.intake.stopped().saturating_sub(1), 1)
        {
            tracing::error!(
                %error, dropped = self.intake.stopped(),
                "Unable to record event (will not retry!)"
            );
        }
    }
}

/// The fields that differ between events of one recorder.
struct Part<'a> {
    regarding: &'a Reference,
    related: Option<&'a Reference>,
    event_type: EventType,
    reason: &'a str,
    action: &'a str,
    message: &'a dyn fmt::Display,
    annotations: Option<&'a Arc<BTreeMap<String, String>>>,
    labels: Option<&'a Arc<BTreeMap<String, String>>>,
    at: Option<Timestamp>,
}

/// An event that is being built, with all the fields it can have.
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
    recorder: &'a Recorder,
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
    /// The text for people.
    pub fn message(mut self, message: impl fmt::Display) -> Self {
        self.message.clear();
        // A Display that fails keeps what it wrote so far: an event with half a message beats no
        // event.
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

    /// A second object that is involved. If it cannot be referred to, this is logged and the event
    /// is sent without it.
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

    /// When it happened. Default now.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    /// Records the event. Failures are counted and logged, as with [`Recorder::event`].
    pub fn send(self) {
        let recorder = self.recorder;
        match &self.regarding {
            Err(error) => recorder.refuse(
                error,
                self.object,
                self.event_type,
                self.reason,
                &self.message,
            ),
            Ok(_) => recorder.log(self.record()),
        }
    }

    /// Records the event, or returns why it was not recorded. Failures are counted, but not logged.
    ///
    /// `Ok` means that at least one sink, if there is any, has the event in its queue;
    /// [`Broadcaster::shutdown`](crate::Broadcaster::shutdown) reports its outcome.
    ///
    /// # Errors
    /// The object cannot be referred to, the broadcaster is shut down, or the queues of all sinks
    /// are full.
    pub fn try_send(self) -> Result<(), RecordError> {
        self.count_refused();
        self.record()
    }

    /// Records the event now, and waits for its outcome. See [`Recorder::record_and_wait`].
    ///
    /// # Errors
    /// Those of [`EventBuilder::try_send`], where [`RecordError::QueueFull`] concerns the sinks
    /// only; [`RecordError::NoSink`] when no sink writes events; [`RecordError::Abandoned`] when
    /// the broadcaster ended before the event was written.
    pub fn send_and_wait(
        self,
    ) -> impl Future<Output = Result<Acknowledgement, RecordError>> + Send + use<> {
        self.count_refused();
        let sinks = self.recorder.intake.sinks.clone();
        let span = if self.recorder.intake.follow_spans {
            Span::current()
        } else {
            Span::none()
        };
        let (context, wait) = Context::awaited(span);
        let recorded = self.publish(|recorder, part| recorder.publish_with(part, Some(context)));
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
        let intake = &self.recorder.intake;
        if self.regarding.is_err() {
            intake.invalid_reference.fetch_add(1, Ordering::Relaxed);
            intake.metrics.invalid_reference();
        }
    }

    fn record(self) -> Result<(), RecordError> {
        self.publish(Recorder::publish)
    }

    fn publish<T>(
        self,
        publish: impl FnOnce(&Recorder, &Part<'_>) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let map = |map: BTreeMap<String, String>| (!map.is_empty()).then(|| Arc::new(map));
        let (annotations, labels) = (map(self.annotations), map(self.labels));
        let part = Part {
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
        publish(self.recorder, &part)
    }
}

#[cfg(test)]
mod tests;
