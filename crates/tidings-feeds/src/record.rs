//! What a receiver gets.

use k8s_pb::api::core::v1::{Event, EventSeries};
use tidings_api::codec;
use tidings_history::{Gap, Skip, Version};
use tidings_store::UnixMillis;

/// The cluster whose events are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The cluster's name in the archive.
    pub cluster: String,
    /// The cluster's identity, the uid of its namespace kube-system; empty if it is not known.
    pub uid: String,
}

/// One record of a delivery.
#[derive(Clone, Debug)]
pub struct Record {
    /// The key by which a receiver recognizes a record that comes twice. It is unique within the
    /// cluster.
    pub id: String,
    /// What the record says.
    pub body: RecordBody,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum RecordBody {
    /// A version of an event.
    Version(Box<VersionRecord>),
    /// A period in which versions may be missing in the archive.
    Gap(Gap),
    /// Versions that the archive had, and that are not delivered because the backlog was beyond
    /// its bounds.
    Skip(Skip),
    /// A test record, which proves that the receiver takes records.
    Test {
        /// When it was made.
        at: UnixMillis,
        /// What it says to those who read it at the receiver.
        text: String,
    },
}

/// A version of an event that is delivered.
#[derive(Clone, Debug)]
pub struct VersionRecord {
    /// The version as the archive keeps it.
    pub version: Version,
    /// The event, decoded. Its resourceVersion is the version's number.
    pub event: Event,
    /// New occurrences since the version of the event that was delivered before: the sum over all
    /// records of an event is its count.
    pub occurrences: u64,
}

impl VersionRecord {
    /// Returns how often the event occurred so far, at least once: `series.count`, or else `count`.
    pub fn count(&self) -> u64 {
        let series = self.event.series.as_ref().map(EventSeries::count);
        let count = series.unwrap_or(self.event.count.unwrap_or(1));
        u64::try_from(count).unwrap_or(0).max(1)
    }

    /// Whether it is the first version of its event.
    pub(crate) fn is_first(&self) -> bool {
        self.occurrences == self.count()
    }
}

impl Record {
    /// Whether the record is a version of an event.
    pub fn is_version(&self) -> bool {
        matches!(self.body, RecordBody::Version(_))
    }

    /// Makes the record of a version.
    ///
    /// # Errors
    /// The reason why the bytes of the version are not an event.
    pub fn version(version: Version, occurrences: u64) -> Result<Self, String> {
        let event = codec::decode_stored(&version.event, version.number)?;
        let id = format!("{}/{}/{}", version.uid, version.epoch, version.number);
        let body = RecordBody::Version(Box::new(VersionRecord {
            version,
            event,
            occurrences,
        }));
        Ok(Self { id, body })
    }

    /// Makes the record of a gap.
    pub fn gap(gap: Gap) -> Self {
        Self {
            id: format!(
                "gap/{}/{}/{}/{}",
                gap.namespace,
                gap.from.0,
                gap.to.0,
                gap.cause.name()
            ),
            body: RecordBody::Gap(gap),
        }
    }

    /// Makes the record of versions that a feed does not deliver. Each feed has its own skips, also
    /// if feeds share a receiver.
    pub fn skip(feed: &str, skip: Skip) -> Self {
        let (from, to) = (skip.from.0, skip.to.0);
        Self {
            id: format!("skip/{feed}/{from}/{to}/{}", skip.versions),
            body: RecordBody::Skip(skip),
        }
    }

    /// Makes a test record.
    pub fn test(at: UnixMillis, text: String) -> Self {
        Self {
            id: format!("test/{}", at.0),
            body: RecordBody::Test { at, text },
        }
    }
}
