//! What encoders read of a record: one set of facts for versions, gaps, skips and test records.

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, EventSeries, ObjectReference};
use tidings_api::codec;
use tidings_core::floor_char_boundary;
use tidings_history::timestamp;
use tidings_store::UnixMillis;

use crate::record::{Record, RecordBody, VersionRecord};

/// The reason of a record about a gap.
pub const GAP_REASON: &str = "VersionsMayBeMissing";
/// The reason of a record about a skip.
pub const SKIP_REASON: &str = "VersionsNotDelivered";
/// The reason of a test record.
pub const TEST_REASON: &str = "TestRecord";

/// The value of a label in place of others.
pub(crate) const OTHER: &str = "other";
/// Maximum bytes of a label's value.
pub(crate) const LABEL_LEN_MAX: usize = 128;

/// What a record is about.
#[derive(Clone, Debug)]
pub enum Facts<'a> {
    /// A version of an event.
    Event(EventFacts<'a>),
    /// A statement of the archive.
    Notice(Notice<'a>),
}

/// The parts of an event that encoders read. Absent texts are empty.
#[derive(Clone, Copy, Debug)]
pub struct EventFacts<'a> {
    /// The version with its event.
    pub record: &'a VersionRecord,
    /// The object that the event is about.
    pub object: &'a ObjectReference,
}

/// A statement of the archive about its own delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<'a> {
    /// [`GAP_REASON`], [`SKIP_REASON`] or [`TEST_REASON`].
    pub reason: &'static str,
    /// `Warning` or `Normal`, as in events.
    pub event_type: &'static str,
    /// The namespace that a gap is about; empty for the whole cluster.
    pub namespace: &'a str,
    /// The time of the record: the end of a gap or skip.
    pub at: UnixMillis,
    /// The text for people.
    pub message: String,
}

impl Record {
    /// Returns what encoders read of the record.
    pub fn facts(&self) -> Facts<'_> {
        static NO_OBJECT: ObjectReference = ObjectReference {
            kind: None,
            namespace: None,
            name: None,
            uid: None,
            api_version: None,
            resource_version: None,
            field_path: None,
        };
        match &self.body {
            RecordBody::Version(record) => Facts::Event(EventFacts {
                object: record.event.involved_object.as_ref().unwrap_or(&NO_OBJECT),
                record,
            }),
            RecordBody::Gap(gap) => Facts::Notice(Notice {
                reason: GAP_REASON,
                event_type: "Warning",
                namespace: &gap.namespace,
                at: gap.to,
                message: format!(
                    "versions may be missing from {} to {}: {}",
                    timestamp(gap.from),
                    timestamp(gap.to),
                    gap.cause.name()
                ),
            }),
            RecordBody::Skip(skip) => Facts::Notice(Notice {
                reason: SKIP_REASON,
                event_type: "Warning",
                namespace: "",
                at: skip.to,
                message: format!(
                    "{} versions were not delivered, observed from {} to {}",
                    skip.versions,
                    timestamp(skip.from),
                    timestamp(skip.to)
                ),
            }),
            RecordBody::Test { at, text } => Facts::Notice(Notice {
                reason: TEST_REASON,
                event_type: "Normal",
                namespace: "",
                at: *at,
                message: text.clone(),
            }),
        }
    }

    /// Returns the effective time: when the event was last seen, or when the version was observed
    /// if the event states no time; of other records, the time of their [`Notice`].
    pub fn at(&self) -> Timestamp {
        match self.facts() {
            Facts::Event(event) => event.at(),
            Facts::Notice(notice) => timestamp(notice.at),
        }
    }
}

impl Record {
    /// Returns when the archive observed the version; of other records, the time of their
    /// [`Notice`].
    pub fn observed(&self) -> Timestamp {
        match self.facts() {
            Facts::Event(event) => event.observed(),
            Facts::Notice(notice) => timestamp(notice.at),
        }
    }
}

impl<'a> EventFacts<'a> {
    /// Returns the event.
    pub fn event(&self) -> &'a Event {
        &self.record.event
    }

    /// Returns the effective time, as [`Record::at`] does.
    pub fn at(&self) -> Timestamp {
        codec::last_seen(self.event()).unwrap_or_else(|| self.observed())
    }

    /// Returns when the archive observed the version.
    pub fn observed(&self) -> Timestamp {
        timestamp(self.record.version.observed_at)
    }

    /// Returns `source.component`, or else `reportingComponent`.
    pub fn controller(&self) -> &'a str {
        match self.component() {
            "" => self.event().reporting_component(),
            component => component,
        }
    }

    /// Returns `source.component`.
    pub fn component(&self) -> &'a str {
        self.event().source.as_ref().map_or("", |s| s.component())
    }

    /// Returns `source.host`.
    pub fn host(&self) -> &'a str {
        self.event().source.as_ref().map_or("", |s| s.host())
    }

    /// Returns the node that the event is about, or else the host that reported it.
    pub fn node(&self) -> &'a str {
        if self.is_about("", "Node") {
            self.object.name()
        } else {
            self.host()
        }
    }

    /// Returns how often the event occurred so far: `count`, or else `series.count`; 0 if it
    /// states neither.
    pub fn count(&self) -> i32 {
        match self.event().count() {
            0 => self.event().series.as_ref().map_or(0, EventSeries::count),
            count => count,
        }
    }

    /// Whether the involvedObject is one of these kinds of Kubernetes' own, by its group. Kinds of
    /// others have the same names: `Job` of Volcano, `Node` of Rancher. A reference may lack its
    /// apiVersion.
    pub fn is_about(&self, group: &str, kind: &str) -> bool {
        let version = self.object.api_version();
        let of = version.split_once('/').map_or("", |(group, _)| group);
        self.object.kind() == kind && (version.is_empty() || of == group)
    }

    /// Returns the name of the container that the event is about; empty if it is about none.
    pub fn container(&self) -> &'a str {
        let path = self.object.field_path();
        let of = |list: &str| path.strip_prefix(list)?.strip_suffix('}');
        of("spec.containers{")
            .or_else(|| of("spec.initContainers{"))
            .or_else(|| of("spec.ephemeralContainers{"))
            .unwrap_or_default()
    }
}

/// Returns a text as the value of a label: the text, or [`OTHER`] if it is long or has other
/// characters than names have.
pub(crate) fn label_value(text: &str) -> &str {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    if text.len() <= LABEL_LEN_MAX && text.bytes().all(is_name) {
        text
    } else {
        OTHER
    }
}

/// Returns nanoseconds since 1970. A time beyond 64 bits becomes the nearest one.
pub(crate) fn nanoseconds(at: Timestamp) -> i64 {
    let nanoseconds = at.as_nanosecond();
    nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Returns the longest beginning of a text that has at most so many bytes.
pub(crate) fn beginning(text: &str, len_max: usize) -> &str {
    &text[..floor_char_boundary(text, len_max)]
}
