//! An event between recorder and sink: small, shared and immutable.
//!
//! It is converted to the wire type on request.
//!
//! Invariant: an event never changes after it was made. The results of correlation (a count, the
//! name of the first occurrence, a combined message) are kept beside it, in
//! [`Occurrence`](crate::Occurrence).

mod wire_size;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};

use crate::context::{EventContext, SharedContext};
use crate::event_limits::{TRUNCATION_MARKER, accepted_metadata, non_empty, strict_source};
use crate::packed::{Packed, Packer};
use crate::validate::{self, check_dns1123_label};
use crate::wire::Moment;
use crate::{EventName, EventSource, NameStamps, Reference};

/// Default maximum length of a message, in bytes; see [`NewEvent::text_bytes_max`]. The API server
/// sets no limit of its own to core/v1 events without an `eventTime`. But it refuses requests
/// beyond 3 MiB, and a character may take six bytes in JSON.
pub const TEXT_BYTES_MAX: usize = 256 << 10;

/// Maximum length of reason and action, in bytes: these are words for programs.
const WORD_BYTES_MAX: usize = 1024;

/// Number of leading packed texts up to the type.
pub(crate) const TYPE_TEXTS: usize = 1;
/// Number of leading packed texts up to the reason.
pub(crate) const REASON_TEXTS: usize = 2;
/// Number of leading packed texts up to the message.
pub(crate) const MESSAGE_TEXTS: usize = 3;

/// The type of an event. Kubernetes knows only these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// Information only.
    Normal,
    /// Something may be wrong.
    Warning,
}

impl EventType {
    /// The type as Kubernetes spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A string that is no event type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported event type {0:?}: it is either \"Normal\" or \"Warning\"")]
pub struct UnsupportedEventType(pub String);

impl std::str::FromStr for EventType {
    type Err = UnsupportedEventType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "Normal" => Ok(Self::Normal),
            "Warning" => Ok(Self::Warning),
            other => Err(UnsupportedEventType(other.to_owned())),
        }
    }
}

/// The namespace of events about cluster-scoped objects, such as nodes and namespaces. An event
/// always has a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterScopedNamespace {
    /// `default`, as client-go does.
    #[default]
    Default,
    /// `kube-system`, which the API server accepts only of events with an `eventTime`.
    ///
    /// Stricter rules hold for such events, so the event gets an `eventTime` and whatever else they
    /// require: a message of at most 1,024 bytes; a reason and an action of at most 128 bytes (the
    /// action defaults to the reason); a reporting controller that is a qualified name; and a
    /// reporting instance (by default the host or the component).
    KubeSystem,
    /// A namespace of your choice; see [`ClusterScopedNamespace::fixed`].
    Fixed(FixedNamespace),
}

/// A valid namespace, for [`ClusterScopedNamespace::Fixed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedNamespace(Arc<str>);

/// The error for a name that no namespace can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no namespace can be called {0:?}: at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit"
)]
pub struct InvalidNamespace(pub String);

impl ClusterScopedNamespace {
    /// Puts events about cluster-scoped objects into `namespace`.
    ///
    /// The API server accepts this only if the event's `involvedObject` names that namespace too,
    /// so it does. `kubectl describe` of the object will not find these events, because it looks
    /// for events about an object without a namespace. `default` and `kube-system` give the
    /// variants for them.
    ///
    /// # Errors
    ///
    /// [`InvalidNamespace`] if no namespace can have that name.
    pub fn fixed(namespace: &str) -> Result<Self, InvalidNamespace> {
        if !check_dns1123_label(namespace).is_empty() {
            return Err(InvalidNamespace(namespace.to_owned()));
        }
        Ok(match namespace {
            "default" => Self::Default,
            "kube-system" => Self::KubeSystem,
            other => Self::Fixed(FixedNamespace(other.into())),
        })
    }
}

/// The fields of a new event.
#[derive(Clone, Copy)]
pub struct NewEvent<'a> {
    /// The reporting component and host.
    pub source: &'a EventSource,
    /// The object that the event is about.
    pub regarding: &'a Reference,
    /// A second object that takes part.
    pub related: Option<&'a Reference>,
    /// The type of the event.
    pub event_type: EventType,
    /// The reason: a short word in CamelCase that programs may look for.
    pub reason: &'a str,
    /// The action that was taken or failed; may be empty.
    pub action: &'a str,
    /// The text for people. It is formatted once, directly into the event.
    pub message: &'a dyn fmt::Display,
    /// Annotations of the event object.
    pub annotations: Option<&'a Arc<BTreeMap<String, String>>>,
    /// Labels of the event object.
    pub labels: Option<&'a Arc<BTreeMap<String, String>>>,
    /// The event's namespace, if `regarding` has none.
    pub cluster_scoped_namespace: &'a ClusterScopedNamespace,
    /// Maximum bytes of a text. A longer text is cut on a character boundary and ends in
    /// [`TRUNCATION_MARKER`]. Reason and action are cut at 1,024 bytes in any case.
    pub text_bytes_max: usize,
}

/// An event as it was recorded. Cloning it copies a pointer.
#[derive(Clone)]
pub struct Event(Arc<Fields>);

#[derive(Clone)]
struct Fields {
    name: EventName,
    source: EventSource,
    regarding: Reference,
    /// In this order: type, reason, message, action.
    text: Packed<4>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    count: i32,
    size: usize,
    /// Rare fields. Most events have none of them, and so are much smaller.
    extras: Option<Box<Extras>>,
}

/// Rare fields of an event.
#[derive(Clone, Default)]
struct Extras {
    /// The event's namespace; `None` means the namespace of `regarding`.
    namespace: Option<Box<str>>,
    related: Option<Reference>,
    annotations: Option<Arc<BTreeMap<String, String>>>,
    labels: Option<Arc<BTreeMap<String, String>>>,
    /// The `eventTime`, only for events under the API server's strict rules.
    event_time: Option<Timestamp>,
    /// The wire event that this event was made from. It may have further fields.
    wire: Option<Box<v1::Event>>,
    /// The caller's context.
    context: Option<SharedContext>,
}

impl Extras {
    /// Boxes the fields, unless all are unset.
    fn boxed(self) -> Option<Box<Self>> {
        let is_empty = self.namespace.is_none()
            && self.related.is_none()
            && self.annotations.is_none()
            && self.labels.is_none()
            && self.event_time.is_none()
            && self.wire.is_none()
            && self.context.is_none();
        (!is_empty).then(|| Box::new(self))
    }

    fn heap_size(&self) -> usize {
        let map_size = |map: &Option<Arc<BTreeMap<String, String>>>| {
            map.as_ref().map_or(0, |map| wire_size::map_size(map))
        };
        let whole = |wire: &v1::Event| size_of::<v1::Event>() + wire_size::heap_size(wire);
        size_of::<Self>()
            + self
                .namespace
                .as_ref()
                .map_or(0, |namespace| namespace.len())
            + self.related.as_ref().map_or(0, Reference::heap_size)
            + map_size(&self.annotations)
            + map_size(&self.labels)
            + self.wire.as_deref().map_or(0, whole)
    }
}

impl Event {
    /// Makes an event that happened at `at`, with count 1 and a name from `names`.
    ///
    /// It is like client-go's `recorderImpl.makeEvent`, but the API server always accepts the
    /// result: long texts are cut, and invalid labels and annotations are omitted and listed in
    /// [`OMITTED_ANNOTATION`](crate::OMITTED_ANNOTATION).
    pub fn new(new: &NewEvent<'_>, names: &NameStamps, at: Timestamp) -> Self {
        Self::past(new, names, at, at)
    }

    /// Makes an event, at the time `now`, about something that happened at `at`. The name is made
    /// from `now`: several programs may record the same past moment, such as an object's creation,
    /// and record it again after a restart.
    pub fn past(new: &NewEvent<'_>, names: &NameStamps, now: Timestamp, at: Timestamp) -> Self {
        // The start of the year 1 is Go's unset time, which the API server refuses.
        let is_set = !Moment::from(at).truncated_to_micros().is_zero();
        let at = is_set.then_some(at);
        let mut regarding = Cow::Borrowed(new.regarding);
        let mut namespace = None;
        let mut strict = false;
        if regarding.namespace().is_empty() {
            match new.cluster_scoped_namespace {
                ClusterScopedNamespace::Default => namespace = Some("default".into()),
                ClusterScopedNamespace::KubeSystem => {
                    namespace = Some("kube-system".into());
                    strict = true;
                }
                ClusterScopedNamespace::Fixed(FixedNamespace(namespace)) => {
                    regarding = Cow::Owned(regarding.with_namespace(namespace));
                }
            }
        }
        let (word_max, message_max) = if strict {
            (validate::WORD_BYTES_MAX, validate::MESSAGE_BYTES_MAX)
        } else {
            (WORD_BYTES_MAX, usize::MAX)
        };
        let word_max = word_max.min(new.text_bytes_max);
        let message_max = message_max.min(new.text_bytes_max);
        let (mut reason, mut action) = (new.reason, new.action);
        if strict {
            reason = non_empty(reason);
            action = if action.is_empty() { reason } else { action };
        }
        let event_type = new.event_type.as_str();
        let mut text = Packer::with_capacity(event_type.len() + reason.len() + action.len() + 64);
        text.push(event_type);
        text.push_cut(reason, word_max, TRUNCATION_MARKER);
        text.push_display(new.message, message_max, TRUNCATION_MARKER);
        text.push_cut(action, word_max, TRUNCATION_MARKER);
        let (labels, annotations) = if new.labels.is_none() && new.annotations.is_none() {
            (None, None)
        } else {
            accepted_metadata(new.labels, new.annotations)
        };
        let extras = Extras {
            namespace,
            related: new.related.cloned(),
            annotations,
            labels,
            event_time: strict.then_some(at.unwrap_or(now)),
            wire: None,
            context: None,
        };
        Self::from_fields(Fields {
            name: names.name(&regarding, now),
            source: if strict {
                strict_source(new.source)
            } else {
                new.source.clone()
            },
            text: text.finish(),
            first_timestamp: at,
            last_timestamp: at,
            count: 1,
            size: 0,
            extras: extras.boxed(),
            regarding: regarding.into_owned(),
        })
    }

    /// Makes an event of a wire event, which is kept whole: [`Event::to_wire`] returns all of it.
    pub fn from_wire(event: v1::Event) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let extras = Extras {
            namespace: Some(text(&event.metadata.namespace).into()),
            related: event.related.as_ref().map(Reference::from),
            annotations: event.metadata.annotations.clone().map(Arc::new),
            labels: event.metadata.labels.clone().map(Arc::new),
            event_time: event.event_time.as_ref().map(|time| time.0),
            wire: None,
            context: None,
        };
        Self::from_fields(Fields {
            name: EventName::Given(text(&event.metadata.name).into()),
            source: EventSource::from_event(&event),
            regarding: Reference::from(&event.involved_object),
            text: Packed::new([
                &text(&event.type_),
                &text(&event.reason),
                &text(&event.message),
                &text(&event.action),
            ]),
            first_timestamp: event.first_timestamp.as_ref().map(|time| time.0),
            last_timestamp: event.last_timestamp.as_ref().map(|time| time.0),
            count: event.count.unwrap_or(0),
            size: 0,
            extras: Some(Box::new(Extras {
                wire: Some(Box::new(event)),
                ..extras
            })),
        })
    }

    /// Makes the event that stands for several events like `self`.
    ///
    /// It has the same object, type, reason and source, another message, and was seen once, at
    /// `at`. client-go's aggregate event has no other fields. With `keep_metadata` it also keeps
    /// annotations, labels, action, related object and reporter of `self`.
    pub(crate) fn combined(
        &self,
        name: EventName,
        message: &str,
        at: Timestamp,
        keep_metadata: bool,
    ) -> Self {
        let this = &*self.0;
        let event_time = self.event_time().filter(|_| keep_metadata).map(|_| at);
        let message_max = if event_time.is_some() {
            validate::MESSAGE_BYTES_MAX
        } else {
            usize::MAX
        };
        let mut text = Packer::with_capacity(
            self.event_type().len() + self.reason().len() + message.len() + self.action().len(),
        );
        text.push(self.event_type());
        text.push(self.reason());
        text.push_cut(message, message_max, TRUNCATION_MARKER);
        text.push(if keep_metadata { self.action() } else { "" });
        let extras = self.extras().map(|extras| {
            if keep_metadata {
                Extras {
                    event_time,
                    wire: None,
                    ..extras.clone()
                }
            } else {
                Extras {
                    namespace: extras.namespace.clone(),
                    ..Extras::default()
                }
            }
        });
        Self::from_fields(Fields {
            name,
            source: if keep_metadata {
                this.source.clone()
            } else {
                this.source.reporting("", "")
            },
            regarding: this.regarding.clone(),
            text: text.finish(),
            first_timestamp: Some(at),
            last_timestamp: Some(at),
            count: 1,
            size: 0,
            extras: extras.and_then(Extras::boxed),
        })
    }

    /// Makes the same event valid under the API server's strict rules for events with an
    /// `eventTime`. `at` is the `eventTime` if the event has no time.
    pub(crate) fn strict(&self, at: Timestamp) -> Self {
        let this = &*self.0;
        let reason = non_empty(self.reason());
        let action = if self.action().is_empty() {
            reason
        } else {
            self.action()
        };
        let mut text = Packer::with_capacity(
            self.event_type().len() + reason.len() + self.message().len() + action.len(),
        );
        text.push(self.event_type());
        text.push_cut(reason, validate::WORD_BYTES_MAX, TRUNCATION_MARKER);
        text.push_cut(
            self.message(),
            validate::MESSAGE_BYTES_MAX,
            TRUNCATION_MARKER,
        );
        text.push_cut(action, validate::WORD_BYTES_MAX, TRUNCATION_MARKER);
        let event_time = self.event_time().or(this.first_timestamp).unwrap_or(at);
        Self::from_fields(Fields {
            name: this.name.clone(),
            source: strict_source(&this.source),
            regarding: this.regarding.clone(),
            text: text.finish(),
            first_timestamp: this.first_timestamp,
            last_timestamp: this.last_timestamp,
            count: this.count,
            size: 0,
            extras: Some(Box::new(Extras {
                event_time: Some(event_time),
                wire: None,
                ..self.extras().cloned().unwrap_or_default()
            })),
        })
    }

    fn from_fields(mut fields: Fields) -> Self {
        let is_wire = fields
            .extras
            .as_ref()
            .is_some_and(|extras| extras.wire.is_some());
        // The source of other events is shared with their recorder, so it does not count.
        let source = if is_wire {
            fields.source.heap_size()
        } else {
            0
        };
        fields.size = size_of::<Fields>()
            + fields.name.heap_size()
            + source
            + fields.regarding.heap_size()
            + fields.text.heap_size()
            + fields
                .extras
                .as_ref()
                .map_or(0, |extras| extras.heap_size());
        Self(Arc::new(fields))
    }

    /// The same event with `context` attached.
    #[must_use]
    pub fn with_context(self, context: Arc<dyn EventContext>) -> Self {
        self.having_context(Some(SharedContext(context)))
    }

    /// The caller's context.
    pub fn context(&self) -> Option<&Arc<dyn EventContext>> {
        let context = self.extras()?.context.as_ref()?;
        Some(&context.0)
    }

    /// The event for watchers that do not write it; see [`EventContext::unawaited`].
    #[must_use]
    pub fn unawaited(self) -> Self {
        match self.context() {
            Some(context) if context.is_awaited() => {
                let context = context.unawaited().map(SharedContext);
                self.having_context(context)
            }
            _ => self,
        }
    }

    /// Splits the event into the event without context, and the context.
    pub(crate) fn split_context(&self) -> (Cow<'_, Self>, Option<Arc<dyn EventContext>>) {
        match self.context() {
            None => (Cow::Borrowed(self), None),
            Some(context) => {
                let context = Arc::clone(context);
                (Cow::Owned(self.clone().having_context(None)), Some(context))
            }
        }
    }

    fn having_context(self, context: Option<SharedContext>) -> Self {
        // The fields are nearly always not shared yet, so this rarely copies.
        let mut fields = Arc::unwrap_or_clone(self.0);
        let extras = Extras {
            context,
            ..fields.extras.map(|extras| *extras).unwrap_or_default()
        };
        fields.extras = extras.boxed();
        Self::from_fields(fields)
    }

    fn wire(&self) -> Option<&v1::Event> {
        self.extras()?.wire.as_deref()
    }

    fn extras(&self) -> Option<&Extras> {
        self.0.extras.as_deref()
    }

    /// The event's name.
    pub fn name(&self) -> Cow<'_, str> {
        self.0.name.text(&self.0.regarding)
    }

    /// The event's name in its parts.
    pub fn event_name(&self) -> &EventName {
        &self.0.name
    }

    /// The namespace of the event. It is that of the object, or the one chosen for cluster-scoped
    /// objects.
    pub fn namespace(&self) -> &str {
        self.extras()
            .and_then(|extras| extras.namespace.as_deref())
            .unwrap_or_else(|| self.0.regarding.namespace())
    }

    /// The reporting component and host.
    pub fn source(&self) -> &EventSource {
        &self.0.source
    }

    /// The object that the event is about: `involvedObject` of core/v1, `regarding` of
    /// events.k8s.io/v1.
    pub fn regarding(&self) -> &Reference {
        &self.0.regarding
    }

    /// The second object that takes part.
    pub fn related(&self) -> Option<&Reference> {
        self.extras()?.related.as_ref()
    }

    /// The type: `Normal` or `Warning`, or any text of the wire event it was made from.
    pub fn event_type(&self) -> &str {
        self.0.text.get(0)
    }

    /// The reason: a short word for programs.
    pub fn reason(&self) -> &str {
        self.0.text.get(1)
    }

    /// The text for people: `message` of core/v1, `note` of events.k8s.io/v1.
    pub fn message(&self) -> &str {
        self.0.text.get(2)
    }

    /// The action that was taken or failed; may be empty.
    pub fn action(&self) -> &str {
        self.0.text.get(3)
    }

    /// Annotations of the event object.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.extras()?.annotations.as_deref()
    }

    /// Labels of the event object.
    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.extras()?.labels.as_deref()
    }

    /// The time when the event was first seen.
    pub fn first_timestamp(&self) -> Option<Timestamp> {
        self.0.first_timestamp
    }

    /// The time when the event was last seen.
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.0.last_timestamp
    }

    /// The `eventTime`, if the event is under the API server's strict rules.
    pub fn event_time(&self) -> Option<Timestamp> {
        self.extras()?.event_time
    }

    /// The number of times the event was seen.
    pub fn count(&self) -> i32 {
        self.0.count
    }

    /// About how many bytes of memory the event takes, for bounds on queues and caches. A shared
    /// reference counts in full.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Converts the event to the wire type. Fields that client-go's recorder always writes are
    /// present, if empty.
    pub fn to_wire(&self) -> v1::Event {
        let this = &*self.0;
        if let Some(wire) = self.wire() {
            return wire.clone();
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        v1::Event {
            metadata: ObjectMeta {
                name: Some(self.name().into_owned()),
                namespace: some(self.namespace()),
                annotations: self.annotations().cloned(),
                labels: self.labels().cloned(),
                ..ObjectMeta::default()
            },
            involved_object: this.regarding.to_object_reference(),
            related: self.related().map(Reference::to_object_reference),
            type_: some(self.event_type()),
            reason: some(self.reason()),
            message: some(self.message()),
            action: some(self.action()),
            source: Some(v1::EventSource {
                component: some(this.source.source_component()),
                host: some(this.source.source_host()),
            }),
            reporting_component: Some(this.source.reporting_controller().to_owned()),
            reporting_instance: Some(this.source.reporting_instance().to_owned()),
            first_timestamp: this.first_timestamp.map(Time),
            last_timestamp: this.last_timestamp.map(Time),
            count: (this.count != 0).then_some(this.count),
            event_time: self.event_time().map(MicroTime),
            series: None,
        }
    }

    /// Whether both are clones of the same event.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The finalizers of the wire event that this event was made from.
    pub(crate) fn finalizers(&self) -> &[String] {
        let wire = self.wire();
        wire.and_then(|wire| wire.metadata.finalizers.as_deref())
            .unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &Packed<4> {
        &self.0.text
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("name", &self.name())
            .field("namespace", &self.namespace())
            .field("regarding", &self.0.regarding)
            .field("type", &self.event_type())
            .field("reason", &self.reason())
            .field("message", &self.message())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
