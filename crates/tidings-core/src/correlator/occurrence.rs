//! Occurrences: events after correlation, as they are written to the API server.
//!
//! Invariant: an occurrence never changes. Its wire forms are made on request, from the shared
//! events to which it points.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::LAST_NOTE_ANNOTATION;
use crate::context::absorb;
use crate::event_limits::cut;
use crate::key::CountKey;
use crate::validate::MESSAGE_BYTES_MAX;
use crate::{Event, EventApi, EventContext, recorded};

/// The result of correlation.
#[derive(Clone, Debug)]
pub enum Correlated {
    /// The event's budget is used up, and no event of its kind was written: it is not written.
    Filtered,
    /// The event's budget is used up. It was counted, and a later write adds the count to the
    /// stored event of its kind, and settles the event.
    HeldBack {
        /// The first event of its kind.
        first: Event,
        /// How often the event was seen, including this time.
        count: i32,
    },
    /// The event is to be written.
    Write(Occurrence),
}

/// How an [`Occurrence`] is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OccurrenceKind {
    /// A new event: `POST`, [`Occurrence::create_body`].
    Create,
    /// A repeat of an event that was written before: `PATCH`, [`Occurrence::patch_body`].
    Patch,
}

/// The result of correlation: client-go's `EventCorrelateResult`. Cloning it copies pointers.
#[derive(Clone)]
pub struct Occurrence {
    pub(super) key: CountKey,
    /// The recorded event, or the aggregate into which it was combined.
    pub(super) event: Event,
    /// The first event of its kind; the stored event has its name.
    pub(super) first: Event,
    pub(super) first_timestamp: Option<Timestamp>,
    pub(super) last_timestamp: Option<Timestamp>,
    pub(super) count: i32,
    pub(super) kind: OccurrenceKind,
    pub(super) aggregate: bool,
    pub(super) patch: PatchForm,
    /// For a series: the time of its last event.
    pub(super) series: Option<Timestamp>,
    /// The number of events that this write settles.
    pub(super) events: u64,
    /// Of these events, those that the spam filter held back.
    pub(super) held_back: u64,
    /// The context of the event that caused the write.
    pub(super) context: Option<Arc<dyn EventContext>>,
}

/// Which fields an occurrence's patch contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// None: there is no earlier event to patch.
    Nothing,
    /// The fields of client-go's patch.
    ClientGo,
    /// Count, last timestamp and message.
    Count,
    /// Count, last timestamp, message, annotations and labels; the latter may differ from the
    /// stored ones.
    CountAndMetadata,
    /// Only the series of events.k8s.io/v1.
    Series,
    /// Only the series, in the form that client-go sends.
    ClientGoSeries,
}

type Metadata<'a> = Option<&'a BTreeMap<String, String>>;

impl Occurrence {
    /// The key of the stored event that this write concerns.
    pub fn key(&self) -> &CountKey {
        &self.key
    }

    /// Whether the write is a create or a patch.
    pub fn kind(&self) -> OccurrenceKind {
        self.kind
    }

    /// The same occurrence as a create, for a stored event that has expired, was deleted, or was
    /// never created.
    #[must_use]
    pub fn as_create(&self) -> Self {
        Self {
            kind: OccurrenceKind::Create,
            ..self.clone()
        }
    }

    /// The recorded event, or the aggregate into which it was combined.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The stored event's name, which is the name of the first event of its kind.
    pub fn name(&self) -> Cow<'_, str> {
        self.first.name()
    }

    /// The stored event's namespace.
    pub fn namespace(&self) -> &str {
        self.event.namespace()
    }

    /// How often the event was seen, including this time. Stops at `i32::MAX`; with
    /// [`CorrelatorOptions::client_go`](super::CorrelatorOptions::client_go) it continues at
    /// `i32::MIN`, as client-go's does.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Takes over the events of `earlier`. If this write is lost, they are lost, too.
    pub(crate) fn absorb(&mut self, earlier: &mut Self) {
        self.events += std::mem::take(&mut earlier.events);
        self.held_back += std::mem::take(&mut earlier.held_back);
        absorb(&mut self.context, earlier.context.as_ref());
    }

    /// When the event was first seen.
    pub fn first_timestamp(&self) -> Option<Timestamp> {
        self.first_timestamp
    }

    /// When the event was last seen. A past event that is recorded later does not set this time
    /// back, except with [`CorrelatorOptions::client_go`](super::CorrelatorOptions::client_go).
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.last_timestamp
    }

    /// The API group through which the event is written.
    pub fn api(&self) -> EventApi {
        match self.series {
            Some(_) => EventApi::Events,
            None => EventApi::Core,
        }
    }

    /// The number of recorded events that this write settles: its own event, events that were
    /// counted before and that no earlier write settled, and the events of writes that it replaces.
    /// 0 for a write that was replaced.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Of [`Occurrence::events`], those that the spam filter held back
    /// ([`Correlated::HeldBack`]). This write brings their count.
    pub fn held_back(&self) -> u64 {
        self.held_back
    }

    /// The message. An aggregate's message begins with a prefix that says so.
    pub fn message(&self) -> &str {
        self.event.message()
    }

    /// Whether the event is an aggregate of several events that differ in message.
    pub fn is_aggregate(&self) -> bool {
        self.aggregate
    }

    /// The context of the last event that this write settles.
    pub fn context(&self) -> Option<&Arc<dyn EventContext>> {
        self.context.as_ref()
    }

    /// Whether a caller waits for the write's outcome.
    pub(crate) fn is_awaited(&self) -> bool {
        self.context
            .as_ref()
            .is_some_and(|context| context.is_awaited())
    }

    /// Whether an earlier process may have created the event.
    pub(crate) fn may_be_written(&self) -> bool {
        self.context
            .as_ref()
            .is_some_and(|context| context.may_be_written())
    }

    /// Whether the event is a repeat of an earlier one.
    pub(crate) fn is_repeat(&self) -> bool {
        match self.patch {
            PatchForm::Nothing => false,
            PatchForm::Series | PatchForm::ClientGoSeries => self.count > 1,
            PatchForm::ClientGo | PatchForm::Count | PatchForm::CountAndMetadata => true,
        }
    }

    /// Whether both occurrences are states of one stored event, and not of an event and its
    /// successor.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.first.is_same(&other.first)
    }

    /// Whether this write has every annotation and label that `earlier` has, with any values.
    pub(crate) fn has_metadata_of(&self, earlier: &Self) -> bool {
        let brings = |own: Metadata<'_>, other: Metadata<'_>| {
            other.is_none_or(|other| {
                other
                    .keys()
                    .all(|key| own.is_some_and(|own| own.contains_key(key)))
            })
        };
        // client-go's patch has no metadata of a repeat, and a series has no metadata.
        matches!(
            self.patch,
            PatchForm::ClientGo | PatchForm::Series | PatchForm::ClientGoSeries
        ) || (brings(self.event.annotations(), earlier.event.annotations())
            && brings(self.event.labels(), earlier.event.labels()))
    }

    /// Approximate bytes of memory, for bounds of queues: the occurrence, its event, the first
    /// event of its kind, and its key.
    pub fn size(&self) -> usize {
        let first = if self.first.is_same(&self.event) {
            0
        } else {
            self.key.0.size_beside(&self.first)
        };
        let Self { key, event, .. } = self;
        size_of::<Self>() + key.0.size() + key.0.size_beside(event) + first
    }

    /// Makes the complete event, without a resourceVersion, ready to be created.
    ///
    /// An event of a series has the fields of events.k8s.io/v1, without deprecated ones.
    pub fn to_wire(&self) -> v1::Event {
        if let Some(last) = self.series {
            return self.to_series_wire(last);
        }
        let mut wire = self.event.to_wire();
        wire.metadata.name = Some(self.name().into_owned());
        wire.metadata.resource_version = None;
        wire.first_timestamp = self.first_timestamp.map(Time);
        wire.last_timestamp = self.last_timestamp.map(Time);
        wire.count = (self.count != 0).then_some(self.count);
        // A repeat without metadata is still created with the first event's metadata.
        if matches!(self.patch, PatchForm::Count | PatchForm::CountAndMetadata) {
            let or_first = |own: &mut Option<BTreeMap<_, _>>, first: Metadata<'_>| {
                if own.as_ref().is_none_or(BTreeMap::is_empty) {
                    *own = first.cloned();
                }
            };
            or_first(&mut wire.metadata.annotations, self.first.annotations());
            or_first(&mut wire.metadata.labels, self.first.labels());
        }
        wire
    }

    fn to_series_wire(&self, last: Timestamp) -> v1::Event {
        let mut wire = self.first.strict(last).to_wire();
        wire.metadata.resource_version = None;
        wire.source = None;
        (wire.first_timestamp, wire.last_timestamp, wire.count) = (None, None, None);
        if let Some(note) = self.last_note() {
            let annotations = wire.metadata.annotations.get_or_insert_default();
            annotations.insert(LAST_NOTE_ANNOTATION.to_owned(), note.into_owned());
        }
        wire.series = (self.count > 1).then_some(v1::EventSeries {
            count: Some(self.count),
            last_observed_time: Some(MicroTime(last)),
        });
        wire
    }

    /// The last note of a series, if it is to be shown, cut to the maximum length of a note.
    pub(crate) fn last_note(&self) -> Option<Cow<'_, str>> {
        let shown = self.series.is_some() && !self.event.is_same(&self.first);
        shown.then(|| cut(self.event.message(), MESSAGE_BYTES_MAX))
    }

    /// The body of the create request: JSON as client-go sends it, in the version of
    /// [`Occurrence::api`].
    pub fn create_body(&self) -> Vec<u8> {
        recorded::json(self.api(), self.to_wire())
    }

    /// The body of the create request as Kubernetes protobuf, in its envelope: about half the bytes
    /// of JSON.
    pub fn create_body_protobuf(&self) -> Vec<u8> {
        recorded::protobuf(self.api(), self.to_wire())
    }

    /// Which fields the patch contains.
    pub(crate) fn patch_form(&self) -> PatchForm {
        self.patch
    }

    /// The annotations and labels, if they may differ from the stored ones and are not empty.
    pub(crate) fn changed_metadata(&self) -> Option<(Metadata<'_>, Metadata<'_>)> {
        let own = |map: Metadata<'_>| map.is_some_and(|map| !map.is_empty());
        let (annotations, labels) = (self.event.annotations(), self.event.labels());
        (self.patch == PatchForm::CountAndMetadata && (own(annotations) || own(labels)))
            .then_some((annotations, labels))
    }
}

impl std::fmt::Debug for Occurrence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Occurrence")
            .field("kind", &self.kind)
            .field("name", &self.name())
            .field("count", &self.count)
            .field("aggregate", &self.aggregate)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}
