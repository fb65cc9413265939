//! A row of a file: one version of an event, as it was observed.
//!
//! Invariant: every column follows from the cluster, the version's numbers and the event's exact
//! bytes. So a merge or a check makes a row again from these.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use tidings_api::codec;
use tidings_history::Version;
use tidings_store::{HOUR_MILLIS, UnixMillis};
use xxhash_rust::xxh3::Xxh3;

use crate::file::bounds::EVENT_BYTES_MAX;

/// Says that bytes are not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of an event cannot be read: {why}")]
pub struct Unreadable {
    why: String,
}

/// One row; see the module documentation. Fields are named as columns; times are in microseconds
/// since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cluster: Arc<str>,
    pub(crate) namespace: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) observed: i64,
    pub(crate) uid: String,
    pub(crate) event: String,
    pub(crate) epoch: u64,
    pub(crate) version: u64,
    pub(crate) object_uid: String,
    pub(crate) reason: String,
    pub(crate) kind_of_event: String,
    pub(crate) source: String,
    pub(crate) host: String,
    pub(crate) reporting_controller: String,
    pub(crate) action: String,
    pub(crate) message: String,
    pub(crate) count: Option<i32>,
    pub(crate) first_seen: Option<i64>,
    pub(crate) last_seen: Option<i64>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) object: Bytes,
}

impl Row {
    /// Makes the row of a version from its epoch, number and bytes, in which the uid is.
    pub(crate) fn new(
        cluster: &Arc<str>,
        epoch: u64,
        number: u64,
        observed_at: UnixMillis,
        object: Bytes,
    ) -> Result<Self, Unreadable> {
        let event = if object.len() > EVENT_BYTES_MAX {
            Err(format!("it has more than {EVENT_BYTES_MAX} bytes"))
        } else {
            codec::decode_stored(&object, 0)
        };
        let event = event.map_err(|why| Unreadable { why })?;
        let first_seen = first_seen(&event);
        let last_seen = codec::last_seen(&event).map(Timestamp::as_microsecond);
        let count = event.count.filter(|count| *count != 0);
        let count = count.or_else(|| event.series.as_ref().and_then(|series| series.count));
        let metadata = event.metadata.unwrap_or_default();
        let about = event.involved_object.unwrap_or_default();
        let source = event.source.unwrap_or_default();
        Ok(Self {
            cluster: Arc::clone(cluster),
            namespace: metadata.namespace.unwrap_or_default(),
            kind: about.kind.unwrap_or_default(),
            name: about.name.unwrap_or_default(),
            observed: observed_at.0.saturating_mul(1000),
            uid: metadata.uid.unwrap_or_default(),
            event: metadata.name.unwrap_or_default(),
            epoch,
            version: number,
            object_uid: about.uid.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            kind_of_event: event.r#type.unwrap_or_default(),
            source: source.component.unwrap_or_default(),
            host: source.host.unwrap_or_default(),
            reporting_controller: event.reporting_component.unwrap_or_default(),
            action: event.action.unwrap_or_default(),
            message: event.message.unwrap_or_default(),
            count,
            first_seen,
            last_seen,
            labels: metadata.labels.into_iter().collect(),
            object,
        })
    }

    /// Makes the row of a version.
    pub(crate) fn of(cluster: &Arc<str>, version: Version) -> Result<Self, Unreadable> {
        let Version {
            epoch,
            number,
            observed_at,
            event,
            ..
        } = version;
        Self::new(cluster, epoch, number, observed_at, event)
    }

    /// The order of rows in a file: by namespace, kind and name of the object, newest first.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        self.order_without_name(other)
            .then_with(|| self.event.cmp(&other.event))
    }

    /// The order of rows in files of early versions.
    fn order_without_name(&self, other: &Self) -> Ordering {
        let of = |row: &Self| (row.observed, row.epoch, row.version);
        self.place()
            .cmp(&other.place())
            .then_with(|| of(other).cmp(&of(self)))
            .then_with(|| self.uid.cmp(&other.uid))
    }

    /// Returns whether `next` may follow this row in a file, also in one of an early version: it is
    /// another version, and does not come before this one.
    pub(crate) fn may_precede(&self, next: &Self) -> bool {
        match self.order_without_name(next) {
            Ordering::Less => true,
            Ordering::Equal => self.event != next.event,
            Ordering::Greater => false,
        }
    }

    /// Returns when the event was last seen, in milliseconds since 1970, as an archive's store
    /// counts it. It is never within the first hour, whose end stands for an unknown time.
    pub(crate) fn seen(&self) -> i64 {
        seen(self.last_seen)
    }

    /// Returns the place: namespace, kind and name of the object, by which rows are sorted first.
    pub(crate) fn place(&self) -> [&str; 3] {
        [&self.namespace, &self.kind, &self.name]
    }

    /// Returns whether both are the same version of the same event.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |row: &Self| (row.epoch, row.version);
        of(self) == of(other) && self.uid == other.uid && self.event == other.event
    }

    /// Returns the hash of the row, for the sum of its file.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for number in [self.epoch, self.version, self.observed.cast_unsigned()] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(&self.object);
        hash.digest()
    }
}

/// Converts a time; see [`Row::seen`].
pub(crate) fn seen(micros: Option<i64>) -> i64 {
    let millis = micros.map_or(0, |micros| micros.div_euclid(1000));
    millis.max(HOUR_MILLIS)
}

/// Returns when an event first happened, in microseconds since 1970.
fn first_seen(event: &Event) -> Option<i64> {
    codec::times(event)
        .first_seen()
        .map(Timestamp::as_microsecond)
}
