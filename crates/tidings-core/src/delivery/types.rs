//! Inputs and outputs of a delivery.

use std::hash::{Hash, Hasher};

use crate::{CountKey, DropCounts, Fate, Occurrence, OccurrenceKind, WriteError};

/// An item of a [`Delivery`](crate::Delivery): [`Occurrence`], or another type in its place.
pub trait Deliverable: Clone {
    /// Events with the same key are written one after the other.
    type Key: Clone + Eq + Hash;

    /// The key of this event.
    fn key(&self) -> Self::Key;

    /// Whether both are states of the same object at the server, so that the later one contains all
    /// information of the earlier.
    fn same_object(&self, other: &Self) -> bool;

    /// Whether this, a later state of the same object, writes everything that `earlier` would have
    /// written.
    fn covers(&self, earlier: &Self) -> bool {
        self.same_object(earlier)
    }

    /// Takes over the events of `earlier`, which this one replaces.
    fn absorb(&mut self, _earlier: &mut Self) {}

    /// Create or patch, as decided by correlation.
    fn kind(&self) -> OccurrenceKind;

    /// Whether an earlier state of its object was handed out, written or not.
    fn is_repeat(&self) -> bool;

    /// Whether an earlier process, unknown to this delivery, may have created the object for this
    /// very event.
    fn may_be_written(&self) -> bool {
        false
    }

    /// Hashes the object that the event is about. A limit on one object's events is distinguished
    /// from a shared limit by this hash. By default hashes the key.
    fn hash_regarding(&self, state: &mut impl Hasher) {
        self.key().hash(state);
    }

    /// Hashes the namespace of the event. A limit on one namespace is distinguished from a limit on
    /// everything by this hash. By default hashes nothing: all events are of one namespace.
    fn hash_namespace(&self, _state: &mut impl Hasher) {}

    /// The event's size in bytes.
    fn size(&self) -> usize;
}

impl Deliverable for Occurrence {
    type Key = CountKey;

    fn key(&self) -> CountKey {
        self.key().clone()
    }

    fn same_object(&self, other: &Self) -> bool {
        self.is_same_object(other)
    }

    fn covers(&self, earlier: &Self) -> bool {
        self.is_same_object(earlier) && self.has_metadata_of(earlier) && !earlier.is_awaited()
    }

    fn absorb(&mut self, earlier: &mut Self) {
        self.absorb(earlier);
    }

    fn kind(&self) -> OccurrenceKind {
        self.kind()
    }

    fn is_repeat(&self) -> bool {
        self.is_repeat()
    }

    fn may_be_written(&self) -> bool {
        self.may_be_written()
    }

    fn hash_regarding(&self, state: &mut impl Hasher) {
        let regarding = self.event().regarding();
        let (kind, uid) = (regarding.kind(), regarding.uid());
        (kind, regarding.namespace(), regarding.name(), uid).hash(state);
    }

    fn hash_namespace(&self, state: &mut impl Hasher) {
        self.namespace().hash(state);
    }

    fn size(&self) -> usize {
        self.size()
    }
}

/// The identifier of a write in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteId {
    pub(super) lane: usize,
    pub(super) number: u64,
}

/// A write to do now.
#[derive(Clone, Debug)]
pub struct Write<T> {
    /// The argument of [`Delivery::handle_written`](crate::Delivery::handle_written).
    pub id: WriteId,
    /// Create or patch; may differ from the correlator's decision.
    pub kind: OccurrenceKind,
    /// The event to write.
    pub occurrence: T,
}

/// An event whose outcome is known.
#[derive(Clone, Debug)]
pub struct Settled<T> {
    /// The settled event.
    pub occurrence: T,
    /// The event's outcome.
    pub fate: Fate,
    /// The failure after which the event was given up, if any.
    pub error: Option<WriteError>,
}

/// What a delivery did with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handled {
    /// The event is settled.
    Settled,
    /// The event is retried later.
    Retried,
    /// The event is sent again at once, as the other kind.
    Turned,
    /// No such write is in flight: it was answered before, or the delivery was abandoned.
    Unknown,
}

/// Statistics of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStats {
    /// Events offered.
    pub offered: u64,
    /// Delivered events.
    pub delivered: u64,
    /// Events that a later event replaced.
    pub aggregated: u64,
    /// Events given up, by cause.
    pub dropped: DropCounts,
    /// Events that wait or are in flight, and those that were abandoned.
    pub pending: u64,
    /// Writes handed out.
    pub writes: u64,
    /// Failures after which an event is retried.
    pub retries: u64,
    /// How often writing paused because the server was out of reach.
    pub pauses: u64,
}
