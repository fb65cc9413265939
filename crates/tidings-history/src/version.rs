//! One version of an event: its state between two changes at its source.

use std::sync::Arc;

use bytes::Bytes;
use tidings_store::UnixMillis;

/// Annotation of an event in an answer: when the archive received this version, in RFC 3339 with
/// milliseconds.
pub const OBSERVED_AT: &str = "tidings/observed-at";
/// Annotation of an event's newest version: when the archive noted the event's end at its source,
/// in RFC 3339 with milliseconds.
pub const ENDED_AT: &str = "tidings/ended-at";
/// Annotation of an event's newest version: the last time at which the event is known to have
/// existed, if it ended while its source was not followed. In RFC 3339 with milliseconds.
pub const ENDED_AFTER: &str = "tidings/ended-after";

/// A version of an event. Within a cluster, `uid`, `epoch` and `number` identify it.
///
/// ```
/// use tidings_history::Version;
/// use tidings_store::UnixMillis;
///
/// let version = Version {
///     uid: "0b1c2d3e".into(),
///     epoch: 0,
///     number: 4711,
///     observed_at: UnixMillis(1_767_225_600_000),
///     event: bytes::Bytes::from_static(b"k8s\0"),
/// };
/// let later = Version { number: 4712, ..version.clone() };
/// assert!(version.order() < later.order());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid` of the event.
    pub uid: Arc<str>,
    /// How often the source went back to an earlier state, such as a backup, before this version.
    pub epoch: u64,
    /// The event's resourceVersion at its source.
    pub number: u64,
    /// When the archive received the version.
    pub observed_at: UnixMillis,
    /// The event in Kubernetes' protobuf, without a resourceVersion, as an API server stores it.
    pub event: Bytes,
}

impl Version {
    /// Returns the epoch and the number. In this order the source wrote the versions of an event.
    pub fn order(&self) -> (u64, u64) {
        (self.epoch, self.number)
    }
}

/// A page of the versions of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// The versions, newest first.
    pub versions: Vec<Version>,
    /// Place of the next page, if there is one.
    pub more: Option<u64>,
    /// The event's end at its source, if the archive noted one.
    pub ended: Option<Ended>,
}

/// The end of an event at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When the archive noted the end.
    pub at: UnixMillis,
    /// Last time at which the event is known to have existed, if it ended while its source was not
    /// followed.
    pub after: Option<UnixMillis>,
}
